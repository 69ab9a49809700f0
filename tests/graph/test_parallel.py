"""Backward on several threads: the bits of the sequential order, and no way to hang."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.helpers.engine_common import leaf, refused

import contraflow as cf
from contraflow import thresholds
from contraflow.autograd.modes import no_grad
from contraflow.operation.context import state
from contraflow.tensors.tensor import Tensor


@pytest.fixture(autouse=True)
def every_graph_is_large() -> Iterator[None]:
    """And threads take turns as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    with thresholds.using(parallel_backward=0):
        yield
    sys.setswitchinterval(interval)


def network(seed: int) -> tuple[list[Tensor], Tensor]:
    """Branches that share weights, in float32 so that the order of sums shows in the bits."""
    rng = np.random.default_rng(seed)
    weights = [
        cf.tensor(rng.standard_normal((6, 6)).astype(np.float32), requires_grad=True)
        for _ in range(3)
    ]
    x = cf.tensor(rng.standard_normal((4, 6)).astype(np.float32))
    values = [x]
    for _ in range(40):
        a, b = (values[i] for i in rng.integers(0, len(values), 2))
        w = weights[rng.integers(3)]
        kind = rng.integers(4)
        made = [(a @ w).tanh(), a * b, (a + b).sin(), cf.where(a > 0.0, a, b) * w[0]][kind]
        values.append(made)
    parts = values[-1].split(2)
    return weights, sum((v * v).sum() for v in values[20:]) + parts[1].sum()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("workers", [2, 5])
def test_seed_13_the_bits_equal_sequentials(seed: int, workers: int) -> None:
    weights, loss = network(seed)
    loss.backward()
    again, loss = network(seed)
    loss.backward(workers=workers)
    for a, b in zip(weights, again, strict=True):
        assert a.grad.array.tobytes() == b.grad.array.tobytes()


def test_seed_13_leaves_shared_by_branches_accumulate_without_a_race() -> None:
    x = leaf(*np.linspace(0.0, 1.0, 64))
    for _ in range(20):
        x.grad = None
        sum((x * float(k)).sum() for k in range(100)).backward(workers=8)
        assert x.grad.array.tolist() == [4950.0] * 64


def test_seed_13_an_error_surfaces_and_nothing_hangs() -> None:
    class Broken(cf.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            raise KeyError("in a branch")

    before, threads = state(), set(threading.enumerate())
    for _ in range(20):
        x = leaf(*np.ones(16))
        branches = [(x * float(k)).sin().exp() for k in range(10)]
        branches[3] = Broken.apply(branches[3])
        with pytest.raises(KeyError, match="in a branch"):
            sum(b.sum() for b in branches).backward(workers=4)
        assert x.grad is None
    assert set(threading.enumerate()) <= threads  # other tests may have left some, this one none
    assert state() == before


def test_hooks_run_one_at_a_time() -> None:
    running, seen = [], []

    def hook(g: Tensor) -> Tensor:
        running.append(1)
        seen.append(len(running))
        assert cf.is_grad_enabled() is False
        result = g * 2.0
        running.pop()
        return result

    x = leaf(*np.ones(8))
    branches = [(x * float(k)).sin() for k in range(20)]
    for branch in branches:
        branch.register_hook(hook)
        branch.grad_fn.register_hook(lambda inputs, outputs: (hook(inputs[0]),))
    x.register_hook(hook)
    sum(branches).sum().backward(workers=6)
    assert seen == [1] * 41


def test_workers_have_the_callers_state() -> None:
    seen = set()

    class Look(cf.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            seen.add((cf.is_grad_enabled(), len(state().saved_hooks)))
            return g * 1.0

    x = leaf(1.0)
    with cf.autograd.saved_tensors_hooks(lambda t: t, lambda t: t):
        loss = sum(Look.apply(x * float(k)) for k in range(30))
        loss.backward(workers=4, create_graph=True)
    assert seen == {(True, 1)}
    assert x.grad.item() == sum(range(30))


def test_targets_checkpoints_and_several_orders() -> None:
    def run(workers: int) -> list[bytes]:
        weights, _ = network(0)
        h = cf.ones(4, 6)
        for w in weights * 2:
            h = cf.checkpoint(lambda v, u: cf.dropout((v @ u).tanh(), 0.5), h, w) + h
        middle = h * 2.0
        loss = (middle * middle).sum()
        loss.backward(inputs=[weights[1], middle], workers=workers, create_graph=True)
        assert weights[0].grad is None
        g = weights[1].grad
        (g * g).sum().backward(workers=workers)
        return [t.grad.detach().array.tobytes() for t in (*weights, middle)]

    cf.manual_seed(1)
    one = run(1)
    cf.manual_seed(1)
    assert run(4) == one


def test_a_root_that_is_a_leaf_and_outputs_nobody_used() -> None:
    x = leaf(3.0)
    x.backward(workers=2)
    values, _ = cf.tensor([[1.0, 2.0]], requires_grad=True).max(1)
    values.backward(workers=2)
    y = x * 2.0
    y.backward(inputs=[y], workers=2)
    assert (x.grad.item(), y.grad.item()) == (1.0, 1.0)


def test_small_graphs_and_recordings_stay_sequential(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        pytest.fail("a thread was made")

    monkeypatch.setattr(threading, "Thread", refuse)
    x = leaf(1.0)

    def step() -> None:
        x.grad = None
        (x * 2.0 + x.exp()).backward(workers=4)

    cf.compile(step)()
    with thresholds.using(parallel_backward=1 << 18):
        step()
    for workers in (0, 2.0, True):
        with (
            refused(
                ValueError, f"backward: workers is {workers!r}; it must be a positive whole number."
            ),
            no_grad(),
        ):
            (x * 2.0).backward(workers=workers)
