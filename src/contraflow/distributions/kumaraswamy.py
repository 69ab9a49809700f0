"""The Kumaraswamy distribution."""

from __future__ import annotations

from typing import Any

from contraflow.distributions import constraints
from contraflow.distributions.elementwise_transforms import AffineTransform, PowerTransform
from contraflow.distributions.transformed_distribution import TransformedDistribution
from contraflow.distributions.uniform import Uniform
from contraflow.distributions.utils import EULER, broadcast_all
from contraflow.ops.elementwise.basic import where
from contraflow.ops.elementwise.mathematics import xlog1py, xlogy
from contraflow.tensors.tensor import Tensor


def _moment(a: Tensor, b: Tensor, n: int) -> Tensor:
    """The mean of the n-th power: b B(1 + n / a, b)."""
    first = 1 + n / a
    return (b.log() + first.lgamma() + b.lgamma() - (first + b).lgamma()).exp()


class Kumaraswamy(TransformedDistribution):
    """The Kumaraswamy distribution on (0, 1), with the distribution function 1 - (1 - x**a)**b.

    >>> import contraflow as cf
    >>> cf.distributions.Kumaraswamy(cf.tensor([1.0, 2.0]), 1.0).mean
    tensor([0.5000, 0.6667])
    """

    arg_constraints = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support: Any = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        concentration1: Tensor | float,
        concentration0: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        transforms = [
            PowerTransform(exponent=1 / self.concentration0),
            AffineTransform(1.0, -1.0),
            PowerTransform(exponent=1 / self.concentration1),
        ]
        zero = self.concentration0 * 0
        base = Uniform(zero, zero + 1, validate_args=False)
        super().__init__(base, transforms, validate_args)

    @property
    def mean(self) -> Tensor:
        return _moment(self.concentration1, self.concentration0, 1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        inside = (a >= 1) & (b >= 1) & ((a > 1) | (b > 1))
        found = ((a - 1) / (a * b - 1)).pow(1 / a)
        return where(inside, found, float("nan"))

    @property
    def variance(self) -> Tensor:
        mean = self.mean
        return _moment(self.concentration1, self.concentration0, 2) - mean * mean

    def log_prob(self, value: Tensor) -> Tensor:
        value, a, b = self._given(value), self.concentration1, self.concentration0
        return (a * b).log() + xlogy(a - 1, value) + xlog1py(b - 1, -value.pow(a))

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + EULER
        return (1 - 1 / b) + (1 - 1 / a) * harmonic - a.log() - b.log()
