"""Data from outside as arrays: numbers, nested sequences, NumPy arrays and tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from contraflow import dtypes
from contraflow.devices.cpu import memory
from contraflow.dtypes import HALVES, INT, DType, bfloat16
from contraflow.expressions.evaluate import saturating_cast
from contraflow.shapes import Shape

_NUMBERS = frozenset((bool, int, float))


def array_of(op: str, data: Any, dtype: DType | None) -> np.ndarray:
    """A new C-contiguous array of numbers, nested sequences, NumPy arrays or tensors.

    Without a `dtype` Python's floats have the default dtype and its integers int64.
    """
    array, own = _read(op, data)
    target = own if dtype is None else dtype
    if array.dtype.kind == "O" and target.is_floating_point:
        array = array.astype(np.float64)  # Python's integers may be longer than int64
    if target.category == INT and isinstance(data, (int, list, tuple)):
        _check_range(op, array, target)
    if array.dtype != target.numpy:
        with np.errstate(all="ignore"):
            array = saturating_cast(array, target)
    return memory.copy(array)


def _read(op: str, data: Any) -> tuple[np.ndarray, DType]:
    """An array, perhaps somebody else's, and the dtype that a tensor of it has."""
    if isinstance(data, (list, tuple)):
        found: set[DType] = set()
        plain = _plain(op, data, found)
        try:
            array = np.array(plain)
        except ValueError:
            _shape(op, data)  # raises, since it is ragged
            raise
        return array, dtype_of(found)
    own = getattr(data, "dtype", None)
    if isinstance(own, DType):
        return data.detach().fetched(), own
    if isinstance(data, complex):
        raise NotImplementedError(f"{op}: there are no complex tensors; see docs/differences.md.")
    array = np.asarray(data)
    if type(data) in _NUMBERS:
        return array, dtypes.of_number(data)
    if array.dtype.kind in "OSUV" and array.dtype != bfloat16.numpy:
        raise TypeError(f"{op}: cannot make a tensor of {type(data).__name__} {data!r:.60}.")
    return array, dtypes.from_numpy(array.dtype)


def holds_tensors(op: str, data: Any, found: set[DType]) -> bool:
    """Whether something is a tensor, or nested sequences that hold one; `found` collects dtypes."""
    if isinstance(data, (list, tuple)):
        held = [holds_tensors(op, item, found) for item in data]
        return any(held)
    own = getattr(data, "dtype", None)
    found.add(own if isinstance(own, DType) else _read(op, data)[1])
    return isinstance(own, DType)


def dtype_of(found: set[DType]) -> DType:
    """The dtype of a tensor of values of some dtypes."""
    return dtypes.fold(sorted(found, key=str)) if found else dtypes.get_default_dtype()


def _plain(op: str, data: Sequence[Any], found: set[DType]) -> Sequence[Any]:
    """Nested lists of numbers and arrays; `found` collects the dtypes of what is in them."""
    kinds = set(map(type, data))
    if kinds <= _NUMBERS:
        found.update(dtypes.of_number(kind()) for kind in kinds)
        return data
    rows: list[Any] = []
    for item in data:
        if isinstance(item, (list, tuple)):
            rows.append(_plain(op, item, found))
        else:
            array, dtype = _read(op, item)
            found.add(dtype)
            rows.append(array.astype(np.float32) if dtype in HALVES else array)
    return rows


def _shape(op: str, data: Any) -> Shape:
    """The shape of nested sequences, or the error that says where their lengths differ."""
    if not isinstance(data, (list, tuple)):
        return np.shape(data)
    shapes = [_shape(op, item) for item in data]
    for shape in shapes:
        if shape != shapes[0]:
            raise ValueError(
                f"{op}: the nested sequences are ragged: they hold parts of shape "
                f"{list(shapes[0])} and {list(shape)}."
            )
    return (len(shapes), *(shapes[0] if shapes else ()))


def _check_range(op: str, array: np.ndarray, target: DType) -> None:
    """Refuse integers beyond the target's range; negative ones wrap in uint8, as in C."""
    if array.dtype.kind not in "iuO":
        return
    limits: Any = np.iinfo
    most = limits(target.numpy).max
    least = -most - 1
    wrong = array[(array < least) | (array > most)]
    if wrong.size:
        raise ValueError(f"{op}: {wrong.flat[0]} does not fit {target}.")
