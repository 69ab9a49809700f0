"""Gradient rules that are wrong, and PyTorch's conventions at kinks."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.helpers.engine_common import leaf, refused, temporary

import contraflow as cf
from contraflow.autograd import grad
from contraflow.operation.kinds import elementwise
from contraflow.operation.op import REGISTRY
from contraflow.testing import assert_close

# --- rules -------------------------------------------------------------------------------------


def squaring(x: Any) -> Any:
    """For tests of rules."""
    return x * x


def product(a: Any, b: Any) -> Any:
    """For tests of rules."""
    return a * b


def test_seed_11_a_rule_that_returns_too_few() -> None:
    wrong = {"a, b": lambda g, a: (g * a,)}
    with temporary(elementwise, product, ref=np.multiply, vjp=wrong) as op:
        x, y = leaf(1.0), leaf(2.0)
        with refused(
            cf.GradientError,
            "backward: the gradient rule of product returned 1 gradients for 2 inputs.",
        ):
            op(x, y).backward()
    assert x.grad is None
    assert y.grad is None


def test_seed_11_a_rule_that_returns_the_wrong_shape() -> None:
    wrong = {"x": lambda g, x: (g * x)[:1]}
    with (
        temporary(elementwise, squaring, ref=np.square, vjp=wrong) as op,
        refused(
            cf.GradientError,
            "backward: the gradient rule of squaring gave float64[1] for an input float64[2].",
        ),
    ):
        op(leaf(1.0, 2.0)).sum().backward()


def test_one_rule_may_serve_several_inputs() -> None:
    both = {"a, b": lambda g, a, b: (g * b, g * a)}
    with temporary(elementwise, product, ref=np.multiply, vjp=both) as op:
        x, y = leaf(3.0), leaf(5.0)
        op(x, y).backward()
        assert (x.grad.item(), y.grad.item()) == (5.0, 3.0)
        z = leaf(7.0)
        op(z, 2.0).backward()
        assert z.grad.item() == 2.0


def test_a_misspelt_name_fails_at_the_declaration() -> None:
    with refused(
        TypeError,
        "squaring: the gradient rule of 'x' names 'y', which is neither a cotangent, an input, an ",
        "output nor a parameter. Known: g, out, x, x_spec.",
    ):
        elementwise(ref=np.square, vjp={"x": lambda g, y: g})(squaring)
    assert "squaring" not in REGISTRY


# --- conventions -------------------------------------------------------------------------------


def test_seed_7_pow_leaks_no_nan() -> None:
    x = leaf(0.0, 0.0, 0.0, 0.0, 2.0)
    y = leaf(0.0, 1.0, 3.0, -1.0, 0.0)
    (x**y).sum().backward()
    assert_close(y.grad, np.array([0.0, 0.0, 0.0, 0.0, np.log(2.0)]))
    assert_close(x.grad[:3], np.array([0.0, 1.0, 0.0]))
    assert x.grad[4].item() == 0.0
    z = leaf(0.0, 2.0)
    (z**2.0).sum().backward()
    assert_close(z.grad, np.array([0.0, 4.0]))
    z.grad = None
    (2.0**z).sum().backward()
    assert_close(z.grad, np.log(2.0) * np.array([1.0, 4.0]))


def test_seed_8_conventions_at_kinks() -> None:
    zero = leaf(0.0)
    assert grad(zero.abs(), zero)[0].item() == 0.0
    assert grad(zero.relu(), zero)[0].item() == 0.0
    assert grad(zero.sqrt(), zero)[0].item() == np.inf
    ties = leaf(2.0, 1.0, 2.0)
    assert_close(grad(ties.amax(), ties)[0], np.array([0.5, 0.0, 0.5]))
    assert_close(grad(ties.max(), ties)[0], np.array([0.5, 0.0, 0.5]))
    assert_close(grad(ties.max(0)[0], ties)[0], np.array([1.0, 0.0, 0.0]))
    assert_close(grad((-ties).amin(), ties)[0], np.array([-0.5, 0.0, -0.5]))
    a, b = leaf(1.0), leaf(1.0)
    assert [g.item() for g in grad(cf.maximum(a, b), [a, b])] == [0.5, 0.5]
    assert [g.item() for g in grad(cf.minimum(a, b), [a, b])] == [0.5, 0.5]


def test_seed_16_indices_are_integers() -> None:
    x = cf.zeros(1, (1 << 24) + 4)
    at = (1 << 24) + 3
    x[0, at] = 1.0
    values, indices = x.max(1)
    assert indices.dtype is cf.int64
    assert indices.item() == at
    assert not indices.requires_grad
    assert values.item() == 1.0
