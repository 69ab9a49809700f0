"""Poisson and binomial counts, gamma variates, and the incomplete gamma functions behind them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import contraflow as cf
from contraflow.operation.context import apply
from contraflow.ops.creation.counts import binomial_quantile, poisson_quantile
from contraflow.ops.creation.gamma import log_gamma_quantile, standard_log_gamma

DTYPES = (cf.float64, cf.float32)


def shares(logs: np.ndarray) -> np.ndarray:
    return np.cumsum(np.exp(logs))


def quantiles(cumulated: np.ndarray, dtype: Any) -> tuple[Any, np.ndarray]:
    """Uniform numbers, and the least counts at which a distribution function reaches them."""
    u = np.random.default_rng(0).random(4000).astype(dtype.numpy)
    return cf.tensor(u), np.searchsorted(cumulated, u)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rate", [0.01, 0.9, 9.99, 10.0, 31.5, 1e3, 2e4])
def test_poisson_counts_are_quantiles(rate: float, dtype: Any) -> None:
    k = np.arange(int(rate + 12 * math.sqrt(rate) + 60))
    factorials = np.cumsum(np.log(np.maximum(k, 1)))
    u, expected = quantiles(shares(k * math.log(rate) - rate - factorials), dtype)
    found = apply(poisson_quantile, (u, cf.full((4000,), rate, dtype=dtype))).numpy()
    # In float32 a number may lie closer to a step than the function is exact.
    assert (found != expected).sum() <= (0 if dtype is cf.float64 else 8)
    assert np.abs(found - expected).max() <= 1


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("n", "p"), [(0, 0.3), (1, 0.3), (10, 0.5), (39, 0.25), (45, 0.25), (1000, 0.3), (20000, 1e-3)]
)
def test_binomial_counts_are_quantiles(n: int, p: float, dtype: Any) -> None:
    k = np.arange(n + 1)
    factorials = np.cumsum(np.log(np.maximum(k, 1)))
    ways = factorials[n] - factorials - factorials[::-1]
    u, expected = quantiles(shares(ways + k * math.log(p) + (n - k) * math.log1p(-p)), dtype)
    given = cf.full((4000,), float(n), dtype=dtype), cf.full((4000,), p, dtype=dtype)
    found = apply(binomial_quantile, (u, *given)).numpy()
    assert (found != np.minimum(expected, n)).sum() <= (0 if dtype is cf.float64 else 8)
    assert np.abs(found - expected).max() <= 1


def test_counts_at_the_ends() -> None:
    n, p = cf.tensor([5.0, 5.0, 0.0]), cf.tensor([0.0, 1.0, 0.5])
    assert cf.binomial(n, p).tolist() == [0.0, 5.0, 0.0]
    assert cf.poisson(cf.zeros(3)).tolist() == [0.0] * 3
    assert cf.poisson(cf.full((2,), 1e8)).isfinite().all()
    assert cf.poisson(cf.ones(2).half()).dtype is cf.float16
    cf.manual_seed(0)
    likely = cf.binomial(cf.full((20000,), 30.0), cf.full((20000,), 0.9))
    assert abs(likely.mean().item() - 27.0) < 0.05
    assert not cf.poisson(cf.ones(2, requires_grad=True)).requires_grad


def test_generators_repeat_counts() -> None:
    rate = cf.full((5,), 7.0)
    first = cf.poisson(rate, generator=cf.Generator(3)).tolist()
    assert cf.poisson(rate, generator=cf.Generator(3)).tolist() == first
    assert cf.poisson(rate, generator=cf.Generator(4)).tolist() != first


WRONG: list[tuple[Any, type[Exception], str]] = [
    (lambda: cf.poisson(cf.tensor([1.0, -1.0])), ValueError,
     "poisson: float32[2] has invalid elements; a rate is positive or 0."),
    (lambda: cf.poisson(cf.tensor([1])), TypeError,
     "poisson: int64 is not a floating-point dtype."),
    (lambda: cf.binomial(cf.tensor([-1.0]), cf.tensor([0.5])), ValueError,
     "binomial: float32[1] has invalid elements; a count is positive or 0."),
    (lambda: cf.binomial(cf.tensor([1.0]), cf.tensor([1.5])), ValueError,
     "binomial: float32[1] has invalid elements; a probability lies between 0 and 1."),
    (lambda: cf.binomial(cf.tensor([1.0]).double(), cf.tensor([0.5])), TypeError,
     "binomial: float64[1] and float32[1] must have the same dtype."),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), WRONG, ids=[text for *_, text in WRONG])
def test_messages(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as raised:
        call()
    assert str(raised.value) == text


def test_programs_refuse_rates_too() -> None:
    compiled = cf.compile(lambda rate: cf.poisson(rate))
    compiled(cf.ones(2))
    with pytest.raises(ValueError, match=r"poisson: a rate is positive or 0, at test_counts\.py:"):
        compiled(-cf.ones(2))


# --- gamma -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("a", [0.05, 0.9, 1.0, 3.0, 200.0])
def test_gamma_variates_fill_their_distribution_function(a: float, dtype: Any) -> None:
    cf.manual_seed(0)
    drawn = standard_log_gamma(cf.full((10_000,), a, dtype=dtype)).double()
    u = np.sort(cf.igamma(cf.tensor(a).double(), drawn.exp()).numpy())
    statistic = np.abs(u - (np.arange(10_000) + 0.5) / 10_000).max() * 100
    assert statistic < 2.0  # of Kolmogorov and Smirnov: above it with a probability of 0.0007


def test_gamma_variates_move_as_quantiles() -> None:
    a = cf.tensor([0.02, 0.7, 3.0, 40.0, 1e4], dtype=cf.float64, requires_grad=True)
    for shift in (-1.5, 0.0, 1.0):
        drawn = (a.log() + shift / a.sqrt()).detach()
        z = apply(log_gamma_quantile, (a, drawn))
        (slope,) = cf.autograd.grad(cf.igamma(a, z.exp()).sum(), [a])
        assert np.abs(slope.numpy()).max() < 1e-9


def test_incomplete_gamma_functions_at_the_ends() -> None:
    a = cf.tensor([0.0, 1.0, 1.0, math.inf, -1.0, 0.0, 1.0])
    x = cf.tensor([1.0, 0.0, math.inf, 1.0, 1.0, 0.0, -1.0])
    lower = cf.special.gammainc(a, x).tolist()
    upper = cf.special.gammaincc(a, x).tolist()
    assert lower[:4] == [1.0, 0.0, 1.0, 0.0]
    assert upper[:4] == [0.0, 1.0, 0.0, 1.0]
    assert all(map(math.isnan, lower[4:] + upper[4:]))


def test_tails_of_incomplete_gamma_functions_keep_their_digits() -> None:
    x = cf.tensor([30.0, 60.0], dtype=cf.float64)
    np.testing.assert_allclose(cf.igammac(1.0, x).numpy(), np.exp(-x.numpy()), rtol=1e-12)
    half = cf.igamma(0.5, x * 0 + 1e-8).numpy()
    np.testing.assert_allclose(half, math.erf(1e-4), rtol=1e-12)


def test_shapes_of_counts_are_those_of_both_parameters() -> None:
    u = cf.full((2, 3), 0.01)
    assert apply(poisson_quantile, (u, cf.full((3,), 0.1))).shape == (2, 3)
    assert apply(binomial_quantile, (u, cf.full((3,), 4.0), cf.tensor(0.1))).shape == (2, 3)


def test_incomplete_gamma_functions_of_two_numbers() -> None:
    assert cf.igamma(1.0, 2.0).item() == pytest.approx(1 - math.exp(-2.0), rel=1e-6)
