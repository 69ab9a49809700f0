"""Sums and variances of hard data: many terms of one sign, and means far from zero.

Everything runs eagerly over NumPy and as generated code, in float32 against float64. NumPy by
itself adds rows one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import contraflow as cf
from contraflow import config
from contraflow.nn import functional as F
from contraflow.operation.reference import BLOCK, add_at, add_up, carried

Array = np.ndarray[Any, np.dtype[Any]]
MODES = ("numpy", "kernels", "compiled")


@pytest.fixture(params=MODES)
def run(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Array]:
    """Call a function of tensors on arrays, in one of the modes."""
    monkeypatch.setattr(config, "eager_kernels", request.param != "numpy")

    def call(function: Callable[..., Any], *arrays: Array) -> Array:
        function = cf.compile(function) if request.param == "compiled" else function
        result: Array = function(*map(cf.tensor, arrays)).numpy()
        return result

    return call


def offset(rows: int, columns: int, mean: float, deviation: float) -> Array:
    """float32 rows around a mean."""
    noise = np.random.default_rng(0).normal(size=(rows, columns))
    return (mean + deviation * noise).astype(np.float32)


def relative(result: Array, exact: Any) -> float:
    """The largest relative error."""
    return float(np.max(np.abs(result - exact) / np.abs(exact)))


# --- sums in NumPy -----------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [(0,), (1,), (0, 1), (0, 2), (1, 2), (2,)], ids=str)
def test_numpy_sums_of_rows(dim: tuple[int, ...]) -> None:
    x = np.full((300, 40, 50), 0.1, np.float32)
    for array in (x, x.transpose(2, 0, 1), x[::2, 1:]):
        exact = array.astype(np.float64).sum(dim)
        result = add_up(array, dim)
        assert result.dtype == np.float32
        assert relative(result, exact) < 1e-6
        assert add_up(array, dim, True).shape == array.sum(dim, keepdims=True).shape


def test_numpy_sums_one_after_the_other_would_fail() -> None:
    x = np.full((100_000, 2), 0.1, np.float32)
    assert relative(x.sum(0), 1e4) > 1e-5
    assert relative(add_up(x, (0,)), x.astype(np.float64).sum(0)) < 1e-7


def test_what_is_no_float32_is_added_as_it_is() -> None:
    many = (4 * BLOCK, 2)
    assert add_up(np.ones(many, np.int32), (0,)).dtype == np.int64
    assert add_up(np.ones(many, np.float64), (0,)).dtype == np.float64
    assert add_up(np.float32(3.0) + np.zeros(()), ()).shape == ()
    integers = np.arange(3)
    assert carried(integers) is integers


def test_adding_at_places_leaves_the_argument() -> None:
    for dtype in (np.float32, np.float64, np.int64):
        x = np.zeros(2, dtype)
        out = add_at(x, np.array([1, 1, 0]), np.array([1, 2, 4], dtype))
        assert out.tolist() == [4, 3]
        assert out.dtype == dtype
        assert x.tolist() == [0, 0]


def test_adding_many_at_one_place() -> None:
    values = np.full(200_000, 0.1, np.float32)
    (total,) = add_at(np.zeros(1, np.float32), np.zeros(values.size, np.int64), values)
    assert relative(total, values.astype(np.float64).sum()) < 1e-7


PRODUCTS: dict[str, Callable[..., Any]] = {
    "matmul": lambda a, b: a @ b,
    "turned": lambda a, b: b.mT @ a.mT,
    "batches": lambda a, b: cf.bmm(a[None], b[None]),
    "einsum": lambda a, b: cf.einsum("ik,kj->ij", a, b),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_small_products_of_long_rows(name: str) -> None:
    # So few elements that eager mode takes NumPy.
    a, b = np.full((1, 2000), 0.1, np.float32), np.full((2000, 2), 0.1, np.float32)
    exact = float(np.float64(np.float32(0.1)) ** 2 * 2000)
    result = PRODUCTS[name](cf.tensor(a), cf.tensor(b)).numpy()
    assert result.dtype == np.float32
    assert relative(result, exact) < 3e-7


def test_area_interpolation_of_a_long_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "eager_kernels", False)
    x = cf.full((1, 1, 30_000), 0.1)
    assert abs(F.interpolate(x, size=1, mode="area").item() / np.float32(0.1) - 1) < 1e-6


# --- variances ---------------------------------------------------------------------------------

HARD = [(1e3, 1.0), (1e5, 10.0), (1e6, 1.0), (-1e7, 3.0)]


@pytest.mark.parametrize(("mean", "deviation"), HARD)
def test_variances_of_data_far_from_zero(
    run: Callable[..., Array], mean: float, deviation: float
) -> None:
    x = offset(50, 40, mean, deviation)
    exact = x.astype(np.float64)
    for dim in (0, 1, (0, 1)):
        for name in ("var", "std"):
            result = run(lambda t, n=name, d=dim: getattr(t, n)(d), x)
            assert relative(result, getattr(np, name)(exact, axis=dim, ddof=1)) < 2e-6
    spread, centre = exact.var(0, ddof=1), exact.mean(0)
    assert relative(run(lambda t: cf.var_mean(t, 0)[0], x), spread) < 2e-6
    assert relative(run(lambda t: cf.std_mean(t, 0)[1], x), centre) < 1e-6
    assert relative(np.diag(run(lambda t: cf.cov(t.mT), x)), spread) < 5e-6


@pytest.mark.parametrize("rows", [20_000, pytest.param(1_000_000, marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize(("mean", "deviation"), HARD)
def test_variances_of_long_columns(
    run: Callable[..., Array], mean: float, deviation: float, rows: int
) -> None:
    x = offset(rows, 2, mean, deviation)
    exact = x.astype(np.float64)
    assert relative(run(lambda t: t.mean(0), x), exact.mean(0)) < 3e-6
    assert relative(run(lambda t: t.std(0), x), exact.std(0, ddof=1)) < 3e-6


def test_the_mean_of_deviations_is_taken_off(run: Callable[..., Array]) -> None:
    # The mean, 16777217.5, lies between two float32; the deviations from either are 0.75 to 1.5.
    x = np.float32(2**24) + np.array([0, 2, 2, 2] * 8, np.float32)
    assert run(lambda t: t.var(0, correction=0), x) == np.var(x.astype(np.float64)) == 0.75


@pytest.mark.parametrize("value", [0.1, 1e5 + 0.1, 3.3e-20, -7e8])
def test_equal_numbers_have_no_variance(run: Callable[..., Array], value: float) -> None:
    x = np.full((300, 3), value, np.float32)
    assert np.all(np.abs(run(lambda t: t.std(0), x)) <= 1e-7 * abs(value))
    assert np.all(run(lambda t: t.var(0), x) >= 0)


def test_variances_without_enough_numbers(run: Callable[..., Array]) -> None:
    one = np.full((1, 2), 5.0, np.float32)
    assert np.isnan(run(lambda t: t.var(0), one)).all()
    assert run(lambda t: t.var(0, correction=0), one).tolist() == [0, 0]
    assert np.isnan(run(lambda t: t.var(0), one[:0])).all()
    assert run(lambda t: t.var((0, 1), keepdim=True), one).shape == (1, 1)
    infinite = np.array([[1.0], [np.inf]], np.float32)
    assert np.isnan(run(lambda t: t.var(0), infinite)).all()


NORMS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "layer_norm": (lambda t: F.layer_norm(t, (40, 5), eps=0.0), (2, 3)),
    "group_norm": (lambda t: F.group_norm(t, 3, eps=0.0), (2, 3)),
    "instance_norm": (lambda t: F.instance_norm(t, eps=0.0), (2, 3)),
    "batch_norm": (lambda t: F.batch_norm(t, None, None, training=True, eps=0.0), (0, 2, 3)),
}


@pytest.mark.parametrize("name", NORMS)
def test_norms_of_data_far_from_zero(run: Callable[..., Array], name: str) -> None:
    function, dims = NORMS[name]
    x = offset(60 * 4, 5, 1e6, 1.0).reshape(2, 3, 40, 5)
    exact = x.astype(np.float64)
    centred = exact - exact.mean(dims, keepdims=True)
    exact = centred / np.sqrt((centred**2).mean(dims, keepdims=True))
    result = run(function, x)
    assert np.max(np.abs(result - exact)) < 2e-6
    assert np.max(np.abs(result.astype(np.float64).mean(dims))) < 1e-6


@pytest.mark.peers
@pytest.mark.parametrize(("mean", "deviation"), HARD)
def test_variances_beside_pytorch(run: Callable[..., Array], mean: float, deviation: float) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    x = offset(5000, 8, mean, deviation)
    exact = x.astype(np.float64).std(0, ddof=1)
    theirs = relative(torch.tensor(x).std(0).numpy(), exact)
    assert relative(run(lambda t: t.std(0), x), exact) <= max(10 * theirs, 3e-6)
