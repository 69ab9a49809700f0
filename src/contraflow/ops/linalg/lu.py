"""LU: matrices as a row order, a lower and an upper triangle; and factors with a word on failure.

x[order] = L U, with ones on the diagonal of L. The row order is found by partial pivoting, and
given as LAPACK gives it: row i was exchanged with row pivots[i], counted from one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from contraflow.dtypes import bool_, float32, float64, int32, int64
from contraflow.errors import describe_spec
from contraflow.operation.kinds import composite, host
from contraflow.operation.samples import Failure, Sample
from contraflow.ops.creation.create import arange, zeros
from contraflow.ops.elementwise.basic import where
from contraflow.ops.index.slices import take_along_dim
from contraflow.ops.linalg.solve import (
    LinAlgError,
    cholesky_vjp,
    identity_mask,
    not_square,
    positive_definite,
    random_matrices,
    require_matrix,
    solve_triangular,
    square_shape,
    triangle,
)
from contraflow.ops.shape.joining import cat
from contraflow.ops.shape.parts import diagonal
from contraflow.ops.shape.view import reshape
from contraflow.spec import Spec
from contraflow.tensors.tensor import Tensor


def _with_integers(name: str) -> Any:
    """The dtype rule of ops whose second output is of integers: pivots, or where it failed."""

    def rule(inputs: Any, params: Any) -> Any:
        (x,) = inputs
        if x.dtype not in (float32, float64):
            raise TypeError(f"{name}: {x} is not supported. Use float32 or float64.")
        return (x.dtype,), (x.dtype, int32)

    return rule


def _lu_ref(x: np.ndarray, pivot: bool, check: bool) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian elimination, column by column, of all matrices at once."""
    *batch, m, n = x.shape
    lu = np.array(x).reshape(-1, m, n)
    each = np.arange(len(lu))
    pivots = np.zeros((len(lu), min(m, n)), np.int32)
    for k in range(min(m, n)):
        row = k + np.argmax(np.abs(lu[:, k:, k]), axis=1) if pivot else np.full(len(lu), k)
        pivots[:, k] = row + 1
        lu[each, k], lu[each, row] = lu[each, row], lu[each, k]
        head = lu[:, k, k]
        if check and np.any(head == 0):
            raise LinAlgError(f"lu_factor: {describe_spec(x.dtype, x.shape)} is singular.")
        lu[:, k + 1 :, k] /= np.where(head == 0, 1, head)[:, None]
        lu[:, k + 1 :, k + 1 :] -= lu[:, k + 1 :, k, None] * lu[:, k, None, k + 1 :]
    return lu.reshape(x.shape), pivots.reshape(*batch, min(m, n))


# With x[order] = [A B; C D], L = [L1; L2] and U = [U1 U2]: C = L2 U1 and B = L1 U2 give their
# gradients at once, and what they leave to U1 and L1. A = L1 U1 then gets
# inv(L1)' (tril(L1' gL1, -1) + triu(gU1 U1')) inv(U1)'.
def _lu_vjp(g_LU: Tensor, LU: Tensor, pivots: Tensor, pivot: bool, check: bool) -> Tensor:
    m, n = LU.shape[-2:]
    k = min(m, n)
    lower, upper = unpacked(LU)
    g_lower, g_upper = triangle(g_LU, upper=False, strict=True), triangle(g_LU, upper=True)
    u, low = upper[..., :k], lower[..., :k, :]
    g_u, g_low = g_upper[..., :k, :k], g_lower[..., :k, :k]
    rest = None
    if m > k:
        rest = solve_triangular(u, g_lower[..., k:, :k].mT, upper=True).mT
        g_u = triangle(g_u - lower[..., k:, :].mT @ rest, upper=True)
    elif n > k:
        rest = solve_triangular(low.mT, g_upper[..., :k, k:], upper=True, unitriangular=True)
        g_low = triangle(g_low - rest @ upper[..., k:].mT, upper=False, strict=True)
    middle = triangle(low.mT @ g_low, upper=False, strict=True) + triangle(g_u @ u.mT, upper=True)
    half = solve_triangular(low.mT, middle, upper=True, unitriangular=True)
    whole = solve_triangular(u.mT, half, upper=False, left=False)
    if rest is not None:
        whole = cat((whole, rest), -2 if m > k else -1)
    back = pivot_order(pivots, size=m).argsort(-1)  # each row to where it came from
    return take_along_dim(whole, back[..., None], -2)


def _lu_samples() -> Any:
    for shape in ((2, 3, 3), (4, 2), (2, 2, 4)):
        check = shape[-1] == 3
        yield Sample((random_matrices(*shape, shift=0.5),), {"pivot": True, "check": check})
    yield Sample((random_matrices(3, 3, shift=2.0),), {"pivot": False, "check": False})


@host(
    ref=_lu_ref,
    dtype=_with_integers("lu_factor"),
    outs=("LU", "pivots"),
    shape=lambda x, pivot, check: (
        x.shape, (*x.shape[:-2], min(require_matrix("lu_factor", x)))),
    vjp={"x": _lu_vjp},
    samples=_lu_samples,
    failures=lambda: (
        Failure((np.ones(2),), {}, ValueError, "lu_factor: float64[2] is not a matrix"),
        Failure((np.ones((2, 2)),), {}, LinAlgError, "lu_factor: float64[2, 2] is singular."),
    ),
    method=False,
    internal=True,
)  # fmt: skip
def lu_factor(x, *, pivot=True, check=True):
    """The triangles L and U of x in one matrix, and the exchanges of rows before."""


@host(
    ref=lambda pivots, size: _order_ref(pivots, size),
    dtype=lambda inputs, params: ((int32,), (int64,)),
    shape=lambda pivots, size: (*pivots.shape[:-1], size),
    samples=lambda: (Sample((np.array([[2, 2, 3], [1, 3, 3]], np.int32),), {"size": 4}),),
    method=False,
    internal=True,
)
def pivot_order(pivots, *, size):
    """The order of rows after exchanges: order[i] is the row that comes to be row i."""


def _order_ref(pivots: np.ndarray, size: int) -> np.ndarray:
    rows = pivots.reshape(-1, pivots.shape[-1])
    order = np.tile(np.arange(size), (len(rows), 1))
    each = np.arange(len(rows))
    for k in range(rows.shape[1]):
        other = rows[:, k] - 1
        order[each, k], order[each, other] = order[each, other], order[each, k]
    return order.reshape(*pivots.shape[:-1], size)


def unpacked(lu: Tensor) -> tuple[Tensor, Tensor]:
    """L and U of one matrix that holds both."""
    m, n = lu.shape[-2:]
    k = min(m, n)
    lower = triangle(lu[..., :k], upper=False, strict=True)
    one = identity_mask(k)
    if m > k:
        one = cat((one, zeros(m - k, k, dtype=bool_)), 0)
    return where(one, 1.0, lower), triangle(lu[..., :k, :], upper=True)


def _np_unpack(LU_data: np.ndarray, LU_pivots: np.ndarray) -> Any:
    m, n = LU_data.shape[-2:]
    k = min(m, n)
    lower = np.tril(LU_data[..., :k], -1) + np.eye(m, k)
    order = _order_ref(LU_pivots, m)
    rows = np.swapaxes(np.eye(m, dtype=LU_data.dtype)[order], -1, -2)
    return rows, lower, np.triu(LU_data[..., :k, :])


def _unpack_samples() -> Any:
    for shape in ((2, 3, 3), (4, 2), (2, 4)):
        yield Sample(_lu_ref(random_matrices(*shape, shift=0.5), True, True))


@composite(ref=_np_unpack, outs=("P", "L", "U"), samples=_unpack_samples, method=False)
def lu_unpack(LU_data, LU_pivots):
    """P, L and U of what `lu_factor` gives, with x = P L U."""
    m = LU_data.shape[-2]
    order = pivot_order(LU_pivots, size=m)
    # Column i of P has its one in row order[i].
    rows = (order[..., None, :] == reshape(arange(m), (m, 1))).to(LU_data.dtype)
    return rows, *unpacked(LU_data)


def _np_lu(x: np.ndarray, pivot: bool = True) -> Any:
    return _np_unpack(*_lu_ref(x, pivot, False))


@composite(
    ref=_np_lu,
    outs=("P", "L", "U"),
    samples=lambda: (Sample((random_matrices(2, 3, 3, shift=0.5),), {"pivot": True}),
                     Sample((random_matrices(3, 2, shift=0.5),), {"pivot": True})),
    method=False,
    internal=True,
)  # fmt: skip
def lu(x, *, pivot=True):
    """x = P L U: a permutation of rows, a lower and an upper triangle."""
    return lu_unpack(*lu_factor(x, pivot=pivot, check=False))


def _np_lu_solve(
    LU: np.ndarray, pivots: np.ndarray, B: np.ndarray, left: bool = True, adjoint: bool = False
) -> np.ndarray:
    p, lower, upper = _np_unpack(LU, pivots)
    a = p @ lower @ upper
    a = np.swapaxes(a, -1, -2) if adjoint else a
    if left:
        return np.linalg.solve(a, B)
    return np.swapaxes(np.linalg.solve(np.swapaxes(a, -1, -2), np.swapaxes(B, -1, -2)), -1, -2)


def _lu_solve_samples() -> Any:
    factors = _lu_ref(random_matrices(2, 3, 3, shift=0.5), True, True)
    yield Sample((*factors, random_matrices(2, 3, 2)), {"left": True, "adjoint": False})
    yield Sample((*factors, random_matrices(2, 2, 3)), {"left": False, "adjoint": True})


@composite(ref=_np_lu_solve, samples=_lu_solve_samples, method=False, internal=True)
def lu_solve(LU, pivots, B, *, left=True, adjoint=False):
    """X with A X = B, or X A = B if not `left`, given what `lu_factor` makes of A."""
    if not left:
        return lu_solve(LU, pivots, B.mT, left=True, adjoint=not adjoint).mT.contiguous()
    order = pivot_order(pivots, size=LU.shape[-1])
    lower, upper = unpacked(LU)
    if not adjoint:
        half = solve_triangular(lower, _rows(B, order), upper=False, unitriangular=True)
        return solve_triangular(upper, half, upper=True)
    half = solve_triangular(upper.mT, B, upper=False)
    return _rows(solve_triangular(lower.mT, half, upper=True), order.argsort(-1))


def _rows(x: Tensor, order: Tensor) -> Tensor:
    out: Tensor = take_along_dim(x, order[..., None], -2)
    return out


# --- factors with a word on failure --------------------------------------------------------------


def _cholesky_ex_ref(x: np.ndarray, upper: bool) -> tuple[np.ndarray, np.ndarray]:
    flat = x.reshape(-1, *x.shape[-2:])
    out, info = np.zeros_like(flat), np.zeros(len(flat), np.int32)
    for i, matrix in enumerate(flat):
        for size in (len(matrix), *range(1, len(matrix) + 1)):  # all of it, or how much of it
            try:
                found = np.linalg.cholesky(matrix[:size, :size])
            except np.linalg.LinAlgError:
                info[i] = size
                if size != len(matrix):
                    break
            else:
                out[i, :size, :size] = found
                if size == len(matrix):
                    break
    if upper:
        out = np.swapaxes(out, -1, -2)
    return out.reshape(x.shape), info.reshape(x.shape[:-2])


def _cholesky_ex_shape(x: Spec, upper: bool) -> Any:
    return square_shape("cholesky_ex")(x), x.shape[:-2]


@host(
    ref=_cholesky_ex_ref,
    dtype=_with_integers("cholesky_ex"),
    outs=("L", "info"),
    shape=_cholesky_ex_shape,
    vjp={"x": lambda g_L, L, upper: cholesky_vjp(g_L, L, upper)},
    samples=lambda: (
        Sample((positive_definite(2, 3, 3),), {"upper": False}),
        Sample((positive_definite(4, 4),), {"upper": True}),
    ),
    failures=not_square("cholesky_ex", upper=False),
    symmetric=True,
    method=False,
    internal=True,
)
def cholesky_ex(x, *, upper=False):
    """The Cholesky factor, and 0; or the size of the first block that is not positive definite."""


def has_zero(lu: Tensor) -> Tensor:
    """The number of the first zero on the diagonal of U, counted from one; 0 if there is none."""
    zero = diagonal(lu, 0, -2, -1) == 0
    return where(zero.any(-1), zero.to(int32).argmax(-1) + 1, 0).to(int32)
