"""The words of a graph: what reaches the GPU's memory, by a stand-in for the kernel."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.devices.test_cuda_driver import recorded

import contraflow as cf
from contraflow.devices.cuda import graph as graph_module
from contraflow.devices.cuda.graph import KernelNode
from contraflow.devices.cuda.graph_words import (
    COPIES,
    FEW_COPIES,
    FEW_WORDS,
    WORDS,
    GraphWords,
    StagedInput,
)
from contraflow.devices.cuda.runs import LINE_BITS


class Kernel:
    """`set_words` on the host, over its arguments as the driver is given them."""

    def __init__(self) -> None:
        self.runs = 0

    def __call__(self, *args: Any) -> int:
        self.runs += 1
        grid, table = [x.value for x in args[1:4]], ctypes.c_void_p.from_address
        at = args[-2].value
        target, given, copies = (table(at + 8 * i).value for i in range(3))
        target = ctypes.c_uint64.from_address(target).value
        count = ctypes.c_uint64.from_address(given).value
        assert count <= WORDS
        ctypes.memmove(target, given + 8, 8 * count)
        most = FEW_COPIES if count <= FEW_WORDS and grid[1] <= FEW_COPIES else COPIES
        rows = np.ctypeslib.as_array((ctypes.c_uint64 * (3 * most)).from_address(copies))
        for source, place, size in rows.reshape(3, most).T.tolist()[: grid[1]]:
            ctypes.memmove(place, source, size)
        return 0


def words_of(count: int) -> Any:
    return SimpleNamespace(block=(ctypes.c_uint64 * count)(*range(100, 100 + count)))


@pytest.fixture
def kernel(monkeypatch) -> Any:
    with recorded() as (device, _):
        found = Kernel()
        monkeypatch.setattr(device.driver, "quick", lambda name: found)
        yield found, device


@pytest.mark.parametrize("count", [0, 1, FEW_WORDS, WORDS - 1, WORDS, 3 * WORDS - 1])
def test_all_words_arrive_and_only_what_is_new_is_sent(kernel, count):
    run, device = kernel
    words = words_of(count)
    memory = (ctypes.c_uint64 * (1 + count))()
    assert GraphWords.size(words) == ctypes.sizeof(memory)
    given = GraphWords(device, words, ctypes.addressof(memory), [])
    given.update(7)
    assert list(memory) == [7 << LINE_BITS, *words.block]
    sent = run.runs
    assert sent == -(-(1 + count) // WORDS)
    assert given.update(0) == 0
    assert run.runs == sent  # nothing has changed
    given.update(8)
    assert memory[0] == 8 << LINE_BITS
    assert run.runs == sent + 1
    if count:
        words.block[count - 1] = 5
        given.update(0)
        assert memory[count] == 5
        assert GraphWords.word(count - 1) == 8 * count
        assert run.runs == sent + 2


@pytest.mark.parametrize("count", [1, FEW_COPIES + 1, COPIES, COPIES + 3])
def test_buffers_that_vary_are_copied_at_every_run(kernel, count):
    run, device = kernel
    words = words_of(count)
    memory, places = (ctypes.c_uint64 * (1 + count))(), np.zeros((count, 5), np.uint8)
    staged = [StagedInput(i, places[i].ctypes.data, 5) for i in range(count)]
    given = GraphWords(device, words, ctypes.addressof(memory), staged)
    for _ in range(2):
        batch = np.random.default_rng(run.runs).integers(0, 255, (count, 5), np.uint8)
        for i in range(count):
            words.block[i] = batch[i].ctypes.data
        given.update(0)
        assert (places == batch).all()
    before = run.runs
    batch[:] = 3  # in the same place
    given.update(0)
    assert (places == 3).all()
    assert run.runs == before + -(-count // COPIES)


def test_a_launch_that_fails_is_told(monkeypatch):
    with recorded() as (device, _):
        monkeypatch.setattr(device.driver, "quick", lambda name: lambda *args: 719)
        memory = (ctypes.c_uint64 * 4)()
        assert GraphWords(device, words_of(3), ctypes.addressof(memory), []).update(1) == 719


def test_what_writes_state_waits_for_all_that_may_find_a_wrong_index(monkeypatch):
    """A loss reads its classes beside the gradient, which does not need it."""
    found: list[Any] = []
    whole = graph_module.dependencies

    def noted(nodes: Any) -> Any:
        found.append((nodes, whole(nodes)))
        return found[-1][1]

    monkeypatch.setattr(graph_module, "dependencies", noted)
    with recorded():
        weight = cf.ones(8, 5, device="recorded", requires_grad=True)
        optimizer = cf.optim.Adam([weight])

        @cf.compile
        def step(x: cf.Tensor, y: cf.Tensor) -> cf.Tensor:
            optimizer.zero_grad()
            loss = cf.nn.functional.cross_entropy((x @ weight).tanh(), y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        for _ in range(8):
            step(cf.ones(4, 8, device="recorded"), cf.zeros(4, dtype=cf.int64, device="recorded"))
    nodes, needs = found[-1]
    waits: list[set[int]] = []
    for waited in needs:
        waits.append(set(waited).union(*(waits[j] for j in waited)))
    kernels = {i: node.work for i, node in enumerate(nodes) if isinstance(node.work, KernelNode)}
    risks = {i for i, work in kernels.items() if work.step.may_fail}
    guarded = [i for i, work in kernels.items() if work.variant.guarded]
    assert risks
    assert guarded
    assert all(risks <= waits[i] for i in guarded)
