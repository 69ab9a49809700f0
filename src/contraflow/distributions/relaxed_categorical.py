"""Relaxed one-hot vectors (Gumbel-softmax), and the distribution of their logarithms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from contraflow.distributions import constraints
from contraflow.distributions.categorical import WithCategorical
from contraflow.distributions.elementwise_transforms import ExpTransform
from contraflow.distributions.transformed_distribution import Relaxed
from contraflow.distributions.utils import open_uniform
from contraflow.ops.creation.create import full
from contraflow.ops.nn.norm import log_softmax
from contraflow.tensors.tensor import Tensor


class ExpRelaxedCategorical(WithCategorical):
    """The logarithms [..., classes] of relaxed one-hot vectors.

    >>> import contraflow as cf
    >>> d = cf.distributions.relaxed_categorical.ExpRelaxedCategorical(0.5, cf.ones(3))
    >>> d.rsample().logsumexp(-1).abs() < 1e-6
    tensor(True)
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    # Vectors on a surface, in fact: exp sums to 1.
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        temperature: Tensor | float,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        given = probs if probs is not None else logits
        if not isinstance(temperature, Tensor) and isinstance(given, Tensor):
            temperature = full((), temperature, dtype=given.dtype, device=given.device)
        self.temperature: Any = temperature
        super().__init__(probs, logits, validate_args)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self.temperature = self._checked("temperature", self.temperature, constraints.positive)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = super().expand(batch_shape, _instance)
        new.temperature = self.temperature  # one for all, or with a dim for the classes
        return new

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        drawn = open_uniform(self._extended_shape(sample_shape), self._categorical._param)
        gumbel = -(-drawn.log()).log()
        return log_softmax((self.logits + gumbel) / self.temperature, -1)

    def log_prob(self, value: Tensor) -> Tensor:
        n = self._event_shape[0]
        scores = log_softmax(self.logits - self._given(value) * self.temperature, -1)
        scale = (self.temperature * 0 + n).lgamma() + (n - 1) * self.temperature.log()
        return scores.sum(-1) + scale


class RelaxedOneHotCategorical(Relaxed):
    """Vectors [..., classes] on the simplex, close to one-hot ones where `temperature` is low.

    >>> import contraflow as cf
    >>> cf.distributions.RelaxedOneHotCategorical(0.5, cf.ones(2, 3)).rsample().shape
    (2, 3)
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support: Any = constraints.simplex
    has_rsample = True

    def __init__(
        self,
        temperature: Tensor | float,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args)
        super().__init__(base, ExpTransform(), validate_args)
