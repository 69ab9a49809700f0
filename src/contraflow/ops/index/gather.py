"""Index ops: which source element an output position reads. Integers may be loaded on the way.

The transpose of a gather is a sum over the positions that read an element; those sums are formed
in the order of the positions, so they repeat bit for bit. Where positions are written to, the last
one in that order wins.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from contraflow import dtypes, thresholds
from contraflow.contexts.applying import outside_graph
from contraflow.dtypes import bool_, int64
from contraflow.errors import OutOfRange, describe
from contraflow.expressions import expression as s
from contraflow.operation.binding import OneDim
from contraflow.operation.context import apply
from contraflow.operation.kinds import index, scattering
from contraflow.operation.reference import all_below, take_along
from contraflow.operation.samples import Array, Failure, Sample
from contraflow.ops.creation.create import zeros
from contraflow.ops.elementwise.basic import where
from contraflow.ops.shape.view import reshape, slice_
from contraflow.shapes import Shape, normalize_dim, numel, whole
from contraflow.tensors.tensor import Tensor

_INDEX = Array((3, 2), 0, 4, int64)


def check_range(name: str, i: np.ndarray, n: int) -> np.ndarray:
    """The indices themselves, all of which must be in [0, n)."""
    if not all_below(i, n):
        wrong = i[(i < 0) | (i >= n)].flat[0]
        raise IndexError(f"{name}: index {wrong} is out of range for size {n}.")
    return i


def _wrapped(i: np.ndarray, dim: int, n: int, wrap: bool) -> np.ndarray:
    """Indices into a dim of n elements, negative ones counted from its end if they may be."""
    wide = np.asarray(i, np.int64)
    if all_below(wide, n):
        return wide
    bad = (wide < (-n if wrap else 0)) | (wide >= n)
    if bad.any():
        raise OutOfRange(f"index {wide[bad].flat[0]} is out of range for dim {dim} with size {n}.")
    return np.where(wide < 0, wide + n, wide)


def check_integers(name: str, x: Any) -> None:
    """Refuse an index (a tensor's spec) that is not of an integer dtype."""
    if x.dtype.category != dtypes.INT:
        raise TypeError(f"{name}: the index is {x}; it must be an integer tensor.")


# --- gather and its transpose ------------------------------------------------------------------


def _gather_shape(x: Any, index: Any, dim: int) -> Any:
    check_integers("gather", index)
    fits = len(x.shape) == len(index.shape) and all(
        d == dim or i <= n for d, (i, n) in enumerate(zip(index.shape, x.shape))
    )
    if not fits:
        raise ValueError(f"gather: index {index} does not fit {x} along dim {dim}.")
    return index.shape


def _gather_ref(x: np.ndarray, index: np.ndarray, dim: int) -> np.ndarray:
    return take_along(x, check_range("gather", index, x.shape[dim]), dim)


_UINT64 = np.dtype(np.uint64)


@index(
    ref=_gather_ref,
    dtype="same",
    shape=_gather_shape,
    source=lambda at, x, index, dim: x[along_dim(at, dim, index[at], x.shape[dim])],
    vjp={"x": lambda g, x_spec, index, dim: _gather_vjp(g, x_spec, index, dim)},
    samples=lambda: (
        Sample((Array((4, 3)), _INDEX), {"dim": 0}),
        Sample((Array((3, 5)), _INDEX), {"dim": 1}),
    ),
    failures=lambda: (
        Failure((Array((4, 3)), Array((3, 2))), {"dim": 0}, TypeError, "gather: the index is"),
        Failure((Array((3, 3)), np.array([[0, 7, 0]])), {"dim": 0}, IndexError, "gather: index 7"),
    ),
    normalize=OneDim("gather"),
    linear=True,
    silent=True,
    along_dim=True,
    bound=("index", lambda x, index, dim: (range(x.shape[dim]),)),
)
def gather(x, index, *, dim):
    """Elements picked along a dim: out[i][j] = x[index[i][j]][j] for dim 0."""


def _gather_vjp(g: Tensor, x_spec: Any, index: Tensor, dim: int) -> Tensor:
    rest = (*x_spec.shape[:dim], 1, *x_spec.shape[dim + 1 :])
    if index.shape == rest:  # one element per row, so nothing adds up: no scatter is needed
        return put_along_dim(g, index, dim=dim, size=x_spec.shape[dim])
    return scatter_sum(g, index, dim=dim, shape=x_spec.shape)


def _picked(x: Tensor, dim: Any, index: Tensor) -> Tensor | None:
    """The result for few elements outside of any graph, which NumPy has at once; None for others,
    and where an argument is wrong."""
    if index.dtype is not int64 or type(dim) is not int:
        return None
    arrays = outside_graph((x, index))
    if arrays is None:
        return None
    source, at = arrays
    rank, fewest = source.ndim, thresholds.eager_kernel
    if rank != at.ndim or not at.size or not -rank <= dim < rank or source.size + at.size >= fewest:
        return None
    dim %= rank
    bare = at.view(_UINT64)  # negative ones are large
    if bare.item(bare.argmax()) >= source.shape[dim]:
        return None
    try:
        return Tensor.of_array(np.asarray(take_along(source, at, dim), order="C"))
    except IndexError:  # the index is longer along another dim
        return None


# PyTorch puts dim before the index.
@gather.signature
def _gather(x: Tensor, dim: Any, index: Any = None, *, sparse_grad: bool = False) -> Tensor:
    if sparse_grad:
        raise NotImplementedError("gather: sparse gradients are absent (docs/differences.md).")
    if isinstance(dim, Tensor):
        return gather.bind(x, dim, index)
    if isinstance(index, Tensor):
        sizes = index.layout.shape
        chosen = _picked(x, dim, index) if isinstance(x, Tensor) else None
        if chosen is not None:
            return chosen
        # Numbers count as having a dim, and an empty index may have any shape.
        if not sizes or 0 in sizes or not x.layout.shape:
            normalize_dim("gather", dim, x.ndim)
            flat = (reshape(x, (x.numel(),)), reshape(index, (index.numel(),)))
            line = apply(gather, flat, {"dim": 0})
            return reshape(line, index.shape)
    return gather.bind(x, index, dim)


def added(old: s.Expr, new: s.Expr, **_: Any) -> s.Expr:
    """The sum of what an element holds and a value; truth values add up to whether one holds."""
    return old | new if old.dtype is bool_ else old + new


def along_dim(at: Any, dim: int, index: s.Expr, size: Any) -> tuple[s.Expr, ...]:
    """A point with its coordinate along one dim replaced by a loaded index."""
    return (*at[:dim], s.checked(s.cast(index, int64), size), *at[dim + 1 :])


def _scatter_sum_ref(g: np.ndarray, index: np.ndarray, dim: int, shape: Any) -> np.ndarray:
    out = np.zeros(shape, g.dtype)
    at: list[Any] = list(np.indices(index.shape, sparse=True))
    at[dim] = check_range("scatter_sum", index, shape[dim])
    np.add.at(out, tuple(at), g)
    return out


@scattering(
    ref=_scatter_sum_ref,
    dtype="same",
    shape=lambda g, index, dim, shape: shape,
    target=lambda at, g_, index, dim, shape: along_dim(at, dim, index[at], s.Size(shape[dim])),
    values="g_",
    combine=added,
    vjp={"g_": lambda g, index, dim: gather(g, dim, index)},
    samples=lambda: (Sample((Array((3, 2)), _INDEX), {"dim": 0, "shape": (4, 3)}),),
    method=False,
    internal=True,
    linear=True,
    bound=("index", lambda g_, index, dim, shape: (range(shape[dim]),)),
)
def scatter_sum(g_, index, *, dim, shape):
    """The transpose of gather: every element added where gather would read it."""


# --- elements at coordinates, and the transposes of that ----------------------------------------

# `at` holds a coordinate for each of `dims` (ascending) along its first dim. The dims of a point
# take the place of `dims` where those are neighbours, else they come first: NumPy's rule.


def _first(dims: Shape) -> int:
    return dims[0] if dims == tuple(range(dims[0], dims[-1] + 1)) else 0


def _points_shape(name: str, x: Any, at: Any, dims: Shape) -> Shape:
    check_integers(name, at)
    rest = [n for d, n in enumerate(x.shape) if d not in dims]
    place = _first(dims)
    return (*rest[:place], *at.shape[1:], *rest[place:])


def point_key(shape: Shape, at: np.ndarray, dims: Shape, wrap: bool) -> tuple[Any, ...]:
    """The index of NumPy's that reads and writes the points, checked."""
    key: list[Any] = [slice(None)] * len(shape)
    for d, i in zip(dims, at):
        key[d] = _wrapped(i, d, shape[d], wrap)
    return tuple(key)


def _ranges(shape: Shape, dims: Shape, wrap: bool) -> tuple[range, ...]:
    """The coordinates that are allowed, for each of the dims."""
    return tuple(range(-shape[d] if wrap else 0, shape[d]) for d in dims)


def _coordinates(at: Any, shape: Shape, points: Any, dims: Shape, wrap: bool) -> Any:
    """The coordinates in a tensor of this shape of the element that belongs to a point."""
    place, count = _first(dims), len(points.shape) - 1
    rest = iter((*at[:place], *at[place + count :]))
    source = []
    for d, n in enumerate(map(s.Size, shape)):
        if d not in dims:
            source.append(next(rest))
            continue
        j = s.const(dims.index(d), int64)
        i = s.cast(points[(j, *at[place : place + count])], int64)
        source.append(s.checked(s.select(i < 0, i + n, i) if wrap else i, n))
    return tuple(source)


_POINTS = Array((2, 3), -3, 3, int64)


def _take_at_ref(x: np.ndarray, at: np.ndarray, dims: Shape, wrap: bool) -> np.ndarray:
    if wrap:
        key: list[Any] = [slice(None)] * x.ndim
        for d, i in zip(dims, at):
            key[d] = i
        try:  # NumPy counts negative indices from the end as well, and checks them all
            return x[tuple(key)]
        except IndexError:
            pass
    return x[point_key(x.shape, at, dims, wrap)]


@index(
    ref=_take_at_ref,
    dtype="same",
    shape=lambda x, at, dims, wrap: _points_shape("take_at", x, at, dims),
    source=lambda at, x, points, dims, wrap: x[_coordinates(at, x.shape, points, dims, wrap)],
    vjp={"x": lambda g, x_spec, at, dims, wrap: sum_at(
        g, at, dims=dims, shape=x_spec.shape, wrap=wrap)},
    samples=lambda: (
        Sample((Array((4, 3)), Array((1, 2, 5), 0, 4, int64)), {"dims": (0,), "wrap": False}),
        Sample((Array((2, 3, 4)), np.array([[0, -3, 1], [1, 3, -4]])),
               {"dims": (1, 2), "wrap": True}),
        Sample((Array((3, 2, 4)), np.array([[0, -3, 1], [1, 3, -4]])),
               {"dims": (0, 2), "wrap": True}),
        Sample((Array((2, 3)), np.zeros((1, 0), np.int64)), {"dims": (1,), "wrap": True}),
    ),
    failures=lambda: (
        Failure(
            (Array((2, 3)), np.array([[0, 3]])), {"dims": (1,), "wrap": True}, IndexError,
            "index 3 is out of range for dim 1 with size 3.",
        ),
        Failure(
            (Array((2, 3)), np.array([[-1]])), {"dims": (0,), "wrap": False}, IndexError,
            "index -1 is out of range for dim 0 with size 2.",
        ),
    ),
    method=False,
    internal=True,
    linear=True,
    silent=True,
    takes_points=True,
    bound=("at", lambda x, at, dims, wrap: _ranges(x.shape, dims, wrap)),
)  # fmt: skip
def take_at(x, at, *, dims, wrap):
    """The elements at given coordinates of some dims; `wrap` counts negative ones from the end."""


def _sum_at_ref(g: np.ndarray, at: np.ndarray, dims: Shape, shape: Shape, wrap: bool) -> np.ndarray:
    out = np.zeros(shape, g.dtype)
    np.add.at(out, point_key(shape, at, dims, wrap), g)
    return out


@scattering(
    ref=_sum_at_ref,
    dtype="same",
    shape=lambda g_, at, dims, shape, wrap: shape,
    target=lambda at, g_, points, dims, shape, wrap: _coordinates(at, shape, points, dims, wrap),
    values="g_",
    combine=added,
    vjp={"g_": lambda g, at, dims, wrap: take_at(g, at, dims=dims, wrap=wrap)},
    samples=lambda: (
        Sample((Array((2, 3)), np.array([[0, -3, 1], [1, 3, 3]])),
               {"dims": (1, 2), "shape": (2, 3, 4), "wrap": True}),
        Sample((Array((3, 2)), np.array([[0, 2, 2]])),
               {"dims": (0,), "shape": (3, 2), "wrap": False}),
    ),
    method=False,
    internal=True,
    linear=True,
    bound=("at", lambda g_, at, dims, shape, wrap: _ranges(shape, dims, wrap)),
)  # fmt: skip
def sum_at(g_, at, *, dims, shape, wrap):
    """The transpose of take_at: every element added where take_at would read it."""


def _put_at_ref(
    x: np.ndarray, at: np.ndarray, values: np.ndarray, dims: Shape, accumulate: bool, wrap: bool
) -> np.ndarray:
    out = x.copy()
    key = point_key(x.shape, at, dims, wrap)
    if accumulate:
        np.add.at(out, key, values)
    else:
        out[key] = values
    return out


# The gradient of values that others overwrite is not zero but that of those others: PyTorch's.
@scattering(
    ref=_put_at_ref,
    dtype="same",
    shape=lambda x, at, values, dims, accumulate, wrap: x.shape,
    target=lambda at, x, points, values, dims, accumulate, wrap: _coordinates(
        at, x.shape, points, dims, wrap),
    base="x",
    values="values",
    combine=lambda old, new, accumulate, **_: added(old, new) if accumulate else new,
    vjp={
        "x": lambda g, at, values_spec, dims, accumulate, wrap: g if accumulate else put_at(
            g, at, zeros(values_spec.shape, dtype=g.dtype), dims=dims, accumulate=False, wrap=wrap),
        "values": lambda g, at, dims, wrap: take_at(g, at, dims=dims, wrap=wrap),
    },
    samples=lambda: (
        Sample((Array((4, 3)), np.array([[1, -1]]), Array((2, 3))),
               {"dims": (0,), "accumulate": False, "wrap": True}),
        Sample((Array((2, 3)), np.array([[0, 1, 1], [1, 2, 2]]), Array((3,))),
               {"dims": (0, 1), "accumulate": True, "wrap": True}),
        Sample((Array((3, 2, 2)), np.array([[0, 1], [1, 1]]), Array((2, 2))),
               {"dims": (0, 2), "accumulate": False, "wrap": False}),
    ),
    method=False,
    internal=True,
    bound=("at", lambda x, at, values, dims, accumulate, wrap: _ranges(x.shape, dims, wrap)),
)  # fmt: skip
def put_at(x, at, values, *, dims, accumulate, wrap):
    """`x` with the elements at given coordinates replaced, or added to."""


# --- embedding and its transpose ---------------------------------------------------------------


def _embedding_shape(weight: Any, index: Any, padding_idx: int | None) -> Any:
    check_integers("embedding", index)
    if len(weight.shape) != 2:
        raise ValueError(f"embedding: the weight is {weight}; it must have two dims.")
    return (*index.shape, weight.shape[1])


@index(
    ref=lambda weight, index, padding_idx: weight[check_range("embedding", index, weight.shape[0])],
    dtype="same",
    shape=_embedding_shape,
    source=lambda at, weight, index, padding_idx: weight[
        s.checked(s.cast(index[at[:-1]], int64), weight.shape[0]), at[-1]
    ],
    vjp={"weight": lambda g, weight_spec, index, padding_idx: segment_sum(
        _without(g, index, padding_idx), index, size=weight_spec.shape[0])},
    samples=lambda: (
        Sample((Array((4, 3)), _INDEX), {"padding_idx": None}),
        Sample((Array((4, 3)), Array((5,), 0, 4, int64)), {"padding_idx": None}),
    ),
    failures=lambda: (
        Failure((Array((4, 3)), np.array([4])), {}, IndexError, "embedding: index 4"),
        Failure((Array((4, 3)), Array((2,))), {}, TypeError, "embedding: the index is"),
        Failure(
            (Array((4, 3)), np.array([0])), {"padding_idx": 4}, ValueError,
            "embedding: padding_idx 4 is not a row of float64[4, 3].",
        ),
        Failure(
            (Array((4, 3)), np.array([0])), {"padding_idx": 1.5}, TypeError,
            "embedding: padding_idx must be an int, not 1.5.",
        ),
    ),
    normalize=lambda weight, index, padding_idx: _padding_params(weight, padding_idx),
    method=False,
    linear=True,
    bound=("index", lambda weight, index, padding_idx: (range(weight.shape[0]),)),
)  # fmt: skip
def embedding(weight, index, *, padding_idx=None):
    """Rows of a table: out[..., :] = weight[index[...], :]; row `padding_idx` gets no gradient."""


def _padding_params(weight: Tensor, padding_idx: int | None) -> dict[str, Any]:
    if padding_idx is None:
        return {}
    rows = weight.shape[0]
    padding_idx = whole("embedding", "padding_idx", padding_idx)
    if not -rows <= padding_idx < rows:
        raise ValueError(
            f"embedding: padding_idx {padding_idx} is not a row of {describe(weight)}."
        )
    return {"padding_idx": padding_idx % rows}


def _without(g: Tensor, index: Tensor, padding_idx: int | None) -> Tensor:
    if padding_idx is None:
        return g
    return where(reshape(index == padding_idx, (*index.shape, 1)), 0.0, g)


def _segment_sum_ref(g: np.ndarray, index: np.ndarray, size: int) -> np.ndarray:
    rows = g.reshape(numel(index.shape), g.shape[-1])
    flat = check_range("segment_sum", index.reshape(-1), size)
    out = np.zeros((size, g.shape[-1]), g.dtype)
    if not flat.size:
        return out
    order = np.argsort(flat, kind="stable")  # rows of one segment stay in their order
    segments, starts = np.unique(flat[order], return_index=True)
    out[segments] = np.add.reduceat(rows[order], starts, axis=0)
    return out


@scattering(
    ref=_segment_sum_ref,
    dtype="same",
    shape=lambda g, index, size: (size, g.shape[-1]),
    target=lambda at, g_, index, size: (
        s.checked(s.cast(index[at[:-1]], int64), s.Size(size)),
        at[-1],
    ),
    values="g_",
    combine=added,
    vjp={"g_": lambda g, index: embedding(g, index)},
    samples=lambda: (Sample((Array((3, 2, 4)), _INDEX), {"size": 4}),),
    method=False,
    internal=True,
    linear=True,
    bound=("index", lambda g_, index, size: (range(size),)),
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
    internal=True,
    linear=True,
)
def put_along_dim(g_, index, *, dim, size):
    """Zeros but for one element along `dim`, at the index: the transpose of picking it."""


# --- padding -----------------------------------------------------------------------------------


def _constant_pad_ref(x: np.ndarray, value: Any, pads: Any) -> np.ndarray:
    out = np.full([n + a + b for n, (a, b) in zip(x.shape, pads)], value, x.dtype)
    out[tuple(slice(a, a + n) for n, (a, _) in zip(x.shape, pads))] = x
    return out


def _pad_source(at: Any, x: Any, value: Any, pads: Any) -> Any:
    inside = s.const(True, dtypes.bool_)
    source = []
    for i, n, (before, after) in zip(at, x.shape, pads):
        # Without a border nothing is asked, so that the kernel is the same for any size there.
        if before > 0:
            inside = inside & (i >= before)
        if after > 0:
            inside = inside & (i < before + n)
        source.append(i - before if before else i)
    filling = value[()] if isinstance(value, s.Source) else value  # a tensor without dims, or not
    return s.select(inside, x.where(inside, tuple(source)), s.cast(filling, x.dtype))


@index(
    ref=_constant_pad_ref,
    dtype="same",
    shape=lambda x, value, pads: tuple(n + a + b for n, (a, b) in zip(x.shape, pads)),
    source=_pad_source,
    vjp={"x": lambda g, pads: _unpad(g, pads)},
    samples=lambda: (
        Sample((Array((3, 4)), 0.0), {"pads": ((1, 2), (0, 1))}),
        Sample((Array((2,)), 1.5), {"pads": ((2, 0),)}),
    ),
    method=False,
    internal=True,
    is_padding=True,
)
def constant_pad(x, value, *, pads):
    """A border of one value: (before, after) elements for each dim."""


def _unpad(g: Tensor, pads: Any) -> Tensor:
    for dim, (before, after) in enumerate(pads):
        if before or after:
            g = slice_(g, dim=dim, start=before, stop=g.shape[dim] - after, step=1)
    return g
