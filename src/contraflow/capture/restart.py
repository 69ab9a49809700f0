"""Why a recording starts again: it has found out that more must be an input, or a constant."""

from __future__ import annotations

from contraflow.capture.state.places import Place


class PlacesToCarry(Exception):
    """The function reads what is at some places and then changes it: they are inputs."""

    def __init__(self, places: list[Place]) -> None:
        super().__init__(places)
        self.places = places


class NumbersToFix(Exception):
    """The function needs the values of some numbers among its arguments."""

    def __init__(self, leaves: set[int]) -> None:
        super().__init__(leaves)
        self.leaves = leaves  # positions among the leaves of the arguments
