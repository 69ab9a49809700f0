"""Runs that may turn out to have failed: a kernel has found an index out of range.

Kernels record the first failure in words of the GPU's memory, and in words that the host reads
without waiting. There are two sets of these words. A failure of an op of eager mode concerns that
op alone. One of a compiled call, a `LateFailure` with `undo`, keeps guarded kernels behind it from
writing, until the host has noticed and taken all of these calls back.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

from contraflow.devices.cuda.driver import Driver
from contraflow.devices.cuda.memory import GRAIN, BufferLoan, Memory
from contraflow.devices.failures import IndexOutOfRange, LateFailure
from contraflow.render.clike.cuda import FAILURE_WORDS

OPS, CALLS = 0, 1  # the two sets of words
_LINE_BITS = 32  # of a mark, less 1: the tape line, and above it the number of the run


class Run(NamedTuple):
    """A run that may fail, or that stands behind one."""

    number: int
    late: LateFailure
    results: Sequence[BufferLoan]  # of an op: zeros, if it fails


class Runs:
    """The runs of one device whose end is not known yet."""

    MOST = 64  # of these; then the host waits for the older half

    def __init__(self, driver: Driver, stream: Any, memory: Memory) -> None:
        self._driver, self._stream = driver, stream
        shared = 2  # as CU_MEMHOSTALLOC_DEVICEMAP
        at = int(driver("cuMemHostAlloc", 32, shared))
        self._seen = (ctypes.c_int64 * 4).from_address(at)
        self._seen[:] = [0, 0, 0, 0]
        self._words = memory.take(GRAIN)
        start = (ctypes.c_int64 * (2 * FAILURE_WORDS))(0, 0, at, 0, 0, 0, 0, at + 16, 0, 1)
        size = ctypes.sizeof(start)
        driver("cuMemcpyHtoDAsync", self._words, ctypes.addressof(start), size, stream)
        driver("cuStreamSynchronize", stream)
        self._waiting: list[Run] = []
        self._last = 0  # the number of the last run
        self._half = driver("cuEventCreate", 2)

    def words(self, kind: int) -> int:
        """Where kernels record a failure."""
        return self._words + 8 * FAILURE_WORDS * kind

    def check(self) -> None:
        """Raise the error of a run that has failed, if that is known."""
        if self._seen[0] or self._seen[2]:
            self._driver("cuStreamSynchronize", self._stream)
            self.finish()

    def begin(self, late: LateFailure | None, may_fail: bool, results: Sequence[BufferLoan]) -> int:
        """Note a run; the number that goes with the lines of its kernels, shifted to its place."""
        if late is None or not (may_fail or (late.undo is not None and self._waiting)):
            return 0
        if len(self._waiting) >= self.MOST:
            self._driver("cuEventSynchronize", self._half)
            self.check()
            del self._waiting[: self.MOST // 2]
        if len(self._waiting) == self.MOST // 2:
            self._driver("cuEventRecord", self._half, self._stream)
        self._last += 1
        self._waiting.append(Run(self._last, late, results))
        return self._last << _LINE_BITS

    def finish(self) -> None:
        """Everything has run: raise the first error, and forget the others."""
        waiting, self._waiting = self._waiting, []
        failed: list[tuple[Run, IndexOutOfRange]] = []
        for kind in (OPS, CALLS):
            mark, index = self._seen[2 * kind : 2 * kind + 2]
            if mark:
                number, line = divmod(mark - 1, 1 << _LINE_BITS)
                run = next(run for run in waiting if run.number == number)
                failed.append((run, IndexOutOfRange(index, line)))
                self._seen[2 * kind] = 0
                for word, count in ((0, 2), (3, 1)):  # not what is always the same
                    at = self.words(kind) + 8 * word
                    self._driver("cuMemsetD8Async", at, 0, 8 * count, self._stream)
        self._last = 0 if not failed else self._last
        for run, _ in failed:
            if run.late.undo is None:
                self._clear(run.results)
                continue
            behind = [other for other in waiting if other.number >= run.number and other.late.undo]
            for other in reversed(behind):
                assert other.late.undo is not None
                other.late.undo()
        if failed:
            run, error = min(failed, key=lambda found: found[0].number)
            raise run.late.described(error)

    def _clear(self, results: Sequence[BufferLoan]) -> None:
        """Give an op that failed zeros for results."""
        for loan in results:
            buffer = loan()
            if buffer is not None:
                self._driver("cuMemsetD8Async", loan.pointer, 0, buffer.nbytes, self._stream)
