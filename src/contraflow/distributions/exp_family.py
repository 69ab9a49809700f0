"""Exponential families: what all of their entropies share."""

from __future__ import annotations

from typing import Any

from contraflow.autograd import grad
from contraflow.autograd.modes import enable_grad
from contraflow.distributions.distribution import Distribution
from contraflow.distributions.utils import sum_rightmost
from contraflow.tensors.tensor import Tensor


class ExponentialFamily(Distribution):
    """Distributions of the density h(x) exp(<eta, t(x)> - A(eta)), of natural parameters eta.

    A subclass that has no formula for its entropy gives `_natural_params`, the function A of them,
    `_log_normalizer`, and the mean of log h, `_mean_carrier_measure`; the rest is a derivative.

    >>> import contraflow as cf
    >>> isinstance(cf.distributions.Normal(0.0, 1.0), ExponentialFamily)
    True
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError(self._lacks("natural parameters"))

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        raise NotImplementedError(self._lacks("log normalizer"))

    @property
    def _mean_carrier_measure(self) -> float:
        raise NotImplementedError(self._lacks("mean carrier measure"))

    def _tangent(self) -> tuple[Any, Tensor, Any]:
        """Natural parameters, the normalizer there, and its gradient, which is the mean of t(x)."""
        given = self._natural_params
        with enable_grad():
            parameters = [x if x.requires_grad else x.detach().requires_grad_() for x in given]
            normalizer = self._log_normalizer(*parameters)
            slopes: Any = grad(normalizer.sum(), parameters, create_graph=True)
        if not any(x.requires_grad for x in given):
            return given, normalizer.detach(), [slope.detach() for slope in slopes]
        return parameters, normalizer, slopes

    def entropy(self) -> Tensor:
        # -E[log h] + A(eta) - <eta, grad A(eta)>
        parameters, normalizer, slopes = self._tangent()
        result = normalizer - self._mean_carrier_measure
        for parameter, slope in zip(parameters, slopes):
            own = parameter.ndim - len(self._batch_shape)
            result = result - sum_rightmost(parameter * slope, own)
        return result
