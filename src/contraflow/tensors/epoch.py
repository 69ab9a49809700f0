"""The structure epoch: the count of changes that compiled functions notice."""

from __future__ import annotations

import functools
import types
from typing import Any, ClassVar


class Structure:
    """Counts changes that a compiled function must notice: parameters, hooks, modules.

    First comes the change, then the count: a call in between would see the new count and the old
    state, and never look again.
    """

    epoch = 0
    # Whether recordings observe the attributes of modules that they read, and guard on them.
    observed = True

    @classmethod
    def changed(cls) -> None:
        """Raise the epoch."""
        cls.epoch += 1


class Every:
    """The owner of hooks that are for every module, or for every optimizer.

    A recording treats it as a module that the function used.
    """

    known: ClassVar[list[Every]] = []
    _structure = 0

    def __init__(self) -> None:
        Every.known.append(self)

    def _restructured(self) -> None:
        self._structure += 1
        Structure.changed()


def names_attribute(kind: type, name: str) -> bool:
    """Whether code of contraflow's for objects of a class may read an attribute of theirs.

    All other attributes are the user's alone: recordings that read them guard on them.
    """
    return name in _named(kind)


@functools.cache
def _named(kind: type) -> frozenset[str]:
    found: set[str] = set()
    for base in kind.__mro__:
        if base.__module__.startswith("contraflow."):
            own = vars(base)
            # The base of all modules reads no attributes but its own, whose names begin so.
            named = {
                n for n in _names_in(own.values()) if "_restructured" not in own or n[0] == "_"
            }
            found |= named | set(own)
    return frozenset(found)


def _names_in(parts: Any) -> set[str]:
    """The names in the code of some functions and properties, and all texts that may be names."""
    found: set[str] = set()
    pending = list(parts)
    while pending:
        x = pending.pop()
        if isinstance(x, types.CodeType):
            found.update(x.co_names)
            pending += x.co_consts
        elif isinstance(x, str):
            found.add(x)
        elif isinstance(x, (tuple, list, dict)):
            pending += x
        elif isinstance(x, types.FunctionType):
            pending.append(x.__code__)
        elif isinstance(x, property):
            pending += (x.fget, x.fset, x.fdel)
        elif isinstance(x, (staticmethod, classmethod)):
            pending.append(x.__func__)
    return found - {""}
