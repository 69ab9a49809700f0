"""Memory of large arrays: used again when nobody shows it, and never before."""

from __future__ import annotations

import copy
import sys
from pathlib import Path

import numpy as np
import pytest

import contraflow as cf
from contraflow.devices.cpu import memory

FLOAT32 = np.dtype(np.float32)
N = memory.LEAST // 4


@pytest.fixture(autouse=True)
def idle(monkeypatch: pytest.MonkeyPatch) -> memory._Idle:
    found = memory._Idle()
    monkeypatch.setattr(memory, "_idle", found)
    return found


def address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def test_memory_that_was_let_go_is_used_again() -> None:
    first = memory.empty((2, N), FLOAT32)
    where = address(first)
    del first
    again = memory.empty((N, 2), FLOAT32)
    assert address(again) == where
    assert (again.shape, again.dtype) == ((N, 2), FLOAT32)
    assert again.flags.c_contiguous
    assert again.flags.writeable


def test_no_memory_is_asked_of_the_system_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    # The system may well give the same address again: what counts is that it is not asked.
    sizes: list[int] = []
    make = memory._new_piece
    monkeypatch.setattr(memory, "_new_piece", lambda size: (sizes.append(size), make(size))[1])
    monkeypatch.setattr(memory, "_idle", memory._Idle())
    for _ in range(5):
        arrays = [memory.empty((2, N), FLOAT32) for _ in range(3)]
        del arrays
    assert len(sizes) == 3


def test_memory_that_somebody_shows_is_not_used_again() -> None:
    first = memory.empty((2, N), FLOAT32)
    where = address(first)
    row, bare = first[1], first.base
    assert bare is not None
    part = bare[64:128]
    del first, bare
    assert address(memory.empty((2, N), FLOAT32)) != where
    del row
    assert address(memory.empty((2, N), FLOAT32)) != where
    del part
    kept = [memory.empty((2, N), FLOAT32) for _ in range(3)]
    assert where in map(address, kept)
    assert len({address(x) for x in kept}) == 3


def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch, idle: memory._Idle) -> None:
    monkeypatch.setattr(memory, "LIMIT", 3 * memory.LEAST)
    arrays = [memory.empty((N,), FLOAT32) for _ in range(8)]
    while arrays:
        arrays.pop()
        assert idle._total == sum(p.size for ps in idle._pieces.values() for p in ps)
        assert idle._total <= memory.LIMIT


def test_arrays_of_the_user_keep_the_memory_of_tensors() -> None:
    x = cf.ones(N)
    y = (x + x).numpy()
    for _ in range(3):
        x * 5.0
        x.exp()
    assert (y == 2).all()


def test_small_arrays_are_numpys_own() -> None:
    assert memory.empty((4,), FLOAT32).base is None


@pytest.mark.parametrize("n", [4, 100, 5000, N])
def test_views_hold_the_array(n: int) -> None:
    array = memory.empty((n, 2), FLOAT32)
    held = sys.getrefcount(array)
    views = [array.reshape(-1), array[1:], array[1:].T]
    assert all(view.base is array for view in views)
    assert sys.getrefcount(array) == held + len(views)


@pytest.mark.parametrize("n", [16, 100, 5000, N, 3 * N + 5])
def test_what_stays_begins_with_a_line_of_a_cache(n: int, tmp_path: Path) -> None:
    x = cf.tensor(np.arange(2 * n, dtype=np.float32)[::2])
    model = cf.nn.Linear(n, 1)
    optimizer = cf.optim.Adam(model.parameters())

    @cf.compile
    def step(x: cf.Tensor) -> cf.Tensor:
        optimizer.zero_grad()
        y = model(x).sum()
        y.backward()
        optimizer.step()
        return x + y

    y = step(x)
    weight = model.weight
    assert weight.grad is not None
    state = optimizer.state[weight]
    cf.save(x, tmp_path / "x")
    made = (x, cf.zeros(n), copy.deepcopy(x), cf.load(tmp_path / "x"))
    for t in (*made, y, weight, weight.grad, state["exp_avg"]):
        assert address(t.detach().numpy()) % memory.ALIGNMENT == 0
    assert x.tolist() == copy.deepcopy(x).tolist() == [float(2 * i) for i in range(n)]
