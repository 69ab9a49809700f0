"""The normal distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence

from contraflow.distributions.exp_family import ExponentialFamily
from contraflow.distributions.location_scale import LocationScale
from contraflow.distributions.utils import standard_normal
from contraflow.ops.elementwise.mathematics import erfinv, ndtr
from contraflow.tensors.tensor import Tensor

_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


class Normal(LocationScale, ExponentialFamily):
    """The normal distribution with mean `loc` and standard deviation `scale`.

    >>> import contraflow as cf
    >>> d = cf.distributions.Normal(cf.tensor([0.0, 1.0]), 2.0)
    >>> d.log_prob(cf.tensor([0.0, 1.0]))
    tensor([-1.6121, -1.6121])
    """

    _mean_carrier_measure = 0

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.scale * self.scale

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        drawn = standard_normal(self._extended_shape(sample_shape), self.loc)
        return self.loc + drawn * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._given(value)
        standard = (value - self.loc) / self.scale
        return standard * standard * -0.5 - self.scale.log() - _HALF_LOG_TWO_PI

    def cdf(self, value: Tensor) -> Tensor:
        value = self._given(value)
        return ndtr((value - self.loc) / self.scale)

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 + _HALF_LOG_TWO_PI + self.scale.log()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        precision = 1 / (self.scale * self.scale)
        return self.loc * precision, -0.5 * precision

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        return -0.25 * x * x / y + 0.5 * (-math.pi / y).log()
