"""Every function of the table of intrinsics is as accurate as docs/accuracy.md says."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.helpers import accuracy
from tests.helpers.accuracy import CASES, DTYPES, RUNNERS, Function, error_in_ulp, errors, promised

from contraflow.expressions.intrinsics import INTRINSICS

needs_long_double = pytest.mark.skipif(
    not accuracy.HAS_LONG_DOUBLE, reason="long double has no more digits than float64 here"
)
# NumPy chooses its loops by the processor: none is off by more.
NUMPY = 4.0
# Rows that round once or not at all, and the halves of sin, cos and tan.
EXACT = {
    "add", "sub", "mul", "div", "neg", "floordiv", "mod", "quotient", "lt", "le", "gt", "ge", "eq",
    "ne", "isnan", "and", "or", "xor", "not", "shl", "shr", "mulhi", "select", "max", "min",
    "clamp", "sqrt", "floor", "ceil", "trunc", "rint", "abs", "fma", "muladd", "checked", "cast",
    "bitcast", "fmod", "near_sin", "far_sin", "near_cos", "far_cos", "near_tan", "far_tan",
}  # fmt: skip


def check(case: Function, dtype: np.dtype[Any], count: int, seed: int = 0) -> None:
    """Compare what is measured with what the page says."""
    page = promised("Functions")[case.name]
    for name, error in errors(case, dtype, count, RUNNERS, seed).items():
        bound = page[f"{dtype}, {name}"]
        assert error <= (max(bound, NUMPY) if name == "NumPy" else bound), (name, error)


@needs_long_double
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_functions_are_as_accurate_as_the_page_says(case: Function, dtype: np.dtype[Any]) -> None:
    check(case, dtype, 1 << 16 if dtype == np.float32 else 1 << 13, seed=1)


@needs_long_double
@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_functions_in_large_samples(case: Function, dtype: np.dtype[Any]) -> None:
    # In parts, as references take a multiple of a sample's memory; fewer where they take long.
    for seed in range(64 if isinstance(case.reference, np.ufunc) else 8):
        check(case, dtype, 1 << 20 if dtype == np.float32 else 1 << 16, seed=2 + seed)


def test_the_page_has_every_function() -> None:
    named = {case.apply or case.name for case in CASES}
    assert named == set(INTRINSICS) - EXACT
    assert promised("Functions").keys() == {case.name for case in CASES}


def test_what_counts_as_an_error() -> None:
    one = np.float32(1.0)
    after = np.nextafter(one, np.float32(2))
    exact = np.array([1.0, 1.0])
    assert error_in_ulp(np.array([one, after]), exact) == 1.0
    assert error_in_ulp(np.array([0.0, 1e-45], np.float32), np.zeros(2)) == 1.0
    largest = float(np.finfo(np.float32).max)
    assert error_in_ulp(np.array([np.inf], np.float32), np.array([largest * 1.1])) == 0.0
    assert error_in_ulp(np.array([np.inf], np.float32), np.array([largest])) <= 1.0
    for result, value in ((np.nan, 1.0), (1.0, np.nan), (1.0, np.inf), (-np.inf, np.inf)):
        assert error_in_ulp(np.array([result], np.float32), np.array([value])) == math.inf
    small = np.array([1e-9]), np.array([0.0])
    assert error_in_ulp(*small, least=1.0) == 1e-9 / 2.0**-52


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_references_at_known_values(dtype: np.dtype[Any]) -> None:
    """Against constants with more digits than either has."""
    known = [
        (accuracy.lgamma, 3.5, 1.2009736023470742248),
        (accuracy.lgamma, 0.5, 0.57236494292470008707),
        (accuracy.lgamma, -2.5, -0.056243716497674052259),
        (accuracy.lgamma, 100.0, 359.13420536957539878),
        (accuracy.digamma, 1.0, -0.57721566490153286061),
        (accuracy.digamma, 0.25, -4.2274535333762654081),
        (accuracy.digamma, -0.5, 0.036489973978576520559),
        (accuracy.erfc, 3.0, 2.2090496998585441373e-5),
        (accuracy.erfinv, 0.5, 0.47693627620446987338),
        (accuracy.erfinv, 1 - 2.0**-53, 5.8635847487551677),
    ]
    for function, x, value in known:
        with np.errstate(all="ignore"):
            found = function(np.array([x], accuracy.WIDER[dtype]))
        np.testing.assert_allclose(found.astype(np.float64), value, rtol=1e-15)
