"""More functions as paragraphs of simpler rows: inverse trigonometry, hyperbolics, erfc, gamma.

The same promises as in `mathematics.py`, whose pieces are used here: branch-free, NaN, infinities
and signed zeros kept, and nothing that contraction into fma could spoil. The largest errors, in
units in the last place (tests/test_transcendental.py measures them):

    exp2 1    acos, asinh, atan2, log2 1.5    atan, atanh, erfinv 2    asin, acosh 2.5
    cosh, log10, sinh, tan 3    erfc 3.5

lgamma, digamma and polygamma are sums of larger terms of both signs: within 2 where they are large,
and within 40 units in the last place of 1 near their zeros.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from contraflow import mathematics as m
from contraflow import scalar as s
from contraflow import trigonometry
from contraflow.dtypes import float32, float64
from contraflow.scalar import Expr, const, select

# --- the rows ----------------------------------------------------------------------------------


def _row(name: str, arity: int, numpy: Callable[..., Any], doc: str, cuda: str = "") -> Any:
    """A row with CUDA's own function of that name; LLVM and WGSL use the decomposition."""
    given = ", ".join(f"{{{i}}}" for i in range(arity))
    s.intrinsic(name, arity, numpy, cuda=f"{cuda or name}({given})")

    def build(*args: Any) -> Expr:
        return s.call(name, *args)

    build.__name__, build.__doc__ = name, doc
    return build


log1p, expm1, tan = m.log1p, m.expm1, trigonometry.tan
log2 = _row("log2", 1, np.log2, "Logarithm to base 2, exact for powers of 2.")
log10 = _row("log10", 1, np.log10, "Logarithm to base 10.")
exp2 = _row("exp2", 1, np.exp2, "2 to the power x, exact for whole x.")
asin = _row("asin", 1, np.arcsin, "Inverse sine.")
acos = _row("acos", 1, np.arccos, "Inverse cosine.")
atan = _row("atan", 1, np.arctan, "Inverse tangent.")
atan2 = _row("atan2", 2, np.arctan2, "The angle of the point (b, a).")
sinh = _row("sinh", 1, np.sinh, "Hyperbolic sine.")
cosh = _row("cosh", 1, np.cosh, "Hyperbolic cosine.")
asinh = _row("asinh", 1, np.arcsinh, "Inverse hyperbolic sine.")
acosh = _row("acosh", 1, np.arccosh, "Inverse hyperbolic cosine.")
atanh = _row("atanh", 1, np.arctanh, "Inverse hyperbolic tangent.")
erfc = _row("erfc", 1, s._lifted(math.erfc), "1 - erf(x), without its cancellation.")


def _by_decomposition(name: str) -> Callable[[Any], Any]:
    """The NumPy column of a row that NumPy lacks: its decomposition, in float64."""

    def numpy(x: Any) -> Any:
        x = np.asarray(x)
        return _evaluate(x, lambda leaf: s.INTRINSICS[name].decomposition(leaf))  # type: ignore[misc]

    return numpy


def _evaluate(x: Any, build: Callable[[Expr], Expr]) -> Any:
    wide = np.asarray(x, np.float64)
    (out,) = s.evaluate([build(s.leaf("input", float64, 0))], lambda leaf, _: wide)
    return np.broadcast_to(out, wide.shape).astype(x.dtype)


def _lgamma_of(x: float) -> float:
    pole = math.isinf(x) or (x <= 0 and x == math.floor(x))
    return math.inf if pole else math.lgamma(x)


erfinv = _row("erfinv", 1, _by_decomposition("erfinv"), "The inverse of erf.")
lgamma = _row("lgamma", 1, s._lifted(_lgamma_of), "log(|gamma(x)|).")
s.intrinsic("digamma", 1, _by_decomposition("digamma"))


def digamma(x: Expr) -> Expr:
    """The derivative of lgamma."""
    return s.call("digamma", x)


# LLVM's frem and CUDA's fmod are exact; WGSL's % subtracts a rounded product.
s.intrinsic(
    "fmod", 2, np.fmod,
    llvm={"float": "frem {t} {0}, {1}"}, cuda={"float": "fmod({0}, {1})"},
    wgsl={"float": "{0} % {1}"},
)  # fmt: skip


def fmod(a: Expr, b: Expr) -> Expr:
    """a less the multiple of b towards zero: the remainder has the sign of a."""
    return s.call("fmod", a, b)


def copy_sign(magnitude: Expr, x: Expr) -> Expr:
    """The magnitude of one value with the sign of another, which may be a zero's."""
    return m.copy_sign(s.abs_(magnitude), x)


def is_negative(x: Expr) -> Expr:
    """Whether the sign bit is set: true of -0.0."""
    return s.ne(m.bits(x) & m.FORMATS[x.dtype].sign, 0)


def next_after(a: Expr, b: Expr) -> Expr:
    """The representable number after a in the direction of b."""
    # As integers, the bits of floats of one sign are ordered like their magnitudes.
    away = ~((b > a) ^ (a > 0.0))
    bits = m.bits(a)
    step = s.bitcast(select(away, bits + 1, bits - 1), a.dtype)
    least = m.copy_sign(s.bitcast(const(1, bits.dtype), a.dtype), b)
    value = select(s.eq(a, b), b, select(s.eq(a, 0.0), least, step))
    return select(s.isnan(a) | s.isnan(b), math.nan, value)


# --- powers and logarithms of 2 and 10 ---------------------------------------------------------


@s.decomposes("log2")
def _log2(x: Expr) -> Expr:
    # log2(2**k f) = k + log(f) / ln 2
    k, f = m.split_exponent(x)
    zero = const(0.0, x.dtype)
    return m.log_limits(x, 0.0, k + m.log_parts(zero, f - 1.0) * (1 / math.log(2)))


# log10(2), whose first piece times any exponent is exact
_LOG10_2 = {
    float32: m.pieces(Fraction("0.30102999566398119521373889472449302677"), 12, 24),
    float64: m.pieces(Fraction("0.30102999566398119521373889472449302677"), 40, 53),
}


@s.decomposes("log10")
def _log10(x: Expr) -> Expr:
    k, f = m.split_exponent(x)
    high, low = _LOG10_2[x.dtype]
    rest = m.log_parts(const(0.0, x.dtype), f - 1.0) * (1 / math.log(10))
    return m.log_limits(x, 0.0, k * high + (rest + k * low))


@s.decomposes("exp2")
def _exp2(x: Expr) -> Expr:
    low, high = (v / math.log(2) for v in m.FORMATS[x.dtype].exponents)
    x = m.clamp(x, math.floor(low), math.ceil(high))
    n = s.rint(x)
    return m.scale(1.0 + m.exp_minus_one((x - n) * math.log(2)), n)


# --- angles ------------------------------------------------------------------------------------

# atan(t) = t + t z P(z), z = t**2, for |t| <= sqrt(2) - 1
ATAN = {
    float32: (-0.3333332, 0.19998533, -0.1424296, 0.105813965, -0.060330085),
    float64: (
        -3.3333333333333331e-01, 1.9999999999998538e-01, -1.4285714285469026e-01,
        1.1111111091865893e-01, -9.0909082389656878e-02, 7.6922841992712349e-02,
        -6.6662397923452493e-02, 5.8770841143056682e-02, -5.2184625322538168e-02,
        4.5026410385350012e-02, -3.3431311932242649e-02, 1.5132810683808879e-02,
    ),
}  # fmt: skip

# asin(t) = t + t z P(z), z = t**2, for |t| <= 1/2
ASIN = {
    float32: (0.16666663, 0.075004295, 0.044523615, 0.031799506, 0.014335053, 0.037806362),
    float64: (
        1.6666666666666663e-01, 7.5000000000012543e-02, 4.4642857140903797e-02,
        3.0381944586729912e-02, 2.2372153219191254e-02, 1.7352916578763096e-02,
        1.3962213419623644e-02, 1.1583237920252263e-02, 9.4970265050213758e-03,
        9.9640569566223289e-03, 7.7909784447863001e-04, 2.4727621125148546e-02,
        -2.6157215571006823e-02, 3.3720044152025182e-02,
    ),
}  # fmt: skip

# pi / 2 as a number and what is missing from it
_HALF_PI = {float32: m.pieces(m.HALF_PI, 24, 24), float64: m.pieces(m.HALF_PI, 53, 53)}


@s.decomposes("atan")
def _atan(x: Expr) -> Expr:
    # atan(a) = pi / 4 + atan((a - 1) / (a + 1)) = pi / 2 + atan(-1 / a): one division for all.
    a = s.abs_(x)
    far, middle = a > math.sqrt(2) + 1, a > math.sqrt(2) - 1
    above = select(far, -1.0, select(middle, a - 1.0, a))
    below = select(far, a, select(middle, a + 1.0, 1.0))
    t = above / below
    z = t * t
    high, low = _HALF_PI[x.dtype]
    quarters = select(far, const(2.0, x.dtype), select(middle, const(1.0, x.dtype), 0.0))
    value = t + (t * (z * m.polynomial(z, ATAN[x.dtype])) + quarters * (low / 2))
    return m.copy_sign(s.abs_(quarters * (high / 2) + value), x)


@s.decomposes("atan2")
def _atan2(a: Expr, b: Expr) -> Expr:
    # The angle in the first octant, then mirrored at the diagonal and at the two axes.
    y, x = s.abs_(a), s.abs_(b)
    low, high = s.minimum(y, x), s.maximum(y, x)
    ratio = select(s.eq(low, high), select(s.eq(low, 0.0), low, 1.0), low / high)
    angle = atan(ratio)
    half_pi, half_pi_low = _HALF_PI[a.dtype]
    angle = select(y > x, half_pi - (angle - half_pi_low), angle)
    angle = select(is_negative(b), 2 * half_pi - (angle - 2 * half_pi_low), angle)
    return select(s.isnan(a) | s.isnan(b), math.nan, m.copy_sign(angle, a))


def _half_asin(x: Expr) -> tuple[Expr, Expr]:
    """(far, p): p is asin(|x|), or from 1/2 on asin(sqrt((1 - |x|) / 2)), half of acos(|x|)."""
    a = s.abs_(x)
    far = a > 0.5
    z = select(far, (1.0 - a) * 0.5, a * a)
    t = select(far, s.sqrt(z), a)
    return far, t + t * (z * m.polynomial(z, ASIN[x.dtype]))


@s.decomposes("asin")
def _asin(x: Expr) -> Expr:
    far, p = _half_asin(x)
    high, low = _HALF_PI[x.dtype]
    return m.copy_sign(select(far, high - (2.0 * p - low), p), x)


@s.decomposes("acos")
def _acos(x: Expr) -> Expr:
    far, p = _half_asin(x)
    high, low = _HALF_PI[x.dtype]
    near = high - (select(x < 0.0, -p, p) - low)
    return select(far, select(x < 0.0, 2 * high - (2.0 * p - 2 * low), 2.0 * p), near)


# --- hyperbolics -------------------------------------------------------------------------------


def _exp_halves(a: Expr) -> tuple[Expr, Expr]:
    """Two factors of exp(a) / 2: the product overflows only where half of exp(a) does."""
    root = s.exp(a * 0.5)
    return root * 0.5, root


@s.decomposes("sinh")
def _sinh(x: Expr) -> Expr:
    a = s.abs_(x)
    t = expm1(a)
    half, root = _exp_halves(a)
    value = select(a > 40.0, half * root, 0.5 * (t + t / (t + 1.0)))
    return m.keep_tiny(x, m.copy_sign(value, x))


@s.decomposes("cosh")
def _cosh(x: Expr) -> Expr:
    a = s.abs_(x)
    e = s.exp(a)
    half, root = _exp_halves(a)
    return select(a > 40.0, half * root, 0.5 * e + 0.5 / e)


def _large(x: Expr) -> float:
    """From here on x**2 + 1 is x**2."""
    return float(2.0 ** (m.FORMATS[x.dtype].fraction // 2 + 2))


@s.decomposes("asinh")
def _asinh(x: Expr) -> Expr:
    # log(a + sqrt(a**2 + 1)) = log1p(a + a**2 / (1 + sqrt(a**2 + 1)))
    a = s.abs_(x)
    large = a > _large(x)
    z = select(large, 1.0, a * a)
    near = log1p(a + z / (1.0 + s.sqrt(z + 1.0)))
    return m.keep_tiny(x, m.copy_sign(select(large, s.log(a) + math.log(2), near), x))


@s.decomposes("acosh")
def _acosh(x: Expr) -> Expr:
    # log(x + sqrt(x**2 - 1)) = log1p(t + sqrt(2 t + t**2)) with t = x - 1
    large = x > _large(x)
    t = select(large, 1.0, x - 1.0)
    near = log1p(t + s.sqrt(t * (t + 2.0)))
    return select(x < 1.0, math.nan, select(large, s.log(x) + math.log(2), near))


@s.decomposes("atanh")
def _atanh(x: Expr) -> Expr:
    a = s.abs_(x)
    return m.keep_tiny(x, m.copy_sign(0.5 * log1p((a + a) / (1.0 - a)), x))


# --- the complementary error function ----------------------------------------------------------

# (1 + 2 a) exp(a**2) erfc(a) in q = (a - K) / (a + K), with K = 2 up to a = 11 in float32 and
# K = 4 up to 28 in float64, beyond which erfc is zero
ERFC = {
    float32: (
        1.2769784, -0.09276402, -0.16603176, 0.16405602, -0.054200474, -0.008061941, 0.008617536,
        0.0013110389, -0.0012133024, -0.0003906809,
    ),
    float64: (
        1.2329951186255526e+00, -1.3962111684056253e-01, 1.5379652102619622e-02,
        6.8097054254695324e-02, -1.0103906603629773e-01, 9.3732834998256270e-02,
        -6.6330365812360084e-02, 3.7167515538977458e-02, -1.6197734056208283e-02,
        5.0319699648844083e-03, -7.5777329924039125e-04, -1.9925662552174313e-04,
        1.5062172346812816e-04, -2.4399442257974987e-05, -1.1222183005686050e-05,
        5.7101968366416850e-06, 2.9416180458136489e-07, -8.2596655459050460e-07,
        7.4105336528944801e-08, 1.1033297379699477e-07, -1.7469659062015253e-08,
        -1.4070579671134673e-08, 1.6772728391857639e-09, 1.1981356062306447e-09,
    ),
}  # fmt: skip


@s.decomposes("erfc")
def _erfc(x: Expr) -> Expr:
    middle, end = (2.0, 11.0) if x.dtype is float32 else (4.0, 28.0)
    a = s.abs_(x)
    a = select(a > end, end, a)
    scaled = m.polynomial((a - middle) / (a + middle), ERFC[x.dtype]) / (1.0 + 2.0 * a)
    # exp(-a**2) = exp(-h**2) exp(-(a - h) (a + h)): the square of h is exact, the rest is small.
    h = m.upper(a)
    tail = s.exp(-(h * h)) * scaled
    tail = tail + tail * m.exp_minus_one((h - a) * (h + a))
    return select(x < 0.0, 2.0 - tail, tail)


# Giles' approximation in single precision of erfinv(x) / x, of w = -log(1 - x**2): in w - 2.5 where
# w < 5, else in sqrt(w) - 3
ERFINV = (
    (
        1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.00021858087, -4.39150654e-06,
        -3.5233877e-06, 3.43273939e-07, 2.81022636e-08,
    ),
    (
        2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773, -0.00367342844,
        0.00134934322, 0.000100950558, -0.000200214257,
    ),
)  # fmt: skip


@s.decomposes("erfinv")
def _erfinv(x: Expr) -> Expr:
    a = s.abs_(x)
    w = -(log1p(-a) + log1p(a))
    near = m.polynomial(w - 2.5, ERFINV[0])
    value = select(w < 5.0, near, m.polynomial(s.sqrt(w) - 3.0, ERFINV[1])) * a
    # One step of Halley's method trebles the digits; erfc keeps those of 1 - a in the tail.
    error = select(a < 0.5, s.erf(value) - a, (1.0 - a) - erfc(value))
    slope = s.exp(-(value * value)) * (2 / math.sqrt(math.pi))
    value = value - error / (slope + value * error)
    value = select(s.eq(a, 1.0), math.inf, select(a > 1.0, math.nan, value))
    return m.keep_tiny(x * (math.sqrt(math.pi) / 2), m.copy_sign(value, x))


# --- the gamma function ------------------------------------------------------------------------

# B(2k) of the Bernoulli numbers, for k = 1, 2, ...
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
_ENOUGH = 10  # from here on the asymptotic series of seven terms are exact to rounding


def _reflected(x: Expr) -> tuple[Expr, Expr]:
    """(low, y): whether x is below 1/2, and x or, there, 1 - x, which the functions reflect to."""
    low = x < 0.5
    return low, select(low, 1.0 - x, x)


def _shifted(y: Expr, visit: Callable[[Expr, Expr], None]) -> Expr:
    """y + k, at least 10, after `visit(small, y + i)` of each step that was `small`."""
    for _ in range(_ENOUGH):
        small = y < float(_ENOUGH)
        visit(small, y)
        y = select(small, y + 1.0, y)
    return y


def _cot_of_pi_times(x: Expr) -> Expr:
    # Beside a half, whose cotangent is 0, the distance to it is exact: cot(a) = tan(pi / 2 - a).
    f = x - s.rint(x)
    a = s.abs_(f)
    far = a > 0.25
    t = trigonometry.near_tan(select(far, 0.5 - a, a) * math.pi)
    return m.copy_sign(select(far, t, 1.0 / t), f)


@s.decomposes("lgamma")
def _lgamma(x: Expr) -> Expr:
    # gamma(y + k) = y (y + 1) ... (y + k - 1) gamma(y), then Stirling's series; and
    # gamma(x) gamma(1 - x) = pi / sin(pi x).
    low, start = _reflected(x)
    product = const(1.0, x.dtype)

    def multiply(small: Expr, y: Expr) -> None:
        nonlocal product
        product = select(small, product * y, product)

    y = _shifted(start, multiply)
    terms = [b / (2 * k * (2 * k - 1)) for k, b in enumerate(BERNOULLI, 1)]
    series = m.polynomial(1.0 / (y * y), terms) / y
    value = (y - 0.5) * (s.log(y) - 1.0) + (series + (0.5 * math.log(2 * math.pi) - 0.5))
    value = value - s.log(product)
    sine = s.abs_(trigonometry.near_sin((x - s.rint(x)) * math.pi))
    value = select(low, math.log(math.pi) - s.log(sine) - value, value)
    pole = s.eq(s.abs_(x), math.inf) | (~(x > 0.0) & s.eq(s.floor(x), x))
    return select(pole, math.inf, value)


@s.decomposes("digamma")
def _digamma(x: Expr) -> Expr:
    low, start = _reflected(x)
    total = const(0.0, x.dtype)

    def add(small: Expr, y: Expr) -> None:
        nonlocal total
        total = select(small, total + 1.0 / y, total)

    y = _shifted(start, add)
    z = 1.0 / (y * y)
    series = z * m.polynomial(z, [b / (2 * k) for k, b in enumerate(BERNOULLI, 1)])
    value = s.log(y) - (0.5 / y + series) - total
    value = select(low, value - math.pi * _cot_of_pi_times(x), value)
    negative = (x < 0.0) & s.eq(s.floor(x), x)
    at_zero = -m.copy_sign(const(math.inf, x.dtype), x)
    return select(s.eq(x, 0.0), at_zero, select(negative, math.nan, value))


def polygamma(x: Expr, n: int) -> Expr:
    """The n-th derivative of digamma, for n >= 1: +-n! times the sum of (x + k)**-(n + 1)."""
    low, start = _reflected(x)
    total = const(0.0, x.dtype)

    def add(small: Expr, y: Expr) -> None:
        nonlocal total
        total = select(small, total + _inverse_power(y, n + 1), total)

    y = _shifted(start, add)
    # The Euler-Maclaurin sum of the tail.
    z, factor, terms = 1.0 / (y * y), n + 1.0, []
    for k, b in enumerate(BERNOULLI, 1):
        terms.append(b * factor / math.factorial(2 * k))
        factor *= (n + 2 * k) * (n + 2 * k + 1)
    tail = _inverse_power(y, n) * (1 / n + (0.5 / y + z * m.polynomial(z, terms)))
    value = ((-1) ** (n + 1) * math.factorial(n)) * (total + tail)
    # The n-th derivative of digamma(1 - x) - digamma(x) = pi cot(pi x), a polynomial of cot(pi x).
    cotangent = _cot_of_pi_times(x)
    mirror = math.pi ** (n + 1) * m.polynomial(cotangent, _derivative_of_cot(n))
    return select(low, (-1) ** n * value - mirror, value)


def _derivative_of_cot(n: int) -> list[float]:
    """The n-th derivative of cot as a polynomial of cot, whose own is -(1 + cot**2)."""
    powers = {1: 1.0}
    for _ in range(n):
        derivative: dict[int, float] = {}
        for k, factor in powers.items():
            for power in (k - 1, k + 1):
                derivative[power] = derivative.get(power, 0.0) - k * factor
        powers = derivative
    return [powers.get(k, 0.0) for k in range(n + 2)]


def _inverse_power(y: Expr, n: int) -> Expr:
    power = inverse = 1.0 / y
    for _ in range(n - 1):
        power = power * inverse
    return power


def np_polygamma(x: Any, n: int) -> Any:
    """The meaning of polygamma over NumPy."""
    return _evaluate(np.asarray(x), lambda leaf: polygamma(leaf, n))
