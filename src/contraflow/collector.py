"""The garbage collector of Python: objects that will stay are made old without a walk over them.

A collection of the youngest generation visits each of its objects, to find that all of those that
were imported or recorded are still needed: milliseconds for a few ten thousand.
"""

from __future__ import annotations

import gc
from operator import call

from contraflow import thresholds

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
