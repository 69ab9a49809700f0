"""The memory of a GPU: a pool in the order of the device's one stream, which keeps what is freed.

All work of a device is done in the order of one stream. So memory that a buffer no longer needs can
be given out at once, though kernels that use it may still wait: what uses it next comes behind
them. Small pieces are kept here by their sizes, which spares calls of the driver; large ones go
back to the driver's pool, which cuts and joins them.
"""

from __future__ import annotations

import ctypes
import weakref
from collections import deque
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from contraflow import thresholds
from contraflow.devices.cuda.driver import Driver
from contraflow.dtypes import DType
from contraflow.errors import OutOfMemoryError
from contraflow.operation import context
from contraflow.shapes import Shape

GRAIN = 512  # bytes: the sizes and addresses of pieces are multiples of it
SMALL = 1 << 20  # pieces up to this size are kept by their sizes
MOST_KEPT = 256 << 20  # bytes of these altogether


class CudaBuffer:
    """Memory of a GPU, for elements of one dtype."""

    __slots__ = ("shape", "dtype", "size", "nbytes", "pointer", "device", "__weakref__")

    def __init__(self, shape: Shape, dtype: DType, device: Any, pointer: int) -> None:
        self.shape, self.dtype, self.device = tuple(shape), dtype, device
        self.size = prod(shape)
        self.nbytes = self.size * dtype.itemsize
        self.pointer = pointer


class BufferLoan(weakref.ref[CudaBuffer]):
    """The memory of a buffer, as long as that lives."""

    __slots__ = ("pointer", "nbytes", "owner", "line")

    pointer: int
    nbytes: int
    owner: object  # of memory that is another library's
    line: object  # the user's, of large pieces


class Memory:
    """The memory of one GPU."""

    def __init__(self, driver: Driver, stream: Any, device: Any) -> None:
        self._driver, self._stream, self._device = driver, stream, device
        library = driver.library
        properties = library.CUmemPoolProps()
        properties.allocType = library.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        place = library.CUmemLocation()
        place.type = library.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        place.id = driver.index
        properties.location = place
        self._pool = driver("cuMemPoolCreate", properties)
        threshold = library.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        driver("cuMemPoolSetAttribute", self._pool, threshold, library.cuuint64_t((1 << 64) - 1))
        self._gone: deque[BufferLoan] = deque()  # loans whose buffers are gone
        self.loans: dict[int, BufferLoan] = {}  # by pointer
        self._adopted: set[BufferLoan] = set()
        self._kept: dict[int, list[int]] = {}  # small pieces by size
        self._kept_bytes = 0
        self.allocated = self.peak = 0  # bytes of buffers
        self.make_room: Callable[[], None] = lambda: None  # gives back what can be made again

    def allocate(self, shape: Shape, dtype: DType) -> CudaBuffer:
        """A buffer of uninitialised memory. Every result of an op is made here."""
        with self._device.lock:
            if self._gone:
                self.collect()
            size = -(-prod(shape) * dtype.itemsize // GRAIN) * GRAIN or GRAIN
            kept = self._kept.get(size)
            if kept:
                self._kept_bytes -= size
                pointer = kept.pop()
            else:
                pointer = self.take(size)
            buffer = CudaBuffer(shape, dtype, self._device, pointer)
            loan = BufferLoan(buffer, self._gone.append)
            loan.pointer, loan.nbytes, loan.owner = pointer, size, None
            loan.line = context.user_line() if size > SMALL else None
            self.loans[pointer] = loan
            self.allocated += size
            if self.allocated > self.peak:
                self.peak = self.allocated
        return buffer

    def adopt(self, buffer: CudaBuffer, owner: object) -> None:
        """Note that a buffer lies in memory of another library."""
        loan = BufferLoan(buffer, self._gone.append)
        loan.pointer, loan.nbytes, loan.owner, loan.line = buffer.pointer, 0, owner, None
        self._adopted.add(loan)

    @property
    def has_guests(self) -> bool:
        """Whether a buffer lies in memory of another library."""
        return bool(self._adopted)

    def collect(self) -> None:
        """Take back the memory of buffers that are gone."""
        while self._gone:
            loan = self._gone.popleft()
            pointer, size = loan.pointer, loan.nbytes
            if loan.owner is not None:  # another library may use the memory again at once
                self._driver("cuStreamSynchronize", self._stream)
                self._adopted.discard(loan)
                continue
            if self.loans.get(pointer) is loan:
                del self.loans[pointer]
            self.allocated -= size
            kept = self._kept.get(size)
            if kept is not None and self._kept_bytes + size <= MOST_KEPT:  # as `give` does
                kept.append(pointer)
                self._kept_bytes += size
            else:
                self.give(pointer, size)

    def take(self, size: int) -> int:
        """Memory that is the caller's until `give` is called with it."""
        kept = self._kept.get(size)
        if kept:
            self._kept_bytes -= size
            return kept.pop()
        try:
            return self._from_pool(size)
        except OutOfMemoryError:
            self.release()
        try:
            return self._from_pool(size)
        except OutOfMemoryError as error:
            self.release()  # the driver keeps what it reserved for a request that failed
            raise OutOfMemoryError(self._shortage(size)) from error

    def _from_pool(self, size: int) -> int:
        return int(self._driver("cuMemAllocFromPoolAsync", size, self._pool, self._stream))

    def give(self, pointer: int, size: int) -> None:
        """Take memory back, in the order of the stream."""
        if size <= SMALL and self._kept_bytes + size <= MOST_KEPT:
            self._kept.setdefault(size, []).append(pointer)
            self._kept_bytes += size
        else:
            self._driver("cuMemFreeAsync", pointer, self._stream)

    def release(self) -> None:
        """Give the driver all memory that no buffer uses."""
        self.make_room()
        self.collect()
        kept, self._kept, self._kept_bytes = self._kept, {}, 0
        for pointers in kept.values():
            for pointer in pointers:
                self._driver("cuMemFreeAsync", pointer, self._stream)
        self._driver("cuStreamSynchronize", self._stream)
        self._driver("cuMemPoolTrimTo", self._pool, 0)

    def reserved(self) -> int:
        """Bytes that the pool holds, used or not."""
        library = self._driver.library
        which = library.CUmemPool_attribute.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT
        return int(self._driver("cuMemPoolGetAttribute", self._pool, which))

    def largest(self, count: int) -> str:
        """The largest buffers, with the lines at which they were made."""
        found = sorted(self.loans.values(), key=lambda loan: -loan.nbytes)[:count]
        lines = ["" if loan.line is None else f" of {loan.line}" for loan in found]
        sizes = [in_words(loan.nbytes) for loan in found]
        return ", ".join(map("".join, zip(sizes, lines))) or "none"

    def _shortage(self, size: int) -> str:
        free, total = self._driver("cuMemGetInfo")
        shown = self.largest(3)
        return (
            f"cuda:{self._driver.index}: out of memory: {in_words(size)} were asked for. Tensors "
            f"hold {in_words(self.allocated)} (the largest: {shown}), this process holds "
            f"{in_words(self.reserved())}, and {in_words(free)} of {in_words(total)} are free. "
            f"Use smaller batches, or delete tensors that are not needed."
        )


def in_words(size: int) -> str:
    """A number of bytes for people."""
    for unit, power in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size >= 1 << power:
            return f"{size / (1 << power):.2f} {unit}"
    return f"{size} bytes"


class Transfers:
    """Copies between host and GPU, through memory that the system does not move.

    The ring has parts, each with an event: a part is written again when the copies out of it, a
    round before, are done. So an upload seldom waits, and the caller may change the array at once.
    """

    PARTS, PART = 4, 8 << 20

    def __init__(self, driver: Driver, stream: Any) -> None:
        self._driver, self._stream = driver, stream
        self._ring = 0  # allocated when something is first uploaded
        self._down, self._most_down = 0, thresholds.cuda_staged_download
        self._events: list[Any] = []
        self._part = self._used = 0
        self._copy_down = driver.quick("cuMemcpyDtoHAsync_v2")
        self._wait = driver.quick("cuStreamSynchronize")

    def upload(self, pointer: int, array: np.ndarray) -> None:
        """Copy a C-contiguous array to the GPU."""
        source, left = array.__array_interface__["data"][0], array.nbytes
        if not self._ring:
            self._ring = self._pinned(self.PARTS * self.PART)
            self._events = [self._driver("cuEventCreate", 2) for _ in range(self.PARTS)]
        while left:
            if self._used == self.PART:
                self._next_part()
            size = min(left, self.PART - self._used)
            at = self._ring + self._part * self.PART + self._used
            ctypes.memmove(at, source, size)
            self._driver("cuMemcpyHtoDAsync", pointer, at, size, self._stream)
            self._used = min(self.PART, -(-(self._used + size) // 256) * 256)
            source, pointer, left = source + size, pointer + size, left - size

    def _next_part(self) -> None:
        self._driver("cuEventRecord", self._events[self._part], self._stream)
        self._part, self._used = (self._part + 1) % self.PARTS, 0
        self._driver("cuEventSynchronize", self._events[self._part])

    def download(self, pointer: int, array: np.ndarray) -> None:
        """Copy memory of the GPU to an array, and wait for it."""
        target, size = array.__array_interface__["data"][0], array.nbytes
        if size > self._most_down:
            self._driver("cuMemcpyDtoHAsync", target, pointer, size, self._stream)
            self._driver("cuStreamSynchronize", self._stream)
            return
        if not self._down:
            self._down = self._pinned(self._most_down)
        self._driver.enter()
        stream = ctypes.c_void_p(int(self._stream))
        if size:
            given = ctypes.c_void_p(self._down), ctypes.c_uint64(pointer), ctypes.c_size_t(size)
            self._check("cuMemcpyDtoHAsync", self._copy_down(*given, stream))
        self._check("cuStreamSynchronize", self._wait(stream))
        ctypes.memmove(target, self._down, size)

    def _check(self, name: str, status: int) -> None:
        if status:
            self._driver.fail(name, status)

    def _pinned(self, size: int) -> int:
        return int(self._driver("cuMemHostAlloc", size, 0))
