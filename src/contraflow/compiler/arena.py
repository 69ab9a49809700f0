"""Places of temporaries, by lifetime: disjoint in one arena, or in different arenas."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from contraflow import thresholds


class Temporary(NamedTuple):
    """Memory that is needed from one step up to another, both included."""

    born: int
    dies: int
    nbytes: int


def lay_out(temporaries: Sequence[Temporary], alignment: int) -> tuple[list[int], int]:
    """The offset of each temporary, and the bytes that all of them need."""
    fit = _fit_largest_first if len(temporaries) <= thresholds.best_fit_values else _fit_in_order
    offsets = fit(temporaries, alignment)
    return offsets, max((at + t.nbytes for at, t in zip(offsets, temporaries)), default=0)


def lay_apart(temporaries: Sequence[Temporary]) -> tuple[list[int], list[int]]:
    """The arena of each temporary, none of which holds two at the same time, and their sizes.

    Each takes the smallest free arena that is large enough, or else the largest, which grows.
    """
    numbers = [0] * len(temporaries)
    sizes: list[int] = []
    free: list[tuple[int, int]] = []  # (size, arena) in order
    ends: list[tuple[int, int]] = []  # a heap of (the step at which one dies, its arena)
    for i in sorted(range(len(temporaries)), key=lambda i: temporaries[i].born):
        born, dies, nbytes = temporaries[i]
        while ends and ends[0][0] < born:
            _, arena = heappop(ends)
            insort(free, (sizes[arena], arena))
        if free:
            _, arena = free.pop(min(bisect_left(free, (nbytes, 0)), len(free) - 1))
            sizes[arena] = max(sizes[arena], nbytes)
        else:
            arena = len(sizes)
            sizes.append(nbytes)
        numbers[i] = arena
        heappush(ends, (dies, arena))
    return numbers, sizes


def _aligned(n: int, alignment: int) -> int:
    return -(-n // alignment) * alignment


def _fit_largest_first(temporaries: Sequence[Temporary], alignment: int) -> list[int]:
    """First fit by size: the largest first, each at the lowest offset free while it lives."""
    offsets = [0] * len(temporaries)
    placed: list[tuple[int, int, int, int]] = []  # start, stop, birth and death, in order
    for number in sorted(range(len(temporaries)), key=lambda i: -temporaries[i].nbytes):
        born, dies, nbytes = temporaries[number]
        place = 0
        for start, stop, birth, death in placed:
            if birth <= dies and death >= born:
                if start - place >= nbytes:
                    break
                if stop > place:
                    place = stop
        offsets[number] = place
        insort(placed, (place, _aligned(place + nbytes, alignment), born, dies))
    return offsets


class _Gaps:
    """Ranges of bytes that are free, none of which touches another."""

    def __init__(self) -> None:
        self.top = 0  # all from here on is free
        self._sizes: list[tuple[int, int]] = []  # (size, start) in order
        self._stops: dict[int, int] = {}  # by start
        self._starts: dict[int, int] = {}  # by stop

    def _add(self, start: int, stop: int) -> None:
        insort(self._sizes, (stop - start, start))
        self._stops[start], self._starts[stop] = stop, start

    def _remove(self, start: int) -> int:
        stop = self._stops.pop(start)
        del self._starts[stop]
        self._sizes.pop(bisect_left(self._sizes, (stop - start, start)))
        return stop

    def take(self, size: int) -> int:
        """The start of a range that is no longer free: in the smallest gap, or at the top."""
        fitting = bisect_left(self._sizes, (size, 0))
        if fitting < len(self._sizes):
            _, start = self._sizes[fitting]
            stop = self._remove(start)
            if stop > start + size:
                self._add(start + size, stop)
            return start
        start = self._starts.get(self.top, self.top)
        if start < self.top:
            self._remove(start)
        self.top = start + size
        return start

    def give(self, start: int, size: int) -> None:
        """A range is free again."""
        stop = start + size
        if stop in self._stops:
            stop = self._remove(stop)
        if start in self._starts:
            start = self._starts[start]
            self._remove(start)
        self._add(start, stop)


def _fit_in_order(temporaries: Sequence[Temporary], alignment: int) -> list[int]:
    """Best fit in order of birth: each in the smallest gap that is free then."""
    offsets = [0] * len(temporaries)
    births: dict[int, list[int]] = defaultdict(list)
    deaths: dict[int, list[int]] = defaultdict(list)
    for number, (born, dies, nbytes) in enumerate(temporaries):
        if nbytes:
            births[born].append(number)
            deaths[dies].append(number)
    gaps = _Gaps()
    for step in sorted({*births, *deaths}):
        for number in sorted(births[step], key=lambda i: -temporaries[i].nbytes):
            offsets[number] = gaps.take(_aligned(temporaries[number].nbytes, alignment))
        for number in deaths[step]:
            gaps.give(offsets[number], _aligned(temporaries[number].nbytes, alignment))
    return offsets
