"""The geometric distribution."""

from __future__ import annotations

from collections.abc import Sequence

from contraflow.autograd.modes import no_grad
from contraflow.distributions import constraints
from contraflow.distributions.probabilities import OfTrials
from contraflow.distributions.utils import binary_entropy, open_uniform
from contraflow.ops.elementwise.activation import logsigmoid
from contraflow.tensors.tensor import Tensor


class Geometric(OfTrials):
    """How many trials fail before the first one that succeeds, with the probability `probs`.

    >>> import contraflow as cf
    >>> cf.distributions.Geometric(cf.tensor([0.5, 1.0])).mean
    tensor([1., 0.])
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        super().__init__(self._give(probs, logits).shape, validate_args=validate_args)
        if self._validate_args and probs is not None:
            self.probs = self._checked("probs", self.probs, constraints.positive)

    @property
    def mean(self) -> Tensor:
        return 1 / self.probs - 1

    @property
    def mode(self) -> Tensor:
        return self.probs * 0

    @property
    def variance(self) -> Tensor:
        return (1 / self.probs - 1) / self.probs

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            probs = self.probs
            drawn = open_uniform(self._extended_shape(sample_shape), probs)
            return (drawn.log() / (-probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        # log(p) + value log(1 - p), and 0 log(0) is 0.
        misses = logsigmoid(-self.logits)
        return self._given(value) * misses + logsigmoid(self.logits)

    def entropy(self) -> Tensor:
        return binary_entropy(self.logits) / self.probs
