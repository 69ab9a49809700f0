"""The webgpu device: whether there is one, its memory, and what its adapter does with numbers."""

from __future__ import annotations

from typing import Any

from contraflow import devices, threads
from contraflow.errors import DeviceError

__all__ = [
    "adapters",
    "check",
    "empty_cache",
    "get_device_name",
    "is_available",
    "memory_allocated",
    "memory_reserved",
    "reset",
    "synchronize",
]


def _device() -> Any:
    return devices.lookup("webgpu")


def is_available() -> bool:
    """Whether there is an adapter and the package `wgpu`, so that `device="webgpu"` works."""
    try:
        _device()
    except DeviceError:
        return False
    return True


def adapters() -> list[str]:
    """The adapters of this machine, in the order in which they are chosen; [] without `wgpu`.

    `CONTRAFLOW_WEBGPU_ADAPTER`, a part of a name, chooses another one than the first.
    """
    module = threads.imported("contraflow.devices.webgpu.adapters")
    try:
        return [module.describe(adapter) for adapter in module.adapters()]
    except DeviceError:
        return []


def get_device_name() -> str:
    """The name of the adapter that is used."""
    return str(_device().description)


def synchronize() -> None:
    """Wait until everything on the device is done."""
    _device().synchronize()


def memory_allocated() -> int:
    """Bytes of the buffers that tensors lie in."""
    device = _device()
    with device.undisturbed:
        device.pool.collect(device.batch)
        return int(device.pool.reserved - device.pool.idle_bytes)


def memory_reserved() -> int:
    """Bytes of the buffers of tensors, of those that are kept to be used again, and of the
    temporaries of programs."""
    return int(_device().reserved())


def empty_cache() -> None:
    """Give buffers that no tensor lies in back to the system."""
    _device().release_unused()


def reset() -> None:
    """Open the device anew, after it was lost for instance. Tensors that lay on it are gone: using
    one is a DeviceError. Compiled functions go on with new ones."""
    _device().reset()


def check() -> str:
    """Ask the adapter about what the language of its kernels leaves open; the answers as text.

    No op of contraflow depends on the answers, but for numbers below 1e-37, which may become 0, and
    for the last digit of sums of products; a common factor of two products may be taken out, as if
    all numbers were finite. Kernels find NaN by its bits, make infinities at run time, hide terms
    that cancel from the compiler, and have mathematics of their own.
    """
    device = _device()
    probe = threads.imported("contraflow.devices.webgpu.probe")
    rows = [f"adapter: {device.description}"]
    rows += [f"{name}: {'yes' if yes else 'no'}" for name, yes in probe.answers(device).items()]
    rows.append(f"float16: {'no' if 'float16' in device.limits.lacks else 'yes'}")
    rows.append(f"largest buffer: {device.largest:,} bytes")
    rows.append(f"largest part of a buffer that a kernel may have: {device.binding:,} bytes")
    return "\n".join(rows)
