"""The divergences of distributions of vectors, and of those made of others."""

from __future__ import annotations

from typing import Any

from contraflow.distributions.dirichlet import Dirichlet
from contraflow.distributions.exp_family import ExponentialFamily
from contraflow.distributions.independent import Independent
from contraflow.distributions.kl import kl_divergence, register_kl
from contraflow.distributions.lowrank_multivariate_normal import LowRankMultivariateNormal
from contraflow.distributions.multivariate_normal import (
    MultivariateNormal,
    half_log_det,
    solve_lower,
    squared_distance,
)
from contraflow.distributions.one_hot_categorical import OneHotCategorical
from contraflow.distributions.transformed_distribution import TransformedDistribution
from contraflow.distributions.utils import sum_rightmost
from contraflow.tensors.tensor import Tensor


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    total = p.concentration.sum(-1, keepdim=True)
    constants = q._log_normalizer(q.concentration) - p._log_normalizer(p.concentration)
    apart = p.concentration - q.concentration
    return constants + (apart * (p.concentration.digamma() - total.digamma())).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return kl_divergence(p._categorical, q._categorical)


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_family(p: ExponentialFamily, q: ExponentialFamily) -> Tensor:
    if type(p) is not type(q):
        raise NotImplementedError(
            f"kl_divergence: there is no formula for {type(p).__name__} and {type(q).__name__}. "
            f"Register one: register_kl."
        )
    # Bregman's divergence of the normalizer: its value at q less its tangent at p.
    own, normalizer, slopes = p._tangent()
    result = q._log_normalizer(*q._natural_params) - normalizer
    for mine, other, slope in zip(own, q._natural_params, slopes):
        dims = mine.ndim - len(p.batch_shape)
        result = result - sum_rightmost((other - mine) * slope, dims)
    return result


# --- normal vectors ----------------------------------------------------------------------------


def _sum_of_squares(x: Tensor) -> Tensor:
    return (x * x).flatten(-2).sum(-1)


def _check_sizes(p: Any, q: Any) -> int:
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"kl_divergence: the events of {type(p).__name__} have the shape {p.event_shape}, and "
            f"those of {type(q).__name__} {q.event_shape}."
        )
    return int(p.event_shape[0])


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    n = _check_sizes(p, q)
    trace = _sum_of_squares(solve_lower(q.scale_tril, p.scale_tril))
    distance = squared_distance(q.scale_tril, q.loc - p.loc)
    determinants = half_log_det(q.scale_tril) - half_log_det(p.scale_tril)
    return determinants + 0.5 * (trace + distance - n)


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _low_rank_full(p: LowRankMultivariateNormal, q: MultivariateNormal) -> Tensor:
    n = _check_sizes(p, q)
    trace = _sum_of_squares(solve_lower(q.scale_tril, p.cov_factor))
    trace = trace + _sum_of_squares(solve_lower(q.scale_tril, p.cov_diag.sqrt().diag_embed()))
    distance = squared_distance(q.scale_tril, q.loc - p.loc)
    return half_log_det(q.scale_tril) - p.half_log_det() + 0.5 * (trace + distance - n)


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _full_low_rank(p: MultivariateNormal, q: LowRankMultivariateNormal) -> Tensor:
    return _into_low_rank(p, q, p.scale_tril, half_log_det(p.scale_tril))


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _low_rank(p: LowRankMultivariateNormal, q: LowRankMultivariateNormal) -> Tensor:
    return _into_low_rank(p, q, p.scale_tril, p.half_log_det())


def _into_low_rank(p: Any, q: LowRankMultivariateNormal, factor: Tensor, own: Tensor) -> Tensor:
    n = _check_sizes(p, q)
    # The trace of the inverse of q's covariance times p's: distances of the columns of the factor.
    columns = factor.mT
    wide = q.expand((*columns.shape[-2:-1], *q.batch_shape)) if q.batch_shape else q
    if q.batch_shape:
        columns = columns.movedim(-2, 0)
        trace = wide.squared_distance(columns).sum(0)
    else:
        trace = q.squared_distance(columns).sum(-1)
    distance = q.squared_distance(q.loc - p.loc)
    return q.half_log_det() - own + 0.5 * (trace + distance - n)


# --- of distributions inside -------------------------------------------------------------------


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError(
            "kl_divergence: the two Independent distributions make events of different numbers of "
            "batch dims."
        )
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError(
            "kl_divergence: two transformed distributions need equal transforms and event shapes."
        )
    dims = len(p.event_shape) - len(p.base_dist.event_shape)
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), dims)
