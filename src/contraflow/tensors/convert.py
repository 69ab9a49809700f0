"""Data from outside as arrays, and arrays for others: Python sequences and DLPack.

NumPy reads and writes DLPack itself, except for bfloat16, which it does not know: such arrays go
through it as uint16, and the dtype in the capsule is changed on the way.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from contraflow import dtypes
from contraflow.devices.cpu import memory
from contraflow.dtypes import HALVES, INT, DType, bfloat16
from contraflow.errors import DeviceError
from contraflow.expressions.evaluate import saturating_cast
from contraflow.shapes import Shape

# --- Python data -------------------------------------------------------------------------------

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
        default = dtypes.get_default_dtype()
        return array, dtypes.fold(sorted(found, key=str)) if found else default
    own = getattr(data, "dtype", None)
    if isinstance(own, DType):
        return data.detach().array, own
    if isinstance(data, complex):
        raise NotImplementedError(f"{op}: there are no complex tensors; see docs/differences.md.")
    array = np.asarray(data)
    if type(data) in _NUMBERS:
        return array, dtypes.of_number(data)
    if array.dtype.kind in "OSUV" and array.dtype != bfloat16.numpy:
        raise TypeError(f"{op}: cannot make a tensor of {type(data).__name__} {data!r:.60}.")
    return array, dtypes.from_numpy(array.dtype)


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
                f"{op}: the nested sequences are ragged: parts of shape {list(shapes[0])} and "
                f"{list(shape)} stand side by side."
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


# --- DLPack ------------------------------------------------------------------------------------


class _DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _DLTensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned. The one without a version starts with the array itself."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("array", _DLTensor),
    )


_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)

ON_CPU = (1, 0)
_UINT, _BFLOAT = 1, 4
# Kind of a NumPy dtype by DLPack's code.
_KINDS = {0: "i", _UINT: "u", 2: "f", _BFLOAT: "bfloat", 5: "complex", 6: "b"}


def _dtype_in(capsule: Any) -> _DataType:
    """The dtype inside a capsule, which may be changed before somebody takes the capsule."""
    if _is_valid(capsule, b"dltensor_versioned"):
        at = _pointer(capsule, b"dltensor_versioned")
        versioned: _DataType = _Versioned.from_address(at).array.dtype
        return versioned
    found: _DataType = _DLTensor.from_address(_pointer(capsule, b"dltensor")).dtype
    return found


def to_dlpack(
    array: np.ndarray, stream: Any, max_version: Any, dl_device: Any, copy: bool | None
) -> Any:
    """A capsule over an array's memory, or over a copy of it."""
    if stream is not None:
        raise ValueError(f"dlpack: stream is {stream!r}, but the cpu has none. Pass None.")
    if dl_device is not None and tuple(dl_device) != ON_CPU:
        raise BufferError(f"dlpack: cannot export to device {tuple(dl_device)}, only to the cpu.")
    if array.dtype != bfloat16.numpy:
        return array.__dlpack__(max_version=max_version, copy=copy)
    capsule = array.view(np.uint16).__dlpack__(max_version=max_version, copy=copy)
    _dtype_in(capsule).code = _BFLOAT
    return capsule


class _Taken:
    """A capsule as NumPy asks for it."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return ON_CPU


def array_from_dlpack(source: Any) -> np.ndarray:
    """An array over the memory of another library's; read-only if that says so."""
    if not hasattr(source, "__dlpack__") or not hasattr(source, "__dlpack_device__"):
        raise TypeError(f"from_dlpack: {type(source).__name__} has no __dlpack__ method.")
    kind, number = source.__dlpack_device__()
    if kind != ON_CPU[0]:
        raise DeviceError(
            f"from_dlpack: the data lies on DLPack device {int(kind), number}, not on the cpu. "
            f"Move it there first."
        )
    try:
        capsule = source.__dlpack__(max_version=(1, 0))
    except TypeError:  # a library that knows no versions yet
        capsule = source.__dlpack__()
    dtype = _dtype_in(capsule)
    is_bfloat16 = (dtype.code, dtype.bits) == (_BFLOAT, 16)
    name = f"{_KINDS.get(dtype.code, dtype.code)}{dtype.bits}"
    if dtype.lanes != 1 or not (is_bfloat16 or name in _SUPPORTED):
        supported = ", ".join(d.name for d in dtypes.ALL)
        raise TypeError(f"from_dlpack: dtype {name} is not supported. Supported: {supported}.")
    if is_bfloat16:
        dtype.code = _UINT
    array = np.from_dlpack(_Taken(capsule))
    return array.view(bfloat16.numpy) if is_bfloat16 else array


_SUPPORTED = {f"{d.numpy.kind}{8 * d.itemsize}" for d in dtypes.ALL if d is not bfloat16}
