"""What can go wrong with the webgpu device, and what is said then."""

from __future__ import annotations

from typing import Any

import pytest

import contraflow as cf
from contraflow import config
from contraflow.capture.rewriting import library
from contraflow.devices.webgpu import adapters
from contraflow.devices.webgpu.adapters import WebgpuMemoryError
from contraflow.devices.webgpu.device import WebgpuDevice

LOST = (
    r"^webgpu: the device was lost \(.*\), with all tensors on it\. contraflow\.webgpu\.reset\(\)"
)


def test_without_the_package(monkeypatch):
    monkeypatch.setattr(adapters, "_missing", ImportError("No module named 'wgpu'"))
    with pytest.raises(cf.DeviceError) as caught:
        WebgpuDevice()
    assert str(caught.value) == (
        "webgpu: the package wgpu cannot be imported (No module named 'wgpu'). "
        "Install it: pip install 'contraflow[webgpu]'."
    )


def test_without_an_adapter(monkeypatch):
    monkeypatch.setattr(adapters, "_missing", None)
    monkeypatch.setattr(adapters, "_found", [])
    with pytest.raises(cf.DeviceError, match=r"there is no adapter on this machine.*webgpu.md"):
        WebgpuDevice()


def test_an_adapter_that_is_not_there(webgpu, monkeypatch):
    monkeypatch.setattr(config, "webgpu_adapter", "Voodoo 2")
    with pytest.raises(cf.DeviceError, match=r"no adapter has 'Voodoo 2' .* there is .*\."):
        WebgpuDevice()
    monkeypatch.setattr(config, "webgpu_adapter", webgpu.description[:5].upper())
    assert WebgpuDevice().description == webgpu.description


@pytest.fixture
def lost(webgpu: Any) -> Any:
    """A device that is lost in a test, and opened again after it."""
    yield webgpu
    cf.webgpu.reset()


def test_a_device_that_is_lost_while_training(lost):
    weight = cf.ones(4, device="webgpu", requires_grad=True)
    optimizer = cf.optim.SGD([weight], lr=0.1)
    other = cf.arange(3.0)

    @cf.compile
    def step(x):
        optimizer.zero_grad()
        loss = (weight * x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    x = cf.ones(4, device="webgpu")
    for _ in range(3):
        step(x).item()
    lost.wgpu_device.destroy()
    for use in (lambda: step(x).item(), weight.tolist, lambda: (x + 1).sum().item()):
        with pytest.raises(cf.DeviceError, match=LOST):
            use()
    with pytest.raises(cf.DeviceError, match=LOST):
        cf.tensor([1.0, 2.0], device="webgpu").tolist()
    assert (other + 1).tolist() == [1.0, 2.0, 3.0]

    cf.webgpu.reset()
    for use in (lambda: step(x).item(), weight.tolist, lambda: (x + 1).sum().item()):
        with pytest.raises(cf.DeviceError, match="lies on a device that was lost or reset"):
            use()
    twice = cf.compile(lambda x: x * 2)
    assert twice(cf.ones(4, device="webgpu")).tolist() == [2.0] * 4
    assert (other.to("webgpu") + 1).tolist() == [1.0, 2.0, 3.0]


def test_compiled_functions_go_on_after_a_reset(lost):
    f = cf.compile(lambda x: (x * 2 + 1).sum())
    for _ in range(3):
        assert f(cf.ones(4, device="webgpu")).item() == 12.0
    cf.webgpu.reset()
    for _ in range(3):
        assert f(cf.ones(4, device="webgpu")).item() == 12.0
    assert f.captures == 1


def test_a_buffer_that_is_too_large(webgpu, monkeypatch):
    monkeypatch.setattr(webgpu.pool, "_largest", 1 << 20)
    elements = (1 << 18) + 1
    text = rf"^.*webgpu: a buffer of {4 * elements:,} bytes is larger than this adapter allows"
    with pytest.raises(cf.DeviceError, match=text):
        cf.zeros(elements, device="webgpu")
    row = cf.ones(1, elements // 2, device="webgpu")
    with pytest.raises(cf.DeviceError, match=text[:20]):
        cf.cat([row, row, row])


def test_memory_that_is_not_used_makes_room(webgpu, monkeypatch):
    cf.ones(3000, device="webgpu").sum().item()
    create, failures = webgpu.calls.buffer, [1]

    def buffer(nbytes: int, usage: int) -> Any:
        if failures:
            raise WebgpuMemoryError(f"out of memory {failures.pop()}")
        return create(nbytes, usage)

    monkeypatch.setattr(webgpu.calls, "buffer", buffer)
    assert cf.ones(50_000, device="webgpu").sum().item() == 50_000.0
    assert not failures
    failures += [1, 2]
    with pytest.raises(cf.DeviceError, match=r"has no memory left for a buffer of .* bytes"):
        cf.ones(70_000, device="webgpu")
    failures.clear()
    assert cf.ones(70_000, device="webgpu").sum().item() == 70_000.0


def test_a_shader_that_does_not_compile_asks_for_a_report(webgpu, monkeypatch):
    broken = lambda kernel, large: "fn main() { 1 }"  # noqa: E731
    monkeypatch.setattr("contraflow.render.clike.wgsl.render", broken)
    with pytest.raises(cf.DeviceError, match=r"(?s)^webgpu: .*please report it"):
        cf.ones(3, device="webgpu").erfinv()


def test_a_forked_process_is_told(webgpu, monkeypatch):
    monkeypatch.setattr("contraflow.devices.webgpu.device.getpid", lambda: -1)
    with pytest.raises(cf.DeviceError, match="forked from one that uses the device"):
        cf.ones(3, device="webgpu").tolist()


def test_the_functions_of_the_device(webgpu):
    assert cf.webgpu.is_available()
    assert cf.webgpu.get_device_name() in cf.webgpu.adapters()
    x = cf.ones(1 << 16, device="webgpu")
    held = cf.webgpu.memory_allocated()
    assert held >= x.nbytes
    cf.webgpu.synchronize()
    del x
    assert cf.webgpu.memory_allocated() == held - 4 * (1 << 16)
    cf.webgpu.empty_cache()
    assert cf.webgpu.memory_reserved() == cf.webgpu.memory_allocated()


def test_what_the_adapter_does_with_numbers(webgpu):
    text = cf.webgpu.check()
    print(text)
    rows = dict(row.split(": ") for row in text.splitlines())
    assert rows["adapter"] == webgpu.description
    # These are relied upon: what is stored stays what it is.
    assert rows["NaN is loaded and stored as it is"] == "yes"
    x = cf.tensor([float("nan"), float("inf"), -1.0], device="webgpu")
    assert x.isnan().tolist() == [True, False, False]
    assert cf.maximum(x, cf.zeros(3, device="webgpu")).isnan().tolist() == [True, False, False]


def test_the_code_that_drives_the_device_is_not_the_users(webgpu):
    api, wgpu = map(pytest.importorskip, ("cffi.api", "wgpu"))
    for function in (api.FFI.from_buffer, wgpu.GPUDevice.create_buffer):
        assert library.is_library_code(function.__code__, function.__globals__)
