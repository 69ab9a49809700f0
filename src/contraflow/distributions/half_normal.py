"""The half-normal distribution."""

from __future__ import annotations

import math
from typing import Any

from contraflow.distributions import constraints
from contraflow.distributions.elementwise_transforms import AbsTransform
from contraflow.distributions.normal import Normal
from contraflow.distributions.transformed_distribution import TransformedDistribution
from contraflow.ops.elementwise.basic import where
from contraflow.tensors.tensor import Tensor


class HalfNormal(TransformedDistribution):
    """The absolute value of a normal variate with mean 0 and standard deviation `scale`.

    >>> import contraflow as cf
    >>> cf.distributions.HalfNormal(cf.tensor([1.0, 2.0])).mean
    tensor([0.7979, 1.5958])
    """

    arg_constraints = {"scale": constraints.positive}
    support: Any = constraints.nonnegative
    has_rsample = True

    def __init__(self, scale: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(Normal(0, scale, validate_args=False), AbsTransform(), validate_args)

    @property
    def scale(self) -> Tensor:
        """The standard deviation of the normal variate."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def mode(self) -> Tensor:
        return self.scale * 0

    @property
    def variance(self) -> Tensor:
        return self.scale * self.scale * (1 - 2 / math.pi)

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._given(value)
        return where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        return 2 * self.base_dist.cdf(self._given(value)) - 1

    def icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)
