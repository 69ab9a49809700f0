"""WebGPU as a device.

Work is queued: ops of eager mode and programs add their kernels to one list, which is submitted as
one compute pass when something reads from the device, or when many are waiting.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import partial
from os import getpid
from typing import Any

import numpy as np

from contraflow import collector, config, threads, thresholds
from contraflow.compiler.kernel import Kernel, KernelCall
from contraflow.compiler.plan import Plan
from contraflow.devices import narrow_values
from contraflow.devices.webgpu import adapters, raw_calls, windows
from contraflow.devices.webgpu.adapters import DeviceLost
from contraflow.devices.webgpu.buffers import (
    SPAN,
    WORD,
    GpuMemory,
    MemoryPool,
    WebgpuBuffer,
    stored_bytes,
)
from contraflow.devices.webgpu.calls import (
    STAGING,
    STORAGE,
    UNIFORM,
    BufferCopy,
    Calls,
    PublicCalls,
    QueuedRun,
    QueueItem,
)
from contraflow.devices.webgpu.program import SCALAR_BYTES, WebgpuProgram
from contraflow.devices.webgpu.raw_calls import RawCalls
from contraflow.devices.webgpu.runs import FAILURE, WebgpuRuns, whole_words
from contraflow.dtypes import DType, bool_, float16, float32, from_numpy, int32, int64, uint32
from contraflow.errors import DeviceError, OutOfMemoryError
from contraflow.render.clike import wgsl
from contraflow.shapes import Shape, numel

# How elements lie in memory: as words of 32 bits, but for float16.
_STORED: dict[DType, np.dtype[Any]] = {
    bool_: np.dtype(np.uint32),
    int32: np.dtype(np.int32),
    int64: np.dtype(np.int32),
    uint32: np.dtype(np.uint32),
    float16: np.dtype(np.float16),
    float32: np.dtype(np.float32),
}

# A call, whether its kernel keeps from writing after a failure, and whether it adds to its result.
PipelineRequest = tuple[KernelCall, bool, bool]

_STAGED = 64 << 20  # the most bytes that are read at once
_LEAST_STAGED = 4096  # bytes of the buffer that they go through


class WebgpuDevice:
    """An adapter as a Device."""

    name = "webgpu"
    holds_arrays = False
    asynchronous = True  # but for ops of eager mode that may find a wrong index, which wait for it
    exchange = None  # its memory has no addresses that others know

    def __init__(self, make_calls: Callable[[Any], Calls] | None = None) -> None:
        """By raw calls of the library under wgpu where these are known, or as it is told."""
        self._make_calls = make_calls or (RawCalls if raw_calls.is_known() else PublicCalls)
        # An interrupt between calls of wgpu would lose kernels of ops that have returned.
        self.undisturbed = threads.Undisturbed(threads.recursive_lock())
        self._programs = collector.WeakList[WebgpuProgram]()
        self.generation = 0  # counts how often it was opened
        self._open()

    def _open(self) -> None:
        self.adapter = adapters.choose()
        self.description = adapters.describe(self.adapter)
        self.wgpu_device = adapters.request(self.adapter)
        self.calls: Calls = self._make_calls(self.wgpu_device)
        has_float16 = adapters.FLOAT16 in self.wgpu_device.features
        self.limits = (wgsl.LIMITS if has_float16 else wgsl.WITHOUT_FLOAT16)._replace(host=False)
        limits = self.wgpu_device.limits
        self.largest = int(limits["max-buffer-size"]) // WORD * WORD
        # The bytes that a kernel may have of a buffer: their addresses are numbers of 32 bits.
        most = min(int(limits["max-storage-buffer-binding-size"]), (1 << 32) - windows.ALIGNED)
        self.binding = min(most, self.largest) // WORD * WORD
        self.pool = MemoryPool(
            self._create, self.largest, self.binding, getattr(self, "pool", None)
        )
        self.lost: str | None = None  # the reason
        self._process = getpid()
        self.batch = 0  # counts submissions
        self._waiting: list[QueuedRun] = []
        self._count = 0  # kernels among them
        self._work = 0  # their operations
        self._enough = thresholds.webgpu_first_kernels  # of them to be submitted
        self._scalars = bytearray(SCALAR_BYTES)
        self._scalars_begin = self._scalars_end = 0  # of those that were not written yet
        self.scalars = self.calls.buffer(SCALAR_BYTES, UNIFORM)
        self.failure = self.calls.buffer(256, STORAGE)  # of ops of eager mode
        self.outcomes = WebgpuRuns(self.calls)
        self.nothing = GpuMemory(256, self.calls.buffer(256, STORAGE))  # memory without elements
        self._staging: Any = None  # a buffer that reads go through, of so many bytes
        self._staging_bytes = 0
        self._layouts: dict[tuple[tuple[int, str], ...], Any] = {}
        # Pipelines with their layouts, by text.
        self._pipelines: dict[tuple[str, wgsl.WgslVariant], tuple[Any, Any]] = {}
        # Temporaries of programs: those of all programs lie in the same memory, one after another.
        self._scratch: dict[tuple[int, int], weakref.ref[GpuMemory]] = {}

    def reset(self) -> None:
        """Open the device anew; what lay on it is gone."""
        self._check_process()  # the library itself is that of the parent, and would wait for ever
        with self.undisturbed:
            self.generation += 1
            adapters.forget()  # there may be others by now
            self._open()

    # --- memory ---------------------------------------------------------------------------

    def _create(self, nbytes: int) -> Any:
        self.check()
        try:
            return self._guarded(self.calls.buffer, nbytes, STORAGE)
        except OutOfMemoryError:
            self.release_unused()
        try:
            return self._guarded(self.calls.buffer, nbytes, STORAGE)
        except OutOfMemoryError as error:
            raise OutOfMemoryError(
                f"webgpu: {self.description} has no memory left for a buffer of {nbytes:,} bytes; "
                f"tensors have {self.pool.reserved - self.pool.idle_bytes:,}. Use smaller batches, "
                "or let go of tensors that are not needed."
            ) from error

    def allocate(self, shape: Shape, dtype: DType) -> WebgpuBuffer:
        """Uninitialised memory."""
        self._check_dtype(dtype)
        with self.undisturbed:
            self.check()
            memory = self.pool.take(stored_bytes(numel(shape), dtype), self.batch)
            buffer = WebgpuBuffer(shape, dtype, memory, self)
            self.pool.lease(buffer)
            return buffer

    def _check_dtype(self, dtype: DType) -> None:
        """Refuse a dtype that is not stored here."""
        if dtype.name not in self.limits.lacks:
            return
        remedy = "float32" if dtype.is_floating_point else "int32"
        if dtype is float16:
            problem = f"float16 is not a dtype of this adapter, {self.description}"
        else:
            problem = (
                f"{dtype} is not a dtype of webgpu, which has float32, float16 on most adapters, "
                "int32, int64 (values of 32 bits) and bool"
            )
        raise DeviceError(f"to: {problem}. Cast it before: x.to(contraflow.{remedy}).")

    def upload(self, array: np.ndarray, non_blocking: bool = False) -> WebgpuBuffer:
        """Memory with a copy of an array."""
        dtype = from_numpy(array.dtype)
        self._check_dtype(dtype)
        if dtype is int64:
            narrow_values.check_elements(self.name, array)
        words = np.ascontiguousarray(array, _STORED[dtype])
        if words.nbytes % WORD:
            words = np.append(words, words.dtype.type(0))
        with self.undisturbed:
            buffer = self.allocate(array.shape, dtype)
            if words.size:
                if buffer.memory.batch == self.batch and self._waiting:
                    self.flush()  # kernels that wait may still use this memory
                self.check()
                self.calls.write(buffer.memory.buffer, 0, words)
            return buffer

    def pinned(self, shape: Shape, dtype: DType) -> None:
        """Nothing: the interface of WebGPU has none."""

    def download(self, buffer: WebgpuBuffer) -> np.ndarray:
        """A copy of a buffer, once everything before it is done."""
        dtype, nbytes = buffer.dtype, stored_bytes(buffer.size, buffer.dtype)
        words = np.empty(nbytes // _STORED[dtype].itemsize, _STORED[dtype])
        with self.undisturbed:
            memory = self.pool.find(buffer.memory.number)
            flat = words.view(np.uint8)
            for start in range(0, nbytes, _STAGED):
                stop = min(start + _STAGED, nbytes)
                self.fetch(memory.buffer, start, flat[start:stop])
        return words[: buffer.size].astype(dtype.numpy, copy=False).reshape(buffer.shape)

    def fetch(self, buffer: Any, at: int, target: np.ndarray) -> None:
        """Fill an array with bytes of a buffer, after everything that waits; raise the error of a
        compiled call that turns out to have failed."""
        nbytes, start = len(target), whole_words(len(target))
        open_calls = len(self.outcomes.pending) > 0
        size = start + self.outcomes.nbytes if open_calls else nbytes
        staging = self._staged(size)
        self.enqueue([BufferCopy(buffer, at, staging, 0, nbytes)])
        if open_calls:
            outcomes = self.outcomes.found
            self.enqueue([BufferCopy(outcomes, 0, staging, start, self.outcomes.nbytes)])
        self.flush()
        if not open_calls:
            self._read(target)
            return
        found = np.empty(size, np.uint8)
        self._read(found)
        target[:] = found[:nbytes]
        self.outcomes.finish(found[start:])

    def _staged(self, nbytes: int) -> Any:
        """The buffer that reads of so many bytes go through."""
        if nbytes > self._staging_bytes:
            self.check()
            size = max(1 << (nbytes - 1).bit_length(), _LEAST_STAGED)
            self._staging = self._guarded(self.calls.buffer, size, STAGING)
            self._staging_bytes = size
        return self._staging

    def _read(self, target: np.ndarray) -> None:
        """Fill an array from that buffer. One whose read has failed may be left mapped."""
        try:
            self._guarded(self.calls.read, self._staging, target)
        except BaseException:
            self._staging_bytes = 0
            raise

    def copy(self, source: WebgpuBuffer, target: WebgpuBuffer) -> None:
        """Overwrite a buffer with the elements of another one."""
        with self.undisturbed:
            found = [self.pool.find(b.memory.number) for b in (source, target)]
            if source.size and found[0] is not found[1]:
                nbytes = stored_bytes(source.size, source.dtype)
                self.enqueue([BufferCopy(found[0].buffer, 0, found[1].buffer, 0, nbytes)])

    def address(self, buffer: WebgpuBuffer) -> int:
        """The address of a buffer."""
        return buffer.memory.number * SPAN

    def scratch(self, number: int, nbytes: int) -> GpuMemory:
        """Memory for a temporary, which other programs use too; `number` tells those of one apart.

        It stays as long as somebody holds it.
        """
        size = 1 << max(nbytes - 1, 255).bit_length()
        size = min(size, self.largest)
        if nbytes > size:
            self.pool.take(nbytes, self.batch)  # which is an error
        ref = self._scratch.get((number, size))
        found = None if ref is None else ref()
        if found is None:
            found = GpuMemory(size, self._create(size))
            self._scratch[number, size] = weakref.ref(found)
        return found

    def reserved(self) -> int:
        """The bytes of all buffers that elements lie in: those of tensors, which may have gone, and
        of temporaries."""
        with self.undisturbed:
            held = (known() for known in self._scratch.values())
            return self.pool.reserved + sum(memory.nbytes for memory in held if memory is not None)

    def release_unused(self) -> int:
        """Give memory that no tensor lies in back to the system; the number of bytes."""
        with self.undisturbed:
            for program in self._programs.alive():
                program.unbind()  # from memory that was a tensor's, and from temporaries
            return self.pool.release()

    # --- the queue ------------------------------------------------------------------------

    def enqueue(self, items: Sequence[QueueItem], scalars: int = 0, work: int = 0) -> None:
        """Run items after those that wait; `work` is how many operations they are."""
        self._work += work
        start = 0
        while start < len(items):
            part = items[start : start + max(self._enough - self._count, 1)]
            start += len(part)
            self._waiting.append((part, scalars))
            self._count += len(part)
            if self._count >= self._enough or self._work >= thresholds.webgpu_waiting_work:
                self._submit_waiting()
                self._enough = min(2 * self._enough, thresholds.webgpu_waiting_kernels)

    def place_scalars(self, nbytes: int) -> int:
        """The offset of free bytes in the block of host scalars."""
        if self._scalars_end + nbytes > SCALAR_BYTES:
            self.flush()
        at = self._scalars_end
        self._scalars_end = at + nbytes
        return at

    def put_scalars(self, at: int, content: bytes) -> None:
        """Fill in host scalars."""
        self._scalars[at : at + len(content)] = content

    def flush(self) -> None:
        """Submit what waits. Host scalars that were put from here on may lie where those of before
        lay."""
        self._submit_waiting()
        self._enough = thresholds.webgpu_first_kernels
        self._scalars_end = self._scalars_begin = 0

    def _submit_waiting(self) -> None:
        self.check()
        waiting, self._waiting, self._count, self._work = self._waiting, [], 0, 0
        begin, end = self._scalars_begin, self._scalars_end
        self._scalars_begin = end
        self.batch += 1
        if end > begin:
            self._guarded(self.calls.write, self.scalars, begin, self._scalars[begin:end])
        if waiting:
            self._submit(partial(self.calls.encode, waiting))

    def _submit(self, encode: Callable[[], Any]) -> None:
        """Run commands. If that fails nobody knows what tensors hold whose kernels were among them,
        so the device is lost with them."""
        try:
            self._guarded(self.calls.submit, encode())
        except DeviceError as error:
            self.lost = self.lost or f"kernels could not be submitted: {error}"
            raise

    def run_checked(
        self, before: Sequence[QueueItem], after: Sequence[QueueItem], scalars: int
    ) -> tuple[int, int] | None:
        """Run items, and then others if no index was wrong: these are encoded while the first ones
        run. The tape line and the index of the first failure."""
        if len(self.outcomes.pending):
            self.synchronize()  # those come first
        self.enqueue(before, scalars)
        self.enqueue([BufferCopy(self.failure, 0, self._staged(FAILURE), 0, FAILURE)])
        self.flush()
        commands = self._guarded(self.calls.encode, [(after, scalars)]) if after else None
        found = np.empty(FAILURE, np.uint8)
        self._read(found)
        mark, index = found.view(np.int32)
        if mark:
            self.calls.write(self.failure, 0, bytes(FAILURE))
            return int(mark) - 1, int(index)
        if commands is not None:
            self._submit(lambda: commands)
        return None

    def wait(self) -> None:
        """Wait for what was queued, whether or not it went well, inside of a call too."""
        self.enqueue([BufferCopy(self.failure, 0, self._staged(FAILURE), 0, FAILURE)])
        self.flush()
        self._read(np.empty(FAILURE, np.uint8))

    def synchronize(self) -> None:
        """Wait until everything is done."""
        with self.undisturbed:
            self.fetch(self.failure, 0, np.empty(FAILURE, np.uint8))

    def check(self) -> None:
        """Refuse any work where the device was lost, or belongs to another process."""
        if self.lost is not None:
            raise DeviceLost(self.lost)
        self._check_process()

    def _check_process(self) -> None:
        if getpid() != self._process:
            raise DeviceError(
                "webgpu: this process was forked from one that uses the device, which cannot be "
                "shared. Start processes with multiprocessing's 'spawn'."
            )

    def _guarded(self, function: Any, *args: Any) -> Any:
        """The result of a call; one that finds the device lost says so from then on."""
        try:
            return function(*args)
        except DeviceLost as error:
            self.lost = error.reason
            raise

    # --- programs -------------------------------------------------------------------------

    def load(self, plan: Plan) -> WebgpuProgram:
        """Compile a plan's kernels."""
        with self.undisturbed:
            self.check()
            program = WebgpuProgram(self, plan)
            self._programs.add(program)
            return program

    def pipelines(self, wanted: Sequence[PipelineRequest]) -> list[tuple[Any, Any]]:
        """The pipelines of calls, each with the layout of its bind group. Those that are new are
        made by several threads: drivers compile a text on the thread that asks."""
        keys, new = [], dict[tuple[str, wgsl.WgslVariant], Callable[[], Any]]()
        for call, guarded, adds in wanted:
            kernel = call.kernel
            variant = wgsl.variant_of(call)._replace(guarded=guarded, adds=adds)
            key = kernel.identity, variant
            keys.append(key)
            if key not in self._pipelines:
                new[key] = partial(
                    self._make_pipeline, kernel, variant, self._layout(kernel, guarded)
                )
        self._pipelines.update(zip(new, threads.together(list(new.values()), config.num_threads)))
        return [self._pipelines[key] for key in keys]

    def _layout(self, kernel: Kernel, guarded: bool) -> Any:
        kinds = wgsl.bindings(kernel, guarded)
        key = tuple(kinds.items())
        if key not in self._layouts:
            self._layouts[key] = self.calls.layout(kinds, dynamic=1)
        return self._layouts[key]

    def _make_pipeline(
        self, kernel: Kernel, variant: wgsl.WgslVariant, layout: Any
    ) -> tuple[Any, Any]:
        code = wgsl.render(kernel, variant)
        return self.calls.pipeline(code, kernel.name, layout), layout


def open_device() -> WebgpuDevice:
    """The device of the chosen adapter."""
    return WebgpuDevice()
