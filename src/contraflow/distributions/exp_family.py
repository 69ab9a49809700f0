"""Exponential families: what all of their entropies share."""

from __future__ import annotations

from typing import Any

from contraflow.autograd import grad
from contraflow.autograd.modes import enable_grad
from contraflow.distributions.distribution import Distribution
from contraflow.tensors.tensor import Tensor


class ExponentialFamily(Distribution):
    """Distributions of the density h(x) exp(<eta, t(x)> - A(eta)), of natural parameters eta.

    A subclass that has no formula for its entropy gives `_natural_params`, the function A of them,
    `_log_normalizer`, and the mean of log h, `_mean_carrier_measure`; the rest is a derivative.
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError(self._lacks("natural parameters"))

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        raise NotImplementedError(self._lacks("log normalizer"))

    @property
    def _mean_carrier_measure(self) -> float:
        raise NotImplementedError(self._lacks("mean carrier measure"))

    def entropy(self) -> Tensor:
        # -E[log h] + A(eta) - <eta, grad A(eta)>, since grad A is the mean of t(x).
        with enable_grad():
            parameters = [p.detach().requires_grad_() for p in self._natural_params]
            normalizer = self._log_normalizer(*parameters)
            slopes: Any = grad(normalizer.sum(), parameters, create_graph=True)
        result = normalizer - self._mean_carrier_measure
        dims = len(self._event_shape)
        for parameter, slope in zip(parameters, slopes):
            term = parameter * slope
            result = result - (term.flatten(-dims).sum(-1) if dims else term)
        return result
