"""Compiled functions that ask for the value of a number of an optimizer: it is guarded."""

from __future__ import annotations

import math
from typing import Any

import pytest

import contraflow as cf


class Descent(cf.optim.Optimizer):
    """Written as PyTorch's optimizers are: Python decides by the numbers of a group."""

    def __init__(self, parameters: Any, lr: float, weight_decay: float = 0.0) -> None:
        super().__init__(parameters, {"lr": lr, "weight_decay": weight_decay})

    @cf.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                d = p.grad
                if group["weight_decay"] != 0:
                    d = d.add(p, alpha=group["weight_decay"])
                p.add_(d, alpha=-group["lr"])


def trained(compiled: bool) -> tuple[list[float], Any]:
    w = cf.tensor([1.0, 2.0], requires_grad=True)
    optimizer = Descent([w], 0.1, 0.5)

    def step(x: cf.Tensor) -> cf.Tensor:
        optimizer.zero_grad()
        loss = (w * x).square().sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    run, losses = cf.compile(step) if compiled else step, []
    group = optimizer.param_groups[0]
    for name, value in (("lr", 0.1), ("lr", 0.05), ("weight_decay", 0.0), ("weight_decay", 0.5)):
        group[name] = value
        losses += [run(cf.tensor([1.0, 0.5])).item() for _ in range(3)]
    return losses + w.tolist(), run


def test_an_optimizer_that_asks_whether_to_decay():
    (eager, _), (found, step) = trained(False), trained(True)
    assert found == pytest.approx(eager, rel=1e-6)
    # The learning rate, which is not asked for, stays an input; the decay of before is kept.
    assert step.captures == 2


def test_numbers_that_python_needs():
    optimizer = cf.optim.SGD([cf.ones(2, requires_grad=True)], lr=0.1)
    group = optimizer.param_groups[0]

    @cf.compile
    def f(x: cf.Tensor) -> cf.Tensor:
        factor = 2.0 if group["lr"] > 0.05 else 3.0
        return x * factor * math.sqrt(group["lr"]) + min(1.0, group["lr"] * 5)

    for lr in (0.1, 0.1, 0.1, 0.01, 0.1, 0.2, 0.2, 0.2):
        group["lr"] = lr
        expected = (2.0 if lr > 0.05 else 3.0) * math.sqrt(lr) + min(1.0, lr * 5)
        assert f(cf.ones(1)).item() == pytest.approx(expected, rel=1e-6)
    assert f.captures == 3
    assert "a number of an optimizer was 0.1 and is 0.2" in f.changes


def test_a_number_that_another_compiled_function_changes():
    optimizer = cf.optim.SGD([cf.ones(2, requires_grad=True)], lr=1.0)
    group = optimizer.param_groups[0]
    asks = cf.compile(lambda x: x * 2 if group["lr"] > 0.3 else x)

    @cf.compile
    def halve(x: cf.Tensor) -> cf.Tensor:
        group["lr"] = group["lr"] * 0.5
        return x

    found = []
    for _ in range(4):
        found.append(asks(cf.ones(1)).item())
        halve(cf.ones(1))
    assert found == [2.0, 2.0, 1.0, 1.0]


def test_a_number_that_is_asked_for_and_set():
    optimizer = cf.optim.SGD([cf.ones(2, requires_grad=True)], lr=1.0)
    group = optimizer.param_groups[0]

    @cf.compile
    def f(x: cf.Tensor) -> cf.Tensor:
        group["lr"] = group["lr"] * 0.5
        return x * 2 if group["lr"] > 0.3 else x

    with pytest.raises(cf.CaptureError, match=r"^compile\(f\): .* is set, whose value"):
        f(cf.ones(1))
    assert group["lr"] == 1.0


def test_a_value_that_is_computed_from_tensors_too_is_refused():
    optimizer = cf.optim.SGD([cf.ones(2, requires_grad=True)], lr=1.0)
    group = optimizer.param_groups[0]
    f = cf.compile(lambda x: x if x.sum() * group["lr"] > 1 else -x)
    with pytest.raises(cf.CaptureError, match="needs the value of"):
        f(cf.ones(3))
