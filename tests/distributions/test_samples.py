"""Samples: their moments and distribution, gradients, and that compiled functions draw the same."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.helpers.distribution_cases import CASES, NUMBERS, Case

import contraflow as cf
from contraflow import config
from contraflow import distributions as D
from contraflow.ops.creation.gamma import standard_log_gamma

NO_MOMENTS = {
    "Categorical", "Cauchy", "HalfCauchy", "LKJCholesky", "LogisticNormal", "RelaxedBernoulli",
    "RelaxedOneHotCategorical", "VonMises",
}  # fmt: skip
COUNT = 10_000


@pytest.mark.parametrize("name", CASES)
def test_samples_have_the_moments_of_their_distribution(name: str) -> None:
    case = CASES[name]
    d = case.distribution()
    cf.manual_seed(1)
    drawn = d.sample((COUNT,))
    assert drawn.shape == (COUNT, *d.batch_shape, *d.event_shape)
    assert not drawn.requires_grad
    assert bool(d.support.check(drawn).all())
    if case.name in NO_MOMENTS:
        return
    x, mean, variance = drawn.double().numpy(), d.mean.numpy(), d.variance.numpy()
    error = np.sqrt(variance / COUNT) + 1e-12
    assert (np.abs(x.mean(0) - mean) < 4.5 * error).all()
    fourth = ((x - mean) ** 4).mean(0)
    spread = np.sqrt(np.abs(fourth - variance**2) / COUNT) + 1e-12
    assert (np.abs(((x - mean) ** 2).mean(0) - variance) < 6 * spread).all()


@pytest.mark.parametrize("name", NUMBERS)
def test_samples_fill_their_distribution_function(name: str) -> None:
    d = CASES[name].distribution()
    if d.support.is_discrete:
        cf.manual_seed(2)
        drawn = d.sample((COUNT,))
        k = cf.arange(int(drawn.max().item()) + 1).to(drawn.dtype).reshape(-1, 1)
        p = d.log_prob(k.expand(-1, *d.batch_shape)).exp().numpy()
        share = np.stack([(drawn == i).double().mean(0).numpy() for i in range(len(p))])
        assert (np.abs(share - p) < 5 * np.sqrt(p * (1 - p) / COUNT) + 4 / COUNT).all()
        return
    try:
        d.cdf(d.sample())
    except NotImplementedError:
        return
    cf.manual_seed(2)
    u = np.sort(d.cdf(d.sample((COUNT,))).numpy(), 0)
    # The statistic of Kolmogorov and Smirnov; above 2 with a probability of 0.0007.
    grid = (np.arange(COUNT)[:, None] + 0.5) / COUNT
    assert np.abs(u - grid).max() * math.sqrt(COUNT) < 2.0


def test_angles_fill_their_density() -> None:
    d = D.VonMises(cf.tensor([0.5, -3.0]), cf.tensor([1.5, 200.0]))
    cf.manual_seed(0)
    drawn = d.sample((COUNT,)).numpy()
    assert (np.abs(drawn) <= math.pi).all()
    angles = drawn - d.loc.numpy()
    length = 1 - d.variance.numpy()
    assert np.abs(np.cos(angles).mean(0) - length).max() < 0.01
    assert np.abs(np.sin(angles).mean(0)).max() < 0.02


def test_cholesky_factors_of_correlations() -> None:
    d = D.LKJCholesky(3, cf.tensor([0.6, 4.0]).double())
    cf.manual_seed(0)
    factors = d.sample((COUNT,))
    correlations = (factors @ factors.mT)[..., 0, 1].numpy()
    # Each correlation is 2 b - 1 of a beta variate b of this concentration, twice.
    a = d.concentration.numpy() + 0.5
    assert np.abs(correlations.mean(0)).max() < 0.02
    np.testing.assert_allclose(correlations.var(0), 1 / (2 * a + 1), rtol=0.05)


def methods(d: Any) -> Iterator[str]:
    """The methods without a value that a distribution has, beside `sample`."""
    for method in ("entropy", "rsample"):
        with contextlib.suppress(NotImplementedError):
            getattr(d, method)()
            # Binomial's entropy is a sum over as many values as its parameter says.
            if (type(d), method) != (D.Binomial, "entropy"):
                yield method


def check_compiled(case: Case) -> None:
    names, given = zip(*case.tensors().items())
    value, asked = case.distribution().sample(), list(methods(case.distribution()))

    def several(*parameters: Any) -> Any:
        d = case.make(**dict(zip(names, parameters)))
        return [d.log_prob(value), d.sample((2,)), *(getattr(d, name)() for name in asked)]

    compiled = cf.compile(several)
    for seed in (3, 4):
        cf.manual_seed(seed)
        expected = several(*given)
        state = cf.get_rng_state()
        cf.manual_seed(seed)
        found = compiled(*given)
        assert cf.get_rng_state() == state
        for x, y in zip(found, expected, strict=True):
            np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-9, atol=1e-9)
    assert compiled.captures == 1


@pytest.mark.parametrize("name", CASES)
def test_recorded_functions_compute_and_draw_the_same(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "compile_mode", "interpret")
    check_compiled(CASES[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_compiled_functions_compute_and_draw_the_same(name: str) -> None:
    check_compiled(CASES[name])


@pytest.mark.parametrize("name", ["Normal", "Categorical", "Gamma", "Poisson"])
def test_a_few_compiled_functions(name: str) -> None:
    check_compiled(next(case for case in CASES.values() if case.name == name))


@pytest.mark.parametrize("name", CASES)
def test_single_precision(name: str) -> None:
    case = CASES[name]
    wide, narrow = case.distribution(), case.distribution(cf.float32)
    cf.manual_seed(0)
    drawn = narrow.sample((3,))
    assert drawn.dtype in (cf.float32, cf.int64)
    assert bool(narrow.support.check(drawn).all())
    value = drawn.double() if drawn.dtype is cf.float32 else drawn
    loose = case.make(**case.tensors(), validate_args=False)
    np.testing.assert_allclose(
        narrow.log_prob(drawn).numpy(), loose.log_prob(value).numpy(), rtol=2e-4, atol=2e-4
    )
    assert wide.sample().dtype in (cf.float64, cf.int64)


# --- gradients of samples ----------------------------------------------------------------------

REPARAMETERIZED = [
    name for name, case in NUMBERS.items() if case.distribution().has_rsample
]  # fmt: skip


@pytest.mark.parametrize("name", REPARAMETERIZED)
def test_gradients_of_samples_move_means(name: str) -> None:
    """The derivative of a mean is the mean of the derivatives of samples."""
    case = CASES[name]
    if case.name in NO_MOMENTS:
        return
    given = {k: x.requires_grad_() for k, x in case.tensors().items()}
    d = case.make(**given)
    cf.manual_seed(5)
    sample = d.rsample((COUNT,))
    found = cf.autograd.grad(
        sample.mean(0).sum(), list(given.values()), allow_unused=True, retain_graph=True
    )
    expected = cf.autograd.grad(d.mean.sum(), list(given.values()), allow_unused=True)
    for x, y, parameter in zip(found, expected, given):
        if x is not None and y is not None:
            scale = 1 + np.abs(y.numpy())
            assert (np.abs(x.numpy() - y.numpy()) < 0.06 * scale).all(), parameter


@pytest.mark.parametrize("name", REPARAMETERIZED)
def test_gradients_of_samples_keep_their_probability(name: str) -> None:
    """cdf(x(parameters), parameters) does not depend on the parameters along a sample's path."""
    case = CASES[name]
    given = {k: x.requires_grad_() for k, x in case.tensors().items()}
    d = case.make(**given)
    cf.manual_seed(6)
    try:
        u = d.cdf(d.rsample((50,)))
    except NotImplementedError:
        return
    for slope in cf.autograd.grad(u.sum(), list(given.values())):
        assert np.abs(slope.numpy()).max() < 1e-6


def test_second_gradients_of_gamma_variates() -> None:
    a = cf.tensor([0.3, 1.0, 4.0, 50.0], dtype=cf.float64, requires_grad=True)
    cf.manual_seed(0)
    z = standard_log_gamma(a)
    (slope,) = cf.autograd.grad(z.sum(), [a], create_graph=True)
    (bend,) = cf.autograd.grad(slope.sum(), [a])
    # Follow the quantile by Newton's method: igamma(a, x) stays what it is.
    u, step = cf.igamma(a, z.exp()).detach(), 1e-4

    def moved(by: float) -> Any:
        b, log_x = a.detach() + by, (z + slope * by).detach()
        for _ in range(6):
            x = log_x.exp()
            density = (b * log_x - x - b.lgamma()).exp()
            log_x = log_x - (cf.igamma(b, x) - u) / density
        return log_x

    up, down = moved(step), moved(-step)
    np.testing.assert_allclose(
        ((up - down) / (2 * step)).numpy(), slope.detach().numpy(), rtol=1e-6
    )
    second = (up - 2 * z.detach() + down) / step**2
    np.testing.assert_allclose(second.numpy(), bend.numpy(), rtol=1e-3, atol=1e-5)


def test_dirichlet_shares_of_small_concentrations() -> None:
    cf.manual_seed(0)
    drawn = D.Dirichlet(cf.full((1000, 3), 0.01)).rsample()
    assert not drawn.isnan().any()
    assert ((drawn.sum(-1) - 1).abs() < 1e-5).all()
    assert (np.abs(drawn.mean(0).numpy() - 1 / 3) < 0.06).all()


# --- in other places ---------------------------------------------------------------------------


def test_batches_draw_their_own() -> None:
    rate = cf.tensor([0.5, 3.0, 20.0])

    def draw(r: Any) -> Any:
        return D.Gamma(r, 1.0).sample(), D.Poisson(r).sample(), D.Normal(r, 1.0).rsample()

    same = cf.func.vmap(draw, randomness="same")(cf.ones(4))
    assert all((x == x[0]).all() for x in same)
    different = cf.func.vmap(draw, randomness="different")(cf.ones(4))
    assert all(len(set(x.tolist())) > 1 for x in (different[0], different[2]))
    assert cf.func.vmap(lambda r: D.Poisson(r).log_prob(cf.ones(())))(rate).shape == (3,)


def test_a_generator_repeats_samples() -> None:
    d = D.Gamma(cf.tensor([0.3, 5.0]), 1.0)
    cf.manual_seed(11)
    first = d.sample((3,)).tolist()
    assert d.sample((3,)).tolist() != first
    cf.manual_seed(11)
    assert d.sample((3,)).tolist() == first


def test_a_compiled_function_returns_a_distribution() -> None:
    policy = cf.compile(lambda x: D.Independent(D.Normal(x, x.exp()), 1))
    for k in range(3):
        d = policy(cf.ones(2, 3) * k)
        assert d.base_dist.loc.tolist() == [[float(k)] * 3] * 2
        assert d.log_prob(d.sample()).shape == (2,)
    assert policy.captures == 1


def test_a_distribution_from_outside_is_state() -> None:
    d = D.Normal(cf.zeros(2), cf.ones(2))
    compiled = cf.compile(lambda x: d.log_prob(x).sum())
    x = cf.ones(2)
    assert compiled(x).item() == d.log_prob(x).sum().item()
    d.loc.add_(1.0)
    assert compiled(x).item() == d.log_prob(x).sum().item()
    assert compiled.captures == 1
    d.loc = cf.zeros(2)
    assert compiled(x).item() == d.log_prob(x).sum().item()
