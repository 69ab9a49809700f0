"""Questions about an object: its kind and what it holds. No code of a user's class runs."""

from __future__ import annotations

import dataclasses
import functools
import sys
import types
from collections import deque
from typing import Any

from contraflow.capture.rewriting.library import (
    in_python,
    is_library_class,
    is_library_code,
    is_library_module,
)
from contraflow.capture.state.places import (
    MISSING,
    Argument,
    Described,
    Item,
    Place,
    own_attributes,
)
from contraflow.capture.state.reads import PLAIN, items
from contraflow.operation.op import REGISTRY, Op
from contraflow.tensors.symbol import Symbol
from contraflow.tensors.tensor import Tensor
from contraflow.tensors.tree import elements_of

TENSOR_FIELDS = frozenset(n for c in Tensor.__mro__ for n in getattr(c, "__annotations__", ()))
MUTABLE = (list, dict, set, deque, bytearray)
CONTAINERS = (*MUTABLE, tuple, frozenset)
VIEWS: Any = (type({}.keys()), type({}.values()), type({}.items()))
BOUND = (types.MethodType, types.BuiltinFunctionType, types.MethodWrapperType)
CACHED = type(functools.lru_cache(len))
C_CALLABLES = (
    types.BuiltinFunctionType, types.MethodWrapperType, types.WrapperDescriptorType,
    types.MethodDescriptorType, types.ClassMethodDescriptorType,
)  # fmt: skip


def is_filled(cell: types.CellType) -> bool:
    """Whether a variable of a closure has a value."""
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def lives_on(x: Any) -> bool:
    """Whether something stays until the process ends: what libraries define, which is cheaper to
    compare than what is referred to weakly."""
    kind = type(x)
    if kind is Op:
        return REGISTRY.get(x.name) is x
    if kind is types.ModuleType:
        name = x.__dict__.get("__name__")
        return is_library_module(name) and sys.modules.get(name) is x
    if kind is types.BuiltinFunctionType:
        return type(x.__self__) is types.ModuleType and lives_on(x.__self__)
    if kind is types.FunctionType:  # without the variables of another one
        return x.__closure__ is None and is_library_code(x.__code__, x.__globals__)
    return kind is type and is_library_class(x)


def is_component(kind: type) -> bool:
    """Whether objects of a class are components, which count the changes of their structure:
    modules and optimizers."""
    return hasattr(kind, "_restructured")


def is_iterator(x: Any) -> bool:
    """Whether something is an iterator of Python's own: a generator, `map`, `zip`."""
    return hasattr(type(x), "__next__") and not in_python(type(x))


def is_leaf(kind: type) -> bool:
    """Whether objects of a class hold no Python state."""
    return kind in PLAIN or kind is Symbol or issubclass(kind, Tensor)


def holds_tensor(key: Any) -> bool:
    """Whether a key of a dict is a tensor, or a tuple with one in it."""
    return issubclass(type(key), Tensor) or (type(key) is tuple and any(map(holds_tensor, key)))


def is_alias(method: Any, name: str) -> bool:
    """Whether a class has another method of C's by a name, as in `__getattr__ = dict.get`."""
    return type(method) in C_CALLABLES and method.__name__ != name


def is_dunder(name: str) -> bool:
    """Whether a name is one of Python's own."""
    return name.startswith("__") and name.endswith("__")


def described_fields(x: Any) -> list[str]:
    """The attributes of an argument that the key of a call describes."""
    kind = type(x)
    if kind is types.SimpleNamespace:
        return list(x.__dict__)
    return [field.name for field in dataclasses.fields(kind)] if _is_dataclass(kind) else []


def is_record(x: Any) -> bool:
    """Whether something is an object of a frozen dataclass that keeps its fields alone."""
    settings = getattr(type(x), "__dataclass_params__", None)
    if settings is None or not settings.frozen or isinstance(x, type):
        return False
    return set(own_attributes(x)) <= set(described_fields(x))


def _is_dataclass(kind: type) -> bool:
    return hasattr(kind, "__dataclass_fields__") and not issubclass(kind, type)


def is_passed(place: Place) -> bool:
    """Whether something is part of an argument, which the key of a call describes."""
    while isinstance(place, Item):
        place = place.parent
    return isinstance(place, (Argument, Described))


def items_of(container: Any) -> list[tuple[Any, Any]]:
    """Keys and items of a container; what has no keys has MISSING for them."""
    if issubclass(type(container), dict):
        return list(items(container))
    if issubclass(type(container), (list, tuple, deque)):
        return list(enumerate(elements_of(container)))
    if issubclass(type(container), (set, frozenset)):
        return [(MISSING, x) for x in elements_of(container)]
    return []


def keys_of(container: Any) -> list[Any]:
    """The keys of a container."""
    return [key for key, _ in items_of(container) if key is not MISSING]
