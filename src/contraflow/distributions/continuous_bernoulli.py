"""The continuous Bernoulli distribution."""

from __future__ import annotations

from collections.abc import Sequence

from contraflow.distributions import constraints
from contraflow.distributions.exp_family import ExponentialFamily
from contraflow.distributions.probabilities import OfTrials
from contraflow.distributions.utils import clamp_probs, standard_uniform
from contraflow.ops.elementwise.activation import logsigmoid
from contraflow.ops.elementwise.basic import where
from contraflow.ops.elementwise.mathematics import sinh
from contraflow.tensors.tensor import Tensor

_NEAR = 0.5  # logits up to which series are used, where formulas would divide by nearly 0


def _series(x: Tensor, *terms: float) -> Tensor:
    total = x * 0
    for term in reversed(terms):
        total = total * x + term
    return total


class ContinuousBernoulli(OfTrials, ExponentialFamily):
    """The distribution on [0, 1] of a density proportional to exp(`logits` x).

    Formulas hold for all logits; `lims` is taken as PyTorch takes it, and has no effect.

    >>> import contraflow as cf
    >>> cf.distributions.ContinuousBernoulli(cf.tensor([0.2, 0.5])).mean
    tensor([0.3880, 0.5000])
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        super().__init__(self._give(probs, logits).shape, validate_args=validate_args)
        if "probs" in self.__dict__:
            self.probs = clamp_probs(self.probs)

    def _sides(self) -> tuple[Tensor, Tensor]:
        """Where logits are positive, and minus their absolute values, which are never 0."""
        logits = self.logits
        return logits > 0, -where(logits == 0, 1e-9, logits).abs()

    @property
    def mean(self) -> Tensor:
        logits = self.logits
        near = logits.abs() < _NEAR
        far = where(near, 1.0, logits)
        x = where(near, logits, 0.0)
        series = _series(x * x, 1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160)
        return where(near, 0.5 + x * series, -1 / (-far).expm1() - 1 / far)

    @property
    def variance(self) -> Tensor:
        logits = self.logits
        near = logits.abs() < _NEAR
        far = where(near, 1.0, logits)
        x = where(near, logits, 0.0)
        series = _series(x * x, 1 / 12, -1 / 240, 1 / 6048, -1 / 172800, 1 / 5322240)
        half = 2 * sinh(0.5 * far)
        return where(near, series, 1 / (far * far) - 1 / (half * half))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.icdf(standard_uniform(self._extended_shape(sample_shape), self._param))

    def log_prob(self, value: Tensor) -> Tensor:
        return self._given(value) * self.logits - self._log_normalizer(self.logits)

    def cdf(self, value: Tensor) -> Tensor:
        # Of positive logits by 1 - x, so that no exponential overflows.
        value = self._given(value)
        positive, fall = self._sides()
        found = (fall * where(positive, 1 - value, value)).expm1() / fall.expm1()
        return where(positive, 1 - found, found)

    def icdf(self, value: Tensor) -> Tensor:
        positive, fall = self._sides()
        found = (where(positive, 1 - value, value) * fall.expm1()).log1p() / fall
        return where(positive, 1 - found, found)

    def entropy(self) -> Tensor:
        return self._log_normalizer(self.logits) - self.mean * self.logits

    def _log_constant(self) -> Tensor:
        """The logarithm of the density over p**x (1 - p)**(1 - x)."""
        return -self._log_normalizer(self.logits) - logsigmoid(-self.logits)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        # log((exp(x) - 1) / x) = x / 2 + log(sinh(x / 2) / (x / 2)), whose last term is even.
        near = x.abs() < _NEAR
        small, large = where(near, x, 0.0), where(near, 1.0, x).abs()
        square = small * small
        series = square * _series(
            square, 1 / 24, -1 / 2880, 1 / 181440, -1 / 9676800, 1 / 479001600
        )
        return 0.5 * x + where(near, series, 0.5 * large + (-(-large).expm1() / large).log())
