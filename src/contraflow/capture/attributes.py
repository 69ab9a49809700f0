"""The attributes that a function's code reads: `self.alpha`, `config.model.width`, `trainer.opt`.

They are found in its bytecode, from globals, closure cells and arguments on, through the methods
and functions of the user's that it calls. An attribute is looked up as it is stored; nothing that
an object computes is run.
"""

from __future__ import annotations

import dataclasses
import dis
import types
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from contraflow.structure import exact
from contraflow.tensor import Tensor

PLAIN = (bool, int, float, str, bytes, types.NoneType)  # compared by value
DEPTH = 8  # functions that call functions
_OURS = ("contraflow", "numpy", "builtins")  # packages whose modules do not change

Given = tuple[Sequence[Any], Mapping[str, Any]]  # the arguments of a call


class Root(NamedTuple):
    """Where a path begins: a global, a closure cell, an argument, or an object."""

    kind: str
    name: str
    holder: Any = None  # the globals, the cell, the number of the argument, a weak reference

    def get(self, given: Given) -> Any:
        """What is there in this call."""
        if self.kind == "global":
            return self.holder.get(self.name)
        if self.kind == "cell":
            return contents(self.holder)
        if self.kind == "object":
            return self.holder()
        args, kwargs = given
        return args[self.holder] if self.holder < len(args) else kwargs.get(self.name)

    def is_gone(self) -> bool:
        """Whether it was an object that is no more."""
        return self.kind == "object" and self.holder() is None


class Attribute(NamedTuple):
    """An attribute as a recording found it."""

    root: Root
    names: tuple[str, ...]
    expected: Any  # a value, or a weak reference to an object, or that object
    by: str

    def holds(self, given: Given) -> bool:
        """Whether it is the same in this call."""
        root, x = self.root, None
        x = contents(root.holder) if root.kind == "cell" else root.get(given)
        for name in self.names:
            try:  # most are kept by the object itself
                x = x.__dict__[name]
            except (AttributeError, KeyError):
                x = stored(x, name)
        if self.by == "weak":
            return x is self.expected()
        if self.by == "value":
            return type(x) is self.expected[0] and exact(x) == self.expected[1]
        return x is self.expected

    def is_own(self) -> bool:
        """Whether the objects on the way, none of them an argument, keep it themselves."""
        x = self.root.get(((), {}))
        for name in self.names:
            if name not in getattr(x, "__dict__", ()):
                return False
            x = x.__dict__[name]
        return True

    def __str__(self) -> str:
        return ".".join([self.root.name, *self.names])


def contents(cell: types.CellType) -> Any:
    """What a closure cell holds, None before it is assigned to."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


_MISSING = object()
_CONTAINERS = (tuple, list, dict, np.ndarray)


def stored(x: Any, name: str) -> Any:
    """An attribute as it is kept by an object, its class, or a module's registries."""
    own: Any = getattr(x, "__dict__", {})
    if name in own:
        return own[name]
    for kind in x.__mro__ if isinstance(x, type) else type(x).__mro__:
        if name in kind.__dict__:
            found = kind.__dict__[name]
            return getattr(x, name, _MISSING) if type(found) is _SLOT else found
    for registry in ("_parameters", "_buffers", "_modules"):
        if name in own.get(registry, ()):
            return own[registry][name]
    return _MISSING


_SLOT = types.MemberDescriptorType


class Reading(NamedTuple):
    """A function whose code is looked at, and where its first argument is found."""

    function: types.FunctionType
    receiver: tuple[Root, tuple[str, ...]] | None
    top: bool  # whose arguments are those of the call


def attributes_of(function: Any, instance: Any, given: Given) -> list[Attribute]:
    """The attributes that a function reads, or a method of an instance, as they are now."""
    if not isinstance(function, types.FunctionType):
        return []
    receiver = None if instance is None else (Root("object", "self", weakref.ref(instance)), ())
    return _explore(Reading(function, receiver, True), given)


def attributes_of_module(module: Any) -> list[Attribute]:
    """The attributes that the `forward` of a module reads, as they are now."""
    forward = getattr(type(module), "forward", None)
    if not isinstance(forward, types.FunctionType) or _is_ours(forward):
        return []
    root = Root("object", type(module).__name__, weakref.ref(module))
    return _explore(Reading(forward, (root, ()), False), ((), {}))


def _explore(start: Reading, given: Given) -> list[Attribute]:
    found: dict[tuple[Any, ...], Attribute] = {}
    seen: set[Any] = set()
    queue = [(start, 0)]
    while queue:
        reading, depth = queue.pop()
        for root, names in _paths(reading):
            for called in _follow(root, names, given, found):
                key = (called.function.__code__, called.receiver and _place(*called.receiver))
                if depth < DEPTH and key not in seen:
                    seen.add(key)
                    queue.append((called, depth + 1))
    return list(found.values())


def _place(root: Root, names: tuple[str, ...]) -> Any:
    return root.kind, root.name, id(root.holder), names


def _is_ours(function: Any) -> bool:
    module = str(getattr(function, "__module__", "") or "")
    return module.split(".")[0] in _OURS


def _follow(
    root: Root, names: tuple[str, ...], given: Given, found: dict[tuple[Any, ...], Attribute]
) -> Iterator[Reading]:
    """Note the attributes along a path; functions of the user's at its end are given."""
    x, receiver = root.get(given), None
    if root.kind == "argument" and (dataclasses.is_dataclass(x) or isinstance(x, _CONTAINERS)):
        return  # what they hold is part of the key, or an argument itself
    for length, name in enumerate(names, 1):
        if isinstance(x, Tensor) or type(x) in PLAIN:
            return  # tensors are guarded otherwise
        if isinstance(x, types.ModuleType) and x.__name__.split(".")[0] in _OURS:
            return
        own = name in getattr(x, "__dict__", ()) and not isinstance(x, type)
        x = stored(x, name)
        if isinstance(x, types.FunctionType) and _is_ours(x):
            return
        key = _place(root, names[:length])
        if key not in found:
            found[key] = Attribute(root, names[:length], *_expected(x))
        # A function that an object itself keeps is no method of it.
        receiver = None if own else (root, names[: length - 1])
    function = x.__func__ if isinstance(x, (types.MethodType, staticmethod, classmethod)) else x
    if isinstance(function, types.FunctionType) and not _is_ours(function):
        yield Reading(function, receiver if function is x else None, False)


def _expected(x: Any) -> tuple[Any, str]:
    if type(x) in PLAIN:
        return (type(x), exact(x)), "value"
    try:
        return weakref.ref(x), "weak"
    except TypeError:
        return x, "object"


def _paths(reading: Reading) -> list[tuple[Root, tuple[str, ...]]]:
    """The chains of attributes in a function's code, and in that of functions within it."""
    function: Any = reading.function
    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    # With a receiver, arguments of the call begin at the second one of the function.
    shift = 0 if reading.receiver is None else 1
    arguments = {name: i - shift for i, name in enumerate(code.co_varnames[:count])}
    cells = dict(zip(code.co_freevars, function.__closure__ or ()))
    found: dict[Any, tuple[Root, tuple[str, ...]]] = {}

    def resolve(name: str, is_global: bool) -> tuple[Root, tuple[str, ...]] | None:
        if is_global:
            return Root("global", name, function.__globals__), ()
        if name in cells:
            return Root("cell", name, cells[name]), ()
        if name in arguments:
            if arguments[name] < 0:
                return reading.receiver
            return (Root("argument", name, arguments[name]), ()) if reading.top else None
        return None

    for is_global, name, names in _chains(code):
        place = resolve(name, is_global)
        if place is not None:
            root, before = place
            found[_place(root, (*before, *names))] = root, (*before, *names)
    return list(found.values())


def _chains(code: types.CodeType) -> Iterator[tuple[bool, str, tuple[str, ...]]]:
    """Loads of a name, and of attributes from it: whether it is a global, name, attributes."""
    current: tuple[bool, str, tuple[str, ...]] | None = None
    for i in dis.get_instructions(code):
        if i.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            if current is not None:
                current = (current[0], current[1], (*current[2], i.argval))
            continue
        if i.opname in ("CACHE", "NOP", "PUSH_NULL", "EXTENDED_ARG", "PRECALL"):
            continue
        if current is not None:
            yield current
        current = None
        if i.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            current = (True, i.argval, ())
        elif i.opname in ("LOAD_DEREF", "LOAD_CLASSDEREF") or i.opname.startswith("LOAD_FAST"):
            name = i.argval[-1] if isinstance(i.argval, tuple) else i.argval
            current = (False, name, ())
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _chains(constant)
