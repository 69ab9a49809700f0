"""Copies of the dicts and lists of modules and optimizers, which a failed recording puts back.

Code of the library registers parameters, hooks, groups and state without being observed. These
changes stay when the recording becomes a program; when it fails, all of them are undone.
"""

from __future__ import annotations

from typing import Any

from contraflow.capture.rewriting.library import is_ours
from contraflow.capture.state.writes import copied, refills, undoing

_KEPT = frozenset(["param_groups", "state", "defaults"])  # beside names that begin with "_"
_PLAIN = frozenset([dict, list, set])


class ComponentCopies:
    """Copies of the dicts and lists of modules and optimizers, until a recording ends."""

    def __init__(self) -> None:
        self._seen: dict[int, Any] = {}
        # Calls that put back what was there, to be taken from the end; None stands before them.
        self._calls: list[Any] = [None]

    def keep(self, own: dict[str, Any]) -> None:
        """Note what an object has among its attributes."""
        self._keep(own)
        for name, value in own.items():
            if name.startswith("_") or name in _KEPT:
                self._keep_inside(value)

    def _keep_inside(self, x: Any) -> None:
        kind = type(x)
        if id(x) in self._seen or not (kind in _PLAIN or is_ours(kind)):
            return
        if issubclass(kind, (dict, list, set)):
            for value in dict.values(x) if issubclass(kind, dict) else x:
                self._keep_inside(value)
            self._keep(x)
            if hasattr(x, "__dict__"):
                self._keep(x.__dict__)

    def _keep(self, x: Any) -> None:
        self._seen[id(x)] = x
        self._calls += reversed(refills(x, copied(x)))

    def put_back(self) -> None:
        """Let all hold again what they held: calls of C alone, which no interrupt ends halfway."""
        undoing(self._calls)()
