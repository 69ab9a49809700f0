"""Transforms of vectors and matrices: to the simplex, to Cholesky factors, and part by part."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from contraflow.distributions import constraints
from contraflow.distributions.constraints import Constraint
from contraflow.distributions.transform import Transform
from contraflow.distributions.utils import (
    EPSILON,
    SMALLEST,
    tril_matrix_to_vec,
    vec_to_tril_matrix,
)
from contraflow.ops.creation.create import arange, eye
from contraflow.ops.elementwise.activation import logsigmoid, softplus
from contraflow.ops.linalg.solve import cholesky
from contraflow.ops.nn.norm import softmax
from contraflow.ops.reduction.order import cumprod, cumsum
from contraflow.ops.shape.arrange import pad
from contraflow.ops.shape.joining import cat, stack
from contraflow.shapes import Shape
from contraflow.tensors.tensor import Tensor


class SoftmaxTransform(Transform):
    """y = softmax(x) over the last dim, whose inverse is a logarithm. It is not one to one.

    >>> import contraflow as cf
    >>> cf.distributions.transforms.SoftmaxTransform()(cf.zeros(2))
    tensor([0.5000, 0.5000])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SoftmaxTransform)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return softmax(x, -1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()


class StickBreakingTransform(Transform):
    """n numbers to n + 1 shares of a stick: each says how much of the rest is broken off.

    >>> import contraflow as cf
    >>> cf.distributions.transforms.StickBreakingTransform()(cf.zeros(2))
    tensor([0.3333, 0.3333, 0.3333])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StickBreakingTransform)

    __hash__ = object.__hash__

    def _rest(self, x: Tensor) -> Tensor:
        """The logarithm of the number of shares that are left: zeros give equal shares."""
        n = x.shape[-1]
        return (n - arange(n, dtype=x.dtype, device=x.device)).log()

    def _call(self, x: Tensor) -> Tensor:
        share = (x - self._rest(x)).sigmoid()
        left = cumprod(1 - share, -1)
        return pad(share, (0, 1), value=1.0) * pad(left, (1, 0), value=1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        first = y[..., :-1]
        left = (1 - cumsum(first, -1)).clamp(min=SMALLEST[y.dtype])
        return first.log() - left.log() + self._rest(first)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        x = x - self._rest(x)
        return (logsigmoid(x) - x + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> Shape:
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: Sequence[int]) -> Shape:
        return (*shape[:-1], shape[-1] - 1)


class CorrCholeskyTransform(Transform):
    """n (n - 1) / 2 numbers to the Cholesky factor [n, n] of a correlation matrix.

    >>> import contraflow as cf
    >>> cf.distributions.transforms.CorrCholeskyTransform()(cf.zeros(1))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        eps = EPSILON[x.dtype]
        partial = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = cumprod((1 - partial * partial).sqrt(), -1)
        partial = partial + eye(partial.shape[-1], dtype=x.dtype, device=x.device)
        return partial * pad(left[..., :-1], (1, 0), value=1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        left = pad(1 - cumsum(y * y, -1)[..., :-1], (1, 0), value=1.0)
        below = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()
        return below.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        # The stick that is broken in each row, and the derivative of tanh.
        left = tril_matrix_to_vec(1 - cumsum(y * y, -1), diag=-2)
        slope = 2 * (math.log(2) - x - softplus(-2 * x))
        return 0.5 * left.log().sum(-1) + slope.sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> Shape:
        count = shape[-1]
        n = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != count:
            raise ValueError(
                f"CorrCholeskyTransform: {count} elements do not fill a triangle below a diagonal."
            )
        return (*shape[:-1], n, n)

    def inverse_shape(self, shape: Sequence[int]) -> Shape:
        if shape[-1] != shape[-2]:
            raise ValueError(
                f"CorrCholeskyTransform: {tuple(shape)} is not that of square matrices."
            )
        return (*shape[:-2], shape[-1] * (shape[-1] - 1) // 2)


class LowerCholeskyTransform(Transform):
    """Matrices to lower triangular ones with a positive diagonal, which is an exponential.

    >>> import contraflow as cf
    >>> cf.distributions.transforms.LowerCholeskyTransform()(cf.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LowerCholeskyTransform)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(0, -2, -1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(0, -2, -1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """Matrices to positive definite ones, by the Cholesky factor of `LowerCholeskyTransform`.

    >>> import contraflow as cf
    >>> cf.distributions.transforms.PositiveDefiniteTransform()(cf.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PositiveDefiniteTransform)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform()._inverse(cholesky(y))


# --- part by part ------------------------------------------------------------------------------


class CatTransform(Transform):
    """Transforms of stretches of a dim, which have the given lengths.

    >>> import contraflow as cf
    >>> t = cf.distributions.transforms
    >>> parts = t.CatTransform([t.ExpTransform(), t.AbsTransform()], dim=-1, lengths=[1, 2])
    >>> parts(cf.tensor([0.0, -1.0, -2.0]))
    tensor([1., 1., 2.])
    """

    def __init__(
        self,
        tseq: Sequence[Transform],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        super().__init__(cache_size)
        self.transforms = [t.with_cache(cache_size) if cache_size else t for t in tseq]
        self.dim = dim
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise ValueError(
                f"CatTransform: there are {len(self.transforms)} transforms and "
                f"{len(self.lengths)} lengths."
            )

    @property
    def event_dim(self) -> int:
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self) -> int:
        """The size of the dim."""
        return sum(self.lengths)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(t.bijective for t in self.transforms)

    @property
    def domain(self) -> Constraint:
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @property
    def codomain(self) -> Constraint:
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)

    def _parts(self, x: Tensor) -> list[Tensor]:
        if x.shape[self.dim] != self.length:
            raise ValueError(
                f"CatTransform: dim {self.dim} of the shape {x.shape} has not the size "
                f"{self.length} of all parts."
            )
        return list(x.split(self.lengths, self.dim))

    def _call(self, x: Tensor) -> Tensor:
        return cat([t(part) for t, part in zip(self.transforms, self._parts(x))], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        parts = zip(self.transforms, self._parts(y))
        return cat([t._inv_call(part) for t, part in parts], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        terms: list[Any] = []
        for t, given, made in zip(self.transforms, self._parts(x), self._parts(y)):
            term = t.log_abs_det_jacobian(given, made)
            extra = self.event_dim - t.event_dim
            terms.append(term.flatten(-extra).sum(-1) if extra else term)
        dim = self.dim - x.ndim if self.dim >= 0 else self.dim
        dim += self.event_dim
        if dim < 0:
            return cat(terms, dim)
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return total


class StackTransform(Transform):
    """Transforms of the slices of a dim.

    >>> import contraflow as cf
    >>> t = cf.distributions.transforms
    >>> t.StackTransform([t.ExpTransform(), t.AbsTransform()])(cf.tensor([0.0, -1.0]))
    tensor([1., 1.])
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.transforms = [t.with_cache(cache_size) if cache_size else t for t in tseq]
        self.dim = dim

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(t.bijective for t in self.transforms)

    @property
    def domain(self) -> Constraint:
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @property
    def codomain(self) -> Constraint:
        return constraints.stack([t.codomain for t in self.transforms], self.dim)

    def _slices(self, x: Tensor) -> tuple[Tensor, ...]:
        if x.shape[self.dim] != len(self.transforms):
            raise ValueError(
                f"StackTransform: dim {self.dim} of the shape {x.shape} has not the size "
                f"{len(self.transforms)}, one for each transform."
            )
        return tuple(x.unbind(self.dim))

    def _call(self, x: Tensor) -> Tensor:
        return stack([t(part) for t, part in zip(self.transforms, self._slices(x))], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        parts = zip(self.transforms, self._slices(y))
        return stack([t._inv_call(part) for t, part in parts], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        parts = zip(self.transforms, self._slices(x), self._slices(y))
        return stack([t.log_abs_det_jacobian(a, b) for t, a, b in parts], self.dim)
