"""The Weibull distribution."""

from __future__ import annotations

from typing import Any

from contraflow.distributions import constraints
from contraflow.distributions.elementwise_transforms import AffineTransform, PowerTransform
from contraflow.distributions.exponential import Exponential
from contraflow.distributions.transformed_distribution import TransformedDistribution
from contraflow.distributions.utils import EULER, broadcast_all
from contraflow.tensors.tensor import Tensor


class Weibull(TransformedDistribution):
    """The Weibull distribution with the shape `concentration`.

    >>> import contraflow as cf
    >>> cf.distributions.Weibull(cf.tensor([1.0, 2.0]), 1.0).mean
    tensor([1., 2.])
    """

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support: Any = constraints.positive
    has_rsample = True

    def __init__(
        self,
        scale: Tensor | float,
        concentration: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        transforms = [
            PowerTransform(exponent=1 / self.concentration),
            AffineTransform(0, self.scale),
        ]
        base = Exponential(self.scale * 0 + 1, validate_args=False)
        super().__init__(base, transforms, validate_args)

    @property
    def mean(self) -> Tensor:
        return self.scale * (1 + 1 / self.concentration).lgamma().exp()

    @property
    def mode(self) -> Tensor:
        inverse = 1 / self.concentration
        return self.scale * (1 - inverse).clamp(min=0.0).pow(inverse)

    @property
    def variance(self) -> Tensor:
        inverse = 1 / self.concentration
        once, twice = (1 + inverse).lgamma().exp(), (1 + 2 * inverse).lgamma().exp()
        return self.scale * self.scale * (twice - once * once)

    def entropy(self) -> Tensor:
        return EULER * (1 - 1 / self.concentration) + (self.scale / self.concentration).log() + 1
