"""The Gumbel distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence

from contraflow.distributions import constraints
from contraflow.distributions.distribution import Distribution
from contraflow.distributions.utils import EULER, broadcast_all, open_uniform
from contraflow.tensors.tensor import Tensor


class Gumbel(Distribution):
    """The Gumbel distribution of the largest of many numbers, with mode `loc`.

    >>> import contraflow as cf
    >>> cf.distributions.Gumbel(0.0, cf.tensor([1.0, 2.0])).mean
    tensor([0.5772, 1.1544])
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * EULER

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Tensor:
        return math.pi**2 / 6 * self.scale * self.scale

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.icdf(open_uniform(self._extended_shape(sample_shape), self.loc))

    def log_prob(self, value: Tensor) -> Tensor:
        y = (self.loc - self._given(value)) / self.scale
        return y - y.exp() - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        return (-((self.loc - self._given(value)) / self.scale).exp()).exp()

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc - self.scale * (-value.log()).log()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + EULER)
