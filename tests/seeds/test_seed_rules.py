"""Engine behaviour, lines 4 to 8, 16 and 21: rules that the originals got wrong or promise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.helpers.engine_common import leaf

import contraflow as cf
import contraflow.nn.functional as F
from contraflow.autograd import grad
from contraflow.tensors.tensor import Tensor
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


OPS: dict[str, tuple[Callable[..., Tensor], list[tuple[int, ...]]]] = {
    "conv1d": (
        lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=2, dilation=2, groups=2),
        [(2, 4, 9), (6, 2, 3), (6,)],
    ),
    "conv_transpose1d": (lambda x, w: F.conv_transpose1d(x, w, stride=2), [(1, 2, 4), (2, 3, 3)]),
    "max_pool1d": (lambda x: F.max_pool1d(x, 3, 2, 1), [(2, 2, 8)]),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2, stride=1, padding=1), [(1, 2, 5, 4)]),
    "avg_pool2d, padding counted": (lambda x: F.avg_pool2d(x, 3, 2, 1), [(1, 2, 5, 6)]),
    "avg_pool2d, padding not counted": (
        lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        [(1, 2, 5, 6)],
    ),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, (2, 3)), [(1, 2, 5, 7)]),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, (2, 3)), [(1, 2, 5, 7)]),
    "unfold": (lambda x: F.unfold(x, 2, padding=1, stride=2), [(1, 2, 4, 5)]),
    "fold": (lambda x: F.fold(x, (4, 5), 2, padding=1, stride=2), [(1, 8, 9)]),
    "Tensor.unfold": (lambda x: x.unfold(1, 3, 2), [(2, 8)]),
    "cat": (lambda a, b: cf.cat([a, b, a], 1), [(2, 3), (2, 2)]),
    "gather": (lambda x: x.gather(1, cf.tensor([[0, 0, 2], [1, 2, 2]])), [(2, 3)]),
    "pad": (lambda x: F.pad(x, (1, 2, -1, 1), value=3.0), [(3, 4)]),
    "pad, reflected": (lambda x: F.pad(x, (2, 1), mode="reflect"), [(2, 4)]),
    "pad, replicated": (lambda x: F.pad(x, (2, 1), mode="replicate"), [(1, 2, 4)]),
    "pad, circular": (lambda x: F.pad(x, (2, 1), mode="circular"), [(1, 2, 4)]),
}


@pytest.mark.parametrize("name", OPS)
def test_line_21_pooling_windows_and_selections_have_real_gradients(run: Any, name: str) -> None:
    """For a random cotangent, and for a constant one, which kernels have written into them."""
    function, shapes = OPS[name]
    arrays = [drawn(*shape) for shape in shapes]
    tensors = [cf.tensor(a, requires_grad=True) for a in arrays]
    weights = drawn(*function(*tensors).shape)
    constant = cf.tensor(weights)

    def step(*given: Tensor) -> tuple[Tensor, ...]:
        out = function(*given)
        plain = grad(out.sum(), given, retain_graph=True)
        return *plain, *grad((out * constant).sum(), given)

    found = run(step, *tensors)
    for cotangent, grads in ((1.0, found[: len(arrays)]), (weights, found[len(arrays) :])):
        for k, (array, g) in enumerate(zip(arrays, grads)):
            assert_close(g, _differences(function, arrays, k, cotangent), 1e-6, 1e-6)
            assert g.shape == array.shape


def _differences(
    function: Callable[..., Tensor], arrays: list[Any], k: int, cotangent: Any
) -> np.ndarray:
    """The gradient of a weighted sum in one argument, element by element."""
    found = np.zeros_like(arrays[k])
    for i in np.ndindex(*found.shape):
        sides = []
        for step in (1e-6, -1e-6):
            moved = [a.copy() for a in arrays]
            moved[k][i] += step
            sides.append((function(*map(cf.tensor, moved)).array * cotangent).sum())
        found[i] = (sides[0] - sides[1]) / 2e-6
    return found
