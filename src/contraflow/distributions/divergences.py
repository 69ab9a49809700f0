"""The divergences of distributions of numbers, pair by pair."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from contraflow.distributions.bernoulli import Bernoulli
from contraflow.distributions.beta import Beta
from contraflow.distributions.binomial import Binomial
from contraflow.distributions.categorical import Categorical
from contraflow.distributions.cauchy import Cauchy
from contraflow.distributions.continuous_bernoulli import ContinuousBernoulli
from contraflow.distributions.exponential import Exponential
from contraflow.distributions.gamma import Gamma
from contraflow.distributions.geometric import Geometric
from contraflow.distributions.gumbel import Gumbel
from contraflow.distributions.half_normal import HalfNormal
from contraflow.distributions.kl import register_kl
from contraflow.distributions.laplace import Laplace
from contraflow.distributions.normal import Normal
from contraflow.distributions.pareto import Pareto
from contraflow.distributions.poisson import Poisson
from contraflow.distributions.uniform import Uniform
from contraflow.distributions.utils import EULER
from contraflow.ops.elementwise.activation import logsigmoid
from contraflow.ops.elementwise.basic import where
from contraflow.ops.elementwise.mathematics import xlogy
from contraflow.tensors.tensor import Tensor

# --- where one has mass and the other none -----------------------------------------------------

_BOUNDED = (Beta, ContinuousBernoulli, Uniform)
_POSITIVE = (Exponential, Gamma)
_REAL = (Gumbel, Laplace, Normal)


def _infinite(p: Any, q: Any) -> Tensor:
    """The support of p is not inside of that of q."""
    return (p.mean + q.mean).detach() * 0 + math.inf


def _register_infinite() -> None:
    p: type
    q: type
    for p in (*_POSITIVE, *_REAL, Pareto):
        for q in (*_BOUNDED, Pareto):
            if (p, q) != (Pareto, Pareto):
                register_kl(p, q)(_infinite)
    for p in _REAL:
        for q in _POSITIVE:
            register_kl(p, q)(_infinite)
    for p in (Beta, ContinuousBernoulli):
        register_kl(p, Pareto)(_infinite)
    register_kl(Poisson, Bernoulli)(_infinite)
    register_kl(Poisson, Binomial)(_infinite)


_register_infinite()


# --- one family --------------------------------------------------------------------------------


def _binary(p: Any, q: Any) -> Tensor:
    """The divergence of one trial: sums over both outcomes, and 0 log(0) is 0."""
    yes = p.probs * (logsigmoid(p.logits) - logsigmoid(q.logits))
    no = (1 - p.probs) * (logsigmoid(-p.logits) - logsigmoid(-q.logits))
    return yes + no


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    yes = where(p.probs == 0, 0.0, p.probs * (p.probs / q.probs).log())
    no = where(p.probs == 1, 0.0, (1 - p.probs) * ((1 - p.probs) / (1 - q.probs)).log())
    yes = where((q.probs == 0) & (p.probs > 0), math.inf, yes)
    return yes + where((q.probs == 1) & (p.probs < 1), math.inf, no)


@register_kl(Binomial, Binomial)
def _binomial(p: Binomial, q: Binomial) -> Tensor:
    fewer = p.total_count < q.total_count
    if not fewer.storage.is_recorded and fewer.any():
        raise NotImplementedError(
            "kl_divergence: there is no formula for a Binomial of fewer trials than the other."
        )
    found = where(fewer, math.nan, p.total_count * _binary(p, q))
    return where(p.total_count > q.total_count, math.inf, found)  # such counts may occur


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Tensor:
    return _binary(p, q) / p.probs


@register_kl(Categorical, Categorical)
def _categorical(p: Categorical, q: Categorical) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    terms = where(q.probs == 0, math.inf, terms)
    return where(p.probs == 0, 0.0, terms).sum(-1)


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Tensor:
    return xlogy(p.rate, p.rate / q.rate) - (p.rate - q.rate)


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> Tensor:
    a, b, total = p.concentration1, p.concentration0, p.concentration1 + p.concentration0
    constant = q._log_normalizer(q.concentration1, q.concentration0) - p._log_normalizer(a, b)
    first = (a - q.concentration1) * a.digamma() + (b - q.concentration0) * b.digamma()
    return constant + first + (q.concentration1 + q.concentration0 - total) * total.digamma()


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    linear = p.mean * (p.logits - q.logits)
    constants = p._log_constant() - q._log_constant()
    return linear + constants + logsigmoid(-p.logits) - logsigmoid(-q.logits)


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


@register_kl(Gamma, Gamma)
def _gamma(p: Gamma, q: Gamma) -> Tensor:
    a, b = p.concentration, q.concentration
    return (
        b * (p.rate / q.rate).log() + b.lgamma() - a.lgamma()
        + (a - b) * a.digamma() + (q.rate - p.rate) * (a / p.rate)
    )  # fmt: skip


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio = p.scale / q.scale
    apart = (p.loc - q.loc) / q.scale
    moment = ((ratio + 1).lgamma() - apart).exp()
    return moment - ratio.log() + apart + ratio * EULER - (1 + EULER)


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio = p.scale / q.scale
    apart = (p.loc - q.loc).abs()
    return apart / q.scale + ratio * (-apart / p.scale).exp() - ratio.log() - 1


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Tensor:
    ratio, apart = p.scale / q.scale, (p.loc - q.loc) / q.scale
    return 0.5 * (ratio * ratio + apart * apart - 1) - ratio.log()


@register_kl(Pareto, Pareto)
def _pareto(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    found = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return where(p.scale < q.scale, math.inf, found)


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Tensor:
    found = ((q.high - q.low) / (p.high - p.low)).log()
    return where((q.low > p.low) | (q.high < p.high), math.inf, found)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    both, apart = p.scale + q.scale, p.loc - q.loc
    return (both * both + apart * apart).log() - (4 * p.scale * q.scale).log()


# --- two families: entropy of p, and the mean of -log q ----------------------------------------


def _crossed(p: type, q: type) -> Callable[[Callable[..., Tensor]], Callable[..., Tensor]]:
    """Register a mean of -log q under p, from which the entropy of p is subtracted."""

    def decorator(cross_entropy: Callable[..., Tensor]) -> Callable[..., Tensor]:
        @register_kl(p, q)
        def divergence(p: Any, q: Any) -> Tensor:
            return cross_entropy(p, q) - p.entropy()

        return cross_entropy

    return decorator


def _mean_square(p: Any, around: Tensor) -> Tensor:
    apart = p.mean - around
    return p.variance + apart * apart


def _against_normal(p: Any, q: Normal) -> Tensor:
    spread = _mean_square(p, q.loc) / (q.scale * q.scale)
    return 0.5 * (spread + math.log(2 * math.pi)) + q.scale.log()


def _against_exponential(p: Any, q: Exponential) -> Tensor:
    return q.rate * p.mean - q.rate.log()


def _against_gamma(p: Any, q: Gamma, mean_log: Tensor) -> Tensor:
    constant = q.concentration.lgamma() - q.concentration * q.rate.log()
    return constant - (q.concentration - 1) * mean_log + q.rate * p.mean


for _family in (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Uniform):
    _crossed(_family, Normal)(_against_normal)
for _family in (Beta, ContinuousBernoulli, Gamma):
    _crossed(_family, Exponential)(_against_exponential)


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@_crossed(Beta, ContinuousBernoulli)
def _beta_continuous_bernoulli(p: Beta, q: ContinuousBernoulli) -> Tensor:
    return -p.mean * q.logits - logsigmoid(-q.logits) - q._log_constant()


@_crossed(Beta, Gamma)
def _beta_gamma(p: Beta, q: Gamma) -> Tensor:
    total = p.concentration1 + p.concentration0
    return _against_gamma(p, q, p.concentration1.digamma() - total.digamma())


@register_kl(Beta, Uniform)
def _beta_uniform(p: Beta, q: Uniform) -> Tensor:
    found = (q.high - q.low).log() - p.entropy()
    return where((q.low > 0) | (q.high < 1), math.inf, found)


@register_kl(ContinuousBernoulli, Uniform)
def _continuous_bernoulli_uniform(p: ContinuousBernoulli, q: Uniform) -> Tensor:
    found = (q.high - q.low).log() - p.entropy()
    return where((q.low > 0) | (q.high < 1), math.inf, found)


@_crossed(Exponential, Gamma)
def _exponential_gamma(p: Exponential, q: Gamma) -> Tensor:
    return _against_gamma(p, q, -EULER - p.rate.log())


@_crossed(Exponential, Gumbel)
def _exponential_gumbel(p: Exponential, q: Gumbel) -> Tensor:
    rate = p.rate * q.scale
    moment = (q.loc / q.scale).exp() * rate / (1 + rate)
    return q.scale.log() + (p.mean - q.loc) / q.scale + moment


@_crossed(Gamma, Gumbel)
def _gamma_gumbel(p: Gamma, q: Gumbel) -> Tensor:
    rate = p.rate * q.scale
    moment = (q.loc / q.scale).exp() * (1 + 1 / rate).pow(-p.concentration)
    return q.scale.log() + (p.mean - q.loc) / q.scale + moment


@_crossed(Normal, Gumbel)
def _normal_gumbel(p: Normal, q: Gumbel) -> Tensor:
    apart, ratio = (p.loc - q.loc) / q.scale, p.scale / q.scale
    return q.scale.log() + apart + (0.5 * ratio * ratio - apart).exp()


@_crossed(Normal, Laplace)
def _normal_laplace(p: Normal, q: Laplace) -> Tensor:
    # The mean of |x - loc|, a folded normal variate.
    apart = p.loc - q.loc
    ratio = apart / p.scale
    bell = math.sqrt(2 / math.pi) * p.scale * (-0.5 * ratio * ratio).exp()
    return (2 * q.scale).log() + (bell + apart * (ratio * math.sqrt(0.5)).erf()) / q.scale


@_crossed(Pareto, Exponential)
def _pareto_exponential(p: Pareto, q: Exponential) -> Tensor:
    return where(p.alpha <= 1, math.inf, _against_exponential(p, q))


@_crossed(Pareto, Gamma)
def _pareto_gamma(p: Pareto, q: Gamma) -> Tensor:
    found = _against_gamma(p, q, p.scale.log() + 1 / p.alpha)
    return where(p.alpha <= 1, math.inf, found)


@_crossed(Pareto, Normal)
def _pareto_normal(p: Pareto, q: Normal) -> Tensor:
    return where(p.alpha <= 2, math.inf, _against_normal(p, q))


def _mean_log(p: Uniform) -> Tensor:
    """The mean of log(x), of a uniform variate above 0."""
    return (xlogy(p.high, p.high) - xlogy(p.low, p.low)) / (p.high - p.low) - 1


@register_kl(Uniform, Beta)
def _uniform_beta(p: Uniform, q: Beta) -> Tensor:
    high, low = 1 - p.low, 1 - p.high
    other = (xlogy(high, high) - xlogy(low, low)) / (p.high - p.low) - 1
    linear = (q.concentration1 - 1) * _mean_log(p) + (q.concentration0 - 1) * other
    constant = q._log_normalizer(q.concentration1, q.concentration0)
    return where((p.high > 1) | (p.low < 0), math.inf, constant - linear - p.entropy())


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_continuous_bernoulli(p: Uniform, q: ContinuousBernoulli) -> Tensor:
    found = -p.entropy() - p.mean * q.logits - logsigmoid(-q.logits) - q._log_constant()
    return where((p.high > 1) | (p.low < 0), math.inf, found)


@register_kl(Uniform, Exponential)
def _uniform_exponential(p: Uniform, q: Exponential) -> Tensor:
    return where(p.low < 0, math.inf, _against_exponential(p, q) - p.entropy())


@register_kl(Uniform, Gamma)
def _uniform_gamma(p: Uniform, q: Gamma) -> Tensor:
    found = _against_gamma(p, q, _mean_log(p)) - p.entropy()
    return where(p.low < 0, math.inf, found)


@_crossed(Uniform, Gumbel)
def _uniform_gumbel(p: Uniform, q: Gumbel) -> Tensor:
    high, low = (p.high - q.loc) / q.scale, (p.low - q.loc) / q.scale
    moment = ((-low).exp() - (-high).exp()) / (high - low)
    return q.scale.log() + 0.5 * (high + low) + moment


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Uniform, q: Pareto) -> Tensor:
    constant = -(q.alpha * q.scale.pow(q.alpha)).log()
    found = constant + (q.alpha + 1) * _mean_log(p) - p.entropy()
    return where(p.low < q.scale, math.inf, found)
