"""Categorical distributions whose values are one-hot vectors."""

from __future__ import annotations

from collections.abc import Sequence

from contraflow.autograd.modes import no_grad
from contraflow.distributions import constraints
from contraflow.distributions.categorical import WithCategorical
from contraflow.ops.creation.create import eye
from contraflow.ops.index.search import one_hot
from contraflow.tensors.tensor import Tensor


class OneHotCategorical(WithCategorical):
    """A class as a one-hot vector [..., classes], with the weights `probs` or softmax(`logits`).

    >>> import contraflow as cf
    >>> d = cf.distributions.OneHotCategorical(cf.tensor([0.0, 1.0, 0.0]))
    >>> d.sample()
    tensor([0., 1., 0.])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(
        self,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        super().__init__(probs, logits, validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return self._one_hot(self._categorical.mode)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def _one_hot(self, classes: Tensor) -> Tensor:
        return one_hot(classes, self._event_shape[0]).to(self._categorical._param.dtype)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return self._one_hot(self._categorical.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        return self._categorical.log_prob(self._given(value).argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n, given = self._event_shape[0], self._categorical._param
        values = eye(n, dtype=given.dtype, device=given.device)
        values = values.reshape(n, *(1,) * len(self._batch_shape), n)
        return values.expand(n, *self._batch_shape, n) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """One-hot vectors whose gradient is taken to be that of the probabilities.

    >>> import contraflow as cf
    >>> p = cf.tensor([0.5, 0.5], requires_grad=True)
    >>> cf.distributions.OneHotCategoricalStraightThrough(p).rsample()[0].backward()
    >>> p.grad
    tensor([ 0.5000, -0.5000])
    """

    has_rsample = True

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        probs = self.probs
        return self.sample(sample_shape) + (probs - probs.detach())
