"""Compiled calls that may turn out to have failed: a kernel has found an index out of range.

The kernels of a call that check indices record the first failure in a buffer. It is copied to the
guard that later kernels look at before they write memory of the caller and, when the last of them
has run, to the outcome of the call. The host reads outcomes with whatever it reads next: no call
waits for its own.
"""

from __future__ import annotations

import numpy as np

from contraflow.devices.failures import IndexOutOfRange, LateFailure, PendingRuns
from contraflow.devices.webgpu.calls import STORAGE, UNIFORM, BufferCopy, Calls, QueueItem

FAILURE = 8  # bytes: the tape line plus 1 of a wrong index, and the index


class WebgpuRuns:
    """The calls of one device whose outcomes are not known yet."""

    MOST = 64  # of these; then the host waits
    nbytes = MOST * FAILURE

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self.failure = calls.buffer(256, STORAGE)
        self.guard = calls.buffer(256, UNIFORM)
        self.found = calls.buffer(self.nbytes, STORAGE)  # what each call has found
        self.set_guard = BufferCopy(self.failure, 0, self.guard, 0, FAILURE)
        self.pending = PendingRuns()
        self._checked: list[int] = []  # the numbers of those that may have failed themselves

    def begin(self, late: LateFailure, may_fail: bool) -> int:
        """Note a call; its number, or 0 where none is needed."""
        if not self.pending.concerns(late, may_fail):
            return 0
        number = self.pending.add(late, lambda: None)
        if may_fail:
            self._checked.append(number)
        return number

    def ending(self, number: int) -> list[QueueItem]:
        """The copies behind the last kernel of a call that may find a wrong index."""
        place = FAILURE * (number % self.MOST)
        return [self.set_guard, BufferCopy(self.failure, 0, self.found, place, FAILURE)]

    def finish(self, outcomes: np.ndarray) -> None:
        """Everything has run, with these outcomes: raise the first error, and forget the others."""
        checked, self._checked = self._checked, []
        words = outcomes.view(np.int32).reshape(-1, 2)
        for number in checked:
            mark, index = map(int, words[number % self.MOST])
            if mark:
                # A failure stays where it is, so the outcomes of later calls show it too.
                for buffer in (self.failure, self.guard):
                    self._calls.write(buffer, 0, bytes(FAILURE))
                self.pending.failed(number, IndexOutOfRange(index, mark - 1))
                break
        self.pending.ended_well(self.pending.last)
        self.pending.raise_first()


def whole_words(nbytes: int) -> int:
    """A number of bytes that copies may have, and reads begin at."""
    return -(-nbytes // 8) * 8
