"""Failures that kernels find, on the spot or after a call has returned: wrong indices, and integers
that do not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from contraflow.errors import DeviceError


class IndexOutOfRange(IndexError):
    """An index that a kernel found out of range; `line` is the tape line it belongs to."""

    def __init__(self, value: int, line: int) -> None:
        super().__init__(f"index {value} is out of range")
        self.value, self.line = value, line


class StepRefused(DeviceError):
    """A device cannot run a step of a plan; `line` is the tape line it belongs to."""

    def __init__(self, problem: str, line: int) -> None:
        super().__init__(problem)
        self.line = line


def fits(number: int, bits: int) -> bool:
    """Whether an integer is one of a number of bits, the sign among them."""
    return -(1 << (bits - 1)) <= number < 1 << (bits - 1)


def overflow(device: str, bits: int) -> str:
    """The message for an integer that does not fit those of a device."""
    return (
        f"a result, or a number given, does not fit the {bits} bits that int64 has on {device}; "
        "compute it in float32, or on the cpu"
    )


class LateFailure(NamedTuple):
    """How a program that failed after its call had returned is reported, and taken back.

    `undo` gives the buffers of the results that are still there. Without it this is an op of eager
    mode. The results of both are zeros then.
    """

    described: Callable[[IndexError], Exception]  # the error of a kernel as the user's
    undo: Callable[[], Sequence[Any]] | None = None


class PendingRun(NamedTuple):
    """A run of a program whose outcome is not known yet."""

    number: int
    late: LateFailure
    clear: Callable[[], None]  # overwrites the results of an op of eager mode with zeros


class PendingRuns:
    """The runs of an asynchronous device whose outcomes are not known yet, in order.

    A failure of an op of eager mode concerns that op alone. That of a compiled call, whose
    `LateFailure` has `undo`, takes every compiled call behind it along, none of which has written
    anything: the device sees to that, until the failure is told here.
    """

    def __init__(self) -> None:
        self._runs: list[PendingRun] = []
        self.last = 0  # the number of the last run that was noted
        self._errors: list[tuple[int, Exception]] = []
        self._unwritten: list[Any] = []  # the buffers of results of calls that were taken back

    def __len__(self) -> int:
        return len(self._runs)

    def concerns(self, late: LateFailure | None, may_fail: bool) -> bool:
        """Whether a run has to be noted: it may fail, or be taken back for one that does."""
        return late is not None and (may_fail or (late.undo is not None and bool(self._runs)))

    def add(self, late: LateFailure, clear: Callable[[], None]) -> int:
        """Note a run; its number, by which it is named from now on."""
        self.last += 1
        self._runs.append(PendingRun(self.last, late, clear))
        return self.last

    def ended_well(self, last: int) -> None:
        """All runs up to a number are over, and those that failed were told before."""
        self._runs = [run for run in self._runs if run.number > last]

    def failed(self, number: int, error: IndexOutOfRange) -> list[int]:
        """A run has found a wrong index: it is taken back, with those behind it. Their numbers."""
        run = next(run for run in self._runs if run.number == number)
        self._errors.append((number, run.late.described(error)))
        if run.late.undo is None:
            run.clear()
            gone = [run]
        else:
            gone = [r for r in self._runs if r.number >= number and r.late.undo is not None]
            for each in reversed(gone):
                assert each.late.undo is not None
                self._unwritten += each.late.undo()
        numbers = [run.number for run in gone]
        self._runs = [run for run in self._runs if run.number not in numbers]
        return numbers

    def raise_first(self) -> None:
        """Raise the error of the first run that failed, if one has; the others are forgotten.

        Results of calls that were taken back are overwritten before: their memory may have been
        that of an earlier result. The device waits for nothing any more, so it can be asked to.
        """
        errors, self._errors = self._errors, []
        unwritten, self._unwritten = self._unwritten, []
        clear(unwritten)
        if errors:
            raise min(errors, key=lambda found: found[0])[1]


def clear(buffers: Iterable[Any]) -> None:
    """Overwrite buffers with zeros, by what every device can do."""
    for buffer in buffers:
        zeros = np.zeros(buffer.shape, buffer.dtype.numpy)
        buffer.device.copy(buffer.device.upload(zeros), buffer)
