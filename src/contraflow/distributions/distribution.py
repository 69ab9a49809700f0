"""The base of all distributions: shapes, sampling, and checks of parameters and values.

A distribution stores tensors that begin with its batch dims; `expand` of the base class relies on
it, so that nearly no distribution has one of its own. Nothing is cached: what follows from the
parameters is computed where it is asked for, so that a distribution made outside of a compiled
function can be used inside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

from contraflow.autograd.modes import no_grad
from contraflow.distributions import constraints
from contraflow.distributions.constraints import Constraint
from contraflow.distributions.utils import lazy_property
from contraflow.errors import describe
from contraflow.operation.context import apply, changed
from contraflow.ops.creation.checks import constrained, constraint
from contraflow.ops.creation.create import arange
from contraflow.ops.elementwise.basic import exp
from contraflow.shapes import Shape, Sizes, broadcast_shapes
from contraflow.tensors.tensor import Tensor


class Distribution:
    """The base of distributions; samples have the shape sample_shape + batch_shape + event_shape.

    The dims of `batch_shape` are independent distributions with parameters of their own, those of
    `event_shape` make one event. With `validate_args`, the default, parameters and values are
    checked against `arg_constraints` and `support`.

    >>> import contraflow as cf
    >>> d = cf.distributions.Normal(cf.zeros(3), 1.0)
    >>> d.batch_shape, d.event_shape, d.sample((2,)).shape
    ((3,), (), (2, 3))
    """

    has_rsample = False
    has_enumerate_support = False
    arg_constraints: Any = {}
    support: Any = None
    _validate_args: ClassVar[bool] = True
    made_of_attributes = True  # compiled functions may make distributions, and return them

    def __init__(
        self,
        batch_shape: Sequence[int] = (),
        event_shape: Sequence[int] = (),
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape, self._event_shape = tuple(batch_shape), tuple(event_shape)
        if validate_args is not None:
            self.__dict__["_validate_args"] = validate_args
        if self._validate_args:
            self._check_parameters()

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Say whether distributions that are made from now on check their arguments."""
        if not isinstance(value, bool):
            raise ValueError(f"set_default_validate_args: {value!r} is neither True nor False.")
        Distribution._validate_args = value

    # --- shapes ---------------------------------------------------------------------------

    @property
    def batch_shape(self) -> Sizes:
        """The shape of the parameters: that many independent distributions."""
        return Sizes(self._batch_shape)

    @property
    def event_shape(self) -> Sizes:
        """The shape of one event."""
        return Sizes(self._event_shape)

    def _extended_shape(self, sample_shape: Sequence[int] = ()) -> Shape:
        """The shape of a draw: that of the sample, then the batch, then the event."""
        return (*sample_shape, *self._batch_shape, *self._event_shape)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        """The same distribution with parameters expanded to a batch shape; memory is shared.

        >>> import contraflow as cf
        >>> cf.distributions.Normal(0.0, 1.0).expand((2, 3)).batch_shape
        (2, 3)
        """
        new = type(self).__new__(type(self)) if _instance is None else _instance
        own = len(self._batch_shape)
        for name, value in self.__dict__.items():
            if isinstance(value, Tensor):
                value = value.expand(*batch_shape, *value.shape[own:])
            elif isinstance(value, Distribution):
                value = value.expand((*batch_shape, *value.batch_shape[own:]))
            new.__dict__[name] = value
        new._batch_shape = tuple(batch_shape)
        found: Self = new
        return found

    # --- what subclasses say --------------------------------------------------------------

    @property
    def mean(self) -> Tensor:
        """The mean, of shape batch_shape + event_shape."""
        raise NotImplementedError(self._lacks("mean"))

    @property
    def mode(self) -> Tensor:
        """The mode, of shape batch_shape + event_shape."""
        raise NotImplementedError(self._lacks("mode"))

    @property
    def variance(self) -> Tensor:
        """The variance, of shape batch_shape + event_shape."""
        raise NotImplementedError(self._lacks("variance"))

    @property
    def stddev(self) -> Tensor:
        """The standard deviation, of shape batch_shape + event_shape."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """A draw, or as many as `sample_shape` says, which has no gradient."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """A draw that is a differentiable function of the parameters."""
        raise NotImplementedError(self._lacks("rsample"))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or probability, at each event of `value`."""
        raise NotImplementedError(self._lacks("log_prob"))

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most `value`."""
        raise NotImplementedError(self._lacks("cdf"))

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of `cdf`: the quantiles at probabilities."""
        raise NotImplementedError(self._lacks("icdf"))

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a discrete distribution along a new first dim.

        Without `expand` the batch dims have size one.
        """
        raise NotImplementedError(self._lacks("enumerate_support"))

    def _first_numbers(self, n: int, like: Tensor, expand: bool) -> Tensor:
        """0, ..., n - 1 along a new first dim, in the dtype and on the device of a parameter."""
        numbers: Tensor = arange(n, dtype=like.dtype, device=like.device)
        numbers = numbers.reshape(n, *(1,) * len(self._batch_shape))
        return numbers.expand(n, *self._batch_shape) if expand else numbers

    def entropy(self) -> Tensor:
        """The entropy, of shape batch_shape."""
        raise NotImplementedError(self._lacks("entropy"))

    def perplexity(self) -> Tensor:
        """exp(entropy)."""
        return exp(self.entropy())

    def _lacks(self, what: str) -> str:
        return f"{type(self).__name__}: it has no {what}."

    # --- checks ---------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        """Refuse parameters that are not where `arg_constraints` wants them."""
        given: Mapping[str, Constraint] = self.arg_constraints
        for name, allowed in given.items():
            derived = isinstance(getattr(type(self), name, None), lazy_property)
            if constraints.is_dependent(allowed) or (derived and name not in self.__dict__):
                continue
            value = getattr(self, name)
            if isinstance(value, Tensor):
                self._check_parameter(name, value, allowed)

    def _check_parameter(self, name: str, value: Tensor, allowed: Constraint) -> None:
        """Check a parameter; a recorded check is carried by it, and by what was made of it."""
        carriers = [(self.__dict__, name)] if name in self.__dict__ else []
        for attributes in self._inside() if carriers else self._inside(self):
            carriers += [(attributes, k) for k, x in attributes.items() if isinstance(x, Tensor)][
                :1
            ]
        for attributes, stored in carriers:
            carrier = attributes[stored]
            dims = carrier.ndim - value.ndim + allowed.event_dim
            attributes[stored] = self._checked(name, value, allowed, carrier, dims)
            if attributes[stored] is carrier:  # it was looked at, once and for all
                break

    def _inside(self, *also: Distribution) -> Iterator[dict[str, Any]]:
        """The attributes of the distributions that this one is made of."""
        held = (value for value in self.__dict__.values() if isinstance(value, Distribution))
        for inner in (*also, *held):
            yield inner.__dict__
            if inner is not self:
                yield from inner._inside()

    def _given(self, value: Tensor) -> Tensor:
        """A value at which something is asked for, checked if arguments are."""
        return self._validate_sample(value) if self._validate_args else value

    def _validate_sample(self, value: Tensor) -> Tensor:
        """A value whose shape and elements are those of samples, or an error."""
        name = type(self).__name__
        if not isinstance(value, Tensor):
            raise TypeError(f"{name}: a value is a tensor, not {type(value).__name__}.")
        dims = len(self._event_shape)
        event = value.shape[value.ndim - dims :]
        if value.ndim < dims or any(
            1 not in (n, m) and n != m for n, m in zip(event, self._event_shape)
        ):
            raise ValueError(
                f"{name}: the last dims of {describe(value)} must be those of an event, "
                f"{self._event_shape}."
            )
        broadcast_shapes(name, [value.shape, self._extended_shape()])
        try:
            support = self.support
        except NotImplementedError:
            return value
        return value if support is None else self._checked("value", value, support)

    def _checked(
        self, what: str, value: Tensor, allowed: Constraint, carrier: Tensor | None = None,
        dims: int | None = None,
    ) -> Tensor:  # fmt: skip
        """The value, or its carrier, where the value satisfies a constraint.

        While a function is recorded, or batched by `vmap`, elements cannot be looked at. The check
        is an op then, whose result is the value itself, or a carrier: a tensor that is used, each
        of whose events, of `dims` dims, belongs to one of the value.
        """
        with changed(grad=False):
            valid = allowed.check(value)
        carrier = value if carrier is None else carrier
        subject = type(self).__name__
        if valid.storage.is_recorded:
            dims = allowed.event_dim if dims is None else dims
            spread = valid.reshape(*valid.shape, *(1,) * dims)
            return apply(
                constrained,
                (carrier, spread),
                constraint(subject, f"{what} must be {allowed.rule}"),
            )
        if not valid.fetched().all():
            wrong = f"; {_first(value, valid)} is not" if not allowed.event_dim else ""
            raise ValueError(
                f"{subject}: {what} is {describe(value)} and must be {allowed.rule}{wrong}."
            )
        return carrier

    def __repr__(self) -> str:
        shown = []
        for name in self.arg_constraints:
            value = self.__dict__.get(name)
            if isinstance(value, Tensor):
                small = value.numel() == 1 and not value.storage.is_recorded
                shown.append(f"{name}: {value.item() if small else value.shape}")
        return f"{type(self).__name__}({', '.join(shown)})"


def _first(value: Tensor, valid: Tensor) -> float:
    """The first element of a value that is not valid."""
    flat = value.expand(*valid.shape).reshape(-1)
    return float(flat[int((~valid.reshape(-1)).int().argmax())])
