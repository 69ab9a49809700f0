"""Linear algebra under PyTorch's names, such as `contraflow.linalg.solve`.

Nearly every function is an op, declared in `ops/linalg`.
"""

from typing import Any, NamedTuple

from contraflow.errors import describe
from contraflow.names import getter
from contraflow.operation.public import public
from contraflow.ops.creation.create import eye
from contraflow.ops.elementwise.basic import where
from contraflow.ops.linalg import lu as triangles
from contraflow.ops.linalg import matrices, products
from contraflow.ops.linalg.decompositions import det, eigh, eigvalsh, qr, slogdet, svd, svdvals
from contraflow.ops.linalg.lu import lu, lu_solve
from contraflow.ops.linalg.matrices import (
    cond,
    householder_product,
    lstsq,
    matrix_exp,
    matrix_power,
    matrix_rank,
    pinv,
)
from contraflow.ops.linalg.norms import linalg_norm as norm
from contraflow.ops.linalg.norms import matrix_norm, vector_norm
from contraflow.ops.linalg.products import matmul, multi_dot, vecdot
from contraflow.ops.linalg.solve import LinAlgError, cholesky, inv, solve, solve_triangular
from contraflow.ops.shape import parts, view
from contraflow.shapes import numel
from contraflow.tensors.tensor import Tensor


class CholeskyFactor(NamedTuple):
    """The triangle, and 0 or the size of the first block that is not positive definite."""

    L: Tensor
    info: Tensor


class LuFactor(NamedTuple):
    """Both triangles in one matrix, the exchanges of rows, and 0 or the number of a zero of U."""

    LU: Tensor
    pivots: Tensor
    info: Tensor


@public
def cholesky_ex(
    A: Tensor,
    *,
    upper: bool = False,
    check_errors: bool = False,
    out: tuple[Tensor, Tensor] | None = None,
) -> CholeskyFactor:
    """The Cholesky factor without an error: `info` says whether it is one.

    >>> import contraflow as cf
    >>> cf.linalg.cholesky_ex(4 * cf.eye(2)).L
    tensor([[2., 0.],
            [0., 2.]])
    """
    found = triangles.cholesky_ex(A, upper=upper)
    if check_errors and bool((found.info != 0).any()):
        raise LinAlgError(f"cholesky_ex: {describe(A)} is not positive definite.")
    if out is not None:
        found = [given.copy_(each) for given, each in zip(out, found)]
    return CholeskyFactor(*found)


class InverseMatrix(NamedTuple):
    """The inverse, and 0 or the number of a zero on the diagonal of U: there is no inverse then."""

    inverse: Tensor
    info: Tensor


@public
def inv_ex(A: Tensor, *, check_errors: bool = False) -> InverseMatrix:
    """The inverse without an error: `info` says whether it is one.

    >>> import contraflow as cf
    >>> cf.linalg.inv_ex(4 * cf.eye(2)).inverse
    tensor([[0.2500, 0.0000],
            [0.0000, 0.2500]])
    """
    found = triangles.lu_factor(A, check=False)
    info = triangles.has_zero(found.LU)
    if check_errors and bool((info != 0).any()):
        raise LinAlgError(f"inv_ex: {describe(A)} is singular.")
    one = eye(A.shape[-1], dtype=A.dtype, device=A.device)
    # Where it is singular any number will do for the zeros of U.
    safe = where((one != 0) & (found.LU == 0), one, found.LU)
    return InverseMatrix(lu_solve(safe, found.pivots, one.expand(A.shape)), info)


class Solution(NamedTuple):
    """The solution, and 0 or the number of a zero on the diagonal of U: there is none then."""

    result: Tensor
    info: Tensor


@public
def solve_ex(
    A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False
) -> Solution:  # fmt: skip
    """The solution of A X = B without an error: `info` says whether it is one.

    >>> import contraflow as cf
    >>> cf.linalg.solve_ex(2 * cf.eye(2), cf.ones(2)).result
    tensor([0.5000, 0.5000])
    """
    info = triangles.has_zero(triangles.lu_factor(A, check=False).LU)
    if check_errors and bool((info != 0).any()):
        raise LinAlgError(f"solve_ex: {describe(A)} is singular.")
    one = eye(A.shape[-1], dtype=A.dtype, device=A.device)
    singular = (info != 0)[..., None, None]
    return Solution(solve(where(singular, one, A), B, left=left), info)


@public
def lu_factor(A: Tensor, *, pivot: bool = True) -> Any:
    """Both triangles of P A = L U in one matrix, and the exchanges of rows that P makes.

    >>> import contraflow as cf
    >>> cf.linalg.lu_factor(cf.tensor([[0.0, 1.0], [2.0, 3.0]]))
    lu_factor(LU=tensor([[2., 3.],
            [0., 1.]]), pivots=tensor([2, 2], dtype=contraflow.int32))
    """
    return triangles.lu_factor(A, pivot=pivot, check=True)


@public
def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> LuFactor:
    """`lu_factor` without an error: `info` says whether U has a zero on its diagonal.

    >>> import contraflow as cf
    >>> cf.linalg.lu_factor_ex(cf.tensor([[0.0, 1.0], [2.0, 3.0]])).info
    tensor(0, dtype=contraflow.int32)
    """
    found = triangles.lu_factor(A, pivot=pivot, check=check_errors)
    return LuFactor(found.LU, found.pivots, triangles.has_zero(found.LU))


@public
def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonals of matrices.

    >>> import contraflow as cf
    >>> cf.linalg.diagonal(cf.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    out: Tensor = parts.diagonal(A, offset, dim1, dim2)
    return out


@public
def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The cross product of vectors along a dim of size three.

    >>> import contraflow as cf
    >>> cf.linalg.cross(cf.tensor([1.0, 0.0, 0.0]), cf.tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    if input.ndim != other.ndim:
        raise ValueError(
            f"linalg.cross: {describe(input)} and {describe(other)} have different numbers of dims."
        )
    out: Tensor = products.cross(input, other, dim)
    return out


@public
def vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """The powers 0, ..., N - 1 of each element, along a new last dim.

    >>> import contraflow as cf
    >>> cf.linalg.vander(cf.tensor([2.0, 3.0]), N=3)
    tensor([[1., 2., 4.],
            [1., 3., 9.]])
    """
    out: Tensor = matrices.vander(x if x.ndim else x.reshape(1), N, increasing=True)
    return out


@public
def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """The inverse of the linear map from the last dims of A, after `ind`, to the first ones.

    >>> import contraflow as cf
    >>> cf.linalg.tensorinv(cf.eye(4).view(2, 2, 4), ind=2).shape
    (4, 2, 2)
    """
    if ind <= 0 or numel(A.shape[:ind]) != numel(A.shape[ind:]):
        raise ValueError(
            f"linalg.tensorinv: {describe(A)} is not a square map when its first {ind} dims are "
            f"rows."
        )
    flat = A.reshape(numel(A.shape[:ind]), numel(A.shape[ind:]))
    out: Tensor = inv(flat).reshape(*A.shape[ind:], *A.shape[:ind])
    return out


@public
def tensorsolve(A: Tensor, B: Tensor, dims: tuple[int, ...] | None = None) -> Tensor:
    """X with tensordot(A, X, X.ndim) = B; `dims` of A are moved to its end first.

    >>> import contraflow as cf
    >>> cf.linalg.tensorsolve(cf.eye(4).view(2, 2, 4), cf.ones(2, 2))
    tensor([1., 1., 1., 1.])
    """
    if dims is not None:
        A = view.movedim(A, tuple(dims), tuple(range(A.ndim - len(dims), A.ndim)))
    rest = A.shape[B.ndim :]
    if numel(A.shape) != numel(rest) ** 2 or numel(rest) != numel(B.shape):
        raise ValueError(
            f"linalg.tensorsolve: {describe(A)} does not map a tensor to {describe(B)}."
        )
    flat = A.reshape(numel(B.shape), numel(rest))
    out: Tensor = solve(flat, B.reshape(numel(B.shape))).reshape(*rest)
    return out


__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]

globals()["__getattr__"] = getter(__name__)
