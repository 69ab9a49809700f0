"""Decompositions: QR, eigenvalues and singular values, and determinants, which are made of them.

Cases that are not differentiable in PyTorch (repeated eigenvalues, the free columns of a complete
QR) are not differentiable here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from contraflow.errors import GradientError
from contraflow.operation.kinds import composite, host
from contraflow.operation.samples import Failure, Sample
from contraflow.ops.creation.create import arange
from contraflow.ops.elementwise.basic import where
from contraflow.ops.linalg.products import matmul
from contraflow.ops.linalg.solve import (
    grid,
    identity_mask,
    inv,
    not_square,
    positive_definite,
    random_matrices,
    real_types,
    regular_samples,
    require_matrix,
    require_square,
    solve_triangular,
    square_shape,
    transposed,
    triangle,
)
from contraflow.ops.reduction.reduce import prod
from contraflow.ops.shape.diagonals import diag_embed
from contraflow.ops.shape.joining import cat
from contraflow.ops.shape.parts import diagonal
from contraflow.ops.shape.view import reshape
from contraflow.spec import Spec
from contraflow.tensors.tensor import Tensor


def _qr_ref(x: np.ndarray, mode: str) -> Any:
    if mode == "r":
        return np.zeros((0,), x.dtype), np.linalg.qr(x, mode="r")
    return tuple(np.linalg.qr(x, mode=mode))  # type: ignore[call-overload]


def _qr_shape(x: Spec, mode: str) -> Any:
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"qr: mode is {mode!r}; it must be 'reduced', 'complete' or 'r'.")
    m, n = require_matrix("qr", x)
    k = m if mode == "complete" else min(m, n)
    batch = x.shape[:-2]
    return (0,) if mode == "r" else (*batch, m, k), (*batch, k, n)


# With M = R gR' - gQ' Q and its lower triangle mirrored: (gQ + Q M) inv(R)'. A wide matrix is
# [X Y] = Q [U V], where Y = Q V adds V gV' to what Q gets.
def _qr_vjp(g_Q: Any, g_R: Any, Q: Tensor, R: Tensor, x_spec: Any, mode: str) -> Any:
    m, n = x_spec.shape[-2:]
    if mode == "r" or (mode == "complete" and m > n):
        raise GradientError(
            f"qr: mode {mode!r} of {x_spec} is not differentiable. Use mode='reduced'."
        )
    if g_Q is None and g_R is None:
        return None
    g_Q = Q * 0.0 if g_Q is None else g_Q
    g_R = R * 0.0 if g_R is None else g_R
    if m < n:
        u, v, g_u, g_v = R[..., :m], R[..., m:], g_R[..., :m], g_R[..., m:]
        first = _tall_qr_vjp(g_Q + Q @ (v @ g_v.mT), g_u, Q, u)
        return cat((first, Q @ g_v), -1)
    return _tall_qr_vjp(g_Q, g_R, Q, R)


def _tall_qr_vjp(g_q: Tensor, g_r: Tensor, q: Tensor, r: Tensor) -> Tensor:
    m = r @ g_r.mT - g_q.mT @ q
    mirrored = triangle(m, upper=False) + triangle(m, upper=False, strict=True).mT
    return solve_triangular(r.mT, g_q + q @ mirrored, upper=False, left=False)


@host(
    ref=_qr_ref,
    dtype=real_types("qr", 2),
    outs=("Q", "R"),
    shape=_qr_shape,
    vjp={"x": _qr_vjp},
    samples=lambda: (
        Sample((random_matrices(2, 4, 3, shift=1.0),), {"mode": "reduced"}),
        Sample((random_matrices(2, 2, 4, shift=1.0),), {"mode": "reduced"}),
        Sample((random_matrices(1, 3, 3, shift=1.0),), {"mode": "complete"}),
    ),
    failures=lambda: (
        Failure((np.eye(2),), {"mode": "full"}, ValueError, "qr: mode is 'full'; it must be"),
        Failure((np.ones(2),), {"mode": "r"}, ValueError, "qr: float64[2] is not a matrix"),
    ),
    method=False,
)
def qr(x, *, mode="reduced"):
    """x = Q R with orthonormal columns in Q and an upper triangular R."""


# The eigenvectors turn into each other by V' gV over the gaps between eigenvalues.
def _eigh_vjp(g_eigenvalues: Any, g_eigenvectors: Any, eigenvalues: Any, eigenvectors: Any) -> Any:
    middle = None if g_eigenvalues is None else diag_embed(g_eigenvalues)
    if g_eigenvectors is not None:
        same = identity_mask(eigenvalues.shape[-1])
        n = eigenvalues.shape
        gaps = reshape(eigenvalues, (*n[:-1], 1, n[-1])) - reshape(eigenvalues, (*n, 1))
        turns = eigenvectors.mT @ g_eigenvectors
        turns = where(same, 0.0, (turns - turns.mT) * 0.5 / where(same, 1.0, gaps))
        middle = turns if middle is None else middle + turns
    return None if middle is None else eigenvectors @ middle @ eigenvectors.mT


def _eigh_shape(x: Spec, UPLO: str) -> Any:
    if UPLO not in ("L", "U"):
        raise ValueError(f"eigh: UPLO is {UPLO!r}; it must be 'L' or 'U'.")
    require_square("eigh", x)
    return x.shape[:-1], x.shape


def _symmetric(*shape: int) -> np.ndarray:
    a = random_matrices(*shape)
    return a + transposed(a) + 2.0 * np.diag(np.arange(shape[-1]))


@host(
    ref=lambda x, UPLO: tuple(np.linalg.eigh(x, UPLO)),
    dtype=real_types("eigh", 2),
    outs=("eigenvalues", "eigenvectors"),
    shape=_eigh_shape,
    vjp={"x": _eigh_vjp},
    samples=lambda: (
        Sample((_symmetric(2, 3, 3),), {"UPLO": "L"}),
        Sample((_symmetric(4, 4),), {"UPLO": "U"}),
    ),
    failures=lambda: (
        *not_square("eigh", UPLO="L")(),
        Failure((np.eye(2),), {"UPLO": "X"}, ValueError, "eigh: UPLO is 'X'; it must be 'L' or"),
    ),
    method=False,
    symmetric=True,
)
def eigh(x, *, UPLO="L"):
    """Eigenvalues in ascending order, and eigenvectors as columns, of symmetric matrices."""


@composite(
    ref=lambda x, UPLO: np.linalg.eigvalsh(x, UPLO),
    samples=lambda: (Sample((_symmetric(2, 3, 3),), {"UPLO": "L"}),),
    method=False,
    symmetric=True,
)
def eigvalsh(x, *, UPLO="L"):
    """Eigenvalues of symmetric matrices in ascending order."""
    return eigh(x, UPLO=UPLO)[0]


def _svd_shape(x: Spec, full_matrices: bool) -> Any:
    m, n = require_matrix("svd", x)
    k, batch = min(m, n), x.shape[:-2]
    left, right = (m, n) if full_matrices else (k, k)
    return (*batch, m, left), (*batch, k), (*batch, right, n)


def _svd_vjp(g_U: Any, g_S: Any, g_Vh: Any, U: Tensor, S: Tensor, Vh: Tensor, x_spec: Any) -> Any:
    m, n = x_spec.shape[-2:]
    k = min(m, n)
    u, vh = U[..., :k], Vh[..., :k, :]  # the free vectors of full matrices have no gradient
    middle = None if g_S is None else diag_embed(g_S)
    row, column = reshape(S, (*S.shape[:-1], 1, k)), reshape(S, (*S.shape, 1))
    same = identity_mask(k)
    gaps = where(same, 1.0, (row - column) * (row + column))
    extra = None
    if g_U is not None:
        g_u = g_U[..., :k]
        turns = u.mT @ g_u
        term = where(same, 0.0, (turns - turns.mT) / gaps) * row
        middle = term if middle is None else middle + term
        if m > k:  # what leaves the span of u
            extra = ((g_u - u @ turns) / row) @ vh
    if g_Vh is not None:
        g_v = g_Vh[..., :k, :].mT
        turns = vh @ g_v
        term = column * where(same, 0.0, (turns - turns.mT) / gaps)
        middle = term if middle is None else middle + term
        if n > k:
            extra = u @ ((g_v - vh.mT @ turns) / row).mT
    if middle is None:
        return None
    inside = u @ middle @ vh
    return inside if extra is None else inside + extra


@host(
    ref=lambda x, full_matrices: tuple(np.linalg.svd(x, full_matrices)),
    dtype=real_types("svd", 3),
    outs=("U", "S", "Vh"),
    shape=_svd_shape,
    vjp={"x": _svd_vjp},
    samples=lambda: (
        Sample((random_matrices(2, 4, 3, shift=1.0),), {"full_matrices": False}),
        Sample((random_matrices(2, 2, 4, shift=1.0),), {"full_matrices": False}),
        Sample((random_matrices(1, 3, 3, shift=1.0),), {"full_matrices": True}),
    ),
    failures=lambda: (
        Failure((np.ones(2),), {"full_matrices": True}, ValueError, "svd: float64[2] is not a mat"),
        Failure((np.ones((2, 2), np.float16),), {"full_matrices": True}, TypeError, "svd: float16"),
    ),
    method=False,
)
def svd(x, *, full_matrices=True):
    """x = U diag(S) Vh with singular values in descending order."""


@composite(
    ref=lambda x: np.linalg.svd(x, compute_uv=False),
    samples=lambda: (
        Sample((random_matrices(2, 4, 3, shift=1.0),)),
        Sample((random_matrices(2, 2, 4, shift=1.0),)),
    ),
    method=False,
)
def svdvals(x):
    """Singular values in descending order."""
    return svd(x, full_matrices=False)[1]


# --- determinants --------------------------------------------------------------------------------


def _cofactor_ref(x: np.ndarray) -> np.ndarray:
    # det(A) inv(A)' without dividing: singular values meet as products of all others.
    u, s, vh = np.linalg.svd(x)
    ones = np.ones_like(s[..., :1])
    before = np.cumprod(np.concatenate([ones, s[..., :-1]], -1), -1)
    after = np.cumprod(np.concatenate([ones, s[..., :0:-1]], -1), -1)[..., ::-1]
    sign = np.linalg.det(u) * np.linalg.det(vh)
    return (u * (sign[..., None] * before * after)[..., None, :]) @ vh if x.shape[-1] else x.copy()


# With A = U S V', turning A's directions into those of S: near a diagonal S the cofactor (i, j)
# moves with the products of all singular values but s_i and s_j.
def _cofactor_vjp(g: Tensor, x: Tensor) -> Tensor:
    u, s, vh = svd(x)
    n = s.shape[-1]
    rows, columns = grid(n, n)
    k = reshape(arange(n), (n, 1, 1))
    rest = where((k == rows) | (k == columns), 1.0, reshape(s, (*s.shape, 1, 1)))
    pairs = where(identity_mask(n), 0.0, prod(rest, -3))
    turned = u.mT @ g @ vh.mT
    middle = diag_embed(matmul(pairs, _column(diagonal(turned, 0, -2, -1)))[..., 0])
    sign = _per_matrix((det(u) * det(vh)).detach())
    return sign * (u @ (middle - pairs * turned.mT) @ vh)


def _column(x: Tensor) -> Tensor:
    return reshape(x, (*x.shape, 1))


@host(
    ref=_cofactor_ref,
    dtype=real_types("cofactor"),
    shape=square_shape("cofactor"),
    vjp={"x": _cofactor_vjp},
    samples=regular_samples,
    failures=not_square("cofactor"),
    method=False,
    internal=True,
)
def cofactor(x):
    """The matrix of cofactors, which is the gradient of det, for singular matrices too."""


def _per_matrix(g: Tensor) -> Tensor:
    return reshape(g, (*g.shape, 1, 1))


def _det_shape(name: str) -> Any:
    def shape(x: Spec) -> Any:
        require_square(name, x)
        return x.shape[:-2]

    return shape


@host(
    ref=np.linalg.det,
    dtype=real_types("det"),
    shape=_det_shape("det"),
    vjp={"x": lambda g, x: _per_matrix(g) * cofactor(x)},
    samples=regular_samples,
    failures=not_square("det"),
)
def det(x):
    """The determinant."""


@host(
    ref=lambda x: tuple(np.linalg.slogdet(x)),
    dtype=real_types("slogdet", 2),
    outs=("sign", "logabsdet"),
    shape=lambda x: (_det_shape("slogdet")(x),) * 2,
    vjp={"x": lambda g_logabsdet, x: (
        None if g_logabsdet is None else _per_matrix(g_logabsdet) * inv(x).mT)},
    samples=regular_samples,
    failures=not_square("slogdet"),
)  # fmt: skip
def slogdet(x):
    """The sign of the determinant, and the logarithm of its absolute value."""


@composite(
    ref=lambda x: np.log(np.linalg.det(x)),
    samples=lambda: (Sample((positive_definite(2, 3, 3),)),),
    failures=not_square("slogdet"),
)
def logdet(x):
    """The logarithm of the determinant; NaN where that is negative."""
    sign, logarithm = slogdet(x)
    return where(sign < 0, float("nan"), logarithm)
