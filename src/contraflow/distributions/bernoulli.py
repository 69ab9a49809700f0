"""The Bernoulli distribution."""

from __future__ import annotations

from collections.abc import Sequence

from contraflow.autograd.modes import no_grad
from contraflow.distributions import constraints
from contraflow.distributions.exp_family import ExponentialFamily
from contraflow.distributions.probabilities import OfTrials
from contraflow.distributions.utils import binary_entropy, binary_log_prob, standard_uniform
from contraflow.ops.elementwise.activation import softplus
from contraflow.ops.elementwise.basic import where
from contraflow.tensors.tensor import Tensor


class Bernoulli(OfTrials, ExponentialFamily):
    """1 with the probability `probs`, or sigmoid(`logits`), else 0.

    >>> import contraflow as cf
    >>> d = cf.distributions.Bernoulli(cf.tensor([0.25, 0.5]))
    >>> d.log_prob(cf.tensor([0.0, 1.0]))
    tensor([-0.2877, -0.6931])
    """

    arg_constraints = {
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        super().__init__(self._give(probs, logits).shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        one = (self.probs >= 0.5).to(self.probs.dtype)
        return where(self.probs == 0.5, float("nan"), one)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            probs = self.probs
            return (standard_uniform(self._extended_shape(sample_shape), probs) < probs).to(
                probs.dtype
            )

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._given(value)
        return binary_log_prob(self.logits, value)

    def entropy(self) -> Tensor:
        return binary_entropy(self.logits)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._first_numbers(2, self._param, expand)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return softplus(x)
