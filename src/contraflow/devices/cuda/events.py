"""Events: points in the work of a GPU; and GPUs as the functions of `cf.cuda` are given them."""

from __future__ import annotations

from typing import Any

from contraflow import devices
from contraflow.devices.names import Device

GpuLike = Device | str | int | None


def opened(function: str, device: GpuLike) -> Any:
    """A GPU, opened now if it was not."""
    if isinstance(device, int):
        device = Device("cuda", device)
    found = devices.find(function, "cuda" if device is None else device)
    if found.type != "cuda":
        raise ValueError(f"{function}: {str(found)!r} is not a CUDA device.")
    return devices.lookup(str(found))


class CudaEvent:
    """A point in the work of a GPU, to wait for or to measure times between.

    >>> start, end = Event(enable_timing=True), Event(enable_timing=True)  # doctest: +SKIP
    >>> start.record()
    ... y = x @ x
    ... end.record()
    ... end.synchronize()  # doctest: +SKIP
    >>> start.elapsed_time(end)  # doctest: +SKIP
    0.21
    """

    def __init__(self, enable_timing: bool = False, device: GpuLike = None) -> None:
        self._device = opened("Event", device)
        self._timing = enable_timing
        self._handle = self._device.new_event(self, enable_timing)
        self._recorded = False

    def record(self) -> None:
        """Place it behind everything that was asked for so far."""
        self._device.record(self._handle)
        self._recorded = True

    def query(self) -> bool:
        """Whether the work before it is done."""
        return bool(self._device.is_reached(self._handle))

    def synchronize(self) -> None:
        """Wait for it."""
        self._device.driver("cuEventSynchronize", self._handle)

    def elapsed_time(self, end: CudaEvent) -> float:
        """Milliseconds between this event and a later one."""
        if not (self._timing and end._timing):
            raise ValueError("elapsed_time: make both events with enable_timing=True.")
        if not (self._recorded and end._recorded):
            raise ValueError("elapsed_time: record both events first.")
        end.synchronize()
        return float(self._device.driver("cuEventElapsedTime", self._handle, end._handle))


class CudaStream:
    """The queue of a GPU, under PyTorch's name: each GPU has one, so that nothing overtakes.

    `with stream(Stream()): ...` is a block like any other, and waiting for it is waiting for all.

    >>> stream = Stream()  # doctest: +SKIP
    >>> stream.synchronize()  # doctest: +SKIP
    """

    def __init__(self, device: GpuLike = None, priority: int = 0) -> None:
        self._device = opened("Stream", device)
        self.device = Device("cuda", self._device.driver.index)

    def synchronize(self) -> None:
        """Wait until everything that was asked for is done."""
        self._device.synchronize()

    def query(self) -> bool:
        """Whether everything is done; it is, for it is waited for."""
        self.synchronize()
        return True

    def wait_stream(self, stream: CudaStream) -> None:
        """Nothing: work is done in the order in which it is asked for."""

    def wait_event(self, event: CudaEvent) -> None:
        """Nothing: work is done in the order in which it is asked for."""

    def record_event(self, event: CudaEvent | None = None) -> CudaEvent:
        """An event behind everything that was asked for so far."""
        made = event or CudaEvent(device=self.device)
        made.record()
        return made

    def __enter__(self) -> CudaStream:
        return self

    def __exit__(self, *error: object) -> None:
        pass
