"""Which transform leads from unconstrained numbers to the set of a constraint.

`biject_to(constraint)` gives a one-to-one transform, for densities; `transform_to(constraint)` one
that optimizers like, which need not be.

>>> import contraflow as cf
>>> d = cf.distributions
>>> scale = d.transform_to(d.Normal.arg_constraints["scale"])
>>> scale(cf.tensor(0.0)), d.biject_to(d.constraints.simplex)(cf.zeros(1))
(tensor(1.), tensor([0.5000, 0.5000]))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from contraflow.distributions import constraints as c
from contraflow.distributions import transforms as t
from contraflow.distributions.constraints import Constraint
from contraflow.distributions.transform import Transform

Factory = Callable[[Any], Transform]


class ConstraintRegistry:
    """Transforms by the class of the constraint that they lead to.

    >>> import contraflow as cf
    >>> from contraflow.distributions import constraints
    >>> cf.distributions.biject_to(constraints.positive)(cf.zeros(2))
    tensor([1., 1.])
    >>> cf.distributions.transform_to(constraints.simplex)(cf.zeros(2))
    tensor([0.5000, 0.5000])
    """

    def __init__(self) -> None:
        self._registry: dict[type, Factory] = {}

    @overload
    def register(self, constraint: Any) -> Callable[[Factory], Factory]: ...

    @overload
    def register(self, constraint: Any, factory: Factory) -> Factory: ...

    def register(self, constraint: Any, factory: Factory | None = None) -> Any:
        """Register a function that makes the transform for a constraint, or for its class.

        Without the function it is a decorator.
        """
        if factory is None:
            return lambda given: self.register(constraint, given)
        kind = constraint if isinstance(constraint, type) else type(constraint)
        if not issubclass(kind, Constraint):
            raise TypeError(
                f"register: {constraint!r} is neither a Constraint nor a class of them."
            )
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Constraint) -> Transform:
        """The transform to a constraint."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(
                f"{type(constraint).__name__.lstrip('_')}: there is no transform to this "
                f"constraint. Register one: biject_to.register, transform_to.register."
            )
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _both(*given: Any) -> Callable[[Factory], Factory]:
    def decorator(factory: Factory) -> Factory:
        for constraint in given:
            biject_to.register(constraint, factory)
            transform_to.register(constraint, factory)
        return factory

    return decorator


@_both(c.real)
def _to_real(constraint: Any) -> Transform:
    return t.identity_transform


@biject_to.register(c.independent)
def _biject_to_independent(constraint: Any) -> Transform:
    base = biject_to(constraint.base_constraint)
    return t.IndependentTransform(base, constraint.reinterpreted_batch_ndims)


@transform_to.register(c.independent)
def _transform_to_independent(constraint: Any) -> Transform:
    base = transform_to(constraint.base_constraint)
    return t.IndependentTransform(base, constraint.reinterpreted_batch_ndims)


@_both(c.positive, c.nonnegative)
def _to_above(constraint: Any) -> Transform:
    if isinstance(constraint.lower_bound, float) and constraint.lower_bound == 0:
        return t.ExpTransform()
    return t.ComposeTransform([t.ExpTransform(), t.AffineTransform(constraint.lower_bound, 1)])


@_both(c.less_than)
def _to_below(constraint: Any) -> Transform:
    return t.ComposeTransform([t.ExpTransform(), t.AffineTransform(constraint.upper_bound, -1)])


@_both(c.interval, c.half_open_interval)
def _to_interval(constraint: Any) -> Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, float) and isinstance(high, float) and (low, high) == (0.0, 1.0):
        return t.SigmoidTransform()
    return t.ComposeTransform([t.SigmoidTransform(), t.AffineTransform(low, high - low)])


@biject_to.register(c.simplex)
def _biject_to_simplex(constraint: Any) -> Transform:
    return t.StickBreakingTransform()


@transform_to.register(c.simplex)
def _transform_to_simplex(constraint: Any) -> Transform:
    return t.SoftmaxTransform()


@_both(c.lower_cholesky)
def _to_lower_cholesky(constraint: Any) -> Transform:
    return t.LowerCholeskyTransform()


@_both(c.positive_definite, c.positive_semidefinite)
def _to_positive_definite(constraint: Any) -> Transform:
    return t.PositiveDefiniteTransform()


@_both(c.corr_cholesky)
def _to_corr_cholesky(constraint: Any) -> Transform:
    return t.CorrCholeskyTransform()


@biject_to.register(c.cat)
def _biject_to_cat(constraint: Any) -> Transform:
    return t.CatTransform(list(map(biject_to, constraint.cseq)), constraint.dim, constraint.lengths)


@transform_to.register(c.cat)
def _transform_to_cat(constraint: Any) -> Transform:
    parts = list(map(transform_to, constraint.cseq))
    return t.CatTransform(parts, constraint.dim, constraint.lengths)


@biject_to.register(c.stack)
def _biject_to_stack(constraint: Any) -> Transform:
    return t.StackTransform(list(map(biject_to, constraint.cseq)), constraint.dim)


@transform_to.register(c.stack)
def _transform_to_stack(constraint: Any) -> Transform:
    return t.StackTransform(list(map(transform_to, constraint.cseq)), constraint.dim)
