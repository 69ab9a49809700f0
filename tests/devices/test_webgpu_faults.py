"""What can go wrong with the webgpu device, and what is said then."""

from __future__ import annotations

import gc
import re
import weakref
from typing import Any

import pytest

import contraflow as cf
from contraflow import config
from contraflow.capture.rewriting import library
from contraflow.devices.webgpu import adapters, probe, program
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
            raise cf.OutOfMemoryError(f"out of memory {failures.pop()}")
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
    with pytest.raises(cf.DeviceError, match="forked from one that uses the device"):
        cf.webgpu.reset()


@pytest.mark.parametrize("why", ["lost", "forked"])
def test_every_use_of_a_device_that_cannot_be_used_is_refused(why, webgpu, monkeypatch):
    """Not only the first read behind it."""
    x, pair = cf.ones(4, device="webgpu"), [cf.ones(4, device="webgpu") for _ in range(2)]
    twice = cf.compile(lambda x: x * 2)
    for _ in range(3):
        twice(x).tolist()
    (x + x).tolist()
    del pair  # memory that is there
    if why == "lost":
        monkeypatch.setattr(webgpu, "lost", "a test")
    else:
        monkeypatch.setattr("contraflow.devices.webgpu.device.getpid", lambda: -1)
    message = LOST if why == "lost" else "forked from one that uses the device"
    uses = [
        lambda: x + x, lambda: x.exp().cumsum(0), lambda: twice(x), x.tolist,
        lambda: cf.ones(4, device="webgpu"), lambda: cf.tensor([1.0, 2.0], device="webgpu"),
        cf.webgpu.synchronize,
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(cf.DeviceError, match=message):
            use()
    monkeypatch.undo()
    assert (x + x).tolist() == [2.0] * 4


def test_kernels_that_could_not_be_submitted_lose_the_device(lost, monkeypatch):
    """Nobody knows what the tensors hold that they would have written."""
    x = cf.ones(4, device="webgpu")
    x.tolist()

    def submit(commands: Any) -> None:
        raise cf.DeviceError("webgpu: a test")

    monkeypatch.setattr(lost.calls, "submit", submit)
    y = x + 1
    with pytest.raises(cf.DeviceError, match="a test"):
        y.tolist()
    monkeypatch.undo()
    with pytest.raises(cf.DeviceError, match=LOST):
        y.tolist()


def test_a_read_that_finds_no_memory_can_be_made_again(webgpu, monkeypatch):
    x = cf.ones(1 << 17, device="webgpu")
    monkeypatch.setattr(webgpu, "_staging_bytes", 0)

    def buffer(nbytes: int, usage: int) -> Any:
        raise cf.OutOfMemoryError("webgpu: out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(webgpu.calls, "buffer", buffer)
        with pytest.raises(cf.DeviceError, match="out of memory"):
            x.tolist()
    assert x.tolist() == [1.0] * (1 << 17)


def test_a_read_that_fails_goes_through_another_buffer_next(webgpu, monkeypatch):
    """The first may be left mapped, and would be refused."""
    x = cf.ones(3, device="webgpu")
    x.tolist()
    before = webgpu._staging

    def read(staging: Any, target: Any) -> None:
        raise cf.DeviceError("webgpu: a test")

    with monkeypatch.context() as patch:
        patch.setattr(webgpu.calls, "read", read)
        with pytest.raises(cf.DeviceError, match="a test"):
            x.tolist()
    assert x.tolist() == [1.0] * 3
    assert webgpu._staging is not before


def test_an_output_that_finds_no_memory_after_a_reset_is_made_later(lost, monkeypatch):
    f = cf.compile(lambda x: x * 2)
    x = cf.ones(1000, device="webgpu")
    for _ in range(3):
        f(x).sum().item()
    cf.webgpu.reset()
    x = cf.ones(1000, device="webgpu")

    def create(nbytes: int) -> Any:
        raise cf.OutOfMemoryError("webgpu: out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(lost.pool, "_create", create)
        for _ in range(2):
            with pytest.raises(cf.DeviceError, match="out of memory"):
                f(x)
    assert f(x).sum().item() == 2000.0


def test_a_reset_looks_for_adapters_anew(lost, monkeypatch):
    found = adapters.adapters()
    cf.webgpu.reset()
    assert adapters.adapters() is not found
    assert list(map(adapters.describe, adapters.adapters())) == list(map(adapters.describe, found))


def test_a_program_of_too_many_host_scalars_is_refused(webgpu):
    x = cf.ones(3, device="webgpu")
    numbers = [float(i) for i in range(2, 12)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "SCALAR_BYTES", 1024)

        @cf.compile
        def f(x, *numbers):
            return [(x * n).cumsum(0).sort()[0] for n in numbers]

        with pytest.raises(cf.DeviceError, match=r"numbers of the host, .* 1,024 are the most\. "):
            f(x, *numbers)
    assert f(x, *numbers)[1].tolist() == [3.0, 6.0, 9.0]


def test_more_elements_than_32_bits_count_are_refused(webgpu):
    x = cf.ones(1, device="webgpu").expand(50_000, 50_000)
    with pytest.raises(cf.DeviceError, match=r"^sum: webgpu counts elements in 32 bits, .*\.py:\d"):
        x.sum()


def test_memory_of_programs_that_ran_is_given_back(webgpu):
    """Programs hold the buffers that they were bound to last."""
    gc.collect()  # what other tests have left
    before = cf.webgpu.memory_allocated()
    x = cf.ones(300_000, device="webgpu")
    assert (x * 2.0 + x).exp().sum().item() > 0
    alive = weakref.ref(x.storage.data.memory)
    del x
    gc.collect()
    cf.webgpu.empty_cache()
    assert alive() is None
    assert cf.webgpu.memory_reserved() == cf.webgpu.memory_allocated() <= before


def test_memory_of_temporaries_is_reserved_until_it_is_given_back(webgpu):
    gc.collect()
    cf.webgpu.empty_cache()
    before = cf.webgpu.memory_reserved()
    x = cf.ones(512, 512, device="webgpu")
    step = cf.compile(lambda x: (x @ x).softmax(1) @ x)
    out = step(x)
    assert cf.webgpu.memory_allocated() == before + x.nbytes + out.nbytes
    assert cf.webgpu.memory_reserved() >= before + 3 * x.nbytes  # a product lies between
    cf.webgpu.empty_cache()
    assert cf.webgpu.memory_reserved() == cf.webgpu.memory_allocated()
    assert step(x).sum().item() == pytest.approx(512 * 512)


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


# What an adapter may answer: of most questions WGSL leaves both open.
BYTES = r"[1-9][0-9]{0,2}(,[0-9]{3})* bytes"
ANSWERS = {
    "adapter": ".+",
    "NaN differs from itself": "yes|no",
    "max(NaN, 1) is NaN": "yes|no",
    "inf - inf is NaN": "yes|no",
    "NaN * 0 is NaN": "yes|no",
    "1 / 0 is infinite": "yes|no",
    "NaN is loaded and stored as it is": "yes",  # relied upon: what is stored stays what it is
    "numbers below 1e-38 are loaded and stored as they are": "yes|no",
    "numbers below 1e-38 stay in products": "yes|no",
    "products may lie below 1e-38": "yes|no",
    "a product and a sum are fused": "yes|no",
    "fma rounds once": "yes|no",
    "float16": "yes|no",
    "largest buffer": BYTES,
    "largest part of a buffer that a kernel may have": BYTES,
}


def test_what_the_adapter_does_with_numbers(webgpu):
    text = cf.webgpu.check()
    print(text)
    rows = dict(row.split(": ", 1) for row in text.splitlines())
    assert list(rows) == list(ANSWERS)
    wrong = {name: x for name, x in rows.items() if not re.fullmatch(ANSWERS[name], x)}
    assert not wrong
    assert rows["adapter"] == webgpu.description
    assert rows["float16"] == ("no" if "float16" in webgpu.limits.lacks else "yes")
    assert rows["largest buffer"] == f"{webgpu.largest:,} bytes"
    assert rows["largest part of a buffer that a kernel may have"] == f"{webgpu.binding:,} bytes"
    assert cf.webgpu.check() == text
    x = cf.tensor([float("nan"), float("inf"), -1.0], device="webgpu")
    assert x.isnan().tolist() == [True, False, False]
    assert cf.maximum(x, cf.zeros(3, device="webgpu")).isnan().tolist() == [True, False, False]


@pytest.mark.parametrize("yes", [True, False])
def test_each_answer_of_the_adapter_is_told(yes, webgpu, monkeypatch):
    """Both answers to each question that is put to a kernel, whatever this adapter says."""
    asked = [name for name, values in ANSWERS.items() if values in ("yes|no", "yes")]
    asked.remove("float16")
    found = dict.fromkeys(asked, yes)
    assert list(probe.answers(webgpu)) == asked
    monkeypatch.setattr(probe, "answers", lambda device: found)
    rows = dict(row.split(": ", 1) for row in cf.webgpu.check().splitlines())
    assert {name: rows[name] for name in asked} == dict.fromkeys(asked, "yes" if yes else "no")


def test_the_code_that_drives_the_device_is_not_the_users(webgpu):
    api, wgpu = map(pytest.importorskip, ("cffi.api", "wgpu"))
    for function in (api.FFI.from_buffer, wgpu.GPUDevice.create_buffer):
        assert library.is_library_code(function.__code__, function.__globals__)


def test_a_tensor_that_is_far_too_large_is_refused_before_its_kernels_are_divided(
    webgpu, monkeypatch
):
    monkeypatch.setattr("contraflow.devices.webgpu.windows.divided", None)
    with pytest.raises(
        cf.DeviceError, match=r"8,796,093,022,208 bytes is larger than this adapter"
    ):
        cf.ones(2**20, 2**21, device="webgpu")


def test_views_as_another_dtype_are_of_the_host(webgpu):
    text = (
        r"^view: float32\[2\] on webgpu cannot be viewed as \w*\.?int32: .* Use x\.cpu\(\)\.view\("
    )
    with pytest.raises(cf.DeviceError, match=text):
        cf.ones(2, device="webgpu").view(cf.int32)
