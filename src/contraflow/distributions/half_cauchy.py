"""The half-Cauchy distribution."""

from __future__ import annotations

import math

from contraflow.distributions.cauchy import Cauchy
from contraflow.distributions.folded import Folded
from contraflow.tensors.tensor import Tensor


class HalfCauchy(Folded):
    """The absolute value of a Cauchy variate with median 0 and half width `scale`.

    >>> import contraflow as cf
    >>> cf.distributions.HalfCauchy(cf.tensor([1.0, 2.0])).cdf(cf.ones(2))
    tensor([0.5000, 0.2952])
    """

    unfolded = Cauchy

    @property
    def mean(self) -> Tensor:
        return self.scale * math.inf

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance
