"""Plans as native programs: a table of kernels, a table of pointers, and one arena for scratch.

Programs run one at a time, because they share the threads and the arena. A host step may itself
run a program: each depth of that nesting has an arena of its own.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import struct
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np

from contraflow import config
from contraflow.devices.cpu import jit
from contraflow.devices.cpu.pool import pool
from contraflow.dispatch import state
from contraflow.kernel import Call, Contraction, strided_arguments
from contraflow.plan import SCALARS, HostStep, KernelStep, Plan, Slot
from contraflow.render.llvm import entry_name, render

SMALL_WORK = 200_000  # element operations that one thread does sooner than it meets another
HUGE_PAGE = 1 << 21

Buffer = Any  # a contiguous NumPy array, or the address of its first element


class IndexOutOfRange(IndexError):
    """An index that a kernel found out of range; `line` is the tape line it belongs to."""

    def __init__(self, value: int, line: int) -> None:
        super().__init__(f"index {value} is out of range")
        self.value, self.line = value, line


def work(call: Call) -> int:
    """About how many element operations a call does: decides whether threads are worth waking."""
    points = math.prod(call.sizes)
    # A contraction's multiply-adds are the cheapest operations there are.
    return points // 8 if isinstance(call.kernel, Contraction) else points


# --- scratch memory ----------------------------------------------------------------------------


class _Scratch:
    """The arenas, and the lock that whoever runs a program holds."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start afresh: a forked child may find the lock taken by a thread it does not have."""
        self._lock = threading.RLock()
        self._depth = 0
        self._arenas: list[tuple[mmap.mmap, int, int]] = []  # memory, address, size

    def enter(self, size: int) -> int:
        """Wait for other threads' programs, and get the address of `size` bytes."""
        self._lock.acquire()
        depth = self._depth
        if depth == len(self._arenas):
            self._arenas.append(_allocate(size))
        elif self._arenas[depth][2] < size:
            self._arenas[depth] = _allocate(size)
        self._depth += 1
        return self._arenas[depth][1]

    def leave(self) -> None:
        """Give the memory back."""
        self._depth -= 1
        self._lock.release()


def _allocate(size: int) -> tuple[mmap.mmap, int, int]:
    size = max(HUGE_PAGE, -(-size // HUGE_PAGE) * HUGE_PAGE)
    memory = mmap.mmap(-1, size + HUGE_PAGE)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    return memory, -(-address // HUGE_PAGE) * HUGE_PAGE, size


_scratch = _Scratch()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_scratch.forget)


# --- barriers ----------------------------------------------------------------------------------


class _Region(NamedTuple):
    space: int  # the arena is -1, every other slot is a space of its own
    start: int
    stop: int

    def overlaps(self, other: _Region) -> bool:
        return self.space == other.space and self.start < other.stop and other.start < self.stop


def _regions(step: KernelStep, slots: Sequence[Slot], modes: Sequence[str]) -> list[_Region]:
    bound = [
        binding.slot
        for binding, operand in zip(step.bindings, step.call.kernel.operands)
        if operand.mode in modes
    ]
    return [
        _Region(-1, slots[i].offset, slots[i].offset + slots[i].nbytes)
        if slots[i].kind == "temp"
        else _Region(i, 0, 1)
        for i in bound
    ]


def barriers(steps: Sequence[KernelStep], slots: Sequence[Slot]) -> list[bool]:
    """After which kernels threads have to meet: before the next one that touches what they wrote,
    or writes what they touched. Different slots given by the caller do not overlap."""
    result: list[bool] = []
    read: list[_Region] = []
    written: list[_Region] = []
    for step in steps:
        reads = _regions(step, slots, ("in", "inout"))
        writes = _regions(step, slots, ("out", "inout"))
        pairs = [(a, b) for a in (*reads, *writes) for b in written]
        pairs += [(a, b) for a in writes for b in read]
        if any(a.overlaps(b) for a, b in pairs):
            result[-1] = True
            read, written = [], []
        result.append(False)
        read += reads
        written += writes
    return result


_byte_at: Any = ctypes.c_char.from_buffer


def _address(array: np.ndarray) -> int:
    """Where the first element of an array lies."""
    try:  # a fifth of the time that NumPy itself takes to say it
        return ctypes.addressof(_byte_at(array))
    except (TypeError, ValueError, BufferError):  # read-only, empty, or not in order
        address: int = array.__array_interface__["data"][0]
        return address


def _nothing() -> None:
    """Stands for the weak reference to a buffer that is not known yet."""


# --- programs ----------------------------------------------------------------------------------


_ROW_BYTES = 24  # the kernel, its arguments, and whether threads meet after it


def _noted(timeline: Any, name: str, kind: str) -> Any:
    """A with-block that is an event of the timeline, if there is one."""
    return nullcontext() if timeline is None else timeline.event(name, kind, None)


class _Rows(NamedTuple):
    """Kernels that run without returning to Python: a range of the table."""

    address: int
    length: int


class Program:
    """A plan that is ready to run."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        slots = plan.slots
        self._external = [i for i, slot in enumerate(slots) if slot.kind != "temp"]
        self._temporary = [i for i, slot in enumerate(slots) if slot.kind == "temp"]
        # The table of pointers: buffers of the caller, the scalars, the errors, temporaries.
        order = [*self._external, SCALARS, None, *self._temporary]
        self._index = {slot: i for i, slot in enumerate(order)}
        self._bases = (ctypes.c_uint64 * len(order))()
        self._bases_address = ctypes.addressof(self._bases)
        self._addresses = [0] * len(self._external)
        self._known: list[Callable[[], Buffer]] = [_nothing] * len(self._external)
        self._pack_addresses = struct.Struct(f"{len(self._external)}Q").pack_into
        kinds = ("d" if dtype.is_floating_point else "q" for dtype in plan.scalar_dtypes)
        self._pack_scalars = struct.Struct("=" + "".join(kinds)).pack_into
        self._scalars = (ctypes.c_uint64 * max(1, len(plan.scalar_dtypes)))()
        self._bases[self._index[SCALARS]] = ctypes.addressof(self._scalars)
        self._arena = 0
        kernels = [step for step in plan.steps if isinstance(step, KernelStep)]
        self._small = sum(work(step.call) for step in kernels) < SMALL_WORK
        self._checks = any(_checks(step.call) for step in kernels)
        self._errors = (ctypes.c_int64 * 0)()
        self._segments = list(self._build(kernels))

    def _build(self, kernels: list[KernelStep]) -> Iterator[_Rows | HostStep]:
        words = [self._words(step) for step in kernels]
        self._arguments = (ctypes.c_int64 * sum(map(len, words)))(*(w for ws in words for w in ws))
        self._table = (ctypes.c_uint64 * (3 * len(kernels)))()
        self._names = [step.call.kernel.name for step in kernels]
        arguments, meets = ctypes.addressof(self._arguments), barriers(kernels, self._plan.slots)
        for i, step in enumerate(kernels):
            self._table[3 * i : 3 * i + 3] = [_compile(step.call), arguments, meets[i]]
            arguments += 8 * len(words[i])
        address, row, first = ctypes.addressof(self._table), 0, 0
        # Errors are raised after the last kernel that checks indices: what follows writes state.
        checked = max((i + 1 for i, step in enumerate(kernels) if _checks(step.call)), default=0)
        for any_step in self._plan.steps:
            if isinstance(any_step, KernelStep):
                row += 1
                if row != checked:
                    continue
            if row > first:
                yield _Rows(address + _ROW_BYTES * first, row - first)
            if isinstance(any_step, HostStep):
                yield any_step
            first = row
        if row > first:
            yield _Rows(address + _ROW_BYTES * first, row - first)

    def _words(self, step: KernelStep) -> list[int]:
        """The argument block of one kernel; render/llvm.py says what it holds."""
        call, words = step.call, []
        for operand, binding in zip(call.kernel.operands, step.bindings):
            # A position has no memory, so any index does.
            index = 0 if operand.mode == "position" else self._index[binding.slot]
            words += [index, binding.offset]
        if _checks(call):
            words += [self._index[None], step.line, 0]
        words += call.sizes
        if isinstance(call.kernel, Contraction):
            return words + [stride for strides in call.strides for stride in strides]
        return words + strided_arguments(call)

    def replay(self, buffers: Sequence[Buffer], scalars: Sequence[float | int]) -> None:
        """Run all steps. `buffers` are those of the input and output slots, in slot order."""
        shares = 1 if self._small else config.num_threads
        timeline = state().context.timeline
        arena = _scratch.enter(self._plan.arena_bytes)
        try:
            for i, buffer in enumerate(buffers):
                if type(buffer) is int:
                    self._addresses[i] = buffer
                elif self._known[i]() is not buffer:
                    self._learn(i, buffer)
            self._pack_addresses(self._bases, 0, *self._addresses)
            self._pack_scalars(self._scalars, 0, *scalars)
            if arena != self._arena:
                self._move(arena)
            if self._checks and len(self._errors) != 2 * shares:
                self._errors = (ctypes.c_int64 * (2 * shares))()
                self._bases[self._index[None]] = ctypes.addressof(self._errors)
            for segment in self._segments:
                if isinstance(segment, HostStep):
                    with _noted(timeline, segment.name, "host"):
                        self._run_host(segment)
                    continue
                if timeline is not None:
                    self._run_noted(segment, shares, timeline)
                elif shares == 1 and self._small:
                    pool.run_alone(segment.address, segment.length, self._bases_address, 1)
                else:
                    pool.run(segment.address, segment.length, self._bases_address, shares)
                if self._checks and any(self._errors):
                    raise self._error()
        finally:
            _scratch.leave()

    def _run_noted(self, rows: _Rows, shares: int, timeline: Any) -> None:
        """Run kernels one at a time, and note each."""
        first = (rows.address - ctypes.addressof(self._table)) // _ROW_BYTES
        for i in range(first, first + rows.length):
            with _noted(timeline, self._names[i], "kernel"):
                address = rows.address + _ROW_BYTES * (i - first)
                pool.run(address, 1, self._bases_address, shares)

    def _learn(self, i: int, array: np.ndarray) -> None:
        self._addresses[i] = _address(array)
        # While the array lives its memory stays: NumPy resizes none that has a weak reference.
        self._known[i] = weakref.ref(array)

    def _move(self, arena: int) -> None:
        for i in self._temporary:
            self._bases[self._index[i]] = arena + self._plan.slots[i].offset
        self._arena = arena

    def _error(self) -> IndexOutOfRange:
        """The error that the shares found first, in the order of the tape; none is left behind."""
        found = [(line - 1, value) for line, value in zip(*[iter(self._errors)] * 2) if line]
        ctypes.memset(self._errors, 0, ctypes.sizeof(self._errors))
        line, value = min(found)
        return IndexOutOfRange(value, line)

    def _run_host(self, step: HostStep) -> None:
        results = step.run(*(self._array(i, step) for i in step.reads))
        if not isinstance(results, (tuple, list)):
            results = (results,)
        for i, result in zip(step.writes, results, strict=True):
            np.copyto(self._array(i, step), result)

    def _array(self, i: int, step: HostStep) -> np.ndarray:
        slot = self._plan.slots[i]
        shape = step.shapes.get(i, (slot.numel,))
        memory = (ctypes.c_char * slot.nbytes).from_address(self._bases[self._index[i]])
        return np.ndarray(shape, slot.dtype.numpy, memoryview(memory))


def _checks(call: Call) -> bool:
    return not isinstance(call.kernel, Contraction) and call.kernel.checks_indices


def _compile(call: Call) -> int:
    width = jit.vector_bytes()
    name = entry_name(call.kernel, vector_bytes=width)
    return jit.function(name, render(call.kernel, vector_bytes=width))


def load(plan: Plan) -> Program:
    """Compile a plan's kernels and lay out its memory."""
    return Program(plan)
