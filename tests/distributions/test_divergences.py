"""Kullback-Leibler divergences against integrals, sums and means over samples."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.helpers.distribution_cases import CASES, NUMBERS, Case, points, turned

import contraflow as cf
from contraflow import distributions as D
from contraflow.distributions.kl import _PAIRS

NAMES = {(p.__name__, q.__name__) for p, q in _PAIRS}


def pairs(cases: dict[str, Case]) -> list[tuple[str, str]]:
    """The pairs of cases that have a formula."""
    found = []
    for (a, p), (b, q) in product(cases.items(), cases.items()):
        if (p.name, q.name) in NAMES or (a == b and p.name in ("Chi2", "LogNormal", "Weibull")):
            found.append((a, b))
    return found


@pytest.mark.parametrize(("a", "b"), pairs(NUMBERS))
def test_divergences_are_integrals(a: str, b: str) -> None:
    case = CASES[a]
    p, q = case.distribution(), turned(CASES[b])
    try:
        found = D.kl_divergence(p, q).numpy()
    except NotImplementedError as error:
        assert "fewer trials" in str(error) or "equal transforms" in str(error)  # noqa: PT017
        return
    assert found.shape == p.batch_shape
    values, weights = points(case, p)
    given = cf.tensor(values)
    inside = p.support.check(given)
    safe = cf.where(inside, given, p.sample().to(given.dtype))
    log_p = p.log_prob(safe).numpy()
    both = inside & q.support.check(safe)
    common = cf.where(both, safe, q.sample().to(given.dtype))
    log_q = np.where(both.numpy(), q.log_prob(common).numpy(), -np.inf)
    density = np.where(inside.numpy(), np.exp(log_p), 0.0)
    outside = (weights * density * ~both.numpy()).sum(0) > 1e-9
    with np.errstate(invalid="ignore"):
        terms = np.where(density > 1e-200, density * (log_p - log_q), 0.0)
    # At the very ends of a support logarithms may be infinite.
    expected = (weights * np.where(both.numpy() & np.isfinite(terms), terms, 0.0)).sum(0)
    expected = np.where(outside, np.inf, expected)
    close = 2e-2 if "Cauchy" in a else 2e-4
    np.testing.assert_allclose(found, expected, rtol=close, atol=close)


EVENTS = {name: case for name, case in CASES.items() if name not in NUMBERS}


@pytest.mark.parametrize("name", [n for n, c in EVENTS.items() if (c.name, c.name) in NAMES])
def test_divergences_of_vectors_are_means_over_samples(name: str) -> None:
    case = CASES[name]
    p, q = case.distribution(), turned(case)
    found = D.kl_divergence(p, q).numpy()
    cf.manual_seed(0)
    value = p.sample((20_000,))
    terms = (p.log_prob(value) - q.log_prob(value)).detach().numpy()
    error = terms.std(0) / math.sqrt(len(terms))
    assert (np.abs(found - terms.mean(0)) < 5 * error + 1e-9).all()
    assert np.abs(D.kl_divergence(p, p).numpy()).max() < 1e-9


def test_matrices_of_wishart() -> None:
    test_divergences_of_vectors_are_means_over_samples("Wishart of df, scale_tril")


def test_normal_vectors_of_low_rank() -> None:
    low = CASES["LowRankMultivariateNormal of loc, cov_factor, cov_diag"].distribution()
    full = D.MultivariateNormal(low.loc, low.covariance_matrix)
    other = D.LowRankMultivariateNormal(low.loc + 1, low.cov_factor * 0.5, low.cov_diag * 2)
    whole = D.MultivariateNormal(other.loc, other.covariance_matrix)
    expected = D.kl_divergence(full, whole).numpy()
    for p, q in product((low, full), (other, whole)):
        np.testing.assert_allclose(D.kl_divergence(p, q).numpy(), expected, rtol=1e-9)
    np.testing.assert_allclose(low.entropy().numpy(), full.entropy().numpy(), rtol=1e-12)
    np.testing.assert_allclose(
        low.precision_matrix.numpy(), np.linalg.inv(low.covariance_matrix.numpy()), rtol=1e-9
    )
    one = D.LowRankMultivariateNormal(cf.zeros(3), cf.ones(3, 1), cf.ones(3))
    assert D.kl_divergence(one, one).abs().item() < 1e-6


def test_of_distributions_inside() -> None:
    p, q = D.Normal(cf.zeros(2, 3), 1.0), D.Normal(cf.ones(2, 3), 1.0)
    rows = D.kl_divergence(D.Independent(p, 1), D.Independent(q, 1))
    assert rows.tolist() == [1.5, 1.5]
    exp = D.transforms.ExpTransform()
    found = D.kl_divergence(D.TransformedDistribution(p, exp), D.TransformedDistribution(q, exp))
    assert (found == 0.5).all()
    with pytest.raises(NotImplementedError, match="different numbers of batch dims"):
        D.kl_divergence(D.Independent(p, 1), D.Independent(q, 2))
    with pytest.raises(NotImplementedError, match="two transformed distributions need equal"):
        D.kl_divergence(D.LogNormal(0.0, 1.0), D.Weibull(1.0, 1.0))


def test_gradients_reach_the_parameters() -> None:
    rate = cf.tensor([0.7, 2.0], dtype=cf.float64, requires_grad=True)
    assert cf.autograd.gradcheck(lambda r: D.kl_divergence(D.Poisson(r), D.Poisson(1.5)), (rate,))
    df = cf.tensor([3.5, 5.0], dtype=cf.float64, requires_grad=True)
    factor = cf.eye(2).double()

    def divergence(nu: Any) -> Any:
        return D.kl_divergence(D.Wishart(nu, scale_tril=factor), D.Wishart(4.0, factor))

    assert cf.autograd.gradcheck(divergence, (df,))


def test_pairs_without_a_formula() -> None:
    with pytest.raises(NotImplementedError, match="no formula for Normal and Categorical"):
        D.kl_divergence(D.Normal(0.0, 1.0), D.Categorical(cf.ones(2)))
    with pytest.raises(NotImplementedError, match="no formula for Beta and Poisson"):
        D.kl_divergence(D.Beta(1.0, 1.0), D.Poisson(1.0))
    with pytest.raises(TypeError, match="register_kl: 3 is not a class of distributions"):
        D.register_kl(3, D.Normal)  # type: ignore[arg-type]


def test_the_nearest_classes_decide() -> None:
    class Child(D.Normal):
        pass

    p, q = Child(1.0, 1.0), D.Normal(0.0, 1.0)
    assert D.kl_divergence(p, q).item() == 0.5

    @D.register_kl(Child, D.Normal)
    def own(p: Any, q: Any) -> Any:
        return p.loc * 7

    try:
        assert D.kl_divergence(p, q).item() == 7
        assert D.kl_divergence(q, p).item() == 0.5
    finally:
        del _PAIRS[Child, D.Normal]
