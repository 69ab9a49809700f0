"""Conditions on Python's state as source text: a function that asks all of them at once.

It takes a fifth of the time of a loop over reads (`reads.py`), and writing it that of many loops.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

from contraflow.capture.state.places import Constant, Place
from contraflow.capture.state.reads import Read

# The errors of a place where nothing is: the long way decides then.
ABSENT = "(AttributeError, LookupError, TypeError, ValueError)"


class PlaceWriter:
    """Lines of a function that finds places, and what the names in them stand for.

    There `args` are the positional arguments of the call.
    """

    def __init__(self, reads: Sequence[Read]) -> None:
        self.scope: dict[str, Any] = {}
        self.lines: list[str] = []
        self._places: dict[Place, str] = {}
        self._parents = {getattr(read.place, "parent", None) for read in reads}

    def name(self, x: Any) -> str:
        """A name for an object."""
        name = f"x{len(self.scope)}"
        self.scope[name] = x
        return name

    def place(self, place: Place) -> str:
        """A variable that holds what is found at a place."""
        if type(place) is Constant:  # which has a name already
            return place.source(self)
        if place not in self._places:
            value = place.source(self)
            self._places[place] = f"p{len(self._places)}"
            self.lines.append(f"{self._places[place]} = {value}")
        return self._places[place]

    def value(self, place: Place) -> str:
        """The value at a place as an expression: a variable if other places are inside it."""
        return self.place(place) if place in self._parents else place.source(self)

    def compiled(self, name: str, text: Sequence[str]) -> Any:
        """A function of the text."""
        exec(builtins.compile("\n".join(text), f"<{name}>", "exec"), self.scope)
        return self.scope[name]


def holding(reads: Sequence[Read]) -> Callable[[Sequence[Any]], bool]:
    """A function of positional arguments that says whether all reads hold, if it can tell that."""
    writer = PlaceWriter(reads)
    for read in reads:
        condition = read.source(writer)
        writer.lines.append(f"if not ({condition}): return False")
    text = ["def holds(args):", "  try:", *(f"    {line}" for line in writer.lines or ["pass"])]
    text += [f"  except {ABSENT}:", "    return False", "  return True"]
    found: Callable[[Sequence[Any]], bool] = writer.compiled("holds", text)
    return found
