"""Hooks, retained gradients and places in the graph that compiled functions meet and change."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from tests.helpers.programs_beside import beside

import contraflow as cf

pytestmark = pytest.mark.usefixtures("mode")


def leaf(value: float) -> Any:
    return cf.full((2,), value, requires_grad=True)


# --- hooks on arguments --------------------------------------------------------------------------


def test_hooks_on_an_argument_are_those_of_the_call() -> None:
    def program(compile: Any) -> Iterator[Any]:
        @compile
        def step(x: Any) -> None:
            x.grad = None
            (x * x).sum().backward()

        x, handle = leaf(3.0), None
        for call in range(10):
            if call == 4:
                handle = x.register_hook(lambda g: g * 10)
            if call == 7:
                handle.remove()  # type: ignore[union-attr]
            step(x)
            yield x.grad

    beside(program, records=2)


def test_hooks_after_accumulation_on_an_argument() -> None:
    def double(x: Any) -> None:
        x.grad = x.grad * 2

    def program(compile: Any) -> Iterator[Any]:
        step = compile(lambda x: (x * x).sum().backward())
        for call in range(8):
            x = leaf(3.0)
            if call % 4 > 1:
                x.register_post_accumulate_grad_hook(double)
            step(x)
            yield x.grad

    beside(program)


def test_hooks_on_arguments_in_containers_and_by_name() -> None:
    def program(compile: Any) -> Iterator[Any]:
        @compile
        def step(pair: Any, *, scale: Any) -> Any:
            return cf.autograd.grad((pair[0] * pair[1]["x"] * scale).sum(), (pair[1]["x"], scale))

        for call in range(6):
            x, scale = leaf(2.0), leaf(3.0)
            if call in (2, 4):
                x.register_hook(lambda g: g + 10)
            if call in (3, 4):
                scale.register_hook(lambda g: g - 10)
            yield step((cf.ones(2), {"x": x}), scale=scale)

    beside(program)


def test_what_a_hook_on_an_argument_reads_is_noticed() -> None:
    def program(compile: Any) -> Iterator[Any]:
        kept = [1.0]
        step = compile(lambda x: (x * x).sum().backward())
        x = leaf(3.0)
        x.register_hook(lambda g: g * kept[0])
        for call in range(6):
            kept[0], x.grad = call // 2, None
            step(x)
            yield x.grad

    beside(program)


def test_hooks_on_what_is_carried() -> None:
    def program(compile: Any) -> Iterator[Any]:
        kept = SimpleNamespace()

        @compile
        def step(y: Any) -> Any:
            return cf.autograd.grad((kept.x * y).sum(), kept.x)[0]

        for call in range(9):
            kept.x = leaf(1.0)  # which becomes an input
            if call % 3 == 2:
                kept.x.register_hook(lambda g: g * 10)
            yield step(cf.ones(2))

    beside(program)


def test_a_message_names_the_argument_whose_hooks_have_changed() -> None:
    step = cf.compile(lambda x: (x * x).sum().backward())
    x = leaf(1.0)
    step(x)
    assert "hooks on x" in step.explain()
    x.grad = None
    x.register_hook(lambda g: g * 2)
    step(x)
    assert step.changes == ["the hooks on x have changed"]


def test_hooks_on_arguments_of_a_differentiable_function_are_not_asked_for() -> None:
    def program(compile: Any) -> Iterator[Any]:
        square = compile(lambda x: (x * x).sum())
        for call in range(6):
            x = leaf(3.0)
            if call % 2:
                x.register_hook(lambda g: g * 10)
            square(x).backward()
            yield x.grad

    beside(program, records=1)
