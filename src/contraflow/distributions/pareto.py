"""The Pareto distribution."""

from __future__ import annotations

import math
from typing import Any

from contraflow.distributions import constraints
from contraflow.distributions.elementwise_transforms import AffineTransform, ExpTransform
from contraflow.distributions.exponential import Exponential
from contraflow.distributions.transformed_distribution import TransformedDistribution
from contraflow.distributions.utils import broadcast_all
from contraflow.ops.elementwise.basic import where
from contraflow.tensors.tensor import Tensor


class Pareto(TransformedDistribution):
    """The Pareto distribution of type 1: numbers from `scale` on, with the exponent `alpha`.

    >>> import contraflow as cf
    >>> cf.distributions.Pareto(1.0, cf.tensor([1.0, 2.0])).mean
    tensor([inf, 2.])
    """

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}
    has_rsample = True

    def __init__(
        self, scale: Tensor | float, alpha: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        transforms = [ExpTransform(), AffineTransform(0, self.scale)]
        super().__init__(Exponential(self.alpha, validate_args=False), transforms, validate_args)

    @property
    def mean(self) -> Tensor:
        finite = self.alpha > 1
        ratio = self.alpha / (where(finite, self.alpha, 2.0) - 1)
        return where(finite, ratio * self.scale, math.inf)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        finite = self.alpha > 2
        a = where(finite, self.alpha, 3.0)
        found = self.scale * self.scale * a / ((a - 1) * (a - 1) * (a - 2))
        return where(finite, found, math.inf)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.greater_than_eq(self.scale)

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + (1 + 1 / self.alpha)
