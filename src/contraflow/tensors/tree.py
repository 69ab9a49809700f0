"""Nested containers of tensors: taken apart into a flat list, and put together again."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable
from typing import Any


def map_leaves(function: Callable[[Any], Any], x: Any) -> Any:
    """The same containers (tuples, lists, dicts, dataclasses) around `function` of what they hold.

    >>> map_leaves(lambda v: v + 1, {"a": (1, 2), "b": [3]})
    {'a': (2, 3), 'b': [4]}
    """
    if isinstance(x, (tuple, list)):
        items = [map_leaves(function, item) for item in x]
        return type(x)(*items) if hasattr(x, "_fields") else type(x)(items)
    if isinstance(x, dict):
        pairs = ((k, map_leaves(function, v)) for k, v in x.items())
        return dict(pairs) if isinstance(x, defaultdict) else type(x)(pairs)
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        made = object.__new__(type(x))
        for field in dataclasses.fields(x):
            value = map_leaves(function, getattr(x, field.name))
            object.__setattr__(made, field.name, value)
        return made
    return function(x)


def leaves_of(x: Any) -> list[Any]:
    """What nested containers hold, in order.

    >>> leaves_of({"a": (1, 2), "b": [3]})
    [1, 2, 3]
    """
    found: list[Any] = []
    map_leaves(found.append, x)
    return found


def fill(x: Any, leaves: list[Any]) -> Any:
    """The containers of `x` around other leaves.

    >>> fill({"a": (1, 2)}, ["x", "y"])
    {'a': ('x', 'y')}
    """
    rest = iter(leaves)
    return map_leaves(lambda _: next(rest), x)


def exact(value: Any) -> Any:
    """A number or a text as part of a key: 0.0 is not -0.0, and NaN is NaN."""
    return value.hex() if type(value) is float else value
