"""Transcendental functions decomposed into simpler rows, for backends that lack them.

Each function is branch-free (`select` only), is written once for float32 and float64, and keeps
NaN, infinities, signed zeros and, where the machine has them, subnormal numbers. docs/accuracy.md
has the largest errors.

`trigonometry.py` has sin, cos and tan, and `special_functions.py` more functions made of these.

Polynomials are of `muladd`, which may be one fma or not, and GPUs may make one of any product and
sum. So no error term is recovered from a rounded product: wherever a product must be exact its
factors are short enough for that, and contraction changes nothing.

The coefficients are minimax fits (Remez, 70 decimal digits) of the function named beside them,
lowest power first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from contraflow.dtypes import DType, float32, float64, int64, uint32
from contraflow.expressions import expression as s
from contraflow.expressions.expression import Expr, ExprLike, bitcast, const, eq, select
from contraflow.expressions.intrinsics import INTRINSICS, decomposes, intrinsic

Coefficients = Sequence[float]


def expand(roots: Sequence[Expr], native: Callable[[str], bool] = lambda fn: False) -> list[Expr]:
    """Replace every row that is not `native` and has a decomposition by it, until none is left.

    Interning keeps what `roots` share shared: a repeated exp becomes one repeated paragraph.
    """

    def decompose(e: Expr) -> Expr | None:
        row = None if e.fn in s.LEAVES or native(e.fn) else INTRINSICS[e.fn]
        return row.decomposition(*e.args) if row and row.decomposition else None

    while True:
        expanded = s.rewrite(roots, decompose)
        if expanded == list(roots):
            return expanded
        roots = expanded


# --- rows that intrinsics.py does not have -----------------------------------------------------

intrinsic("log1p", 1, np.log1p, cuda="log1p({0})")
intrinsic("expm1", 1, np.expm1, cuda="expm1({0})")


def log1p(x: Expr) -> Expr:
    """log(1 + x), accurate near zero."""
    return s.call("log1p", x)


def expm1(x: Expr) -> Expr:
    """exp(x) - 1, accurate near zero."""
    return s.call("expm1", x)


# --- floating-point formats --------------------------------------------------------------------


# Constants are integers in units of 2**-UNIT_BITS: importing `fractions` takes longer than this
# module.
UNIT_BITS = 256


def constant(numerator: int, denominator: int) -> int:
    """A constant that is a fraction."""
    return (numerator << UNIT_BITS) // denominator


def pieces(value: int, *digits: int) -> tuple[float, ...]:
    """Split a constant into floats of so many significant bits each, which add up to it."""
    split = []
    for count in digits:
        below = value.bit_length() - count
        piece = value >> below
        split.append(math.ldexp(piece, below - UNIT_BITS))
        value -= piece << below
    return tuple(split)


LN_2 = constant(0xB17217F7D1CF79ABC9E3B39803F2F6AF40F343267, 1 << 164)
HALF_PI = constant(0xC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74, 1 << 191)


class FloatFormat(NamedTuple):
    """The properties of a floating-point type that the functions below need.

    `ln_2` and `half_pi` are split into pieces short enough that their products with the integers
    they meet are exact: those of ln_2 with any exponent, those of half_pi with quadrant numbers
    below 2**16 in float32 and 2**20 in float64.
    """

    bits: DType  # the integer type of the same size
    fraction: int  # bits after the leading one
    bias: int  # of the exponent
    exponents: tuple[float, float]  # exp(x) is 0 below and infinite above these
    ln_2: tuple[float, ...]
    half_pi: tuple[float, ...]

    @property
    def least_normal(self) -> float:
        """The smallest number with full precision."""
        return 2.0 ** (1 - self.bias)

    @property
    def sign(self) -> int:
        """The sign bit, as a value of the type `bits`."""
        return 1 << 31 if self.bits is uint32 else -(1 << 63)

    @property
    def upper_half(self) -> int:
        """A mask that keeps half of the significant bits, so that products become exact."""
        kept = ~((1 << (self.fraction // 2 + 1)) - 1)
        return kept & 0xFFFFFFFF if self.bits is uint32 else kept


FORMATS = {
    float32: FloatFormat(
        uint32, 23, 127, (-104.0, 89.0), pieces(LN_2, 16, 24), pieces(HALF_PI, 8, 8, 8, 8, 8, 24)
    ),
    float64: FloatFormat(
        int64, 52, 1023, (-746.0, 710.0), pieces(LN_2, 42, 53), pieces(HALF_PI, 33, 33, 33, 53)
    ),
}


def bits(x: Expr) -> Expr:
    """The bits of a float as an integer."""
    return bitcast(x, FORMATS[x.dtype].bits)


def copy_sign(magnitude: Expr, x: Expr) -> Expr:
    """The non-negative `magnitude` with the sign of `x`, which may be a zero's."""
    sign = bits(x) & FORMATS[x.dtype].sign
    return bitcast(bits(magnitude) | sign, x.dtype)


def clamp(x: Expr, low: float, high: float) -> Expr:
    """`x` limited to [low, high]; NaN stays."""
    return s.call("clamp", x, const(low, x.dtype), const(high, x.dtype))


def at_most(x: Expr, high: float) -> Expr:
    """`x`, or `high` where it is larger; NaN stays."""
    return clamp(x, -math.inf, high)


def keep_tiny(x: Expr, value: Expr) -> Expr:
    """`x` where x**2 is nothing beside it, which keeps subnormal numbers and the sign of zero."""
    tiny = 2.0 ** (-2 - FORMATS[x.dtype].fraction)
    return select(s.abs_(x) < tiny, x, value)


def polynomial(x: Expr, coefficients: Coefficients) -> Expr:
    """The polynomial with these coefficients, lowest power first, by Horner's rule."""
    *rest, last = coefficients
    value: ExprLike = last
    for coefficient in reversed(rest):
        value = s.muladd(value, x, coefficient)
    assert isinstance(value, Expr)
    return value


def integer_bits(n: Expr) -> Expr:
    """An integral float, small beside 2**fraction, in the low bits of an integer (the high bits
    are arbitrary): adding 1.5 * 2**fraction aligns it. Vector units lack conversions to int64."""
    return bits(n + 1.5 * 2.0 ** FORMATS[n.dtype].fraction)


def power_of_two(n: Expr) -> Expr:
    """2**n for an integral float whose power is a normal number."""
    return _power(integer_bits(n), n.dtype)


def _power(n: Expr, dtype: DType) -> Expr:
    """2**n for the integer in the low bits of `n`."""
    form = FORMATS[dtype]
    return bitcast((n + form.bias) << form.fraction, dtype)


def scale(x: Expr, n: Expr) -> Expr:
    """x * 2**n in two steps, the first exact, so that only the last overflows or underflows."""
    whole = integer_bits(n)
    half = whole >> 1  # what comes down into its low bits is zero
    return x * _power(half, x.dtype) * _power(whole - half, x.dtype)


def scale_once(x: Expr, n: Expr) -> Expr:
    """x * 2**n for any x and integral n, infinite ones apart, rounded once. The exponent is changed
    by its bits: a product of powers of two could overflow before the last of them."""
    form = FORMATS[x.dtype]
    digits = form.fraction + 2
    reach = 2.0 * (form.bias + digits)  # from the largest number to zero, or back
    magnitude = s.abs_(x)
    small = magnitude < form.least_normal
    normal = select(small, magnitude * 2.0**digits, magnitude)
    n = clamp(n, -reach, reach) - select(small, const(digits, x.dtype), const(0, x.dtype))
    # The exponent raised by `offset`, since an unsigned integer has no sign.
    offset = 4 * form.bias
    zero = const(1.5 * 2.0**form.fraction, x.dtype)
    exponent = (bits(normal) >> form.fraction) + (integer_bits(n) - bits(zero)) + offset
    # A subnormal result is made as a normal one, and the product rounds it.
    subnormal = exponent <= offset
    least = const(offset + 1, exponent.dtype)
    field = select(subnormal, s.maximum(exponent + digits, least), exponent) - offset
    fraction = bits(normal) & ((1 << form.fraction) - 1)
    value = bitcast(fraction | (field << form.fraction), x.dtype)
    value = select(subnormal, value * 2.0**-digits, value)
    value = select(exponent > offset + 2 * form.bias, math.inf, value)
    kept = eq(magnitude, 0.0) | ~(magnitude < math.inf)
    return select(s.isnan(n), n, select(kept, x, copy_sign(value, x)))


def raise_exponent(x: Expr, n: Expr) -> Expr:
    """x * 2**n for positive normal x and n from zero on, infinite where that is not finite. The
    exponent is raised by its bits: compilers of WGSL may multiply several powers of two first."""
    raised = bits(x) + (integer_bits(n) << FORMATS[x.dtype].fraction)
    endless = const(math.inf, x.dtype)
    return select(raised < bits(endless), bitcast(raised, x.dtype), endless)


def split_exponent(x: Expr) -> tuple[Expr, Expr]:
    """(k, m) with x = 2**k * m and m in [sqrt(1/2), sqrt(2)), for positive finite x."""
    form = FORMATS[x.dtype]
    subnormal = x < form.least_normal
    x = select(subnormal, x * 2.0**form.fraction, x)
    # Counted from sqrt(1/2), the exponent field changes where m should wrap.
    one, root = (int(np.asarray(v, x.dtype.numpy).view(form.bits.numpy)) for v in (1.0, 0.5**0.5))
    shifted = bits(x) + (one - root)
    mantissa = bitcast((shifted & ((1 << form.fraction) - 1)) + root, x.dtype)
    # Placed in the low bits of 2**fraction the exponent is a float without a conversion.
    magic = 2.0**form.fraction
    biased = bitcast((shifted >> form.fraction) | bits(const(magic, x.dtype)), x.dtype)
    offset = magic + form.bias
    return biased - select(subnormal, const(offset + form.fraction, x.dtype), offset), mantissa


# --- exponentials ------------------------------------------------------------------------------

# (exp(r) - 1 - r) / r**2 for |r| <= ln(2) / 2
EXP = {
    float32: (0.5, 0.16666667, 0.041666366, 0.008333274, 0.0013940377, 0.0001991374),
    float64: (
        0.5, 1.6666666666666677e-01, 4.1666666666666699e-02, 8.3333333333221286e-03,
        1.3888888888866900e-03, 1.9841269885027387e-04, 2.4801587360816812e-05,
        2.7557245186309315e-06, 2.7557242355055800e-07, 2.5108733519424040e-08,
        2.0924601628647108e-09,
    ),
}  # fmt: skip

# 2 tanh(x / 2) = x + x z P(z) / Q(z), z = x**2, for |x| <= 9.1
HALF_TANH = (
    (-0.08333328, -0.0012350613, -2.6465991e-06),
    (1.0, 0.114820436, 0.0013948181, 2.7323e-06),
)

# tanh(a) = a + a z P(z), z = a**2, for a <= 0.625
TANH = (
    -3.3333333333333315e-01, 1.3333333333330172e-01, -5.3968253966252301e-02,
    2.1869488473225111e-02, -8.8632343749695114e-03, 3.5921145501721661e-03,
    -1.4557291583226527e-03, 5.8946433939707332e-04, -2.3704418395079847e-04,
    9.1611801228313528e-05, -3.0237772233368860e-05, 6.0634415832156072e-06,
)  # fmt: skip

# erf(a) = a + a P(a**2) for a <= 1
ERF = {
    float32: (
        0.12837917, -0.37612626, 0.11283598, -0.02685436, 0.005189354, -0.000801906, 7.882613e-05,
    ),
    float64: (
        1.2837916709551259e-01, -3.7612638903183748e-01, 1.1283791670954879e-01,
        -2.6866170645076851e-02, 5.2239776248178861e-03, -8.5483269807872756e-04,
        1.2055331108561379e-04, -1.4925595160576521e-05, 1.6460998280374173e-06,
        -1.6350284229915511e-07, 1.4659550643244019e-08, -1.1371857185165482e-09,
        5.9552975975656956e-11,
    ),
}  # fmt: skip

# log(1 - erf(a)) from 1 to where erf rounds to 1: 4 in float32, 6 in float64
LOG_ERFC = {
    float32: (
        0.00018802677, -1.1295784, -0.63322, -0.10841846, 0.025208183, -0.004204535, 0.00044133104,
        -2.1686412e-05,
    ),
    float64: (
        -1.8286910301852196e-07, -1.1283772971124877e+00, -6.3662863715609896e-01,
        -1.0274682910982177e-01, 1.9077317888455396e-02, 2.8170938134727992e-04,
        -1.7703575475770492e-03, 6.4234893314554049e-04, -4.5628537958493579e-05,
        -6.9926679060683560e-05, 4.4845687006042998e-05, -1.6447433919704960e-05,
        4.3088077849352290e-06, -8.4667710117958816e-07, 1.2506993223389593e-07,
        -1.3550574279843645e-08, 1.0193766979841621e-09, -4.7635485914876518e-11,
        1.0418522131712144e-12,
    ),
}  # fmt: skip


def reduce_exponent(x: Expr) -> tuple[Expr, Expr]:
    """(n, r) with x = n ln 2 + r and |r| <= ln(2) / 2."""
    high, low = FORMATS[x.dtype].ln_2
    n = s.rint(x * (1 / math.log(2)))
    return n, s.muladd(n, -low, s.muladd(n, -high, x))


def exp_minus_one(r: Expr) -> Expr:
    """exp(r) - 1 for |r| <= ln(2) / 2."""
    return s.muladd(r * r, polynomial(r, EXP[r.dtype]), r)


@decomposes("exp")
def _exp(x: Expr) -> Expr:
    # exp(n ln 2 + r) = 2**n exp(r). The limits lie beyond overflow and underflow, which `scale`
    # then produces.
    n, r = reduce_exponent(clamp(x, *FORMATS[x.dtype].exponents))
    return scale(1.0 + exp_minus_one(r), n)


def exp_normal(x: Expr) -> Expr:
    """exp(x) where that is a normal number, so that neither limits nor steps are needed."""
    n, r = reduce_exponent(x)
    return (1.0 + exp_minus_one(r)) * power_of_two(n)


@decomposes("expm1")
def _expm1(x: Expr) -> Expr:
    # exp(n ln 2 + r) - 1 = 2**n (exp(r) - 1) + (2**n - 1), halved on the way because 2**n may
    # overflow where the result does not. Below -fraction the result is -1.
    form = FORMATS[x.dtype]
    n, r = reduce_exponent(clamp(x, -form.fraction, form.exponents[1]))
    half = power_of_two(n - 1.0)
    return keep_tiny(x, 2.0 * (exp_minus_one(r) * half + (half - 0.5)))


@decomposes("tanh")
def _tanh(x: Expr) -> Expr:
    if x.dtype is float32:
        return _tanh_by_half(x)
    # 1 - 2 / (exp(2a) + 1) loses digits near zero, where a polynomial does not. It is 1 at the end.
    a = s.abs_(x)
    z = a * a
    near = s.muladd(a, z * polynomial(z, TANH), a)
    far = 1.0 - 2.0 / (exp_normal(2.0 * select(a > 20.0, 20.0, a)) + 1.0)
    return copy_sign(select(a < 0.625, near, far), x)


def _tanh_by_half(x: Expr) -> Expr:
    # With t = 2 tanh(x / 2), tanh(x) = t / (1 + t**2 / 4): the error of t shrinks as this
    # approaches 1, so a short quotient will do for t. It is 1 at the end. The zero that is added
    # has a sign: it keeps that of x. Numbers side by side may have results in the wrong order, as
    # they are off by more than one unit.
    above, below = HALF_TANH
    y = clamp(x, -9.8, 9.8)
    z = y * y
    t = s.muladd(y, s.muladd(z, polynomial(z, above), 0.0) / polynomial(z, below), y)
    return t / s.muladd(0.25 * t, t, 1.0)


@decomposes("erf")
def _erf(x: Expr) -> Expr:
    # 1 - exp(log(erfc(a))): the error of erfc shrinks as erf approaches 1.
    a = s.abs_(x)
    end = 4.0 if x.dtype is float32 else 6.0
    near = s.muladd(a, polynomial(a * a, ERF[x.dtype]), a)
    far = 1.0 - exp_normal(polynomial(at_most(a, end), LOG_ERFC[x.dtype]))
    return copy_sign(select(a < 1.0, near, far), x)


# --- logarithms --------------------------------------------------------------------------------

# (2 atanh(q) - 2 q) / q**3 in w = q**2, for q = f / (2 + f) and 1 + f in [sqrt(1/2), sqrt(2)]
LOG = {
    float32: (0.6666666, 0.40000337, 0.2853717, 0.23584992),
    float64: (
        6.6666666666667351e-01, 3.9999999999408703e-01, 2.8571428743881389e-01,
        2.2222198403366181e-01, 1.8183573986604890e-01, 1.5313782821758154e-01,
        1.4798825742732177e-01,
    ),
}  # fmt: skip


def log_parts(k: Expr, f: Expr, tail: ExprLike = 0.0) -> Expr:
    """k ln 2 + log(1 + f) + tail, for 1 + f in [sqrt(1/2), sqrt(2)] and a small tail.

    With q = f / (2 + f), log(1 + f) = 2 atanh(q) = f - f**2 / 2 + q (f**2 / 2 + q**2 P(q**2)),
    whose first term is exact and whose others are small beside it.
    """
    high, low = FORMATS[f.dtype].ln_2
    q = f / (2.0 + f)
    w = q * q
    half = 0.5 * f * f
    small = q * (half + w * polynomial(w, LOG[f.dtype])) + (k * low + tail)
    return k * high + (f - (half - small))


def log_limits(x: Expr, zero: float, value: Expr) -> Expr:
    """`value` where a logarithm with its pole at x = `zero` is finite, else its limit or NaN."""
    at_zero = select(eq(x, zero), const(-math.inf, x.dtype), math.nan)
    return select(x > zero, select(x < math.inf, value, math.inf), at_zero)


@decomposes("log")
def _log(x: Expr) -> Expr:
    # log(2**k m) = k ln 2 + log(m)
    k, m = split_exponent(x)
    return log_limits(x, 0.0, log_parts(k, m - 1.0))


@decomposes("log1p")
def _log1p(x: Expr) -> Expr:
    # Where 1 + x needs no reduction x itself is exact. Elsewhere u = 1 + x has a rounding error c,
    # and log(u + c) = log(u) + c / u.
    near = (x > 0.5**0.5 - 1) & (x < 2**0.5 - 1)
    u = 1.0 + x
    rounded_x = u - 1.0
    c = (x - rounded_x) + (1.0 - (u - rounded_x))
    k, m = split_exponent(u)
    value = log_parts(select(near, 0.0, k), select(near, x, m - 1.0), select(near, 0.0, c / u))
    return keep_tiny(x, log_limits(x, -1.0, value))


# --- powers ------------------------------------------------------------------------------------

# 3 / 2 (2 atanh(q) - 2 q - 2 / 3 q**3) / q**5 in w = q**2, for q as in LOG
POW_LOG = {
    float32: (0.6000023, 0.42820793, 0.35126688),
    float64: (
        6.0000000000002107e-01, 4.2857142855665140e-01, 3.3333333700073794e-01,
        2.7272682735091650e-01, 2.3079879832128719e-01, 1.9890651973808816e-01,
        1.9748285769796916e-01,
    ),
}  # fmt: skip


def upper(x: Expr) -> Expr:
    """`x` without the lower half of its significant bits: products of two are exact."""
    return bitcast(bits(x) & FORMATS[x.dtype].upper_half, x.dtype)


def log_pair(x: Expr) -> tuple[Expr, Expr]:
    """log(x) as the sum of a number with half the significant bits and a remainder.

    With x = 2**k m, f = m - 1 and q = f / (2 + f),

        log(x) = k ln 2 + 2 / 3 q (3 + q**2 + q**4 P(q**2))

    where every factor is a pair (high, low), so that about 1.5 times the precision is kept.
    """
    form = FORMATS[x.dtype]
    ln_2_high, ln_2_low = form.ln_2
    two_thirds = pieces(constant(2, 3), (form.fraction + 1) // 2, form.fraction + 1)

    k, m = split_exponent(x)
    f, below = m - 1.0, m + 1.0
    below_high = upper(below)
    below_low = m - (below_high - 1.0)
    q = f / below
    q_high = upper(q)
    q_low = ((f - q_high * below_high) - q_high * below_low) / below

    w = q * q
    square = q_high * q_high
    rest = q_low * (q_high + q) + w * w * polynomial(w, POW_LOG[x.dtype])
    factor_high = upper(3.0 + square + rest)
    factor_low = rest - ((factor_high - 3.0) - square)

    product = q_high * factor_high
    error = q_low * factor_high + factor_low * q
    product_high = upper(product + error)
    product_low = error - (product_high - product)

    value = two_thirds[0] * product_high
    error = two_thirds[1] * product_high + product_low * (2 / 3) + k * ln_2_low
    high = upper(k * ln_2_high + (value + error))
    return high, error - ((high - k * ln_2_high) - value)


def pow_magnitude(a: Expr, b: Expr) -> Expr:
    """a**b = exp(b log(a)) for positive finite a, with b log(a) a pair: exp magnifies its error."""
    form = FORMATS[a.dtype]
    # Beyond this b the result overflows or vanishes for every a but 1.
    enough = 4.0 * 2.0 ** (form.fraction + 1) * form.exponents[1]
    b = clamp(b, -enough, enough)
    high, low = log_pair(a)
    b_high = upper(b)
    product = b_high * high
    error = (b - b_high) * high + b * low
    total = product + error
    tail = error - (total - product)
    limited = clamp(total, *form.exponents)
    n, r = reduce_exponent(limited)
    return scale(1.0 + exp_minus_one(r + select(eq(total, limited), tail, 0.0)), n)


@decomposes("pow")
def _pow(a: Expr, b: Expr) -> Expr:
    if not a.dtype.is_floating_point:
        return integer_pow(a, b)
    x = s.abs_(a)
    integral = eq(s.floor(b), b)
    odd = integral & s.ne(s.floor(b * 0.5) * 2.0, b)

    # Zero and infinity: infinite where a large base is raised or a small one lowered.
    limit = select((x > 1.0) ^ (b < 0.0), const(math.inf, a.dtype), 0.0)
    value = select(eq(x, 0.0) | eq(x, math.inf), limit, pow_magnitude(x, b))
    value = select(odd, copy_sign(value, a), value)
    undefined = (a < 0.0) & (a > -math.inf) & ~integral
    value = select(undefined | s.isnan(a) | s.isnan(b), math.nan, value)
    # 1**b and a**0 are 1 even for NaN, and (-1)**(+-inf) is 1.
    one = eq(a, 1.0) | eq(b, 0.0) | (eq(x, 1.0) & eq(s.abs_(b), math.inf))
    return select(one, 1.0, value)


def integer_pow(a: Expr, b: Expr) -> Expr:
    """a**b modulo 2**bits by squaring; for negative b the truncated fraction, 0 unless |a| = 1."""
    value, square = const(1, a.dtype), a
    for bit in range(8 * a.dtype.itemsize - 1):
        value = select(eq((b >> bit) & 1, 0), value, value * square)
        square = square * square
    if not a.dtype.is_signed:
        return value
    reciprocal = select(eq(a, 1) | (eq(a, -1) & eq(b & 1, 0)), const(1, a.dtype), 0)
    reciprocal = select(eq(a, -1) & eq(b & 1, 1), -1, reciprocal)
    return select(b < 0, reciprocal, value)


@decomposes("mulhi")
def _mulhi(a: Expr, b: Expr) -> Expr:
    # By 16-bit halves: no product or sum below exceeds 32 bits.
    a_low, a_high, b_low, b_high = a & 0xFFFF, a >> 16, b & 0xFFFF, b >> 16
    middle = a_high * b_low + ((a_low * b_low) >> 16)
    return a_high * b_high + (middle >> 16) + ((a_low * b_high + (middle & 0xFFFF)) >> 16)
