"""NVIDIA GPUs: which there are, waiting for them, their memory, and events for timing."""

from __future__ import annotations

from typing import Any, NamedTuple

from contraflow import threads
from contraflow.devices.cuda.events import CudaEvent as Event
from contraflow.devices.cuda.events import GpuLike, opened
from contraflow.errors import DeviceError
from contraflow.tensors.generator import manual_seed

__all__ = [
    "DeviceProperties",
    "Event",
    "device_count",
    "empty_cache",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "is_available",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "memory_allocated",
    "memory_reserved",
    "memory_summary",
    "reset_peak_memory_stats",
    "synchronize",
]


class DeviceProperties(NamedTuple):
    """The properties of a GPU."""

    name: str
    major: int  # of its compute capability
    minor: int
    total_memory: int  # in bytes
    multi_processor_count: int


def _driver_module() -> Any:
    return threads.imported("contraflow.devices.cuda.driver")


def device_count() -> int:
    """The number of GPUs; 0 where there is no driver, or the package is not installed."""
    try:
        found: int = _driver_module().count_devices()
    except DeviceError:
        return 0
    return found


def is_available() -> bool:
    """Whether `device="cuda"` works."""
    return device_count() > 0


def synchronize(device: GpuLike = None) -> None:
    """Wait until everything that a GPU was asked for is done. Late errors are raised here."""
    opened("synchronize", device).synchronize()


def get_device_properties(device: GpuLike = None) -> DeviceProperties:
    """The name, compute capability, memory and number of multiprocessors of a GPU."""
    found: DeviceProperties = DeviceProperties(*opened("get_device_properties", device).properties)
    return found


def get_device_name(device: GpuLike = None) -> str:
    """The name of a GPU."""
    return get_device_properties(device).name


def get_device_capability(device: GpuLike = None) -> tuple[int, int]:
    """The compute capability of a GPU."""
    return get_device_properties(device)[1:3]


def manual_seed_all(seed: int) -> None:
    """Seed the random numbers of all GPUs, which are those of the cpu: `cf.manual_seed`."""
    manual_seed(seed)


# --- memory ------------------------------------------------------------------------------------


def memory_allocated(device: GpuLike = None) -> int:
    """Bytes of the memory that tensors lie in, those of programs included."""
    found = opened("memory_allocated", device)
    with found.lock:
        found.memory.collect()
        return int(found.memory.allocated)


def max_memory_allocated(device: GpuLike = None) -> int:
    """The most that `memory_allocated` was since the start, or `reset_peak_memory_stats`."""
    return int(opened("max_memory_allocated", device).memory.peak)


def reset_peak_memory_stats(device: GpuLike = None) -> None:
    """Begin anew with `max_memory_allocated`."""
    memory = opened("reset_peak_memory_stats", device).memory
    memory.peak = memory.allocated


def memory_reserved(device: GpuLike = None) -> int:
    """Bytes that this process holds, those that are kept for other tensors included."""
    return int(opened("memory_reserved", device).memory.reserved())


def memory_summary(device: GpuLike = None) -> str:
    """The memory of a GPU, as text."""
    found = opened("memory_summary", device)
    return str(found.memory_summary())


def empty_cache(device: GpuLike = None) -> None:
    """Give the driver all memory that no tensor lies in."""
    found = opened("empty_cache", device)
    with found.lock:
        found.memory.release()
