"""Arrays of other libraries, and arrays for them, by DLPack.

NumPy reads and writes DLPack itself, except for bfloat16, which it does not know: such arrays go
through it as uint16, and the dtype in the capsule is changed on the way. Memory of another device
goes through it as an array at the same address, which nothing reads, and the device in the capsule
is changed on the way: so what keeps and frees the memory is C, on both sides.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from contraflow import devices, dtypes
from contraflow.dtypes import DType, bfloat16
from contraflow.errors import DeviceError
from contraflow.operation.context import other_devices
from contraflow.shapes import View, numel


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
_PINNED = 3  # memory of the host that a GPU copies from
_TYPES = {2: "cuda"}  # devices by DLPack's number, beside those that are open
_UINT, _BFLOAT = 1, 4
# Kind of a NumPy dtype by DLPack's code.
_KINDS = {0: "i", _UINT: "u", 2: "f", _BFLOAT: "bfloat", 5: "complex", 6: "b"}


def _content(capsule: Any) -> _DLTensor:
    """The description inside a capsule, which may be changed before somebody takes the capsule."""
    if _is_valid(capsule, b"dltensor_versioned"):
        at = _pointer(capsule, b"dltensor_versioned")
        versioned: _DLTensor = _Versioned.from_address(at).array
        return versioned
    found: _DLTensor = _DLTensor.from_address(_pointer(capsule, b"dltensor"))
    return found


def to_dlpack(array: np.ndarray, max_version: Any, copy: bool | None = None) -> Any:
    """A capsule over an array's memory, or over a copy of it."""
    if array.dtype != bfloat16.numpy:
        return array.__dlpack__(max_version=max_version, copy=copy)
    capsule = array.view(np.uint16).__dlpack__(max_version=max_version, copy=copy)
    _content(capsule).dtype.code = _BFLOAT
    return capsule


def to_dlpack_there(
    kind: tuple[int, int], address: int, layout: View, dtype: DType, owner: Any, max_version: Any
) -> Any:
    """A capsule over memory of another device, which lives as long as `owner`.

    The view begins at the address.
    """
    size = dtype.itemsize
    first, stop = layout.extent() if numel(layout.shape) else (0, 0)
    memory = (ctypes.c_char * ((stop - first) * size)).from_address(address)
    memory.owner = owner  # type: ignore[attr-defined]
    strides = tuple(st * size for st in layout.strides)
    array = np.ndarray(layout.shape, dtype.numpy, memoryview(memory), 0, strides)
    capsule = to_dlpack(array, max_version)
    content = _content(capsule)
    content.device_type, content.device_id = kind
    return capsule


class _Taken:
    """A capsule as NumPy asks for it."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return ON_CPU


def device_of_dlpack(source: Any) -> str:
    """The device that the memory of another library's array lies on."""
    if not hasattr(source, "__dlpack__") or not hasattr(source, "__dlpack_device__"):
        raise TypeError(f"from_dlpack: {type(source).__name__} has no __dlpack__ method.")
    kind, number = source.__dlpack_device__()
    where = int(kind), int(number)
    if where[0] in (ON_CPU[0], _PINNED):
        return "cpu"
    for name, device in other_devices.items():
        if device.exchange is not None and device.exchange.kind == where:
            return name
    if where[0] in _TYPES:
        name = f"{_TYPES[where[0]]}:{number}" if number else _TYPES[where[0]]
        return str(devices.find("from_dlpack", name))
    raise DeviceError(
        f"from_dlpack: the data lies on DLPack device {where}, which is not known here. Move it to "
        f"the cpu first."
    )


def array_from_dlpack(source: Any, exchange: devices.MemoryExchange | None) -> np.ndarray:
    """An array over the memory of another library's; read-only if that says so.

    That of another device than the cpu can be reached by the device alone: the array has its
    address, and keeps it.
    """
    stream = {} if exchange is None else {"stream": exchange.stream}
    try:
        capsule = source.__dlpack__(max_version=(1, 0), **stream)
    except TypeError:  # a library that knows no versions yet
        capsule = source.__dlpack__(**stream)
    content = _content(capsule)
    where, content.device_type = content.device_type, ON_CPU[0]
    try:
        return _array_of(capsule, content.dtype)
    finally:
        content.device_type = where


def _array_of(capsule: Any, dtype: _DataType) -> np.ndarray:
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
