"""Linear systems: triangular, positive definite and general ones; they are solved on the host.

Everything takes stacks of matrices in float32 or float64. Gradient rules solve triangular systems
rather than form inverses wherever a factor is at hand.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from contraflow.dtypes import float32, float64
from contraflow.errors import describe_spec
from contraflow.operation.context import apply
from contraflow.operation.kinds import composite, host
from contraflow.operation.samples import Failure, Sample
from contraflow.ops.creation.create import arange
from contraflow.ops.creation.data import tensor
from contraflow.ops.elementwise.basic import where
from contraflow.ops.shape.view import reshape
from contraflow.shapes import broadcast_shapes
from contraflow.spec import Spec
from contraflow.tensors.tensor import Tensor


class LinAlgError(RuntimeError):
    """A matrix does not have the inverse or decomposition that was asked for.

    >>> import contraflow as cf
    >>> try:
    ...     cf.linalg.inv(cf.zeros(2, 2))
    ... except cf.linalg.LinAlgError as error:
    ...     print(error)
    inv: float32[2, 2] is singular.
    """


def real_types(name: str, outs: int = 1) -> Any:
    """The dtype rule of all of these: one dtype for everything, float32 or float64."""

    def rule(inputs: Any, params: Any) -> Any:
        for x in inputs:
            if x.dtype not in (float32, float64):
                raise TypeError(f"{name}: {x} is not supported. Use float32 or float64.")
        dtype = float64 if any(x.dtype is float64 for x in inputs) else float32
        return (dtype,) * len(inputs), (dtype,) * outs

    return rule


def require_matrix(name: str, x: Spec) -> tuple[int, int]:
    """The two sizes of matrices."""
    if len(x.shape) < 2:
        raise ValueError(f"{name}: {x} is not a matrix; it takes at least two dims.")
    return x.shape[-2:]  # type: ignore[return-value]


def require_square(name: str, x: Spec) -> int:
    """The one size of square matrices."""
    m, n = require_matrix(name, x)
    if m != n:
        raise ValueError(f"{name}: {x} is not square.")
    return n


def square_shape(name: str) -> Any:
    """The shape rule of what makes square matrices of square matrices."""

    def shape(x: Spec, **_: Any) -> Any:
        require_square(name, x)
        return x.shape

    return shape


def _lapack(name: str, function: Any, problem: str) -> Any:
    """A NumPy function whose failure is ours to report."""

    def ref(*arrays: np.ndarray, **params: Any) -> Any:
        try:
            return function(*arrays, **params)
        except np.linalg.LinAlgError:
            x = arrays[0]
            raise LinAlgError(f"{name}: {describe_spec(x.dtype, x.shape)} {problem}.") from None

    return ref


def grid(m: int, n: int) -> tuple[Tensor, Tensor]:
    """Numbers of rows and of columns, which broadcast."""
    return reshape(arange(m), (m, 1)), arange(n)


def identity_mask(n: int) -> Tensor:
    """The mask of the diagonal."""
    rows, columns = grid(n, n)
    return rows == columns


def triangle(x: Tensor, upper: bool, strict: bool = False) -> Tensor:
    """The upper or lower triangle, zeros elsewhere; without the diagonal if `strict`."""
    rows, columns = grid(*x.shape[-2:])
    low, high = (rows, columns) if upper else (columns, rows)
    return where(low < high if strict else low <= high, x, 0.0)


def transposed(x: np.ndarray) -> np.ndarray:
    """The last two dims of an array exchanged."""
    return np.swapaxes(x, -1, -2)


# --- samples -------------------------------------------------------------------------------------


def random_matrices(*shape: int, shift: float = 0.0) -> np.ndarray:
    """Random matrices; `shift` on the diagonal keeps them away from singular ones."""
    values = np.random.default_rng(sum(shape)).uniform(-1.0, 1.0, shape)
    return values + shift * np.eye(shape[-2], shape[-1])


@functools.cache
def _shifted() -> np.ndarray:
    return random_matrices(2, 3, 3, shift=2.0)


def regular_samples() -> Any:
    """Stacks of matrices that have an inverse."""
    yield Sample((_shifted(),))
    yield Sample((random_matrices(1, 4, 4, shift=2.0),))
    yield Sample((np.zeros((0, 2, 2)),))


def not_square(name: str, **params: Any) -> Any:
    """The failures of what takes square matrices of real numbers."""

    def failures() -> Any:
        yield Failure((np.zeros((2, 3)),), params, ValueError, f"{name}: float64[2, 3] is not sq")
        yield Failure((np.zeros(2),), params, ValueError, f"{name}: float64[2] is not a matrix")
        half = np.zeros((2, 2), np.float16)
        yield Failure((half,), params, TypeError, f"{name}: float16[2, 2] is not supported. Use")

    return failures


def _singular(name: str, **params: Any) -> Any:
    def failures() -> Any:
        yield from not_square(name, **params)()
        flat = np.ones((2, 2))
        yield Failure((flat,), params, LinAlgError, f"{name}: float64[2, 2] is singular.")

    return failures


# --- triangular systems --------------------------------------------------------------------------


def _solve_triangular_ref(
    a: np.ndarray, b: np.ndarray, upper: bool, left: bool, unitriangular: bool
) -> np.ndarray:
    if not left:  # X A = B is A' X' = B'
        turned = transposed(a), transposed(b)
        return transposed(_solve_triangular_ref(*turned, not upper, True, unitriangular))
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    x = np.broadcast_to(b, (*batch, *b.shape[-2:])).copy()
    n = a.shape[-1]
    for i in reversed(range(n)) if upper else range(n):
        known = slice(i + 1, None) if upper else slice(0, i)
        x[..., i, :] -= (a[..., i : i + 1, known] @ x[..., known, :])[..., 0, :]
        if not unitriangular:
            x[..., i, :] /= a[..., i, i, None]
    return x


def _solved_shape(name: str) -> Any:
    def shape(a: Spec, b: Spec, left: bool, **_: Any) -> Any:
        n = require_square(name, a)
        require_matrix(name, b)
        if n != b.shape[-2 if left else -1]:
            raise ValueError(
                f"{name}: cannot solve {a} for {b}: sizes {n} and {b.shape[-2 if left else -1]} "
                f"differ."
            )
        return (*broadcast_shapes(name, (a.shape[:-2], b.shape[:-2])), *b.shape[-2:])

    return shape


# From A X = B: the gradient of B solves the transposed system, and dA meets it as -dA X.
def _solve_triangular_vjp(
    g: Tensor, a: Tensor, out: Tensor, upper: bool, left: bool, unitriangular: bool
) -> Any:
    back = solve_triangular(a.mT, g, upper=not upper, left=left, unitriangular=unitriangular)
    product = back @ out.mT if left else out.mT @ back
    return -triangle(product, upper, unitriangular), back


def _triangular_samples() -> Any:
    def params(upper: bool, left: bool, unitriangular: bool) -> dict[str, Any]:
        return {"upper": upper, "left": left, "unitriangular": unitriangular}

    a = _shifted()
    yield Sample((a, random_matrices(2, 3, 2)), params(False, True, False))
    yield Sample((a, random_matrices(1, 2, 3)), params(True, False, False))
    yield Sample((a, random_matrices(2, 3, 2)), params(True, True, True))


@host(
    ref=_solve_triangular_ref,
    dtype=real_types("solve_triangular"),
    shape=_solved_shape("solve_triangular"),
    vjp={"a, b": _solve_triangular_vjp},
    samples=_triangular_samples,
    failures=lambda: (
        Failure(
            (np.eye(3), np.zeros((2, 2))), {"upper": True, "left": True, "unitriangular": False},
            ValueError, "cannot solve float64[3, 3] for float64[2, 2]: sizes 3 and 2 differ.",
        ),
    ),
    method=False,
)  # fmt: skip
def solve_triangular(a, b, *, upper, left=True, unitriangular=False):
    """X with A X = B, or X A = B, of a triangular A; the other triangle is not read."""


# With P the lower triangle with halved diagonal: S = P(L' G), and the gradient is
# sym(inv(L)' S inv(L)).
def cholesky_vjp(g: Tensor, out: Tensor, upper: bool) -> Tensor:
    """The gradient of a matrix, given that of its Cholesky factor `out`."""
    factor, g = (out.mT, g.mT) if upper else (out, g)
    product = triangle(factor.mT @ g, upper=False)
    middle = where(identity_mask(factor.shape[-1]), product * 0.5, product)
    half = solve_triangular(factor.mT, middle, upper=True)
    full = solve_triangular(factor, half, upper=False, left=False)
    return (full + full.mT) * 0.5


def positive_definite(*shape: int) -> np.ndarray:
    """Symmetric matrices with positive eigenvalues."""
    a = random_matrices(*shape)
    return a @ transposed(a) + np.eye(shape[-1])


@host(
    ref=_lapack("cholesky", np.linalg.cholesky, "is not positive definite"),
    dtype=real_types("cholesky"),
    shape=square_shape("cholesky"),
    vjp={"x": cholesky_vjp},
    samples=lambda: (
        Sample((positive_definite(2, 3, 3),), {"upper": False}),
        Sample((positive_definite(4, 4),), {"upper": True}),
    ),
    failures=lambda: (
        *not_square("cholesky", upper=False)(),
        Failure(
            (-np.eye(2),), {"upper": False}, LinAlgError,
            "cholesky: float64[2, 2] is not positive definite.",
        ),
    ),
    symmetric=True,
)  # fmt: skip
def cholesky(x, *, upper=False):
    """The triangular L with x = L L', or U with x = U' U; x is taken to be symmetric."""


@composite(
    ref=lambda b, factor, upper: np.linalg.solve(
        transposed(factor) @ factor if upper else factor @ transposed(factor), b
    ),
    samples=lambda: (
        Sample(
            (random_matrices(2, 3, 2), np.tril(random_matrices(2, 3, 3, shift=2.0))),
            {"upper": False},
        ),
        Sample(
            (random_matrices(3, 2), np.triu(random_matrices(1, 3, 3, shift=2.0))), {"upper": True}
        ),
    ),
)
def cholesky_solve(b, factor, *, upper=False):
    """X with A X = B, given the Cholesky factor of A."""
    first, second = (factor.mT, factor) if upper else (factor, factor.mT)
    return solve_triangular(second, solve_triangular(first, b, upper=False), upper=True)


@composite(
    ref=lambda x, upper: np.linalg.inv(transposed(x) @ x if upper else x @ transposed(x)),
    samples=lambda: (
        Sample((np.tril(random_matrices(2, 3, 3, shift=2.0)),), {"upper": False}),
        Sample((np.triu(random_matrices(3, 3, shift=2.0)),), {"upper": True}),
    ),
    triangular=True,
)
def cholesky_inverse(x, *, upper=False):
    """The inverse of A, given its Cholesky factor."""
    one = tensor(np.eye(require_matrix("cholesky_inverse", x)[-1]), dtype=x.dtype)
    return cholesky_solve(one, x, upper=upper)


# --- general systems -----------------------------------------------------------------------------


def _solve_ref(a: np.ndarray, b: np.ndarray, left: bool) -> np.ndarray:
    if left:
        return np.linalg.solve(a, b)
    return transposed(np.linalg.solve(transposed(a), transposed(b)))


def _solve_vjp(g: Tensor, a: Tensor, out: Tensor, left: bool) -> Any:
    back = solve(a.mT, g, left=left)
    return -(back @ out.mT if left else out.mT @ back), back


@host(
    ref=_lapack("solve", _solve_ref, "is singular"),
    dtype=real_types("solve"),
    shape=_solved_shape("solve"),
    vjp={"a, b": _solve_vjp},
    samples=lambda: (
        Sample((_shifted(), random_matrices(2, 3, 2)), {"left": True}),
        Sample((random_matrices(1, 3, 3, shift=2.0), random_matrices(2, 4, 3)), {"left": False}),
    ),
    failures=lambda: (
        Failure((np.ones((2, 2)), np.ones((2, 1))), {"left": True}, LinAlgError, "is singular"),
        Failure((np.eye(2), np.ones((3, 1))), {"left": True}, ValueError, "sizes 2 and 3 differ"),
    ),
    method=False,
)
def solve(a, b, *, left=True):
    """X with A X = B, or X A = B if not `left`; B may be a vector, or a stack of them."""


@solve.signature
def _solve(a: Tensor, b: Tensor, *, left: bool = True) -> Tensor:
    if b.ndim != 1 and not (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1]):
        out: Tensor = apply(solve, (a, b), {"left": left})
        return out
    if not left:
        raise ValueError("solve: left=False takes a matrix B, not a vector.")
    columns = apply(solve, (a, reshape(b, (*b.shape, 1))), {"left": True})
    return reshape(columns, columns.shape[:-1])


@host(
    ref=_lapack("inv", np.linalg.inv, "is singular"),
    dtype=real_types("inv"),
    shape=square_shape("inv"),
    vjp={"x": lambda g, out: -(out.mT @ g @ out.mT)},
    samples=regular_samples,
    failures=_singular("inv"),
    aliases=("inverse",),
)
def inv(x):
    """The inverse. To solve a system, `solve` is faster and more accurate."""
