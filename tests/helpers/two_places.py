"""Programs that run on the walled device and on the cpu, each while the other is the default."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import contraflow as cf
from contraflow import nn, optim
from contraflow.tensors.tree import leaves_of
from contraflow.testing import assert_close

Program = Callable[[str], Any]


def run_on(place: str, program: Program) -> Any:
    """The result of a program for tensors of a device which is not the default one."""
    cf.manual_seed(1)
    cf.set_default_device("cpu" if place == "walled" else "walled")
    try:
        return program(place)
    finally:
        cf.set_default_device(None)


def same(program: Program, rtol: float = 1e-4, atol: float = 1e-5) -> None:
    """A program gives the same on both devices, and tensors that lie there."""
    found, expected = (leaves_of(run_on(place, program)) for place in ("walled", "cpu"))
    assert len(found) == len(expected) > 0
    for place, leaves in (("walled", found), ("cpu", expected)):
        tensors = [x for x in leaves if isinstance(x, cf.Tensor)]
        assert {str(x.device) for x in tensors} <= {place}
        assert {str(x.grad.device) for x in tensors if x.is_leaf and x.grad is not None} <= {place}
    for x, y in zip(found, expected):
        if isinstance(y, cf.Tensor):
            assert x.spec == y.spec
            if y.dtype.is_floating_point:
                assert_close(x, y, rtol, atol)
            else:
                assert_close(x, y)
        elif isinstance(y, float):
            assert x == pytest.approx(y, rel=rtol, abs=atol)
        else:
            assert x == y


def drawn(place: str, *shape: int, seed: int = 0, requires_grad: bool = False) -> cf.Tensor:
    array = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return cf.tensor(array, device=place, requires_grad=requires_grad)


def whole(place: str, high: int, *shape: int, seed: int = 0) -> cf.Tensor:
    return cf.tensor(np.random.default_rng(seed).integers(0, high, shape), device=place)


def positive(x: cf.Tensor) -> cf.Tensor:
    return x.detach().sigmoid()


def small(place: str) -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2)).to(place)


def train(module: nn.Module, optimizer: optim.Optimizer, x: cf.Tensor, steps: int = 2) -> list[Any]:
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = module(x).square().sum()
        loss.backward()
        optimizer.step()
        losses.append(loss)
    return losses
