"""The Laplace distribution."""

from __future__ import annotations

import math

from contraflow.distributions.location_scale import LocationScale
from contraflow.tensors.tensor import Tensor


class Laplace(LocationScale):
    """The Laplace distribution with mean `loc` and mean deviation `scale`.

    >>> import contraflow as cf
    >>> cf.distributions.Laplace(0.0, cf.tensor([1.0, 2.0])).variance
    tensor([2., 8.])
    """

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale * self.scale

    @property
    def stddev(self) -> Tensor:
        return math.sqrt(2) * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        return -(2 * self.scale).log() - (self._given(value) - self.loc).abs() / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        distance = self._given(value) - self.loc
        return 0.5 - 0.5 * distance.sign() * (-distance.abs() / self.scale).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        side = value - 0.5
        return self.loc - self.scale * side.sign() * (-2 * side.abs()).log1p()

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()
