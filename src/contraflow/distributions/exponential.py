"""The exponential distribution."""

from __future__ import annotations

from collections.abc import Sequence

from contraflow.distributions import constraints
from contraflow.distributions.exp_family import ExponentialFamily
from contraflow.distributions.utils import broadcast_all, standard_uniform
from contraflow.tensors.tensor import Tensor


class Exponential(ExponentialFamily):
    """Waiting times of events that occur at a `rate`.

    >>> import contraflow as cf
    >>> cf.distributions.Exponential(cf.tensor([1.0, 2.0])).cdf(cf.ones(2))
    tensor([0.6321, 0.8647])
    """

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, rate: Tensor | float, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        return self.rate * 0

    @property
    def stddev(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        return 1 / (self.rate * self.rate)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        drawn = standard_uniform(self._extended_shape(sample_shape), self.rate)
        return -(-drawn).log1p() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        return self.rate.log() - self.rate * self._given(value)

    def cdf(self, value: Tensor) -> Tensor:
        return -(-self.rate * self._given(value)).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        return -(-value).log1p() / self.rate

    def entropy(self) -> Tensor:
        return 1 - self.rate.log()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (-self.rate,)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return -(-x).log()
