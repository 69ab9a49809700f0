"""Profiles on a GPU: launches between events take the place of the graph.

Over the driver that notes its calls, by which 1.5 ms pass between two events; at the end on a GPU,
if there is one.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from tests.devices.test_cuda_driver import fail, line_of, recorded
from tests.helpers.cuda_device import opened_gpu
from tests.helpers.marked_lines import lines_of
from tests.helpers.recording_driver import CUresult

import contraflow as cf
from contraflow import thresholds
from contraflow.devices.cuda import compiler
from contraflow.devices.cuda.runs import CALLS
from contraflow.errors import DeviceError
from contraflow.profiler import Event, profile


def training(place: str) -> tuple[Any, cf.Tensor]:
    w = cf.ones(12, 6, device=place, requires_grad=True)
    optimizer = cf.optim.SGD([w], lr=0.1)

    @cf.compile
    def step(x: cf.Tensor) -> cf.Tensor:
        optimizer.zero_grad()
        h = x @ w  # product
        loss = h.softmax(-1).square().sum()  # loss
        loss.backward()
        optimizer.step()  # update
        return loss.detach()

    return step, cf.ones(8, 12, device=place)


def kernels(p: profile) -> list[Event]:
    return [e for e in p.events if e.kind == "kernel"]


def test_launches_are_timed_by_events_and_named_by_lines():
    with recorded() as (_, library):
        step, x = training("recorded")
        for _ in range(2 * thresholds.cuda_graph_runs):
            step(x)
        library.calls.clear()
        library.launched.clear()
        with profile() as p:
            step(x)
        called = [name for name, _ in library.calls]
        assert "cuGraphLaunch" not in called
        assert library.launched[0] == "delay"  # the GPU is busy until all are launched
        found = kernels(p)
        assert [e.name for e in found] == library.launched[1:]
        assert called.count("cuEventRecord") == len(found) + 1
        assert [round(e.total, 9) for e in found] == [0.0015] * len(found)
        for before, after in pairwise(found):
            assert after.start == pytest.approx(before.start + before.total)
        at = lines_of(training)
        ops = {(e.op, str(e.line)) for e in found}
        assert ("matmul", at["product"]) in ops
        assert ("matmul backward", at["product"]) in ops or any(
            at["product"] in map(str, e.others) for e in found
        )
        assert {str(e.line) for e in found} <= set(at.values())
        library.calls.clear()
        step(x)
        assert "cuGraphLaunch" in [name for name, _ in library.calls]


def test_long_programs_are_timed_in_parts(monkeypatch):
    monkeypatch.setattr("contraflow.devices.cuda.program.MOST_TIMED", 2)
    with recorded() as (_, library):
        x = cf.ones(3, 4, device="recorded")
        run = cf.compile(lambda x: [x.sum(0).cumsum(0), x.sum(1).cumsum(0), x.sort(1)[0]])
        run(x)
        library.calls.clear()
        library.launched.clear()
        with profile() as p:
            run(x)
        found = kernels(p)
        assert len(found) >= 5
        waits = [name for name, _ in library.calls].count("cuEventSynchronize")
        assert waits == -(-len(found) // 2)
        assert [e.name for e in found] == [name for name in library.launched if name != "delay"]


def test_an_op_of_eager_mode_is_timed_without_a_delay():
    with recorded() as (_, library):
        x = cf.ones(3, 4, device="recorded")
        x.exp()
        library.launched.clear()
        with profile() as p:
            x.exp()
        (kernel,) = kernels(p)
        assert library.launched == [kernel.name]
        (op,) = (e for e in p.events if e.kind == "op")
        assert (kernel.op, kernel.line, kernel.total) == ("exp", op.line, 0.0015)


def test_a_failed_launch_under_a_profile_names_op_and_line():
    def launched(x: cf.Tensor) -> cf.Tensor:
        return x.cumsum(0).sort(0)[0]

    with recorded() as (_, library):
        run = cf.compile(launched)
        x = cf.ones(5, device="recorded")
        run(x)
        with profile():
            run(x)
            library.fails["cuLaunchKernel"] = CUresult.CUDA_ERROR_LAUNCH_FAILED
            with pytest.raises(DeviceError, match="CUDA_ERROR_LAUNCH_FAILED"):
                run(x)


def test_a_wrong_index_under_a_profile_takes_the_call_back():
    with recorded() as (device, _):
        table = cf.nn.Embedding(5, 4).to("recorded")
        optimizer = cf.optim.Adam(table.parameters())

        @cf.compile
        def step(tokens):
            optimizer.zero_grad()
            loss = table(tokens).square().sum()
            loss.backward()
            optimizer.step()
            return loss

        tokens = cf.tensor([0, 1], device="recorded")
        for _ in range(3):
            step(tokens)
        device.synchronize()
        cell = optimizer.state[table.weight]["step"]
        assert cell.value == 3
        with profile():
            step(tokens)
            (run,) = device.outcomes.pending._runs
            fail(device, CALLS, (run.number << 32) + 1, 9)
            with pytest.raises(IndexError, match="index 9 is out of range for size 5"):
                device.synchronize()
        assert cell.value == 3


def test_a_rejected_kernel_of_a_compiled_function_names_the_line_of_its_op(monkeypatch):
    """A kernel that checks no indices was blamed on the first line of the tape."""
    compiled = compiler.compile_text

    def reject(text: str, name: str, architecture: str) -> bytes:
        if "log1p" in text:
            raise DeviceError("cuda: NVRTC rejects it")
        return compiled(text, name, architecture)

    def rejected(x: cf.Tensor) -> cf.Tensor:
        y = x.sum(0)
        return y.cumsum(0).log1p()

    monkeypatch.setattr(compiler, "compile_text", reject)
    monkeypatch.setattr(compiler.cache, "read_all", lambda kind, names: [None] * len(names))
    monkeypatch.setattr(compiler.cache, "write", lambda kind, name, content: None)
    with recorded(), pytest.raises(DeviceError) as caught:
        cf.compile(rejected)(cf.ones(3, 5, device="recorded"))
    text = f"log1p: NVRTC rejects it, at test_cuda_profile.py:{line_of(rejected)}."
    assert str(caught.value) == text


def test_kernels_of_a_gpu_have_lines_and_times():
    with opened_gpu("gpu"):
        step, x = training("gpu")
        for _ in range(2 * thresholds.cuda_graph_runs):
            expected = step(x).item()
        with profile() as p:
            found = step(x).item()
        assert found == pytest.approx(expected, rel=0.5)
        at = lines_of(training)
        assert {str(e.line) for e in kernels(p)} <= set(at.values())
        assert "matmul" in {e.op for e in kernels(p)}
        assert all(0.0 < e.total < 1e-3 for e in kernels(p))
