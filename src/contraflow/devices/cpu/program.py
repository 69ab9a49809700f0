"""Plans as native programs: a table of kernels, a table of pointers, and one arena for scratch.

Programs run one at a time, because they share the threads and the arena. A host step may itself
run a program: each of these has an arena of its own.
"""

from __future__ import annotations

import ctypes
import functools
import math
import mmap
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from contraflow import config, threads, thresholds
from contraflow.compiler.kernel import (
    Attention,
    Box,
    Contraction,
    Kernel,
    KernelCall,
    Sort,
    strided_arguments,
)
from contraflow.compiler.plan import SCALARS, HostStep, KernelStep, Plan
from contraflow.devices.cpu import jit
from contraflow.devices.cpu.caches import block_sizes
from contraflow.devices.cpu.pool import pool
from contraflow.devices.cpu.pool_code import CHECK, DEAL, ERRORS, MEET, PARTS
from contraflow.devices.cpu.vectors import bytes_for, factors_of, has_several_rows
from contraflow.devices.failures import IndexOutOfRange
from contraflow.devices.hazards import barriers
from contraflow.devices.run_words import WORD, RunWords
from contraflow.devices.segments import KernelRun, kernel_steps, segments, step_event
from contraflow.expressions import expression as s
from contraflow.expressions.expression import Expr
from contraflow.operation.context import state
from contraflow.render.llvm.identity import entry_name, text_identity
from contraflow.render.llvm.lowering import lower

HUGE_PAGE = 1 << 21

ArrayOrAddress = Any  # a contiguous NumPy array, or the address of its first element


def work(call: KernelCall) -> int:
    """About how many element operations a call does: decides whether threads are worth waking."""
    if isinstance(call.kernel, Attention):
        *batch, queries, keys, e, v = call.sizes
        return math.prod(batch) * queries * keys * (e + v) // 8
    points = math.prod(call.sizes)
    if isinstance(call.kernel, Sort):
        return 16 * points
    # A contraction's multiply-adds are the cheapest operations there are.
    if isinstance(call.kernel, Contraction):
        return points // 8
    return points * _weight(call.kernel)


@functools.lru_cache(maxsize=8192)
def _weight(kernel: Box) -> int:
    """The cost of a point of a kernel, relative to one that is only read and written."""
    inner = slice(kernel.outer if kernel.inner else 0, None)
    varying: set[Expr] = set()  # what differs from point to point
    steps = 0
    for e in s.walk(lower(kernel.roots)):
        if e.fn == "load" and any(kernel.operands[e.data].strides[inner]):
            varying.add(e)
        elif not varying.isdisjoint(e.args):
            varying.add(e)
            steps += 1
    return 1 + steps // thresholds.cpu_free_steps


thresholds.on_change(_weight.cache_clear)


def _is_small(calls: Sequence[KernelCall]) -> bool:
    """Whether one thread is faster than several, which synchronize after each call."""
    barriers = thresholds.cpu_fixed_barriers + len(calls)
    limit, total = thresholds.cpu_shared_work * barriers, 0
    for call in calls:
        total += work(call)
        if total >= limit:
            return False
    return True


def _is_long(call: KernelCall) -> bool:
    """Whether the work of a call is dealt out. A sort has scratch memory for one share each."""
    kernel, sizes = call.kernel, call.sizes
    if isinstance(kernel, Attention):
        return math.prod(sizes[:4]) >= thresholds.cpu_long_result
    if isinstance(kernel, Contraction):
        columns = sizes[4 + kernel.digits[0] :] if kernel.digits else sizes[3:4]
        return math.prod((*sizes[:3], *columns)) >= thresholds.cpu_long_result
    return math.prod(sizes) >= thresholds.cpu_long_loop and not isinstance(kernel, Sort)


# --- scratch memory ----------------------------------------------------------------------------


class _Arena(NamedTuple):
    """Memory for temporaries."""

    memory: mmap.mmap | None
    address: int
    size: int


class _Scratch:
    """The arenas, and the lock that a running program holds."""

    def __init__(self) -> None:
        self.lock = threads.recursive_lock()
        self.forget()

    def forget(self) -> None:
        """Start afresh, as a forked child does."""
        self.arena = _Arena(None, 0, 0)  # of the program that runs, or else the next one
        self._spare: list[_Arena] = []  # of programs within programs

    def provide(self, size: int) -> _Arena:
        """The arena, replaced if it is smaller than `size`."""
        if self.arena.size < size:
            self.arena = _allocate(size)
        return self.arena

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Programs that run in the block leave the arena alone."""
        arena = self.arena
        self.arena = self._spare.pop() if self._spare else _Arena(None, 0, 0)
        try:
            yield
        finally:  # in this order: an interrupt may lose the spare, but never give it out twice
            inner, self.arena = self.arena, arena
            self._spare.append(inner)


def _allocate(size: int) -> _Arena:
    size = -(-size // HUGE_PAGE) * HUGE_PAGE
    if hasattr(mmap, "MADV_HUGEPAGE"):  # which memory that processes share does not have
        memory = mmap.mmap(-1, size + HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory.madvise(mmap.MADV_HUGEPAGE)
    else:
        memory = mmap.mmap(-1, size + HUGE_PAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    return _Arena(memory, -(-address // HUGE_PAGE) * HUGE_PAGE, size)


_scratch = _Scratch()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_scratch.forget)


_byte_at: Any = ctypes.c_char.from_buffer


def address_of(array: np.ndarray) -> int:
    """The address of the first element of an array."""
    try:  # a fifth of the time that NumPy itself takes to say it
        return ctypes.addressof(_byte_at(array))
    except (TypeError, ValueError, BufferError):  # read-only, empty, or not in order
        address: int = array.__array_interface__["data"][0]
        return address


def _nothing() -> None:
    """Stands for the weak reference to a buffer that is not known yet."""


# --- programs ----------------------------------------------------------------------------------


_ROW_WORDS = 4  # the kernel, its arguments, how it is run, and tickets for its parts
_ROW_BYTES = 8 * _ROW_WORDS
_TICKETS = 3  # where they lie in a row
_FIRST = 2  # where the words of a run begin in the table, after the pointers to errors and scalars


class _KernelRange:
    """Kernels that run without returning to Python: a range of the table."""

    def __init__(self, rows: int, count: int, bases: int) -> None:
        self.first, self.count = rows, count
        self._job = (ctypes.c_uint64 * 4)(rows, count, bases, 1)
        self.job = ctypes.c_void_p(ctypes.addressof(self._job))

    def share(self, shares: int) -> None:
        """Cut the work of each kernel into so many parts."""
        self._job[3] = shares


class CpuProgram:
    """A plan that is ready to run."""

    notes: Sequence[str] = ()

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._temporary = [i for i, slot in enumerate(plan.slots) if slot.kind == "temp"]
        # The table: pointers to errors and scalars, the words of a run (pointers to the buffers of
        # the caller, and the scalars), and pointers to temporaries.
        behind = _FIRST + RunWords.size(plan)
        self._bases = (ctypes.c_uint64 * (behind + len(self._temporary)))()
        self._words = words = RunWords(plan, self._bases, _FIRST)
        self._index = {SCALARS: ERRORS + 1}
        self._index.update(zip(words.slots, range(_FIRST, words.first_scalar)))
        self._index.update(zip(self._temporary, range(behind, len(self._bases))))
        self._bases[self._index[SCALARS]] = (
            ctypes.addressof(self._bases) + WORD * words.first_scalar
        )
        self.put = words.put
        self._addresses = [0] * len(words.slots)
        self._known: list[Callable[[], ArrayOrAddress]] = [_nothing] * len(words.slots)
        self._packed: tuple[float | int, ...] = ()  # the scalars that the words hold
        self._arena: _Arena | None = None  # where temporaries are
        kernels = kernel_steps(plan)
        self._small = _is_small([step.call for step in kernels])
        self._errors = (ctypes.c_int64 * 0)()
        self._segments = list(self._build(kernels))
        self._shares = 0
        self._divide(1)
        # The one job of a program that one thread does without returning to Python.
        self._alone: ctypes.c_void_p | None = None
        if self._small and len(self._segments) == 1 and isinstance(self._segments[0], _KernelRange):
            self._alone = self._segments[0].job

    def _build(self, kernels: list[KernelStep]) -> Iterator[_KernelRange | HostStep]:
        words = [self._arguments_of(step) for step in kernels]
        self._arguments = (ctypes.c_int64 * sum(map(len, words)))(*chain.from_iterable(words))
        self._table = (ctypes.c_uint64 * (_ROW_WORDS * len(kernels)))()
        self._kernels = kernels
        runner = pool.source(1 if self._small else config.num_threads)
        entries = _compile([step.call for step in kernels], runner)
        arguments, flags = ctypes.addressof(self._arguments), self._flags(kernels)
        for i, entry in enumerate(entries):
            row = _ROW_WORDS * i
            self._table[row : row + _ROW_WORDS] = [entry, arguments, flags[i], 0]
            arguments += 8 * len(words[i])
        for segment in segments(self._plan):
            yield self._rows(segment) if isinstance(segment, KernelRun) else segment

    def _flags(self, kernels: list[KernelStep]) -> list[int]:
        """The flags of each kernel: whether threads meet after it, and share its work."""
        if self._small:  # one thread runs them all
            return [0] * len(kernels)
        meets = barriers(kernels, self._plan.slots)
        return [
            (MEET if meet else 0) | (DEAL if _is_long(step.call) else 0)
            for meet, step in zip(meets, kernels)
        ]

    def _rows(self, run: KernelRun) -> _KernelRange:
        """The rows of kernels without a host step between them. Wrong indices are looked for after
        the last one that may find any."""
        if run.last_risk is not None:
            self._table[_ROW_WORDS * run.last_risk + 2] |= MEET | CHECK
        address = ctypes.addressof(self._table) + _ROW_BYTES * run.first
        return _KernelRange(address, len(run.steps), ctypes.addressof(self._bases))

    def _divide(self, shares: int) -> None:
        """Cut work into so many shares."""
        self._shares = 0  # until all is done: an interrupt may come in between
        self._errors = (ctypes.c_int64 * (2 * shares * PARTS))()
        self._bases[ERRORS] = ctypes.addressof(self._errors)
        for segment in self._segments:
            if isinstance(segment, _KernelRange):
                segment.share(shares)
        self._shares = shares

    def _arguments_of(self, step: KernelStep) -> list[int]:
        """The argument block of one kernel; `render/llvm/kernels.py` says what it holds."""
        call, words = step.call, []
        for operand, binding in zip(call.kernel.operands, step.bindings):
            # A position has no memory, so any index does.
            index = 0 if operand.mode == "position" else self._index[binding.slot]
            words += [index, binding.offset]
        if step.may_fail:
            words += [ERRORS, step.line, 0]
        words += call.sizes
        if isinstance(call.kernel, Contraction):
            return words + [stride for strides in call.strides for stride in strides]
        return words + strided_arguments(call)

    def replay(self, buffers: Sequence[ArrayOrAddress], scalars: Sequence[float | int]) -> None:
        """Run all steps. `buffers` are those of the input and output slots, in slot order."""
        with _scratch.lock:
            for i, buffer in enumerate(buffers):
                if type(buffer) is int:
                    self._addresses[i] = buffer
                elif self._known[i]() is not buffer:
                    self._learn(i, buffer)
            self.run(self._addresses, tuple(scalars))

    def run(
        self, addresses: Sequence[int], scalars: tuple[float | int, ...], late: object = None
    ) -> None:
        """The same, with buffers given by their addresses. Nothing is ever late here."""
        with _scratch.lock:
            self._words.set_addresses(*addresses)
            self.rerun(scalars)

    def rerun(self, scalars: tuple[float | int, ...], late: object = None) -> None:
        """The same, with buffers at the addresses of the last run, or those set by `put` since."""
        timeline = state().context.timeline
        with _scratch.lock:
            if self._arena is not _scratch.arena:
                self._move(_scratch.provide(self._plan.arena_bytes))
            if scalars is not self._packed:
                self._words.set_scalars(*scalars)
                self._packed = scalars
            if self._alone is None or timeline is not None:
                self._run_segments(timeline)
            elif pool.run_alone(self._alone):
                raise self._error()

    def _run_segments(self, timeline: Any) -> None:
        shares = 1 if self._small else config.num_threads
        if shares != self._shares:
            self._divide(shares)
        for segment in self._segments:
            if isinstance(segment, HostStep):
                with self._noted(timeline, segment), _scratch.nested():
                    self._run_host(segment)
                continue
            if timeline is not None:
                failed = self._run_noted(segment, timeline)
            elif self._small:
                failed = pool.run_alone(segment.job)
            else:
                failed = pool.run(segment.job, shares)
            if failed:
                raise self._error()

    def _run_noted(self, rows: _KernelRange, timeline: Any) -> int:
        """Run kernels one at a time, and note each."""
        bases = ctypes.addressof(self._bases)
        first = (rows.first - ctypes.addressof(self._table)) // _ROW_BYTES
        for i in range(rows.count):
            row = _KernelRange(rows.first + _ROW_BYTES * i, 1, bases)
            row.share(self._shares)
            with self._noted(timeline, self._kernels[first + i]):
                failed = pool.run(row.job, self._shares)
            if failed:
                return failed
        return 0

    def _noted(self, timeline: Any, step: KernelStep | HostStep) -> Any:
        """A with-block that is an event of the timeline, if there is one."""
        if timeline is None:
            return nullcontext()
        return timeline.program_step(*step_event(self._plan, step))

    def _learn(self, i: int, array: np.ndarray) -> None:
        self._known[i] = _nothing  # until the address is noted
        self._addresses[i] = address_of(array)
        # While the array lives its memory stays: NumPy resizes none that has a weak reference.
        self._known[i] = weakref.ref(array)

    def _move(self, arena: _Arena) -> None:
        """Have temporaries in another arena; forget a run that a fork has cut off in this copy."""
        self._arena = None  # until all have moved
        ctypes.memset(self._errors, 0, ctypes.sizeof(self._errors))
        for tickets in range(_TICKETS, len(self._table), _ROW_WORDS):
            self._table[tickets] = 0
        for i in self._temporary:
            self._bases[self._index[i]] = arena.address + self._plan.slots[i].offset
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


# Where the machine code of kernels lies, by their identities, and whether that is for matrices of
# several rows.
_entries: dict[tuple[str, bool], int] = {}


def _compile(calls: Sequence[KernelCall], runner: jit.FunctionSource) -> list[int]:
    """Where the machine code of each call lies, made or loaded if it is new, as that of those who
    run it. Code for any matrices, where it is there or needed, does for those of several rows."""
    keys = [(call.kernel.identity, has_several_rows(call)) for call in calls]
    known = _entries.keys() | set(keys)
    keys = [(key, several and (key, False) not in known) for key, several in keys]
    new = {key: call.kernel for key, call in zip(keys, calls) if key not in _entries}
    found = jit.functions([*(_source(new[key], key[1]) for key in new), runner])
    _entries.update(zip(new, found))
    return [_entries[key] for key in keys]


def _source(kernel: Kernel, several_rows: bool) -> jit.FunctionSource:
    variant: dict[str, Any] = {
        "vector_bytes": bytes_for(kernel),
        "factors": factors_of(kernel),
        "several_rows": several_rows,
    }
    if isinstance(kernel, Contraction):
        variant["sizes"] = block_sizes()
    return jit.FunctionSource(
        [entry_name(kernel, **variant)],
        text_identity(kernel, **variant),
        functools.partial(_text, kernel, **variant),
    )


def _text(kernel: Kernel, **variant: Any) -> str:
    """The text of a kernel that is new to this machine: only then its renderer is imported."""
    text: str = threads.imported("contraflow.render.llvm.kernels").render(kernel, **variant)
    return text


def load(plan: Plan) -> CpuProgram:
    """Compile a plan's kernels and lay out its memory."""
    return CpuProgram(plan)
