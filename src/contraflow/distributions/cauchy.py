"""The Cauchy distribution."""

from __future__ import annotations

import math

from contraflow.distributions.location_scale import LocationScale
from contraflow.tensors.tensor import Tensor


class Cauchy(LocationScale):
    """The Cauchy (Lorentz) distribution with median `loc` and half width `scale`.

    >>> import contraflow as cf
    >>> cf.distributions.Cauchy(0.0, 1.0).cdf(cf.tensor([-1.0, 0.0, 1.0]))
    tensor([0.2500, 0.5000, 0.7500])
    """

    @property
    def mean(self) -> Tensor:
        return self.loc * math.nan

    @property
    def variance(self) -> Tensor:
        return self.scale * math.inf

    def log_prob(self, value: Tensor) -> Tensor:
        standard = (self._given(value) - self.loc) / self.scale
        return -math.log(math.pi) - self.scale.log() - (standard * standard).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        return ((self._given(value) - self.loc) / self.scale).atan() / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()
