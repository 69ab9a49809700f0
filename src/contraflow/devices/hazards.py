"""Hazards: between which kernels of a program memory passes, so that threads have to meet there."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from contraflow.compiler.kernel import READS, WRITES
from contraflow.compiler.plan import KernelStep, Slot

TOUCHES = READS + WRITES  # modes of operands that lie in memory


class _Touched:
    """The memory that kernels read, or write: slots of the caller, and ranges of the arena."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        self._slots = slots
        self._given: set[int] = set()
        self._starts: list[int] = []  # of the ranges, which do not touch each other, in order
        self._stops: list[int] = []

    def add(self, numbers: Iterable[int]) -> None:
        """Note slots that one more kernel touches."""
        for number in numbers:
            slot = self._slots[number]
            if slot.kind != "temp":
                self._given.add(number)
            elif slot.numel:
                start, stop = slot.offset, slot.offset + slot.nbytes
                first, last = bisect_left(self._stops, start), bisect_right(self._starts, stop)
                if first < last:
                    start, stop = min(start, self._starts[first]), max(stop, self._stops[last - 1])
                self._starts[first:last], self._stops[first:last] = [start], [stop]

    def meets(self, numbers: Iterable[int]) -> bool:
        """Whether any memory of these slots is touched."""
        for number in numbers:
            slot = self._slots[number]
            if slot.kind != "temp":
                if number in self._given:
                    return True
            elif slot.numel:
                behind = bisect_right(self._stops, slot.offset)
                if behind < len(self._starts) and self._starts[behind] < slot.offset + slot.nbytes:
                    return True
        return False


def barriers(steps: Sequence[KernelStep], slots: Sequence[Slot]) -> list[bool]:
    """After which kernels threads have to meet: before the next one that touches what they wrote,
    or writes what they touched. Different slots given by the caller do not overlap."""
    result: list[bool] = []
    touched, written = _Touched(slots), _Touched(slots)
    for step in steps:
        touches, writes = [], []
        for binding, operand in zip(step.bindings, step.call.kernel.operands):
            if operand.mode in TOUCHES:
                touches.append(binding.slot)
                if operand.mode in WRITES:
                    writes.append(binding.slot)
        if written.meets(touches) or touched.meets(writes):
            result[-1] = True
            touched, written = _Touched(slots), _Touched(slots)
        result.append(False)
        touched.add(touches)
        written.add(writes)
    return result
