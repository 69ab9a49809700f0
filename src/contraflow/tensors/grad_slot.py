"""Blocks: memory filled by a program, which a `.grad` slot may hold in place of a tensor.

A gradient of a compiled step stays a `Block` until somebody looks at it. Looking at it, or
replacing it, gives notice, so that the next replay fills other memory.
"""

from __future__ import annotations

from typing import Any

from contraflow import threads


class Notice:
    """Tells whether somebody has looked at blocks, or put something else in their place."""

    __slots__ = ("given",)

    def __init__(self) -> None:
        self.given = True


_NOBODY = Notice()  # of blocks that no program waits for


# For `.grad` slots: a slot is changed, and notice given, in the same moment.
slots_lock = threads.recursive_lock()


class Block:
    """Memory that a program fills: an array, its address, and the notice for those who look."""

    __slots__ = ("array", "address", "notice")

    def __init__(self, array: Any, address: int = 0) -> None:
        self.array, self.address, self.notice = array, address, _NOBODY
