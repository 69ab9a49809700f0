"""Numbers that a GPU shows the host: a loss is read before the step that computed it is over.

A graph copies each of its outputs of one element to memory of the host as soon as it is there, and
behind it the count of these copies. The host looks at the count until it is that of the last
launch: it asks the driver for nothing, and does not wait for what comes behind the number.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from contraflow.devices.cuda.driver import Driver
from contraflow.devices.cuda.memory import CudaBuffer, Memory

MOST = 512  # numbers of all programs
LOOKS = 20_000  # after which the host waits as it always does; about a millisecond

# A number of 1, 2, 4 or 8 bytes, by its address or by that of its address; and one more copy.
SHOW_NUMBER = """
extern "C" __global__ void show_number(
    unsigned long long from, long long through, long long bytes,
    unsigned long long* count, volatile unsigned long long* shown) {
    if (through) from = *(const unsigned long long*)from;
    shown[1] = bytes == 1   ? *(const unsigned char*)from
               : bytes == 2 ? *(const unsigned short*)from
               : bytes == 4 ? *(const unsigned int*)from
                            : *(const unsigned long long*)from;
    __threadfence_system();
    shown[0] = ++*count;
}
"""


class ShownNumbers:
    """The memory of the host in which one GPU shows numbers."""

    def __init__(self, driver: Driver, memory: Memory) -> None:
        self._driver, self._memory = driver, memory
        self._free: list[int] | None = None  # places; None before the first is taken
        self._place = self._counts = 0
        self._launched = [0] * MOST  # how often the copy of each number was asked for

    def take(self, stream: Any) -> int | None:
        """The place of one more number; None if there are too many."""
        if self._free is None:
            self._counts = self._memory.take(8 * MOST)
            self._driver("cuMemsetD8Async", self._counts, 0, 8 * MOST, stream)
            self._place = int(self._driver("cuMemHostAlloc", 16 * MOST, 2))  # mapped
            self._words = (ctypes.c_uint64 * (2 * MOST)).from_address(self._place)
            self._words[:] = [0] * (2 * MOST)
            self._free = list(range(MOST))
        return self._free.pop() if self._free else None

    def give(self, place: int) -> None:
        """Take a place back. The count goes on, so that a launch of its last user that is still to
        come is not taken for one of its next."""
        assert self._free is not None
        self._free.append(place)

    def arguments(self, place: int, source: int, through: bool, size: int) -> bytes:
        """The arguments of the kernel that shows a number there."""
        words = (source, int(through), size, self._counts + 8 * place, self._place + 16 * place)
        return b"".join(word.to_bytes(8, "little") for word in words)

    def launched(self, place: int) -> None:
        """Note that a graph was launched that shows a number there."""
        self._launched[place] += 1

    def read(self, place: int, buffer: CudaBuffer) -> np.ndarray | None:
        """The number of the last launch, the element of a buffer; None if it does not come soon."""
        words, count = self._words, self._launched[place]
        for _ in range(LOOKS):
            if words[2 * place] == count:
                bits = bytearray(words[2 * place + 1].to_bytes(8, "little"))
                return np.ndarray(buffer.shape, buffer.dtype.numpy, bits)
        return None
