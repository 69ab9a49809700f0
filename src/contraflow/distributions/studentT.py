"""Student's t-distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence

from contraflow.distributions import constraints
from contraflow.distributions.distribution import Distribution
from contraflow.distributions.utils import broadcast_all, standard_normal
from contraflow.ops.creation.gamma import standard_log_gamma
from contraflow.ops.elementwise.basic import where
from contraflow.tensors.tensor import Tensor


class StudentT(Distribution):
    """Student's t-distribution of `df` degrees of freedom, moved by `loc` and spread by `scale`.

    >>> import contraflow as cf
    >>> cf.distributions.StudentT(cf.tensor([1.0, 2.0, 4.0])).variance
    tensor([nan, inf, 2.])
    """

    arg_constraints = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True

    def __init__(
        self,
        df: Tensor | float,
        loc: Tensor | float = 0.0,
        scale: Tensor | float = 1.0,
        validate_args: bool | None = None,
    ) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return where(self.df > 1, self.loc, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        finite = self.df > 2
        ratio = self.df / (where(finite, self.df, 3.0) - 2)
        wide = where(self.df > 1, math.inf, math.nan)
        return where(finite, self.scale * self.scale * ratio, wide)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        drawn, half = standard_normal(shape, self.df), 0.5 * self.df
        # A normal number over the root of a chi-squared one over df, whose logarithm is drawn.
        log_spread = 0.5 * (half.log() - standard_log_gamma(half.expand(shape)))
        return self.loc + self.scale * drawn * log_spread.exp()

    def log_prob(self, value: Tensor) -> Tensor:
        standard = (self._given(value) - self.loc) / self.scale
        return (
            -0.5 * (self.df + 1) * (standard * standard / self.df).log1p()
            - self.scale.log()
            - self._log_beta()
        )

    def entropy(self) -> Tensor:
        half = 0.5 * (self.df + 1)
        return (
            self.scale.log()
            + half * (half.digamma() - (0.5 * self.df).digamma())
            + self._log_beta()
        )

    def _log_beta(self) -> Tensor:
        """log(sqrt(df) B(df / 2, 1 / 2))."""
        half = 0.5 * self.df
        return 0.5 * (self.df.log() + math.log(math.pi)) + half.lgamma() - (half + 0.5).lgamma()
