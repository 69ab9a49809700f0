"""`.grad` slots: what they hold, how it is read and how it is replaced.

A slot holds a tensor, nothing, or a `Block`: memory filled by a program. A gradient of a compiled
step stays a block until somebody looks at it. Looking at it, or replacing it, gives notice, so that
the next replay fills other memory. Only the functions here set `Tensor._slot`.
"""

from __future__ import annotations

from collections.abc import Iterable
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
    """Memory that a program fills: a buffer, its address, and the notice for those who look."""

    __slots__ = ("array", "address", "notice")

    def __init__(self, array: Any, address: int = 0) -> None:
        self.array, self.address, self.notice = array, address, _NOBODY


def look(owner: Any) -> Any:
    """The gradient in a tensor's slot, as a tensor: a block becomes one, with notice."""
    held = owner._slot
    if isinstance(held, Block):
        with slots_lock:
            held = owner._slot
            if isinstance(held, Block):
                held.notice.given = True
                held = owner._slot = owner.of_buffer(held.array, owner.storage.device)
    return held


def still_holds(owner: Any, left: Any) -> bool:
    """Whether a tensor's slot is as it was left, or a block that was left there was looked at."""
    held = owner._slot
    if held is left or held is None or type(left) is not Block:
        return held is left
    return type(held) is not Block and held.storage._data is left.array


def put(owner: Any, value: Any) -> None:
    """Put a tensor, a block or None into a tensor's slot.

    A block that is there gets notice, unless another of the same program takes its place. Notice
    comes first: one too many does no harm, and an interrupt may come in between.
    """
    with slots_lock:
        held = owner._slot
        if type(held) is Block and held.notice is not getattr(value, "notice", None):
            held.notice.given = True
        owner._slot = value


def put_blocks(blocks: Iterable[tuple[Any, Block]]) -> None:
    """Put blocks into the slots of their owners, as `put` does. The caller holds `slots_lock`."""
    for owner, block in blocks:
        held = owner._slot
        if type(held) is Block and held.notice is not block.notice:
            held.notice.given = True
        owner._slot = block
