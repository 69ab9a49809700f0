"""Slices along a dim that a vector of indices names, and elements of the flattened tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from contraflow.dtypes import int64
from contraflow.errors import describe
from contraflow.operation.context import apply
from contraflow.operation.kinds import composite
from contraflow.operation.reference import all_below
from contraflow.operation.samples import Array, Failure, Sample
from contraflow.ops.creation.create import full
from contraflow.ops.elementwise.basic import to_dtype, where
from contraflow.ops.index.gather import (
    check_integers,
    gather,
    put_at,
    take_at,
)
from contraflow.ops.index.scatter import scatter_reduce, scatter_reduce_ref
from contraflow.ops.shape.view import expand, reshape
from contraflow.shapes import broadcast_shapes, normalize_dim
from contraflow.tensors.tensor import Tensor
from contraflow.tensors.writing import write_at


def _line(name: str, x: Tensor, dim: int, index: Tensor) -> tuple[int, Tensor]:
    """The dim, and a vector of indices into it as `at`."""
    if not isinstance(index, Tensor):
        raise TypeError(f"{name}: the index must be a tensor, not {type(index).__name__}.")
    check_integers(name, index.spec)
    if index.ndim > 1:
        raise IndexError(f"{name}: the index is {describe(index)}; it must be a vector.")
    return normalize_dim(name, dim, x.ndim), reshape(index, (1, index.numel()))


_VECTOR = Array((3,), 0, 4, int64)
_DISTINCT = np.array([2, 0, 3])
_SPOTS, _LINE = np.array([1, 3, 1]), np.array([0.5, -1.0, 2.0, 3.5])


@composite(
    ref=lambda x, index, dim: np.take(x, index, dim),
    samples=lambda: (
        Sample((Array((4, 3)), _VECTOR), {"dim": 0}),
        Sample((Array((2, 4)), _VECTOR), {"dim": -1}),
    ),
    failures=lambda: (
        Failure(
            (Array((2, 3)), np.array([[0]])), {"dim": 0}, IndexError,
            "index_select: the index is int64[1, 1]; it must be a vector.",
        ),
        Failure(
            (Array((2, 3)), np.array([-1])), {"dim": 0}, IndexError,
            "index -1 is out of range for dim 0 with size 2.",
        ),
        Failure((Array((2,)), Array((1,))), {"dim": 0}, TypeError, "index_select: the index is"),
    ),
)  # fmt: skip
def index_select(x, index, *, dim):
    """The slices of a dim at the indices in a vector, in the order of the vector."""
    dim, at = _line("index_select", x, dim, index)
    if not x.ndim:
        return reshape(take_at(reshape(x, (1,)), at, dims=(0,), wrap=False), ())
    return take_at(x, at, dims=(dim,), wrap=False)


@index_select.signature
def _index_select(x: Tensor, dim: int, index: Tensor) -> Tensor:
    return apply(index_select, (x, index), {"dim": dim})


@composite(
    ref=lambda x, index: np.take(x, index),
    samples=lambda: (
        Sample((Array((2, 3)), Array((2, 2), -6, 6, int64))),
        Sample((Array(()), np.array(0))),
    ),
    failures=lambda: (
        Failure((Array((2, 3)), np.array([6])), {}, IndexError, "index 6 is out of range"),
    ),
)
def take(x, index):
    """Elements of the flattened tensor at given indices, in the shape of the index."""
    check_integers("take", index.spec)
    taken = take_at(reshape(x, (-1,)), reshape(index, (1, index.numel())), dims=(0,), wrap=True)
    return reshape(taken, index.shape)


@composite(
    ref=lambda x, indices, dim: np.take_along_axis(x, indices, dim),
    samples=lambda: (
        Sample((Array((3, 4)), np.array([[0, -1], [3, 1], [1, -4]])), {"dim": 1}),
        Sample((Array((2, 3)), Array((4,), 0, 6, int64)), {"dim": None}),
        Sample((Array((3, 1)), Array((1, 4), 0, 1, int64)), {"dim": 1}),
    ),
    failures=lambda: (
        Failure(
            (Array((3, 4)), Array((3,), 0, 3, int64)), {"dim": 1}, ValueError,
            "take_along_dim: float64[3, 4] and the indices int64[3] must have equally many dims.",
        ),
    ),
)  # fmt: skip
def take_along_dim(x, indices, *, dim=None):
    """Elements picked along a dim; the other dims of tensor and indices broadcast."""
    if dim is None:
        return gather(reshape(x, (-1,)), 0, reshape(indices, (-1,)))
    if x.ndim != indices.ndim:
        raise ValueError(
            f"take_along_dim: {describe(x)} and the indices {describe(indices)} must have "
            f"equally many dims."
        )
    dim = normalize_dim("take_along_dim", dim, x.ndim)
    others = [(*t.shape[:dim], *t.shape[dim + 1 :]) for t in (x, indices)]
    common = broadcast_shapes("take_along_dim", others)
    x, indices = (expand(t, (*common[:dim], t.shape[dim], *common[dim:])) for t in (x, indices))
    indices = indices.long()
    return gather(x, dim, where(indices < 0, indices + x.shape[dim], indices))


def _along_ref(write: Any) -> Any:
    def ref(x: np.ndarray, index: np.ndarray, source: Any, dim: int, **params: Any) -> np.ndarray:
        out = x.copy()
        key = (slice(None),) * (dim % x.ndim) + (index,)
        write(out, key, source, **params)
        return out

    return ref


def _put_along(name: str, x: Tensor, dim: int, index: Tensor, source: Tensor, **how: Any) -> Tensor:
    """put_at along one dim, for a source of exactly the shape that `index` selects."""
    dim, at = _line(name, x, dim, index)
    if source.dtype is not x.dtype:
        raise TypeError(f"{name}: {describe(source)} and {describe(x)} must have the same dtype.")
    if not x.ndim:
        return reshape(
            _put_along(name, reshape(x, (1,)), 0, index, reshape(source, (1,)), **how), ()
        )
    wanted = (*x.shape[:dim], at.shape[1], *x.shape[dim + 1 :])
    if source.shape != wanted:
        raise ValueError(
            f"{name}: {describe(source)} does not fit {describe(x)}; {at.shape[1]} indices along "
            f"dim {dim} need {list(wanted)}."
        )
    return put_at(x, at, source, dims=(dim,), **how)


@composite(
    ref=_along_ref(lambda out, key, source, alpha: np.add.at(out, key, source * alpha)),
    samples=lambda: (
        Sample((Array((4, 2)), _VECTOR, Array((3, 2))), {"dim": 0, "alpha": 1}),
        Sample((Array((2, 4)), _VECTOR, Array((2, 3))), {"dim": 1, "alpha": 2}),
    ),
    failures=lambda: (
        Failure(
            (Array((4, 2)), _VECTOR, Array((2, 2))), {"dim": 0, "alpha": 1}, ValueError,
            "index_add: float64[2, 2] does not fit float64[4, 2]; 3 indices along dim 0 need [3",
        ),
    ),
    inplace=True,
)  # fmt: skip
def index_add(x, index, source, *, dim, alpha=1):
    """`x` with `alpha` times slices of the source added to the slices at the indices of a dim."""
    if alpha != 1:
        source = source * alpha
    return _put_along("index_add", x, dim, index, source, accumulate=True, wrap=False)


@index_add.signature
def _index_add(x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    return apply(index_add, (x, index, source), {"dim": dim, "alpha": alpha})


@composite(
    ref=_along_ref(lambda out, key, source: out.__setitem__(key, source)),
    samples=lambda: (
        Sample((Array((4, 2)), _DISTINCT, Array((3, 2))), {"dim": 0}),
        Sample((Array((2, 4)), _DISTINCT, Array((2, 3))), {"dim": -1}),
    ),
    inplace=True,
)
def index_copy(x, index, source, *, dim):
    """`x` with the slices at the indices of a dim replaced by slices of the source."""
    return _put_along("index_copy", x, dim, index, source, accumulate=False, wrap=False)


def _copy_in_place(x: Tensor, args: tuple[Any, ...]) -> bool:
    """`index_copy_`, where NumPy can do it: see `Op.in_place`."""
    if len(args) != 3 or not all(isinstance(t, Tensor) for t in args[1:]):
        return False
    dim, index, source = args
    shape = x.layout.shape
    if type(dim) is not int or not -len(shape) <= dim < len(shape):
        return False
    dim %= len(shape)
    at = index.layout.shape
    if len(at) != 1 or source.layout.shape != shape[:dim] + at + shape[dim + 1 :]:
        return False
    if index.dtype is not int64 or not index.storage.on_host:
        return False
    if not all_below(index.array, shape[dim]):
        return False
    return write_at(x, (slice(None),) * dim + (index.array,), source, "index_copy_")


index_copy.in_place = _copy_in_place


@index_copy.signature
def _index_copy(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    return apply(index_copy, (x, index, source), {"dim": dim})


@composite(
    ref=_along_ref(lambda out, key, value: out.__setitem__(key, value)),
    samples=lambda: (
        Sample((Array((4, 2)), _DISTINCT, Array(())), {"dim": 0}),
        Sample((Array((2, 4)), np.array([-1, 0]), 1.5), {"dim": 1}),
        Sample((Array((2, 4)), np.array([3, 0, 3]), Array(())), {"dim": 1}),
    ),
    failures=lambda: (
        Failure(
            (Array((2,)), np.array([0]), Array((1,))), {"dim": 0}, ValueError,
            "index_fill: the value is float64[1]; it must be a number or a 0-d tensor.",
        ),
    ),
    inplace=True,
)  # fmt: skip
def index_fill(x, index, value, *, dim):
    """`x` with the slices at the indices of a dim filled with one value."""
    if isinstance(value, Tensor) and value.ndim:
        raise ValueError(
            f"index_fill: the value is {describe(value)}; it must be a number or a 0-d tensor."
        )
    dim, at = _line("index_fill", x, dim, index)
    if isinstance(value, Tensor):
        filling = to_dtype(value, dtype=x.dtype)
    else:
        filling = full((), value, x.dtype)
    # By a mask, since the value counts once where an index is named twice.
    size = x.shape[dim] if x.ndim else 1
    none, named = full((size,), False), full(at.shape[1:], True)
    mask = put_at(none, at, named, dims=(0,), accumulate=False, wrap=True)
    return where(reshape(mask, (size, *(1,) * (x.ndim - dim - 1)) if x.ndim else ()), filling, x)


@index_fill.signature
def _index_fill(x: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    return apply(index_fill, (x, index, value), {"dim": dim})


def _put_ref_flat(
    x: np.ndarray, index: np.ndarray, source: np.ndarray, accumulate: bool
) -> np.ndarray:
    out = x.copy()
    flat = out.reshape(-1)
    if accumulate:
        np.add.at(flat, index.reshape(-1), source.reshape(-1))
    else:
        flat[index.reshape(-1)] = source.reshape(-1)
    return out


@composite(
    ref=_put_ref_flat,
    samples=lambda: (
        Sample((Array((2, 3)), np.array([[0, -1]]), Array((2,))), {"accumulate": False}),
        Sample((Array((2, 3)), np.array([1, 1]), Array((1, 2))), {"accumulate": True}),
    ),
    failures=lambda: (
        Failure(
            (Array((2, 3)), np.array([1, 1]), Array((3,))), {"accumulate": False}, IndexError,
            "put: the index int64[2] and the source float64[3] must have equally many elements.",
        ),
    ),
    inplace=True,
)  # fmt: skip
def put(x, index, source, *, accumulate=False):
    """The tensor with the elements at flat indices replaced by those of the source, or added to."""
    check_integers("put", index.spec)
    if index.numel() != source.numel():
        raise IndexError(
            f"put: the index {describe(index)} and the source {describe(source)} must have "
            f"equally many elements."
        )
    flat = put_at(
        reshape(x, (-1,)), reshape(index, (1, -1)), reshape(source, (-1,)),
        dims=(0,), accumulate=accumulate, wrap=True,
    )  # fmt: skip
    return reshape(flat, x.shape)


def _index_reduce_ref(
    x: np.ndarray, index: np.ndarray, source: np.ndarray, dim: int, reduce: str, include_self: bool
) -> np.ndarray:
    if not x.ndim:
        row = _index_reduce_ref(x[None], index, source[None], 0, reduce, include_self)
        return row.reshape(())
    shape = [1] * x.ndim
    shape[dim] = -1
    spread = np.broadcast_to(index.reshape(shape), source.shape)
    return scatter_reduce_ref(x, spread, source, dim, reduce, include_self)


@composite(
    ref=_index_reduce_ref,
    samples=lambda: (
        Sample((Array((4, 2)), _SPOTS, Array((3, 2))),
               {"dim": 0, "reduce": "amax", "include_self": True}),
        Sample((_LINE, _SPOTS, _LINE[1:]), {"dim": 0, "reduce": "mean", "include_self": False}),
        Sample((Array(()), np.array([0]), Array(())),
               {"dim": 0, "reduce": "prod", "include_self": True}),
    ),
    inplace=True,
)  # fmt: skip
def index_reduce(x, index, source, *, dim, reduce, include_self=True):
    """`x` with slices of the source reduced into the slices at the indices of a dim."""
    dim, at = _line("index_reduce", x, dim, index)
    if not x.ndim:
        row = index_reduce(
            reshape(x, (1,)), 0, index, reshape(source, (1,)), reduce, include_self=include_self
        )
        return reshape(row, ())
    shape = [1] * x.ndim
    shape[dim] = at.shape[1]
    spread = expand(reshape(at, tuple(shape)), source.shape)
    return scatter_reduce(x, dim, spread, source, reduce, include_self=include_self)


@index_reduce.signature
def _index_reduce(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    params = {"dim": dim, "reduce": reduce, "include_self": include_self}
    return apply(index_reduce, (x, index, source), params)
