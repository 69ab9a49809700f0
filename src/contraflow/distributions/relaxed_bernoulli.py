"""Relaxed Bernoulli distributions, and the distribution of their logits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from contraflow.distributions import constraints
from contraflow.distributions.elementwise_transforms import SigmoidTransform
from contraflow.distributions.probabilities import OfTrials
from contraflow.distributions.transformed_distribution import Relaxed
from contraflow.distributions.utils import open_uniform
from contraflow.ops.elementwise.activation import logsigmoid
from contraflow.tensors.tensor import Tensor


class LogitRelaxedBernoulli(OfTrials):
    """Logits of a Bernoulli variate plus logistic noise, over a `temperature`.

    >>> import contraflow as cf
    >>> d = cf.distributions.relaxed_bernoulli.LogitRelaxedBernoulli(0.5, cf.tensor([0.5, 0.9]))
    >>> d.log_prob(cf.zeros(2))
    tensor([-2.0794, -3.1011])
    """

    arg_constraints = {
        "temperature": constraints.positive,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    support = constraints.real
    has_rsample = True

    def __init__(
        self,
        temperature: Tensor | float,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = self._give_beside(probs, logits, temperature)
        super().__init__(self._param.shape, validate_args=validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        drawn = open_uniform(self._extended_shape(sample_shape), self._param)
        return (drawn.log() - (-drawn).log1p() + self.logits) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        distance = self.logits - self._given(value) * self.temperature
        return self.temperature.log() + logsigmoid(distance) + logsigmoid(-distance)


class RelaxedBernoulli(Relaxed):
    """Numbers in (0, 1) that are close to a Bernoulli variate where the `temperature` is low.

    >>> import contraflow as cf
    >>> cf.distributions.RelaxedBernoulli(0.5, cf.tensor([0.5, 0.9])).rsample().shape
    (2,)
    """

    arg_constraints = {
        "temperature": constraints.positive,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    support: Any = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        temperature: Tensor | float,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits, validate_args)
        super().__init__(base, SigmoidTransform(), validate_args)
