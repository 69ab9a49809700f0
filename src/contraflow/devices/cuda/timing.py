"""Times of the steps of a program, which a profile asks for: by events of the driver between them.

A GPU that is faster than the host would wait between two launches, and events would measure that.
So a kernel that does nothing for a while goes first: launches and events come while it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from contraflow.devices.cuda.compiler import KernelText
from contraflow.devices.cuda.launches import ArgumentBlock, LaunchedStep, StreamLaunches
from contraflow.render.clike import cuda

if TYPE_CHECKING:
    from contraflow.devices.cuda.device import CudaDevice

MOST_TIMED = 32  # steps that are launched before their times are read
CYCLES = 40_000  # for each of them: about 20 us, in which the host launches it

DELAY = """
extern "C" __global__ void delay(long long cycles) {
    const long long start = clock64();
    while (clock64() - start < cycles) {}
}
"""


class StepTime(NamedTuple):
    """When a step began and how long it took, in seconds; the last step ended at 0."""

    start: float
    total: float


class StepTimer:
    """The events of one GPU that times are measured by."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._events = [device.driver("cuEventCreate", 0) for _ in range(MOST_TIMED + 1)]
        (function,) = device.kernels.functions([KernelText("delay", DELAY, lambda: DELAY)])
        self._arguments = ArgumentBlock([bytes(8)])
        one = cuda.Launch((1, 1, 1), (1, 1, 1))
        self._delay = self._arguments.launch(device, 0, function, one)

    def run(self, launches: StreamLaunches, steps: Sequence[LaunchedStep]) -> list[StepTime]:
        """Launch at most `MOST_TIMED` steps of a program, and wait for them; their times."""
        driver, stream = self._device.driver, self._device.stream
        if len(steps) > 1:
            self._arguments.words[0] = CYCLES * len(steps)
            status = self._delay()
            if status:
                driver.fail("delay", status)
        events = self._events[: len(steps) + 1]
        driver("cuEventRecord", events[0], stream)
        for step, event in zip(steps, events[1:]):
            for call in step.calls:
                status = call()
                if status:
                    launches.fail(call, status)
            driver("cuEventRecord", event, stream)
        driver("cuEventSynchronize", events[-1])
        until = [float(driver("cuEventElapsedTime", x, events[-1])) / 1e3 for x in events]
        return [StepTime(-a, a - b) for a, b in pairwise(until)]
