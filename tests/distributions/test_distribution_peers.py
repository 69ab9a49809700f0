"""Every distribution against PyTorch and SciPy: the same parameters, values and divergences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.helpers.distribution_cases import CASES, NUMBERS, Case, turned

import contraflow as cf
from contraflow import distributions as D
from contraflow.distributions.kl import _PAIRS
from contraflow.ops.elementwise.incomplete import log_gamma_slope

try:
    import torch
    from torch import distributions as TD
    from torch.distributions.kl import _KL_REGISTRY
except ImportError:
    torch = None
try:
    from scipy import stats
except ImportError:
    stats = None

pytestmark = [
    pytest.mark.peers,
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning"),
    pytest.mark.skipif(torch is None, reason="needs PyTorch, which `make peers` installs"),
]

# Where we differ on purpose, or PyTorch fails; docs/distributions.md says how.
DIFFERENCES = {
    ("ContinuousBernoulli", "cdf"): "PyTorch's is that of a uniform variate beside p = 1/2",
    ("ContinuousBernoulli", "icdf"): "PyTorch's is that of a uniform variate beside p = 1/2",
    ("GeneralizedPareto", "log_prob"): "PyTorch's fails for float64",
    ("GeneralizedPareto", "cdf"): "PyTorch's fails for float64",
    ("Kumaraswamy", "mode"): "PyTorch's is NaN",
    ("Multinomial", "entropy"): "PyTorch's is computed in float32",
    ("VonMises", "log_prob"): "PyTorch's polynomials have an error of 1e-7",
    ("VonMises", "variance"): "PyTorch's polynomials have an error of 1e-7",
    ("VonMises", "stddev"): "PyTorch's polynomials have an error of 1e-7",
}
METHODS = (
    "log_prob", "cdf", "icdf", "mean", "mode", "variance", "stddev", "entropy", "enumerate_support",
)  # fmt: skip


def theirs(case: Case, given: Any = None) -> Any:
    parameters = given or case.parameters
    options = {
        k: torch.tensor(v, dtype=torch.float64) if isinstance(v, float) else v
        for k, v in case.options.items()
    }
    tensors = {k: torch.tensor(np.array(v), dtype=torch.float64) for k, v in parameters.items()}
    return getattr(TD, case.name)(**options, **tensors)


def ask(d: Any, method: str, value: Any, u: Any) -> Any:
    """What a distribution says, None if it does not."""
    given = {"log_prob": (value,), "cdf": (value,), "icdf": (u,)}
    try:
        found = getattr(d, method)
        found = found(*given.get(method, ())) if callable(found) else found
    except NotImplementedError:
        return None
    return found.detach().numpy()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", CASES)
def test_against_pytorch(name: str, method: str) -> None:
    case = CASES[name]
    if (case.name, method) in DIFFERENCES:
        return
    ours, other = case.distribution(), theirs(case)
    assert tuple(other.batch_shape) == ours.batch_shape
    assert tuple(other.event_shape) == ours.event_shape
    assert other.has_rsample == ours.has_rsample
    assert other.has_enumerate_support == ours.has_enumerate_support
    cf.manual_seed(0)
    value = ours.sample((20,)).numpy()
    u = np.random.default_rng(0).random((5, *ours.batch_shape))
    found = ask(ours, method, cf.tensor(value), cf.tensor(u))
    expected = ask(other, method, torch.tensor(value), torch.tensor(u))
    assert (found is None) == (expected is None)
    if found is not None:
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)


def test_the_same_pairs_have_divergences() -> None:
    ours = {(p.__name__, q.__name__) for p, q in _PAIRS}
    assert ours == {(p.__name__, q.__name__) for p, q in _KL_REGISTRY}


def test_the_same_names() -> None:
    assert set(TD.__all__) <= set(D.__all__)
    assert set(TD.constraints.__all__) <= {*D.constraints.__all__, "MixtureSameFamilyConstraint"}
    assert set(TD.transforms.__all__) <= set(D.transforms.__all__)


# PyTorch's are infinite where the two intervals are the same, and sum over a batch of matrices.
OTHER_DIVERGENCES = {
    ("ContinuousBernoulli", "Uniform"), ("Uniform", "ContinuousBernoulli"), ("Wishart", "Wishart"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_divergences_against_pytorch(name: str) -> None:
    p = CASES[name]
    for q in CASES.values():
        if (p.name, q.name) in OTHER_DIVERGENCES:
            continue
        backwards = {
            k: np.array(v)[::-1].copy() if np.ndim(v) else v for k, v in q.parameters.items()
        }
        try:
            expected = TD.kl_divergence(theirs(p), theirs(q, backwards)).detach().numpy()
        except (NotImplementedError, ValueError) as error:
            with pytest.raises(type(error)):
                D.kl_divergence(p.distribution(), turned(q))
            continue
        found = D.kl_divergence(p.distribution(), turned(q)).detach().numpy()
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("a", [0.05, 0.4, 1.0, 7.0, 300.0])
def test_implicit_gradients_of_gamma_variates_against_pytorch(a: float) -> None:
    concentration = torch.full((50,), a, dtype=torch.float64)
    torch.manual_seed(0)
    drawn = torch._standard_gamma(concentration)
    expected = torch._standard_gamma_grad(concentration, drawn).numpy()
    ours = cf.tensor(concentration.numpy(), requires_grad=True)
    x = cf.tensor(drawn.numpy())
    found = (x * log_gamma_slope(ours, x.log())).detach().numpy()
    # PyTorch's are rational approximations.
    np.testing.assert_allclose(found, expected, rtol=5e-3, atol=1e-6)


# --- SciPy -------------------------------------------------------------------------------------

SCIPY: dict[str, Callable[..., Any]] = {
    "Bernoulli of probs": lambda probs: stats.bernoulli(probs),
    "Beta": lambda concentration1, concentration0: stats.beta(concentration1, concentration0),
    "Binomial of probs": lambda probs: stats.binom(7, probs),
    "Cauchy": lambda loc, scale: stats.cauchy(loc, scale),
    "Chi2": lambda df: stats.chi2(df),
    "Exponential": lambda rate: stats.expon(scale=1 / rate),
    "FisherSnedecor": lambda df1, df2: stats.f(df1, df2),
    "Gamma": lambda concentration, rate: stats.gamma(concentration, scale=1 / rate),
    "GeneralizedPareto": lambda loc, scale, concentration: stats.genpareto(
        concentration, loc, scale
    ),
    "Geometric of probs": lambda probs: stats.geom(probs, loc=-1),
    "Gumbel": lambda loc, scale: stats.gumbel_r(loc, scale),
    "HalfCauchy": lambda scale: stats.halfcauchy(scale=scale),
    "HalfNormal": lambda scale: stats.halfnorm(scale=scale),
    "InverseGamma": lambda concentration, rate: stats.invgamma(concentration, scale=rate),
    "Laplace": lambda loc, scale: stats.laplace(loc, scale),
    "LogNormal": lambda loc, scale: stats.lognorm(scale, scale=np.exp(loc)),
    "NegativeBinomial of probs": lambda probs: stats.nbinom(4.0, 1 - probs),
    "Normal": lambda loc, scale: stats.norm(loc, scale),
    "Pareto": lambda scale, alpha: stats.pareto(alpha, scale=scale),
    "Poisson": lambda rate: stats.poisson(rate),
    "StudentT": lambda df, loc, scale: stats.t(df, loc, scale),
    "Uniform": lambda low, high: stats.uniform(low, high - low),
    "VonMises": lambda loc, concentration: stats.vonmises(concentration, loc),
    "Weibull": lambda scale, concentration: stats.weibull_min(concentration, scale=scale),
}


@pytest.mark.skipif(stats is None, reason="needs SciPy, which `make peers` installs")
@pytest.mark.parametrize("key", SCIPY)
def test_against_scipy(key: str) -> None:
    name = next(n for n in NUMBERS if n == key or n.startswith(f"{key} of "))
    case = CASES[name]
    ours = case.distribution()
    other = SCIPY[key](**{k: np.array(v) for k, v in case.parameters.items()})
    cf.manual_seed(0)
    value = ours.sample((20,))
    density = other.logpmf if ours.support.is_discrete else other.logpdf
    close = {"rtol": 1e-9, "atol": 1e-12}
    np.testing.assert_allclose(ours.log_prob(value).numpy(), density(value.numpy()), **close)
    for method, expected in (("cdf", other.cdf(value.numpy())), ("entropy", other.entropy())):
        found = ask(ours, method, value, None)
        if found is not None:
            np.testing.assert_allclose(found, expected, rtol=1e-7)
    if case.name not in ("Cauchy", "HalfCauchy", "VonMises"):
        np.testing.assert_allclose(ours.mean.numpy(), other.mean(), **close)
        np.testing.assert_allclose(ours.variance.numpy(), other.var(), **close)


@pytest.mark.skipif(stats is None, reason="needs SciPy, which `make peers` installs")
def test_vectors_and_matrices_against_scipy() -> None:
    normal = CASES["MultivariateNormal of loc, covariance_matrix"].distribution()
    wishart = CASES["Wishart of df, covariance_matrix"].distribution()
    shares = CASES["Dirichlet of concentration"].distribution()
    makers: list[tuple[Any, Callable[..., Any], tuple[Any, ...]]] = [
        (normal, stats.multivariate_normal, (normal.loc, normal.covariance_matrix)),
        (wishart, stats.wishart, (wishart.df, wishart.covariance_matrix)),
        (shares, stats.dirichlet, (shares.concentration,)),
    ]
    cf.manual_seed(0)
    for d, make, parameters in makers:
        value = d.sample()
        for i in range(2):
            other = make(*(x[i].numpy()[()] for x in parameters))
            found = d.log_prob(value)[i].item()
            np.testing.assert_allclose(found, other.logpdf(value[i].numpy()), rtol=1e-9)
            np.testing.assert_allclose(d.entropy()[i].item(), other.entropy(), rtol=1e-9)
