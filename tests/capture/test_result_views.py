"""Results of compiled functions that are views: of arguments, of state, and of each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.helpers.programs_beside import beside

import contraflow as cf
from contraflow.capture.hit import misses

pytestmark = pytest.mark.usefixtures("mode")


def leaf(value: float) -> Any:
    return cf.full((2,), value, requires_grad=True)


def no_grad_row(x: Any) -> Any:
    with cf.no_grad():
        return x[0]


VIEWS = {
    "row": lambda x: x[0],
    "rows": lambda x: x[:1][0],
    "transposed": lambda x: x.t()[:, 0],
    "made under no_grad": no_grad_row,
    "argument beside it": lambda x: (x[0], x),
    "several": lambda x: x.chunk(2)[0][0],
    "many": lambda x: x.t().t().t().t().t().t().t().t().t().t()[0],
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("part", [True, False])
def test_a_graph_written_into_a_view_of_an_argument_is_the_argument_s(
    name: str, part: bool
) -> None:
    def program(compile: Any) -> Iterator[Any]:
        function = compile(VIEWS[name])
        for call in range(5):
            w, base = leaf(3.0), cf.full((3, 2, 2), call + 1.0)
            x = base[call % 3] if part else base[1].clone()
            found = function(x)
            view = found[0] if isinstance(found, tuple) else found
            yield view._base is (base if part else x)
            try:
                view.mul_(w)
            except cf.GradientError as error:
                yield str(error)
            yield x.requires_grad, x, base.requires_grad
            if x.requires_grad:
                x.sum().backward()
                yield w.grad

    beside(program)


def test_a_graph_written_into_the_argument_is_the_view_s() -> None:
    def program(compile: Any) -> Iterator[Any]:
        function = compile(lambda x: (x[0], x.view(4)))
        for call in range(4):
            w, x = leaf(3.0), cf.full((2, 2), call + 1.0)
            row, flat = function(x)
            x.mul_(w)
            yield row.requires_grad, flat.requires_grad, flat
            flat.sum().backward()
            yield w.grad

    beside(program, records=1)


def test_views_of_state() -> None:
    def program(compile: Any) -> Iterator[Any]:
        state = cf.ones(2, 2)
        function = compile(lambda x: (state[0], x * 2))
        for call in range(4):
            w = leaf(3.0)
            view, _ = function(cf.ones(2))
            yield view._base is state
            if call == 3:
                view.mul_(w)
                yield state.requires_grad, state

    beside(program, records=1)


@pytest.mark.parametrize("whole", [True, False])
def test_views_of_one_new_tensor(whole: bool) -> None:
    def program(compile: Any) -> Iterator[Any]:
        @compile
        def function(x: Any) -> Any:
            y = x * 2
            return (y, y[0]) if whole else (y[1], y.view(4))

        for call in range(4):
            w = leaf(3.0)
            first, second = function(cf.full((2, 2), call + 1.0))
            first.add_(1)
            yield first, second
            (second if whole else first).mul_(w)
            yield first.requires_grad, second.requires_grad, first, second
            (first if whole else second).sum().backward()
            yield w.grad

    beside(program, records=1)


def test_a_kept_view_of_an_argument() -> None:
    def program(compile: Any) -> Iterator[Any]:
        kept = dict[str, Any]()

        @compile
        def function(x: Any) -> Any:
            kept["view"] = x[0]
            return x * 1

        for call in range(4):
            w, x = leaf(3.0), cf.full((2, 2), call + 1.0)
            function(x)
            kept["view"].mul_(w)
            yield x.requires_grad, x

    beside(program, records=1)


def test_a_function_that_returns_a_view_hits() -> None:
    function = cf.compile(lambda x: x[0])
    for _ in range(3):
        x = cf.ones(2, 2)
        assert function(x)._base is x
    if cf.config.compile_mode == "native":
        assert function._hit is not misses
