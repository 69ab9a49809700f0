"""Arrays of other libraries, and arrays for them, by DLPack.

NumPy reads and writes DLPack itself, except for bfloat16, which it does not know: such arrays go
through it as uint16, and the dtype in the capsule is changed on the way.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from contraflow import dtypes
from contraflow.dtypes import bfloat16
from contraflow.errors import DeviceError


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
