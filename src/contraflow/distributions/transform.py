"""Transforms: invertible functions of random variables, and how they are composed.

A transform knows its inverse and log |dy / dx|, so that a density can be carried over
(`transformed_distribution.py`). The elementwise ones are in `elementwise_transforms.py`, those of
vectors and matrices in `event_transforms.py`; `transforms.py` has all of them.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from contraflow.distributions import constraints
from contraflow.distributions.constraints import Constraint
from contraflow.distributions.utils import sum_rightmost
from contraflow.ops.creation.create import zeros_like
from contraflow.shapes import Shape, numel
from contraflow.tensors.tensor import Tensor


class Transform:
    """The base of transforms: y = t(x), x = t.inv(y), and log |dy / dx|.

    With `cache_size=1` the last pair is kept while its result is: `t.inv(t(x))` is x itself then,
    also where rounding would lose it, as tanh does. Subclasses have `_call`, `_inverse` and
    `log_abs_det_jacobian`, and say by `domain` and `codomain` what they map to what.

    >>> import contraflow as cf
    >>> t = cf.distributions.transforms.ExpTransform()
    >>> t(cf.tensor([0.0, 1.0])), t.inv(cf.tensor([1.0, 2.0]))
    (tensor([1.0000, 2.7183]), tensor([0.0000, 0.6931]))
    """

    bijective = False
    made_of_attributes = True
    domain: Any = constraints.dependent
    codomain: Any = constraints.dependent

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError(f"{type(self).__name__}: cache_size is {cache_size}; it is 0 or 1.")
        self._cache_size = cache_size
        self._forward: Any = None  # the last x, as long as its y is there
        self._backward: Any = None  # the last y, as long as its x is there

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_forward": None, "_backward": None}

    def with_cache(self, cache_size: int = 1) -> Transform:
        """The same transform with a cache, or without."""
        if self._cache_size == cache_size:
            return self
        new = type(self).__new__(type(self))
        new.__dict__.update(self.__getstate__())
        new._cache_size = cache_size
        return new

    @property
    def event_dim(self) -> int:
        """The number of dims of an event, the same in and out."""
        if self.domain.event_dim != self.codomain.event_dim:
            raise ValueError(
                f"{type(self).__name__}: it has no event_dim, since events of "
                f"{self.domain.event_dim} dims become events of {self.codomain.event_dim}."
            )
        return int(self.domain.event_dim)

    @property
    def inv(self) -> Transform:
        """The inverse transform, of y to x."""
        return _InverseTransform(self)

    @property
    def sign(self) -> Any:
        """Whether it is increasing, 1, or decreasing, -1."""
        raise NotImplementedError(f"{type(self).__name__}: it has no sign.")

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def __call__(self, x: Tensor) -> Tensor:
        """y of x."""
        if not self._cache_size:
            return self._call(x)
        known = _recall(self._forward, self._backward, x)
        if known is not None:
            return known
        y = self._call(x)
        self._forward = _remember(x, y)
        return y

    def _inv_call(self, y: Tensor) -> Tensor:
        """x of y."""
        if not self._cache_size:
            return self._inverse(y)
        known = _recall(self._backward, self._forward, y)
        if known is not None:
            return known
        x = self._inverse(y)
        self._backward = _remember(y, x)
        return x

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__}: it has no method _call.")

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__}: it has no inverse.")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |dy / dx| of each event, of a pair x and y."""
        raise NotImplementedError(f"{type(self).__name__}: it has no log_abs_det_jacobian.")

    def forward_shape(self, shape: Sequence[int]) -> Shape:
        """The shape of y for a shape of x."""
        return tuple(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Shape:
        """The shape of x for a shape of y."""
        return tuple(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


# A pair is kept by its result: what it was made of is held, and dropped when the result dies. So a
# transform from outside of a compiled function holds nothing of the recording afterwards.
_Pair = tuple[dict["weakref.ref[Tensor]", Tensor], "weakref.ref[Tensor]"]


def _remember(given: Tensor, made: Tensor) -> _Pair:
    held: dict[weakref.ref[Tensor], Tensor] = {}
    key = weakref.ref(made, held.pop)
    held[key] = given
    return held, key


def _recall(made: _Pair | None, inverse: _Pair | None, x: Tensor) -> Tensor | None:
    """The other one of a pair that was made from x, or that x was made from."""
    if made is not None and made[0].get(made[1]) is x:
        return made[1]()
    if inverse is not None and inverse[1]() is x:
        return inverse[0].get(inverse[1])
    return None


class _InverseTransform(Transform):
    """The inverse of a transform."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(transform._cache_size)
        self._inv = transform

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return self._inv.bijective

    @property
    def domain(self) -> Constraint:
        return self._inv.codomain

    @property
    def codomain(self) -> Constraint:
        return self._inv.domain

    @property
    def sign(self) -> Any:
        return self._inv.sign

    @property
    def inv(self) -> Transform:
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self._inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    __hash__ = object.__hash__

    def __call__(self, x: Tensor) -> Tensor:
        return self._inv._inv_call(x)

    def _inv_call(self, y: Tensor) -> Tensor:
        return self._inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Sequence[int]) -> Shape:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Shape:
        return self._inv.forward_shape(shape)

    def __repr__(self) -> str:
        return f"Inverse({self._inv!r})"


class ComposeTransform(Transform):
    """Several transforms one after the other.

    >>> import contraflow as cf
    >>> t = cf.distributions.transforms
    >>> both = t.ComposeTransform([t.AffineTransform(0.0, 2.0), t.ExpTransform()])
    >>> both(cf.tensor(1.0))
    tensor(7.3891)
    """

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = [part.with_cache(cache_size) if cache_size else part for part in parts]

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return ComposeTransform([part.with_cache(cache_size) for part in self.parts], cache_size)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(part.bijective for part in self.parts)

    @property
    def domain(self) -> Constraint:
        if not self.parts:
            return constraints.real
        first: Constraint = self.parts[0].domain
        # The dims of an event of the last part, followed back to the first.
        dims = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            dims = max(
                dims + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim
            )
        extra = dims - first.event_dim
        return constraints.independent(first, extra) if extra > 0 else first

    @property
    def codomain(self) -> Constraint:
        if not self.parts:
            return constraints.real
        last: Constraint = self.parts[-1].codomain
        dims = self.parts[0].domain.event_dim
        for part in self.parts:
            dims = max(
                dims + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim
            )
        extra = dims - last.event_dim
        return constraints.independent(last, extra) if extra > 0 else last

    @property
    def sign(self) -> Any:
        sign = 1
        for part in self.parts:
            sign = sign * part.sign
        return sign

    @property
    def inv(self) -> Transform:
        return ComposeTransform([part.inv for part in reversed(self.parts)], self._cache_size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = object.__hash__

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def _inv_call(self, y: Tensor) -> Tensor:
        for part in reversed(self.parts):
            y = part._inv_call(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return zeros_like(x)
        values = [x]
        for part in self.parts[:-1]:
            values.append(part(values[-1]))
        values.append(y)
        total: Any = 0
        dims = self.domain.event_dim
        for part, given, made in zip(self.parts, values, values[1:]):
            term = part.log_abs_det_jacobian(given, made)
            total = total + sum_rightmost(term, dims - part.domain.event_dim)
            dims += part.codomain.event_dim - part.domain.event_dim
        return total

    def forward_shape(self, shape: Sequence[int]) -> Shape:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return tuple(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Shape:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return tuple(shape)

    def __repr__(self) -> str:
        return f"ComposeTransform({self.parts!r})"


class IndependentTransform(Transform):
    """A transform whose last `reinterpreted_batch_ndims` batch dims belong to the event.

    >>> import contraflow as cf
    >>> t = cf.distributions.transforms
    >>> rows = t.IndependentTransform(t.ExpTransform(), 1)
    >>> x = cf.ones(2, 3)
    >>> rows.log_abs_det_jacobian(x, rows(x))
    tensor([3., 3.])
    """

    def __init__(
        self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size)
        self.base_transform = (
            base_transform.with_cache(cache_size) if cache_size else base_transform
        )
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return self.base_transform.bijective

    @property
    def domain(self) -> Constraint:
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @property
    def codomain(self) -> Constraint:
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def __call__(self, x: Tensor) -> Tensor:
        return self.base_transform(x)

    def _inv_call(self, y: Tensor) -> Tensor:
        return self.base_transform._inv_call(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        found = self.base_transform.log_abs_det_jacobian(x, y)
        return sum_rightmost(found, self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Sequence[int]) -> Shape:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Shape:
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        return f"IndependentTransform({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class ReshapeTransform(Transform):
    """Events of one shape laid out in another with as many elements.

    >>> import contraflow as cf
    >>> t = cf.distributions.transforms.ReshapeTransform((4,), (2, 2))
    >>> t(cf.zeros(3, 4)).shape
    (3, 2, 2)
    """

    bijective = True

    def __init__(
        self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0
    ) -> None:
        super().__init__(cache_size)
        self.in_shape, self.out_shape = tuple(in_shape), tuple(out_shape)
        if numel(self.in_shape) != numel(self.out_shape):
            raise ValueError(
                f"ReshapeTransform: {self.in_shape} and {self.out_shape} have different numbers of "
                f"elements."
            )

    @property
    def domain(self) -> Constraint:
        return constraints.independent(constraints.real, len(self.in_shape))

    @property
    def codomain(self) -> Constraint:
        return constraints.independent(constraints.real, len(self.out_shape))

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(self.forward_shape(x.shape))

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(self.inverse_shape(y.shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.reshape(*x.shape[: x.ndim - len(self.in_shape)], -1).sum(-1) * 0

    def forward_shape(self, shape: Sequence[int]) -> Shape:
        return self._replaced(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Sequence[int]) -> Shape:
        return self._replaced(shape, self.out_shape, self.in_shape)

    def _replaced(self, shape: Sequence[int], old: Shape, new: Shape) -> Shape:
        cut = len(shape) - len(old)
        if cut < 0 or tuple(shape[cut:]) != old:
            raise ValueError(f"ReshapeTransform: the shape {tuple(shape)} does not end in {old}.")
        return (*shape[:cut], *new)


identity_transform = ComposeTransform([])
