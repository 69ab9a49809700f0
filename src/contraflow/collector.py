"""The garbage collector of Python: objects that will stay are made old without a walk over them.

A collection of the youngest generation visits each of its objects, to find that all of those that
were imported or recorded are still needed: milliseconds for a few ten thousand. `WeakList` is a
list of objects that it does not keep alive.
"""

from __future__ import annotations

import gc
import weakref
from operator import call
from typing import Generic, TypeVar

from contraflow import thresholds

T = TypeVar("T")

# More objects than Python freezes itself, fewer than anyone else can: 3.12 keeps some hundred that
# never go away from its collector; `gc.freeze` takes all there are, tens of thousands.
FROZEN_BY_PYTHON = 5000

_unvisited = 0
_frozen_by_others = False


def make_old() -> bool:
    """Make all objects part of the oldest generation, unless somebody has frozen objects, which
    must stay so."""
    global _frozen_by_others
    # Counting walks over all that are frozen, so that they are counted until there are many.
    if _frozen_by_others or gc.get_freeze_count() >= FROZEN_BY_PYTHON:
        _frozen_by_others = True
        return False
    tuple(map(call, (gc.freeze, gc.unfreeze)))  # in C: an interrupt between them would freeze all
    return True


def keep_young() -> None:
    """Make objects old that were made since the last collection and will stay.

    Garbage among them is found by the next full collection. Python counts towards that what its own
    collections make old; this counts for itself.
    """
    global _unvisited
    _unvisited += gc.get_count()[0]
    if _unvisited > thresholds.unvisited_objects:
        _unvisited = 0
        gc.collect()
    elif not make_old():
        gc.collect(0)


class WeakList(Generic[T]):
    """Objects in the order in which they were added, as long as somebody else holds them."""

    __slots__ = ("_refs", "_most")

    def __init__(self) -> None:
        self._refs: list[weakref.ref[T]] = []
        self._most = 64  # references, before those whose objects are gone are left out

    def add(self, made: T) -> None:
        """Note an object."""
        self._refs.append(weakref.ref(made))
        if len(self._refs) > self._most:
            self._refs = [ref for ref in self._refs if ref() is not None]
            self._most = 64 + 2 * len(self._refs)

    def alive(self) -> list[T]:
        """The objects that still exist."""
        return [made for made in [ref() for ref in self._refs] if made is not None]

    def __len__(self) -> int:
        return len(self._refs)
