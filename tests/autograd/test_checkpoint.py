"""Checkpoints: what they notice, what a recomputation repeats, and what it leaves alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.helpers.engine_common import leaf, place, refused

import contraflow as cf
from contraflow import Tensor, nn
from contraflow.nn import functional as F
from contraflow.testing import assert_close


def overwritten(value: str, kept: str, writer: str, wrote: str) -> str:
    return (
        f"checkpoint saved {value} at {place(kept)} for its backward, but {writer} overwrote it "
        f"at {place(wrote)}. Use the out-of-place form, or clone it before."
    )


def noticed(start: str) -> Any:
    """A GradientError whose text starts like this."""
    return pytest.raises(cf.GradientError, match=f"^{re.escape(start)}")


# --- tensors from outside --------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [lambda a, w: (a * w).sin(), lambda a, w: (a + w).sin(), lambda a, w: (a + w[:1]).sin()],
    ids=["saved", "read", "viewed"],
)
def test_a_captured_tensor_that_was_overwritten(body: Callable[..., Tensor]) -> None:
    a, w = leaf(0.5, 0.25), cf.tensor([2.0, 3.0], dtype=cf.float64)
    y = cf.checkpoint(lambda: body(a, w))  # captured here
    w.add_(1)  # added here
    with refused(
        cf.GradientError, overwritten("float64[2]", "captured here", "add_", "added here")
    ):
        y.sum().backward()


def test_an_optimizer_step_before_backward() -> None:
    layer = nn.Linear(2, 2)
    optimizer = cf.optim.SGD(layer.parameters(), lr=0.1)
    x = cf.ones(3, 2, requires_grad=True)
    loss = cf.checkpoint(layer, x).sum()  # called here
    F.linear(x, layer.weight, layer.bias).sum().backward()
    optimizer.step()  # stepped here
    with noticed(f"checkpoint saved float32[2, 2] at {place('called here')} "):
        loss.backward()


GLOBAL = cf.ones(2)


def test_a_global_and_a_number_that_was_read() -> None:
    flag = cf.tensor(1.0)

    def block(v: Tensor) -> Tensor:
        return (v * GLOBAL).sin() if flag.item() > 0 else v

    for changed, text in ((GLOBAL, "float32[2]"), (flag, "float32[]")):
        y = cf.checkpoint(block, cf.ones(2, requires_grad=True))
        changed.mul_(1)
        with noticed(f"checkpoint saved {text} at "):
            y.sum().backward()


def test_a_captured_tensor_that_was_replaced() -> None:
    layer = nn.Linear(2, 2)
    x = cf.ones(3, 2, requires_grad=True)
    y = cf.checkpoint(lambda v: layer(v).sin(), x)  # before it was replaced
    layer.weight = nn.Parameter(cf.ones(2, 2))
    with refused(
        cf.GradientError,
        "checkpoint: the recomputation reads float32[2, 2], which the first run at "
        f"{place('before it was replaced')} did not. A tensor that the function takes from outside "
        "must stay the same until backward; pass it as an argument. Where another one has the same "
        "elements, determinism_check='none' accepts it.",
    ):
        y.sum().backward()
    y = cf.checkpoint(lambda v: layer(v).sin(), x, determinism_check="none")
    layer.weight = nn.Parameter(cf.zeros(2, 2))
    y.sum().backward()


def test_what_the_function_has_made_and_kept_is_no_replacement() -> None:
    kept: list[Tensor] = []

    def block(v: Tensor) -> Tensor:
        if not kept:
            kept.append(cf.full((2,), 3.0))
        return (v * kept[0]).sin()

    x = cf.zeros(2, requires_grad=True)
    cf.checkpoint(block, x).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_backward_inside_the_function() -> None:
    w = leaf(1.5, 0.5)

    def block(v: Tensor) -> Tensor:
        h = (v * w).sin()
        (g,) = cf.autograd.grad((h * h).sum(), v, create_graph=True)
        return (v - g * h).exp()

    x = leaf(0.3, 0.6)
    want = cf.autograd.grad(block(x).sum(), (x, w))
    for a, b in zip(cf.autograd.grad(cf.checkpoint(block, x).sum(), (x, w)), want):
        assert a.array.tobytes() == b.array.tobytes()


def test_gradients_that_the_function_accumulates_are_accumulated_once() -> None:
    w = leaf(1.5, 0.5)

    def block(v: Tensor) -> Tensor:
        (v.detach() * w).sum().backward()
        return (v * w).sin()

    for start in (None, cf.zeros(2, dtype=cf.float64)):
        w.grad = start
        x = leaf(0.3, 0.6)
        y = cf.checkpoint(block, x).sum()
        assert w.grad.tolist() == [0.3, 0.6]
        cf.autograd.grad(y, x)
        assert w.grad.tolist() == [0.3, 0.6]
        y = cf.checkpoint(lambda v: cf.checkpoint(block, v), x).sum()
        cf.autograd.grad(y, x)
        assert w.grad.tolist() == [0.6, 1.2]

    @cf.compile
    def step(v: Tensor) -> Tensor:
        return cf.autograd.grad(cf.checkpoint(block, v).sum(), v)[0]

    for k in range(1, 4):
        w.grad = None if k == 1 else w.grad
        step(leaf(0.3, 0.6))
        assert_close(w.grad, k * np.array([0.3, 0.6]))


def test_a_nested_checkpoint_notices_too() -> None:
    a, w = leaf(0.5), cf.tensor([2.0], dtype=cf.float64)
    y = cf.checkpoint(lambda v: cf.checkpoint(lambda: (v.exp() + w).sin()), a)
    w.add_(1)
    with noticed("checkpoint saved float64[1] at "):
        y.backward()


def test_a_value_overwritten_inside_the_function() -> None:
    def block(v: Tensor) -> Tensor:
        h = v.exp()
        out = h * h
        h.add_(1)
        return out

    y = cf.checkpoint(block, leaf(0.5))
    with noticed("checkpoint saved float64[1] at "):
        y.backward()


def test_second_order_with_captured_tensors() -> None:
    w = leaf(1.5, 0.5)

    def gradients(run: Callable[..., Tensor]) -> tuple[Tensor, ...]:
        x = leaf(0.3, 0.6)
        (g,) = cf.autograd.grad(run(lambda v: (v * w).sin().exp(), x).sum(), x, create_graph=True)
        return cf.autograd.grad((g * g).sum(), (x, w))

    for a, b in zip(gradients(cf.checkpoint), gradients(lambda f, v: f(v))):
        assert a.array.tobytes() == b.array.tobytes()


def test_compiled_functions_inside_are_heard() -> None:
    w = cf.tensor([2.0, 3.0])
    inner = cf.compile(lambda v: (v * w).sin())
    x = cf.ones(2, requires_grad=True)
    for _ in range(4):  # recorded, replayed, and by the shortest way
        y = cf.checkpoint(lambda v: inner(v + 1).exp(), x)
        w.add_(1)
        with noticed("checkpoint saved float32[2] at "):
            y.sum().backward()
        y = cf.checkpoint(lambda v: inner(v + 1).exp(), x)
        got = cf.autograd.grad(y.sum(), x)[0]
        want = cf.autograd.grad(((x + 1) * w).sin().exp().sum(), x)[0]
        assert_close(got, want)


def test_a_checkpoint_inside_a_compiled_function() -> None:
    w = cf.tensor([2.0, 3.0])

    @cf.compile
    def step(x: Tensor) -> Tensor:
        y = cf.checkpoint(lambda v: (v + w).sin(), x)
        w.add_(1)
        return cf.autograd.grad(y.sum(), x)[0]

    with noticed("checkpoint saved float32[2] at "):
        step(cf.ones(2, requires_grad=True))


# --- random numbers --------------------------------------------------------------------------


def test_an_explicit_generator_is_restored() -> None:
    generator = cf.Generator(3)

    def block(v: Tensor) -> Tensor:
        return (v * cf.rand(4, generator=generator)).exp() * cf.rand(4)

    def run(call: Callable[..., Tensor]) -> tuple[Tensor, Any, Any]:
        generator.manual_seed(3)
        cf.manual_seed(4)
        x = cf.ones(4, requires_grad=True)
        y = call(block, x).sum()
        cf.rand(3, generator=generator)
        y.backward()
        return x.grad, generator.get_state(), cf.get_rng_state()

    want = run(lambda f, v: f(v))
    for call in (cf.checkpoint, lambda f, v: cf.checkpoint(lambda u: cf.checkpoint(f, u), v)):
        got = run(call)
        assert got[0].tolist() == want[0].tolist()
        assert got[1:] == want[1:]

    @cf.compile
    def step(x: Tensor) -> Tensor:
        return cf.autograd.grad(cf.checkpoint(block, x).sum(), x)[0]

    for _ in range(3):
        x = cf.ones(4, requires_grad=True)
        generator.manual_seed(3)
        cf.manual_seed(4)
        expected = cf.autograd.grad(block(x).sum(), x)[0]
        generator.manual_seed(3)
        cf.manual_seed(4)
        assert_close(step(x), expected)


def test_a_generator_inside_a_compiled_function_is_restored() -> None:
    generator = cf.Generator(3)
    inner = cf.compile(lambda v: (v * cf.rand(4, generator=generator)).exp())
    for _ in range(4):
        generator.manual_seed(3)
        x = cf.ones(4, requires_grad=True)
        (want,) = cf.autograd.grad((x * cf.rand(4, generator=generator)).exp().sin().sum(), x)
        after = generator.get_state()
        generator.manual_seed(3)
        (got,) = cf.autograd.grad(cf.checkpoint(lambda v: inner(v).sin(), x).sum(), x)
        assert_close(got, want)
        assert generator.get_state() == after


# --- what the function writes ----------------------------------------------------------------


def statistics(call: Callable[..., Tensor]) -> list[list[float]]:
    layer = nn.BatchNorm1d(2)
    x = cf.tensor([[1.0, 2.0], [3.0, 5.0], [4.0, 9.0]], requires_grad=True)
    first, second = call(layer, x), call(layer, x * 2)
    (first.sin() + second).sum().backward()
    return [t.tolist() for t in (*layer.buffers(), layer.weight.grad, layer.bias.grad, x.grad)]


def test_batch_statistics_are_updated_once() -> None:
    want = statistics(lambda f, v: f(v))
    assert statistics(cf.checkpoint) == want
    assert statistics(lambda f, v: cf.checkpoint(lambda u: cf.checkpoint(f, u), v)) == want
    compiled = cf.compile(lambda layer, x: cf.checkpoint(layer, x))
    for got, expected in zip(statistics(compiled), want):
        assert_close(got, expected)


def test_batch_statistics_in_a_compiled_step() -> None:
    found = []
    for call in (lambda f, v: f(v), cf.checkpoint):
        layer = nn.BatchNorm1d(2)

        @cf.compile
        def step(x: Tensor, layer: Any = layer, call: Any = call) -> None:
            call(layer, x).sin().sum().backward()

        for i in range(3):
            step(cf.tensor([[1.0, 2.0], [3.0, 5.0], [4.0, 9.0 + i]]))
        found.append([t.array.copy() for t in (*layer.buffers(), layer.weight.grad)])
    for a, b in zip(*found):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_compiled_functions_that_write_are_undone() -> None:
    state = cf.zeros(2)

    @cf.compile
    def inner(v: Tensor) -> Tensor:
        state.add_(1)
        return (v * state).exp()

    for count in range(1, 5):
        x = cf.tensor([0.1, 0.2], requires_grad=True)
        y = cf.checkpoint(lambda v: inner(v).sin(), x)
        want = cf.autograd.grad((x * state.clone()).exp().sin().sum(), x)[0]
        assert_close(cf.autograd.grad(y.sum(), x)[0], want)
        assert state.tolist() == [count, count]


def test_state_that_is_read_and_written_is_rewound() -> None:
    state = cf.ones(2)

    def block(v: Tensor) -> Tensor:
        out = v * state
        state.mul_(2)
        state[:1] = 7
        return (out * state).sin()

    x = cf.tensor([0.1, 0.2], requires_grad=True)
    y = cf.checkpoint(block, x)
    version = state._version
    state_then = state.clone()
    state.add_(5)  # of no concern: the function finds what it found
    kept = state * cf.ones(2, requires_grad=True)
    y.sum().backward()
    kept.sum().backward()  # the versions are what they were
    factor = np.array([7.0, 2.0])
    assert_close(x.grad, factor * np.cos(np.array([0.1, 0.2]) * factor))
    assert_close(state, state_then + 5)
    assert state._version == version + 1
    assert state.storage.writer[0] == "add_"


def test_statistics_among_the_arguments() -> None:
    x = cf.tensor([[1.0, 2.0], [3.0, 5.0]], requires_grad=True)
    mean, var = cf.zeros(2), cf.ones(2)
    y = cf.checkpoint(F.batch_norm, x, mean, var, training=True)
    before = mean.tolist(), var.tolist()
    y.sin().sum().backward()
    assert (mean.tolist(), var.tolist()) == before
    plain = x.detach().requires_grad_()
    F.batch_norm(plain, cf.zeros(2), cf.ones(2), training=True).sin().sum().backward()
    assert_close(x.grad, plain.grad)


def test_a_captured_tensor_that_is_given_a_graph() -> None:
    a = leaf(0.5, 0.25)
    hidden = cf.zeros(2, dtype=cf.float64)

    def block(v: Tensor) -> Tensor:
        out = v * hidden
        hidden.copy_(v.exp())
        return out + hidden.sin()

    y = cf.checkpoint(block, a)
    node = hidden.node
    (g,) = cf.autograd.grad(y.sum(), a)
    assert hidden.node is node
    assert hidden.requires_grad
    e = np.exp([0.5, 0.25])
    assert_close(g, np.cos(e) * e)


def test_effects_are_undone_where_the_function_raises() -> None:
    state = cf.ones(2)

    def block(v: Tensor) -> Tensor:
        state.add_(1)
        if cf.is_recomputing():
            raise KeyError("no")
        return (v * state).sin()

    y = cf.checkpoint(block, cf.ones(2, requires_grad=True)).sum()
    with pytest.raises(KeyError):
        y.backward()
    assert state.tolist() == [2.0, 2.0]


# --- segments --------------------------------------------------------------------------------


def test_checkpoint_sequential_takes_any_number_of_functions() -> None:
    x = leaf(0.3, 0.4)
    assert cf.checkpoint_sequential([], 3, x) is x
    calls: list[bool] = []

    def counted(v: Tensor) -> Tensor:
        calls.append(cf.is_recomputing())
        return v.sin()

    cf.checkpoint_sequential([counted, counted], 5, x).sum().backward()
    assert calls == [False, False, True, True]
    plain = leaf(0.3, 0.4)
    plain.sin().sin().sum().backward()
    assert x.grad.tolist() == plain.grad.tolist()
    for segments in (0, -1, True, 1.5):
        with refused(
            ValueError,
            f"checkpoint_sequential: segments is {segments!r}; it must be a positive whole number.",
        ):
            cf.checkpoint_sequential([cf.sin], segments, x)  # type: ignore[arg-type]
