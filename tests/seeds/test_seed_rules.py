"""Engine behaviour, lines 4 to 8 and 16: rules that the originals got wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.engine_common import leaf

import contraflow as cf
import contraflow.nn.functional as F
from contraflow.autograd import grad
from contraflow.tensor import Tensor
from contraflow.testing import assert_close


def compare_with_differences(run: Any, function: Callable[..., Tensor], *arrays: Any) -> list[Any]:
    """Gradients of a weighted sum, however they are run, against central differences."""
    rng = np.random.default_rng(1)
    tensors = [cf.tensor(a, requires_grad=True) for a in arrays]
    weights = cf.tensor(rng.standard_normal(function(*tensors).shape))

    def loss(*given: Tensor) -> Tensor:
        return (function(*given) * weights).sum()

    found = list(run(lambda *given: grad(loss(*given), given), *tensors))
    along = [rng.standard_normal(a.shape) for a in arrays]
    above, below = (
        loss(*(cf.tensor(a + s * t) for a, t in zip(arrays, along))).item() for s in (1e-6, -1e-6)
    )
    product = sum((g.array * t).sum() for g, t in zip(found, along))
    assert abs(product - (above - below) / 2e-6) < 1e-6 * (1.0 + abs(product))
    assert not np.allclose(found[0].array, np.broadcast_to(1.0, found[0].shape))
    return found


def drawn(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape)


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x, w, b: F.layer_norm(x, (4,), w, b), [(3, 4), (4,), (4,)]),
        (lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), [(5, 3), (3,), (3,)]),
        (lambda x, w, b: F.conv2d(x, w, b), [(1, 2, 5, 5), (3, 2, 3, 3), (3,)]),
    ],
    ids=["layer_norm", "batch_norm", "conv2d"],
)
def test_line_04_norms_and_convolutions_have_real_gradients(
    run: Any, function: Any, shapes: Any
) -> None:
    compare_with_differences(run, function, *(drawn(*shape) for shape in shapes))


def test_line_04_dropout_has_the_gradient_of_its_mask(run: Any) -> None:
    def step(x: Tensor) -> tuple[Tensor, ...]:
        y = F.dropout(x, 0.5, training=True)
        return y.detach(), *grad(y.sum(), x)

    y, g = run(step, cf.ones(100, requires_grad=True))
    assert_close(g, y.array)
    assert set(g.array.tolist()) == {0.0, 2.0}


def test_line_05_mse_loss_uses_the_incoming_gradient_and_differentiates_its_target(
    run: Any,
) -> None:
    a, b = leaf(1.0, 2.0), leaf(3.0, 5.0)

    def step(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return grad(F.mse_loss(x, y) * 7.0, [x, y])

    ga, gb = run(step, a, b)
    assert_close(ga, np.array([-14.0, -21.0]))
    assert_close(gb, np.array([14.0, 21.0]))


@pytest.mark.parametrize("stride", [2, 3])
def test_line_06_conv2d_whose_stride_does_not_divide_its_input(run: Any, stride: int) -> None:
    x, w = drawn(1, 2, 8, 6), drawn(2, 2, 3, 3)
    gx, _ = compare_with_differences(run, lambda a, b: F.conv2d(a, b, stride=stride), x, w)
    assert gx.shape == (1, 2, 8, 6)


def test_line_07_pow_leaks_no_nan(run: Any) -> None:
    x, y = leaf(0.0, 0.0, 0.0, 2.0), leaf(0.0, 1.0, 3.0, 0.0)
    gx, gy = run(lambda a, b: grad((a**b).sum(), [a, b]), x, y)
    assert_close(gx, np.array([0.0, 1.0, 0.0, 0.0]))
    assert_close(gy, np.array([0.0, 0.0, 0.0, np.log(2.0)]))


@pytest.mark.parametrize(
    ("function", "at", "expected"),
    [
        (lambda x: x.abs(), [0.0], [0.0]),
        (lambda x: x.sqrt(), [0.0], [np.inf]),
        (lambda x: x.amax(), [2.0, 1.0, 2.0], [0.5, 0.0, 0.5]),
        (lambda x: x.max(0)[0], [2.0, 1.0, 2.0], [1.0, 0.0, 0.0]),
        (lambda x: x.clamp(-1.0, 1.0), [-1.0, 0.0, 1.0, 1.5], [1.0, 1.0, 1.0, 0.0]),
        (lambda x: cf.maximum(x, x.detach()), [1.0], [0.5]),
    ],
    ids=["abs", "sqrt", "amax", "max", "clamp", "maximum"],
)
def test_line_08_conventions_at_kinks_are_pytorchs(
    run: Any, function: Any, at: list[float], expected: list[float]
) -> None:
    assert_close(run(lambda x: grad(function(x).sum(), x)[0], leaf(*at)), np.array(expected))


def test_line_16_indices_stay_integers(run: Any) -> None:
    at = (1 << 24) + 3
    x = cf.zeros(at + 1)
    x[at] = 1.0
    index = run(lambda t: t.argmax(0), x)
    assert index.dtype is cf.int64
    assert index.item() == at
