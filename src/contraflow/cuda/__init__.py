"""NVIDIA GPUs: which there are, waiting for them, their memory, and events for timing."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

from contraflow import threads
from contraflow.devices.cuda.events import CudaEvent as Event
from contraflow.devices.cuda.events import CudaStream as Stream
from contraflow.devices.cuda.events import GpuLike, opened
from contraflow.dtypes import TENSOR_NAMES
from contraflow.errors import DeviceError, OutOfMemoryError
from contraflow.names import getter, listing, without_objects
from contraflow.tensors.generator import default_generator
from contraflow.tensors.generator import manual_seed as _manual_seed

__all__ = [
    "CUDAGraph",
    "DeviceProperties",
    "Event",
    "OutOfMemoryError",
    "Stream",
    "StreamContext",
    "amp",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "empty_cache",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state_all",
    "graph",
    "init",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "reset_peak_memory_stats",
    "set_device",
    "set_rng_state_all",
    "stream",
    "synchronize",
]


# Programs annotate with these. `contraflow.compile` replays a step at once, as CUDA's graphs do.
CUDAGraph = without_objects("CUDAGraph", "a recorded graph of CUDA's")
graph = without_objects("graph", "a with-block that records a graph of CUDA's")
StreamContext = without_objects("StreamContext", "a with-block of a stream")


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


def current_device() -> int:
    """The number of the GPU that `device="cuda"` means."""
    return int(opened("current_device", None).driver.index)


def set_device(device: GpuLike) -> None:
    """Say which GPU `device="cuda"` means: the first, which it means anyway; others are refused."""
    index = opened("set_device", device).driver.index
    if index != current_device():
        raise NotImplementedError(
            f"set_device: 'cuda' means GPU {current_device()}; write 'cuda:{index}' for this one."
        )


@contextmanager
def device(device: GpuLike) -> Iterator[None]:
    """A block in which `device="cuda"` means a GPU: the first, as anyway; others are refused."""
    set_device(device)
    yield


def current_stream(device: GpuLike = None) -> Stream:
    """The queue of a GPU."""
    return Stream(device)


def default_stream(device: GpuLike = None) -> Stream:
    """The queue of a GPU."""
    return Stream(device)


def stream(stream: Stream | None) -> Any:
    """A block whose work goes to a queue: a GPU has one."""
    return nullcontext(stream)


def init() -> None:
    """Open the GPU now, rather than when it is first used."""
    opened("init", None)


def is_initialized() -> bool:
    """Whether a GPU can be used without more ado: wherever there is one."""
    return is_available()


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether there is a GPU; each that contraflow runs on computes with bfloat16."""
    return is_available()


def manual_seed(seed: int) -> None:
    """Seed the generator, which serves all devices; nothing where there is no GPU."""
    if is_available():
        _manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seed the generator, which serves all devices; nothing where there is no GPU."""
    manual_seed(seed)


def get_rng_state_all() -> list[Any]:
    """The state of the generator, which serves all devices, once for each GPU."""
    return [default_generator.get_state() for _ in range(device_count())]


def set_rng_state_all(new_states: Iterable[Any]) -> None:
    """Set what `get_rng_state_all` gave; nothing where there is no GPU."""
    for state in new_states:
        default_generator.set_state(state)


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


# --- memory ------------------------------------------------------------------------------------


# Where there is no GPU nothing is held, as in PyTorch, so that programs need not ask for one.


def memory_allocated(device: GpuLike = None) -> int:
    """Bytes of the memory that tensors lie in, those of programs included; 0 without a GPU."""
    if not is_available():
        return 0
    found = opened("memory_allocated", device)
    with found.lock:
        found.memory.collect()
        return int(found.memory.allocated)


def max_memory_allocated(device: GpuLike = None) -> int:
    """The most that `memory_allocated` was since the start, or `reset_peak_memory_stats`."""
    if not is_available():
        return 0
    return int(opened("max_memory_allocated", device).memory.peak)


def reset_peak_memory_stats(device: GpuLike = None) -> None:
    """Begin anew with `max_memory_allocated`."""
    if not is_available():
        return
    memory = opened("reset_peak_memory_stats", device).memory
    memory.peak = memory.allocated


def memory_reserved(device: GpuLike = None) -> int:
    """Bytes that this process holds, those that are kept for other tensors included."""
    if not is_available():
        return 0
    return int(opened("memory_reserved", device).memory.reserved())


def memory_stats(device: GpuLike = None) -> OrderedDict[str, int]:
    """The results of the memory functions under PyTorch's keys; empty without a GPU.

    >>> import contraflow as cf
    >>> bool(cf.cuda.memory_stats()) == cf.cuda.is_available()
    True
    """
    if not is_available():
        return OrderedDict()
    return OrderedDict(
        {
            "allocated_bytes.all.current": memory_allocated(device),
            "allocated_bytes.all.peak": max_memory_allocated(device),
            "reserved_bytes.all.current": memory_reserved(device),
        }
    )


def memory_summary(device: GpuLike = None) -> str:
    """The memory of a GPU, as text."""
    found = opened("memory_summary", device)
    return str(found.memory_summary())


def empty_cache(device: GpuLike = None) -> None:
    """Give the driver all memory that no tensor lies in."""
    if not is_available():
        return
    found = opened("empty_cache", device)
    with found.lock:
        found.memory.release()


__dir__ = listing(__name__)


def __getattr__(name: str) -> Any:
    """Mixed precision, and types of tensors, imported when they are asked for."""
    if name == "amp":
        return threads.imported("contraflow.cuda.amp")
    if name.removesuffix("Tensor") in TENSOR_NAMES and name.endswith("Tensor"):
        return threads.imported("contraflow.tensors.typed").CUDA_TENSOR_TYPES[name]
    return getter(__name__)(name)
