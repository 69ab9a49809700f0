"""Gradients inside a compiled function, of tensors that were computed before it is called.

Backward that looks for such a tensor ends there and needs nothing behind it. Whether it does is
part of what a program depends on: the hooks that run there, and whether something leads around it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.helpers.programs_beside import beside

import contraflow as cf
from contraflow import autograd
from contraflow.errors import CaptureError


def leaf(*values: float) -> cf.Tensor:
    return cf.tensor(values, requires_grad=True)


def grad(*args: Any, **how: Any) -> Any:
    return autograd.grad(*args, **how)


def test_the_gradient_of_a_result_of_an_op() -> None:
    def program(compile: Any) -> Iterator[Any]:
        w = leaf(1.0, 2.0, 3.0)

        @compile
        def function(x: Any) -> Any:
            return grad((x * x * x).sum(), x)

        for call in range(5):
            yield function(w * (call + 1))
        assert w.grad is None

    beside(program, records=1)


def test_a_leaf_then_a_result_and_a_leaf_again() -> None:
    def program(compile: Any) -> Iterator[Any]:
        @compile
        def function(x: Any) -> Any:
            return grad((x * x).sum(), x)

        w = leaf(1.0, 2.0)
        for x in (w, w * 2, w, w.exp(), w * 4):
            yield function(x)

    beside(program, records=2)


def test_with_a_graph_the_gradient_goes_on_to_what_the_result_was_computed_from() -> None:
    def program(compile: Any) -> Iterator[Any]:
        w = leaf(1.0, 2.0, 3.0)

        @compile
        def function(x: Any) -> Any:
            (g,) = grad((x * x * x).sum(), x, create_graph=True)
            return g

        for call in range(4):
            x = w * (call + 1)
            g = function(x)
            (second,) = grad(g.sum(), x, create_graph=True)
            g.sum().backward()
            yield g, second, w.grad

    beside(program, records=1)


def test_twice_inside() -> None:
    def program(compile: Any) -> Iterator[Any]:
        w = leaf(1.0, 2.0, 3.0)

        @compile
        def function(x: Any) -> Any:
            (g,) = grad((x**4).sum(), x, create_graph=True)
            (second,) = grad((g * g).sum(), x)
            return g.detach(), second

        for call in range(4):
            yield function(w + call)

    beside(program, records=1)


def test_a_penalty_on_the_gradient_of_a_result() -> None:
    def program(compile: Any) -> Iterator[Any]:
        w, v = leaf(1.0, 2.0), leaf(0.5, -1.0)

        @compile
        def function(x: Any) -> Any:
            (g,) = grad((x * v).exp().sum(), x, create_graph=True)
            return (g * g).sum() + (x * v).sum()

        for call in range(4):
            w.grad = v.grad = None
            function(w * (1 + 0.25 * call)).backward()
            yield [round(n, 3) for t in (w.grad, v.grad) for n in t.tolist()]

    beside(program, records=1)


def test_several_arguments_of_which_one_is_a_result() -> None:
    def program(compile: Any) -> Iterator[Any]:
        w, v = leaf(1.0, 2.0), leaf(5.0, 6.0)

        @compile
        def function(x: Any, v: Any, y: Any) -> Any:
            return grad((x * v * y).sum(), (x, v))

        for call in range(4):
            yield function(w * (call + 1), v, cf.ones(2) * call)

    beside(program, records=1)


@pytest.mark.parametrize("keyword", [False, True])
def test_views(keyword: bool) -> None:
    def program(compile: Any) -> Iterator[Any]:
        w = leaf(1.0, 2.0, 3.0, 4.0)

        @compile
        def function(x: Any) -> Any:
            return grad((x * x).sum(), x)

        for x in (w[1:3], w[2:4], (w * 2)[:2], (w * 2).reshape(2, 2).t()[0]):
            yield function(x=x) if keyword else function(x)

    beside(program)


def test_a_view_whose_base_was_written_before_the_call() -> None:
    def program(compile: Any) -> Iterator[Any]:
        w = leaf(1.0, 2.0, 3.0, 4.0)

        @compile
        def function(x: Any) -> Any:
            return grad((x * x).sum(), x, create_graph=True)

        for call in range(4):
            base = w * 2
            x = base[1:3]
            base.mul_(call + 1.0)
            (g,) = function(x)
            yield g, grad(g.sum(), w)

    beside(program, records=1)


def test_state_that_is_a_result() -> None:
    def program(compile: Any) -> Iterator[Any]:
        w = leaf(1.0, 2.0)
        held = {"x": w * 2}

        @compile
        def function(y: Any) -> Any:
            return grad((held["x"] * y).sum(), held["x"])

        for call in range(6):
            if call % 2:
                held["x"] = w * (call + 1.0)
            yield function(cf.ones(2) * call)

    beside(program)


def test_hooks_run_and_are_noticed() -> None:
    def program(compile: Any) -> Iterator[Any]:
        w, seen = leaf(1.0, 2.0), []

        @compile
        def function(x: Any) -> Any:
            return grad((x * x).sum(), x)

        def tenfold(g: Any) -> Any:
            return g * 10

        for call in range(8):
            x = w * (call + 1)
            if call % 4 == 1:
                x.register_hook(tenfold)
            if call % 4 == 2:
                x.register_hook(tenfold)
                x.register_hook(lambda g: g + 1)
            seen.append(function(x))
            yield seen[-1]

    beside(program)


def test_hooks_that_read_state_are_observed() -> None:
    def program(compile: Any) -> Iterator[Any]:
        w, factor = leaf(1.0, 2.0), {"f": 1.0}

        @compile
        def function(x: Any) -> Any:
            return grad((x * x).sum(), x)

        def scaled(g: Any) -> Any:
            return g * factor["f"]

        for call in range(6):
            factor["f"] = call // 3 + 1.0
            x = w * (call + 1)
            x.register_hook(scaled)
            yield function(x)

    beside(program)


def test_a_hook_of_the_function_itself() -> None:
    def program(compile: Any) -> Iterator[Any]:
        w = leaf(1.0, 2.0)

        @compile
        def function(x: Any) -> Any:
            with x.register_hook(lambda g: g * 10):
                return grad((x * x).sum(), x)

        for call in range(4):
            yield function(w * (call + 1))

    beside(program, records=1)


def test_hooks_on_the_node_do_not_run() -> None:
    def program(compile: Any) -> Iterator[Any]:
        w, ran = leaf(1.0, 2.0), []

        @compile
        def function(x: Any) -> Any:
            return grad((x * x).sum(), x)

        for call in range(3):
            x = w * (call + 1)
            x.grad_fn.register_hook(lambda *_: ran.append("hook"))
            x.grad_fn.register_prehook(lambda *_: ran.append("prehook"))
            yield function(x), list(ran)

    beside(program, records=1)


def test_a_result_that_is_not_used() -> None:
    def program(compile: Any) -> Iterator[Any]:
        w, v = leaf(1.0, 2.0), leaf(3.0, 4.0)

        @compile
        def function(x: Any, v: Any) -> Any:
            found = grad((v * v).sum(), (x, v), allow_unused=True)
            try:
                grad((v * v).sum(), x)
            except RuntimeError as error:
                return found, str(error)
            return None

        for call in range(3):
            yield function(w * (call + 1), v)

    beside(program, records=1)


def test_zeros_for_a_result_that_is_not_used() -> None:
    def program(compile: Any) -> Iterator[Any]:
        w, v = leaf(1.0, 2.0), leaf(3.0, 4.0)

        @compile
        def function(x: Any) -> Any:
            return grad((v * v).sum(), (x, v), materialize_grads=True)

        for call in range(3):
            yield function(w * (call + 1))

    beside(program, records=1)


@pytest.mark.parametrize("where", ["nowhere", "outside", "inside", "sometimes"])
def test_backward_into_a_result(where: str) -> None:
    def program(compile: Any) -> Iterator[Any]:
        w = leaf(1.0, 2.0)

        @compile
        def function(x: Any) -> None:
            if where == "inside":
                x.retain_grad()
            (x * x).sum().backward(inputs=[x])

        for call in range(4):
            x = w * (call + 1)
            if where == "outside" or (where == "sometimes" and call % 2):
                x.retain_grad()
            function(x)
            yield x.grad, x.retains_grad, w.grad
            function(x)
            yield x.grad, x.retains_grad, w.grad

    beside(program)


def test_a_retained_gradient_is_accumulated_where_the_gradient_is_asked_for() -> None:
    def program(compile: Any) -> Iterator[Any]:
        w = leaf(1.0, 2.0)

        @compile
        def function(x: Any) -> Any:
            return grad((x * x).sum(), x)

        for call in range(6):
            x = w * (call + 1)
            if call % 3:
                x.retain_grad()
            yield function(x), x.grad

    beside(program, records=2)


def test_both_outputs_of_one_op() -> None:
    def program(compile: Any) -> Iterator[Any]:
        w = leaf(1.0, 2.0, 3.0, 4.0)

        @compile
        def function(x: Any, y: Any) -> Any:
            return grad((x * y * y).sum(), (x, y)), grad((x * y).sum(), y)

        for call in range(4):
            yield function(*(w * (call + 1)).split(2))

    beside(program, records=1)


def test_the_target_itself_is_the_root() -> None:
    def program(compile: Any) -> Iterator[Any]:
        w = leaf(2.0)

        @compile
        def function(x: Any) -> Any:
            return grad(x.sum(), x), grad(x, x, cf.ones(1) * 3)

        for call in range(3):
            yield function(w * (call + 1))

    beside(program, records=1)


def test_in_a_checkpoint_and_under_a_closure() -> None:
    def program(compile: Any) -> Iterator[Any]:
        w, v = leaf(1.0, 2.0), leaf(3.0, 4.0)

        @compile
        def function(x: Any) -> Any:
            def energy(x: Any) -> Any:
                return (x * v).sin()

            y = cf.utils.checkpoint.checkpoint(energy, x, use_reentrant=False)
            return grad(y.sum(), (x, v))

        for call in range(3):
            found = function(w * (call + 1))
            yield [round(n, 4) for g in found for n in g.tolist()]

    beside(program, records=1)


def test_vectors_at_once() -> None:
    def program(compile: Any) -> Iterator[Any]:
        w = leaf(1.0, 2.0)

        @compile
        def function(x: Any) -> Any:
            return grad(x * x, x, cf.eye(2), is_grads_batched=True)

        for call in range(3):
            yield function(w * (call + 1))

    beside(program, records=1)


# --- what leads around a target ----------------------------------------------------------------


@pytest.mark.parametrize("target", ["leaf", "result"])
@pytest.mark.parametrize("way", ["grad", "backward"])
def test_an_argument_that_is_computed_from_the_target_is_noticed(target: str, way: str) -> None:
    @cf.compile
    def function(x: Any, y: Any) -> Any:
        if way == "grad":
            return grad((x * y).sum(), x)[0]
        x.grad = None
        (x * y).sum().backward(inputs=[x])
        return x.grad

    def given() -> Any:
        w = leaf(1.0, 2.0)
        return w if target == "leaf" else w * 1

    v = leaf(5.0, 5.0)
    for y in (v, v * 1, (v * 1)[:], v):  # none of which was computed from x
        assert function(given(), y).tolist() == [5.0, 5.0]
    x = given()
    for y in (x * 2, (x * 2)[:]):
        with pytest.raises(CaptureError, match="before the call; the next call would not repeat"):
            function(x, y)
    assert function(given(), v).tolist() == [5.0, 5.0]
    assert any("was computed from x" in change for change in function.changes)


def test_state_that_is_computed_from_the_target_is_noticed() -> None:
    held = {"y": leaf(5.0, 5.0)}

    @cf.compile
    def function(x: Any) -> Any:
        return grad((x * held["y"]).sum(), x)[0]

    w = leaf(1.0, 2.0)
    assert function(w).tolist() == [5.0, 5.0]
    held["y"] = w * 2
    with pytest.raises(CaptureError, match="before the call; the next call would not repeat"):
        function(w)
    held["y"] = leaf(3.0, 3.0) * 2
    assert function(w).tolist() == [6.0, 6.0]
    assert function(w * 2).tolist() == [6.0, 6.0]


def test_a_target_that_is_computed_from_another() -> None:
    @cf.compile
    def function(x: Any, y: Any) -> Any:
        return grad((x * y).sum(), (x, y))

    w = leaf(1.0, 2.0)
    for found in (function(w * 1, w * 3), function(w * 2, w * 3)):
        assert found[0].tolist() == [3.0, 6.0]
    x = w * 1
    with pytest.raises(CaptureError, match="backward reached mul, which was applied"):
        function(x, x * 2)


def test_backward_without_targets_is_refused_as_before() -> None:
    @cf.compile
    def function(x: Any) -> Any:
        (x * x).sum().backward()

    with pytest.raises(CaptureError, match="backward reached mul, which was applied"):
        function(leaf(1.0, 2.0) * 2)


def test_a_tensor_that_nobody_names_is_refused() -> None:
    x = leaf(1.0, 2.0) * 2
    loss = cf.ones(1)  # its graph leads to x, and the function has no other way to it

    @cf.compile
    def function(root: Any) -> Any:
        return grad(root, x)

    with pytest.raises(CaptureError, match="backward reached"):
        function((x * x).sum() + loss.sum())
