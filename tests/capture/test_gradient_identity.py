"""The tensors that compiled functions leave in `.grad`, by identity."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.helpers.programs_beside import beside

import contraflow as cf

pytestmark = pytest.mark.usefixtures("mode")


def leaf(value: float) -> Any:
    return cf.full((2,), value, requires_grad=True)


@pytest.mark.parametrize("clears", [True, False])
def test_two_tensors_have_one_gradient(clears: bool) -> None:
    def program(compile: Any) -> Iterator[Any]:
        v, w = leaf(1.0), leaf(2.0)

        @compile
        def step(x: Any) -> None:
            if clears:
                v.grad = w.grad = None
            (w * x).sum().backward()
            v.grad = w.grad

        for call in range(5):
            step(cf.full((2,), float(call)))
            yield v.grad is w.grad, v.grad
            w.grad.add_(1)
            yield v.grad

    beside(program)


def test_gradients_are_exchanged() -> None:
    def program(compile: Any) -> Iterator[Any]:
        v, w = leaf(1.0), leaf(2.0)

        @compile
        def step(x: Any) -> Any:
            v.grad, w.grad = w.grad, v.grad
            return x * 2

        for call in range(4):
            a, b = cf.full((2,), float(call)), cf.full((2,), call + 10.0)
            v.grad, w.grad = a, b
            step(cf.ones(2))
            yield v.grad is b, w.grad is a, v.grad, w.grad

    beside(program, records=1)


def test_a_returned_gradient_of_an_argument_is_the_one_it_has() -> None:
    def program(compile: Any) -> Iterator[Any]:
        @compile
        def step(x: Any) -> Any:
            (x * x).sum().backward()
            return x.grad

        for call in range(6):
            x = leaf(call + 1.0)
            if call % 2:
                x.grad = cf.ones(2)
            before = x.grad
            found = step(x)
            yield found is x.grad, found is before, found

    beside(program, records=2)


@pytest.mark.parametrize("clears", [True, False])
def test_a_returned_and_a_kept_gradient_of_state_are_the_one_it_has(clears: bool) -> None:
    def program(compile: Any) -> Iterator[Any]:
        w, kept = leaf(2.0), dict[str, Any]()

        @compile
        def step(x: Any) -> Any:
            if clears:
                w.grad = None
            (x * w).sum().backward()
            kept["gradient"] = w.grad
            return w.grad

        for call in range(7):
            if call == 4:
                w.grad = cf.ones(2)
            found = step(cf.full((2,), float(call)))
            yield found is w.grad, kept["gradient"] is found, found

    beside(program)


def test_the_gradient_from_before_is_returned_and_another_set() -> None:
    def program(compile: Any) -> Iterator[Any]:
        w = leaf(2.0)

        @compile
        def step(x: Any) -> Any:
            before, w.grad = w.grad, None
            (x * w).sum().backward()
            return before

        for call in range(6):
            if call in (0, 3):
                w.grad = cf.full((2,), 7.0)
            given = w.grad
            found = step(cf.full((2,), float(call)))
            yield found is given, found, w.grad is found, w.grad

    beside(program)


def test_a_gradient_that_is_an_argument_or_a_tensor_of_state() -> None:
    def program(compile: Any) -> Iterator[Any]:
        v, w, constant = leaf(1.0), leaf(2.0), cf.ones(2)

        @compile
        def step(x: Any) -> None:
            w.grad = x
            v.grad = constant

        for call in range(5):
            x = cf.full((2,), float(call))
            if call == 3:
                constant = cf.zeros(2)
            step(x)
            yield w.grad is x, v.grad is constant, w.grad, v.grad

    beside(program)


def test_a_returned_gradient_with_a_graph_has_it_in_its_slot_too() -> None:
    def program(compile: Any) -> Iterator[Any]:
        @compile
        def step(x: Any) -> Any:
            (x * x * x).sum().backward(create_graph=True)
            return x.grad

        for _ in range(3):
            x = leaf(2.0)
            found = step(x)
            yield found is x.grad, x.grad.requires_grad
            (second,) = cf.autograd.grad(x.grad.sum(), x)
            yield second

    beside(program, records=1)


def test_a_gradient_with_a_graph_that_is_not_returned_comes_without_it() -> None:
    step = cf.compile(lambda x: (x * x * x).sum().backward(create_graph=True))
    for _ in range(3):
        x = leaf(2.0)
        step(x)
        assert x.grad.tolist() == [12.0, 12.0]
        assert not x.grad.requires_grad
        x.grad = None
        step.eager(x)
        assert x.grad.requires_grad


def test_gradients_that_share_memory_are_another_program() -> None:
    def program(compile: Any) -> Iterator[Any]:
        v, w = leaf(1.0), leaf(2.0)
        optimizer = cf.optim.SGD([v, w], lr=0.5)

        @compile
        def step(x: Any) -> None:
            optimizer.zero_grad(set_to_none=False)
            (v * x + w * x * 2).sum().backward()
            optimizer.step()

        for call in range(8):
            gradient = cf.ones(2)
            v.grad, w.grad = gradient, gradient if call % 4 > 1 else cf.ones(2)
            step(cf.ones(2))
            yield v, w, v.grad, w.grad

    beside(program, records=2)


def test_whether_a_gradient_is_another_or_an_argument_is_noticed() -> None:
    def program(compile: Any) -> Iterator[Any]:
        v, w, state = leaf(1.0), leaf(2.0), cf.ones(2)

        @compile
        def function(x: Any) -> Any:
            return v.grad is w.grad, w.grad is x, x * state

        for call in range(8):
            x, v.grad, w.grad = cf.ones(2), cf.ones(2), cf.ones(2)
            if call % 4 == 1:
                v.grad = w.grad
            if call % 4 == 2:
                w.grad = x
            if call % 4 == 3:
                w.grad = x.detach()
            yield function(x)

    beside(program, records=4)


def test_a_gradient_that_is_state_is_noticed() -> None:
    def program(compile: Any) -> Iterator[Any]:
        w, state = leaf(2.0), cf.ones(2)

        @compile
        def function(x: Any) -> Any:
            w.grad.add_(1)
            return x * state

        for call in range(6):
            w.grad = state if call % 2 else cf.ones(2)
            yield function(cf.ones(2)), w.grad

    beside(program, records=2)
