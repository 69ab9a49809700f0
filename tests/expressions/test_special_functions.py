"""The decompositions of special_functions.py: accuracy in both precisions, limits, zero's signs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.expressions.test_elementary import FLOATS, compute, largest_error, needs_long_double

from contraflow.dtypes import DType, float32, float64
from contraflow.expressions.intrinsics import INTRINSICS

inf, nan = math.inf, math.nan

# Per function its name in NumPy, the intervals to sample, and the bound that is promised.
CASES: dict[str, tuple[str, list[tuple[float, float]], float]] = {
    "log2": ("log2", [(0.4, 3.0), (0.99, 1.01), (1e-30, 1e-20), (1.0, 1e30)], 1.5),
    "log10": ("log10", [(0.4, 3.0), (0.99, 1.01), (1e-30, 1e-20), (1.0, 1e30)], 3.0),
    "exp2": ("exp2", [(-1.0, 1.0), (-126.0, 127.0), (-149.0, -126.0)], 1.0),
    "tan": ("tan", [(-1.5, 1.5), (-100.0, 100.0)], 3.0),
    "asin": ("arcsin", [(-1.0, 1.0), (0.45, 0.55), (-1e-5, 1e-5)], 2.5),
    "acos": ("arccos", [(-1.0, 1.0), (0.45, 0.55), (0.999, 1.0)], 1.5),
    "atan": ("arctan", [(-3.0, 3.0), (0.4, 0.43), (2.4, 2.43), (-1e4, 1e4)], 2.0),
    "sinh": ("sinh", [(-3.0, 3.0), (-88.0, 88.0), (-1e-4, 1e-4)], 3.0),
    "cosh": ("cosh", [(-3.0, 3.0), (-88.0, 88.0)], 3.0),
    "asinh": ("arcsinh", [(-3.0, 3.0), (-1e4, 1e4), (1e10, 1e20)], 1.5),
    "acosh": ("arccosh", [(1.0, 1.01), (1.0, 10.0), (1e10, 1e20)], 2.5),
    "atanh": ("arctanh", [(-1.0, 1.0), (-1e-3, 1e-3)], 2.0),
}


@needs_long_double
@pytest.mark.parametrize("contracted", [False, True])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("fn", sorted(CASES))
def test_accuracy(fn: str, dtype: DType, contracted: bool) -> None:
    name, intervals, bound = CASES[fn]
    generator = np.random.default_rng(0)
    x = np.concatenate([generator.uniform(a, b, 3000) for a, b in intervals]).astype(dtype.numpy)
    if fn in ("asin", "acos", "atanh"):
        x = x[np.abs(x) < 1]
    exact = getattr(np, name)(x.astype(np.longdouble))
    assert largest_error(compute(fn, x, dtype=dtype, contracted=contracted), exact) <= bound


@pytest.mark.parametrize("fn", ["erfc", "lgamma"])
def test_float32_against_float64_of_the_c_library(fn: str) -> None:
    x = np.random.default_rng(0).uniform(-6.0, 9.0, 5000).astype(np.float32)
    exact = np.array([getattr(math, fn)(v) for v in x.tolist()])
    result = compute(fn, x, dtype=float32)
    unit = np.spacing(np.maximum(np.abs(exact), 8.0 if fn == "lgamma" else 0).astype(np.float32))
    assert np.max(np.abs(result - exact) / unit) <= 8.0


@pytest.mark.parametrize("contracted", [False, True])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_lgamma_and_digamma_beside_their_zeros(dtype: DType, contracted: bool) -> None:
    """By the first terms of their series there: of backends without float64 too."""
    near = np.exp2(np.arange(-22.0, -12.0)).astype(dtype.numpy)
    distances = np.concatenate([near, -near])
    unit = float(np.finfo(dtype.numpy).eps)
    zeta_2, gamma, root = math.pi**2 / 6, 0.5772156649015329, 1.4616321449683622
    for zero, slope, bend in ((1, -gamma, zeta_2 / 2), (2, 1 - gamma, (zeta_2 - 1) / 2)):
        x = (zero + distances).astype(dtype.numpy)
        d = x.astype(np.float64) - zero
        exact = d * (slope + d * bend)  # and some d**3
        result = compute("lgamma", x, dtype=dtype, contracted=contracted)
        assert np.max(np.abs(result / exact - 1)) < 4 * unit + np.max(d * d)
    x = (root + distances).astype(dtype.numpy)
    d = x.astype(np.float64) - root - 9.549995429965698e-17
    exact = d * (0.9676722454476212 - d * 0.4427631689835921)
    result = compute("digamma", x, dtype=dtype, contracted=contracted)
    assert np.max(np.abs(result / exact - 1)) < 4 * unit + np.max(d * d)


def test_erfinv_of_float64_beside_one() -> None:
    # erfc(y) = 1 - x, whose digits are all there.
    gap = np.exp2(-np.arange(20.0, 54.0))
    y = compute("erfinv", 1.0 - gap, dtype=float64)
    found = np.array([math.erfc(v) for v in y.tolist()])
    # An ulp of y moves erfc(y) by 2 y**2 of its own.
    assert np.max(np.abs(found / gap - 1)) < 3e-14
    assert abs(y[-1] - 5.863584748755168) < 1e-15


def test_erfc_keeps_its_digits_far_out() -> None:
    x = np.linspace(0.0, 26.0, 2000)
    exact = np.array([math.erfc(v) for v in x])
    assert np.max(np.abs(compute("erfc", x, dtype=float64) / exact - 1)) < 1e-14


def test_erfinv_inverts_erf() -> None:
    y = np.linspace(-3.0, 3.0, 1001)
    x = np.array([math.erf(v) for v in y])
    # Near 1 the rounding of erf itself moves its inverse: by an ulp of 1 over the slope.
    allowed = 4e-16 * (1 + np.abs(y)) + 1.2e-16 * np.exp(y * y)
    assert np.all(np.abs(compute("erfinv", x, dtype=float64) - y) <= allowed)


def test_atan2_in_every_quadrant() -> None:
    values = np.array([0.0, -0.0, inf, -inf, nan, 1.0, -1.0, 0.3, -7.0, 1e-310])
    a, b = (v.ravel() for v in np.meshgrid(values, values))
    result, exact = compute("atan2", a, b, dtype=float64), np.arctan2(a, b)
    np.testing.assert_allclose(result, exact, rtol=4e-16, equal_nan=True)
    known = ~np.isnan(exact)
    assert np.array_equal(np.signbit(result[known]), np.signbit(exact[known]))


EDGES = np.array([0.0, -0.0, inf, -inf, nan, 1.0, -1.0, 2.0, -2.0, 1e-310, 100.0, 1000.0, -1000.0])


@pytest.mark.parametrize("fn", [*sorted(CASES), "erfc", "lgamma", "digamma", "erfinv"])
def test_limits(fn: str) -> None:
    with np.errstate(all="ignore"):
        expected: Any = INTRINSICS[fn].numpy(EDGES)
    result = compute(fn, EDGES, dtype=float64)
    np.testing.assert_allclose(result, expected, rtol=1e-13, atol=1e-14, equal_nan=True)
    known = ~np.isnan(expected)
    if fn != "lgamma":  # whose zeros are approached from either side
        assert np.array_equal(np.signbit(result[known]), np.signbit(expected[known]))


def test_log2_and_exp2_are_exact_at_powers() -> None:
    n = np.arange(-1074.0, 1024.0)
    with np.errstate(all="ignore"):
        powers = np.exp2(n)
    assert np.array_equal(compute("log2", powers, dtype=float64), n)
    assert np.array_equal(compute("exp2", n, dtype=float64), powers)
