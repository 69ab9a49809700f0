"""Pytrees of arguments and results: a hashable structure and a flat list of leaves."""

from __future__ import annotations

import types
import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from itertools import count, repeat
from operator import itemgetter
from typing import Any

import numpy as np

from contraflow.autograd.store import Gradients
from contraflow.capture.rewriting.library import in_python
from contraflow.capture.state.places import Located, own_attributes
from contraflow.tensors.symbol import Symbol
from contraflow.tensors.tensor import Tensor
from contraflow.tensors.tree import bare, parts, with_attributes, with_fields

# The markers of leaves in a structure.
TENSOR, ARRAY, INT, FLOAT = "tensor", "array", "int", "float"
LOCATED = "located"  # something from before, by its place
KEY = "key"  # of a store of gradients: a tensor, or a place in the graph


# The structure of anything else is a tuple. It begins with the class of a plain container, or with
# one of these:
FIELDS = "fields"  # an object, by its class and its fields
VALUE = "value"  # an object that is part of the structure itself
OBJECT = "object"  # an object, by a weak reference
ATTRIBUTES = "attributes"  # a container, and the attributes that it has beside its items
PAIRS = "pairs"  # a dict with keys that are neither texts nor ints
# and with one of these where `made.py` has taken an object apart:
MADE = "made"  # an object, by a function that makes it of its parts
SHARED = "shared"  # an object that is found twice: a number, and its structure the first time

Inner = Callable[[Any, list[Any], bool], Any]  # takes apart what is in a container, as `flatten`
_NAMES = frozenset([str, int])  # keys of a dict that are told apart by their values


# Containers that cannot be part of a key, and what can be passed instead.
_UNKEYED = {set: "Pass a frozenset, or a sorted list.", bytearray: "Pass bytes, or a tensor."}


class NoStructure(Exception):
    """Says of what is in containers why they have no structure, as "a Path, which ..."."""

    def __init__(self, problem: str, remedy: str = "Pass what is needed of it.") -> None:
        super().__init__(problem)
        self.remedy = remedy  # where it is an argument


class SharedParts:
    """Takes containers apart of which some are found twice: the second place refers to the first by
    a number. All is taken apart two times, since numbers are for those alone that are met again."""

    def __init__(self) -> None:
        self._shared: dict[int, int] = {}  # numbers of what is met again
        self._met: dict[int, Any] = {}
        self._open: set[int] = set()

    def forget(self) -> None:
        """Begin again, with the numbers of what was met more than once."""
        self._met = {}

    def once(self, x: Any, describe: Callable[[], Any]) -> Any:
        """The structure of a container, which `describe` gives, or the number that it has."""
        key = id(x)
        if key in self._open:
            raise NoStructure("a container that contains itself")
        if key in self._met:
            return SHARED, self._shared.setdefault(key, len(self._shared))
        self._met[key] = x
        self._open.add(key)
        structure = describe()
        self._open.remove(key)
        return (SHARED, self._shared[key], structure) if key in self._shared else structure


class _SharedArguments(SharedParts):
    """The same for arguments."""

    def flatten(self, x: Any, leaves: list[Any], weak: bool = True) -> Any:
        """The structure of an argument, whose leaves go to `leaves`."""
        if not _is_one(x):
            return flatten(x, leaves, True, self.flatten)
        return self.once(x, lambda: flatten(x, leaves, True, self.flatten))


# Leaves, most of what containers hold.
_WHOLE = frozenset([Tensor, Symbol, int, float, bool, str, types.NoneType, np.ndarray])


def _is_one(x: Any) -> bool:
    """Whether something is taken apart, and told from another one that is equal."""
    if isinstance(x, (dict, list, deque, types.SimpleNamespace)):
        return True
    return type(x) not in _WHOLE and not isinstance(x, tuple) and parts(x) is not None


def flatten_arguments(args: Any, kwargs: Any, carried: Any, leaves: list[Any]) -> Any:
    """`flatten` with `weak` of all that a call is given; a container found twice is one."""
    given = args, kwargs, carried
    nested = [x for x in (*args, *kwargs.values(), *carried) if type(x) not in _WHOLE]
    if not nested or not finds_twice(nested):
        return flatten(given, leaves, weak=True)
    shared = _SharedArguments()
    shared.flatten(given, [])
    shared.forget()
    return shared.flatten(given, leaves)


def finds_twice(pending: list[Any]) -> bool:
    """Whether one of some containers, or of those in them, is found twice."""
    met: set[int] = set()
    for x in pending:  # which grows
        kind = type(x)
        if kind is not tuple and _is_one(x):
            if id(x) in met:
                return True
            met.add(id(x))
        if kind is dict:
            inside: Any = x.values()
        elif kind is list or kind is tuple:
            inside = x
        else:
            inside = _inside(x)
        pending += [item for item in inside if type(item) not in _WHOLE]
    return False


def _inside(x: Any) -> Any:
    """The values in a container of another class, or the fields of an object."""
    if isinstance(x, dict):
        return x.values()
    if isinstance(x, (tuple, list, deque)):
        return x
    return vars(x).values() if type(x) is types.SimpleNamespace else [v for _, v in parts(x) or ()]


def flatten(x: Any, leaves: list[Any], weak: bool = False, inner: Inner | None = None) -> Any:
    """The structure of nested containers; tensors, arrays, ints and floats go to `leaves`.

    With `weak` the structure does not keep objects alive that are equal to themselves only. `inner`
    takes apart what is found in containers; it is `flatten` itself if it is None.

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
    if inner is None:
        inner = flatten
    kind = type(x)
    if kind is tuple or kind is list:  # as `parts` has it, for the containers of every call
        return kind, tuple(map(inner, x, repeat(leaves), repeat(weak)))
    if kind is dict and _NAMES.issuperset(map(type, x)):
        return kind, tuple(zip(x, map(inner, x.values(), repeat(leaves), repeat(weak))))
    if kind is float or kind is int or kind is Symbol:
        leaves.append(x)
        return FLOAT if isinstance(x, float) else INT
    if isinstance(x, np.ndarray):
        leaves.append(x)
        return ARRAY
    if kind is Located:
        leaves.append(x)
        return LOCATED
    own = None if weak else getattr(x, "__dict__", None)
    if own and isinstance(x, (tuple, list, dict)):
        container = _flatten_container(x, leaves, weak, inner)
        named = [(name, inner(value, leaves, weak)) for name, value in own.items()]
        return ATTRIBUTES, container, tuple(named)
    return _flatten_container(x, leaves, weak, inner)


def _flatten_container(x: Any, leaves: list[Any], weak: bool, inner: Inner) -> Any:
    """The structure of containers and objects that calls seldom have."""
    kind = type(x)
    if isinstance(x, (tuple, list)):
        return kind, tuple(inner(item, leaves, weak) for item in x)
    if kind is deque:
        return kind, tuple(inner(item, leaves, weak) for item in x), x.maxlen
    if kind in (set, frozenset) and not weak:
        return kind, tuple(inner(item, leaves, weak) for item in x)
    if kind is slice:
        return kind, tuple(inner(item, leaves, weak) for item in (x.start, x.stop, x.step))
    if kind is Gradients:
        return kind, tuple(
            (tuple, (_flatten_key(key, leaves, weak), inner(gradient, leaves, weak)))
            for key, gradient in x.items()
        )
    if isinstance(x, dict):
        extra = (x.default_factory,) if isinstance(x, defaultdict) else ()
        if _NAMES.issuperset(map(type, x)):
            return kind, tuple((k, inner(v, leaves, weak)) for k, v in x.items()), *extra
        pairs = tuple(
            (tuple, (_flatten_name(key, leaves, weak), inner(value, leaves, weak)))
            for key, value in x.items()
        )
        return PAIRS, kind, pairs, *extra
    named = parts(x)
    if kind is types.SimpleNamespace or (named is None and not weak and _is_made(x)):
        named = list(attributes_of(x))
    if named is not None:
        return FIELDS, kind, tuple((name, inner(value, leaves, weak)) for name, value in named)
    return _flatten_object(x, weak)


def _flatten_name(key: Any, leaves: list[Any], weak: bool) -> Any:
    """A key of a dict. Tensors are leaves; any other key is part of the structure."""
    if isinstance(key, Tensor):
        leaves.append(key)
        return TENSOR
    if type(key) is tuple:
        return tuple, tuple(_flatten_name(item, leaves, weak) for item in key)
    return _flatten_object(key, weak)


def _flatten_object(x: Any, weak: bool) -> Any:
    """Something that is part of the structure itself."""
    kind = type(x)
    if weak and getattr(kind, "__hash__", None) is None and _is_whole(kind):
        return OBJECT, kind, Itself(x)
    for unkeyed, remedy in _UNKEYED.items():
        if weak and issubclass(kind, unkeyed):
            raise NoStructure(
                f"a {kind.__name__}, which can change and cannot be part of the key of a call",
                remedy,
            )
    try:
        hash(x)
    except TypeError:
        raise NoStructure(
            f"a {kind.__name__}, which is neither a tensor, an array, a container of these, nor "
            f"hashable"
        ) from None
    if weak and getattr(kind, "__hash__", None) is object.__hash__ and kind.__weakrefoffset__:
        return OBJECT, kind, weakref.ref(x)
    return VALUE, kind, x  # with its type: 1.0 and True are equal and not the same argument


def _is_made(x: Any) -> bool:
    """Whether an object was made around what was recorded, and has to be made anew."""
    if isinstance(x, type) or type(x).__module__.startswith("contraflow."):
        return False
    plain = getattr(type(x), "__new__", None) is object.__new__
    return plain and any(_holds_recorded(value) for _, value in attributes_of(x))


def attributes_of(x: Any) -> Iterator[tuple[str, Any]]:
    """The attributes that an object keeps itself, in slots too; no code of its class runs."""
    for base in type(x).__mro__:
        for name, slot in base.__dict__.items():
            if type(slot) is types.MemberDescriptorType and name != "__dict__":
                try:
                    yield name, slot.__get__(x)
                except AttributeError:
                    continue
    yield from own_attributes(x).items()


def _is_whole(kind: type) -> bool:
    """Whether a structure may refer to an object weakly, while guards note what is read of it."""
    if not in_python(kind) or issubclass(kind, (set, bytearray)):
        return False
    return kind.__weakrefoffset__ != 0  # less than 0 where Python itself manages it


class Itself(weakref.ref[Any]):
    """A weak reference to an object that cannot be hashed: equal to others to the same one."""

    __slots__ = ("address",)

    address: int

    def __new__(cls, x: Any) -> Itself:
        self = super().__new__(cls, x)
        self.address = id(x)
        return self

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is Itself and self() is other() is not None)

    def __hash__(self) -> int:
        return hash(self.address)


def _holds_recorded(x: Any, depth: int = 3) -> bool:
    """Whether something is, or holds, a value that is another one in each call."""
    if isinstance(x, Tensor) or type(x) is Symbol or type(x) is Located:
        return True
    inside = x.values() if isinstance(x, dict) else x if isinstance(x, (tuple, list)) else ()
    return depth > 0 and any(_holds_recorded(v, depth - 1) for v in inside)


def _flatten_key(key: Any, leaves: list[Any], weak: bool) -> Any:
    """A key of a store. One that is a place in the graph goes to `leaves` too, unless `weak`."""
    if weak and not isinstance(key, Tensor):
        node, index = key if isinstance(key, tuple) else (key, 0)
        return tuple, ((OBJECT, type(node), weakref.ref(node)), (VALUE, int, index))
    leaves.append(key)
    return KEY


def builder(structure: Any) -> Callable[[list[Any]], Any]:
    """A function that puts the containers of a structure around new leaves.

    It is written out, since a replay builds its result with it.
    """
    if structure == TENSOR:
        return itemgetter(0)
    constants: dict[str, Any] = {}

    def name(x: Any) -> str:
        constants[f"x{len(constants)}"] = x
        return f"x{len(constants) - 1}"

    text = source_of(structure, (f"leaves[{i}]" for i in count()), name)
    function: Callable[[list[Any]], Any] = eval(f"lambda leaves: {text}", constants)
    return function


def source_of(structure: Any, leaves: Iterator[str], name: Callable[[Any], str]) -> str:
    """The result of `rebuild` as an expression, of leaves that are expressions.

    `name` names an object. The structure is one of results, which has no weak references.
    """
    if isinstance(structure, str):
        return next(leaves)
    kind, *rest = structure
    if kind == VALUE:
        return name(rest[1])
    if kind == SHARED:
        variable = f"shared{rest[0]}"
        inner = rest[1:]
        return f"({variable} := {source_of(inner[0], leaves, name)})" if inner else variable
    inside = [(key, source_of(part, leaves, name)) for key, part in inside_of(structure)]
    items = "".join(f"{item}, " for _, item in inside)
    if kind is tuple:
        return f"({items})"
    if kind is list:
        return f"[{items}]"
    pairs = [(repr(key) if type(key) is str else name(key), item) for key, item in inside]
    if kind is dict:
        return f"{{{''.join(f'{key}: {item}, ' for key, item in pairs)}}}"
    own = inside[0][1] if kind == ATTRIBUTES else None  # the container itself, without them
    named = f"[{''.join(f'({key}, {item}), ' for key, item in pairs[own is not None :])}]"
    if kind == MADE:
        return f"{name(rest[0])}({items})"
    if kind == FIELDS:
        return f"{name(with_fields)}({name(rest[0])}, {named})"
    if kind == ATTRIBUTES:
        return f"{name(with_attributes)}({own}, {named})"
    if kind == PAIRS:
        kind, *rest = rest
        named = f"[{items}]"
    values = named if issubclass(kind, dict) else f"[{items}]"
    return f"{name(bare)}({name(kind)}, {values}, {', '.join(map(name, rest[1:]))})"


def rebuild(structure: Any, leaves: Iterator[Any], shared: dict[int, Any] | None = None) -> Any:
    """The containers of a structure around new leaves; those that it shares with others are there,
    or are put there."""
    if isinstance(structure, str):
        return next(leaves)
    shared = {} if shared is None else shared
    kind, *rest = structure
    if kind == SHARED:
        for _, part in inside_of(structure):
            shared[rest[0]] = rebuild(part, leaves, shared)
        return shared[rest[0]]
    if kind == VALUE:
        return rest[1]
    if kind == OBJECT:
        found = rest[1]()
        if found is None:
            raise ReferenceError(f"compile: an argument of type {rest[0].__name__} is gone.")
        return found
    inside = [(key, rebuild(part, leaves, shared)) for key, part in inside_of(structure)]
    if kind == FIELDS:
        return with_fields(rest[0], inside)
    if kind == ATTRIBUTES:
        return with_attributes(inside[0][1], inside[1:])
    if kind == PAIRS:
        return bare(rest[0], [pair for _, pair in inside], *rest[2:])
    values = inside if issubclass(kind, dict) else [value for _, value in inside]
    return bare(kind, values, *rest[1:])


def inside_of(structure: Any) -> Sequence[tuple[Any, Any]]:
    """The structures inside that of a container, each with its position, key or field."""
    kind, *rest = structure
    if kind in (VALUE, OBJECT):
        return ()
    if kind == FIELDS:
        return rest[1]  # type: ignore[no-any-return]
    if kind == SHARED:
        return [(None, part) for part in rest[1:]]
    if kind in (MADE, PAIRS):
        return list(enumerate(rest[1]))
    if kind == ATTRIBUTES:
        return (None, rest[0]), *rest[1]
    return rest[0] if issubclass(kind, dict) else list(enumerate(rest[0]))


def holds_shared(structure: Any) -> bool:
    """Whether a container is found twice in a structure."""
    if isinstance(structure, str):
        return False
    return structure[0] == SHARED or any(holds_shared(part) for _, part in inside_of(structure))


def markers(structure: Any) -> list[str]:
    """The markers of the leaves of a structure, in order."""
    if isinstance(structure, str):
        return [structure]
    return [marker for _, part in inside_of(structure) for marker in markers(part)]


def leaf_names(structure: Any, name: str) -> Iterator[str]:
    """The name of each leaf of a structure, where the whole is called `name`.

    >>> list(leaf_names(flatten({"a": (1, "text"), "b": [2.5]}, []), "x"))
    ["x['a'][0]", "x['b'][0]"]
    """
    if isinstance(structure, str):
        yield name
        return
    kind = structure[0]
    for key, part in inside_of(structure):
        each = name if kind == SHARED else f"{name}.{key}" if kind == FIELDS else f"{name}[{key!r}]"
        yield from leaf_names(part, each)
