"""The beta distribution."""

from __future__ import annotations

from collections.abc import Sequence

from contraflow.distributions import constraints
from contraflow.distributions.exp_family import ExponentialFamily
from contraflow.distributions.utils import EPSILON, SMALLEST, broadcast_all
from contraflow.ops.creation.gamma import standard_log_gamma
from contraflow.ops.elementwise.basic import where
from contraflow.ops.elementwise.mathematics import xlog1py, xlogy
from contraflow.tensors.tensor import Tensor


class Beta(ExponentialFamily):
    """The beta distribution on (0, 1), of `concentration1` at 1 and `concentration0` at 0.

    >>> import contraflow as cf
    >>> cf.distributions.Beta(cf.tensor([1.0, 3.0]), 1.0).mean
    tensor([0.5000, 0.7500])
    """

    arg_constraints = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        concentration1: Tensor | float,
        concentration0: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        super().__init__(self.concentration1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        # As Dirichlet's: at an end where no concentration is above 1, NaN where both are 1.
        a, b = (self.concentration1 - 1).clamp(min=0.0), (self.concentration0 - 1).clamp(min=0.0)
        corner = (self.concentration1 >= self.concentration0).to(a.dtype)
        below = (self.concentration1 < 1) & (self.concentration0 < 1)
        return where(below, corner, a / (a + b))

    @property
    def variance(self) -> Tensor:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total * total * (total + 1))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        one = standard_log_gamma(self.concentration1.expand(shape))
        zero = standard_log_gamma(self.concentration0.expand(shape))
        drawn = (one - zero).sigmoid()
        return drawn.clamp(min=SMALLEST[drawn.dtype], max=1 - EPSILON[drawn.dtype])

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._given(value)
        return (
            xlogy(self.concentration1 - 1, value)
            + xlog1py(self.concentration0 - 1, -value)
            - self._log_normalizer(self.concentration1, self.concentration0)
        )

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        return (
            self._log_normalizer(a, b)
            - (a - 1) * a.digamma()
            - (b - 1) * b.digamma()
            + (a + b - 2) * (a + b).digamma()
        )

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        return x.lgamma() + y.lgamma() - (x + y).lgamma()
