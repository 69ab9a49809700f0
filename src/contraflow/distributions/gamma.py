"""The gamma distribution."""

from __future__ import annotations

from collections.abc import Sequence

from contraflow.distributions import constraints
from contraflow.distributions.exp_family import ExponentialFamily
from contraflow.distributions.utils import SMALLEST, broadcast_all
from contraflow.ops.creation.gamma import standard_log_gamma
from contraflow.ops.elementwise.incomplete import igamma
from contraflow.ops.elementwise.mathematics import xlogy
from contraflow.tensors.tensor import Tensor


class Gamma(ExponentialFamily):
    """The gamma distribution with shape `concentration` and `rate` = 1 / scale.

    >>> import contraflow as cf
    >>> d = cf.distributions.Gamma(cf.tensor([1.0, 3.0]), 2.0)
    >>> d.mean, d.cdf(cf.tensor([1.0, 1.0]))
    (tensor([0.5000, 1.5000]), tensor([0.8647, 0.3233]))
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self,
        concentration: Tensor | float,
        rate: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / (self.rate * self.rate)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        drawn = standard_log_gamma(self.concentration.expand(shape)).exp() / self.rate
        return drawn.clamp(min=SMALLEST[drawn.dtype])  # density and logarithm exist there

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._given(value)
        return (
            xlogy(self.concentration, self.rate)
            + xlogy(self.concentration - 1, value)
            - self.rate * value
            - self.concentration.lgamma()
        )

    def cdf(self, value: Tensor) -> Tensor:
        return igamma(self.concentration, self.rate * self._given(value))

    def entropy(self) -> Tensor:
        concentration = self.concentration
        return (
            concentration
            - self.rate.log()
            + concentration.lgamma()
            + (1 - concentration) * concentration.digamma()
        )

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        return (x + 1).lgamma() + (x + 1) * (-1 / y).log()
