"""Engine behaviour, lines 4 to 8, 16 and 21: rules that the originals got wrong or promise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.helpers.trials import Trial, on_cpu

import contraflow as cf
import contraflow.nn.functional as F
from contraflow.autograd import grad
from contraflow.tensors.tensor import Tensor
from contraflow.testing import assert_close


def compare_with_differences(
    run: Trial, function: Callable[..., Tensor], *arrays: Any
) -> list[Any]:
    """Gradients of a weighted sum, however they are run, against central differences."""
    rng = np.random.default_rng(1)
    weights = rng.standard_normal(on_cpu(function, *arrays).shape)
    constant = run.tensor(weights)

    def step(*given: Tensor) -> tuple[Tensor, ...]:
        return grad((function(*given) * constant).sum(), given)

    found = list(run(step, *(run.tensor(a, requires_grad=True) for a in arrays)))
    along = [rng.standard_normal(a.shape) for a in arrays]
    above, below = (
        (on_cpu(function, *(a + s * t for a, t in zip(arrays, along))) * weights).sum()
        for s in (1e-6, -1e-6)
    )
    product = sum((g.fetched() * t).sum() for g, t in zip(found, along))
    assert abs(product - (above - below) / 2e-6) < run.tolerance * (1.0 + abs(product))
    assert not np.allclose(found[0].fetched(), np.broadcast_to(1.0, found[0].shape))
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
    run: Trial, function: Any, shapes: Any
) -> None:
    compare_with_differences(run, function, *(drawn(*shape) for shape in shapes))


def test_line_04_dropout_has_the_gradient_of_its_mask(run: Trial) -> None:
    def step(x: Tensor) -> tuple[Tensor, ...]:
        y = F.dropout(x, 0.5, training=True)
        return y.detach(), *grad(y.sum(), x)

    y, g = run(step, cf.ones(100, requires_grad=True))
    assert_close(g, y.fetched())
    assert set(g.tolist()) == {0.0, 2.0}


def test_line_05_mse_loss_uses_the_incoming_gradient_and_differentiates_its_target(
    run: Trial,
) -> None:
    a, b = run.leaf(1.0, 2.0), run.leaf(3.0, 5.0)

    def step(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return grad(F.mse_loss(x, y) * 7.0, [x, y])

    ga, gb = run(step, a, b)
    assert_close(ga, np.array([-14.0, -21.0]))
    assert_close(gb, np.array([14.0, 21.0]))


@pytest.mark.parametrize("stride", [2, 3])
def test_line_06_conv2d_whose_stride_does_not_divide_its_input(run: Trial, stride: int) -> None:
    x, w = drawn(1, 2, 8, 6), drawn(2, 2, 3, 3)
    gx, _ = compare_with_differences(run, lambda a, b: F.conv2d(a, b, stride=stride), x, w)
    assert gx.shape == (1, 2, 8, 6)


def test_line_07_pow_leaks_no_nan(run: Trial) -> None:
    x, y = run.leaf(0.0, 0.0, 0.0, 2.0), run.leaf(0.0, 1.0, 3.0, 0.0)
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
    run: Trial, function: Any, at: list[float], expected: list[float]
) -> None:
    assert_close(run(lambda x: grad(function(x).sum(), x)[0], run.leaf(*at)), np.array(expected))


AT = (1 << 24) + 3  # float32 does not have it


def test_line_16_an_element_is_found_by_an_index_that_float32_does_not_have(run: Trial) -> None:
    array = np.zeros(AT + 1, np.float32)
    array[AT] = 1.0
    x, index = cf.tensor(array), cf.tensor([0, 1])
    found = run(lambda t, i: t[i * AT], x, index)
    assert found.tolist() == [0.0, 1.0]


def test_line_16_indices_stay_integers(run: Trial) -> None:
    """As the first index of many elements; of few where each would be visited by itself."""
    first = 0 if run.device != "walled" else AT - 3
    x = cf.zeros(AT + 1 - first)
    x[AT - first] = 1.0
    index = run(lambda t: t.argmax(0) + first, x)
    assert index.dtype is cf.int64
    assert index.item() == AT


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
def test_line_21_pooling_windows_and_selections_have_real_gradients(run: Trial, name: str) -> None:
    """For a random cotangent, and for a constant one, which kernels have written into them."""
    function, shapes = OPS[name]
    arrays = [drawn(*shape) for shape in shapes]
    tensors = [run.tensor(a, requires_grad=True) for a in arrays]
    weights = drawn(*on_cpu(function, *arrays).shape)
    constant = run.tensor(weights)

    def step(*given: Tensor) -> tuple[Tensor, ...]:
        out = function(*given)
        plain = grad(out.sum(), given, retain_graph=True)
        return *plain, *grad((out * constant).sum(), given)

    found = run(step, *tensors)
    for cotangent, grads in ((1.0, found[: len(arrays)]), (weights, found[len(arrays) :])):
        for k, (array, g) in enumerate(zip(arrays, grads)):
            expected = _differences(function, arrays, k, cotangent)
            assert_close(g, expected, run.tolerance, run.tolerance)
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
            sides.append((on_cpu(function, *moved) * cotangent).sum())
        found[i] = (sides[0] - sides[1]) / 2e-6
    return found
