"""x[...], read and written, with masks among the indices too.

An index is resolved in two steps. Integers, slices, None and ... give a view of the tensor (the
basic part); what is left are tensors of integers or masks, each at a dim of that view (the points).
Reading copies the elements at the points; writing gives the view new values through `put_at`, or
through `where` if the points are one mask, so that the shape of nothing depends on values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from contraflow import thresholds
from contraflow.contexts.applying import outside_graph
from contraflow.dtypes import INT, bool_, int64
from contraflow.errors import TRANSLATED, describe, hide_frames, plain_number, retold
from contraflow.operation.context import apply, call_near, mixed, other_devices, state
from contraflow.operation.kinds import composite
from contraflow.operation.samples import Array, Failure, Sample
from contraflow.ops.creation.create import full
from contraflow.ops.creation.data import tensor
from contraflow.ops.elementwise.basic import to_dtype, where
from contraflow.ops.index.dynamic import nonzero
from contraflow.ops.index.gather import point_key, put_at, take_at
from contraflow.ops.index.positions import (
    is_place,
    is_position,
    out_of_range,
    position_at,
    positions_from,
    slice_length,
    take_copy,
)
from contraflow.ops.shape.joining import stack
from contraflow.ops.shape.parts import unbind
from contraflow.ops.shape.view import expand, permute, reshape, select, slice_, unsqueeze
from contraflow.runtime.eager import Eager
from contraflow.shapes import Shape, broadcast_shapes, contiguous_strides
from contraflow.tensors.methods import method
from contraflow.tensors.source_line import user_line
from contraflow.tensors.symbol import symbols_in
from contraflow.tensors.tensor import Tensor, of_numpy
from contraflow.tensors.writing import check_write, write, write_at

_PLAIN = frozenset((int, slice))  # types of parts of an index that choose from one dim each
_INTS = frozenset((int,))
Point = tuple[int, Tensor]  # a dim, and integers into it, or a mask over it and the next ones


# --- from an index to a view and points --------------------------------------------------------


def _span(key: Any) -> int:
    """How many dims an index consumes."""
    if key is None or key is Ellipsis or isinstance(key, (bool, np.bool_)):
        return 0
    return key.ndim if isinstance(key, Tensor) and key.dtype is bool_ else 1


def _as_key(key: Any, device: str | None) -> Any:
    """Lists, arrays and ranges become tensors; a tensor must hold integers or truth values."""
    if isinstance(key, (list, range, tuple)):
        key = tensor(key, dtype=None if len(key) else int64, device=device)
    elif isinstance(key, np.ndarray):
        key = tensor(key, device=device)
    if isinstance(key, Tensor) and key.dtype.is_floating_point:
        raise IndexError(f"getitem: an index is {describe(key)}; it must hold integers or bools.")
    return key


def _listed(x: Tensor, key: Any) -> Sequence[Any]:
    """The parts of an index, with ... written out."""
    parts = key if type(key) is tuple else (key,)
    if _PLAIN.issuperset(map(type, parts)) and len(parts) <= len(x.layout.shape):
        return parts  # there is nothing to convert, to write out or to refuse
    away = x.storage.device != "cpu"
    here = "cpu" if away and not state().context.is_recording else None
    keys = [_as_key(k, here) for k in key] if isinstance(key, tuple) else [_as_key(key, here)]
    if other_devices:
        keys = [_beside(x, k) if isinstance(k, Tensor) else k for k in keys]
    used = sum(map(_span, keys))
    if used > x.ndim:
        remedy = "" if x.ndim else " Use item() for the number in it."
        raise IndexError(f"getitem: {used} indices are too many for {describe(x)}.{remedy}")
    dots = [i for i, k in enumerate(keys) if k is Ellipsis]
    if len(dots) > 1:
        raise IndexError("getitem: ... may appear at most once in an index.")
    for i in dots:
        keys[i : i + 1] = [slice(None)] * (x.ndim - used)
    return keys


def _beside(x: Tensor, k: Tensor) -> Tensor:
    """An index where the tensor lies that it chooses from: one of the cpu is moved there.

    Two sorts stay: a mask, whose points the host finds (they are moved then), and a number that the
    host can read, which gives a view. One of another device than the cpu is refused, unless it is
    such a number.
    """
    here, there = k.storage.device, x.storage.device
    is_number = not k.ndim and k.dtype is not bool_
    if here == there or (is_number and _is_known(k)):
        return k
    if here != "cpu":
        raise mixed("getitem", {"x": x, "index": k}, move="index")
    if k.dtype is bool_ and _is_known(k):
        return k
    return k.to(there)


def _is_known(k: Tensor) -> bool:
    """Whether an index has a value that the host can read."""
    return not k.storage.is_recorded and not state().context.is_recording


def _is_points(x: Tensor, key: Any) -> bool:
    """Whether an index is one tensor of integers, or a mask that fits, for which there is nothing
    to convert."""
    if not isinstance(key, Tensor) or other_devices:
        return False
    shape, sizes = key.layout.shape, x.layout.shape
    if key.dtype is bool_:
        return bool(shape) and shape == sizes[: len(shape)]
    return key.dtype.category == INT and bool(shape and sizes)


def resolve(x: Tensor, key: Any) -> tuple[Tensor, list[Point]]:
    """The view that the basic part of an index gives, and the points in it."""
    if _is_points(x, key):
        return x, [(0, key)]
    dim = 0
    points: list[Point] = []
    parts = _listed(x, key)
    given = state().context.symbols is not None and _are_positions(parts)
    for k in parts:
        if type(k) is int:
            x = _selected(x, dim, k)
        elif given and is_position(k):
            points.append((dim, position_at("getitem", x, dim, k)))
            dim += 1
        elif isinstance(k, slice):
            at = _part_at(x, dim, k) if given else None
            if at is None:
                x = _sliced(x, dim, k)
            else:
                points.append((dim, at))
            dim += 1
        elif k is None:
            x = unsqueeze(x, dim)
            dim += 1
        elif isinstance(k, (bool, np.bool_)) or (isinstance(k, Tensor) and _is_flag(k)):
            # A truth value chooses all or nothing of a new dim of size one.
            x = unsqueeze(x, dim)
            if isinstance(k, Tensor):
                points.append((dim, reshape(k, (1,))))
            else:
                chosen = tensor([0] if k else [], dtype=int64, device=x.storage.device)
                points.append((dim, chosen))
            dim += 1
        elif isinstance(k, Tensor):
            if not k.ndim and _is_known(k):
                x = _selected(x, dim, int(k))
                continue
            _check_mask(x, dim, k)
            points.append((dim, k))
            dim += _span(k)
        elif hasattr(k, "__index__"):
            x = _selected(x, dim, k.__index__())
        else:
            raise TypeError(f"getitem: cannot index with {type(k).__name__}.")
    return x, points


def _are_positions(parts: Sequence[Any]) -> bool:
    """Whether numbers of a recording in an index select places only; others need their values.

    They do so in an index of nothing but views: beside a vector of integers or a mask, the order of
    the dims would be that of points. A slice of one size does so where there is nothing else.
    """
    numbers = sum(map(is_position, parts))
    slices = sum(isinstance(k, slice) and slice_length(k) is not None for k in parts)
    tensors = [k for k in parts if isinstance(k, Tensor)]
    if not (numbers or slices) or not all(map(is_place, tensors)):
        return False
    return not slices or numbers + slices + len(tensors) == 1


def _part_at(x: Tensor, dim: int, k: slice) -> Tensor | None:
    """The positions of a slice of one size from a number of the recording on, if it is one."""
    length = slice_length(k)
    return None if length is None else positions_from(x, dim, k.start, length)


def _is_flag(k: Tensor) -> bool:
    return k.dtype is bool_ and not k.ndim


def _selected(x: Tensor, dim: int, i: int) -> Tensor:
    n = x.layout.shape[dim]
    if not -n <= i < n:
        raise out_of_range("getitem", x, dim, i)
    out: Tensor = apply(select, (x,), {"dim": dim, "index": i % n})
    return out


def _sliced(x: Tensor, dim: int, k: slice) -> Tensor:
    if k.step is not None and int(k.step) <= 0:
        raise ValueError("getitem: a slice's step must be positive; use flip.")
    n = x.layout.shape[dim]
    start, stop, step = k.indices(n)
    if (start, step) == (0, 1) and stop >= n:
        return x
    part = {"dim": dim, "start": start, "stop": max(start, stop), "step": step}
    out: Tensor = apply(slice_, (x,), part)
    return out


def _check_mask(x: Tensor, dim: int, k: Tensor) -> None:
    if k.dtype is bool_ and k.shape != x.shape[dim : dim + k.ndim]:
        raise IndexError(
            f"getitem: the mask {describe(k)} does not fit {describe(x)} from dim {dim} on."
        )


def _coordinates(x: Tensor, points: Sequence[Point]) -> tuple[Shape, Tensor]:
    """The dims of the points and their coordinates, broadcast against each other: see take_at."""
    if len(points) == 1:
        ((dim, k),) = points
        if k.dtype is not bool_:
            return (dim,), apply(reshape, (k,), {"shape": (1, *k.layout.shape)})
        at = apply(permute, (nonzero(k),), {"dims": (1, 0)})
        at = at.to(x.device) if x.storage.device != "cpu" else at
        return tuple(range(dim, dim + k.ndim)), at
    flat: list[Point] = []
    for dim, k in points:
        found = unbind(nonzero(k), 1) if k.dtype is bool_ else (k,)
        if k.dtype is bool_ and x.storage.device != "cpu":
            found = tuple(part.to(x.device) for part in found)
        flat += [(dim + i, part) for i, part in enumerate(found)]
    shapes = [k.shape for _, k in flat]
    try:
        shape = broadcast_shapes("getitem", shapes)
    except ValueError as error:
        raise IndexError(f"{error} The tensors of an index must broadcast.") from error
    dims = tuple(dim for dim, _ in flat)
    return dims, stack([expand(k.long(), shape) for _, k in flat])


def _replaced(x: Tensor, points: list[Point], value: Any, accumulate: bool = False) -> Tensor:
    """`x` with the elements at the points replaced by `value`, which is broadcast, or added to."""
    if len(points) == 1 and points[0][1].dtype is bool_ and not accumulate:
        chosen = _by_mask(x, *points[0], value)
        if chosen is not None:
            return chosen
    dims, at, value = _placed(x, points, value)
    return put_at(x, at, value, dims=dims, accumulate=accumulate, wrap=True)


def _placed(x: Tensor, points: list[Point], value: Any) -> tuple[Shape, Tensor, Tensor]:
    """Dims and coordinates of the points, and a value for each."""
    dims, at = _coordinates(x, points)
    shape = take_at.infer([x.spec, at.spec], {"dims": dims, "wrap": True})[0].shape
    if not isinstance(value, Tensor):
        return dims, at, full(shape, value, x.dtype)
    if value.dtype is not x.dtype:
        value = to_dtype(value, dtype=x.dtype)
    return dims, at, expand(_fitted(value, shape), shape)


def write_points(region: Tensor, points: list[Point], value: Any) -> None:
    """Give the elements at the points of a view new values, in place."""
    integers = all(k.dtype is not bool_ for _, k in points)
    if integers and all(k.storage.on_host for _, k in points):
        key: list[Any] = [slice(None)] * region.ndim
        for dim, k in points:
            key[dim] = k.array
        if write_at(region, tuple(key), value, "setitem"):
            return
    base = region if region._base is None else region._base
    graph = state().grad and any(
        isinstance(t, Tensor) and t.requires_grad for t in (region, base, value)
    )
    on_host = region.storage.device == "cpu"
    if integers and not graph and on_host and isinstance(state().context, Eager):
        # Nothing to record: only the points are touched, however large the tensor is.
        dims, at, value = _placed(region, points, value)
        source = value.array.copy() if value.storage is region.storage else value.array
        region.storage.recall()
        region.array[point_key(region.shape, at.array, dims, True)] = source
        region.storage.wrote("setitem", state().line or user_line())
    else:
        write(region, _replaced(region, points, value), "setitem", fresh=True)


def _by_mask(x: Tensor, dim: int, mask: Tensor, value: Any) -> Tensor | None:
    """where(mask, value, x), unless each of the chosen points has a value of its own."""
    rest = x.ndim - dim - mask.ndim
    if mask.storage.device != x.storage.device:
        mask = mask.to(x.device)
    mask = reshape(mask, mask.shape + (1,) * rest)
    if isinstance(value, Tensor):
        lead = value.ndim - rest  # dims of the value that stand for chosen points or before them
        if any(n != 1 for n in value.shape[: max(0, lead)]):
            return None
        value = reshape(value, value.shape[max(0, lead) :])
        if value.dtype is not x.dtype:
            value = to_dtype(value, dtype=x.dtype)
        if any(n not in (1, m) for n, m in zip(value.shape, x.shape[x.ndim - value.ndim :])):
            return None  # refused with the shape of the points
    else:
        value = full((), value, x.dtype)
    return where(mask, value, x)


def _fitted(value: Tensor, shape: Shape) -> Tensor:
    """A value without leading dims of size one that the shape does not have."""
    if value.shape == shape:
        return value
    lead = value.ndim - len(shape)
    if lead > 0 and all(n == 1 for n in value.shape[:lead]):
        value = reshape(value, value.shape[lead:])
    tail = shape[len(shape) - value.ndim :]
    if value.ndim > len(shape) or any(n not in (1, m) for n, m in zip(value.shape, tail)):
        raise ValueError(
            f"setitem: {describe(value)} does not broadcast to the part {list(shape)}."
        )
    return value


# --- reading and writing -----------------------------------------------------------------------

_ROWS = np.array([2, 0, -1, 2])


@composite(
    ref=lambda x, key: x[key],
    samples=lambda: (
        Sample((Array((4, 5, 3)),), {"key": (slice(1, 3), 2)}),
        Sample((Array((4, 5)),), {"key": (Ellipsis, None, slice(None, None, 2))}),
        Sample((Array((4, 5)),), {"key": -1}),
        Sample((Array((3, 5, 2)),), {"key": (_ROWS, slice(1, None))}),
        Sample((Array((2, 3, 4)),), {"key": (slice(None), np.array([[0], [2]]), _ROWS)}),
        Sample((Array((3, 2, 3)),), {"key": (_ROWS, None, slice(None), _ROWS)}),
    ),
    failures=lambda: (
        Failure((Array((3,)),), {"key": 3}, IndexError, "getitem: index 3 is out of range for dim"),
        Failure((Array((3,)),), {"key": (0, 0)}, IndexError, "getitem: 2 indices are too many for"),
        Failure((Array((3,)),), {"key": (..., ...)}, IndexError, "getitem: ... may appear at"),
        Failure((Array((3,)),), {"key": "a"}, TypeError, "getitem: cannot index with str"),
        Failure((Array((3,)),), {"key": 1.0}, TypeError, "getitem: cannot index with float"),
        Failure((Array((3,)),), {"key": slice(None, None, -1)}, ValueError, "a slice's step must"),
        Failure(
            (Array((3, 2)),), {"key": (np.array([0, 1]), np.array([0, 1, 1]))}, IndexError,
            "The tensors of an index must broadcast.",
        ),
        Failure(
            (Array((3, 2)),), {"key": np.array([True, False])}, IndexError,
            "getitem: the mask bool[2] does not fit float64[3, 2] from dim 0 on.",
        ),
        Failure(
            (Array((3, 2)),), {"key": (slice(None), np.array([2]))}, IndexError,
            "index 2 is out of range for dim 1 with size 2.",
        ),
        Failure((Array((3,)),), {"key": np.array([0.5])}, IndexError, "an index is float64[1]; it"),
    ),
    method=False,
    internal=True,
    by_parts=True,
)  # fmt: skip
def getitem(x, *, key):
    """x[key]: a view for integers, slices, None and ...; a copy for tensors, lists and masks."""
    x, points = resolve(x, key)
    if not points:
        return x
    dims, at = _coordinates(x, points)
    if state().context.symbols is not None and (symbols := _places(key)) is not None:
        return take_copy(x, at, dims, symbols, key)
    return apply(take_at, (x, at), {"dims": dims, "wrap": True})


def _places(key: Any) -> tuple[Any, ...] | None:
    """The numbers of a recording in an index that eager mode has a view for, None for others."""
    parts = key if type(key) is tuple else (key,)
    if not all(map(is_place, (k for k in parts if not _is_basic(k)))):
        return None
    return tuple(symbols_in([x for k in parts for x in _numbers_of(k)]))


def _is_basic(k: Any) -> bool:
    """Whether a part of an index is one that gives a view, whatever the others are."""
    is_number = isinstance(k, int) and not isinstance(k, bool)
    return k is None or k is Ellipsis or is_number or isinstance(k, slice)


def _numbers_of(k: Any) -> tuple[Any, ...]:
    return (k.start, k.stop) if isinstance(k, slice) else (k,)


def _chosen(x: Tensor, key: Tensor) -> Tensor | None:
    """x[key] of few elements outside of any graph, which NumPy has at once; None for others, and
    where an index is wrong."""
    arrays = outside_graph((x, key)) if _is_points(x, key) else None
    if arrays is None or arrays[0].size + arrays[1].size >= thresholds.eager_kernel:
        return None
    try:  # NumPy counts negative indices from the end as well, and checks them all
        found = arrays[0][arrays[1]]
    except IndexError:
        return None
    return Tensor.of_array(np.asarray(found, order="C"))


@method
def __getitem__(self: Tensor, key: Any) -> Tensor:
    """Integers, slices, None and ... give a view; tensors, lists and masks a copy."""
    try:
        out: Tensor
        if state().context.immediate and not other_devices:  # no other context observes it
            if isinstance(key, Tensor):
                chosen = _chosen(self, key)
                if chosen is not None:
                    return chosen
            out = getitem.body(self, key=key)
        else:
            out = apply(getitem, (self,), {"key": key})
    except tuple(TRANSLATED) as error:
        told = retold(error, "getitem", _index_items, (self, key))
        if told is error:
            hide_frames(error)
            raise
        raise told  # noqa: B904 (it has its cause)
    return out


def _index_items() -> str:
    """The parts that an index may have, for a message."""
    return "ints, slices, None, ..., tensors, lists and masks"


def _setitem_ref(x: np.ndarray, value: Any, key: Any) -> np.ndarray:
    out = x.copy()
    out[key] = value
    return out


@composite(
    ref=_setitem_ref,
    samples=lambda: (
        Sample((Array((4, 3)), Array((3,))), {"key": (slice(1, None, 2),)}),
        Sample((Array((4, 3)), Array((2, 3))), {"key": (np.array([3, 0]),)}),
        Sample((Array((2, 3, 4)), Array((2, 1))), {"key": (1, np.array([0, 2]), slice(1, 3))}),
        Sample((Array((2, 3)), 1.5), {"key": (np.array([[True, False, True]] * 2),)}),
    ),
    failures=lambda: (
        Failure(
            (Array((4, 3)), Array((2,))), {"key": np.array([0, 1])}, ValueError,
            "setitem: float64[2] does not broadcast to the part [2, 3].",
        ),
        Failure(
            (Array((4, 3)), Array((2,))), {"key": 0}, ValueError,
            "setitem: float64[2] does not broadcast to the part [3].",
        ),
    ),
    method=False,
    internal=True,
)  # fmt: skip
def setitem(x, value, *, key):
    """A copy of `x` after x[key] = value; of several values for one element the last stays."""
    out = x.clone()
    out[key] = value
    return out


@method
def __setitem__(self: Tensor, key: Any, value: Any) -> None:
    """Write to the elements that the index names; the value is broadcast and cast."""
    try:
        if other_devices:
            call_near(_set_items, (self, key, value), {})
        elif not _set_element(self, key, value):
            _set_items(self, key, value)
    except tuple(TRANSLATED) as error:
        told = retold(error, "setitem", lambda: f"{_index_items()}; value", (self, key, value))
        if told is error:
            hide_frames(error)
            raise
        raise told  # noqa: B904 (it has its cause)


def _set_element(x: Tensor, key: Any, value: Any) -> bool:
    """Write at whole numbers along the first dims, where the graph need not know of it and nothing
    refuses it; False where it was not done."""
    if type(key) is not int and not (type(key) is tuple and _INTS.issuperset(map(type, key))):
        return False
    shape, strides, _ = x.layout
    storage = x.storage
    if storage.frozen or storage.inference or strides != contiguous_strides(shape):
        return False
    return write_at(x, key, value, "setitem")


def _set_items(self: Tensor, key: Any, value: Any) -> None:
    value = plain_number(value)
    if isinstance(value, (np.ndarray, np.generic)):
        value = of_numpy(value, self.storage.device, self.dtype)
    if isinstance(value, Tensor) and value.storage.device != self.storage.device:
        value = value.to(self.device, self.dtype)  # a copy crosses devices
    region, points = resolve(self, key)
    check_write(region, "setitem")
    if points and state().context.symbols is not None:
        with state().context.putting_back(region, key, value):
            write_points(region, points, value)
        return
    if points:
        write_points(region, points, value)
        return
    if isinstance(value, Tensor):
        value = _fitted(value, region.layout.shape)
    write(region, value, "setitem")


@composite(
    ref=lambda x, values, indices, accumulate: _index_put_ref(x, values, indices, accumulate),
    samples=lambda: (
        Sample((Array((3, 4)), Array((2,))),
               {"indices": (np.array([0, 2]), np.array([1, -1])), "accumulate": False}),
        Sample((Array((3, 4)), Array((4,))),
               {"indices": (np.array([0, 2, 0]),), "accumulate": True}),
        Sample((Array((3, 4)), Array((1,))),
               {"indices": (np.array([0, 2]), np.array(1)), "accumulate": True}),
        Sample((Array((3, 4)), Array((4,))), {"indices": (np.array(1),), "accumulate": False}),
    ),
    failures=lambda: (
        Failure(
            (Array((3, 4)), Array(())), {"indices": (np.array([0]), 1)}, TypeError,
            "index_put: the indices must be tensors or None, not 1.",
        ),
        Failure(
            (Array((3,)), Array(())), {"indices": 0, "accumulate": False}, TypeError,
            "index_put: the indices must be a tuple of tensors, not int.",
        ),
    ),
    inplace=True,
)  # fmt: skip
def index_put(x, values, *, indices, accumulate=False):
    """`x` with x[indices] replaced by values, which broadcast, or with the values added there."""
    if not isinstance(indices, (tuple, list)):
        raise TypeError(
            f"index_put: the indices must be a tuple of tensors, not {type(indices).__name__}."
        )
    if isinstance(values, Tensor) and values.dtype is not x.dtype:
        raise TypeError(
            f"index_put: {describe(values)} and {describe(x)} must have the same dtype."
        )
    region, points = resolve(x, tuple(map(_put_key, indices)))
    if not points:
        raise IndexError("index_put: there must be at least one tensor among the indices.")
    out = _replaced(region, points, values, accumulate)
    return out if region is x else reshape(out, x.shape)


def _put_key(k: Any) -> Any:
    """An index of index_put as a part of a key that keeps the dims of the tensor."""
    if k is None:
        return slice(None)
    if isinstance(k, (int, slice)):
        raise TypeError(f"index_put: the indices must be tensors or None, not {k!r}.")
    is_number = isinstance(k, (Tensor, np.ndarray)) and not k.ndim and k.dtype not in (bool_, bool)
    return k.reshape(1) if is_number else k


def _index_put_ref(x: np.ndarray, values: Any, indices: Any, accumulate: bool) -> np.ndarray:
    out = x.copy()
    if accumulate:
        np.add.at(out, indices, values)
    else:
        out[indices] = values
    return out


@index_put.signature
def _index_put(x: Tensor, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
    params = {"indices": indices, "accumulate": accumulate}
    return apply(index_put, (x, values), params)
