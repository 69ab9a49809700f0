"""The generalized Pareto distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from contraflow.distributions import constraints
from contraflow.distributions.distribution import Distribution
from contraflow.distributions.utils import broadcast_all, standard_uniform
from contraflow.ops.elementwise.basic import where
from contraflow.tensors.tensor import Tensor


class GeneralizedPareto(Distribution):
    """Numbers above a threshold `loc`, with a `scale` and the `concentration` of their tail.

    >>> import contraflow as cf
    >>> cf.distributions.GeneralizedPareto(0.0, 1.0, cf.tensor([0.0, 0.5])).mean
    tensor([1., 2.])
    """

    arg_constraints = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True

    def __init__(
        self,
        loc: Tensor | float,
        scale: Tensor | float,
        concentration: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        # A negative concentration bounds it from above.
        bound = self.loc - self.scale / where(self._is_exponential, 1.0, self.concentration)
        return constraints.interval(self.loc, where(self.concentration < 0, bound, math.inf))

    @property
    def _is_exponential(self) -> Tensor:
        """Where the concentration is 0, so that waiting times are exponential."""
        return self.concentration == 0

    @property
    def mean(self) -> Tensor:
        finite = self.concentration < 1
        return where(finite, self.loc + self.scale / (1 - self.concentration), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        c = self.concentration
        found = self.scale * self.scale / ((1 - c) * (1 - c) * (1 - 2 * c))
        return where(c < 0.5, found, math.inf)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.icdf(standard_uniform(self._extended_shape(sample_shape), self.loc))

    def _log_survival(self, value: Tensor) -> Tensor:
        """log(1 - cdf)."""
        standard = (value - self.loc) / self.scale
        c = where(self._is_exponential, 1.0, self.concentration)
        # log1p(c x) / c, whose limit at c = 0 is x.
        return -where(self._is_exponential, standard, (c * standard).log1p() / c)

    def log_prob(self, value: Tensor) -> Tensor:
        found = (1 + self.concentration) * self._log_survival(self._given(value))
        return found - self.scale.log()

    def log_survival_function(self, value: Tensor) -> Tensor:
        """log(1 - cdf(value))."""
        return self._log_survival(self._given(value))

    def log_cdf(self, value: Tensor) -> Tensor:
        """log(cdf(value))."""
        return (-self._log_survival(self._given(value)).exp()).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        return -self._log_survival(self._given(value)).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        waited = -(-value).log1p()
        c = where(self._is_exponential, 1.0, self.concentration)
        bent = (c * waited).expm1() / c
        return self.loc + self.scale * where(self._is_exponential, waited, bent)

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1
