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


# --- what a function leaves on tensors from outside ----------------------------------------------


def leave_tensor_hook(x: Any) -> None:
    x.register_hook(lambda g: g * 2)


def leave_hook(x: Any) -> None:
    x.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * 5, *inputs[1:]))


def leave_prehook(x: Any) -> None:
    x.grad_fn.register_prehook(lambda outputs: (outputs[0] * 5,))


@pytest.mark.parametrize("leave", [leave_tensor_hook, leave_hook, leave_prehook])
@pytest.mark.parametrize("passed", [True, False])
def test_a_hook_left_on_a_tensor_with_a_graph_is_refused(leave: Any, passed: bool) -> None:
    w = leaf(1.0)
    x = w * 2

    @cf.compile
    def function(y: Any) -> Any:
        leave(y if passed else x)
        return y * 3

    with pytest.raises(cf.CaptureError) as raised:
        function(x if passed else cf.ones(2))
    assert f"test_tensor_hooks.py:{leave.__code__.co_firstlineno + 1}: " in str(raised.value)
    assert str(raised.value).endswith(
        "the function leaves a hook on the result of mul, which is from outside, and a replay "
        "would not. Register it before, or remove it in the function."
    )
    x.sum().backward()
    assert w.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("graph", [True, False])
def test_a_hook_from_outside_is_not_removed_inside(graph: bool) -> None:
    w = leaf(1.0)
    x = w * 2 if graph else w
    handle = x.register_hook(lambda g: g * 10)

    @cf.compile
    def function(y: Any) -> Any:
        handle.remove()
        return y * 3

    with pytest.raises(cf.CaptureError, match=r"`handle.remove\(\)` at .*removes a hook from"):
        function(cf.ones(2))
    x.sum().backward()
    assert w.grad.tolist() == ([20.0, 20.0] if graph else [10.0, 10.0])


def test_a_hook_registered_and_removed_inside_leaves_nothing() -> None:
    def program(compile: Any) -> Iterator[Any]:
        @compile
        def function(x: Any) -> Any:
            handle = x.register_hook(lambda g: g * 2)
            handle.remove()
            return x * 3

        for _ in range(3):
            w = leaf(1.0)
            function(w * 2).sum().backward()
            yield w.grad

    beside(program, records=1)


def test_retained_gradients_of_tensors_from_outside() -> None:
    def program(compile: Any) -> Iterator[Any]:
        w = leaf(1.0)
        h = w * 2

        @compile
        def function(x: Any) -> Any:
            x.retain_grad()
            h.retain_grad()
            return x * h

        for call in range(6):
            v = leaf(3.0)
            x = v if call % 2 else v * call
            function(x).sum().backward(retain_graph=True)
            yield x.grad, v.grad, h.grad, w.grad
            if call == 3:
                h = w * 4

    beside(program)


def test_a_retained_gradient_in_the_first_call_alone() -> None:
    def program(compile: Any) -> Iterator[Any]:
        @compile
        def function(x: Any) -> Any:
            x.retain_grad()
            return x * 2

        for call in range(3):
            x = leaf(3.0) * 2
            if call == 0:
                x.retain_grad()
            function(x).sum().backward()
            yield x.grad

    beside(program, records=1)


# --- detach_ -------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_leaf", [True, False])
def test_an_argument_is_detached_in_place_by_every_call(is_leaf: bool) -> None:
    def program(compile: Any) -> Iterator[Any]:
        @compile
        def function(x: Any) -> Any:
            before = x * 2
            x.detach_()
            return before, x * 3

        for _ in range(4):
            w = leaf(1.0)
            x = w if is_leaf else w * 2
            before, after = function(x)
            yield x.requires_grad, x.is_leaf, before.requires_grad, after.requires_grad, after
            before.sum().backward()
            yield w.grad

    beside(program, records=1)


def test_state_is_detached_in_place_by_every_call() -> None:
    def program(compile: Any) -> Iterator[Any]:
        w, kept = leaf(2.0), SimpleNamespace(h=cf.ones(2))

        @compile
        def step(x: Any) -> Any:
            kept.h.detach_()
            kept.h = kept.h * w * x
            return kept.h.sum()

        for call in range(6):
            w.grad = None
            if call == 3:
                kept.h = leaf(5.0) * 2
            given = kept.h
            step(cf.ones(2)).backward()
            yield w.grad, given.requires_grad, kept.h.requires_grad, kept.h

    beside(program)


def test_a_tensor_that_is_detached_and_requires_grad_again() -> None:
    def program(compile: Any) -> Iterator[Any]:
        @compile
        def function(x: Any) -> Any:
            x.detach_().requires_grad_()
            return x * 3

        for _ in range(4):
            w = leaf(1.0)
            x = w * 2
            function(x).sum().backward()
            yield x.requires_grad, x.is_leaf, x.grad, w.grad is None

    beside(program, records=1)


def test_a_tensor_that_is_detached_in_place_outside_is_noticed() -> None:
    def program(compile: Any) -> Iterator[Any]:
        w = leaf(2.0)
        h = w * 3
        times = compile(lambda x: h * x)
        for call in range(6):
            if call == 3:
                h.detach_()
            yield times(cf.ones(2)).requires_grad

    beside(program, records=2)


def test_a_refused_function_leaves_places_in_the_graph_as_they_were() -> None:
    w = leaf(1.0)
    x, y, z = w * 2, w * 3, w * 4
    y.retain_grad()

    @cf.compile
    def function(x: Any) -> Any:
        x.detach_()
        z.retain_grad()
        z.detach_().requires_grad_()
        y.mul_(2)
        y.detach_()
        raise LookupError

    with pytest.raises(LookupError):
        function(x)
    assert x.requires_grad
    assert x.grad_fn is not None
    (x + y + z).sum().backward()
    assert w.grad.tolist() == [9.0, 9.0]
    assert y.grad.tolist() == [1.0, 1.0]
    assert x.grad is None
    assert z.grad is None


def test_gradients_of_gradients_of_a_function_that_detaches_in_place() -> None:
    def program(compile: Any) -> Iterator[Any]:
        @compile
        def function(x: Any) -> Any:
            cube = x * x * x
            x.detach_()
            return cube * x

        for _ in range(3):
            w = leaf(2.0)
            (g,) = cf.autograd.grad(function(w * 2).sum(), w, create_graph=True)
            g.sum().backward()
            yield g, w.grad

    beside(program, records=1)
