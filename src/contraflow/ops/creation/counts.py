"""Counts drawn by inversion: Poisson and binomial variates, one uniform number each.

A count is the least k whose distribution function reaches a uniform number. The search starts at 0
for a mean below 10. Otherwise it starts just below the value of a Cornish-Fisher expansion, where
the distribution function is an integral as in `ops/elementwise/incomplete.py`. From there it walks
up, a fixed number of steps at most, each of which multiplies the probability by a ratio.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from contraflow.dtypes import float64
from contraflow.errors import describe
from contraflow.operation.context import apply, changed
from contraflow.operation.kinds import composite
from contraflow.operation.public import public
from contraflow.operation.samples import Sample
from contraflow.ops.creation import checks
from contraflow.ops.creation.random import check_floating, draw, is_settled, uniform
from contraflow.ops.elementwise.basic import exp, log, rsqrt, sqrt, where
from contraflow.ops.elementwise.incomplete import (
    log_ratio_less_one,
    points_on,
    stirling_error,
    stretch,
)
from contraflow.ops.elementwise.mathematics import erfinv, expm1, lgamma, log1p
from contraflow.ops.shape.view import broadcast_tensors
from contraflow.tensors.generator import Generator
from contraflow.tensors.tensor import Tensor

_SMALL = 10.0  # the mean from which on the search starts near its end
_BEHIND = 2.0  # by how much it starts below the expansion


def _open_uniform(like: Tensor, generator: Generator | None) -> Tensor:
    """Uniform numbers in (0, 1), each in the middle of its interval."""
    drawn = draw(uniform, like.shape, like.dtype, generator, device=like.device)
    return drawn + (2.0**-54 if like.dtype is float64 else 2.0**-25)


def _normal_quantile(u: Tensor) -> Tensor:
    return erfinv(2 * u - 1) * math.sqrt(2)


def _log_factorial_error(k: Tensor) -> Tensor:
    """log(k!) less Stirling's formula for it, for k >= 1."""
    large = k >= 10
    far, near = where(large, k, 10.0), where(large, 1.0, k)
    direct = lgamma(near + 1) - (near + 0.5) * log(near) + near - 0.5 * math.log(2 * math.pi)
    return where(large, stirling_error(far), direct)


def _deviance(k: Tensor, mean: Tensor) -> Tensor:
    """k log(k / mean) + mean - k, for k >= 1 (Loader, 2000)."""
    return k * log_ratio_less_one(mean, k)


class _Start(NamedTuple):
    """Where a search starts: a count, the distribution function there, and the probability."""

    k: Tensor
    reached: Tensor
    share: Tensor


def _search(
    u: Tensor, small: Tensor, zero: _Start, near: Callable[[], _Start],
    ratio: Callable[[Tensor], Tensor],
) -> Tensor:  # fmt: skip
    """The least k whose distribution function reaches u, searched from 0 or from `near`.

    `ratio(k)` is the probability of k over that of k - 1.
    """
    if is_settled(small):
        k, reached, share = zero
    else:
        k, reached, share = (where(small, x, y) for x, y in zip(zero, near()))
    for _ in range(50 if u.dtype is float64 else 34):  # of a mean of 10, hardly a count is larger
        going = u > reached
        if is_settled(~going):
            break
        k = where(going, k + 1, k)
        share = where(going, share * ratio(k), share)
        reached = where(going, reached + share, reached)
    return k


def _from_zero(u: Tensor, share: Tensor) -> _Start:
    return _Start((u + share) * 0.0, share, share)


def _inverted(cumulated: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """The same search over NumPy, from the distribution function of all counts below 400."""

    def ref(u: Any, *parameters: Any) -> np.ndarray:
        u, *given = np.broadcast_arrays(u, *parameters)
        counts = np.arange(400.0)
        logs = np.cumsum(np.log(np.maximum(counts, 1.0)))
        found = [
            np.searchsorted(cumulated(counts, logs, *map(float, row)), chance)
            for chance, *row in zip(u.flat, *(x.flat for x in given))
        ]
        return np.array(found).reshape(u.shape).astype(u.dtype)

    return ref


# --- Poisson -----------------------------------------------------------------------------------


@composite(
    ref=_inverted(lambda k, logs, rate: np.cumsum(np.exp(k * np.log(rate) - rate - logs))),
    vjp={"u": lambda g: g * 0.0, "rate": lambda g: g * 0.0},
    samples=lambda: (
        Sample((np.array([[0.11, 0.53, 0.93], [0.02, 0.67, 0.995]]), np.array([0.3, 4.1, 45.0]))),
        Sample((np.array(0.42), np.array(11.0))),
    ),
    method=False,
    internal=True,
)
def poisson_quantile(u, rate):
    """The least count at which the distribution function of a Poisson distribution reaches u."""
    small = rate < _SMALL

    def near() -> _Start:
        mean, z = where(small, _SMALL, rate), _normal_quantile(u)
        root = sqrt(mean)
        # Giles' expansion (2016).
        expansion = mean + root * z + (z * z + 2) / 6 - (z * z * z + 2 * z) / (72 * root)
        k = (expansion - _BEHIND).floor().clamp(min=1.0)
        share = exp(-_log_factorial_error(k) - _deviance(k, mean)) * rsqrt(2 * math.pi * k)
        # At most k: at least `mean` for a gamma variate of concentration k + 1. `share` times
        # `mean` is the density of its logarithm.
        above = mean > k + 1
        slope = (k + 1 - mean).abs()
        v, weights = points_on(stretch(slope, mean))
        bend = where(above.unsqueeze(-1), expm1(v) - v, expm1(-v) + v)
        fall = exp(-slope.unsqueeze(-1) * v - mean.unsqueeze(-1) * bend)
        tail = share * mean * (weights * fall).sum(-1)
        return _Start(k, where(above, tail, 1 - tail), share)

    none = exp(-where(small, rate, 1.0))
    return _search(u, small, _from_zero(u, none), near, lambda k: rate / k)


@public
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Counts of events whose mean is each element of `input`, in its dtype.

    >>> from contraflow.tensors.generator import Generator
    >>> poisson(Tensor.of_data("tensor", [0.0, 3.0], None), generator=Generator(1))
    tensor([0., 5.])
    """
    check_floating("poisson", input.dtype)
    with changed(grad=False):
        wide = input.to(input.dtype.compute)
        wide = checks.hold("poisson", wide, wide >= 0, "a rate is positive or 0")
        return apply(poisson_quantile, (_open_uniform(wide, generator), wide)).to(input.dtype)


# --- binomial ----------------------------------------------------------------------------------


def _binomial_shares(k: np.ndarray, logs: np.ndarray, count: float, p: float) -> np.ndarray:
    k, logs = k[: int(count) + 1], logs[: int(count) + 1]
    shares = np.exp(logs[-1] - logs - logs[::-1] + k * np.log(p) + (count - k) * np.log1p(-p))
    return np.cumsum(shares)


@composite(
    ref=_inverted(_binomial_shares),
    vjp=dict.fromkeys(("u", "count", "p"), lambda g: g * 0.0),
    samples=lambda: (
        Sample((np.array([0.11, 0.53]), np.array([7.0, 300.0]), np.array([0.2, 0.3]))),
        Sample((np.array(0.42), np.array(50.0), np.array(0.35))),
    ),
    method=False,
    internal=True,
)
def binomial_quantile(u, count, p):
    """The least number of successes at which the distribution function reaches u, for p <= 1/2."""
    small = count * p < _SMALL

    def near() -> _Start:
        n, chance = where(small, 4 * _SMALL, count), where(small, 0.25, p)
        miss, mean, z = 1 - chance, n * chance, _normal_quantile(u)
        deviation = sqrt(mean * miss)
        skew = (miss - chance) / deviation
        kurtosis = (1 - 6 * chance * miss) / (mean * miss)
        # Of Cornish and Fisher (1938).
        expansion = z + (z * z - 1) * skew / 6 + (z * z * z - 3 * z) * kurtosis / 24
        expansion = expansion - (2 * z * z * z - 5 * z) * skew * skew / 36
        k = (mean + 0.5 + deviation * expansion - _BEHIND).floor().clamp(min=1.0)
        k = where(k < n, k, n - 1)
        rest = n - k
        errors = _log_factorial_error(n) - _log_factorial_error(k) - _log_factorial_error(rest)
        deviances = _deviance(k, mean) + _deviance(rest, n * miss)
        share = exp(errors - deviances) * sqrt(n / (2 * math.pi * k * rest))
        # At most k: at most 1 - p for a beta variate of concentrations n - k and k + 1. `share`
        # times (n - k) p is the density of its logit.
        lower = rest * chance > (k + 1) * miss
        a, b = where(lower, rest, k + 1), where(lower, k + 1, rest)
        x = where(lower, miss, chance)
        slope = (a * (1 - x) - b * x).clamp(min=0.0)
        v, weights = points_on(stretch(slope, (n + 1) * x * (1 - x)))
        total = (n + 1).unsqueeze(-1)
        fall = exp(-a.unsqueeze(-1) * v - total * log1p(x.unsqueeze(-1) * expm1(-v)))
        tail = share * rest * chance * (weights * fall).sum(-1)
        return _Start(k, where(lower, tail, 1 - tail), share)

    none = exp(where(small, count, 1.0) * log1p(-where(small, p, 0.5)))
    odds = p / (1 - p)
    found = _search(
        u, small, _from_zero(u, none), near, lambda k: (count + 1 - k).clamp(min=0.0) / k * odds
    )
    return where(found < count, found, count)


@public
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """How many of `count` trials succeed, each with the probability `prob`, in the dtype of `prob`.

    >>> from contraflow.tensors.generator import Generator
    >>> n, p = (Tensor.of_data("tensor", x, None) for x in ([10.0, 10.0], [0.0, 0.5]))
    >>> binomial(n, p, generator=Generator(1))
    tensor([0., 7.])
    """
    check_floating("binomial", count.dtype)
    check_floating("binomial", prob.dtype)
    if count.dtype is not prob.dtype:
        raise TypeError(
            f"binomial: {describe(count)} and {describe(prob)} must have the same dtype."
        )
    with changed(grad=False):
        n, p = (x.to(prob.dtype.compute) for x in broadcast_tensors(count, prob))
        n = checks.hold("binomial", n, n >= 0, "a count is positive or 0")
        p = checks.hold("binomial", p, (p >= 0) & (p <= 1), checks.PROBABILITY)
        flipped, u = p > 0.5, _open_uniform(p, generator)
        drawn = apply(binomial_quantile, (u, n, where(flipped, 1 - p, p)))
        return where(flipped, n - drawn, drawn).to(prob.dtype)
