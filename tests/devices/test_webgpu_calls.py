"""The two ways in which the webgpu device calls wgpu: both do the same."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import Any

import numpy as np
import pytest
from tests.devices.test_webgpu import losses, models
from tests.helpers.walled import opened

import contraflow as cf
from contraflow import config
from contraflow.devices.webgpu import raw_calls
from contraflow.devices.webgpu.calls import PublicCalls
from contraflow.devices.webgpu.device import WebgpuDevice
from contraflow.devices.webgpu.raw_calls import RawCalls

WAYS = {"public": PublicCalls, "raw": RawCalls}


@pytest.fixture(params=WAYS)
def device(request: Any, webgpu: Any) -> Any:
    """A device of its own that calls wgpu in one way, and is called after it."""

    def make() -> WebgpuDevice:
        found = WebgpuDevice(WAYS[request.param])
        found.name = request.param
        return found

    with opened(make, request.param) as found:  # type: ignore[arg-type]
        yield found


def test_the_installed_version_is_one_of_those_that_raw_calls_know(webgpu):
    assert raw_calls.is_known()
    assert type(webgpu.calls) is RawCalls


def test_versions_that_are_not_known_are_called_by_the_public_interface(webgpu, monkeypatch):
    monkeypatch.setattr(raw_calls.wgpu, "version_info", (0, 99, 0))
    assert not raw_calls.is_known()
    assert type(WebgpuDevice().calls) is PublicCalls


@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_training(device, mode):
    make = models()["mlp"]
    np.testing.assert_allclose(
        losses(device.name, make, mode), losses("cpu", make, mode), rtol=2e-4
    )


def test_transfers_copies_and_indices(device):
    x = cf.tensor(np.arange(5000, dtype=np.float32), device=device.name)
    y = x.clone()
    y[10:20] = 0.0
    assert (x - y).sum().item() == float(sum(range(10, 20)))
    with pytest.raises(IndexError, match="index 5000 is out of range"):
        x[cf.tensor([5000], device=device.name)]
    assert x[cf.tensor([4999], device=device.name)].item() == 4999.0


def test_a_text_that_does_not_compile_is_an_error_of_ours(device):
    layout = device.calls.layout({0: "uniform"}, dynamic=1)
    compile_text = partial(device.calls.pipeline, entry="main", layout=layout)
    with pytest.raises(cf.DeviceError, match=r"^webgpu: "):
        compile_text("@compute @workgroup_size(1) fn main() { let x: i32 = 1.5; }")


def test_new_pipelines_of_a_call_are_made_by_several_threads_and_once(device, monkeypatch):
    makers = list[tuple[int, str]]()
    pipeline = device.calls.pipeline

    def noted(code: str, entry: str, layout: Any) -> Any:
        makers.append((threading.get_ident(), entry))
        time.sleep(0.05)  # others find work
        return pipeline(code, entry, layout)

    monkeypatch.setattr(device.calls, "pipeline", noted)
    monkeypatch.setattr(config, "num_threads", 2)
    x = cf.tensor(np.arange(12, dtype=np.float32).reshape(3, 4), device=device.name)
    step = cf.compile(lambda x: (x.softmax(1) @ x.T).cumsum(0).flip(1))
    first = step(x).cpu().numpy()
    assert len({thread for thread, _ in makers}) == 2
    assert len({entry for _, entry in makers}) == len(makers)  # only the variant that runs
    before = len(makers)
    np.testing.assert_array_equal(step(x).cpu().numpy(), first)
    assert len(makers) == before
