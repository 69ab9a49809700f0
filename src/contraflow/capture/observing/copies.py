"""Copies of the dicts and lists of modules and optimizers, which a failed recording puts back.

Code of the library registers parameters, hooks, groups and state without being observed. These
changes stay when the recording becomes a program; when it fails, all of them are undone.
"""

from __future__ import annotations

from collections import deque
from itertools import chain, repeat
from typing import Any

from contraflow.capture.rewriting.library import is_ours
from contraflow.capture.state.writes import copied

_KEPT = frozenset(["param_groups", "state", "defaults"])  # beside names that begin with "_"
_PLAIN = (dict, list, set)
# Classes of the library's by the one of Python's own that they extend: modules have many of few.
_extending: dict[type, type] = {kind: kind for kind in _PLAIN}


class ComponentCopies:
    """Copies of the dicts and lists of modules and optimizers, until a recording ends."""

    def __init__(self) -> None:
        self._seen: dict[int, Any] = {}
        # Containers and what they hold, by the class of Python's own that keeps it.
        self._kept: dict[type, tuple[list[Any], list[Any]]] = {kind: ([], []) for kind in _PLAIN}

    def keep(self, own: dict[str, Any]) -> None:
        """Note what an object has among its attributes."""
        self._keep(own, dict)
        for name, value in own.items():
            if issubclass(type(value), _PLAIN) and (name.startswith("_") or name in _KEPT):
                self._keep_inside(value)

    def _keep_inside(self, x: Any) -> None:
        kind = type(x)
        plain = _extending.get(kind) or _extended(kind)
        if plain is None or id(x) in self._seen:
            return
        for value in dict.values(x) if plain is dict else x:
            if issubclass(type(value), _PLAIN):
                self._keep_inside(value)
        self._keep(x, plain)
        if kind is not plain and hasattr(x, "__dict__"):
            self._keep(x.__dict__, dict)

    def _keep(self, x: Any, kind: type) -> None:
        self._seen[id(x)] = x
        containers, contents = self._kept[kind]
        containers.append(x)
        contents.append(copied(x))

    def put_back(self) -> None:
        """Let all hold again what they held: calls of C alone, which no interrupt ends halfway."""
        dicts, lists, sets = (self._kept[kind] for kind in _PLAIN)
        calls = chain(
            map(dict.clear, dicts[0]), map(dict.update, *dicts),
            map(list.__setitem__, lists[0], repeat(slice(None)), lists[1]),
            map(set.clear, sets[0]), map(set.update, *sets),
        )  # fmt: skip
        deque(calls, 0)


def _extended(kind: type) -> type | None:
    """The class of Python's own that a class of the library's extends, None for others."""
    if not is_ours(kind):
        return None
    _extending[kind] = next(k for k in _PLAIN if issubclass(kind, k))
    return _extending[kind]
