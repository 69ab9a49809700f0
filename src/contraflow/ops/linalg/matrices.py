"""Norms of vectors and matrices, and functions of matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from contraflow import dtypes
from contraflow.dtypes import HALVES, float32
from contraflow.errors import describe
from contraflow.operation.context import apply
from contraflow.operation.kinds import composite, host
from contraflow.operation.op import Op
from contraflow.operation.samples import Array, Failure, Sample
from contraflow.ops.creation.create import as_tensor, full, ones_like, zeros
from contraflow.ops.elementwise.basic import maximum, sign, sqrt, to_dtype, where
from contraflow.ops.linalg.decompositions import eigvalsh, svdvals
from contraflow.ops.linalg.solve import (
    identity_mask,
    inv,
    random_matrices,
    real_types,
    require_matrix,
    require_square,
    square_shape,
)
from contraflow.ops.reduction.order import cumprod
from contraflow.ops.reduction.reduce import amax, amin, require_floating, spread, sum_
from contraflow.ops.shape.arrange import flip
from contraflow.ops.shape.diagonals import tril
from contraflow.ops.shape.joining import cat
from contraflow.ops.shape.view import expand, movedim, reshape
from contraflow.shapes import Shape, normalize_dim, normalize_dims, numel, reduced_shape
from contraflow.spec import Spec
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


# --- inverses of singular matrices ---------------------------------------------------------------


def _tolerance(values: Any, shape: Any, atol: float | None, rtol: float | None) -> Any:
    """Singular values up to this count as 0: PyTorch's defaults, over arrays."""
    if rtol is None:
        rtol = 0.0 if atol else max(shape[-2:]) * float(np.finfo(values.dtype).eps)
    return np.maximum(atol or 0.0, rtol * values.max(-1, keepdims=True, initial=0.0))


def _pinv_ref(x: np.ndarray, atol: Any, rtol: Any, hermitian: bool) -> np.ndarray:
    if hermitian:  # only the lower triangle counts
        x = np.tril(x) + np.swapaxes(np.tril(x, -1), -1, -2)
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    kept = s > _tolerance(s, x.shape, atol, rtol)
    inverted = np.where(kept, 1.0 / np.where(kept, s, 1.0), 0.0).astype(x.dtype)
    return np.swapaxes(vh, -1, -2) @ (inverted[..., None] * np.swapaxes(u, -1, -2))


def _pinv_shape(x: Spec, atol: Any, rtol: Any, hermitian: bool) -> Shape:
    for name, value in (("atol", atol), ("rtol", rtol)):
        if np.ndim(value):
            raise TypeError(f"pinv: {name} has {np.ndim(value)} dims; it must be a number.")
    return (*x.shape[:-2], *reversed(require_matrix("pinv", x)))


# Golub and Pereyra: dP = -P dA P + P P' dA' (I - A P) + (I - P A) dA' P' P, for constant rank.
def _pinv_vjp(g: Tensor, x: Tensor, out: Tensor, hermitian: bool) -> Tensor:
    if hermitian:
        x = tril(x) + tril(x, -1).mT
    p, h = out, g.mT
    inside = h @ p
    through = p.mT @ g @ p.mT
    left = inside @ p.mT - x @ (p @ (inside @ p.mT))
    right = p.mT @ (p @ h)
    return left + (right - (right @ p) @ x) - through


@host(
    ref=_pinv_ref,
    dtype=real_types("pinv"),
    shape=_pinv_shape,
    vjp={"x": _pinv_vjp},
    samples=lambda: (
        Sample((random_matrices(2, 4, 3),), {"atol": None, "rtol": None, "hermitian": False}),
        Sample((random_matrices(1, 2, 3),), {"atol": 0.01, "rtol": None, "hermitian": False}),
    ),
    failures=lambda: (
        Failure(
            (np.ones(2),), {"atol": None, "rtol": None, "hermitian": False}, ValueError,
            "pinv: float64[2] is not a matrix",
        ),
        Failure(
            (np.eye(2),), {"atol": None, "rtol": [0.1, 0.2], "hermitian": False}, TypeError,
            "pinv: rtol has 1 dims; it must be a number.",
        ),
    ),
    method=False,
)  # fmt: skip
def pinv(x, *, rtol=None, hermitian=False, atol=None):
    """The pseudo-inverse; singular values below a tolerance count as 0."""


@composite(
    ref=lambda x, atol, rtol, hermitian: np.asarray(np.linalg.matrix_rank(x)),
    samples=lambda: (
        Sample((random_matrices(2, 4, 3),), {"atol": None, "rtol": None, "hermitian": False}),
    ),
    method=False,
)
def matrix_rank(x, *, atol=None, hermitian=False, rtol=None):
    """How many singular values exceed a tolerance."""
    x = x.detach()
    values = abs(eigvalsh(x)) if hermitian else svdvals(x)
    atol = as_tensor(0.0 if atol is None else atol, dtype=x.dtype)
    if rtol is None:
        rtol = where(atol > 0, 0.0, max(x.shape[-2:]) * float(np.finfo(x.dtype.numpy).eps))
    if not values.shape[-1]:
        return zeros(values.shape[:-1], dtype=dtypes.int64)
    limit = maximum(amax(values, dim=-1) * rtol, atol)
    return sum_(values > reshape(limit, (*limit.shape, 1)), dim=-1)


@composite(
    ref=lambda a, b, rcond, driver: (
        np.linalg.pinv(a) @ b,
        np.sum((a @ np.linalg.pinv(a) @ b - b) ** 2, -2),
        np.linalg.matrix_rank(a),
        np.zeros(0),
    ),
    outs=("solution", "residuals", "rank", "singular_values"),
    samples=lambda: (
        Sample(
            (random_matrices(2, 4, 3), random_matrices(2, 4, 2)), {"rcond": None, "driver": None}
        ),
    ),
    method=False,
)
def lstsq(a, b, *, rcond=None, driver=None):
    """The least-squares solution X of A X = B with the smallest norm, residuals and the rank.

    Residuals are the squared distances per column where A is tall; singular values are left out,
    as PyTorch's default driver leaves them.
    """
    solution = pinv(a, rcond) @ b
    nothing = zeros((0,), dtype=a.dtype)
    rest = a @ solution - b
    residuals = sum_(rest * rest, dim=-2) if a.shape[-2] > a.shape[-1] else nothing
    return solution, residuals, matrix_rank(a), nothing


@composite(
    ref=lambda x, p: np.linalg.cond(x, p),
    samples=lambda: (
        Sample((random_matrices(2, 3, 3, shift=2.0),), {"p": None}),
        Sample((random_matrices(2, 3, 3, shift=2.0),), {"p": 1}),
    ),
    method=False,
)
def cond(x, *, p=None):
    """The condition number: the norm of a matrix times that of its inverse."""
    if p in (None, 2, -2):
        values = svdvals(x)
        high, low = values[..., 0], values[..., -1]
        return low / high if p == -2 else high / low
    return matrix_norm(x, p) * matrix_norm(inv(x), p)


# --- powers --------------------------------------------------------------------------------------


@composite(
    ref=lambda x, n: np.linalg.matrix_power(x, n),
    samples=lambda: (
        Sample((random_matrices(2, 3, 3),), {"n": 3}),
        Sample((random_matrices(1, 3, 3, shift=2.0),), {"n": -2}),
        Sample((random_matrices(1, 3, 3),), {"n": 1}),
        Sample((random_matrices(2, 3, 3),), {"n": 0}),
    ),
    failures=lambda: (
        Failure((np.zeros((2, 3)),), {"n": 2}, ValueError, "matrix_power: float64[2, 3] is not"),
    ),
)
def matrix_power(x, *, n):
    """The n-th power of square matrices, of their inverse for a negative n."""
    size = require_square("matrix_power", x.spec)
    if n == 0:
        # Of x, which gets a gradient of zeros.
        return where(identity_mask(size), 1.0, where(full(x.shape, False), x, 0.0))
    base = inv(x) if n < 0 else x
    n = abs(n)
    result = None
    while n:  # by squaring: the powers of two that make up n
        if n & 1:
            result = base if result is None else result @ base
        n >>= 1
        base = base @ base if n else base
    return result.clone() if result is x else result


# Higham's scaling and squaring with the Padé approximant of order 13.
_PADE = (64764752532480000., 32382376266240000., 7771770303897600., 1187353796428800.,
         129060195264000., 10559470521600., 670442572800., 33522128640., 1323241920.,
         40840800., 960960., 16380., 182., 1.)  # fmt: skip


def _matrix_exp_ref(x: np.ndarray) -> np.ndarray:
    size = float(np.abs(x).sum(-2).max(initial=0.0))
    steps = max(0, int(np.ceil(np.log2(size / 4.0)))) if 0 < size < np.inf else 0
    a = x.astype(np.float64) / 2.0**steps
    i = np.eye(x.shape[-1])
    a2 = a @ a
    a4, b = a2 @ a2, _PADE
    a6 = a4 @ a2
    odd = a6 @ (b[13] * a6 + b[11] * a4 + b[9] * a2) + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * i
    even = a6 @ (b[12] * a6 + b[10] * a4 + b[8] * a2) + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * i
    odd = a @ odd
    out = np.linalg.solve(even - odd, even + odd)
    for _ in range(steps):
        out = out @ out
    return out


# The exponential of [[A' G], [0 A']] holds the gradient in its upper right corner.
def _matrix_exp_vjp(g: Tensor, x: Tensor) -> Tensor:
    n = x.shape[-1]
    upper, lower = cat((x.mT, g), -1), cat((x.mT * 0.0, x.mT), -1)
    return matrix_exp(cat((upper, lower), -2))[..., :n, n:]


@host(
    ref=_matrix_exp_ref,
    dtype=real_types("matrix_exp"),
    shape=square_shape("matrix_exp"),
    vjp={"x": _matrix_exp_vjp},
    samples=lambda: (
        Sample((random_matrices(2, 3, 3),)),
        Sample((random_matrices(1, 2, 2) * 4.0,)),
    ),
    failures=lambda: (
        Failure((np.zeros((2, 3)),), {}, ValueError, "matrix_exp: float64[2, 3] is not square"),
    ),
)
def matrix_exp(x):
    """The exponential of square matrices."""


@composite(
    ref=lambda x, N, increasing: np.vander(x, N, increasing),
    samples=lambda: (
        Sample((Array((4,), 0.5, 2.0),), {"N": 3, "increasing": False}),
        Sample((Array((3,), 0.5, 2.0),), {"N": None, "increasing": True}),
    ),
    failures=lambda: (
        Failure((Array(()),), {"N": 2, "increasing": True}, ValueError, "vander: float64[] has no"),
    ),
    method=False,
)
def vander(x, *, N=None, increasing=False):
    """The powers N - 1, ..., 0 of each element along a new last dim, or 0, ..., N - 1."""
    if not x.ndim:
        raise ValueError(f"vander: {describe(x)} has no dims.")
    n = x.shape[-1] if N is None else N
    if n < 0:
        raise ValueError(f"vander: N is {n}; it must not be negative.")
    column = reshape(x, (*x.shape, 1))
    factors = cat([ones_like(column), expand(column, *x.shape, max(n - 1, 0))], -1)
    powers = cumprod(factors, -1)[..., :n]
    return powers if increasing else flip(powers, -1)


# --- reflections ---------------------------------------------------------------------------------


def _np_householder_product(x: np.ndarray, tau: np.ndarray) -> np.ndarray:
    rows, columns = x.shape[-2:]
    out = np.broadcast_to(np.eye(rows, columns, dtype=x.dtype), x.shape).copy()
    for i in reversed(range(tau.shape[-1])):
        v = np.where(np.arange(rows) > i, x[..., i], np.arange(rows) == i)
        out = out - tau[..., i, None, None] * v[..., :, None] * (v[..., None, :] @ out)
    return out


@composite(
    ref=_np_householder_product,
    samples=lambda: (
        Sample((Array((4, 3)), Array((3,)))),
        Sample((Array((2, 3, 3)), Array((2, 2)))),
    ),
    failures=lambda: (
        Failure((Array((2, 3)), Array((2,))), {}, ValueError,
                "householder_product: float64[2, 3] must have at least as many rows as columns"),
        Failure((Array((3, 2)), Array((3,))), {}, ValueError,
                "householder_product: tau, float64[3], does not fit float64[3, 2]"),
    ),
    method=False,
    internal=True,
)  # fmt: skip
def householder_product(x, tau):
    """The first columns of a product of reflections I - tau v v^T, whose v are the columns of x.

    Of each v the element on the diagonal counts as 1, and those above as 0.
    """
    if x.ndim < 2 or x.shape[-2] < x.shape[-1]:
        raise ValueError(
            f"householder_product: {describe(x)} must have at least as many rows as columns."
        )
    if tau.shape[:-1] != x.shape[:-2] or not tau.ndim or tau.shape[-1] > x.shape[-1]:
        raise ValueError(f"householder_product: tau, {describe(tau)}, does not fit {describe(x)}.")
    rows, columns = x.shape[-2:]
    dtype, wide = x.dtype, x.dtype.compute
    x, tau = to_dtype(x, dtype=wide), to_dtype(tau, dtype=wide)
    unit = expand(identity_mask(rows).to(wide)[:, :columns], x.shape)
    v = tril(x, -1) + unit
    out = unit
    for i in reversed(range(tau.shape[-1])):
        column = v[..., i : i + 1]
        along = sum_(column * out, dim=-2, keepdim=True)
        out = out - tau[..., i : i + 1].unsqueeze(-1) * column * along
    return to_dtype(out, dtype=dtype)
