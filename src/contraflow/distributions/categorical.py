"""The categorical distribution."""

from __future__ import annotations

from collections.abc import Sequence

from contraflow.autograd.modes import no_grad
from contraflow.distributions import constraints
from contraflow.distributions.distribution import Distribution
from contraflow.distributions.probabilities import OfClasses, check_choice
from contraflow.distributions.utils import SMALLEST
from contraflow.dtypes import int64
from contraflow.ops.creation.create import arange, full
from contraflow.ops.creation.sampling import multinomial
from contraflow.ops.index.gather import gather
from contraflow.ops.shape.view import broadcast_tensors
from contraflow.shapes import numel
from contraflow.tensors.tensor import Tensor


class Categorical(OfClasses):
    """The index of a class, with the weights `probs` or softmax(`logits`) [..., classes].

    >>> import contraflow as cf
    >>> d = cf.distributions.Categorical(cf.tensor([1.0, 1.0, 2.0]))
    >>> d.probs, d.log_prob(cf.tensor(2))
    (tensor([0.2500, 0.2500, 0.5000]), tensor(-0.6931))
    """

    arg_constraints = {
        "probs": constraints.simplex,
        "logits": constraints.real_vector,
    }
    has_enumerate_support = True

    def __init__(
        self,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        shape = self._give(probs, logits).shape
        self._num_events = shape[-1]
        super().__init__(shape[:-1], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> constraints.Constraint:
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        return self._undefined()

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        return self._undefined()

    def _undefined(self) -> Tensor:
        """Classes have no order, and so no mean."""
        given = self._param
        return full(self._batch_shape, float("nan"), dtype=given.dtype, device=given.device)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            rows = self.probs.reshape(-1, self._num_events)
            drawn = multinomial(rows, numel(sample_shape), True)
            return drawn.T.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._given(value)
        at, logits = broadcast_tensors(value.to(int64).unsqueeze(-1), self.logits)
        return gather(logits, -1, at[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        # A logit of -inf is a probability of 0, and their product should be 0 too.
        logits = self.logits.clamp(min=-1 / SMALLEST[self.logits.dtype])
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        numbers: Tensor = arange(self._num_events, dtype=int64, device=self._param.device)
        return self._first_numbers(self._num_events, numbers, expand)


class WithCategorical(Distribution):
    """Distributions of vectors [..., classes] that are made of a categorical one."""

    def __init__(
        self, probs: Tensor | None, logits: Tensor | None, validate_args: bool | None
    ) -> None:
        check_choice(type(self).__name__, probs, logits)
        self._categorical = Categorical(probs, logits, validate_args=False)
        super().__init__(
            self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args
        )

    def _check_parameters(self) -> None:
        """Check the one of `probs` and `logits` that was given."""
        given = self._categorical.__dict__
        for name in ("probs", "logits"):
            if name in given:
                given[name] = self._checked(name, given[name], self.arg_constraints[name])

    @property
    def probs(self) -> Tensor:
        """The probabilities [..., classes]."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Their logarithms."""
        return self._categorical.logits

    @property
    def param_shape(self) -> tuple[int, ...]:
        """The shape of the parameter that was given."""
        return self._categorical.param_shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}({repr(self._categorical).split('(', 1)[1]}"
