"""Hooks: the handle that removes one."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any

from contraflow.operation.context import state
from contraflow.tensors.epoch import Structure

Hook = Callable[..., Any]
Hooks = dict[int, Any]

keys = itertools.count()  # older hooks have lower numbers


def hooks_in(*tables: Hooks | None) -> tuple[Any, ...]:
    """The hooks in some tables, in the order in which they run; None ends each table."""
    return tuple([hook for table in tables for hook in (*(table or {}).values(), None)])


class Handle:
    """Removes the hook that was registered with it."""

    def __init__(self, hooks: dict[int, Any], hook: Any) -> None:
        self._hooks = hooks
        self._key = next(keys)  # never used again: a stale handle removes nothing
        hooks[self._key] = hook

    def remove(self) -> None:
        """Remove the hook; doing so twice is harmless."""
        known = self._key in self._hooks  # a module's dict counts every pop as a change
        if known:
            state().context.remove_hook(self._key, self._hooks)
        if known and self._hooks.pop(self._key, None) is not None:
            self._removed()

    def _removed(self) -> None:
        # A compiled call in another thread looks when the epoch has moved: so it moves last.
        Structure.changed()

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *error: Any) -> None:
        self.remove()


class HookHandle(Handle):
    """Removes a hook of a module or an optimizer, whose structure changes by that."""

    def __init__(self, owner: Any, hooks: Hooks, hook: Any, prepend: bool = False) -> None:
        earlier = dict(hooks) if prepend else {}
        super().__init__(hooks, hook)
        for key, other in earlier.items():  # behind the new one, in their own order
            del hooks[key]
            hooks[key] = other
        self._owner = weakref.ref(owner)
        owner._restructured()

    def _removed(self) -> None:
        owner = self._owner()
        if owner is None:
            super()._removed()
        else:
            owner._restructured()
