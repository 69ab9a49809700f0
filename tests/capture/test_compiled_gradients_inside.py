"""Gradients of compiled functions with others inside, inside others, and at random."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.helpers.differentiable import _set_row, agree, leaf
from tests.helpers.programs_beside import beside

import contraflow as cf
from contraflow.testing import assert_close

F = cf.nn.functional


pytestmark = pytest.mark.usefixtures("mode")


def test_custom_functions_inside() -> None:
    class Double(cf.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x.round()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return g * 7.0 * x

    agree(lambda x: Double.apply(x * 2) * x, [leaf(3)], order=3)


def test_compiled_functions_inside_others() -> None:
    inner = cf.compile(lambda x, w: (x @ w).tanh())
    w = leaf(3, 3)
    agree(lambda x: inner(x, w).exp() * inner(x * 2, w), [leaf(3, 3)], order=3)

    step_w, before = leaf(3, 3), inner.captures

    @cf.compile
    def step(x: Any) -> Any:
        step_w.grad = None
        loss = inner(x, step_w).sum()
        loss.backward()
        return loss.detach()

    x = cf.randn(3, 3, dtype=cf.float64)
    for _ in range(2):
        step(x)
        (want,) = cf.autograd.grad((x @ step_w).tanh().sum(), step_w)
        assert_close(step_w.grad, want)
    assert inner.captures == before, "it is part of the step"


def test_inside_a_checkpoint() -> None:
    w = leaf(3, 3)
    inner = cf.compile(lambda x: F.dropout((x @ w).tanh(), 0.5) * x)
    x = leaf(3, 3)
    for _ in range(2):
        cf.manual_seed(1)
        want = cf.autograd.grad((F.dropout(((x * 2) @ w).tanh(), 0.5) * (x * 2)).sum(), (x, w))
        cf.manual_seed(1)
        out = cf.checkpoint(lambda v: inner(v * 2), x)
        for a, b in zip(cf.autograd.grad(out.sum(), (x, w)), want):
            assert_close(a, b)


def test_saved_tensors_hooks_see_residuals() -> None:
    packed: list[Any] = []
    f = cf.compile(lambda x: (x * 2).exp())
    x = leaf(3)
    with cf.autograd.graph.saved_tensors_hooks(
        lambda t: packed.append(t) or t.clone(), lambda t: t
    ):
        out = f(x)
    assert packed
    out.sum().backward()
    assert_close(x.grad, 2 * (2 * x.detach()).exp())


def test_saved_tensors_hooks_around_a_call_are_those_of_eager() -> None:
    def program(compile: Any) -> Iterator[Any]:
        w = cf.full((2,), 2.0, requires_grad=True)
        square = compile(lambda x: (x * x * w).sum())
        step = compile(lambda x: (x * w * w).sum().backward())
        for call in range(8):
            x = cf.full((2,), 3.0, requires_grad=True)
            w.grad, seen = None, []
            hooks = cf.autograd.graph.saved_tensors_hooks(
                lambda t, seen=seen: seen.append(t.shape) or t * 2, lambda t: t
            )
            with hooks if call % 4 == 3 else contextlib.nullcontext():
                y = square(x)
                step(cf.ones(2))
            y.backward()
            yield x.grad, w.grad, len(seen)

    beside(program, records=2)


def test_forward_mode_runs_the_function_itself() -> None:
    f = cf.compile(lambda x: (x * x).exp())
    x, t = cf.randn(3, dtype=cf.float64), cf.ones(3, dtype=cf.float64)
    _, got = cf.func.jvp(f, (x,), (t,))
    assert_close(got, 2 * x * (x * x).exp())
    assert_close(cf.func.grad(lambda v: f(v).sum())(x), 2 * x * (x * x).exp())


def test_a_graph_that_was_freed_inside() -> None:
    """As in eager, the result has a value, and an error is only what a backward gets."""
    w = leaf(3)

    @cf.compile
    def step(x: Any) -> Any:
        w.grad = None
        h = (w * x).exp()
        after = h.tanh()
        h.sum().backward()
        return after

    x = cf.ones(3, dtype=cf.float64)
    for _ in range(2):
        out = step(x)
        assert_close(out.detach(), w.detach().exp().tanh())
        assert_close(w.grad, w.detach().exp())
        with pytest.raises(cf.GradientError, match="has run already"):
            out.sum().backward()


def test_gradcheck_of_a_compiled_function() -> None:
    f = cf.compile(lambda x, w: F.softmax((x @ w).sin(), 1))
    x, w = leaf(3, 3), leaf(3, 3)
    assert cf.autograd.gradcheck(f, (x, w))
    assert cf.autograd.gradgradcheck(f, (x, w))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_other_dtypes(dtype: str) -> None:
    kind = getattr(cf, dtype)

    def function(x: Any, w: Any) -> Any:
        return (x @ w).tanh().sum()

    f = cf.compile(function)
    x, w = (leaf(4, 4, dtype=cf.float32).detach().to(kind).requires_grad_() for _ in range(2))
    for a, b in zip(cf.autograd.grad(f(x, w), (x, w)), cf.autograd.grad(function(x, w), (x, w))):
        assert a.dtype is kind
        assert_close(a, b)


def test_workers_and_threads() -> None:
    f = cf.compile(lambda x, w: (x @ w).tanh())
    x, w = leaf(8, 8), leaf(8, 8)
    total = sum((f(x * i, w) for i in range(1, 5)), cf.zeros(8, 8, dtype=cf.float64)).sum()
    total.backward(workers=3)
    want = sum(((x * i) @ w).tanh() for i in range(1, 5)).sum()
    for got, expected in zip((x.grad, w.grad), cf.autograd.grad(want, (x, w))):
        assert_close(got, expected)


def test_threads_share_a_differentiable_function() -> None:
    f = cf.compile(lambda x: (x.exp() * x).tanh())
    failures: list[Any] = []

    def work(seed: int) -> None:
        try:
            for k in range(20):
                x = cf.full((50,), 0.01 * (seed + k), dtype=cf.float64).requires_grad_()
                f(x).sum().backward()
                (want,) = cf.autograd.grad((x.exp() * x).tanh().sum(), x)
                assert_close(x.grad, want)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


# --- random functions --------------------------------------------------------------------------


STEPS: list[Callable[..., Any]] = [
    lambda a, b: a * b,
    lambda a, b: a + b * 0.5,
    lambda a, b: (a @ b).tanh(),
    lambda a, b: a.sin() - b.mT,
    lambda a, b: a / (b * b + 1),
    lambda a, b: F.softmax(a, 1) * b,
    lambda a, b: F.layer_norm(a, (3,)) + b,
    lambda a, b: cf.where(a > b, a, b * 2),
    lambda a, b: a.detach() * b,
    lambda a, b: F.dropout(a, 0.3) + b,
    lambda a, b: a.sum(0, keepdim=True) * b.mean(1, keepdim=True),
    lambda a, b: a[[2, 0, 1]] * b[:, 1:2],
    lambda a, b: (a * 1).add_(b).mul_(a.detach()),
    lambda a, b: _set_row(a * 1, b) * 0.1,
    lambda a, b: cf.checkpoint(lambda v: (v * b).tanh() * v, a),
    lambda a, b: cf.cat([a[:1], b[1:]]),
    lambda a, b: a.amax(0) + b.cumsum(1) * 0.3,
    lambda a, b: a.reshape(9)[1:].exp().mean() * b * 0.1,
]


def random_function(seed: int) -> Callable[..., Any]:
    """A function of two 3x3 tensors that takes some of the steps above."""

    def function(x: Any, y: Any) -> Any:
        choices = random.Random(seed)
        values = [x, y]
        for _ in range(choices.randint(2, 9)):
            a, b = choices.choice(values), choices.choice(values)
            values.append(choices.choice(STEPS)(a, b))
        return tuple(values[-choices.randint(1, 3) :])

    return function


# In 368 a maximum is looked for in a value that backward computes again, by another kernel.
@pytest.mark.parametrize("seed", [*range(16), 368])
def test_random_functions(seed: int) -> None:
    cf.manual_seed(seed)
    function = random_function(seed)
    agree(function, [leaf(3, 3), leaf(3, 3)], calls=2)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(16, 1000, 41))
def test_many_random_functions(first: int) -> None:
    for seed in range(first, first + 41):
        cf.manual_seed(seed)
        agree(random_function(seed), [leaf(3, 3), leaf(3, 3)], calls=2)
