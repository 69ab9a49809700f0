"""The F-distribution of Fisher and Snedecor."""

from __future__ import annotations

import math
from collections.abc import Sequence

from contraflow.distributions import constraints
from contraflow.distributions.distribution import Distribution
from contraflow.distributions.utils import SMALLEST, broadcast_all
from contraflow.ops.creation.gamma import standard_log_gamma
from contraflow.ops.elementwise.basic import where
from contraflow.tensors.tensor import Tensor


class FisherSnedecor(Distribution):
    """The ratio of two chi-squared variates, each over its degrees of freedom, `df1` and `df2`.

    >>> import contraflow as cf
    >>> cf.distributions.FisherSnedecor(1.0, cf.tensor([2.0, 4.0])).mean
    tensor([nan, 2.])
    """

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(
        self, df1: Tensor | float, df2: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self) -> Tensor:
        ratio = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return where(self.df1 > 2, ratio, math.nan)

    @property
    def variance(self) -> Tensor:
        a, b = self.df1, self.df2
        ratio = 2 * b * b * (a + b - 2) / (a * (b - 2) * (b - 2) * (b - 4))
        return where(b > 4, ratio, math.nan)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape, a, b = self._extended_shape(sample_shape), 0.5 * self.df1, 0.5 * self.df2
        above = standard_log_gamma(a.expand(shape)) - a.log()
        below = standard_log_gamma(b.expand(shape)) - b.log()
        drawn = (above - below).exp()
        return drawn.clamp(min=SMALLEST[drawn.dtype])

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._given(value)
        a, b, ratio = 0.5 * self.df1, 0.5 * self.df2, self.df1 / self.df2
        return (
            (a + b).lgamma() - a.lgamma() - b.lgamma()
            + a * ratio.log() + (a - 1) * value.log()
            - (a + b) * (ratio * value).log1p()
        )  # fmt: skip
