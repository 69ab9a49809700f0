"""Triangles and diagonals of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from contraflow.devices.names import Device
from contraflow.dtypes import DType, int64
from contraflow.errors import describe
from contraflow.expressions import expression as s
from contraflow.operation.context import apply
from contraflow.operation.kinds import composite, host, index
from contraflow.operation.op import Op
from contraflow.operation.samples import Array, Failure, Sample
from contraflow.ops.creation.create import check_options, full, on, zeros
from contraflow.ops.elementwise.basic import clone, to_dtype
from contraflow.ops.reduction.reduce import sum_
from contraflow.ops.shape.parts import diagonal as diagonal_view
from contraflow.ops.shape.parts import replaced
from contraflow.ops.shape.view import assign, expand, reshape
from contraflow.shapes import Shape, contiguous_strides, normalize_dim, whole
from contraflow.tensors.tensor import Tensor


def _triangle(name: str, ref: Any, keeps: Any, which: str) -> Op:
    def shape(x: Any, diagonal: int) -> Shape:
        if len(x.shape) < 2:
            raise ValueError(f"{name}: {x} has fewer than two dims.")
        found: Shape = x.shape
        return found

    def body(x: Any, *, diagonal: int = 0) -> Any:
        """."""

    body.__name__ = name
    body.__doc__ = f"The elements on and {which} a diagonal of the last two dims, else zeros."
    op = index(
        ref=lambda x, diagonal: ref(x, diagonal),
        dtype="same",
        shape=shape,
        source=lambda at, x, diagonal: s.select(keeps(at[-1] - at[-2], s.Size(diagonal)), x[at], 0),
        normalize=lambda x, diagonal: {"diagonal": whole(name, "diagonal", diagonal)},
        vjp={"x": lambda g, diagonal: op(g, diagonal)},
        samples=lambda: (
            Sample((Array((3, 4)),), {"diagonal": 0}),
            Sample((Array((2, 3, 3)),), {"diagonal": -1}),
            Sample((Array((3, 2)),), {"diagonal": 1}),
        ),
        failures=lambda: (
            Failure((Array((3,)),), {"diagonal": 0}, ValueError, f"{name}: float64[3] has fewer"),
            Failure((Array((3, 3)),), {"diagonal": 1.5}, TypeError, f"{name}: diagonal must be an"),
        ),
        inplace=True,
        linear=True,
    )(body)
    return op


tril = _triangle("tril", np.tril, lambda beyond, k: beyond <= k, "below")
triu = _triangle("triu", np.triu, lambda beyond, k: beyond >= k, "above")


def _triangle_indices(name: str, ref: Any) -> Op:
    def body(*, row: int, col: int, offset: int = 0, dtype: DType = int64) -> Any:
        """."""

    def places(row: int, col: int, offset: int, dtype: DType) -> np.ndarray:
        return np.stack(ref(row, offset, col)).astype(dtype.numpy)

    def checked(row: Any, col: Any, offset: Any, dtype: DType) -> dict[str, int]:
        sizes = {"row": whole(name, "row", row), "col": whole(name, "col", col)}
        for size, n in sizes.items():
            if n < 0:
                raise ValueError(f"{name}: {size} {n} must be at least 0.")
        return {**sizes, "offset": whole(name, "offset", offset)}

    body.__name__ = name
    body.__doc__ = f"Rows and columns of the elements that {name[:4]} keeps, as a [2, n] tensor."
    op = host(
        ref=places,
        dtype="param",
        shape=lambda row, col, offset, dtype: places(row, col, offset, dtype).shape,
        normalize=checked,
        samples=lambda: (
            Sample((), {"row": 3, "col": 4, "offset": 0, "dtype": int64}),
            Sample((), {"row": 3, "col": 2, "offset": -1, "dtype": int64}),
        ),
        failures=lambda: (
            Failure((), {"row": 3, "col": 2.0}, TypeError, f"{name}: col must be an int, not 2.0."),
            Failure((), {"row": -1, "col": 2}, ValueError, f"{name}: row -1 must be at least 0."),
        ),
        method=False,
    )(body)

    @op.signature
    def call(
        row: int, col: int, offset: int = 0, dtype: DType = int64,
        device: Device | str | None = None,
    ) -> Tensor:  # fmt: skip
        check_options(name, dtype, device, requires_grad=False)
        with on(device):
            found: Tensor = op.bind(row, col, offset, dtype)
        return found

    return op


tril_indices = _triangle_indices("tril_indices", np.tril_indices)
triu_indices = _triangle_indices("triu_indices", np.triu_indices)


# --- diagonals ---------------------------------------------------------------------------------


def _diag_embed_ref(x: np.ndarray, offset: int, dim1: int, dim2: int) -> np.ndarray:
    n, rank = x.shape[-1] + abs(offset), x.ndim + 1
    out = np.zeros((*x.shape[:-1], n, n), x.dtype)
    rows = np.arange(x.shape[-1])
    out[..., rows + max(-offset, 0), rows + max(offset, 0)] = x
    return np.moveaxis(out, (-2, -1), (dim1 % rank, dim2 % rank))


@composite(
    ref=_diag_embed_ref,
    samples=lambda: (
        Sample((Array((2, 3)),), {"offset": 0, "dim1": -2, "dim2": -1}),
        Sample((Array((2, 3)),), {"offset": 1, "dim1": 0, "dim2": 2}),
        Sample((Array((2,)),), {"offset": -2, "dim1": 1, "dim2": 0}),
    ),
    failures=lambda: (
        Failure(
            (Array((3,)),), {"offset": 0, "dim1": 0, "dim2": -2}, ValueError,
            "diag_embed: dim1 0 and dim2 -2 are the same dim.",
        ),
    ),
)  # fmt: skip
def diag_embed(x, *, offset=0, dim1=-2, dim2=-1):
    """Matrices over two new dims with the last dim on a diagonal and zeros elsewhere."""
    rank = x.ndim + 1
    first, second = (normalize_dim("diag_embed", d, rank) for d in (dim1, dim2))
    if first == second:
        raise ValueError(f"diag_embed: dim1 {dim1} and dim2 {dim2} are the same dim.")
    n = x.shape[-1] + abs(offset)
    shape = list(x.shape[:-1])
    for d in sorted((first, second)):
        shape.insert(d, n)
    params = {"offset": offset, "dim1": first, "dim2": second}
    return replaced("diag_embed", zeros(shape, dtype=x.dtype), x, diagonal_view, params)


@composite(
    ref=lambda x, diagonal: np.diag(x, diagonal),
    samples=lambda: (
        Sample((Array((3,)),), {"diagonal": -1}),
        Sample((Array((3, 4)),), {"diagonal": 1}),
    ),
    failures=lambda: (
        Failure(
            (Array(()),),
            {"diagonal": 0},
            ValueError,
            "diag: float64[] is neither a vector nor a matrix",
        ),
    ),
)
def diag(x, *, diagonal=0):
    """The matrix with a vector on a diagonal, or a copy of a diagonal of a matrix."""
    if x.ndim == 1:
        return diag_embed(x, diagonal)
    if x.ndim != 2:
        raise ValueError(f"diag: {describe(x)} is neither a vector nor a matrix. Use diagonal.")
    return clone(diagonal_view(x, diagonal))


@composite(
    ref=lambda x, offset: np.diagflat(x, offset),
    samples=lambda: (Sample((Array((2, 2)),), {"offset": 1}), Sample((Array(()),), {"offset": 0})),
)
def diagflat(x, *, offset=0):
    """The matrix with all elements on a diagonal."""
    return diag_embed(reshape(x, (-1,)), offset)


@composite(
    ref=np.trace,
    samples=lambda: (Sample((Array((3, 4)),)),),
    failures=lambda: (
        Failure((Array((3,)),), {}, ValueError, "trace: float64[3] is not a matrix."),
    ),
)
def trace(x):
    """The sum of the diagonal of a matrix."""
    if x.ndim != 2:
        raise ValueError(f"trace: {describe(x)} is not a matrix.")
    return sum_(diagonal_view(x))


def _fill_diagonal_ref(x: np.ndarray, value: Any, wrap: bool) -> np.ndarray:
    out = x.copy()
    np.fill_diagonal(out, value, wrap)
    return out


@composite(
    ref=_fill_diagonal_ref,
    samples=lambda: (
        Sample((Array((3, 4)), 1.5), {"wrap": False}),
        Sample((Array((7, 2)), 1.5), {"wrap": True}),
        Sample((Array((2, 2, 2)), -1.0), {"wrap": False}),
    ),
    failures=lambda: (
        Failure((Array((3,)), 1.0), {"wrap": False}, ValueError, "fill_diagonal: float64[3] has"),
        Failure(
            (Array((2, 3, 2)), 1.0), {"wrap": False}, ValueError,
            "fill_diagonal: float64[2, 3, 2] has more than two dims, so all sizes must be equal.",
        ),
    ),
    method=False,
    internal=True,
    inplace=True,
)  # fmt: skip
def fill_diagonal(x, value, *, wrap=False):
    """The tensor with its main diagonal set to a value; `wrap` goes on in a tall matrix.

    >>> import contraflow as cf
    >>> cf.zeros(2, 2).fill_diagonal_(5.0)
    tensor([[5., 0.],
            [0., 5.]])
    """
    if x.ndim < 2:
        raise ValueError(f"fill_diagonal: {describe(x)} has fewer than two dims.")
    if x.ndim > 2 and len(set(x.shape)) > 1:
        raise ValueError(
            f"fill_diagonal: {describe(x)} has more than two dims, so all sizes must be equal."
        )
    count = min(x.shape)
    step = sum(contiguous_strides(x.shape))
    if wrap and x.ndim == 2:
        count = len(range(0, x.numel(), step))
    if isinstance(value, Tensor):
        value = expand(to_dtype(value, dtype=x.dtype), (count,))
    else:
        value = full((count,), value, x.dtype)
    return apply(assign, (x, value), {"shape": (count,), "strides": (step,), "offset": 0})
