"""`custom_op`: NumPy code of the user's as one op, eager and compiled."""

from __future__ import annotations

import contextvars
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import contraflow as cf
from contraflow import config
from contraflow.testing import assert_close


@pytest.fixture(params=["off", "interpret", "native"], autouse=True)
def mode(request: pytest.FixtureRequest) -> Iterator[str]:
    before = config.compile_mode
    config.compile_mode = request.param
    yield request.param
    config.compile_mode = before


@cf.custom_op(vjp={"x": lambda g, x, p: g * p * x ** (p - 1.0)})
def power(x: Any, *, p: float = 3.0) -> Any:
    return np.power(x, p)


@cf.custom_op(
    shape=lambda x, y: (x.shape[:-1], (*x.shape, 2)),
    dtype=lambda x, y: (cf.int64, y.dtype),
    outs=("best", "pairs"),
    vjp={"x": lambda g_pairs: g_pairs[..., 0], "y": lambda g_pairs: g_pairs[..., 1]},
)
def pair(x: Any, y: Any) -> Any:
    return x.argmax(-1), np.stack(np.broadcast_arrays(x, y), -1)


def test_values_and_gradients() -> None:
    x = cf.randn(3, 2, dtype=cf.float64, requires_grad=True)
    f = cf.compile(lambda x: (power(x * 2) + power(x, p=2.0)).sum())
    for _ in range(2):
        out = f(x)
        (g,) = cf.autograd.grad(out, x, create_graph=True)
        (second,) = cf.autograd.grad(g.sum(), x)
        v = x.detach()
        assert_close(out.detach(), (8 * v**3 + v**2).sum())
        assert_close(g.detach(), 24 * v**2 + 2 * v)
        assert_close(second, 48 * v + 2)
    assert cf.autograd.gradcheck(power, (x,))


@pytest.mark.parametrize("count", [3, 1_000_000])
def test_rules_read_python_state_at_every_backward(count: int) -> None:
    """However many elements there are, and however often the same op has run."""
    factor = [2.0]

    @cf.custom_op(vjp={"x": lambda g: cf.exp(g) * 0 + factor[0]})
    def same(x: Any) -> Any:
        return x + 0

    for value in (2.0, 2.0, 2.0, 3.0, 4.0):
        factor[0] = value
        w = cf.ones(count, requires_grad=True)
        same(w).sum().backward()
        assert w.grad is not None
        assert w.grad[-1].item() == value


def test_several_results() -> None:
    x, y = (cf.randn(3, 4, dtype=cf.float64, requires_grad=True) for _ in range(2))
    f = cf.compile(lambda x, y: pair(x.tanh(), y))
    best, pairs = f(x, y)
    assert_close(best, x.detach().argmax(-1))
    (pairs * cf.tensor([1.0, 2.0], dtype=cf.float64)).sum().backward()
    assert_close(y.grad, np.full((3, 4), 2.0))
    assert_close(x.grad, 1 - x.detach().tanh() ** 2)


def test_a_host_segment_of_a_compiled_step(mode: str) -> None:
    w = cf.ones(3, requires_grad=True)

    @cf.compile
    def step(x: Any) -> Any:
        w.grad = None
        loss = power(w * x).sum()
        loss.backward()
        return loss.detach()

    for scale in (1.0, 2.0):
        x = cf.full((3,), scale)
        assert step(x).item() == 3 * scale**3
        assert_close(w.grad, np.full(3, 3 * scale**3, np.float32))
    if mode == "native":
        assert "host    power" in step.explain()


def test_results_have_memory_of_their_own_and_inputs_are_read_only() -> None:
    same = cf.custom_op(lambda x: x, name="same")
    x = cf.ones(3)
    out = same(x)
    out.add_(1)
    assert_close(x, np.ones(3, np.float32))

    @cf.custom_op
    def writes(x: Any) -> Any:
        x += 1
        return x

    with pytest.raises(ValueError, match="read-only"):
        writes(x)


def test_what_is_wrong_is_said() -> None:
    @cf.custom_op(shape=lambda x: (2,))
    def three(x: Any) -> Any:
        return np.zeros(3, np.float32)

    with pytest.raises(ValueError, match=r"three: the function returned float32\[3\], but its"):
        three(cf.ones(4))

    @cf.custom_op
    def plain(x: Any) -> Any:
        return x * 2

    x = cf.ones(3, requires_grad=True)
    with pytest.raises(cf.GradientError, match="plain: has no gradient, since custom_op was given"):
        plain(x).sum().backward()
    assert_close(plain(x).detach(), np.full(3, 2.0, np.float32))
    with pytest.raises(TypeError, match="takes no tensor"):
        cf.custom_op(lambda *, k: k, name="none")
    with pytest.raises(TypeError, match="names 'z', which is neither"):
        cf.custom_op(lambda x: x, vjp={"x": lambda g, z: g}, name="misspelt")


# --- effects -----------------------------------------------------------------------------------


def recorder(effects: bool) -> tuple[Any, list[Any]]:
    """An op that notes what it is given."""
    seen: list[Any] = []

    @cf.custom_op(effects=effects, vjp={"x": lambda g: g})
    def note(x: Any, *, tag: str = "") -> Any:
        seen.append((tag, x.tolist()))
        return x

    return note, seen


def test_an_op_with_effects_runs_in_every_call() -> None:
    """Whether its result is used or not, as often as it is applied, and in order."""
    note, seen = recorder(True)

    @cf.compile
    def step(x: Any) -> Any:
        note(x * 2.0, tag="first")
        note(x * 2.0, tag="first")
        kept = note(x + 1.0, tag="second")
        note(cf.zeros(1), tag="third")
        note(kept.sum(), tag="fourth")
        return kept * 3.0

    for k in range(4):
        seen.clear()
        assert step(cf.full((2,), float(k))).tolist() == [3.0 * k + 3.0] * 2
        assert seen == [
            ("first", [2.0 * k] * 2), ("first", [2.0 * k] * 2), ("second", [k + 1.0] * 2),
            ("third", [0.0]), ("fourth", 2 * k + 2.0),
        ]  # fmt: skip


def test_effects_in_functions_without_results_and_in_backward() -> None:
    note, seen = recorder(True)

    @cf.compile
    def only(x: Any) -> None:
        note(x)

    for k in range(3):
        seen.clear()
        only(cf.full((1,), float(k)))
        assert seen == [("", [float(k)])]
    w = cf.ones(2, requires_grad=True)
    f = cf.compile(lambda x: (note(x * w, tag="forward") * x).sum())
    for k in range(3):
        seen.clear()
        w.grad = None
        f(cf.full((2,), k + 1.0)).backward()
        assert seen == [("forward", [k + 1.0] * 2)]
        assert w.grad.tolist() == [(k + 1.0) ** 2] * 2


def test_an_op_without_effects_may_be_dropped_and_shared(mode: str) -> None:
    note, seen = recorder(False)

    @cf.compile
    def step(x: Any) -> Any:
        note(x * 5.0)
        return note(x) + note(x)

    for _ in range(2):
        seen.clear()
        assert step(cf.ones(1)).tolist() == [2.0]
        assert len(seen) == (1 if mode == "native" else 3)


factor: contextvars.ContextVar[float] = contextvars.ContextVar("factor", default=1.0)


def test_the_function_sees_context_variables_of_its_caller(mode: str) -> None:
    @cf.custom_op
    def scaled(x: Any) -> Any:
        return x * np.float32(factor.get())

    f = cf.compile(lambda x: scaled(x) + 1.0)
    x = cf.ones(3)
    for value in (2.0, 3.0):
        token = factor.set(value)
        try:
            assert scaled(x).tolist() == [value] * 3
            assert scaled(x * 1.0).tolist() == [value] * 3
            assert f(x).tolist() == [value + 1.0] * 3
        finally:
            factor.reset(token)


def test_the_function_warns_as_numpy_is_set_to_around_it() -> None:
    @cf.custom_op
    def inverse(x: Any) -> Any:
        return np.float32(1.0) / x

    x = cf.zeros(3)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        inverse(x)
    with np.errstate(divide="ignore"):
        assert inverse(x).tolist() == [math.inf] * 3
