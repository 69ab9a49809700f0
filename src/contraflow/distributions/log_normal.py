"""The log-normal distribution."""

from __future__ import annotations

from typing import Any

from contraflow.distributions import constraints
from contraflow.distributions.elementwise_transforms import ExpTransform
from contraflow.distributions.normal import Normal
from contraflow.distributions.transformed_distribution import TransformedDistribution
from contraflow.tensors.tensor import Tensor


class LogNormal(TransformedDistribution):
    """The exponential of a normal variate with mean `loc` and standard deviation `scale`.

    >>> import contraflow as cf
    >>> cf.distributions.LogNormal(0.0, cf.tensor([0.5, 1.0])).mean
    tensor([1.1331, 1.6487])
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.positive
    has_rsample = True

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None
    ) -> None:
        super().__init__(Normal(loc, scale, validate_args=False), ExpTransform(), validate_args)

    @property
    def loc(self) -> Tensor:
        """The mean of the logarithm."""
        return self.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """The standard deviation of the logarithm."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale * self.scale / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale * self.scale).exp()

    @property
    def variance(self) -> Tensor:
        square = self.scale * self.scale
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc
