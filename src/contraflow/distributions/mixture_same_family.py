"""Mixtures of distributions of one family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from contraflow.autograd.modes import no_grad
from contraflow.distributions import constraints
from contraflow.distributions.categorical import Categorical
from contraflow.distributions.distribution import Distribution
from contraflow.ops.index.gather import gather
from contraflow.ops.nn.norm import log_softmax
from contraflow.ops.reduction.reduce import logsumexp
from contraflow.tensors.tensor import Tensor


class MixtureSameFamily(Distribution):
    """A draw of one of n components, which are the last batch dim of `component_distribution`.

    `mixture_distribution` is a `Categorical` over the n components.

    >>> import contraflow as cf
    >>> d = cf.distributions
    >>> components = d.Normal(cf.tensor([-1.0, 1.0]), 0.5)
    >>> d.MixtureSameFamily(d.Categorical(cf.ones(2)), components).variance
    tensor(1.2500)
    """

    arg_constraints: Any = {}

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        mixture, components = mixture_distribution, component_distribution
        if not isinstance(mixture, Categorical):
            raise ValueError(
                f"MixtureSameFamily: the mixture distribution is a {type(mixture).__name__}; it "
                f"must be a Categorical."
            )
        if not isinstance(components, Distribution) or not components.batch_shape:
            raise ValueError(
                "MixtureSameFamily: the component distribution needs a batch dim of components."
            )
        count, batch = components.batch_shape[-1], components.batch_shape[:-1]
        for n, m in zip(reversed(mixture.batch_shape), reversed(batch)):
            if 1 not in (n, m) and n != m:
                raise ValueError(
                    f"MixtureSameFamily: the batch shapes {mixture.batch_shape} of the mixture and "
                    f"{batch} of the components do not broadcast."
                )
        if mixture.param_shape[-1] != count:
            raise ValueError(
                f"MixtureSameFamily: the mixture has {mixture.param_shape[-1]} classes, and there "
                f"are {count} components."
            )
        self._mixture_distribution = mixture.expand(batch)
        self._component_distribution = components
        self._num_component = count
        super().__init__(batch, components.event_shape, validate_args)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return False

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.mixture_same_family(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """The distribution of the choice between components."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The distributions that are chosen between."""
        return self._component_distribution

    def _weights(self) -> Tensor:
        """The probabilities of the components, with dims for an event."""
        probs = self._mixture_distribution.probs
        return probs.reshape(*probs.shape, *(1,) * len(self._event_shape))

    def _padded(self, value: Tensor) -> Tensor:
        return value.unsqueeze(-1 - len(self._event_shape))

    @property
    def mean(self) -> Tensor:
        dim = -1 - len(self._event_shape)
        return (self._weights() * self._component_distribution.mean).sum(dim)

    @property
    def variance(self) -> Tensor:
        dim, weights = -1 - len(self._event_shape), self._weights()
        within = (weights * self._component_distribution.variance).sum(dim)
        apart = self._component_distribution.mean - self._padded(self.mean)
        return within + (weights * apart * apart).sum(dim)

    def cdf(self, value: Tensor) -> Tensor:
        found = self._component_distribution.cdf(self._padded(value))
        return (found * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._given(value)
        each = self._component_distribution.log_prob(self._padded(value))
        return logsumexp(each + log_softmax(self._mixture_distribution.logits, -1), -1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            dims = len(self._event_shape)
            chosen = self._mixture_distribution.sample(sample_shape)
            drawn = self._component_distribution.sample(sample_shape)
            chosen = chosen.reshape(*chosen.shape, *(1,) * (dims + 1))
            dim = drawn.ndim - dims - 1
            chosen = chosen.expand(*chosen.shape[: dim + 1], *self._event_shape)
            return gather(drawn, dim, chosen).squeeze(dim)

    def __repr__(self) -> str:
        return (
            f"MixtureSameFamily({self._mixture_distribution!r}, {self._component_distribution!r})"
        )
