"""The incomplete gamma functions, and how the quantiles of gamma distributions move.

Beside z = log(x) the density of the logarithm of a gamma variate is exp(E(w)) times that at z, with
E(w) = a w - x (exp(w) - 1). It is concave, so that away from the mode, which is where x = a, it
falls from 0 on. The integral over that side is a sum over the points of a Gauss-Legendre rule, on
the stretch where exp(E) is not negligible. No loop depends on values: kernels compute it, and
derivatives of every order follow. Counts are drawn by such sums too (`ops/creation/counts.py`).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from contraflow.dtypes import DType, float64, get_default_dtype, promote
from contraflow.expressions.intrinsics import INTRINSICS
from contraflow.expressions.special_functions import BERNOULLI
from contraflow.operation.kinds import composite
from contraflow.operation.samples import Array, Failure, Sample
from contraflow.ops.creation.create import full
from contraflow.ops.creation.data import tensor
from contraflow.ops.elementwise.basic import digits_beside, exp, log, sqrt, where
from contraflow.ops.elementwise.mathematics import digamma, expm1, lgamma, log1p
from contraflow.ops.reduction.reduce import require_floating
from contraflow.tensors.tensor import Tensor

# --- integrals of what falls from 1 ------------------------------------------------------------


class Quadrature(NamedTuple):
    """Points in (0, 1), their weights, and an exponent from which on exp is negligible."""

    points: np.ndarray
    weights: np.ndarray
    exponent: float


@lru_cache
def quadrature(dtype: DType) -> Quadrature:
    """The rule whose error is about the rounding error of a dtype."""
    count, exponent = (40, 37.0) if dtype is float64 else (20, 18.0)
    points, weights = np.polynomial.legendre.leggauss(count)
    return Quadrature((points + 1) / 2, weights / 2, exponent)


def stretch(slope: Tensor, curvature: Tensor) -> Tensor:
    """Where slope v + curvature (exp(-v) - 1 + v) comes to the exponent of the quadrature.

    exp(-v) - 1 + v is at least v**2 / (2 + 2 v / 3), and close to it for small and for large v.
    """
    exponent = quadrature(slope.dtype).exponent
    p, q = slope / 3 + curvature / 2, slope - exponent / 3
    root = sqrt(q * q + 4 * exponent * p)
    # Of the two ways to write the root of a quadratic equation, the one in which nothing cancels.
    return where(q > 0, 2 * exponent / (q + root), (root - q) / (2 * p)).detach()


def points_on(length: Tensor) -> tuple[Tensor, Tensor]:
    """The points [..., n] of a stretch [...], and their weights in an integral over it."""
    rule = quadrature(length.dtype)
    length = length.unsqueeze(-1)
    return (
        length * tensor(rule.points, dtype=length.dtype),
        length * tensor(rule.weights, dtype=length.dtype),
    )


# --- the side of a gamma variate ---------------------------------------------------------------


def _side(a: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Which side of x is meant, and the integrals of exp(E(w)) and |w| exp(E(w)) over it.

    It is the lower one where x <= a. There, by parts, I(a) = (1 + x I(a + 1)) / a. At a + 1 there
    is one scale only: at a small a the density is flat on a stretch of 1 / a.
    """
    lower = x <= a
    b = where(lower, a + 1, a)
    slope = (b - x).abs()
    length = stretch(slope, x)
    # The upper side falls as exp(-x exp(w)): beyond w = 1, exp(w) - 1 - w is above 0.264 exp(w).
    most = log(quadrature(x.dtype).exponent / (0.264 * x)).clamp(min=1.0).detach()
    v, weights = points_on(where(lower | (length < most), length, most))
    bend = where(lower.unsqueeze(-1), expm1(-v) + v, expm1(v) - v)
    mass = weights * exp(-slope.unsqueeze(-1) * v - x.unsqueeze(-1) * bend)
    integral, moment = mass.sum(-1), (v * mass).sum(-1)
    shifted = (1 + x * integral) / a
    return (
        lower,
        where(lower, shifted, integral),
        where(lower, (shifted + x * moment) / a, moment),
    )


def stirling_error(a: Tensor) -> Tensor:
    """lgamma(a) less (a - 1/2) log(a) - a + log(2 pi) / 2, for a >= 10."""
    inverse = 1 / a
    square, total = inverse * inverse, inverse * 0.0
    for k, b in reversed(list(enumerate(BERNOULLI[:6], 1))):
        total = total * square + b / (2 * k * (2 * k - 1))
    return total * inverse


def log_ratio_less_one(x: Tensor, a: Tensor) -> Tensor:
    """x / a - 1 - log(x / a), whose terms nearly cancel where x is close to a."""
    ratio = (x - a) / a
    near = ratio.abs() < 0.5
    return ratio - where(near, log1p(where(near, ratio, 0.0)), log(where(near, 1.0, x / a)))


def _gamma_density(a: Tensor, x: Tensor) -> Tensor:
    """x**a exp(-x) / gamma(a): the density of the logarithm of a gamma variate."""
    large = a >= 10
    far, near = where(large, a, 10.0), where(large, 1.0, a)
    exponent = -far * log_ratio_less_one(x, far) - stirling_error(far)
    return where(
        large,
        sqrt(far / (2 * math.pi)) * exp(exponent),
        exp(near * log(x) - x - lgamma(near)),
    )


def log_gamma_slope(a: Tensor, z: Tensor) -> Tensor:
    """dz / da of the quantile z of the logarithm of a gamma variate, its probability held fixed.

    That is -(dF / da) / f of its distribution function F and density f (implicit
    reparameterisation: Figurnov, Mohamed and Mnih, 2018).
    """
    lower, integral, moment = _side(a, exp(z))
    distance = z - digamma(a)
    return moment + where(lower, -distance, distance) * integral


# --- the functions -----------------------------------------------------------------------------


def _regularized(name: str, a: Any, x: Any, upper: bool) -> Tensor:
    given = [value for value in (a, x) if isinstance(value, Tensor)]
    for value in given:
        require_floating(name, value)
    dtypes = tuple(value.dtype for value in given)
    dtype = promote(dtypes, (), ()) if dtypes else get_default_dtype()
    a, x = (
        value.to(dtype.compute)
        if isinstance(value, Tensor)
        else full((), value, dtype=dtype.compute)
        for value in (a, x)
    )
    inside = (a > 0) & (x > 0) & (a < math.inf) & (x < math.inf)
    known_a, known_x = where(inside, a, 1.0), where(inside, x, 1.0)
    lower, integral, _ = _side(known_a, known_x)
    share = _gamma_density(known_a, known_x) * integral
    found = where(lower == upper, 1 - share, share)
    # Of no mass, or of all; neither of two zeros, nor of two infinities.
    low, high = (1.0, 0.0) if upper else (0.0, 1.0)
    outside = where((x < a) & (x >= 0), low, where((x > a) & (a >= 0), high, math.nan))
    return where(inside, found, outside).to(dtype)


def _slopes(g: Tensor, a: Any, x: Any) -> tuple[Tensor, Tensor]:
    """The gradients of the lower function: minus those of the upper one."""
    a, x = digits_beside(a, g), digits_beside(x, g)
    density = _gamma_density(a, x)
    return -g * density * log_gamma_slope(a, log(x)), g * density / x


def _series_and_fraction(a: Any, x: Any) -> tuple[np.ndarray, np.ndarray]:
    """Both functions in the classical way, in float64: a power series, a continued fraction."""
    a, x = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(x, np.float64))
    density = np.exp(a * np.log(x) - x - INTRINSICS["lgamma"].numpy(a))
    term = total = 1 / a
    for k in range(1, 400):
        term = term * x / (a + k)
        total = total + term
    tail = 0.0
    for k in range(400, 0, -1):
        tail = k * (k - a) / (x + 2 * k + 1 - a - tail)
    near = x < a + 1
    below, above = density * total, density / (x + 1 - a - tail)
    lower, upper = np.where(near, below, 1 - above), np.where(near, 1 - below, above)
    for out, at_zero, beyond in ((lower, 0.0, 1.0), (upper, 1.0, 0.0)):
        out[(x == 0) | (a == np.inf)], out[(a == 0) | (x == np.inf)] = at_zero, beyond
        out[(a < 0) | (x < 0) | ((a == x) & ((x == 0) | (x == np.inf)))] = np.nan
    return lower, upper


def _in_dtype_of(x: Any, result: np.ndarray) -> np.ndarray:
    return result.astype(np.asarray(x).dtype)


def _samples() -> Any:
    yield Sample((Array((3, 4), 0.3, 4.0), Array((3, 4), 0.2, 6.0)))
    yield Sample((Array((), 0.5, 3.0), Array((), 0.5, 3.0)))
    yield Sample((np.array([0.02, 0.5, 12.0, 40.0]), np.array([0.4, 3.0, 9.0, 44.0])))


@composite(
    ref=lambda a, x: _in_dtype_of(x, _series_and_fraction(a, x)[0]),
    vjp={"a, x": lambda g, a, x: _slopes(g, a, x)},
    samples=_samples,
    failures=lambda: (
        Failure((np.array([1, 2]), np.array([1, 2])), {}, TypeError, "igamma: int64[2] is not"),
    ),
    inplace=True,
    floating=True,
)
def igamma(a, x):
    """The share of a gamma distribution of concentration a that lies below x."""
    return _regularized("igamma", a, x, upper=False)


@composite(
    ref=lambda a, x: _in_dtype_of(x, _series_and_fraction(a, x)[1]),
    vjp={"a, x": lambda g, a, x: _slopes(-g, a, x)},
    samples=_samples,
    failures=lambda: (
        Failure((np.array([1, 2]), np.array([1, 2])), {}, TypeError, "igammac: int64[2] is not"),
    ),
    inplace=True,
    floating=True,
)
def igammac(a, x):
    """1 - igamma(a, x), accurate where that is close to 1."""
    return _regularized("igammac", a, x, upper=True)
