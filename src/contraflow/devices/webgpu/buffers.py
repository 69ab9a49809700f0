"""Buffers of a WebGPU device: memory that is used again once no tensor lies in it."""

from __future__ import annotations

import itertools
import weakref
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from contraflow.dtypes import DType
from contraflow.errors import DeviceError
from contraflow.render.clike.wgsl import element_bytes
from contraflow.shapes import Shape, numel

if TYPE_CHECKING:
    from contraflow.devices.webgpu.device import WebgpuDevice

SPAN = 1 << 40  # addresses of one piece of memory: none is as large
WORD = 4  # bytes; copies and bindings have whole ones
_STEP = 256  # sizes of small pieces are multiples of this

_numbers = itertools.count(1)  # of pieces of memory: an address is never used twice


class GpuMemory:
    """A buffer of wgpu. No kernel may read and write different parts of one, so none is shared."""

    __slots__ = ("number", "nbytes", "buffer", "batch", "__weakref__")

    def __init__(self, nbytes: int, buffer: Any) -> None:
        self.number, self.nbytes, self.buffer = next(_numbers), nbytes, buffer
        self.batch = -1  # the batch during which it was last given back


class WebgpuBuffer:
    """The memory of a storage."""

    __slots__ = ("shape", "dtype", "size", "nbytes", "memory", "device", "__weakref__")

    def __init__(self, shape: Shape, dtype: DType, memory: GpuMemory, device: WebgpuDevice) -> None:
        self.shape, self.dtype, self.memory, self.device = tuple(shape), dtype, memory, device
        self.size = numel(shape)
        self.nbytes = self.size * dtype.itemsize  # as the host counts them


class _Lease(weakref.ref[WebgpuBuffer]):
    """Tells the pool that a buffer is gone."""

    __slots__ = ("memory",)
    memory: GpuMemory


def stored_bytes(count: int, dtype: DType) -> int:
    """The bytes that so many elements take in memory, in whole words."""
    return -(-count * element_bytes(dtype) // WORD) * WORD


def rounded(nbytes: int) -> int:
    """The size of the piece of memory for so many bytes: an eighth more at most, if it is large."""
    step = max(_STEP, 1 << max(nbytes.bit_length() - 4, 0))
    return -(-max(nbytes, 1) // step) * step


class MemoryPool:
    """The pieces of memory of a device, by size."""

    def __init__(
        self,
        create: Callable[[int], Any],
        largest: int,
        binding: int,
        before: MemoryPool | None = None,
    ) -> None:
        """For a device, which was lost if there was a pool `before`. `largest` is how large a piece
        may be, and `binding` what a kernel may have of one."""
        self._create, self._largest, self._binding = create, largest, binding
        self._leases: dict[int, _Lease] = {}
        self._returned: list[_Lease] = []  # of buffers that are gone
        self._lost: dict[int, _Lease] = {}  # buffers whose memory is gone
        if before is not None:
            self._returned = before._returned
            self._lost = {**before._lost, **before._leases}
        self._idle: defaultdict[int, list[GpuMemory]] = defaultdict(list)
        self._known: dict[int, GpuMemory] = {}  # by number
        self.reserved = 0  # bytes of all pieces
        self.idle_bytes = 0  # bytes of those that no buffer has

    def lease(self, buffer: WebgpuBuffer) -> None:
        """A buffer has a piece of memory; when it is gone, another one may have it."""
        lease = _Lease(buffer, self._returned.append)
        lease.memory = buffer.memory
        self._leases[buffer.memory.number] = lease

    def take(self, nbytes: int, batch: int) -> GpuMemory:
        """A piece of memory of this size, at least."""
        if self._returned:
            self.collect(batch)
        size = rounded(nbytes)
        if nbytes <= self._binding < size:
            size = self._binding  # so that a kernel may have all of it
        idle = self._idle.get(size)
        if idle:
            self.idle_bytes -= size
            return idle.pop()
        self.check_size(nbytes)
        return self._made(min(size, self._largest))

    def check_size(self, nbytes: int) -> None:
        """Refuse a buffer that the adapter does not allow."""
        if nbytes > self._largest:
            raise DeviceError(
                f"webgpu: a buffer of {nbytes:,} bytes is larger than this adapter allows, "
                f"{self._largest:,}. Use smaller batches or parts, or the cpu: device='cpu'."
            )

    def _made(self, size: int) -> GpuMemory:
        memory = GpuMemory(size, self._create(size))
        self._known[memory.number] = memory
        self.reserved += size
        return memory

    def collect(self, batch: int) -> None:
        """Take back the memory of buffers that are gone."""
        while self._returned:
            memory = self._returned.pop().memory
            self._lost.pop(memory.number, None)
            if self._leases.pop(memory.number, None) is not None:
                memory.batch = batch
                self._idle[memory.nbytes].append(memory)
                self.idle_bytes += memory.nbytes

    def find(self, number: int) -> GpuMemory:
        """The piece of memory with a number."""
        found = self._known.get(number)
        if found is None:
            raise DeviceError(
                "webgpu: a tensor lies on a device that was lost or reset, and its elements are "
                "gone. Make it again, from a checkpoint or from data of the cpu."
            )
        return found

    def find_to_write(self, number: int) -> GpuMemory:
        """The same for memory that is about to be overwritten: what was lost with a device is made
        again, for the outputs of programs stay where they are."""
        lease = self._lost.get(number)
        if lease is not None:
            memory = lease.memory
            memory.buffer = self._create(memory.nbytes)
            del self._lost[number]
            self._known[number], self._leases[number] = memory, lease
            self.reserved += memory.nbytes
        return self.find(number)

    def release(self, batch: int = -1) -> int:
        """Give memory that no buffer has back to the system; the number of bytes."""
        self.collect(batch)
        freed = 0
        for idle in self._idle.values():
            for memory in idle:
                del self._known[memory.number]
                freed += memory.nbytes
        self._idle.clear()
        self.reserved -= freed
        self.idle_bytes = 0
        return freed
