"""Constraints: sets of values, such as the positive numbers, that parameters and samples lie in.

A constraint is an object with a method `check`, which says for each event of a tensor whether it is
in the set: the last `event_dim` dims are one event, and the result has the others. `rule` completes
"must be ..." in the message for a value outside of the set.

>>> import contraflow as cf
>>> constraints = cf.distributions.constraints
>>> constraints.interval(0.0, 2.0).check(cf.tensor([-1.0, 1.0]))
tensor([False,  True])
>>> constraints.simplex.check(cf.tensor([[0.5, 0.5], [0.5, 0.6]]))
tensor([ True, False])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from contraflow.ops.creation.create import ones_like
from contraflow.ops.elementwise.arithmetic import isclose, isfinite
from contraflow.ops.linalg.decompositions import eigvalsh
from contraflow.ops.shape.joining import cat as cat_tensors
from contraflow.ops.shape.joining import stack as stack_tensors
from contraflow.tensors.tensor import Tensor

BoundValue = Tensor | float


class Constraint:
    """A set of values. Subclasses say in `check` which events are in it, and in `rule` what it is.

    `check` takes a tensor [..., *event] and gives truth values [...], where an event has
    `event_dim` dims.

    >>> import contraflow as cf
    >>> cf.distributions.constraints.positive.check(cf.tensor([0.0, 1.0]))
    tensor([False,  True])
    """

    is_discrete = False
    event_dim = 0
    rule: Any = "in the set"

    def check(self, value: Tensor) -> Tensor:
        """Whether each event of a tensor is in the set."""
        raise NotImplementedError(f"{type(self).__name__}: it has no method check.")

    def __repr__(self) -> str:
        bounds = {name: x for name, x in vars(self).items() if name.endswith("_bound")}
        shown = ", ".join(f"{name}={_text(x, name[:5])}" for name, x in bounds.items())
        return f"{type(self).__name__.lstrip('_')}({shown})"


def _text(bound: BoundValue, side: str) -> str:
    """A bound in a message: the number, or which of many it is."""
    if isinstance(bound, Tensor) and (bound.numel() != 1 or bound.storage.is_recorded):
        return f"its {side} bound"
    return str(bound.item() if isinstance(bound, Tensor) else bound)


def _low(bound: BoundValue) -> str:
    return _text(bound, "lower")


def _high(bound: BoundValue) -> str:
    return _text(bound, "upper")


# --- sets that depend on parameters ------------------------------------------------------------


class _Dependent(Constraint):
    """A set that depends on other values, so that it has no `check` of its own."""

    def __init__(self, *, is_discrete: bool = False, event_dim: int = 0) -> None:
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, *, is_discrete: bool = False, event_dim: int = 0) -> _Dependent:
        """The same, of discrete values or of events with dims."""
        return _Dependent(is_discrete=is_discrete, event_dim=event_dim)

    def check(self, value: Tensor) -> Tensor:
        raise ValueError("constraints.dependent: it depends on other values, and checks none.")


class _DependentProperty(property, _Dependent):
    """A property of a distribution that gives a constraint; on the class it is a dependent one."""

    def __init__(
        self, function: Callable[[Any], Any] | None = None, *, is_discrete: bool = False,
        event_dim: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(function)
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, function: Any = None, **options: Any) -> Any:
        """The decorator with arguments: `@dependent_property(is_discrete=True)`."""
        return _DependentProperty(function, is_discrete=self.is_discrete, event_dim=self.event_dim)


def is_dependent(constraint: Any) -> bool:
    """Whether a constraint depends on other values."""
    return isinstance(constraint, _Dependent)


# --- numbers -----------------------------------------------------------------------------------


class _Real(Constraint):
    rule = "a number, not NaN"

    def check(self, value: Tensor) -> Tensor:
        return value == value


class _Boolean(Constraint):
    is_discrete = True
    rule = "0 or 1"

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


class _IntegerInterval(Constraint):
    """Whole numbers from `lower_bound` to `upper_bound`."""

    is_discrete = True

    def __init__(self, lower_bound: BoundValue, upper_bound: BoundValue) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    @property
    def rule(self) -> str:
        return f"a whole number from {_low(self.lower_bound)} to {_high(self.upper_bound)}"

    def check(self, value: Tensor) -> Tensor:
        inside = (value >= self.lower_bound) & (value <= self.upper_bound)
        return inside & _is_whole(value)


class _IntegerLessThan(Constraint):
    """Whole numbers up to `upper_bound`."""

    is_discrete = True

    def __init__(self, upper_bound: BoundValue) -> None:
        self.upper_bound = upper_bound

    @property
    def rule(self) -> str:
        return f"a whole number, at most {_high(self.upper_bound)}"

    def check(self, value: Tensor) -> Tensor:
        return (value <= self.upper_bound) & _is_whole(value)


class _IntegerGreaterThan(Constraint):
    """Whole numbers from `lower_bound` on."""

    is_discrete = True

    def __init__(self, lower_bound: BoundValue) -> None:
        self.lower_bound = lower_bound

    @property
    def rule(self) -> str:
        return f"a whole number, at least {_low(self.lower_bound)}"

    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & _is_whole(value)


def _is_whole(value: Tensor) -> Tensor:
    if not value.is_floating_point():
        return ones_like(value).bool()
    return value.floor() == value


class _GreaterThan(Constraint):
    """Numbers above `lower_bound`."""

    def __init__(self, lower_bound: BoundValue) -> None:
        self.lower_bound = lower_bound

    @property
    def rule(self) -> str:
        return f"greater than {_low(self.lower_bound)}"

    def check(self, value: Tensor) -> Tensor:
        return value > self.lower_bound


class _GreaterThanEq(Constraint):
    """Numbers from `lower_bound` on."""

    def __init__(self, lower_bound: BoundValue) -> None:
        self.lower_bound = lower_bound

    @property
    def rule(self) -> str:
        return f"at least {_low(self.lower_bound)}"

    def check(self, value: Tensor) -> Tensor:
        return value >= self.lower_bound


class _LessThan(Constraint):
    """Numbers below `upper_bound`."""

    def __init__(self, upper_bound: BoundValue) -> None:
        self.upper_bound = upper_bound

    @property
    def rule(self) -> str:
        return f"less than {_high(self.upper_bound)}"

    def check(self, value: Tensor) -> Tensor:
        return value < self.upper_bound


class _Interval(Constraint):
    """Numbers from `lower_bound` to `upper_bound`."""

    def __init__(self, lower_bound: BoundValue, upper_bound: BoundValue) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    @property
    def rule(self) -> str:
        return f"between {_low(self.lower_bound)} and {_high(self.upper_bound)}"

    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value <= self.upper_bound)


class _HalfOpenInterval(_Interval):
    """Numbers from `lower_bound` to `upper_bound`, which is not one of them."""

    @property
    def rule(self) -> str:
        return f"at least {_low(self.lower_bound)} and less than {_high(self.upper_bound)}"

    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value < self.upper_bound)


# --- vectors -----------------------------------------------------------------------------------


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1
    rule = "one 1 among zeros along the last dim"

    def check(self, value: Tensor) -> Tensor:
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _Simplex(Constraint):
    event_dim = 1
    rule = "nonnegative with the sum 1 along the last dim"

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _MultinomialCounts(Constraint):
    """Counts that add up to `upper_bound`."""

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: BoundValue) -> None:
        self.upper_bound = upper_bound

    @property
    def rule(self) -> str:
        return f"counts with the sum {_high(self.upper_bound)} along the last dim"

    def check(self, value: Tensor) -> Tensor:
        counts = (value >= 0) & _is_whole(value)
        return counts.all(-1) & (value.sum(-1) == self.upper_bound)


# --- matrices ----------------------------------------------------------------------------------


class _LowerTriangular(Constraint):
    event_dim = 2
    rule = "lower triangular in its last two dims"

    def check(self, value: Tensor) -> Tensor:
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(_LowerTriangular):
    rule = "lower triangular with a positive diagonal in its last two dims"

    def check(self, value: Tensor) -> Tensor:
        return super().check(value) & (value.diagonal(0, -2, -1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    rule = "lower triangular with a positive diagonal and rows of length 1 in its last two dims"

    def check(self, value: Tensor) -> Tensor:
        tolerance = 10 * value.shape[-1] * 2.0 ** (-52 if value.dtype.itemsize == 8 else -23)
        lengths = (value * value).sum(-1).sqrt()
        return super().check(value) & ((lengths - 1).abs() <= tolerance).all(-1)


class _Square(Constraint):
    event_dim = 2
    rule = "square in its last two dims"

    def check(self, value: Tensor) -> Tensor:
        truths: Tensor = isfinite(value).flatten(-2).any(-1)
        return (truths | True) if value.shape[-1] == value.shape[-2] else (truths & False)


class _Symmetric(_Square):
    rule = "symmetric in its last two dims"

    def check(self, value: Tensor) -> Tensor:
        square = super().check(value)
        if value.shape[-1] != value.shape[-2]:
            return square
        close: Tensor = isclose(value, value.mT, atol=1e-6)
        return close.flatten(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    rule = "symmetric and positive semidefinite in its last two dims"

    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if value.shape[-1] != value.shape[-2]:
            return symmetric
        return symmetric & (eigvalsh(value) >= 0).all(-1)


class _PositiveDefinite(_Symmetric):
    rule = "symmetric and positive definite in its last two dims"

    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if value.shape[-1] != value.shape[-2]:
            return symmetric
        return symmetric & (eigvalsh(value) > 0).all(-1)


# --- sets made of others -----------------------------------------------------------------------


class _IndependentConstraint(Constraint):
    """Events of a constraint together as one: their last dims become dims of the event."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        self.is_discrete = base_constraint.is_discrete
        self.event_dim = base_constraint.event_dim + reinterpreted_batch_ndims
        self.rule = base_constraint.rule

    def check(self, value: Tensor) -> Tensor:
        found = self.base_constraint.check(value)
        extra = self.reinterpreted_batch_ndims
        if found.ndim < extra:
            raise ValueError(
                f"constraints.independent: a value has at least {self.event_dim} dims, and this "
                f"has {value.ndim}."
            )
        return found.reshape(*found.shape[: found.ndim - extra], -1).all(-1) if extra else found

    def __repr__(self) -> str:
        return f"Independent({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class _CatConstraint(Constraint):
    """Stretches of a dim, each with a constraint of its own."""

    rule = "in the set of each of its parts"

    def __init__(
        self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None
    ) -> None:
        self.cseq, self.dim = list(cseq), dim
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        self.is_discrete = any(c.is_discrete for c in self.cseq)
        self.event_dim = max(c.event_dim for c in self.cseq)

    def check(self, value: Tensor) -> Tensor:
        dim, start, found = self.dim % value.ndim, 0, []
        for constraint, length in zip(self.cseq, self.lengths):
            found.append(constraint.check(value.narrow(dim, start, length)))
            start += length
        return cat_tensors(found, dim)


class _StackConstraint(Constraint):
    """Slices of a dim, each with a constraint of its own."""

    rule = "in the set of each of its slices"

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        self.cseq, self.dim = list(cseq), dim
        self.is_discrete = any(c.is_discrete for c in self.cseq)
        own = max(c.event_dim for c in self.cseq)
        self.event_dim = own + 1 if dim + own < 0 else own

    def check(self, value: Tensor) -> Tensor:
        dim = self.dim % value.ndim
        found = [c.check(value.select(dim, i)) for i, c in enumerate(self.cseq)]
        return stack_tensors(found, dim)


class _MixtureSameFamilyConstraint(Constraint):
    """The set of the samples of a mixture: that of its components, for one of them."""

    def __init__(self, base_constraint: Constraint) -> None:
        self.base_constraint = base_constraint
        self.is_discrete = base_constraint.is_discrete
        self.event_dim = base_constraint.event_dim

    @property
    def rule(self) -> str:
        return f"{self.base_constraint.rule}, for each component"

    def check(self, value: Tensor) -> Tensor:
        spread = value.unsqueeze(-1 - self.event_dim)
        return self.base_constraint.check(spread).all(-1)


# --- public names ------------------------------------------------------------------------------

dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _MultinomialCounts
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _CatConstraint
stack = _StackConstraint
mixture_same_family = _MixtureSameFamilyConstraint

__all__ = [
    "Constraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "mixture_same_family",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]
