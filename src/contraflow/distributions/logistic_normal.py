"""The logistic-normal distribution."""

from __future__ import annotations

from typing import Any

from contraflow.distributions import constraints
from contraflow.distributions.event_transforms import StickBreakingTransform
from contraflow.distributions.normal import Normal
from contraflow.distributions.transformed_distribution import TransformedDistribution
from contraflow.tensors.tensor import Tensor


class LogisticNormal(TransformedDistribution):
    """Shares [..., n + 1] that stick breaking makes of normal variates, `loc` and `scale` [..., n].

    >>> import contraflow as cf
    >>> d = cf.distributions.LogisticNormal(cf.zeros(2), cf.ones(2))
    >>> d.event_shape, d.sample().sum()
    ((3,), tensor(1.))
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.simplex
    has_rsample = True

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None
    ) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand((1,))
        super().__init__(base, StickBreakingTransform(), validate_args)

    def _check_parameters(self) -> None:
        """Nothing to check: `Normal` has done it."""

    @property
    def loc(self) -> Tensor:
        """The means of the normal variates."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """The standard deviations of the normal variates."""
        return self.base_dist.base_dist.scale
