"""The adapters of this machine, and which of them is used."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from contraflow import config, devices
from contraflow.errors import DeviceError, OutOfMemoryError
from contraflow.render.clike import source, wgsl

try:
    import cffi  # type: ignore[import-untyped]
    import wgpu
    from wgpu.backends.wgpu_native import extras
except (ImportError, OSError, RuntimeError) as error:  # not installed, or without its library
    _missing: Exception | None = error
else:
    _missing = None
    folders = (os.path.dirname(str(package.__file__)) for package in (wgpu, cffi))
    devices.driven_by.extend(folder + os.sep for folder in folders)

T = TypeVar("T")

# Every WebGPU device has these. An adapter may offer more, but texts and plans do not ask for it:
# a program that runs on one adapter runs on all.
PORTABLE = {
    "max-storage-buffers-per-shader-stage": wgsl.STORAGE_BUFFERS,
    "max-compute-workgroup-storage-size": wgsl.SHARED_BYTES,
    "max-compute-invocations-per-workgroup": source.THREADS,
    "max-compute-workgroups-per-dimension": wgsl.GROUPS_PER_AXIS,
}

FLOAT16 = "shader-f16"  # a feature that adapters may have

_BACKENDS = {"darwin": ["Metal"], "win32": ["DX12", "Vulkan"]}  # others: Vulkan
_ORDER = ("DiscreteGPU", "IntegratedGPU", "VirtualGPU", "Unknown", "CPU")

_found: list[Any] | None = None


def adapters() -> list[Any]:
    """The adapters of this machine, the one that is used first."""
    global _found
    if _missing is not None:
        raise DeviceError(
            f"webgpu: the package wgpu cannot be imported ({_missing}). "
            "Install it: pip install 'contraflow[webgpu]'."
        )
    if _found is None:
        _set_backends()
        _found = sorted(wgpu.gpu.enumerate_adapters_sync(), key=_rank)
    return _found


@cache
def _set_backends() -> None:
    """Once: wgpu looks for no others from then on."""
    extras.set_instance_extras(backends=_BACKENDS.get(sys.platform, ["Vulkan"]))


def forget() -> None:
    """Look for adapters anew when they are needed next."""
    global _found
    _found = None


def _rank(adapter: Any) -> int:
    kind = adapter.info["adapter_type"]
    return _ORDER.index(kind) if kind in _ORDER else len(_ORDER)


def describe(adapter: Any) -> str:
    """The name of an adapter, its sort and the interface that it is reached by."""
    info = adapter.info
    return f"{info['device']} ({info['adapter_type']}, {info['backend_type']})"


def choose() -> Any:
    """The adapter that is used: the one whose name the configuration has a part of, or the first.

    Discrete GPUs come before integrated ones, and those before software.
    """
    found = adapters()
    if not found:
        raise DeviceError(
            "webgpu: there is no adapter on this machine: no GPU whose driver has "
            f"{' or '.join(_BACKENDS.get(sys.platform, ['Vulkan']))}. docs/webgpu.md says what to "
            "install, for a machine without a GPU too."
        )
    wanted = config.webgpu_adapter
    for adapter in found:
        if wanted.lower() in describe(adapter).lower():
            return adapter
    raise DeviceError(
        f"webgpu: no adapter has {wanted!r} (CONTRAFLOW_WEBGPU_ADAPTER) in its name; there is "
        f"{', '.join(map(describe, found))}."
    )


def request(adapter: Any) -> Any:
    """A device of an adapter, of wgpu's, within limits that all have; only sizes may be larger. It
    has float16 if the adapter has it."""
    offered = adapter.limits
    sizes = ("max-buffer-size", "max-storage-buffer-binding-size")
    required = {**PORTABLE, **{name: offered[name] for name in sizes}}
    features = {FLOAT16} & set(adapter.features)
    return told(
        adapter.request_device_sync, required_limits=required, required_features=sorted(features)
    )


def told(function: Callable[..., T], *args: Any, **options: Any) -> T:
    """The result of a function of wgpu; its errors as ours."""
    try:
        return function(*args, **options)
    except wgpu.GPUOutOfMemoryError as error:
        raise OutOfMemoryError(str(error)) from error
    except (wgpu.GPUError, RuntimeError) as error:
        text = str(error)
        if "lost" in text:
            raise DeviceLost(text.splitlines()[-1].strip()) from error
        raise DeviceError(
            f"webgpu: {text} This is a fault of contraflow or of the driver: please report it, "
            "with what contraflow.show_config() says."
        ) from error


class DeviceLost(DeviceError):
    """The device is gone, with everything on it."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"webgpu: the device was lost ({reason}), with all tensors on it. "
            "contraflow.webgpu.reset() opens it again; tensors of the cpu are as they were."
        )
        self.reason = reason
