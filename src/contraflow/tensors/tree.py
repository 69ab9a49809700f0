"""Pytrees: nested containers taken apart, and put together again around other values.

`parts` says what a container holds, `like` and `bare` make another one. All code that walks through
containers of tensors uses these, and adds what it needs:

- `map_leaves` (`func`, checkpoints, hooks, autocast): lists, tuples, dicts and dataclasses are
  containers, and everything else is a leaf. A container is made by its class.
- Samples of datasets (`data/collate.py`): any Mapping is a container, a dataclass is a leaf, and a
  tuple without names becomes a list, all as in PyTorch.
- Files (`serialize/structure.py`): any Mapping, of which the classes that a file knows come back; a
  tuple with names comes back as a plain one. Leaves are what a file can hold, anything else is
  refused.
- Compiled functions (`capture/state/trees.py`): deques, sets, slices and objects that were made
  around tensors too. Leaves are tensors, arrays and numbers, and everything else is part of the
  structure, which can be compared and hashed. Containers are made `bare`: a replay runs no code of
  the user's.

Dicts keep their own order, and two with the same keys in another order are two structures. A leaf
that is found twice is two leaves; that two results of a compiled function are one tensor, and that
two tensors in a file share memory, is for those modules to note. A container found twice becomes
two, except in the arguments of a compiled function and in what it leaves behind
(`capture/state/trees.py`, `capture/state/made.py`).
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from contraflow import threads


def parts(x: Any, mappings: type = dict) -> list[tuple[Any, Any]] | None:
    """The values in a container, each with its position, key or field; None for a leaf.

    `mappings` are those that count as containers.

    >>> parts({"a": 1}), parts([2]), parts(3)
    ([('a', 1)], [(0, 2)], None)
    """
    if isinstance(x, (tuple, list)):
        return list(enumerate(x))
    if isinstance(x, mappings):
        return list(x.items())  # type: ignore[attr-defined]
    if hasattr(type(x), "__dataclass_fields__"):
        return [(name, getattr(x, name)) for name in _field_names(x)]
    return None


def _field_names(x: Any) -> list[str]:
    """The names of the fields of a dataclass."""
    return [field.name for field in threads.imported("dataclasses").fields(x)]


def like(x: Any, values: Sequence[Any]) -> Any:
    """A container like `x` around other values, made by its class; a dataclass by its fields.

    >>> like({"a": 1, "b": 2}, [3, 4])
    {'a': 3, 'b': 4}
    """
    kind: Any = type(x)
    if isinstance(x, (tuple, list)):
        return kind(*values) if hasattr(x, "_fields") else kind(values)
    if isinstance(x, defaultdict):  # whose classes seldom take what a dict is made of
        return bare(kind, list(zip(x, values)), x.default_factory)
    if isinstance(x, Mapping):
        return kind(dict(zip(x, values)))
    return with_fields(kind, zip(_field_names(x), values))


def with_fields(kind: type, values: Iterable[tuple[str, Any]]) -> Any:
    """An object of a class with these attributes, made without its code."""
    made: Any = kind.__new__(kind) if kind is SimpleNamespace else object.__new__(kind)
    for name, value in values:
        object.__setattr__(made, name, value)
    return made


def with_attributes(container: Any, values: Iterable[tuple[str, Any]]) -> Any:
    """A container, whose class is a user's, with these attributes and no others."""
    container.__dict__.clear()
    container.__dict__.update(values)
    return container


def bare(kind: Any, values: Sequence[Any], extra: Any = None) -> Any:
    """A container of a class around values, or pairs for a dict, made without the class's code.

    `extra` is the longest length of a deque and the default of a defaultdict.
    """
    if issubclass(kind, tuple):
        return tuple.__new__(kind, values)
    if kind is deque:
        return deque(values, extra)
    if kind is slice:
        return slice(*values)
    if not issubclass(kind, (list, dict)):
        return kind(values)
    made = kind.__new__(kind)
    if issubclass(kind, defaultdict):
        made.default_factory = extra
    if issubclass(kind, list):
        list.extend(made, values)
    else:
        own: Any = plain_type(kind)
        for key, value in values:
            own.__setitem__(made, key, value)
    return made


_KEEPERS = (OrderedDict, dict, list, tuple, deque, set, frozenset, bytearray)


def plain_type(kind: type) -> type:
    """The class of Python's own that keeps the items of containers of a class."""
    if kind in _KEEPERS:  # as are most; guards on containers ask at every call
        return kind
    return next((base for base in _KEEPERS if issubclass(kind, base)), kind)


def is_exact(kind: type) -> bool:
    """Whether containers of a class have no code of a user's."""
    return plain_type(kind) is kind


def length_of(container: Any) -> int:
    """The length of a container; code of a user's container class does not run."""
    kind: Any = plain_type(type(container))
    return int(kind.__len__(container))


def elements_of(container: Any) -> Iterator[Any]:
    """The elements of a container, or its keys, likewise."""
    kind: Any = plain_type(type(container))
    found: Iterator[Any] = kind.__iter__(container)
    return found


def is_in(item: Any, container: Any) -> bool:
    """Whether a container holds something, likewise."""
    kind: Any = plain_type(type(container))
    return bool(kind.__contains__(container, item))


def map_leaves(function: Callable[[Any], Any], x: Any) -> Any:
    """The same containers (tuples, lists, dicts, dataclasses) around `function` of what they hold.

    >>> map_leaves(lambda v: v + 1, {"a": (1, 2), "b": [3]})
    {'a': (2, 3), 'b': [4]}
    """
    inside = parts(x)
    if inside is None:
        return function(x)
    return like(x, [map_leaves(function, value) for _, value in inside])


def leaves_of(x: Any) -> list[Any]:
    """The leaves of nested containers, in order.

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
