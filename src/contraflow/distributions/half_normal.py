"""The half-normal distribution."""

from __future__ import annotations

import math

from contraflow.distributions.folded import Folded
from contraflow.distributions.normal import Normal
from contraflow.tensors.tensor import Tensor


class HalfNormal(Folded):
    """The absolute value of a normal variate with mean 0 and standard deviation `scale`.

    >>> import contraflow as cf
    >>> cf.distributions.HalfNormal(cf.tensor([1.0, 2.0])).mean
    tensor([0.7979, 1.5958])
    """

    unfolded = Normal

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale * self.scale * (1 - 2 / math.pi)
