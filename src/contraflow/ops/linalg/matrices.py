"""Functions of matrices: inverses of singular ones, powers, reflections."""

from __future__ import annotations

from typing import Any

import numpy as np

from contraflow import dtypes
from contraflow.errors import describe
from contraflow.operation.kinds import composite, host
from contraflow.operation.samples import Array, Failure, Sample
from contraflow.ops.creation.create import full, ones_like, zeros
from contraflow.ops.creation.data import as_tensor
from contraflow.ops.elementwise.basic import maximum, to_dtype, where
from contraflow.ops.linalg.decompositions import eigvalsh, svdvals
from contraflow.ops.linalg.norms import matrix_norm
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
from contraflow.ops.reduction.reduce import amax, sum_
from contraflow.ops.shape.arrange import flip
from contraflow.ops.shape.diagonals import tril
from contraflow.ops.shape.joining import cat
from contraflow.ops.shape.view import expand, reshape
from contraflow.shapes import Shape
from contraflow.spec import Spec
from contraflow.tensors.tensor import Tensor

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
