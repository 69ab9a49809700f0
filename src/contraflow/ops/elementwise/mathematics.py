"""Elementwise mathematical functions: exponentials, logarithms, angles, erf and gamma.

Their scalar meaning is a row of `intrinsics.py` or a paragraph of `special_functions.py`. Where a
factor of zero meets an infinite one (xlogy, sinc, atan2 at the origin) the gradient is zero, as
PyTorch's.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from contraflow.dtypes import FLOAT, get_default_dtype
from contraflow.expressions import expression as s
from contraflow.expressions import special_functions
from contraflow.expressions.intrinsics import INTRINSICS
from contraflow.operation.context import apply
from contraflow.operation.kinds import composite, elementwise
from contraflow.operation.samples import Array, Failure, Sample
from contraflow.ops.creation.create import arange
from contraflow.ops.elementwise.arithmetic import clamp
from contraflow.ops.elementwise.basic import (
    cos,
    digits_beside,
    exp,
    flat,
    log,
    reciprocal,
    rsqrt,
    sigmoid,
    sin,
    where,
)
from contraflow.ops.reduction.reduce import sum_
from contraflow.shapes import whole
from contraflow.tensors.tensor import Tensor

_LN_2, _LN_10 = math.log(2), math.log(10)


# --- exponentials and logarithms ---------------------------------------------------------------


@elementwise(ref=np.expm1, dtype="float", vjp={"x": lambda g, out: g * (out + 1.0)}, inplace=True)
def expm1(x):
    """exp(x) - 1, accurate near zero."""
    return special_functions.expm1(x)


@elementwise(ref=np.exp2, dtype="float", vjp={"x": lambda g, out: g * out * _LN_2}, inplace=True)
def exp2(x):
    """2 to the power x."""
    return special_functions.exp2(x)


@elementwise(
    ref=np.log1p,
    dtype="float",
    vjp={"x": lambda g, x: g / (x + 1.0)},
    domain=(-0.8, 3.0),
    inplace=True,
)
def log1p(x):
    """log(1 + x), accurate near zero."""
    return special_functions.log1p(x)


@elementwise(
    ref=np.log2,
    dtype="float",
    vjp={"x": lambda g, x: g / (x * _LN_2)},
    domain=(0.2, 3.0),
    inplace=True,
)
def log2(x):
    """Logarithm to base 2."""
    return special_functions.log2(x)


@elementwise(
    ref=np.log10,
    dtype="float",
    vjp={"x": lambda g, x: g / (x * _LN_10)},
    domain=(0.2, 3.0),
    inplace=True,
)
def log10(x):
    """Logarithm to base 10."""
    return special_functions.log10(x)


# Outside [0, 1] the value is NaN and so is the gradient, which the formula alone would not say.
@elementwise(
    ref=lambda x: np.log(x / (1.0 - x)),
    dtype="float",
    vjp={"x": lambda g, x: where((x < 0) | (x > 1), math.nan, g / (x * (1.0 - x)))},
    domain=(0.1, 0.9),
    inplace=True,
)
def logit(x):
    """log(x / (1 - x)), the inverse of sigmoid; `eps` keeps x in [eps, 1 - eps]."""
    return s.log(x / (1.0 - x))


@logit.signature
def _logit(x: Tensor, eps: float | None = None) -> Tensor:
    out: Tensor = apply(logit, (x if eps is None else apply(clamp, (x, eps, 1.0 - eps)),))
    return out


def _log_of_sum(a: Any, b: Any, tail: Any) -> Any:
    """max(a, b) plus `tail` of the distance; equal infinities are their own sum."""
    return s.select(
        s.eq(a, b) & s.eq(s.abs_(a), math.inf), a, s.maximum(a, b) + tail(s.abs_(a - b))
    )


@elementwise(
    ref=np.logaddexp,
    dtype="float",
    vjp={"a": lambda g, a, b: g * sigmoid(a - b), "b": lambda g, a, b: g * sigmoid(b - a)},
    takes=(FLOAT,),
)
def logaddexp(a, b):
    """log(exp(a) + exp(b)), without overflow."""
    return _log_of_sum(a, b, lambda d: special_functions.log1p(s.exp(-d)))


@elementwise(
    ref=np.logaddexp2,
    dtype="float",
    vjp={
        "a": lambda g, a, b: g * sigmoid((a - b) * _LN_2),
        "b": lambda g, a, b: g * sigmoid((b - a) * _LN_2),
    },
    takes=(FLOAT,),
)
def logaddexp2(a, b):
    """log2(2**a + 2**b), without overflow."""
    return _log_of_sum(
        a, b, lambda d: special_functions.log1p(special_functions.exp2(-d)) * (1 / _LN_2)
    )


def _product(a: Any, factor: Any, b: Any) -> Any:
    """a * factor, zero where a is, unless b is NaN."""
    return s.select(s.eq(a, 0) & ~s.isnan(b), 0.0, a * factor)


@elementwise(
    ref=lambda a, b: np.where((a == 0) & ~np.isnan(b), 0.0, a * np.log(b)),
    dtype="float",
    vjp={
        "a": lambda g, a, b: g * where((a == 0) & (b <= 0), 0.0, log(digits_beside(b, g))),
        "b": lambda g, a, b: g * a / b,
    },
    domain=(0.2, 3.0),
    inplace=True,
)
def xlogy(a, b):
    """a log(b), and 0 where a is 0."""
    return _product(a, s.log(b), b)


@elementwise(
    ref=lambda a, b: np.where((a == 0) & ~np.isnan(b), 0.0, a * np.log1p(b)),
    dtype="float",
    vjp={
        "a": lambda g, a, b: g * where((a == 0) & (b <= -1), 0.0, log1p(digits_beside(b, g))),
        "b": lambda g, a, b: g * a / (b + 1.0),
    },
    domain=(-0.8, 3.0),
)
def xlog1py(a, b):
    """a log(1 + b), and 0 where a is 0."""
    return _product(a, special_functions.log1p(b), b)


def _ldexp_samples() -> Any:
    yield Sample((Array((3, 4)), Array((4,))))
    yield Sample((Array((3,)), 3))
    yield Sample((np.array([0.0, 1.5, 1e-30, 3e38, 5e-324]), np.array([126, -126, 120, -120, 99])))
    # Powers that float32 has not; of integers, since PyTorch's gradients are products with them
    yield Sample((np.array([1, 3, -5, 1]), np.array([127, -150, -149, 10**6])))


@elementwise(
    ref=special_functions.np_ldexp,
    dtype="float",
    vjp={"a": lambda g, b: ldexp(g, b), "b": lambda g, out: g * out * math.log(2)},
    samples=_ldexp_samples,
    inplace=True,
)
def ldexp(a, b):
    """a times 2 to the power b, in the dtype of a if only a is a float; exact for whole b."""
    return special_functions.ldexp(a, b)


# --- the error and gamma functions -------------------------------------------------------------


@elementwise(
    ref=INTRINSICS["erfc"].numpy,
    dtype="float",
    vjp={"x": lambda g, x: g * exp(-x * x) * -1.1283791670955126},  # -2 / sqrt(pi)
    inplace=True,
)
def erfc(x):
    """1 - erf(x), accurate where erf is close to 1."""
    return special_functions.erfc(x)


@elementwise(
    ref=INTRINSICS["erfinv"].numpy,
    dtype="float",
    vjp={"x": lambda g, x: _erfinv_vjp(g, erfinv(x))},
    domain=(-0.95, 0.95),
    inplace=True,
)
def erfinv(x):
    """The inverse of erf."""
    return special_functions.erfinv(x)


def _erfinv_vjp(g: Tensor, out: Tensor) -> Tensor:
    return g * exp(out * out) * (math.sqrt(math.pi) / 2)


@elementwise(
    ref=INTRINSICS["lgamma"].numpy,
    dtype="float",
    vjp={"x": lambda g, x: g * digamma(x)},
    samples=lambda: (*_gamma_samples(), Sample((Array((3,), 15.0, 40.0),))),
    inplace=True,
)
def lgamma(x):
    """The logarithm of the absolute value of the gamma function."""
    return special_functions.lgamma(x)


def _gamma_samples() -> Any:
    yield Sample((Array((3, 4), 0.3, 4.0),))
    yield Sample((Array((), 0.5, 3.0),))
    yield Sample((np.array([-0.55, -1.5, -3.45, 2.0]),))


@elementwise(
    ref=INTRINSICS["digamma"].numpy,
    dtype="float",
    vjp={"x": lambda g, x: g * polygamma(1, x)},
    samples=_gamma_samples,
    inplace=True,
)
def digamma(x):
    """The derivative of lgamma."""
    return special_functions.digamma(x)


@elementwise(
    ref=special_functions.np_polygamma,
    dtype="float",
    vjp={"x": lambda g, x, n: g * polygamma(n + 1, x)},
    samples=lambda: (
        Sample((Array((3, 4), 0.3, 4.0),), {"n": 1}),
        Sample((np.array([-0.55, -1.5, 2.0]),), {"n": 1}),
        Sample((Array((3,), 0.3, 4.0),), {"n": 2}),
    ),
    failures=lambda: (
        Failure((Array((2,)),), {"n": -1}, ValueError, "polygamma: n is -1; it must be in 0 to"),
        Failure((Array((2,)),), {"n": 171}, ValueError, "polygamma: n is 171; it must be in 0 to"),
    ),
    inplace=True,
)
def polygamma(x, *, n):
    """The n-th derivative of digamma."""
    return special_functions.polygamma(x, n)


# The function takes n first, the method the tensor.
@polygamma.signature
def _polygamma(*given: Any, n: Any = None, x: Any = None) -> Tensor:
    for value in given:
        n, x = (n, value) if isinstance(value, Tensor) else (value, x)
    n = whole("polygamma", "n", n)
    if not 0 <= n <= 170:  # the factor n! is a float64 up to there
        raise ValueError(f"polygamma: n is {n}; it must be in 0 to 170.")
    return digamma(x) if n == 0 else apply(polygamma, (x,), {"n": n})


@composite(
    ref=lambda x, p: (
        sum(INTRINSICS["lgamma"].numpy(x - j / 2) for j in range(p))
        + p * (p - 1) / 4 * math.log(math.pi)
    ),
    samples=lambda: (
        Sample((Array((3, 4), 1.2, 4.0),), {"p": 3}),
        Sample((Array((), 0.3, 2.0),), {"p": 1}),
    ),
    failures=lambda: (
        Failure((Array((2,)),), {"p": 0}, ValueError, "mvlgamma: p is 0; it must be positive."),
    ),
    inplace=True,
)
def mvlgamma(x, *, p):
    """The logarithm of the gamma function of p variables."""
    p = whole("mvlgamma", "p", p)
    if p < 1:
        raise ValueError(f"mvlgamma: p is {p}; it must be positive.")
    dtype = x.dtype if x.is_floating_point() else get_default_dtype()
    halves = arange(p, dtype=dtype) * 0.5
    return sum_(lgamma(x.unsqueeze(-1) - halves), -1) + p * (p - 1) / 4 * math.log(math.pi)


@elementwise(
    ref=lambda x: np.where(x < 0, -np.inf, -x * np.log(np.where(x == 0, 1.0, x))),
    dtype="float",
    vjp={"x": lambda g, x: g * -(log(x) + 1.0)},
    domain=(0.2, 3.0),
    method=False,
    internal=True,
)
def entr(x):
    """-x log(x), an event's share of the entropy; 0 at 0 and -inf below."""
    return s.select(x < 0, -math.inf, -x * s.log(s.select(s.eq(x, 0.0), 1.0, x)))


@composite(
    ref=lambda x: 0.5 * INTRINSICS["erfc"].numpy(-x * math.sqrt(0.5)),
    samples=lambda: (Sample((Array((3, 4)),)), Sample((Array(()),))),
    method=False,
    internal=True,
)
def ndtr(x):
    """The distribution function of the standard normal distribution."""
    return 0.5 * erfc(x * -math.sqrt(0.5))


# --- angles and hyperbolics --------------------------------------------------------------------


@elementwise(
    ref=np.tan,
    dtype="float",
    vjp={"x": lambda g, out: g * (1.0 + out * out)},
    domain=(-1.3, 1.3),
    inplace=True,
)
def tan(x):
    """Tangent."""
    return special_functions.tan(x)


@elementwise(
    ref=np.arcsin,
    dtype="float",
    vjp={"x": lambda g, x: g * rsqrt(1.0 - x * x)},
    domain=(-0.9, 0.9),
    inplace=True,
    aliases=("arcsin",),
)
def asin(x):
    """Inverse sine."""
    return special_functions.asin(x)


@elementwise(
    ref=np.arccos,
    dtype="float",
    vjp={"x": lambda g, x: -g * rsqrt(1.0 - x * x)},
    domain=(-0.9, 0.9),
    inplace=True,
    aliases=("arccos",),
)
def acos(x):
    """Inverse cosine."""
    return special_functions.acos(x)


@elementwise(
    ref=np.arctan,
    dtype="float",
    vjp={"x": lambda g, x: g / (1.0 + x * x)},
    inplace=True,
    aliases=("arctan",),
)
def atan(x):
    """Inverse tangent."""
    return special_functions.atan(x)


def _inverse_square(a: Tensor, b: Tensor) -> Tensor:
    # At the origin the gradient is 0, at every order.
    square = a * a + b * b
    out: Tensor = where(square == 0, 0.0, reciprocal(where(square == 0, 1.0, square)))
    return out


@elementwise(
    ref=np.arctan2,
    dtype="float",
    vjp={
        "a": lambda g, a, b: g * b * _inverse_square(a, b),
        "b": lambda g, a, b: -g * a * _inverse_square(a, b),
    },
    inplace=True,
    aliases=("arctan2",),
)
def atan2(a, b):
    """The angle of the point (b, a), in [-pi, pi]."""
    return special_functions.atan2(a, b)


@elementwise(
    ref=np.hypot,
    dtype="float",
    vjp={"a": lambda g, a, out: g * (a / out), "b": lambda g, b, out: g * (b / out)},
    inplace=True,
    takes=(FLOAT,),
)
def hypot(a, b):
    """sqrt(a**2 + b**2), without overflow on the way."""
    a, b = s.abs_(a), s.abs_(b)
    low, high = s.minimum(a, b), s.maximum(a, b)
    ratio = s.select(s.eq(high, 0.0) | s.eq(low, high), 1.0, low / high)
    length = s.select(s.eq(high, 0.0), 0.0, high * s.sqrt(1.0 + ratio * ratio))
    return s.select(s.eq(a, math.inf) | s.eq(b, math.inf), math.inf, length)


@elementwise(ref=np.sinh, dtype="float", vjp={"x": lambda g, x: g * cosh(x)}, inplace=True)
def sinh(x):
    """Hyperbolic sine."""
    return special_functions.sinh(x)


@elementwise(ref=np.cosh, dtype="float", vjp={"x": lambda g, x: g * sinh(x)}, inplace=True)
def cosh(x):
    """Hyperbolic cosine."""
    return special_functions.cosh(x)


@elementwise(
    ref=np.arcsinh,
    dtype="float",
    vjp={"x": lambda g, x: g * rsqrt(x * x + 1.0)},
    inplace=True,
    aliases=("arcsinh",),
)
def asinh(x):
    """Inverse hyperbolic sine."""
    return special_functions.asinh(x)


@elementwise(
    ref=np.arccosh,
    dtype="float",
    vjp={"x": lambda g, x: g * rsqrt(x * x - 1.0)},
    domain=(1.2, 4.0),
    inplace=True,
    aliases=("arccosh",),
)
def acosh(x):
    """Inverse hyperbolic cosine."""
    return special_functions.acosh(x)


@elementwise(
    ref=np.arctanh,
    dtype="float",
    vjp={"x": lambda g, x: g / (1.0 - x * x)},
    domain=(-0.9, 0.9),
    inplace=True,
    aliases=("arctanh",),
)
def atanh(x):
    """Inverse hyperbolic tangent."""
    return special_functions.atanh(x)


@elementwise(ref=np.deg2rad, dtype="float", vjp={"x": lambda g: g * (math.pi / 180)}, inplace=True)
def deg2rad(x):
    """Degrees to radians."""
    return x * (math.pi / 180)


@elementwise(ref=np.rad2deg, dtype="float", vjp={"x": lambda g: g * (180 / math.pi)}, inplace=True)
def rad2deg(x):
    """Radians to degrees."""
    return x * (180 / math.pi)


def _sinc_vjp(g: Tensor, x: Tensor) -> Tensor:
    angle = where(x == 0, 1.0, x) * math.pi
    slope = (angle * cos(angle) - sin(angle)) / (angle * angle) * math.pi
    out: Tensor = where(x == 0, 0.0, g * slope)
    return out


@elementwise(ref=np.sinc, dtype="float", vjp={"x": _sinc_vjp}, avoid=(0.0,), inplace=True)
def sinc(x):
    """sin(pi x) / (pi x), and 1 at 0."""
    angle = x * math.pi
    return s.select(s.eq(x, 0.0), 1.0, s.sin(angle) / angle)


@elementwise(
    ref=lambda x: np.where(np.isnan(x), x, np.where(x < 0, np.pi, 0.0)).astype(x.dtype),
    dtype="float",
    vjp={"x": flat},
    avoid=(0.0,),
)
def angle(x):
    """The angle of a real number: pi of a negative one, else 0."""
    return s.select(s.isnan(x), x, s.select(x < 0, s.const(math.pi, x.dtype), 0.0))
