"""Copies of tensors, modules and containers that a compiled function makes, as in eager."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import contraflow as cf
from contraflow import nn

pytestmark = pytest.mark.usefixtures("mode")

Program = Callable[[cf.Tensor], Any]
PROGRAMS: dict[str, Callable[[], Program]] = {}


def program(make: Callable[[], Program]) -> Callable[[], Program]:
    PROGRAMS[make.__name__] = make
    return make


@program
def argument() -> Program:
    return lambda x: copy.deepcopy(x) + 1


@program
def computed_and_then_written() -> Program:
    def f(x: cf.Tensor) -> Any:
        a = x * 2
        b = copy.deepcopy(a)
        a.add_(1)
        return a, b

    return f


@program
def views_share_their_copy() -> Program:
    def f(x: cf.Tensor) -> Any:
        whole, part = copy.deepcopy((x, x[1:]))
        part.add_(10.0)
        return whole, part, x

    return f


@program
def one_tensor_twice() -> Program:
    def f(x: cf.Tensor) -> Any:
        a, b = copy.deepcopy([x, x])
        a.add_(1)
        return a, b, a is b

    return f


@program
def leaf() -> Program:
    w = cf.ones(3, requires_grad=True)

    def f(x: cf.Tensor) -> Any:
        v = copy.deepcopy(w)
        (v * x).sum().backward()
        return v.grad, w.grad, v.requires_grad, v.is_leaf

    return f


@program
def gradient() -> Program:
    w = cf.ones(3, requires_grad=True)
    w.grad = cf.full((3,), 5.0)

    def f(x: cf.Tensor) -> Any:
        v = copy.deepcopy(w)
        assert w.grad is not None
        w.grad.add_(x)
        return v.grad, w.grad

    return f


@program
def parameter() -> Program:
    w = nn.Parameter(cf.ones(3))

    def f(x: cf.Tensor) -> Any:
        v = copy.deepcopy(w)
        return type(v).__name__, v

    return f


@program
def module() -> Program:
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))

    def f(x: cf.Tensor) -> Any:
        twin = copy.deepcopy(net)
        twin(x + cf.tensor([[0.0], [1.0]])).square().sum().backward()
        first, norm = twin[0], twin[1]
        return first.weight.grad, net[0].weight.grad, norm.running_mean, net[1].running_mean

    return f


@program
def best_state() -> Program:
    net, best = nn.Linear(3, 1), {}
    optimizer = cf.optim.SGD(net.parameters(), lr=0.1)

    def f(x: cf.Tensor) -> Any:
        optimizer.zero_grad()
        net(x).sum().backward()
        best["state"] = copy.deepcopy(net.state_dict())
        optimizer.step()
        return best["state"]["weight"], net.weight.detach()

    return f


@program
def shallow() -> Program:
    return lambda x: (copy.copy(x).add_(1), copy.copy(x * 2).add_(1), x)


@pytest.mark.parametrize("make", PROGRAMS.values(), ids=PROGRAMS)
def test_copies_inside_are_those_of_eager(make: Callable[[], Program]) -> None:
    def run(wrap: Callable[[Program], Program]) -> list[str]:
        cf.manual_seed(0)
        f = wrap(make())
        return [repr(f(cf.full((3,), float(n)))) for n in range(4)]

    compiled: list[Any] = []

    def wrap(f: Program) -> Program:
        compiled.append(cf.compile(f))
        return compiled[0]  # type: ignore[no-any-return]

    assert run(wrap) == run(lambda f: f)
    assert compiled[0].captures == 1


def test_what_is_not_a_leaf_is_not_copied_deeply() -> None:
    w = cf.ones(3, requires_grad=True)
    said = r"deepcopy: float32\[3\] was made by mul; only leaves can be copied deeply"
    with pytest.raises(cf.GradientError, match=said):
        cf.compile(lambda x: copy.deepcopy(w * x))(cf.ones(3))


def test_a_pickle_needs_values() -> None:
    f = cf.compile(lambda x: pickle.dumps(x), name="f")
    with pytest.raises(cf.CaptureError, match=r"test_copies\.py:\d+: pickle needs the value of"):
        f(cf.ones(3))
