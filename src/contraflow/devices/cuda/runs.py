"""Runs that may turn out to have failed: a kernel has found an index out of range.

Kernels record the first failure in words of the GPU's memory, and in words that the host reads
without waiting. There are two sets of these words: one for ops of eager mode, and one for compiled
calls, a failure of which keeps guarded kernels from writing until the host has taken all of these
calls back (`PendingRuns`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import partial
from typing import Any

from contraflow import thresholds
from contraflow.devices.cuda.driver import Driver
from contraflow.devices.cuda.memory import GRAIN, BufferLoan, Memory
from contraflow.devices.failures import IndexOutOfRange, LateFailure, PendingRuns
from contraflow.render.clike.cuda import FAILURE_WORDS

OPS, CALLS = 0, 1  # the two sets of words
LINE_BITS = 32  # of a mark, less 1: the tape line, and above it the number of the run


class CudaRuns:
    """The runs of one GPU whose outcomes are not known yet."""

    def __init__(self, driver: Driver, stream: Any, memory: Memory) -> None:
        self._driver, self._stream = driver, stream
        shared = 2  # as CU_MEMHOSTALLOC_DEVICEMAP
        at = int(driver("cuMemHostAlloc", 32, shared))
        self.seen = (ctypes.c_int64 * 4).from_address(at)  # two words of each kind
        self.seen[:] = [0, 0, 0, 0]
        self._words = memory.take(GRAIN)
        start = (ctypes.c_int64 * (2 * FAILURE_WORDS))(0, 0, at, 0, 0, 0, 0, at + 16, 0, 1)
        size = ctypes.sizeof(start)
        driver("cuMemcpyHtoDAsync", self._words, ctypes.addressof(start), size, stream)
        driver("cuStreamSynchronize", stream)
        self.pending = PendingRuns()
        self._event, self._before_event = driver("cuEventCreate", 2), 0  # and the last run before

    def words(self, kind: int) -> int:
        """The address of the words in which kernels record a failure."""
        return self._words + 8 * FAILURE_WORDS * kind

    def check(self) -> None:
        """Raise the error of a run that has failed, if that is known."""
        if self.seen[0] or self.seen[2]:
            self.wait()

    def wait(self) -> None:
        """Wait until everything has run, and raise the first error."""
        self._driver("cuStreamSynchronize", self._stream)
        self.finish()

    def begin(self, late: LateFailure | None, may_fail: bool, made: Sequence[BufferLoan]) -> int:
        """Note a run that makes some buffers; its number, or 0 where none is needed."""
        pending = self.pending
        if late is None or not pending.concerns(late, may_fail):
            return 0
        waiting = len(pending)
        if waiting >= thresholds.cuda_waiting_runs:
            self._driver("cuEventSynchronize", self._event)
            self.check()
            pending.ended_well(self._before_event)
            self._record()
        elif waiting == thresholds.cuda_waiting_runs // 2:
            self._record()
        return pending.add(late, partial(self._clear, made))

    def _record(self) -> None:
        """Let the event come when all runs so far are over."""
        self._before_event = self.pending.last
        self._driver("cuEventRecord", self._event, self._stream)

    def ended(self, number: int) -> None:
        """All steps of a run that may fail are done, and so is everything before it: raise the
        error if one has failed. A number of 0 is that of a run that was not noted."""
        self.check()
        self.pending.ended_well(number)

    def finish(self) -> None:
        """Everything has run: raise the first error, and forget the others."""
        for kind in (OPS, CALLS):
            mark, index = self.seen[2 * kind : 2 * kind + 2]
            if mark:
                self.seen[2 * kind] = 0
                for word, count in ((0, 2), (3, 1)):  # not what is always the same
                    at = self.words(kind) + 8 * word
                    self._driver("cuMemsetD8Async", at, 0, 8 * count, self._stream)
                number, line = divmod(mark - 1, 1 << LINE_BITS)
                self.pending.failed(number, IndexOutOfRange(index, line))
        self.pending.ended_well(self.pending.last)
        self.pending.raise_first()

    def _clear(self, made: Sequence[BufferLoan]) -> None:
        """Give an op that failed zeros for results."""
        for loan in made:
            buffer = loan()
            if buffer is not None:
                self._driver("cuMemsetD8Async", loan.pointer, 0, buffer.nbytes, self._stream)
