"""Blocks: memory filled by a program, which a `.grad` slot may hold in place of a tensor.

A gradient of a compiled step stays a `Block` until somebody looks at it. Looking at it, or
replacing it, gives notice, so that the next replay fills other memory.
"""

from __future__ import annotations

from typing import Any

from contraflow import threads


class Notice:
    """A flag: whether something has read or replaced the blocks that carry this notice."""

    __slots__ = ("given",)

    def __init__(self) -> None:
        self.given = True


_NOBODY = Notice()  # of blocks that no program waits for


# Held while a `.grad` slot changes, so that the change and its notice are one step.
slots_lock = threads.recursive_lock()


class Block:
    """Memory that a program fills: an array, its address, and the notice for those who look."""

    __slots__ = ("array", "address", "notice")

    def __init__(self, array: Any, address: int = 0) -> None:
        self.array, self.address, self.notice = array, address, _NOBODY
