"""The half-Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any

from contraflow.distributions import constraints
from contraflow.distributions.cauchy import Cauchy
from contraflow.distributions.elementwise_transforms import AbsTransform
from contraflow.distributions.transformed_distribution import TransformedDistribution
from contraflow.ops.elementwise.basic import where
from contraflow.tensors.tensor import Tensor


class HalfCauchy(TransformedDistribution):
    """The absolute value of a Cauchy variate with median 0 and half width `scale`.

    >>> import contraflow as cf
    >>> cf.distributions.HalfCauchy(cf.tensor([1.0, 2.0])).cdf(cf.ones(2))
    tensor([0.5000, 0.2952])
    """

    arg_constraints = {"scale": constraints.positive}
    support: Any = constraints.nonnegative
    has_rsample = True

    def __init__(self, scale: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(Cauchy(0, scale, validate_args=False), AbsTransform(), validate_args)

    @property
    def scale(self) -> Tensor:
        """The half width of the Cauchy variate."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return self.scale * math.inf

    @property
    def mode(self) -> Tensor:
        return self.scale * 0

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._given(value)
        return where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        return 2 * self.base_dist.cdf(self._given(value)) - 1

    def icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)
