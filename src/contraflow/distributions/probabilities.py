"""Distributions given by probabilities or by logits: the other of the two follows."""

from __future__ import annotations

from typing import Any

from contraflow.distributions.distribution import Distribution
from contraflow.distributions.utils import (
    broadcast_all,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)
from contraflow.errors import describe
from contraflow.ops.reduction.reduce import logsumexp
from contraflow.tensors.tensor import Tensor


def check_choice(subject: str, probs: object, logits: object) -> None:
    """Refuse both of two parameters, and neither."""
    if (probs is None) == (logits is None):
        given = "neither probs nor logits is" if probs is None else "both probs and logits are"
        raise ValueError(f"{subject}: {given} given; give one of them.")


class OfTrials(Distribution):
    """Distributions of trials that succeed with the probability `probs`, or sigmoid(`logits`)."""

    def _give(self, probs: Tensor | float | None, logits: Tensor | float | None) -> Tensor:
        """Keep the one of the two parameters that is given."""
        check_choice(type(self).__name__, probs, logits)
        if probs is not None:
            (self.probs,) = broadcast_all(probs)
        else:
            (self.logits,) = broadcast_all(logits)
        return self._param

    def _give_beside(
        self, probs: Tensor | float | None, logits: Tensor | float | None, other: Tensor | float
    ) -> Tensor:
        """Keep the one of the two parameters that is given; `other`, broadcast with it."""
        check_choice(type(self).__name__, probs, logits)
        if probs is not None:
            self.probs, beside = broadcast_all(probs, other)
        else:
            self.logits, beside = broadcast_all(logits, other)
        return beside

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities of success."""
        return logits_to_probs(self.logits, is_binary=True)

    @lazy_property
    def logits(self) -> Tensor:
        """log(p / (1 - p)) of the probabilities of success."""
        return probs_to_logits(self.probs, is_binary=True)

    @property
    def _param(self) -> Tensor:
        """The parameter that was given."""
        return self.__dict__["probs" if "probs" in self.__dict__ else "logits"]

    @property
    def param_shape(self) -> tuple[int, ...]:
        """The shape of the parameter that was given."""
        return self._param.shape


class OfClasses(OfTrials):
    """Distributions over classes, with the weights `probs` or softmax(`logits`) [..., classes]."""

    def _give(self, probs: Any, logits: Any) -> Tensor:
        subject = type(self).__name__
        check_choice(subject, probs, logits)
        name, given = ("logits", logits) if probs is None else ("probs", probs)
        if not isinstance(given, Tensor) or not given.ndim:
            raise ValueError(
                f"{subject}: {name} is {describe(given)}; it needs a dim of classes, the last."
            )
        if probs is not None:
            self.probs = probs / probs.sum(-1, keepdim=True)
        else:
            self.logits = logits - logsumexp(logits, -1, keepdim=True)
        return self._param

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities [..., classes]."""
        return logits_to_probs(self.logits)

    @lazy_property
    def logits(self) -> Tensor:
        """Their logarithms."""
        return probs_to_logits(self.probs)
