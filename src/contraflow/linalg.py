"""Linear algebra under PyTorch's names: `contraflow.linalg.solve` and its like.

Nearly every function is an op, declared in `ops/linalg.py`, `decompositions.py`, `matrices.py` or
`products.py` there.
"""

from typing import Any, NoReturn

from contraflow.op import REGISTRY
from contraflow.ops.decompositions import det, eigh, eigvalsh, qr, slogdet, svd, svdvals
from contraflow.ops.linalg import LinAlgError, cholesky, inv, solve, solve_triangular
from contraflow.ops.matrices import (
    cond,
    lstsq,
    matrix_exp,
    matrix_norm,
    matrix_power,
    matrix_rank,
    pinv,
    vector_norm,
)
from contraflow.ops.matrices import linalg_norm as norm
from contraflow.ops.products import matmul, multi_dot, vecdot
from contraflow.tensor import Tensor


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonals of matrices."""
    out: Tensor = REGISTRY["diagonal"](A, offset, dim1, dim2)
    return out


def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The cross product of vectors along a dim of size three."""
    out: Tensor = REGISTRY["cross"](input, other, dim)
    return out


def vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """The powers 0, ..., N - 1 of each element, along a new last dim."""
    out: Tensor = REGISTRY["vander"](x, N, increasing=True)
    return out


def eig(A: Any) -> NoReturn:
    """Not there: the eigenvalues of a general matrix are complex."""
    raise NotImplementedError(
        "linalg.eig: eigenvalues of general matrices are complex, and contraflow has no complex "
        "numbers (docs/differences.md). Use linalg.eigh for symmetric matrices."
    )


eigvals = eig

__all__ = [
    "LinAlgError",
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "lstsq",
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
    "solve_triangular",
    "svd",
    "svdvals",
    "vander",
    "vecdot",
    "vector_norm",
]
