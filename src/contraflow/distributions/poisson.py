"""The Poisson distribution."""

from __future__ import annotations

from collections.abc import Sequence

from contraflow.autograd.modes import no_grad
from contraflow.distributions import constraints
from contraflow.distributions.exp_family import ExponentialFamily
from contraflow.distributions.utils import broadcast_all
from contraflow.ops.creation.counts import poisson
from contraflow.ops.elementwise.mathematics import xlogy
from contraflow.tensors.tensor import Tensor


class Poisson(ExponentialFamily):
    """How many events occur, whose mean number is `rate`.

    >>> import contraflow as cf
    >>> cf.distributions.Poisson(2.0).log_prob(cf.tensor([0.0, 1.0]))
    tensor([-2.0000, -1.3069])
    """

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Tensor | float, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._given(value)
        return xlogy(value, self.rate) - self.rate - (value + 1).lgamma()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.rate.log(),)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return x.exp()
