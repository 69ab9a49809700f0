"""Objects that a function makes and leaves behind: every call makes them anew, each one once.

An object made while recording would be the same one after every replay. So it is taken apart as
containers are (`trees.py`), and put together from its parts. One that is left in two places has a
number in the structure, by which the second place refers to the first.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from contraflow.autograd.store import Gradients
from contraflow.capture.rewriting.library import in_python, is_library_class, is_ours, is_partial
from contraflow.capture.rewriting.rewrite import original
from contraflow.capture.state.places import Located, own_attributes
from contraflow.capture.state.trees import (
    ATTRIBUTES,
    FIELDS,
    LOCATED,
    MADE,
    OBJECT,
    SHARED,
    VALUE,
    SharedParts,
    flatten,
    inside_of,
    markers,
)
from contraflow.tensors.symbol import Symbol
from contraflow.tensors.tensor import Tensor

_LEAVES = (Tensor, int, float, str, bytes, types.NoneType, Symbol)
_ONE = (list, dict, deque, set)  # of which two that are equal are told apart


class MadeAnew(SharedParts):
    """Takes apart what a function leaves behind."""

    def __init__(
        self,
        locate: Callable[[Any], Any] = lambda x: x,
        is_new: Callable[[Any], bool] = lambda x: True,
    ) -> None:
        super().__init__()
        self.locate = locate  # Located for something from before, or else the object itself
        self.is_new = is_new  # whether the function has made an object

    def flatten(self, x: Any, leaves: list[Any], weak: bool = False) -> Any:
        """The structure of what is left behind, whose leaves go to `leaves`."""
        if issubclass(type(x), _LEAVES):
            return flatten(x, leaves)
        x = self.locate(x)
        if type(x) is Located:
            leaves.append(x)
            return LOCATED
        parts = _parts(x) if can_be_made(x) and self.is_new(x) else None
        if parts is None and not issubclass(type(x), _ONE):
            return flatten(x, leaves, False, self.flatten)
        if parts is None:
            return self.once(x, lambda: flatten(x, leaves, False, self.flatten))
        return self.once(x, lambda: self._from_parts(*parts, leaves))

    def _from_parts(self, kind: Any, how: Any, parts: Any, leaves: list[Any]) -> Any:
        if kind == FIELDS:
            return kind, how, tuple((name, self.flatten(x, leaves)) for name, x in parts)
        return kind, how, tuple(self.flatten(x, leaves) for x in parts)


def can_be_made(x: Any) -> bool:
    """Whether an object consists of what Python can see of it: no code of C's keeps more."""
    kind = type(x)
    if kind in (object, types.SimpleNamespace, types.FunctionType) or is_partial(kind):
        return kind is not types.FunctionType or x.__closure__ is None
    if kind is types.MethodType:
        return can_be_made(x.__self__)
    if issubclass(kind, BaseException) or hasattr(kind, "made_of_attributes"):
        return True
    if not in_python(kind) or issubclass(kind, (type, *_ONE)) or is_library_class(kind):
        return False
    return _base(kind) is object and not any(is_ours(base) for base in kind.__mro__)


def leaves_like(structure: Any, x: Any) -> Iterator[Any]:
    """The leaves of something that is like what a structure was made of."""
    if isinstance(structure, str):
        yield x
    elif structure[0] in (FIELDS, ATTRIBUTES):
        for name, part in inside_of(structure):
            yield from leaves_like(part, x if name is None else getattr(x, name))
    elif structure[0] == SHARED:
        for _, part in inside_of(structure):
            yield from leaves_like(part, x)
    elif structure[0] == MADE:
        for (_, part), held in zip(inside_of(structure), _parts(x)[2]):
            yield from leaves_like(part, held)
    elif structure[0] is slice:
        yield from [None] * len(markers(structure))  # which are numbers
    elif structure[0] not in (VALUE, OBJECT):
        held = x if isinstance(x, dict) else list(x.items() if isinstance(x, Gradients) else x)
        for key, part in inside_of(structure):
            yield from leaves_like(part, held[key])


def _base(kind: type) -> Any:
    """The first base of a class that is C's."""
    return next(base for base in kind.__mro__ if not in_python(base))


def _parts(x: Any) -> tuple[str, Any, Any]:
    """How an object is made, and of what."""
    kind = type(x)
    own = own_attributes(x)
    if kind is types.FunctionType:
        code = original(x.__code__)
        how = partial(_function, code, x.__globals__, x.__name__, x.__qualname__)
        return MADE, how, (x.__defaults__, x.__kwdefaults__, dict(own))
    if kind is types.MethodType:
        return MADE, partial(types.MethodType, x.__func__), (x.__self__,)
    if is_partial(kind):
        return MADE, partial(_partial, kind), (x.func, x.args, x.keywords, dict(own))
    if kind is types.SimpleNamespace:
        return MADE, _namespace, (dict(own),)
    if issubclass(kind, BaseException):
        return MADE, partial(_exception, kind), (x.args, dict(own))
    slots = [
        (name, getattr(x, name))
        for base in kind.__mro__
        for name, raw in base.__dict__.items()
        if type(raw) is types.MemberDescriptorType and hasattr(x, name)
    ]
    return FIELDS, kind, [*own.items(), *slots]


def _function(
    code: types.CodeType, namespace: Any, name: str, path: str, defaults: Any, named: Any, own: Any
) -> Any:
    made = types.FunctionType(code, namespace, name, defaults)
    made.__kwdefaults__, made.__qualname__ = named, path
    made.__dict__.update(own)
    return made


def _partial(
    kind: Any, function: Any, args: tuple[Any, ...], keywords: dict[str, Any], own: dict[str, Any]
) -> Any:
    made = kind(function, *args, **keywords)
    made.__dict__.update(own)
    return made


def _namespace(own: dict[str, Any]) -> types.SimpleNamespace:
    return types.SimpleNamespace(**own)


def _exception(kind: type, args: tuple[Any, ...], own: dict[str, Any]) -> Any:
    made = _base(kind).__new__(kind, *args)
    made.__dict__.update(own)
    return made
