"""The multinomial distribution."""

from __future__ import annotations

from collections.abc import Sequence

from contraflow.autograd.modes import no_grad
from contraflow.distributions import constraints
from contraflow.distributions.binomial import Binomial
from contraflow.distributions.categorical import WithCategorical
from contraflow.ops.elementwise.basic import where
from contraflow.ops.index.search import one_hot
from contraflow.tensors.tensor import Tensor


class Multinomial(WithCategorical):
    """How often each class occurs [..., classes] in `total_count` draws of a categorical variate.

    >>> import contraflow as cf
    >>> d = cf.distributions.Multinomial(8, cf.tensor([1.0, 1.0, 2.0]))
    >>> d.mean, d.sample().sum()
    (tensor([2., 2., 4.]), tensor(8.))
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError(
                f"Multinomial: total_count is a {type(total_count).__name__}; it must be one "
                f"integer for the whole batch."
            )
        self.total_count = total_count
        super().__init__(probs, logits, validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> constraints.Constraint:
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            drawn = self._categorical.sample((self.total_count, *sample_shape))
            counts = one_hot(drawn, self._event_shape[0]).sum(0)
            return counts.to(self._categorical._param.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._given(value)
        # A count of 0 of a class of probability 0 counts nothing.
        terms = where((value == 0) & (self.logits < -1e30), 0.0, self.logits) * value
        return (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1) + terms.sum(-1)

    def entropy(self) -> Tensor:
        n = self.total_count
        each = Binomial(n, self.probs, validate_args=False)
        counts = each._first_numbers(n + 1, self.probs, expand=False)[1:]
        log_factorials = (each.log_prob(counts).exp() * (counts + 1).lgamma()).sum((0, -1))
        own = (self.probs * 0).sum(-1) + n + 1
        return n * self._categorical.entropy() - own.lgamma() + log_factorials
