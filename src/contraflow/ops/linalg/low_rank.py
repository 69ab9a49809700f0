"""The largest singular values of a matrix, from products with few random vectors.

A product with random vectors, orthonormalised, spans nearly what the leading singular vectors span
(Halko, Martinsson and Tropp 2011, algorithm 4.4). Repeated products with the matrix and its
transpose come nearer still. The last step is the decomposition of a small matrix.
"""

from __future__ import annotations

from typing import NamedTuple

from contraflow.errors import describe
from contraflow.ops.creation.random import randn
from contraflow.ops.linalg.decompositions import qr, svd
from contraflow.tensors.tensor import Tensor


class LowRank(NamedTuple):
    """A matrix [..., m, n] as U diag(S) V', nearly: U [..., m, q], S [..., q], V [..., n, q]."""

    U: Tensor
    S: Tensor
    V: Tensor


def svd_lowrank(A: Tensor, q: int | None = 6, niter: int = 2, M: Tensor | None = None) -> LowRank:
    """The q largest singular values of matrices A - M [..., m, n], and their vectors, nearly.

    The basis that is searched in is drawn at random; `niter` more rounds make it more exact. Where
    the rank is at most q, the result is exact.

    >>> import contraflow as cf
    >>> x = cf.arange(6.0).view(3, 2) @ cf.arange(8.0).view(2, 4)
    >>> U, S, V = cf.svd_lowrank(x, q=2)
    >>> cf.allclose(U * S @ V.mT, x, atol=1e-4)
    True
    """
    return _decomposed("svd_lowrank", A if M is None else A - M, 6 if q is None else q, niter)


def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> LowRank:
    """The q principal components of rows A [..., m, n], nearly: V [..., n, q] has their directions.

    q is 6, or less for smaller matrices; `center` takes the mean of the columns away first.

    >>> import contraflow as cf
    >>> x = cf.tensor([[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]])
    >>> _, S, V = cf.pca_lowrank(x, q=1)
    >>> (V[1] / V[0]).round(decimals=3)
    tensor([2.])
    """
    if q is None and A.ndim >= 2:
        q = min(6, *A.shape[-2:])
    centred = A - A.mean(-2, keepdim=True) if center and A.ndim >= 2 else A
    return _decomposed("pca_lowrank", centred, 6 if q is None else q, niter)


def _decomposed(name: str, x: Tensor, q: int, niter: int) -> LowRank:
    if x.ndim < 2 or not x.is_floating_point():
        raise ValueError(f"{name}: {describe(x)} is not a matrix of floats.")
    if not 0 <= q <= min(x.shape[-2:]):
        raise ValueError(
            f"{name}: q={q} of {describe(x)}; a matrix of this size has "
            f"{min(x.shape[-2:])} singular values."
        )
    if niter < 0:
        raise ValueError(f"{name}: niter={niter} is negative.")
    is_wide = x.shape[-2] < x.shape[-1]
    tall = x.mT if is_wide else x
    basis, _ = qr(tall @ randn(tall.shape[-1], q, dtype=x.dtype, device=x.device))
    for _ in range(niter):
        basis, _ = qr(tall.mT @ basis)
        basis, _ = qr(tall @ basis)
    small, values, directions = svd(basis.mT @ tall, full_matrices=False)
    left, right = basis @ small, directions.mT
    return LowRank(right, values, left) if is_wide else LowRank(left, values, right)
