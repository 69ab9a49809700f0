"""More functions decomposed into simpler rows: inverse trigonometry, hyperbolics, erfc, gamma.

The same promises as in `elementary.py`, whose pieces are used here: branch-free, NaN, infinities
and signed zeros kept, and nothing that contraction into fma could spoil. docs/accuracy.md has the
largest errors.

lgamma and digamma keep their digits beside their zeros above 0. Below 0 they are sums of terms that
may cancel, so that, as in polygamma, backends with float64 compute float32 in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from contraflow.dtypes import float32, float64
from contraflow.expressions import elementary as m
from contraflow.expressions import expression as s
from contraflow.expressions import trigonometry
from contraflow.expressions.evaluate import evaluate
from contraflow.expressions.expression import Expr, const, select
from contraflow.expressions.intrinsics import INTRINSICS, decomposes, intrinsic, lifted

# --- the rows ----------------------------------------------------------------------------------


def _row(name: str, arity: int, numpy: Callable[..., Any], doc: str, wide: bool = False) -> Any:
    """A row with CUDA's own function of that name; LLVM and WGSL use the decomposition."""
    given = ", ".join(f"{{{i}}}" for i in range(arity))
    intrinsic(name, arity, numpy, cuda=f"{name}({given})", wide=wide)

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
erfc = _row("erfc", 1, lifted(math.erfc), "1 - erf(x), without its cancellation.")


def _by_decomposition(name: str) -> Callable[[Any], Any]:
    """The NumPy column of a row that NumPy lacks: its decomposition, in float64."""

    def numpy(x: Any) -> Any:
        x = np.asarray(x)
        return _evaluate(x, lambda leaf: INTRINSICS[name].decomposition(leaf))  # type: ignore[misc]

    return numpy


def _evaluate(x: Any, build: Callable[[Expr], Expr]) -> Any:
    wide = np.asarray(x, np.float64)
    (out,) = evaluate([build(s.leaf("input", float64, 0))], lambda leaf, _: wide)
    return np.broadcast_to(out, wide.shape).astype(x.dtype)


erfinv = _row("erfinv", 1, _by_decomposition("erfinv"), "The inverse of erf.")
lgamma = _row("lgamma", 1, _by_decomposition("lgamma"), "log(|gamma(x)|).", wide=True)
intrinsic("digamma", 1, _by_decomposition("digamma"), wide=True)
intrinsic("polygamma", 2, lambda x, n: np_polygamma(x, int(n)), wide=True)


def digamma(x: Expr) -> Expr:
    """The derivative of lgamma."""
    return s.call("digamma", x)


# LLVM's frem and CUDA's fmod are exact; WGSL's % subtracts a rounded multiple of the divisor.
intrinsic(
    "fmod", 2, np.fmod,
    llvm={"float": "frem {t} {0}, {1}"}, cuda={"float": "fmod({0}, {1})"},
    wgsl={"float": "remainder_f32({0}, {1})"},
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


def ldexp(a: Expr, b: Expr) -> Expr:
    """a * 2**b, rounded once for whole b."""
    whole = s.trunc(b)
    rest = select(s.eq(whole, b), 0.0, b - whole)
    # An infinite power times zero is NaN.
    endless = s.eq(s.abs_(b), math.inf)
    return m.scale_once(a * exp2(select(endless, b, rest)), whole)


def np_ldexp(a: Any, b: Any) -> Any:
    """`ldexp` over NumPy."""
    b = np.asarray(b)
    if b.dtype.kind != "f":
        b = b.astype(np.float64)
    dtype = np.result_type(a, np.float32)
    whole = np.trunc(b)
    with np.errstate(invalid="ignore"):
        rest = np.where(np.isinf(b), b, b - whole)
    # More than from the largest float64 to zero, and back
    n = np.clip(np.nan_to_num(whole), -5000, 5000).astype(np.int32)
    return np.ldexp(a * np.exp2(rest).astype(dtype), n)


# --- powers and logarithms of 2 and 10 ---------------------------------------------------------


@decomposes("log2")
def _log2(x: Expr) -> Expr:
    # log2(2**k f) = k + log(f) / ln 2
    k, f = m.split_exponent(x)
    zero = const(0.0, x.dtype)
    return m.log_limits(x, 0.0, k + m.log_parts(zero, f - 1.0) * (1 / math.log(2)))


_LOG10_OF_2 = m.constant(30102999566398119521373889472449302677, 10**38)
# whose first piece times any exponent is exact
_LOG10_2 = {
    float32: m.pieces(_LOG10_OF_2, 12, 24),
    float64: m.pieces(_LOG10_OF_2, 40, 53),
}


@decomposes("log10")
def _log10(x: Expr) -> Expr:
    k, f = m.split_exponent(x)
    high, low = _LOG10_2[x.dtype]
    rest = m.log_parts(const(0.0, x.dtype), f - 1.0) * (1 / math.log(10))
    return m.log_limits(x, 0.0, k * high + (rest + k * low))


@decomposes("exp2")
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


@decomposes("atan")
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


@decomposes("atan2")
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


@decomposes("asin")
def _asin(x: Expr) -> Expr:
    far, p = _half_asin(x)
    high, low = _HALF_PI[x.dtype]
    return m.copy_sign(select(far, high - (2.0 * p - low), p), x)


@decomposes("acos")
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


@decomposes("sinh")
def _sinh(x: Expr) -> Expr:
    a = s.abs_(x)
    t = expm1(a)
    half, root = _exp_halves(a)
    value = select(a > 40.0, half * root, 0.5 * (t + t / (t + 1.0)))
    return m.keep_tiny(x, m.copy_sign(value, x))


@decomposes("cosh")
def _cosh(x: Expr) -> Expr:
    a = s.abs_(x)
    e = s.exp(a)
    half, root = _exp_halves(a)
    return select(a > 40.0, half * root, 0.5 * e + 0.5 / e)


def _large(x: Expr) -> float:
    """From here on x**2 + 1 is x**2."""
    return float(2.0 ** (m.FORMATS[x.dtype].fraction // 2 + 2))


@decomposes("asinh")
def _asinh(x: Expr) -> Expr:
    # log(a + sqrt(a**2 + 1)) = log1p(a + a**2 / (1 + sqrt(a**2 + 1)))
    a = s.abs_(x)
    large = a > _large(x)
    z = select(large, 1.0, a * a)
    near = log1p(a + z / (1.0 + s.sqrt(z + 1.0)))
    return m.keep_tiny(x, m.copy_sign(select(large, s.log(a) + math.log(2), near), x))


@decomposes("acosh")
def _acosh(x: Expr) -> Expr:
    # log(x + sqrt(x**2 - 1)) = log1p(t + sqrt(2 t + t**2)) with t = x - 1
    large = x > _large(x)
    t = select(large, 1.0, x - 1.0)
    near = log1p(t + s.sqrt(t * (t + 2.0)))
    return select(x < 1.0, math.nan, select(large, s.log(x) + math.log(2), near))


@decomposes("atanh")
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


@decomposes("erfc")
def _erfc(x: Expr) -> Expr:
    middle, end = (2.0, 11.0) if x.dtype is float32 else (4.0, 28.0)
    a = m.at_most(s.abs_(x), end)
    scaled = m.polynomial((a - middle) / (a + middle), ERFC[x.dtype]) / (1.0 + 2.0 * a)
    # exp(-a**2) = exp(-h**2) exp(-(a - h) (a + h)): the square of h is exact, the rest is small.
    h = m.upper(a)
    tail = s.exp(-(h * h)) * scaled
    tail = tail + tail * m.exp_minus_one((h - a) * (h + a))
    near = 1.0 - s.muladd(x, m.polynomial(x * x, m.ERF[x.dtype]), x)
    return select(a < 0.5, near, select(x < 0.0, 2.0 - tail, tail))


# Giles' approximation in single precision of erfinv(x) / x, of w = -log(1 - x**2): in w - 2.5 where
# w < 5, then in sqrt(w) - 3; and in sqrt(w) - 5 from w = 16 on, which only float64 comes to
ERFINV = (
    (
        1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.00021858087, -4.39150654e-06,
        -3.5233877e-06, 3.43273939e-07, 2.81022636e-08,
    ),
    (
        2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773, -0.00367342844,
        0.00134934322, 0.000100950558, -0.000200214257,
    ),
    (4.84990661, 1.01030111, -0.00014199189, -0.0002173724, 8.37806362e-05, -1.88165851e-05),
)  # fmt: skip


@decomposes("erfinv")
def _erfinv(x: Expr) -> Expr:
    a = s.abs_(x)
    w = -(log1p(-a) + log1p(a))
    root = s.sqrt(w)
    value = m.polynomial(root - 3.0, ERFINV[1])
    if x.dtype is float64:
        value = select(root > 4.0, m.polynomial(root - 5.0, ERFINV[2]), value)
    value = select(w < 5.0, m.polynomial(w - 2.5, ERFINV[0]), value) * a
    # One step of Halley's method trebles the digits; erfc keeps those of 1 - a in the tail.
    error = select(a < 0.5, s.erf(value) - a, (1.0 - a) - erfc(value))
    slope = s.exp(-(value * value)) * (2 / math.sqrt(math.pi))
    value = value - error / (slope + value * error)
    value = select(s.eq(a, 1.0), math.inf, select(a > 1.0, math.nan, value))
    return m.keep_tiny(x * (math.sqrt(math.pi) / 2), m.copy_sign(value, x))


# --- the gamma function ------------------------------------------------------------------------

# B(2k) of the Bernoulli numbers, for k = 1, 2, ...
BERNOULLI = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798,
)  # fmt: skip
_ENOUGH = 10  # from here on the asymptotic series of so many terms are exact to rounding


def _cot_of_pi_times(x: Expr) -> Expr:
    # Beside a half, whose cotangent is 0, the distance to it is exact: cot(a) = tan(pi / 2 - a).
    f = x - s.rint(x)
    a = s.abs_(f)
    far = a > 0.25
    t = trigonometry.near_tan(select(far, 0.5 - a, a) * math.pi)
    return m.copy_sign(select(far, t, 1.0 / t), f)


# lgamma(2 + z) / z for -3/4 <= z <= 1/2
LGAMMA = {
    float32: (
        0.42278434, 0.32246703, -0.067352337, 0.020580978, -0.0073845897, 0.0028882705,
        -0.0012023172, 0.00051948375, -0.0001818842, 9.1443201e-05, -0.00011227535,
    ),
    float64: (
        4.2278433509846713e-01, 3.2246703342411320e-01, -6.7352301053198185e-02,
        2.0580808427788703e-02, -7.3855510286631931e-03, 2.8905103304820638e-03,
        -1.1927539122376619e-03, 5.0966953206487147e-04, -2.2315474408602818e-04,
        9.9457401988949337e-05, -4.4926464931326535e-05, 2.0508175353649692e-05,
        -9.4372702065555096e-06, 4.3700893078402950e-06, -2.0524824167248730e-06,
        9.6702549168270035e-07, -4.0183304160594520e-07, 2.0758927598859588e-07,
        -1.9264000508094273e-07, 6.2426286817793866e-09, 5.0257317365551411e-08,
        7.5584726967884468e-08,
    ),
}  # fmt: skip


@decomposes("lgamma")
def _lgamma(x: Expr) -> Expr:
    # Zeros are at 1 and 2: what is left of 2, z, is exact, and lgamma(2 + z) = z P(z). Then
    # gamma(y + 1) = y gamma(y) leads from 2 + z down to 1 + z and z, and up to 10; from there on
    # there is Stirling's series.
    a = select(x < -0.5, -x, x)
    far = ~(a < float(_ENOUGH))
    y, product = a, const(1.0, x.dtype)
    for _ in range(_ENOUGH - 2):
        above = y >= 2.5
        y = select(above, y - 1.0, y)
        product = select(above, product * y, product)
    once, twice = a < 1.25, a < 0.5
    z = select(twice, a, select(once, a - 1.0, y - 2.0))
    factor = select(twice, s.abs_(a) * (a + 1.0), select(once, a, select(far, a, product)))
    logarithm = s.log(factor)
    near = z * m.polynomial(z, LGAMMA[x.dtype]) + select(once, -logarithm, logarithm)
    terms = [b / (2 * k * (2 * k - 1)) for k, b in enumerate(BERNOULLI, 1)]
    series = m.polynomial(1.0 / (a * a), terms) / a
    stirling = (a - 0.5) * (logarithm - 1.0) + (series + (0.5 * math.log(2 * math.pi) - 0.5))
    value = select(far, stirling, near)
    # gamma(x) gamma(-x) = -pi / (x sin(pi x)). The zeros of the sum are where terms cancel.
    sine = s.abs_(trigonometry.near_sin((a - s.rint(a)) * math.pi))
    value = select(x < -0.5, s.log(math.pi / (a * sine)) - value, value)
    pole = s.eq(s.abs_(x), math.inf) | (~(x > 0.0) & s.eq(s.floor(x), x))
    return select(pole, math.inf, value)


# digamma(r + d) / d for r + d in [1, 2], where r is the zero there
DIGAMMA = {
    float32: (
        0.96767225, -0.44276322, 0.25849915, -0.163938, 0.10784524, -0.072315955, 0.048563839,
        -0.031981827, 0.023491208, -0.02055671, 0.010902589,
    ),
    float64: (
        9.6767224544762120e-01, -4.4276316898359208e-01, 2.5849976095564858e-01,
        -1.6394270544241185e-01, 1.0782405069169219e-01, -7.2199561256111475e-02,
        4.8804288134436574e-02, -3.3161126478145460e-02, 2.2597649284372790e-02,
        -1.5424766261277919e-02, 1.0538769938576956e-02, -7.2045196665110446e-03,
        4.9270580267742016e-03, -3.3700680515484165e-03, 2.3028895420557894e-03,
        -1.5742021681366500e-03, 1.0901225234458578e-03, -7.5492296185962742e-04,
        4.7179397016913180e-04, -2.8431322925261333e-04, 2.8053436867468668e-04,
        -2.7850748768837872e-04, 1.1881232908510335e-04,
    ),
}  # fmt: skip
_ROOT = m.constant(1461632144968362341262659542325721328468, 10**39)
DIGAMMA_ROOT = {float32: m.pieces(_ROOT, 24, 24), float64: m.pieces(_ROOT, 53, 53)}


@decomposes("digamma")
def _digamma(x: Expr) -> Expr:
    # digamma(y + 1) = digamma(y) + 1 / y leads from [1, 2), where the distance d from the zero is
    # exact, down to 0 and up to 10; from there on there is the asymptotic series.
    a = s.abs_(x)
    less, far = a < 1.0, ~(a < float(_ENOUGH))
    y, total = select(less, a + 1.0, a), const(0.0, x.dtype)
    for _ in range(_ENOUGH - 2):
        above = y >= 2.0
        y = select(above, y - 1.0, y)
        total = select(above, total + 1.0 / y, total)
    root, root_low = DIGAMMA_ROOT[x.dtype]
    d = (y - root) - root_low
    near = d * m.polynomial(d, DIGAMMA[x.dtype]) + total
    z = 1.0 / (a * a)
    series = z * m.polynomial(z, [b / (2 * k) for k, b in enumerate(BERNOULLI, 1)])
    value = select(far, s.log(a) - (0.5 / a + series), near)
    # Below 1 this is digamma(1 + a). digamma(-a) = digamma(a) + 1 / a + pi cot(pi a), whose zeros
    # are where terms cancel.
    mirrored = value + select(less, 0.0, 1.0 / a) + math.pi * _cot_of_pi_times(a)
    value = select(x < 0.0, mirrored, select(less, value - 1.0 / a, value))
    negative = (x < 0.0) & s.eq(s.floor(x), x)
    at_zero = -m.copy_sign(const(math.inf, x.dtype), x)
    return select(s.eq(x, 0.0), at_zero, select(negative, math.nan, value))


def polygamma(x: Expr, n: int) -> Expr:
    """The n-th derivative of digamma, for n >= 1."""
    return s.call("polygamma", x, n)


@decomposes("polygamma")
def _polygamma(x: Expr, order: Expr) -> Expr:
    # +-n! times the sum of (x + k)**-(n + 1). Below 0 the function reflects.
    n = int(order.data)
    low = x < 0.0
    y, total = select(low, 1.0 - x, x), const(0.0, x.dtype)
    enough = _ENOUGH + min(n, _ENOUGH)  # beyond that the first terms are all there is
    for _ in range(enough):
        small = y < float(enough)
        total = select(small, total + _inverse_power(y, n + 1), total)
        y = select(small, y + 1.0, y)
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
    square, power = 1.0 / y, None
    while n:
        if n & 1:
            power = square if power is None else power * square
        square, n = square * square, n >> 1
    assert power is not None
    return power


def np_polygamma(x: Any, n: int) -> Any:
    """The meaning of polygamma over NumPy."""
    return _evaluate(np.asarray(x), lambda leaf: _polygamma(leaf, const(n, float64)))
