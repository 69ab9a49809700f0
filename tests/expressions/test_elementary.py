"""The decompositions of transcendental functions: accuracy, limits, and what `expand` keeps.

References have at least ten more bits than what they judge: np.longdouble with a 64-bit
significand. Every accuracy is measured twice: as written, and with each multiplication and
addition contracted into one fma, which backends may do wherever they like.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from contraflow.dtypes import DType, float32, float64, int8, int32, int64, uint8, uint32
from contraflow.expressions import elementary, special_functions, trigonometry
from contraflow.expressions import expression as s
from contraflow.expressions.evaluate import contracted as contract
from contraflow.expressions.evaluate import evaluate
from contraflow.expressions.intrinsics import INTRINSICS

Array = np.ndarray[Any, np.dtype[Any]]
SAMPLES = 10_000
FLOATS = (float32, float64)
inf, nan = math.inf, math.nan

needs_long_double = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant < 63, reason="long double has no more digits than float64 here"
)


def compute(fn: str, *inputs: Array, dtype: DType, contracted: bool = False) -> Array:
    """A row of the table, by its decomposition, at these inputs."""
    arrays = [np.asarray(x, dtype.numpy) for x in inputs]
    roots = elementary.expand(
        [s.call(fn, *(s.leaf("input", dtype, i) for i in range(len(inputs))))]
    )
    assert all(INTRINSICS[e.fn].decomposition is None for e in s.walk(roots) if e.args)
    if contracted:
        roots = list(contract(tuple(roots)))
    with np.errstate(all="ignore"):
        [result] = evaluate(roots, lambda leaf, _: arrays[leaf.data])
    assert result.dtype == dtype.numpy
    return np.asarray(result)


def largest_error(result: Array, reference: Array) -> float:
    """The largest distance in units in the last place of the reference."""
    info = np.finfo(result.dtype)
    finite = np.abs(reference) <= np.longdouble(info.max)
    assert np.array_equal(np.isfinite(result), finite)
    result, reference = result[finite], reference[finite]
    exponent = np.frexp(reference)[1] - 1
    unit = np.ldexp(np.longdouble(1), np.maximum(exponent, info.minexp) - info.nmant)
    return float(np.max(np.abs(result - reference) / unit))


def erf(x: Array) -> Array:
    """exp(-x**2) times a series without cancellation: sum of 2**n x**(2n+1) / (2n+1)!!"""
    term = total = x
    for n in range(1, 150):
        term = term * 2 * x * x / (2 * n + 1)
        total = total + term
    # math.pi is 1.2246467991473532e-16 below pi.
    pi = np.longdouble(math.pi) + np.longdouble(1.2246467991473532e-16)
    return 2 / np.sqrt(pi) * np.exp(-x * x) * total


def around_zero(generator: np.random.Generator, smallest: float, largest: float) -> Array:
    """Numbers of both signs whose exponents are spread evenly."""
    size = np.exp(generator.uniform(math.log(smallest), math.log(largest), SAMPLES))
    return size * generator.choice((-1.0, 1.0), SAMPLES)


def intervals(dtype: DType) -> dict[str, list[tuple[float, float]]]:
    """Per function the intervals to sample: wide ones, and those where a formula changes."""
    wide = dtype is float32
    angle = 2.0 ** trigonometry.LARGE[dtype]  # beyond it test_large_angles
    return {
        "exp": [(-104, 89) if wide else (-746, 710), (-1, 1), (-89, -86) if wide else (-746, -700)],
        "expm1": [(-60, 89) if wide else (-60, 710), (-2, 2), (0.3, 0.4)],
        "log": [(0.4, 3.0), (0.99, 1.01), (0, 1e-38) if wide else (0, 1e-307), (1, 3e38)],
        "log1p": [(-1, 1), (-0.3, 0.5), (0, 1e6)],
        "tanh": [(-10, 10), (0.5, 0.8), (-1, 1)],
        "erf": [(-6, 6), (0.8, 1.3), (-1, 1)],
        "sin": [(-angle, angle), (-10, 10), (-100, 100)],
        "cos": [(-angle, angle), (-10, 10), (-100, 100)],
    }


# The same for both types, contracted or not; tanh differs.
BOUNDS = {"exp": 1.0, "expm1": 2.0, "log": 1.0, "log1p": 1.0, "tanh": 1.5, "erf": 1.5, "sin": 2.0,
          "cos": 2.0, "pow": 1.5}  # fmt: skip
SHORT_TANH = 2.5  # in float32


@needs_long_double
@pytest.mark.parametrize("contracted", [False, True])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("fn", sorted(BOUNDS.keys() - {"pow"}))
def test_accuracy(fn: str, dtype: DType, contracted: bool) -> None:
    generator = np.random.default_rng(0)
    samples = [generator.uniform(low, high, SAMPLES) for low, high in intervals(dtype)[fn]]
    if fn == "log":
        samples.append(np.exp(generator.uniform(-86, 88, SAMPLES)))
    else:
        samples.append(around_zero(generator, 1e-30, 3.0))
    if fn in ("sin", "cos"):
        # Beside multiples of pi / 2 the reduction cancels nearly every digit.
        end = int(2.0 ** trigonometry.LARGE[dtype] / (math.pi / 2))
        samples.append(np.arange(-end, end, end // 40_000) * (math.pi / 2))
    x = np.concatenate(samples).astype(dtype.numpy)
    reference: Callable[[Array], Array] = erf if fn == "erf" else getattr(np, fn)
    with np.errstate(all="ignore"):
        exact = reference(x.astype(np.longdouble))
    result = compute(fn, x, dtype=dtype, contracted=contracted)
    short = fn == "tanh" and dtype is float32
    assert largest_error(result, exact) <= (SHORT_TANH if short else BOUNDS[fn])


@pytest.mark.parametrize("contracted", [False, True])
def test_tanh_ends_at_one(contracted: bool) -> None:
    x = np.concatenate([np.linspace(8.5, 12.0, 300_001), np.geomspace(12.0, 3e38, 1001)])
    result = compute("tanh", x.astype(np.float32), dtype=float32, contracted=contracted)
    assert result.max() == 1.0
    assert (result[x > 9.2] == 1.0).all()


@needs_long_double
@pytest.mark.parametrize("contracted", [False, True])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_pow_accuracy(dtype: DType, contracted: bool) -> None:
    generator = np.random.default_rng(0)
    largest = 87.0 if dtype is float32 else 708.0
    near_one = 1.0 + around_zero(generator, 1e-6 if dtype is float32 else 1e-13, 0.6)
    bases = np.concatenate([near_one, np.exp(generator.uniform(-86, 88, 2 * SAMPLES))])
    bases = bases.astype(dtype.numpy)
    exponents = generator.uniform(-largest, largest, bases.size) / np.log(bases.astype(np.float64))
    exponents[-SAMPLES:] = generator.uniform(-3, 3, SAMPLES)
    exponents = exponents.astype(dtype.numpy)
    with np.errstate(all="ignore"):
        exact = bases.astype(np.longdouble) ** exponents.astype(np.longdouble)
    result = compute("pow", bases, exponents, dtype=dtype, contracted=contracted)
    assert largest_error(result, exact) <= BOUNDS["pow"]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("fn", sorted(BOUNDS.keys() - {"pow"}))
def test_limits(fn: str, dtype: DType) -> None:
    """NaN, infinities, zeros with their signs, subnormal numbers and the edges of the range."""
    info = np.finfo(dtype.numpy)
    subnormal = info.tiny / 4
    numbers = [nan, inf, -inf, 0.0, -0.0, subnormal, -subnormal, info.smallest_subnormal, 1, -1, -2]
    x = np.array([*numbers, info.max, -info.max], dtype.numpy)
    with np.errstate(all="ignore"):
        if fn == "erf":
            expected = np.array([math.erf(v) for v in x])
        else:
            expected = getattr(np, fn)(x.astype(np.float64))
        # float64's own tiny / 4 needs no wider reference: every odd function is x there.
        expected = expected.astype(dtype.numpy)
    result = compute(fn, x, dtype=dtype)
    ordinary = np.isfinite(expected) & (expected != 0)
    np.testing.assert_array_equal(result[~ordinary], expected[~ordinary])
    np.testing.assert_array_max_ulp(result[ordinary], expected[ordinary], maxulp=2)
    signed = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(result[signed]), np.signbit(expected[signed]))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_exp_ends_in_subnormal_numbers_zero_and_infinity(dtype: DType) -> None:
    info = np.finfo(dtype.numpy)
    with np.errstate(over="ignore"):
        top = np.log(info.max)
        least = np.log(np.longdouble(info.smallest_subnormal))
    x = np.array([np.nextafter(top, 0), np.nextafter(top, dtype.numpy.type(inf)), least, least - 1])
    result = compute("exp", x, dtype=dtype)
    assert np.isfinite(result[0])
    assert result[1] == inf
    assert result[2] == info.smallest_subnormal
    assert result[3] == 0


@functools.cache
def two_over_pi() -> int:
    """2 / pi times 2**1300, by Machin's formula: pi = 16 atan(1/5) - 4 atan(1/239)."""
    one = 1 << 1400

    def atan_of_inverse(n: int) -> int:
        terms = (one // n ** (2 * k + 1) // (2 * k + 1) * (-1) ** k for k in range(620))
        return sum(terms)

    return (2 * one << 1300) // (16 * atan_of_inverse(5) - 4 * atan_of_inverse(239))


def reduced(x: float) -> tuple[int, np.longdouble]:
    """(q, r) with x = q pi / 2 + r, by exact arithmetic."""
    above, below = float(x).as_integer_ratio()
    quotient = above * two_over_pi() // below
    q = (quotient + (1 << 1299)) >> 1300
    rest = quotient - (q << 1300)
    scale = max(0, rest.bit_length() - 64)
    # math.pi / 2 is 6.123233995736766e-17 below pi / 2.
    half_pi = np.longdouble(math.pi / 2) + np.longdouble(6.123233995736766e-17)
    return q % 4, np.ldexp(np.longdouble(rest >> scale), scale - 1300) * half_pi


def hardest_angles(dtype: DType) -> list[float]:
    """Of each exponent the numbers nearest to multiples of pi / 2: denominators of continued
    fractions of 2 / pi."""
    digits, end = np.finfo(dtype.numpy).nmant + 1, np.finfo(dtype.numpy).maxexp
    found = []
    for exponent in range(trigonometry.LARGE[dtype] - digits + 1, end - digits + 1):
        a, b = two_over_pi() << max(exponent, 0), 1 << 1300 + max(-exponent, 0)
        denominators = [1, 0]
        while denominators[-1] < 1 << digits:
            a, b, whole = b, a % b, a // b
            denominators.append(whole * denominators[-1] + denominators[-2])
        found += [math.ldexp(n, exponent) for n in denominators[-3:-1]]
    largest = float(np.finfo(dtype.numpy).max)
    return [x for x in found if 2.0 ** trigonometry.LARGE[dtype] <= x <= largest]


@needs_long_double
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_large_angles(dtype: DType) -> None:
    generator = np.random.default_rng(0)
    ends = trigonometry.LARGE[dtype], np.finfo(dtype.numpy).maxexp
    spread = np.exp2(generator.uniform(*ends, 1000))
    x = np.concatenate([hardest_angles(dtype), spread, 2.0 ** np.arange(*ends)])
    x = (x * generator.choice((-1.0, 1.0), x.size)).astype(dtype.numpy)
    q, r = (np.array(part) for part in zip(*map(reduced, x.tolist())))
    waves = np.array([np.sin(r), np.cos(r), -np.sin(r), -np.cos(r)])
    place = np.arange(x.size)
    sine, cosine = waves[q, place], waves[(q + 1) % 4, place]
    assert np.min(np.abs(r)) < 2.0 ** -(29 if dtype is float32 else 60)
    for contracted in (False, True):
        for fn, exact, bound in (("sin", sine, 2), ("cos", cosine, 2), ("tan", sine / cosine, 3)):
            result = compute(fn, x, dtype=dtype, contracted=contracted)
            assert largest_error(result, exact) <= bound


def test_the_bits_of_two_over_pi() -> None:
    assert two_over_pi() >> 1300 - 1216 == trigonometry.TWO_OVER_PI


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_pow_of_special_numbers_is_that_of_c(dtype: DType) -> None:
    numbers = [nan, inf, -inf, 0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, 1.5, -2.5]
    numbers += [1e30, -1e30, 1e-30, 2.0**24, 2.0**24 - 1, 1 - 2.0**-24, 1 + 2.0**-23]
    grid = np.array(numbers, dtype.numpy)
    a, b = (part.ravel() for part in np.meshgrid(grid, grid))
    with np.errstate(all="ignore"):
        exact = a.astype(np.longdouble) ** b.astype(np.longdouble)
        expected = exact.astype(dtype.numpy)
    result = compute("pow", a, b, dtype=dtype)
    ordinary = np.isfinite(expected) & (np.abs(expected) >= np.finfo(dtype.numpy).tiny)
    np.testing.assert_array_max_ulp(result[ordinary], expected[ordinary], maxulp=2)
    np.testing.assert_array_equal(np.isnan(result), np.isnan(expected))
    zero_or_infinite = ~ordinary & ~np.isnan(expected)
    np.testing.assert_allclose(result[zero_or_infinite], expected[zero_or_infinite], atol=1e-300)
    signed = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(result[signed]), np.signbit(expected[signed]))


@pytest.mark.parametrize("dtype", [uint8, int8, int32, int64], ids=str)
def test_integer_pow_wraps_and_truncates(dtype: DType) -> None:
    a, b = (p.ravel() for p in np.meshgrid(np.arange(-7, 8), np.arange(-3, 70)))
    if not dtype.is_signed:
        a, b = abs(a), abs(b)
    modulus = 1 << 8 * dtype.itemsize

    def power(base: int, exponent: int) -> int:
        if exponent < 0:
            return base ** (exponent % 2) if abs(base) == 1 else 0
        wrapped = base**exponent % modulus
        return wrapped - modulus if dtype.is_signed and wrapped >= modulus // 2 else wrapped

    expected = np.array([power(int(m), int(n)) for m, n in zip(a, b)], dtype.numpy)
    np.testing.assert_array_equal(compute("pow", a, b, dtype=dtype), expected)


def test_mulhi_is_the_upper_half_of_the_product() -> None:
    generator = np.random.default_rng(0)
    a, b = generator.integers(0, 1 << 32, (2, 1000), dtype=np.uint32)
    a[:4] = b[1:5] = 0xFFFFFFFF
    expected = [(int(m) * int(n)) >> 32 for m, n in zip(a, b)]
    np.testing.assert_array_equal(compute("mulhi", a, b, dtype=uint32), expected)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_numpy_fma_rounds_once(dtype: DType) -> None:
    generator = np.random.default_rng(0)
    a, b, noise = generator.normal(size=(3, 2000)).astype(dtype.numpy)
    with_cancellation = -(a * b)
    with_cancellation[::2] *= 1 + noise[::2] / 1000
    for c in (noise, with_cancellation, noise * dtype.numpy.type(1e-9)):
        result = INTRINSICS["fma"].numpy(a, b, c)
        assert result.dtype == dtype.numpy
        for x, y, z, rounded in zip(a, b, c, result):
            exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
            off = abs(Fraction(float(rounded)) - exact)
            assert off <= Fraction(float(np.spacing(np.abs(rounded)))) / 2


def test_numpy_fma_does_not_round_to_a_tie_first() -> None:
    fma = INTRINSICS["fma"].numpy
    # Just above a tie, and just below one, by less than what float64 holds of the sum.
    a, c = np.float32(1 + 2.0**-12), np.float32(2.0**-60)
    assert fma(a, a, c) == np.float32(1 + 2.0**-11 + 2.0**-23)
    assert fma(2.0**-53 * (1 + 2.0**-27), 1 - 2.0**-27, 1 + 2.0**-52) == 1 + 2.0**-52


def test_constants_add_up() -> None:
    unit = Fraction(1, 1 << elementary.UNIT_BITS)
    ln_2, half_pi = elementary.LN_2 * unit, elementary.HALF_PI * unit
    for form in elementary.FORMATS.values():
        close = Fraction(1, 1 << (2 * form.fraction - 9))
        assert abs(ln_2 - sum(map(Fraction, form.ln_2))) < close
        assert abs(half_pi - sum(map(Fraction, form.half_pi))) < close
    assert float(ln_2) == math.log(2)
    assert float(2 * half_pi) == math.pi


def test_expand_keeps_sharing_and_native_rows() -> None:
    x = s.leaf("input", float32, 0)
    alone = elementary.expand([s.exp(x)])
    both = elementary.expand([s.exp(x), s.exp(x) * 2.0])
    assert both[0] is alone[0]
    assert both[1].args[0] is alone[0]
    assert len(list(s.walk(both))) == len(list(s.walk(alone))) + 2

    kept = elementary.expand([special_functions.cosh(x)], native=lambda fn: fn == "exp")
    assert "exp" in {e.fn for e in s.walk(kept)}
    assert elementary.expand([s.tanh(x)], native=lambda fn: fn == "tanh") == [s.tanh(x)]


def test_leaves_that_are_equal_but_not_the_same_are_different() -> None:
    number, place = s.leaf("load", float32, 0.0), s.leaf("load", float32, 0)
    assert place is s.leaf("load", float32, 0)
    assert number is not place
    assert type(place.data) is int
