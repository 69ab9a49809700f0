"""Distributions of the absolute value of a variate that is symmetric around zero."""

from __future__ import annotations

import math
from typing import Any

from contraflow.distributions import constraints
from contraflow.distributions.elementwise_transforms import AbsTransform
from contraflow.distributions.location_scale import LocationScale
from contraflow.distributions.transformed_distribution import TransformedDistribution
from contraflow.ops.elementwise.basic import where
from contraflow.tensors.tensor import Tensor


class Folded(TransformedDistribution):
    """Distributions of |x|, where x has the distribution `unfolded` with loc 0 and a `scale`.

    The density of x falls on both sides of its mode, which is zero.
    """

    arg_constraints = {"scale": constraints.positive}
    support: Any = constraints.nonnegative
    has_rsample = True
    unfolded: type[LocationScale]

    def __init__(self, scale: Tensor | float, validate_args: bool | None = None) -> None:
        base = self.unfolded(0, scale, validate_args=False)
        super().__init__(base, AbsTransform(), validate_args)

    @property
    def mode(self) -> Tensor:
        return self.scale * 0

    @property
    def scale(self) -> Tensor:
        """The scale of the variate itself."""
        return self.base_dist.scale

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._given(value)
        return where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        return 2 * self.base_dist.cdf(self._given(value)) - 1

    def icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)
