"""Why a recording starts again: more of its surroundings must be an input, a constant, or whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from contraflow.capture.state.places import Place
from contraflow.tensors.host_scalar import HostScalar


class Attempt(NamedTuple):
    """The start of one recording of a call, as earlier recordings of it have found out."""

    fixed: frozenset[int]  # positions of leaves: numbers whose values are part of the key
    carried_places: Sequence[Place]  # whose values are inputs beside the arguments
    settled: bool  # no more places can be carried
    again: bool  # the function has run for this call before: it does not print again
    fills_caches: bool  # an `lru_cache` computes what it lacks outside of the recording
    fixed_cells: Sequence[HostScalar]  # whose numbers are constants, which are guarded


class PlacesToCarry(Exception):
    """The function reads what is at some places and then changes it: they are inputs."""

    def __init__(self, places: list[Place]) -> None:
        super().__init__(places)
        self.places = places


class PlacesToGuard(BaseException):
    """C has found containers that are inputs, not what stands for them. Not for users to catch."""

    def __init__(self, places: list[Place]) -> None:
        super().__init__(places)
        self.places = places


class CachesFilled(Exception):
    """An `lru_cache` lacked a result, and has it now: the next recording finds it there."""


class PartsSeen(Exception):
    """The function looks at more of an argument that is a part of a tensor than its elements."""


class CellsToFix(Exception):
    """The function needs the values of some numbers of optimizers."""

    def __init__(self, cells: set[HostScalar]) -> None:
        super().__init__(cells)
        self.cells = cells


class NumbersToFix(Exception):
    """The function needs the values of some numbers among its arguments."""

    def __init__(self, leaves: set[int]) -> None:
        super().__init__(leaves)
        self.leaves = leaves  # positions among the leaves of the arguments
