"""The inverse gamma distribution."""

from __future__ import annotations

import math
from typing import Any

from contraflow.distributions import constraints
from contraflow.distributions.elementwise_transforms import PowerTransform
from contraflow.distributions.gamma import Gamma
from contraflow.distributions.transformed_distribution import TransformedDistribution
from contraflow.ops.elementwise.basic import where
from contraflow.tensors.tensor import Tensor


class InverseGamma(TransformedDistribution):
    """The reciprocal of a gamma variate of `concentration` and `rate`.

    >>> import contraflow as cf
    >>> cf.distributions.InverseGamma(cf.tensor([1.0, 3.0]), 1.0).mean
    tensor([   inf, 0.5000])
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support: Any = constraints.positive
    has_rsample = True

    def __init__(
        self,
        concentration: Tensor | float,
        rate: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        base = Gamma(concentration, rate, validate_args=False)
        super().__init__(base, PowerTransform(exponent=-1.0), validate_args)

    @property
    def concentration(self) -> Tensor:
        """The shape of the gamma variate."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        """The rate of the gamma variate."""
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        return where(self.concentration > 1, self.rate / (self.concentration - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        a = self.concentration
        found = self.rate * self.rate / ((a - 1) * (a - 1) * (a - 2))
        return where(a > 2, found, math.inf)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()
