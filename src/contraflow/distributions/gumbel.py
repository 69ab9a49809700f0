"""The Gumbel distribution."""

from __future__ import annotations

import math

from contraflow.distributions.location_scale import LocationScale
from contraflow.distributions.utils import EULER
from contraflow.tensors.tensor import Tensor


class Gumbel(LocationScale):
    """The Gumbel distribution of the largest of many numbers, with mode `loc`.

    >>> import contraflow as cf
    >>> cf.distributions.Gumbel(0.0, cf.tensor([1.0, 2.0])).mean
    tensor([0.5772, 1.1544])
    """

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * EULER

    @property
    def stddev(self) -> Tensor:
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Tensor:
        return math.pi**2 / 6 * self.scale * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        y = (self.loc - self._given(value)) / self.scale
        return y - y.exp() - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        return (-((self.loc - self._given(value)) / self.scale).exp()).exp()

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc - self.scale * (-value.log()).log()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + EULER)
