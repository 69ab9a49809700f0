"""Medians, quantiles and modes."""

from __future__ import annotations

from typing import Any

import numpy as np

from contraflow.dtypes import int64
from contraflow.errors import describe
from contraflow.operation.context import apply
from contraflow.operation.kinds import composite, opaque
from contraflow.operation.op import Op
from contraflow.operation.samples import Array, Failure, Sample
from contraflow.ops.creation.create import full, full_like
from contraflow.ops.elementwise.basic import maximum, to_dtype, where
from contraflow.ops.index.gather import gather, put_along_dim
from contraflow.ops.reduction.order import argsort
from contraflow.ops.reduction.reduce import require_floating, sum_
from contraflow.ops.shape.view import contiguous, movedim, reshape
from contraflow.shapes import normalize_dim, numel
from contraflow.tensors.tensor import Tensor


def _at_rank(x: Tensor, rank: Tensor, dim: int, keepdim: bool) -> Any:
    """The elements whose rank along a dim is given, and their indices."""
    index = gather(argsort(x, dim), dim, rank)
    values = gather(x, dim, index)
    if keepdim:
        return values, index
    shape = x.shape[:dim] + x.shape[dim + 1 :]
    return reshape(values, shape), reshape(index, shape)


def _median(name: str, x: Tensor, dim: int, keepdim: bool, skip_nan: bool) -> Any:
    at = normalize_dim(name, dim, x.ndim)
    if not x.ndim:
        return x.clone(), full_like(x, 0, dtype=int64)
    n = x.shape[at]
    if not n:
        raise ValueError(f"{name}: {describe(x)} has no elements along dim {dim}.")
    valid = sum_(x == x, dim=at, keepdim=True)
    middle = to_dtype((valid - 1) * 0.5, dtype=int64)  # the lower of two
    # NaN is sorted behind everything else: a row that has one has it at rank `valid`.
    rank = middle if skip_nan else where(valid < n, valid, middle)
    return _at_rank(x, rank, at, keepdim)


def _np_median(skip_nan: bool) -> Any:
    def ref(x: np.ndarray, dim: int, keepdim: bool) -> Any:
        order = np.argsort(x, axis=dim, kind="stable")
        valid = np.sum(x == x, axis=dim, keepdims=True)
        middle = np.maximum(valid - 1, 0) // 2
        rank = middle if skip_nan else np.where(valid < x.shape[dim], valid, middle)
        at = np.take_along_axis(order, rank, dim)
        values = np.take_along_axis(x, at, dim)
        return (values, at) if keepdim else (values.squeeze(dim), at.squeeze(dim))

    return ref


def _median_samples() -> Any:
    yield Sample((Array((3, 5)),), {"dim": 1, "keepdim": False})
    yield Sample((Array((4, 3)),), {"dim": 0, "keepdim": True})


_HOLED = np.array([[1.0, np.nan, 3.0, 2.0], [4.0, 0.5, 1.5, -1.0]])


def _median_signature(op: Op) -> None:
    @op.signature
    def call(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
        if dim is not None:
            return op.bind(x, dim, keepdim)
        if not numel(x.shape):
            return x.sum() * float("nan")
        return apply(median_of_all, (x,), {"skip_nan": op is nanmedian})


@composite(
    ref=_np_median(False),
    outs=("values", "indices"),
    samples=_median_samples,
    failures=lambda: (
        Failure(
            (Array((2, 0)),), {"dim": 1, "keepdim": False}, ValueError,
            "median: float64[2, 0] has no elements along dim 1.",
        ),
    ),
)  # fmt: skip
def median(x, *, dim=None, keepdim=False):
    """The median along a dim, the lower of two, and its index; NaN if an element is NaN."""
    return _median("median", x, dim, keepdim, skip_nan=False)


@composite(
    ref=_np_median(True),
    outs=("values", "indices"),
    samples=lambda: (*_median_samples(), Sample((_HOLED,), {"dim": 1, "keepdim": False})),
)
def nanmedian(x, *, dim=None, keepdim=False):
    """The median of the elements along a dim that are not NaN, and its index."""
    return _median("nanmedian", x, dim, keepdim, skip_nan=True)


def _among_equals(g: Tensor, x: Tensor, out: Tensor) -> Tensor:
    """A gradient in equal parts for all elements that are the result, NaN too."""
    equal = (x == out) | ((x != x) & (out != out))
    return where(equal, g / sum_(to_dtype(equal, dtype=g.dtype)), 0.0)


@composite(
    ref=lambda x, skip_nan: _np_median(skip_nan)(x.reshape(-1), 0, False)[0],
    vjp={"x": _among_equals},
    samples=lambda: (
        Sample((Array((3, 5)),), {"skip_nan": False}),
        Sample((_HOLED,), {"skip_nan": True}),
        Sample((Array(()),), {"skip_nan": False}),
    ),
    method=False,
    internal=True,
)
def median_of_all(x, *, skip_nan):
    """The middle of all elements."""
    name = "nanmedian" if skip_nan else "median"
    return _median(name, reshape(x, (numel(x.shape),)), 0, False, skip_nan)[0]


_median_signature(median)
_median_signature(nanmedian)


_INTERPOLATIONS = ("linear", "lower", "higher", "nearest", "midpoint")


def _quantile(
    name: str, x: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str,
    skip_nan: bool,
) -> Tensor:  # fmt: skip
    require_floating(name, x)
    if interpolation not in _INTERPOLATIONS:
        listed = ", ".join(_INTERPOLATIONS)
        raise ValueError(f"{name}: interpolation is {interpolation!r}; it must be one of {listed}.")
    if isinstance(q, Tensor):
        if q.ndim > 1:
            raise ValueError(f"{name}: q is {describe(q)}; it must be a number or 1-d.")
        levels = reshape(q, (numel(q.shape),))
    else:
        if not 0 <= q <= 1:
            raise ValueError(f"{name}: q is {q}; it must be in [0, 1].")
        levels = full((1,), float(q), dtype=x.dtype)
    at = 0 if dim is None else normalize_dim(name, dim, x.ndim)
    of_all = dim is None or not x.ndim
    rows = reshape(x, (numel(x.shape),)) if of_all else movedim(x, at, -1)
    n = rows.shape[-1]
    if not n:
        raise ValueError(f"{name}: {describe(x)} has no elements to take a quantile of.")
    values = _between(rows, levels, interpolation, skip_nan)
    if keepdim and x.ndim:
        kept = (1,) * x.ndim if dim is None else (*x.shape[:at], 1, *x.shape[at + 1 :])
    else:
        kept = rows.shape[:-1]
    moved = contiguous(movedim(values, -1, 0))
    return reshape(moved, (*levels.shape, *kept) if isinstance(q, Tensor) and q.ndim else kept)


def _between(rows: Tensor, levels: Tensor, interpolation: str, skip_nan: bool) -> Tensor:
    """The quantiles of the last dim, one for each level."""
    n = rows.shape[-1]
    valid = sum_(rows == rows, dim=-1, keepdim=True)
    last = maximum(valid - 1, 0)
    # NaN is sorted last, so the last rank finds it.
    rank = levels * last if skip_nan else where(valid < n, float(n - 1), levels * float(n - 1))
    order = argsort(rows, -1)
    below = to_dtype(rank.detach(), dtype=int64)
    part = rank - below
    above = where(part > 0, below + 1, below)
    if interpolation == "nearest":  # ties to even, as everywhere
        odd = below != 2 * to_dtype(below * 0.5, dtype=int64)
        below = where((part > 0.5) | ((part == 0.5) & odd), above, below)
    low, high = (gather(rows, -1, gather(order, -1, k)) for k in (below, above))
    if interpolation in ("lower", "nearest"):
        return low
    if interpolation == "higher":
        return high
    weight = 0.5 if interpolation == "midpoint" else part
    return low + weight * (high - low)


def _np_quantile(function: Any) -> Any:
    def ref(x: Any, q: Any, dim: Any, keepdim: bool, interpolation: str) -> Any:
        if not x.ndim:
            return x.copy()
        out = function(x, q, axis=dim, keepdims=keepdim, method=interpolation)
        return np.asarray(out, x.dtype)

    return ref


def _quantile_samples() -> Any:
    def params(dim: Any, keepdim: bool, interpolation: str) -> dict[str, Any]:
        return {"dim": dim, "keepdim": keepdim, "interpolation": interpolation}

    levels = np.array([0.1, 0.52, 0.87])
    yield Sample((Array((3, 5)), 0.3), params(1, False, "linear"))
    yield Sample((Array((4, 3)), levels), params(0, True, "linear"))
    yield Sample((Array((3, 4)), 0.45), params(None, False, "midpoint"))
    yield Sample((Array((5,)), 0.6), params(0, False, "lower"))
    yield Sample((Array(()), 0.6), params(0, True, "linear"))


@composite(
    ref=_np_quantile(np.quantile),
    samples=_quantile_samples,
    failures=lambda: (
        Failure(
            (Array((3,)), 1.5), {"dim": None, "keepdim": False, "interpolation": "linear"},
            ValueError, "quantile: q is 1.5; it must be in [0, 1].",
        ),
        Failure(
            (Array((3,)), 0.5), {"dim": None, "keepdim": False, "interpolation": "cubic"},
            ValueError, "quantile: interpolation is 'cubic'",
        ),
    ),
    floating=True,
)  # fmt: skip
def quantile(x, q, *, dim=None, keepdim=False, interpolation="linear"):
    """The q-quantile along a dim, interpolated; a 1-d q adds a first dim."""
    return _quantile("quantile", x, q, dim, keepdim, interpolation, skip_nan=False)


@composite(ref=_np_quantile(np.nanquantile), samples=_quantile_samples, floating=True)
def nanquantile(x, q, *, dim=None, keepdim=False, interpolation="linear"):
    """The quantiles of the elements that are not NaN."""
    return _quantile("nanquantile", x, q, dim, keepdim, interpolation, skip_nan=True)


def _mode_ref(x: np.ndarray, dim: int, keepdim: bool) -> Any:
    if not x.ndim:
        return x.copy(), np.zeros((), np.int64)

    def last_of_most(row: np.ndarray) -> int:
        values, counts = np.unique(row, return_counts=True)
        return int(np.flatnonzero(row == values[np.argmax(counts)])[-1])

    if not x.size:  # which apply_along_axis refuses
        at = np.zeros(np.delete(x.shape, dim), np.int64)
    else:
        at = np.apply_along_axis(last_of_most, dim, x).astype(np.int64)
    at = np.expand_dims(at, dim)
    values = np.take_along_axis(x, at, dim)
    return (values, at) if keepdim else (values.squeeze(dim), at.squeeze(dim))


def _mode_shape(x: Any, dim: int, keepdim: bool) -> Any:
    at = normalize_dim("mode", dim, len(x.shape))
    if x.shape and not x.shape[at]:
        raise ValueError(f"mode: {x} has no elements along dim {dim}.")
    shape = x.shape[:at] + ((1,) if keepdim and x.shape else ()) + x.shape[at + 1 :]
    return shape, shape


def _mode_vjp(g_values: Any, indices: Tensor, x_spec: Any, dim: int) -> Any:
    if g_values is None or not x_spec.shape:
        return g_values
    kept = (*x_spec.shape[:dim], 1, *x_spec.shape[dim + 1 :])
    g, at = reshape(g_values, kept), reshape(indices, kept)
    return put_along_dim(g, at, dim=dim, size=x_spec.shape[dim])


@opaque(
    ref=_mode_ref,
    dtype="value_index",
    outs=("values", "indices"),
    shape=_mode_shape,
    vjp={"x": _mode_vjp},
    samples=lambda: (
        Sample((Array((3, 4)),), {"dim": 1, "keepdim": False}),
        Sample((Array((4, 3), 0, 3, int64),), {"dim": 0, "keepdim": True}),
    ),
    failures=lambda: (
        Failure((Array((2,)),), {"dim": 1, "keepdim": False}, IndexError, "mode: dim 1 is out of"),
    ),
    normalize=lambda x, dim, keepdim: {"dim": normalize_dim("mode", dim, x.ndim)},
)
def mode(x, *, dim=-1, keepdim=False):
    """The most frequent element along a dim, the smallest of several, and its last index."""
