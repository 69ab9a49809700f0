"""Calls of the CUDA driver, each made in the context of one GPU.

`cuda.bindings` gives every call of the driver as a function whose first result is a status. A
`Driver` belongs to one GPU: its context is made current in each thread that calls, and a status
that is not a success becomes a `DeviceError`.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import os
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

from contraflow import devices
from contraflow.errors import DeviceError, OutOfMemoryError

INSTALL = "pip install 'contraflow[cuda]'"
OLDEST_DRIVER = "580"  # the first for CUDA 13

_OUT_OF_MEMORY = 2
_NO_DEVICE = 100
_OLD_DRIVER = (35, 803)
# After these no call of the driver works any more in a process: an error of hardware or memory, a
# wrong address or instruction in a kernel, one that ran too long or failed, a GPU that is gone.
_LOST = frozenset((46, 214, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 999))

_current = threading.local()  # the driver whose context is current in a thread


def _forget() -> None:
    """A forked child has none: its copies of contexts do not work."""
    global _current
    _current = threading.local()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def bindings(name: str = "driver") -> Any:
    """A module of `cuda.bindings`, or the error that says how to get it."""
    try:
        found = importlib.import_module(f"cuda.bindings.{name}")
    except ImportError as error:
        raise DeviceError(
            f"the Python package cuda-bindings is not installed. Install it: {INSTALL}"
        ) from error
    folder = os.path.dirname(os.path.dirname(str(found.__file__))) + os.sep
    if folder not in devices.driven_by:
        devices.driven_by.append(folder)
    return found


def count_devices() -> int:
    """The number of GPUs, or a DeviceError that says why there is none."""
    library = bindings()
    try:
        status = int(library.cuInit(0)[0])
    except RuntimeError as error:  # there is no library of the driver
        raise DeviceError(
            f"there is no NVIDIA driver on this machine ({error}). CUDA needs one of version "
            f"{OLDEST_DRIVER} or newer."
        ) from error
    if status in _OLD_DRIVER:
        raise DeviceError(f"the NVIDIA driver is too old; {OLDEST_DRIVER} or newer is needed.")
    if status == _NO_DEVICE:
        raise DeviceError("the driver finds no NVIDIA GPU on this machine.")
    if status:
        raise DeviceError(f"cuInit failed: {_described(library, status)}.")
    return int(library.cuDeviceGetCount()[1])


@functools.cache
def _library() -> Any:
    """The library of the driver."""
    return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")


@functools.cache
def nvidia_library(name: str) -> ctypes.CDLL | None:
    """A library of NVIDIA's such as "cublasLt", or None where it is not installed."""
    try:
        found = importlib.import_module("cuda.pathfinder").load_nvidia_dynamic_lib(name)
    except (ImportError, RuntimeError):
        return None
    return ctypes.CDLL(found.abs_path)


def _described(library: Any, status: int) -> str:
    """A status in words."""
    found = library.cuGetErrorString(library.CUresult(status))
    text = found[1].decode() if not int(found[0]) else "unknown error"
    return f"{text} ({status})"


class Driver:
    """The driver's calls, for one GPU."""

    def __init__(self, index: int, library: Any) -> None:
        self.index, self.library = index, library
        self._process = os.getpid()
        self.handle = self.must("cuDeviceGet", library.cuDeviceGet(index))
        self._context = self.must(
            "cuDevicePrimaryCtxRetain", library.cuDevicePrimaryCtxRetain(self.handle)
        )
        self.enter()

    def enter(self) -> None:
        """Make the context of the GPU that of this thread."""
        if getattr(_current, "driver", None) is self:
            return
        if os.getpid() != self._process:
            raise DeviceError(
                "cuda: this process was forked from one that uses the GPU, which CUDA does not "
                "allow. Start processes with multiprocessing.get_context('spawn')."
            )
        self.must("cuCtxSetCurrent", self.library.cuCtxSetCurrent(self._context))
        _current.driver = self

    def __call__(self, name: str, *args: Any) -> Any:
        """The results of a call of the driver, without its status."""
        self.enter()
        return self.must(name, getattr(self.library, name)(*args))

    def must(self, name: str, result: tuple[Any, ...]) -> Any:
        """The results of a call, without its status; an error if that is not a success."""
        status = int(result[0])
        if status == 0:
            return result[1] if len(result) == 2 else result[1:]
        self.fail(name, status)

    def fail(self, name: str, status: int) -> NoReturn:
        """Raise the error of a call that has failed."""
        text = f"cuda:{self.index}: {name} failed: {_described(self.library, status)}"
        if status in _LOST:
            text += (
                "; the GPU is lost to this process, which has to be started again, and tensors on "
                "the cpu are as they were"
            )
        raise (OutOfMemoryError if status == _OUT_OF_MEMORY else DeviceError)(f"{text}.")

    def quick(self, name: str) -> Callable[..., int]:
        """A call of the driver that gives its status alone, without what `cuda.bindings` adds: for
        what happens at every step. Arguments are those of C, as objects of `ctypes`."""
        if not self.is_real:
            plain = name.removesuffix("_v2")  # a symbol of C, where a call has two forms
            return lambda *args: int(getattr(self.library, plain)(*args)[0])
        found: Callable[..., int] = getattr(_library(), name)
        return found

    @property
    def is_real(self) -> bool:
        """Whether there is a GPU behind it, and not a test."""
        return isinstance(self.library, ModuleType)

    def attribute(self, name: str) -> int:
        """A property of the GPU, by the driver's name for it."""
        which = getattr(self.library.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self("cuDeviceGetAttribute", which, self.handle))

    @property
    def architecture(self) -> str:
        """The name of the GPU's architecture, as compilers know it."""
        major, minor = (self.attribute(f"COMPUTE_CAPABILITY_{x}") for x in ("MAJOR", "MINOR"))
        return f"sm_{major}{minor}"
