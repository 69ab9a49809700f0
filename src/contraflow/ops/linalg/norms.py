"""Norms of vectors and matrices, and distances."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from contraflow.dtypes import HALVES, float32
from contraflow.errors import describe
from contraflow.operation.context import apply
from contraflow.operation.kinds import composite
from contraflow.operation.op import Op
from contraflow.operation.samples import Array, Failure, Sample
from contraflow.ops.elementwise.basic import sign, sqrt, to_dtype, where
from contraflow.ops.linalg.decompositions import svdvals
from contraflow.ops.linalg.solve import (
    random_matrices,
)
from contraflow.ops.reduction.reduce import amax, amin, require_floating, spread, sum_
from contraflow.ops.shape.view import movedim, reshape
from contraflow.shapes import normalize_dim, normalize_dims, numel, reduced_shape
from contraflow.tensors.tensor import Tensor

# --- norms of vectors ----------------------------------------------------------------------------


# PyTorch's conventions: an element that is 0 has gradient 0, and so has all of a vector of norm 0;
# the largest elements share the gradient of the infinite norm.
def _vector_norm_vjp(g: Tensor, x: Tensor, out: Tensor, ord: float, dim: Any, keepdim: bool) -> Any:
    g, size = spread(g, x.spec, dim, keepdim), spread(out, x.spec, dim, keepdim)
    if ord == 0:
        return g * 0.0
    if ord == 1:
        return g * sign(x)
    if math.isinf(ord):
        hits = to_dtype(abs(x) == size, dtype=g.dtype)
        return g * sign(x) * (hits / sum_(hits, dim=dim, keepdim=True))
    size = where(size == 0, 1.0, size)
    if ord == 2:
        return g * (x / size)
    void = (x == 0) | (spread(out, x.spec, dim, keepdim) == 0)
    ratio = where(void, 1.0, abs(x) / size)
    return where(void, 0.0, g * sign(x) * ratio ** (ord - 1.0))


def _np_vector_norm(x: np.ndarray, ord: float, dim: Any, keepdim: bool) -> Any:
    return np.linalg.vector_norm(x, axis=dim, keepdims=keepdim, ord=ord)


def _away_from_zero(*shape: int) -> Array:
    return Array(shape, avoid=(0.0,))


@composite(
    ref=_np_vector_norm,
    vjp={"x": _vector_norm_vjp},
    samples=lambda: (
        Sample((_away_from_zero(3, 4),), {"ord": 2, "dim": (1,), "keepdim": False}),
        Sample((_away_from_zero(3, 4),), {"ord": 1, "dim": (0, 1), "keepdim": True}),
        Sample((_away_from_zero(3, 4),), {"ord": float("inf"), "dim": (0,), "keepdim": False}),
        Sample((_away_from_zero(5),), {"ord": -float("inf"), "dim": (0,), "keepdim": False}),
        Sample((_away_from_zero(3, 4),), {"ord": 2.5, "dim": (1,), "keepdim": False}),
        Sample((_away_from_zero(3, 4),), {"ord": 0, "dim": (1,), "keepdim": False}),
        Sample((_away_from_zero(),), {"ord": 0.5, "dim": (), "keepdim": False}),
    ),
    failures=lambda: (
        Failure(
            (Array((2, 3)),), {"ord": 2, "dim": (3,), "keepdim": False}, IndexError,
            "vector_norm: dim 3 is out of range",
        ),
        Failure(
            (Array((2, 0)),), {"ord": -1, "dim": (1,), "keepdim": False}, ValueError,
            "vector_norm: float64[2, 0] has no elements, so its norm of order -1 is undefined.",
        ),
    ),
    normalize=lambda x, ord, dim, keepdim: {
        "dim": normalize_dims("vector_norm", dim, x.ndim), "keepdim": bool(keepdim)
    },
    method=False,
    floating=True,
)  # fmt: skip
def vector_norm(x, *, ord=2, dim=None, keepdim=False):
    """(sum of |x|^ord)^(1/ord) over dims; the number of nonzeros for 0, the largest for inf."""
    require_floating("vector_norm", x)
    if (ord < 0 or math.isinf(ord)) and not numel(x.shape[d] for d in dim):
        raise ValueError(
            f"vector_norm: {describe(x)} has no elements, so its norm of order {ord} is undefined."
        )
    wide = to_dtype(x, dtype=float32) if x.dtype in HALVES else x
    return _vector_norm(wide, ord, dim, keepdim).to(x.dtype)


def _vector_norm(x: Tensor, ord: float, dim: Any, keepdim: bool) -> Tensor:
    if ord == float("inf"):
        out: Tensor = amax(abs(x), dim=dim, keepdim=keepdim)
    elif ord == -float("inf"):
        out = amin(abs(x), dim=dim, keepdim=keepdim)
    elif ord == 0:
        out = sum_(to_dtype(x != 0, dtype=x.dtype), dim=dim, keepdim=keepdim)
    elif ord == 1:
        out = sum_(abs(x), dim=dim, keepdim=keepdim)
    elif ord == 2:
        out = sqrt(sum_(x * x, dim=dim, keepdim=keepdim))
    else:
        out = sum_(abs(x) ** float(ord), dim=dim, keepdim=keepdim) ** (1.0 / ord)
    return out


def _with_dtype(op: Op) -> None:
    """PyTorch's `dtype=`: the input is cast before the norm is taken."""

    @op.signature
    def call(
        x: Tensor, ord: Any = op.params["ord"], dim: Any = op.params["dim"], keepdim: bool = False,
        *, dtype: Any = None,
    ) -> Any:  # fmt: skip
        return op.bind(x if dtype is None else x.to(dtype), ord, dim, keepdim)


_with_dtype(vector_norm)


@composite(
    ref=lambda x1, x2, p: _np_vector_norm(
        x1[..., :, None, :] - x2[..., None, :, :], p, (-1,), False
    ),
    samples=lambda: (
        Sample((Array((3, 4), 0.0, 1.0), Array((2, 4), 2.0, 3.0)), {"p": 2.0}),
        Sample((Array((2, 3, 4), 0.0, 1.0), Array((1, 2, 4), 2.0, 3.0)), {"p": 1.0}),
    ),
    failures=lambda: (
        Failure((Array((3, 4)), Array((2, 5))), {"p": 2.0}, ValueError, "cdist: the rows of"),
    ),
    method=False,
    floating=True,
    autocast="float32",
)
def cdist(x1, x2, *, p=2.0):
    """The p-norm distances of all rows of x1 to all rows of x2.

    Every `compute_mode` gives the differences' own norms, which are exact where rows are close.
    """
    require_floating("cdist", x1)
    if x1.ndim < 2 or x2.ndim < 2 or x1.shape[-1] != x2.shape[-1]:
        raise ValueError(f"cdist: the rows of {describe(x1)} and {describe(x2)} do not match.")
    rows = reshape(x1, (*x1.shape[:-1], 1, x1.shape[-1]))
    return vector_norm(rows - reshape(x2, (*x2.shape[:-2], 1, *x2.shape[-2:])), p, -1)


_COMPUTE_MODES = (
    "use_mm_for_euclid_dist_if_necessary",
    "use_mm_for_euclid_dist",
    "donot_use_mm_for_euclid_dist",
)


@cdist.signature
def _cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str = _COMPUTE_MODES[0]) -> Tensor:
    if compute_mode not in _COMPUTE_MODES:
        listed = ", ".join(_COMPUTE_MODES)
        raise ValueError(f"cdist: compute_mode is {compute_mode!r}; it must be one of {listed}.")
    return apply(cdist, (x1, x2), {"p": p})


# --- norms of matrices ---------------------------------------------------------------------------


def _matrix_dims(name: str, x: Tensor, dim: Any) -> tuple[int, int]:
    if isinstance(dim, int) or len(dim) != 2:
        raise ValueError(f"{name}: dim is {dim}; it must name two dims.")
    rows, columns = (normalize_dim(name, d, x.ndim) for d in dim)
    if rows == columns or x.ndim < 2:
        raise ValueError(
            f"{name}: dim {tuple(dim)} does not name two different dims of {describe(x)}."
        )
    return rows, columns


def _np_matrix_norm(x: np.ndarray, ord: Any, dim: Any, keepdim: bool) -> Any:
    return np.linalg.norm(x, ord, dim, keepdim)


@composite(
    ref=_np_matrix_norm,
    samples=lambda: (
        Sample((random_matrices(2, 3, 4),), {"ord": "fro", "dim": (-2, -1), "keepdim": False}),
        Sample((random_matrices(2, 3, 4),), {"ord": "nuc", "dim": (1, 2), "keepdim": True}),
        Sample((random_matrices(2, 3, 4),), {"ord": 2, "dim": (0, 2), "keepdim": False}),
        Sample((random_matrices(2, 3, 4),), {"ord": 1, "dim": (-2, -1), "keepdim": False}),
        Sample((random_matrices(2, 3, 4),), {"ord": -float("inf"), "dim": (2, 0), "keepdim": True}),
    ),
    failures=lambda: (
        Failure(
            (Array((2, 3)),), {"ord": 3, "dim": (0, 1), "keepdim": False}, ValueError,
            "matrix_norm: ord is 3; it must be 'fro', 'nuc', 1, -1, 2, -2, inf or -inf.",
        ),
        Failure((Array((2,)),), {"ord": 2, "dim": (0, 1), "keepdim": False}, IndexError, "dim 1"),
        Failure((Array((2, 2)),), {"ord": 2, "dim": 0, "keepdim": False}, ValueError, "name two d"),
    ),
    method=False,
)  # fmt: skip
def matrix_norm(x, *, ord="fro", dim=(-2, -1), keepdim=False):
    """A norm of matrices that lie along two dims."""
    dims = _matrix_dims("matrix_norm", x, dim)
    if ord == "fro":
        return vector_norm(x, 2, dims, keepdim)
    if ord not in ("nuc", 1, -1, 2, -2, float("inf"), -float("inf")):
        raise ValueError(
            f"matrix_norm: ord is {ord!r}; it must be 'fro', 'nuc', 1, -1, 2, -2, inf or -inf."
        )
    moved = movedim(x, dims, (-2, -1))
    if ord == "nuc":
        out = sum_(svdvals(moved), dim=-1)
    else:
        sums = {1: -2, math.inf: -1}  # sums of columns, or of rows; else singular values
        kind = abs(ord)
        values = svdvals(moved) if kind == 2 else sum_(abs(moved), dim=sums[kind])
        out = (amax if ord > 0 else amin)(values, dim=-1)
    return reshape(out, reduced_shape(x.shape, dims, True)) if keepdim else out


_with_dtype(matrix_norm)


def _norm_ref(x: np.ndarray, ord: Any, dim: Any, keepdim: bool) -> Any:
    if ord is None:
        return _np_vector_norm(x, 2, dim, keepdim)
    return _np_matrix_norm(x, ord, dim, keepdim)


@composite(
    ref=_norm_ref,
    samples=lambda: (
        Sample((_away_from_zero(2, 3, 2),), {"ord": None, "dim": None, "keepdim": False}),
        Sample((random_matrices(1, 3, 4),), {"ord": "nuc", "dim": (1, 2), "keepdim": False}),
        Sample((_away_from_zero(3, 4),), {"ord": 3, "dim": 1, "keepdim": True}),
    ),
    failures=lambda: (
        Failure(
            (Array((2, 3, 4)),), {"ord": 2, "dim": None, "keepdim": False}, ValueError,
            "linalg_norm: float64[2, 3, 4] with ord=2 needs dim: it is neither a vector nor a "
            "matrix.",
        ),
    ),
    method=False,
    floating=True,
)  # fmt: skip
def linalg_norm(x, *, ord=None, dim=None, keepdim=False):
    """The norm of a vector or of a matrix; without `ord`, the 2-norm of all elements."""
    if ord is None:
        return vector_norm(x, 2, dim, keepdim)
    if dim is None:
        if x.ndim not in (1, 2):
            raise ValueError(
                f"linalg_norm: {describe(x)} with ord={ord!r} needs dim: it is neither a vector "
                f"nor a matrix."
            )
        dim = (0, 1) if x.ndim == 2 else 0
    if isinstance(dim, int) or len(dim) == 1:
        return vector_norm(x, ord, dim, keepdim)
    return matrix_norm(x, ord, dim, keepdim)


_with_dtype(linalg_norm)


@composite(
    ref=lambda x, p, dim, keepdim: _np_vector_norm(x, 2 if p == "fro" else p, dim, keepdim),
    samples=lambda: (
        Sample((_away_from_zero(3, 4),), {"p": "fro", "dim": None, "keepdim": False}),
        Sample((_away_from_zero(3, 4),), {"p": 1, "dim": 1, "keepdim": True}),
    ),
    failures=lambda: (
        Failure(
            (Array((2,)),), {"p": "l2", "dim": None, "keepdim": False}, ValueError, "p is 'l2'"
        ),
    ),
    floating=True,
)
def norm(x, *, p="fro", dim=None, keepdim=False):
    """The norm of order p over dims, all of them by default; 'nuc' is that of a matrix."""
    if p == "nuc":
        return matrix_norm(x, "nuc", (0, 1) if dim is None else dim, keepdim)
    if isinstance(p, str) and p != "fro":
        raise ValueError(f"norm: p is {p!r}; it must be a number, 'fro' or 'nuc'.")
    return vector_norm(x, 2 if p in ("fro", None) else p, dim, keepdim)


@norm.signature
def _norm(
    x: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    return norm.bind(x if dtype is None else x.to(dtype), p, dim, keepdim)
