"""Python's state that hooks and gradient rules read in the backward of a compiled function."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from tests.helpers.programs_beside import beside

import contraflow as cf
from contraflow import nn

pytestmark = pytest.mark.usefixtures("mode")


def leaf(value: float) -> Any:
    return cf.full((2,), value, requires_grad=True)


def by_hook(kept: Any) -> Any:
    def function(x: Any) -> Any:
        y = x * 2
        y.register_hook(lambda g: g * kept.scale)
        return y.sum()

    return function


def by_module_hook(kept: Any) -> Any:
    net = nn.Linear(2, 2)
    nn.init.ones_(net.weight)
    net.register_full_backward_hook(
        lambda module, inputs, outputs: tuple(g * kept.scale for g in inputs)
    )
    return lambda x: net(x).sum()


def by_rule(kept: Any) -> Any:
    class Scaled(cf.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * kept.scale

    return lambda x: Scaled.apply(x).sum()


WAYS = pytest.mark.parametrize("make", [by_hook, by_module_hook, by_rule])


@WAYS
def test_state_that_changes_between_calls(make: Any) -> None:
    def program(compile: Any) -> Iterator[Any]:
        kept = SimpleNamespace(scale=1.0)
        function = compile(make(kept))
        for call in range(6):
            kept.scale, x = float(call // 2), leaf(1.0)
            function(x).backward()
            yield x.grad

    beside(program)


@WAYS
def test_state_that_changes_between_a_call_and_its_backward(make: Any) -> None:
    def program(compile: Any) -> Iterator[Any]:
        kept = SimpleNamespace(scale=1.0)
        function = compile(make(kept))
        for call in range(6):
            x, z = leaf(1.0), leaf(2.0)
            first = function(x)
            kept.scale = call + 5.0
            second = function(z)
            kept.scale = call + 6.0
            first.backward()
            second.backward()
            yield x.grad, z.grad

    beside(program)


def test_random_numbers_of_a_call_whose_hook_finds_another_state() -> None:
    def program(compile: Any) -> Iterator[Any]:
        kept = SimpleNamespace(scale=1.0)

        @compile
        def function(x: Any) -> Any:
            y = nn.functional.dropout(x, 0.5) * 2
            y.register_hook(lambda g: g * kept.scale)
            return y

        cf.manual_seed(0)
        for call in range(4):
            x = cf.ones(8, requires_grad=True)
            y = function(x)
            kept.scale = call + 2.0
            y.sum().backward()
            yield x.grad, y, cf.rand(2)

    beside(program)


def test_state_that_the_function_reads_too_is_an_error() -> None:
    kept = SimpleNamespace(scale=1.0)

    @cf.compile
    def function(x: Any) -> Any:
        y = x * kept.scale
        y.register_hook(lambda g: g * kept.scale)
        return y.sum()

    x = leaf(1.0)
    y = function(x)
    kept.scale = 2.0
    with pytest.raises(cf.GradientError) as raised:
        y.backward()
    assert "what the backward of function at test_backward_state.py:" in str(raised.value)
    assert str(raised.value).endswith(
        " reads has changed since the call, so it is run again, but modules or variables that it "
        "uses have changed. Run backward before."
    )


def test_a_tensor_that_a_hook_reads_is_replaced() -> None:
    def program(compile: Any) -> Iterator[Any]:
        kept = SimpleNamespace(scale=cf.ones(2))
        function = compile(by_hook(kept))
        for call in range(6):
            x = leaf(1.0)
            y = function(x)
            kept.scale = cf.full((2,), float(call))
            y.backward()
            yield x.grad

    beside(program)
