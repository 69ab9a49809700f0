"""Tensors in calls of compiled functions, beside elements: leaves, identity, views, attributes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.helpers.programs_beside import beside

import contraflow as cf

pytestmark = pytest.mark.usefixtures("mode")


def leaf(value: float) -> Any:
    return cf.full((2,), value, requires_grad=True)


# --- leaves --------------------------------------------------------------------------------------


def test_backward_into_an_argument_that_was_a_leaf_is_refused() -> None:
    step = cf.compile(lambda x: (x * x).sum().backward())
    for _ in range(3):
        x = leaf(2.0)
        step(x)
        assert x.grad.tolist() == [4.0, 4.0]
    x = leaf(2.0) * 3
    with pytest.raises(cf.CaptureError, match="backward reached mul"):
        step(x)
    assert step.changes == ["x was a leaf and is the result of an op"]
    step(leaf(2.0))
    assert step.captures == 1


def test_requires_grad_of_an_argument_with_a_graph_is_the_error_of_eager() -> None:
    def program(compile: Any) -> Iterator[Any]:
        @compile
        def function(x: Any) -> Any:
            return x.requires_grad_(False) * 2

        for call in range(6):
            w = leaf(2.0)
            x = w * 3 if call % 2 else w
            try:
                yield function(x).requires_grad, x.requires_grad
            except cf.GradientError as error:
                yield str(error)

    beside(program, records=1)


# --- the same tensor -----------------------------------------------------------------------------


def test_arguments_that_are_one_tensor_or_share_its_memory() -> None:
    def program(compile: Any) -> Iterator[Any]:
        @compile
        def step(x: Any, y: Any) -> Any:
            (x * y).sum().backward()
            return x is y

        a = leaf(2.0)
        b = a.detach().requires_grad_()
        for x, y in ((a, a), (a, b), (a, a), (b, a), (b, b)):
            a.grad = b.grad = None
            yield step(x, y), a.grad, b.grad

    beside(program, records=2)


def test_an_argument_that_is_state_or_shares_its_memory() -> None:
    def program(compile: Any) -> Iterator[Any]:
        w = leaf(2.0)

        @compile
        def step(x: Any) -> Any:
            (x * w).sum().backward()
            return x is w

        b = w.detach().requires_grad_()
        for x in (w, b, w, b, leaf(3.0)):
            w.grad = b.grad = None
            yield step(x), w.grad, b.grad

    beside(program, records=3)


# --- tensors of state ----------------------------------------------------------------------------


def test_data_of_another_layout_is_noticed() -> None:
    def program(compile: Any) -> Iterator[Any]:
        w = cf.tensor([[1.0, 2.0], [3.0, 4.0]])
        times = compile(lambda x: w * x)
        for call in range(6):
            if call == 3:
                w.data = w.data.t()
            yield times(cf.ones(2))

    beside(program, records=2)


@pytest.mark.parametrize("whole", [True, False])
def test_a_graph_that_is_written_into_state_outside_is_noticed(whole: bool) -> None:
    def program(compile: Any) -> Iterator[Any]:
        w, base = leaf(2.0), cf.zeros(2, 2)
        used = base if whole else base[0]
        times = compile(lambda x: (used * x).sum())
        for call in range(6):
            if call == 3:
                base[0] = w
            y = times(cf.ones(2))
            yield y, y.requires_grad
            if y.requires_grad:
                y.backward(retain_graph=True)
                yield w.grad

    beside(program, records=2)


def test_a_view_whose_base_was_written_before_the_first_call() -> None:
    def program(compile: Any) -> Iterator[Any]:
        w, base = leaf(2.0), cf.zeros(2, 2)
        view = base[0]
        base[0] = w
        times = compile(lambda x: (view * x).sum())
        for _ in range(3):
            times(cf.ones(2)).backward(retain_graph=True)
            yield w.grad
        (view * 3).sum().backward()
        yield w.grad

    beside(program, records=1)


def test_a_gradient_that_requires_grad_is_noticed() -> None:
    def program(compile: Any) -> Iterator[Any]:
        @compile
        def function(x: Any) -> Any:
            return x * (2 if x.grad is not None and x.grad.requires_grad else 3)

        x = leaf(1.0)
        for gradient in (None, cf.ones(2), leaf(1.0) * 2, cf.ones(2)):
            x.grad = gradient
            for _ in range(3):
                yield function(x)

    beside(program, records=3)
