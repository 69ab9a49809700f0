"""The binomial distribution."""

from __future__ import annotations

from collections.abc import Sequence

from contraflow.autograd.modes import no_grad
from contraflow.distributions import constraints
from contraflow.distributions.probabilities import OfTrials
from contraflow.ops.creation.counts import binomial
from contraflow.ops.elementwise.activation import logsigmoid
from contraflow.tensors.tensor import Tensor


class Binomial(OfTrials):
    """How many of `total_count` trials succeed, each with the probability `probs`.

    >>> import contraflow as cf
    >>> cf.distributions.Binomial(10, cf.tensor([0.0, 0.25, 1.0])).mean
    tensor([ 0.0000,  2.5000, 10.0000])
    """

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    def __init__(
        self,
        total_count: Tensor | int = 1,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        count = self._give_beside(probs, logits, total_count)
        self.total_count = count.to(self._param.dtype)
        super().__init__(self._param.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> constraints.Constraint:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            shape = self._extended_shape(sample_shape)
            return binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._given(value)
        n = self.total_count
        ways = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        return ways + value * logsigmoid(self.logits) + (n - value) * logsigmoid(-self.logits)

    def entropy(self) -> Tensor:
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._first_numbers(1 + self._common_count(), self._param, expand)

    def _common_count(self) -> int:
        """The number of trials, which must be the same everywhere."""
        counts = self.total_count
        most = int(counts.max().item())
        if not (counts == most).all():
            raise NotImplementedError(
                "Binomial: the numbers of trials in total_count differ, so that there is no table "
                "of all values."
            )
        return most
