"""Nested containers as a hashable structure and a flat list of leaves."""

from __future__ import annotations

import dataclasses
import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from itertools import count
from operator import itemgetter
from typing import Any

import numpy as np

from contraflow.autograd.store import Gradients
from contraflow.capture.places import Located, plain_type
from contraflow.errors import CaptureError
from contraflow.tensors.symbol import Symbol
from contraflow.tensors.tensor import Tensor

# What a structure has in the place of a leaf.
TENSOR, ARRAY, INT, FLOAT = "tensor", "array", "int", "float"
LOCATED = "located"  # something from before, by its place
KEY = "key"  # of a store of gradients: a tensor, or a place in the graph


def flatten(x: Any, leaves: list[Any], weak: bool = False) -> Any:
    """The structure of nested containers; tensors, arrays, ints and floats go to `leaves`.

    With `weak` the structure does not keep objects alive that are equal to themselves only.

    >>> leaves = []
    >>> flatten({"a": (1, "text"), "b": [2.5]}, leaves) == flatten(
    ...     {"a": (3, "text"), "b": [0.5]}, []
    ... )
    True
    >>> leaves
    [1, 2.5]
    """
    if isinstance(x, Tensor):
        leaves.append(x)
        return TENSOR
    kind = type(x)
    if kind is tuple or kind is list:
        return kind, tuple([flatten(item, leaves, weak) for item in x])
    if kind is float or kind is int or kind is Symbol:
        leaves.append(x)
        return FLOAT if isinstance(x, float) else INT
    if isinstance(x, np.ndarray):
        leaves.append(x)
        return ARRAY
    if kind is Located:
        leaves.append(x)
        return LOCATED
    if isinstance(x, (tuple, list)):
        return kind, tuple(flatten(item, leaves, weak) for item in x)
    if kind is deque:
        return kind, tuple(flatten(item, leaves, weak) for item in x), x.maxlen
    if kind in (set, frozenset) and not weak:
        return kind, tuple(flatten(item, leaves, weak) for item in x)
    if kind is slice:
        return kind, tuple(flatten(item, leaves, weak) for item in (x.start, x.stop, x.step))
    if kind is Gradients:
        return kind, tuple(
            (tuple, (_flatten_key(key, leaves, weak), flatten(gradient, leaves, weak)))
            for key, gradient in x.items()
        )
    if isinstance(x, dict):
        parts = tuple((k, flatten(v, leaves, weak)) for k, v in x.items())
        return (kind, parts, x.default_factory) if isinstance(x, defaultdict) else (kind, parts)
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        names = [f.name for f in dataclasses.fields(x)]
        return (
            "dataclass",
            kind,
            tuple((name, flatten(getattr(x, name), leaves, weak)) for name in names),
        )
    if not weak and _is_made(x):
        own = vars(x).items()
        return "dataclass", kind, tuple((name, flatten(v, leaves, weak)) for name, v in own)
    try:
        hash(x)
    except TypeError:
        raise CaptureError(
            f"compile: an argument or result of type {kind.__name__} is neither a tensor, an "
            f"array, a container of them, nor hashable. Pass what is needed of it."
        ) from None
    if weak and getattr(kind, "__hash__", None) is object.__hash__ and kind.__weakrefoffset__:
        return "object", kind, weakref.ref(x)
    return "value", kind, x  # with its type: 1.0 and True are equal and not the same argument


def _is_made(x: Any) -> bool:
    """Whether an object was made around what was recorded, and has to be made anew."""
    own = getattr(x, "__dict__", None)
    if isinstance(x, type) or type(own) is not dict or type(x).__module__.startswith("contraflow."):
        return False
    plain = getattr(type(x), "__new__", None) is object.__new__
    return plain and any(_varies(v) for v in own.values())


def _varies(x: Any, depth: int = 3) -> bool:
    if isinstance(x, Tensor) or type(x) is Symbol or type(x) is Located:
        return True
    inside = x.values() if isinstance(x, dict) else x if isinstance(x, (tuple, list)) else ()
    return depth > 0 and any(_varies(v, depth - 1) for v in inside)


def _flatten_key(key: Any, leaves: list[Any], weak: bool) -> Any:
    """A key of a store. One that is a place in the graph goes to `leaves` too, unless `weak`."""
    if weak and not isinstance(key, Tensor):
        node, index = key if isinstance(key, tuple) else (key, 0)
        return tuple, (("object", type(node), weakref.ref(node)), ("value", int, index))
    leaves.append(key)
    return KEY


def builder(structure: Any) -> Callable[[list[Any]], Any]:
    """A function that puts the containers of a structure around new leaves.

    It is written out for containers of Python's own, since a replay builds its result with it.
    """
    if structure == TENSOR:
        return itemgetter(0)
    constants: dict[str, Any] = {}

    def name(x: Any) -> str:
        constants[f"x{len(constants)}"] = x
        return f"x{len(constants) - 1}"

    text = written(structure, (f"leaves[{i}]" for i in count()), name)
    if text is None:
        return lambda leaves: rebuild(structure, iter(leaves))
    function: Callable[[list[Any]], Any] = eval(f"lambda leaves: {text}", constants)
    return function


def written(structure: Any, leaves: Iterator[str], name: Callable[[Any], str]) -> str | None:
    """Python's own containers of a structure around leaves, as an expression; None for others.

    `name` names an object.
    """
    if isinstance(structure, str):
        return next(leaves)
    kind, *rest = structure
    if kind == "value":
        return name(rest[1])
    if kind is not tuple and kind is not list:
        return None
    items = [written(part, leaves, name) for part in rest[0]]
    if None in items:
        return None
    inside = "".join(f"{item}, " for item in items)
    return f"({inside})" if kind is tuple else f"[{inside}]"


def rebuild(structure: Any, leaves: Iterator[Any]) -> Any:
    """The containers of a structure around new leaves."""
    if isinstance(structure, str):
        return next(leaves)
    kind, *rest = structure
    if kind == "value":
        return rest[1]
    if kind == "object":
        found = rest[1]()
        if found is None:
            raise ReferenceError(f"compile: an argument of type {rest[0].__name__} is gone.")
        return found
    if kind == "dataclass":
        made = object.__new__(rest[0])
        for name, part in rest[1]:
            object.__setattr__(made, name, rebuild(part, leaves))
        return made
    if issubclass(kind, dict):
        pairs = [(k, rebuild(part, leaves)) for k, part in rest[0]]
        if kind is Gradients:
            return kind(pairs)
        made = kind.__new__(kind)  # without the code of a user's class
        if issubclass(kind, defaultdict):
            made.default_factory = rest[1]
        plain_type(kind).update(made, pairs)  # type: ignore[attr-defined]
        return made
    items = [rebuild(part, leaves) for part in rest[0]]
    if kind is deque:
        return deque(items, rest[1])
    if kind is slice:
        return slice(*items)
    if issubclass(kind, tuple):
        return tuple.__new__(kind, items)
    if issubclass(kind, list):
        made = kind.__new__(kind)
        list.extend(made, items)
        return made
    return kind(items)


def leaf_names(structure: Any, name: str) -> Iterator[str]:
    """What each leaf of a structure is called, where the whole is called `name`.

    >>> list(leaf_names(flatten({"a": (1, "text"), "b": [2.5]}, []), "x"))
    ["x['a'][0]", "x['b'][0]"]
    """
    if isinstance(structure, str):
        yield name
        return
    kind, *rest = structure
    if kind in ("value", "object"):
        return
    if kind == "dataclass":
        inside = [(f"{name}.{key}", part) for key, part in rest[1]]
    elif issubclass(kind, dict) and kind is not Gradients:
        inside = [(f"{name}[{key!r}]", part) for key, part in rest[0]]
    else:
        inside = [(f"{name}[{i}]", part) for i, part in enumerate(rest[0])]
    for each, part in inside:
        yield from leaf_names(part, each)
