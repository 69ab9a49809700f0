"""Densities against integrals of their own: mass, moments, entropy, distribution functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.helpers.distribution_cases import CASES, NUMBERS, Case, points

import contraflow as cf
from contraflow import distributions as D
from contraflow.autograd import gradcheck

# Statistics that distributions do not have, or that are infinite.
NO_MEAN = {"Categorical", "Cauchy", "HalfCauchy", "RelaxedBernoulli"}
NO_VARIANCE = {*NO_MEAN, "VonMises"}
NO_ENTROPY = {"FisherSnedecor", "NegativeBinomial", "Poisson", "RelaxedBernoulli", "VonMises"}
# Tails that reach beyond any interval, and a kink inside of one.
ROUGH = {"Cauchy", "HalfCauchy", "Laplace"}


def densities(case: Case, d: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values [n, 1], their weights, and the density at them, 0 outside of the support."""
    values, weights = points(case, d)
    given = cf.tensor(values)
    inside = d.support.check(given)
    safe = cf.where(inside, given, d.sample().to(given.dtype))
    density = cf.where(inside, d.log_prob(safe).exp(), 0.0)
    return values, weights, density.numpy()


@pytest.mark.parametrize("name", NUMBERS)
def test_densities_integrate_to_what_is_said_of_them(name: str) -> None:
    case = CASES[name]
    d = case.distribution()
    values, weights, density = densities(case, d)
    mass = weights * density
    close = {"rtol": 1e-4, "atol": 1e-4} if case.name in ROUGH else {"rtol": 1e-6, "atol": 1e-6}
    np.testing.assert_allclose(mass.sum(0), 1.0, **close)
    mean = (mass * values).sum(0)
    if case.name not in NO_MEAN:
        far = 0.1 if case.name == "VonMises" else 0.0  # what lies behind the end of the circle
        np.testing.assert_allclose(d.mean.numpy(), mean, rtol=2e-5, atol=far + 1e-6)
    if case.name not in NO_VARIANCE:
        square = (mass * (values - mean) ** 2).sum(0)
        np.testing.assert_allclose(d.variance.numpy(), square, rtol=2e-5)
        np.testing.assert_allclose(d.stddev.numpy() ** 2, d.variance.numpy(), rtol=1e-12)
    if case.name not in NO_ENTROPY:
        logs = np.log(np.where(density == 0, 1, density))
        close = {"rtol": 1e-3} if case.name in ROUGH else {"rtol": 1e-6, "atol": 1e-6}
        np.testing.assert_allclose(d.entropy().numpy(), -(mass * logs).sum(0), **close)
        np.testing.assert_allclose(d.perplexity().numpy(), np.exp(d.entropy().numpy()))


def test_circular_statistics() -> None:
    d = CASES["VonMises of loc, concentration"].distribution()
    values, weights, density = densities(CASES["VonMises of loc, concentration"], d)
    angles = values - d.mean.numpy()
    np.testing.assert_allclose((weights * density * np.sin(angles)).sum(0), 0.0, atol=1e-6)
    spread = 1 - (weights * density * np.cos(angles)).sum(0)
    np.testing.assert_allclose(d.variance.numpy(), spread, rtol=1e-5)


WITH_CDF = {
    "Cauchy", "Chi2", "ContinuousBernoulli", "Exponential", "Gamma", "GeneralizedPareto", "Gumbel",
    "HalfCauchy", "HalfNormal", "InverseGamma", "Kumaraswamy", "Laplace", "LogNormal", "Normal",
    "Pareto", "Uniform", "Weibull",
}  # fmt: skip
WITH_ICDF = WITH_CDF - {"Chi2", "Gamma", "InverseGamma"}


@pytest.mark.parametrize("name", CASES)
def test_which_have_distribution_functions(name: str) -> None:
    case, d = CASES[name], CASES[name].distribution()
    if case.name not in WITH_CDF:
        with pytest.raises(NotImplementedError, match="it has no"):
            d.cdf(d.sample())
    if case.name not in WITH_ICDF:
        with pytest.raises(NotImplementedError, match="it has no"):
            d.icdf(cf.full(d.batch_shape, 0.5).double())


def only(names: set[str]) -> list[str]:
    return [name for name, case in CASES.items() if case.name in names]


@pytest.mark.parametrize("name", only(WITH_CDF))
def test_distribution_functions_are_integrals_of_densities(name: str) -> None:
    d = CASES[name].distribution()
    cf.manual_seed(0)
    value = d.sample((5,)).detach().requires_grad_()
    (slope,) = cf.autograd.grad(d.cdf(value).sum(), [value])
    np.testing.assert_allclose(slope.numpy(), d.log_prob(value).exp().detach().numpy(), rtol=1e-6)
    low, high = d.cdf(d.sample((100,))).aminmax()
    assert 0 <= low.item() < 0.2 < 0.8 < high.item() <= 1


@pytest.mark.parametrize("name", only(WITH_ICDF))
def test_quantiles_are_inverses(name: str) -> None:
    d = CASES[name].distribution()
    u = cf.tensor([[0.01, 0.02], [0.3, 0.5], [0.7, 0.99]], dtype=cf.float64)
    np.testing.assert_allclose(d.cdf(d.icdf(u)).numpy(), u.numpy(), rtol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_log_prob(name: str) -> None:
    case = CASES[name]
    cf.manual_seed(0)
    value = case.distribution().sample((2,)).detach()
    names, given = zip(*case.tensors().items())
    if case.name in ("Wishart", "MultivariateNormal"):  # of matrices that stay what they are
        free = [x.requires_grad_() for x in given if x.ndim < 3]
        matrices = [x for x in given if x.ndim == 3]
        names = [n for n, x in zip(names, given) if x.ndim < 3] + [
            n for n, x in zip(names, given) if x.ndim == 3
        ]
    else:
        free, matrices = [x.requires_grad_() for x in given], []

    def log_prob(*parameters: Any) -> Any:
        d = case.make(
            **dict(zip(names, (*parameters[: len(free)], *matrices))), validate_args=False
        )
        return d.log_prob(*(parameters[len(free) :] or (value,)))

    continuous = not case.distribution().support.is_discrete and case.name != "Wishart"
    points_too = [value.requires_grad_()] if continuous else []
    gradcheck(log_prob, (*free, *points_too))


@pytest.mark.parametrize("name", CASES)
def test_expanded(name: str) -> None:
    d = CASES[name].distribution()
    wide = d.expand((3, *d.batch_shape))
    assert type(wide) is type(d)
    assert wide.batch_shape == (3, *d.batch_shape)
    assert wide.event_shape == d.event_shape
    value = d.sample((3,))
    np.testing.assert_allclose(
        wide.log_prob(value).detach().numpy(), d.log_prob(value).detach().numpy(), rtol=1e-12
    )
    assert wide.sample((4,)).shape == (4, 3, *d.batch_shape, *d.event_shape)


@pytest.mark.parametrize("name", CASES)
def test_values_that_are_enumerated(name: str) -> None:
    d = CASES[name].distribution()
    if not d.has_enumerate_support:
        with pytest.raises(NotImplementedError, match="enumerate_support"):
            d.enumerate_support()
        return
    values = d.enumerate_support()
    assert values.shape[1:] == (*d.batch_shape, *d.event_shape)
    np.testing.assert_allclose(d.log_prob(values).exp().sum(0).numpy(), 1.0, rtol=1e-12)
    short = d.enumerate_support(expand=False)
    assert (short.expand(values.shape) == values).all()


def test_mixtures() -> None:
    components = D.Normal(cf.tensor([-1.0, 2.0]).double(), cf.tensor([0.5, 1.0]).double())
    d = D.MixtureSameFamily(D.Categorical(cf.tensor([0.3, 0.7]).double()), components)
    x = np.linspace(-12, 12, 20001)
    density = d.log_prob(cf.tensor(x)).exp().numpy()
    step = x[1] - x[0]
    np.testing.assert_allclose(density.sum() * step, 1.0, rtol=1e-9)
    np.testing.assert_allclose(d.mean.item(), (density * x).sum() * step, rtol=1e-9)
    square = (density * (x - d.mean.item()) ** 2).sum() * step
    np.testing.assert_allclose(d.variance.item(), square, rtol=1e-9)
    below = (density[x <= 0.5]).sum() * step
    np.testing.assert_allclose(d.cdf(cf.tensor(0.5).double()).item(), below, atol=1e-3)
    assert d.expand((4,)).sample((2,)).shape == (2, 4)
    vectors = D.MixtureSameFamily(
        D.Categorical(cf.ones(4, 3)), D.Independent(D.Normal(cf.zeros(4, 3, 2), 1.0), 1)
    )
    assert (vectors.batch_shape, vectors.event_shape) == ((4,), (2,))
    assert vectors.sample((5,)).shape == (5, 4, 2)
    assert vectors.log_prob(vectors.sample((5,))).shape == (5, 4)
    assert vectors.mean.shape == vectors.variance.shape == (4, 2)


def test_independent_dims() -> None:
    base = D.Normal(cf.zeros(4, 3), cf.ones(4, 3))
    d = D.Independent(base, 1)
    value = d.sample((2,))
    assert (d.log_prob(value) == base.log_prob(value).sum(-1)).all()
    assert (d.entropy() == base.entropy().sum(-1)).all()
    assert d.expand((5, 4)).sample().shape == (5, 4, 3)
    assert d.mean.shape == d.variance.shape == d.mode.shape == (4, 3)
    assert (
        repr(D.Independent(D.Normal(0.0, 1.0), 0)) == "Independent(Normal(loc: 0.0, scale: 1.0), 0)"
    )


def test_modes_are_where_densities_are_largest() -> None:
    for name, case in NUMBERS.items():
        d = case.distribution()
        try:
            mode = d.mode
        except NotImplementedError:
            continue
        if not bool(d.support.check(mode).all()) or mode.isnan().any() or case.name == "Chi2":
            continue
        for near in (-1.0, 1.0) if d.support.is_discrete else (-0.05, 0.05):
            other = mode + near
            inside = d.support.check(other)
            there = d.log_prob(cf.where(inside, other, mode))
            assert (there <= d.log_prob(mode) + 1e-9).all(), (name, near)
