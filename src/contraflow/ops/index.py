"""Index ops: which source element an output position reads. Integers may be loaded on the way.

The transpose of a gather is a sum over the positions that read an element; those sums are formed
in the order of the positions, so they repeat bit for bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from contraflow import dtypes
from contraflow import scalar as s
from contraflow.dtypes import int64
from contraflow.errors import describe
from contraflow.op import Array, Failure, Sample, composite, index, opaque
from contraflow.ops.elementwise import where
from contraflow.ops.view import reshape, select, slice_
from contraflow.shapes import normalize_dim, numel
from contraflow.tensor import Tensor

_INDEX = Array((3, 2), 0, 4, int64)


def _checked(name: str, i: np.ndarray, n: int) -> np.ndarray:
    bad = (i < 0) | (i >= n)
    if bad.any():
        raise IndexError(f"{name}: index {i[bad].flat[0]} is out of range for size {n}.")
    return i


def _integers(name: str, x: Any) -> None:
    if x.dtype.category != dtypes.INT:
        raise TypeError(f"{name}: the index is {x}; it must be an integer tensor.")


# --- gather and its transpose ------------------------------------------------------------------


def _gather_shape(x: Any, index: Any, dim: int) -> Any:
    _integers("gather", index)
    fits = len(x.shape) == len(index.shape) and all(
        d == dim or i <= n for d, (i, n) in enumerate(zip(index.shape, x.shape))
    )
    if not fits:
        raise ValueError(f"gather: index {index} does not fit {x} along dim {dim}.")
    return index.shape


def _gather_ref(x: np.ndarray, index: np.ndarray, dim: int) -> np.ndarray:
    part = x[tuple(slice(0, n) if d != dim else slice(None) for d, n in enumerate(index.shape))]
    return np.take_along_axis(part, _checked("gather", index, x.shape[dim]), dim)


@index(
    ref=_gather_ref,
    dtype="same",
    shape=_gather_shape,
    source=lambda at, x, index, dim: x[
        (*at[:dim], s.checked(s.cast(index[at], int64), x.shape[dim]), *at[dim + 1 :])
    ],
    vjp={"x": lambda g, x_spec, index, dim: _gather_vjp(g, x_spec, index, dim)},
    samples=lambda: (
        Sample((Array((4, 3)), _INDEX), {"dim": 0}),
        Sample((Array((3, 5)), _INDEX), {"dim": 1}),
    ),
    failures=lambda: (
        Failure((Array((4, 3)), Array((3, 2))), {"dim": 0}, TypeError, "gather: the index is"),
        Failure((Array((3, 3)), np.array([[0, 7, 0]])), {"dim": 0}, IndexError, "gather: index 7"),
    ),
    normalize=lambda x, index, dim: {"dim": normalize_dim("gather", dim, x.ndim)},
    linear=True,
)
def gather(x, index, *, dim):
    """Elements picked along a dim: out[i][j] = x[index[i][j]][j] for dim 0."""


def _gather_vjp(g: Tensor, x_spec: Any, index: Tensor, dim: int) -> Tensor:
    rest = (*x_spec.shape[:dim], 1, *x_spec.shape[dim + 1 :])
    if index.shape == rest:  # one element per row, so nothing adds up: no scatter is needed
        return put_along_dim(g, index, dim=dim, size=x_spec.shape[dim])
    return scatter_sum(g, index, dim=dim, shape=x_spec.shape)


# PyTorch puts dim before the index.
@gather.signature
def _gather(x: Tensor, dim: Any, index: Any = None) -> Tensor:
    return gather.bind(x, index, dim) if not isinstance(dim, Tensor) else gather.bind(x, dim, index)


def _scatter_sum_ref(g: np.ndarray, index: np.ndarray, dim: int, shape: Any) -> np.ndarray:
    out = np.zeros(shape, g.dtype)
    at: list[Any] = list(np.indices(index.shape, sparse=True))
    at[dim] = _checked("scatter_sum", index, shape[dim])
    np.add.at(out, tuple(at), g)
    return out


@opaque(
    ref=_scatter_sum_ref,
    dtype="same",
    shape=lambda g, index, dim, shape: shape,
    vjp={"g_": lambda g, index, dim: gather(g, dim, index)},
    samples=lambda: (Sample((Array((3, 2)), _INDEX), {"dim": 0, "shape": (4, 3)}),),
    method=False,
    linear=True,
)
def scatter_sum(g_, index, *, dim, shape):
    """The transpose of gather: every element added where gather would read it."""


# --- embedding and its transpose ---------------------------------------------------------------


def _embedding_shape(weight: Any, index: Any) -> Any:
    _integers("embedding", index)
    if len(weight.shape) != 2:
        raise ValueError(f"embedding: the weight is {weight}; it must have two dims.")
    return (*index.shape, weight.shape[1])


@index(
    ref=lambda weight, index: weight[_checked("embedding", index, weight.shape[0])],
    dtype="same",
    shape=_embedding_shape,
    source=lambda at, weight, index: weight[
        s.checked(s.cast(index[at[:-1]], int64), weight.shape[0]), at[-1]
    ],
    vjp={"weight": lambda g, weight_spec, index: segment_sum(g, index, size=weight_spec.shape[0])},
    samples=lambda: (
        Sample((Array((4, 3)), _INDEX)),
        Sample((Array((4, 3)), Array((5,), 0, 4, int64))),
    ),
    failures=lambda: (
        Failure((Array((4, 3)), np.array([4])), {}, IndexError, "embedding: index 4"),
        Failure((Array((4, 3)), Array((2,))), {}, TypeError, "embedding: the index is"),
    ),
    method=False,
    linear=True,
)
def embedding(weight, index):
    """Rows of a table: out[..., :] = weight[index[...], :]."""


def _segment_sum_ref(g: np.ndarray, index: np.ndarray, size: int) -> np.ndarray:
    rows = g.reshape(numel(index.shape), g.shape[-1])
    flat = _checked("segment_sum", index.reshape(-1), size)
    out = np.zeros((size, g.shape[-1]), g.dtype)
    if not flat.size:
        return out
    order = np.argsort(flat, kind="stable")  # rows of one segment stay in their order
    segments, starts = np.unique(flat[order], return_index=True)
    out[segments] = np.add.reduceat(rows[order], starts, axis=0)
    return out


@opaque(
    ref=_segment_sum_ref,
    dtype="same",
    shape=lambda g, index, size: (size, g.shape[-1]),
    vjp={"g_": lambda g, index: embedding(g, index)},
    samples=lambda: (Sample((Array((3, 2, 4)), _INDEX), {"size": 4}),),
    method=False,
    linear=True,
)
def segment_sum(g_, index, *, size):
    """The transpose of embedding: rows added up by their index."""


# --- one value along a dim ---------------------------------------------------------------------


def _put_ref(g_: np.ndarray, index: np.ndarray, dim: int, size: int) -> np.ndarray:
    shape = (1,) * dim + (size,) + (1,) * (g_.ndim - dim - 1)
    return np.where(index == np.arange(size).reshape(shape), g_, np.zeros((), g_.dtype))


@index(
    ref=_put_ref,
    dtype="same",
    shape=lambda g_, index, dim, size: (*g_.shape[:dim], size, *g_.shape[dim + 1 :]),
    source=lambda at, g_, index, dim, size: s.select(
        s.eq(s.cast(index[(*at[:dim], s.const(0, int64), *at[dim + 1 :])], int64), at[dim]),
        g_[(*at[:dim], s.const(0, int64), *at[dim + 1 :])],
        0,
    ),
    vjp={"g_": lambda g, index, dim: gather(g, dim, index)},
    samples=lambda: (
        Sample((Array((3, 1)), Array((3, 1), 0, 4, int64)), {"dim": 1, "size": 4}),
        Sample((Array((1, 2)), Array((1, 2), 0, 3, int64)), {"dim": 0, "size": 3}),
    ),
    method=False,
    linear=True,
)
def put_along_dim(g_, index, *, dim, size):
    """Zeros but for one element along `dim`, at the index: the transpose of picking it."""


# --- padding -----------------------------------------------------------------------------------


def _pad_source(at: Any, x: Any, value: Any, pads: Any) -> Any:
    inside = s.const(True, dtypes.bool_)
    source = []
    for i, n, (before, _) in zip(at, x.shape, pads):
        inside = inside & (i >= before) & (i < before + n)
        source.append(i - before)
    return s.select(inside, x.where(inside, tuple(source)), s.cast(value, x.dtype))


@index(
    ref=lambda x, value, pads: np.pad(x, pads, constant_values=value),
    dtype="same",
    shape=lambda x, value, pads: tuple(n + a + b for n, (a, b) in zip(x.shape, pads)),
    source=_pad_source,
    vjp={"x": lambda g, pads: _unpad(g, pads)},
    samples=lambda: (
        Sample((Array((3, 4)), 0.0), {"pads": ((1, 2), (0, 1))}),
        Sample((Array((2,)), 1.5), {"pads": ((2, 0),)}),
    ),
    method=False,
)
def constant_pad(x, value, *, pads):
    """A border of one value: (before, after) elements for each dim."""


def _unpad(g: Tensor, pads: Any) -> Tensor:
    for dim, (before, after) in enumerate(pads):
        if before or after:
            g = slice_(g, dim=dim, start=before, stop=g.shape[dim] - after, step=1)
    return g


# --- x[...] ------------------------------------------------------------------------------------


@composite(
    ref=lambda x, key: x[key],
    samples=lambda: (
        Sample((Array((4, 5, 3)),), {"key": (slice(1, 3), 2)}),
        Sample((Array((4, 5)),), {"key": (Ellipsis, None, slice(None, None, 2))}),
        Sample((Array((4, 5)),), {"key": -1}),
    ),
    failures=lambda: (
        Failure((Array((3,)),), {"key": 3}, IndexError, "select: index 3"),
        Failure((Array((3,)),), {"key": (0, 0)}, IndexError, "getitem: 2 indices for"),
        Failure((Array((3,)),), {"key": "a"}, TypeError, "getitem: cannot index with str"),
    ),
    method=False,
)
def getitem(x, *, key):
    """Basic indexing: integers, slices, None and Ellipsis give a view."""
    if isinstance(key, Tensor):
        if key.dtype is dtypes.bool_:
            raise NotImplementedError("getitem: boolean masks are not supported yet; use where.")
        _integers("getitem", key)
        if not x.ndim:
            raise IndexError(f"getitem: 1 indices for {describe(x)}.")
        rows = reshape(x, (x.shape[0], numel(x.shape[1:])))
        key = key.long()  # the size need not fit into the index's own dtype
        key = where(key < 0, key + x.shape[0], key)
        return reshape(embedding(rows, key), (*key.shape, *x.shape[1:]))
    keys = list(key) if isinstance(key, tuple) else [key]
    used = sum(k is not None and k is not Ellipsis for k in keys)
    if used > x.ndim:
        raise IndexError(f"getitem: {used} indices for {describe(x)}.")
    if sum(k is Ellipsis for k in keys) > 1:
        raise IndexError("getitem: an index holds ... at most once.")
    if any(k is Ellipsis for k in keys):
        at = next(i for i, k in enumerate(keys) if k is Ellipsis)
        keys[at : at + 1] = [slice(None)] * (x.ndim - used)
    dim = 0
    for k in keys:
        if k is None:
            x = reshape(x, (*x.shape[:dim], 1, *x.shape[dim:]))
            dim += 1
        elif isinstance(k, slice):
            start, stop, step = k.indices(x.shape[dim])
            if step < 0:
                raise ValueError("getitem: a slice's step must be positive; use flip.")
            if (start, step) != (0, 1) or stop < x.shape[dim]:
                x = slice_(x, dim=dim, start=start, stop=max(stop, start), step=step)
            dim += 1
        elif isinstance(k, (int, np.integer)) and not isinstance(k, bool):
            x = select(x, dim, int(k))
        else:
            raise TypeError(f"getitem: cannot index with {type(k).__name__}.")
    return x
