"""Distributions of transformed random variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from contraflow.autograd.modes import no_grad
from contraflow.distributions import constraints
from contraflow.distributions.distribution import Distribution
from contraflow.distributions.independent import Independent
from contraflow.distributions.transform import ComposeTransform, Transform
from contraflow.distributions.utils import sum_rightmost
from contraflow.shapes import Shape
from contraflow.tensors.tensor import Tensor


class TransformedDistribution(Distribution):
    """The distribution of t(x), where x has the distribution `base_distribution`.

    `transforms` are one transform or several, one after the other.

    >>> import contraflow as cf
    >>> d = cf.distributions
    >>> t = d.TransformedDistribution(d.Normal(0.0, 1.0), [d.transforms.ExpTransform()])
    >>> t.log_prob(cf.tensor(1.0)), d.LogNormal(0.0, 1.0).log_prob(cf.tensor(1.0))
    (tensor(-0.9189), tensor(-0.9189))
    """

    arg_constraints: Any = {}

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | Sequence[Transform],
        validate_args: bool | None = None,
    ) -> None:
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        for t in self.transforms:
            if not isinstance(t, Transform):
                raise TypeError(
                    f"TransformedDistribution: {type(t).__name__} is not a Transform, nor a list."
                )
        base, whole = base_distribution, ComposeTransform(self.transforms)
        shape = (*base.batch_shape, *base.event_shape)
        if len(shape) < whole.domain.event_dim:
            raise ValueError(
                f"TransformedDistribution: the transforms need events of "
                f"{whole.domain.event_dim} dims, and the base has the shape {shape}."
            )
        # The base has parameters as many as the transforms make of it, and their events.
        wider = whole.inverse_shape(whole.forward_shape(shape))
        if wider != shape:
            base = base.expand(wider[: len(wider) - len(base.event_shape)])
        missing = whole.domain.event_dim - len(base.event_shape)
        self.base_dist: Any = Independent(base, missing) if missing > 0 else base
        batch, event = self._shapes()
        super().__init__(batch, event, validate_args)

    def _shapes(self) -> tuple[Shape, Shape]:
        """The batch shape and the event shape of what the transforms give."""
        whole, base = ComposeTransform(self.transforms), self.base_dist
        shape = whole.forward_shape((*base.batch_shape, *base.event_shape))
        grown = whole.codomain.event_dim - whole.domain.event_dim
        cut = len(shape) - max(len(base.event_shape) + grown, whole.codomain.event_dim)
        return shape[:cut], shape[cut:]

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = type(self).__new__(type(self)) if _instance is None else _instance
        own = len(self._batch_shape)
        for name, value in self.__dict__.items():
            if isinstance(value, Tensor):
                value = value.expand(*batch_shape, *value.shape[own:])
            new.__dict__[name] = value
        shape = ComposeTransform(self.transforms).inverse_shape((*batch_shape, *self._event_shape))
        cut = len(shape) - len(self.base_dist.event_shape)
        new.base_dist = self.base_dist.expand(shape[:cut])
        new._batch_shape = tuple(batch_shape)
        return new

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        extra = len(self._event_shape) - support.event_dim
        return constraints.independent(support, extra) if extra > 0 else support

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return self._transformed(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._transformed(self.base_dist.rsample(sample_shape))

    def _transformed(self, x: Tensor) -> Tensor:
        for t in self.transforms:
            x = t(x)
        return x

    def log_prob(self, value: Tensor) -> Tensor:
        # Caches know the value itself, and not the result of its check in a recording.
        recorded = self._given(value) is not value
        y, dims, total = value, len(self._event_shape), None
        for t in reversed(self.transforms):
            x = t._inv_call(y)
            dims += t.domain.event_dim - t.codomain.event_dim
            term = sum_rightmost(t.log_abs_det_jacobian(x, y), dims - t.domain.event_dim)
            total = term if total is None else total + term
            y = x
        found = sum_rightmost(self.base_dist.log_prob(y), dims - len(self.base_dist.event_shape))
        found = found if total is None else found - total
        if recorded:
            found = self._checked("value", value, self.support, found, 0)
        return found

    def _sign(self) -> Any:
        sign: Any = 1
        for t in self.transforms:
            sign = sign * t.sign
        return sign

    def cdf(self, value: Tensor) -> Tensor:
        value = self._given(value)
        for t in reversed(self.transforms):
            value = t._inv_call(value)
        return self._mirrored(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        return self._transformed(self.base_dist.icdf(self._mirrored(value)))

    def _mirrored(self, probability: Tensor) -> Tensor:
        """1 - p where the transforms are decreasing."""
        sign = self._sign()
        if isinstance(sign, int) and sign == 1:
            return probability
        return sign * (probability - 0.5) + 0.5


class Relaxed(TransformedDistribution):
    """The part of distributions that approach discrete ones as their `temperature` goes to 0."""

    def _check_parameters(self) -> None:
        """Nothing to check: the base has done it."""

    @property
    def temperature(self) -> Tensor:
        """How far from those of the discrete distribution samples are."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """The logits of the discrete distribution, as those of its class."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """The probabilities of the discrete distribution."""
        return self.base_dist.probs
