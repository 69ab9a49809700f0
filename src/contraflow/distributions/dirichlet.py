"""The Dirichlet distribution."""

from __future__ import annotations

from collections.abc import Sequence

from contraflow.distributions import constraints
from contraflow.distributions.exp_family import ExponentialFamily
from contraflow.errors import describe
from contraflow.ops.creation.gamma import standard_log_gamma
from contraflow.ops.elementwise.basic import where
from contraflow.ops.elementwise.mathematics import xlogy
from contraflow.ops.index.search import one_hot
from contraflow.ops.nn.norm import softmax
from contraflow.tensors.tensor import Tensor


class Dirichlet(ExponentialFamily):
    """Shares [..., classes] with the sum 1, around `concentration` [..., classes].

    >>> import contraflow as cf
    >>> cf.distributions.Dirichlet(cf.tensor([1.0, 1.0, 2.0])).mean
    tensor([0.2500, 0.2500, 0.5000])
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if not isinstance(concentration, Tensor) or not concentration.ndim:
            raise ValueError(
                f"Dirichlet: concentration is {describe(concentration)}; it needs a dim of "
                f"classes, the last."
            )
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    @property
    def mode(self) -> Tensor:
        less = (self.concentration - 1).clamp(min=0.0)
        interior = less / less.sum(-1, keepdim=True)
        # Where no concentration is above 1 the density is largest at a corner.
        corner = one_hot(self.concentration.argmax(-1), self._event_shape[0]).to(less.dtype)
        return where((self.concentration < 1).all(-1, keepdim=True), corner, interior)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, keepdim=True)
        mean = self.concentration / total
        return mean * (1 - mean) / (total + 1)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        # Gamma variates over their sum; their logarithms do not become 0.
        return softmax(standard_log_gamma(self.concentration.expand(shape)), -1)

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._given(value)
        return (
            xlogy(self.concentration - 1, value).sum(-1)
            + self.concentration.sum(-1).lgamma()
            - self.concentration.lgamma().sum(-1)
        )

    def entropy(self) -> Tensor:
        classes, total = self._event_shape[0], self.concentration.sum(-1)
        return (
            self.concentration.lgamma().sum(-1)
            - total.lgamma()
            - (classes - total) * total.digamma()
            - ((self.concentration - 1) * self.concentration.digamma()).sum(-1)
        )

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration,)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return x.lgamma().sum(-1) - x.sum(-1).lgamma()
