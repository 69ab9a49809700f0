"""The negative binomial distribution."""

from __future__ import annotations

from collections.abc import Sequence

from contraflow.autograd.modes import no_grad
from contraflow.distributions import constraints
from contraflow.distributions.probabilities import OfTrials
from contraflow.ops.creation.counts import poisson
from contraflow.ops.creation.gamma import standard_log_gamma
from contraflow.ops.elementwise.activation import logsigmoid
from contraflow.ops.elementwise.basic import where
from contraflow.tensors.tensor import Tensor


class NegativeBinomial(OfTrials):
    """How many trials succeed, each with the probability `probs`, before `total_count` fail.

    >>> import contraflow as cf
    >>> cf.distributions.NegativeBinomial(cf.tensor([1.0, 3.0]), 0.5).mean
    tensor([1., 3.])
    """

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(
        self,
        total_count: Tensor | float,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        count = self._give_beside(probs, logits, total_count)
        self.total_count = count.to(self._param.dtype)
        super().__init__(self._param.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / (-self.logits).sigmoid()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            shape = self._extended_shape(sample_shape)
            # A Poisson variate whose rate is a gamma variate of the rate exp(-logits).
            drawn = standard_log_gamma(self.total_count.expand(shape)) + self.logits
            return poisson(drawn.exp())

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._given(value)
        n = self.total_count
        ways = (n + value).lgamma() - (value + 1).lgamma() - n.lgamma()
        ways = where(n + value == 0, 0.0, ways)
        return ways + n * logsigmoid(-self.logits) + value * logsigmoid(self.logits)
