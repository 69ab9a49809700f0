"""`verify=n` finds what a recording has frozen and should not have, and changes nothing else."""

from __future__ import annotations

import queue
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import contraflow as cf
from contraflow.testing import assert_close

F = cf.nn.functional


pytestmark = pytest.mark.usefixtures("mode")


def train(verify: int | None) -> list[Any]:
    """Losses and parameters of a few steps with all kinds of state."""
    cf.manual_seed(2)
    model = cf.nn.Sequential(
        cf.nn.Linear(3, 8), cf.nn.BatchNorm1d(8), cf.nn.Dropout(0.3), cf.nn.Linear(8, 2)
    )
    optimizer = cf.optim.Adam(model.parameters(), lr=0.01)

    def step(x: Any, counts: Any) -> Any:
        counts.add_(1)
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    run: Any = step if verify is None else cf.compile(step, verify=verify)
    found, counts = [], cf.zeros(2)
    for _ in range(4):
        found.append(run(cf.randn(5, 3), counts).item())
    return [found, counts.tolist(), *(p.detach().numpy() for p in model.parameters()),
            *(b.numpy() for b in model.buffers()), cf.get_rng_state(),
            optimizer.state[model[0].weight]["step"].value]  # fmt: skip


def test_verified_calls_do_what_others_do() -> None:
    for a, b in zip(train(3), train(0)):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(train(3)[0], train(None)[0], 1e-3)


def test_differentiable_functions() -> None:
    w = cf.randn(3, requires_grad=True)
    f = cf.compile(lambda x: (x * w).exp(), verify=2)
    for _ in range(3):
        f(cf.ones(3)).sum().backward()
    assert_close(w.grad, 3 * w.detach().exp())


def test_frozen_python_state_is_noticed() -> None:
    calls: queue.SimpleQueue[int] = queue.SimpleQueue()  # keeps its state to itself

    @cf.compile(verify=1)
    def count(x: Any) -> Any:
        calls.put(1)
        return x * calls.qsize()

    with pytest.raises(cf.CaptureError) as raised:
        count(cf.ones(3))
    assert str(raised.value) == (
        "compile(count): verify: result 0 (float32[3]) differs from eager by up to 1. Something "
        "that the function reads was recorded as it was and has changed since, a number or a list "
        "in Python for instance. Pass it as an argument, or make it a tensor."
    )


def test_frozen_state_that_only_an_effect_shows() -> None:
    buffer, w = cf.zeros(3), cf.ones(3, requires_grad=True)
    scales: queue.SimpleQueue[int] = queue.SimpleQueue()
    scales.put(1)

    @cf.compile(verify=5)
    def step(x: Any) -> None:
        buffer.add_(x * scales.qsize())

    @cf.compile(verify=5)
    def differentiate(x: Any) -> None:
        (w * x * scales.qsize()).sum().backward()

    x = cf.ones(3)
    step(x)
    differentiate(x)
    differentiate(x)
    scales.put(1)
    with pytest.raises(cf.CaptureError, match=r"arguments and state \(float32\[3\]\) differs"):
        step(x)
    with pytest.raises(cf.CaptureError, match=r"the gradient of tensor . .* differs"):
        differentiate(x)


def test_a_result_of_another_structure() -> None:
    extra: queue.SimpleQueue[int] = queue.SimpleQueue()

    @cf.compile(verify=2)
    def f(x: Any) -> Any:
        return [x * 2, *range(extra.qsize())]

    f(cf.ones(3))
    extra.put(3)
    with pytest.raises(cf.CaptureError, match="the structure of the result is not what eager"):
        f(cf.ones(3))


def test_state_created_lazily() -> None:
    kept: dict[str, Any] = {}

    @cf.compile(verify=3)
    def f(x: Any) -> Any:
        if "total" not in kept:
            kept["total"] = cf.zeros(3)
        kept["total"].add_(x)
        return kept["total"] * 1

    for call in range(1, 5):
        assert_close(f(cf.ones(3)), np.full(3, float(call), np.float32))


def test_how_often() -> None:
    runs: queue.SimpleQueue[int] = queue.SimpleQueue()

    @cf.compile(verify=2)
    def f(x: Any) -> Any:
        runs.put(1)
        return x * 2

    for _ in range(4):
        f(cf.ones(3))
    assert runs.qsize() == 3, "one recording and two comparisons"
    with pytest.raises(ValueError, match="verify is -1; it must be a number of calls"):
        cf.compile(lambda x: x, verify=-1)


def test_what_only_the_eager_run_does_is_named_with_its_line() -> None:
    runs: queue.SimpleQueue[int] = queue.SimpleQueue()

    @cf.compile(verify=1)
    def f(x: Any) -> Any:
        factor = random.random() if runs.qsize() > 0 else 1.0
        runs.put(1)
        return x * factor

    line = f.function.__code__.co_firstlineno + 2
    with pytest.raises(cf.CaptureError) as raised:
        f(cf.ones(3))
    assert str(raised.value) == (
        f"compile(f): `factor = random.random() if runs.qsize() > 0 else 1.0` at "
        f"{Path(__file__).name}:{line}: random.random draws a random number, and a replay would "
        f"give the same again. Use contraflow's random functions, or draw outside and pass it as "
        f"an argument."
    )


def test_half_precision_inside_is_rounded_less_often() -> None:
    """Kernels round what they store, eager mode each result: that is not a frozen value."""
    cf.manual_seed(0)
    net = cf.nn.Sequential(cf.nn.Linear(3, 16), cf.nn.Tanh(), cf.nn.Linear(16, 4))

    @cf.compile(verify=3)
    def loss(x: cf.Tensor) -> cf.Tensor:
        with cf.autocast("cpu", dtype=cf.bfloat16):
            y = net(x) * 1.7 + 0.3
        return y.float().square().mean(1)

    for _ in range(3):
        loss(cf.randn(8, 3))
