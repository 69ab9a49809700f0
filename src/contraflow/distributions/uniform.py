"""The uniform distribution of an interval."""

from __future__ import annotations

from collections.abc import Sequence

from contraflow.distributions import constraints
from contraflow.distributions.distribution import Distribution
from contraflow.distributions.utils import broadcast_all, standard_uniform
from contraflow.ops.elementwise.basic import log
from contraflow.tensors.tensor import Tensor


class Uniform(Distribution):
    """The uniform distribution of [low, high).

    >>> import contraflow as cf
    >>> cf.distributions.Uniform(cf.zeros(2), 4.0).entropy()
    tensor([1.3863, 1.3863])
    """

    has_rsample = True

    def __init__(
        self, low: Tensor | float, high: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)

    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]:
        return {"low": constraints.real, "high": constraints.greater_than(self.low)}

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> constraints.Constraint:
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        return (self.low + self.high) / 2

    @property
    def mode(self) -> Tensor:
        return self.mean * float("nan")

    @property
    def stddev(self) -> Tensor:
        return (self.high - self.low) / 12**0.5

    @property
    def variance(self) -> Tensor:
        width = self.high - self.low
        return width * width / 12

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        drawn = standard_uniform(self._extended_shape(sample_shape), self.low)
        return self.low + drawn * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._given(value)
        inside = ((self.low <= value) & (self.high > value)).to(self.low.dtype)
        return log(inside) - log(self.high - self.low)

    def cdf(self, value: Tensor) -> Tensor:
        value = self._given(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Tensor) -> Tensor:
        return self.low + value * (self.high - self.low)

    def entropy(self) -> Tensor:
        return log(self.high - self.low)
