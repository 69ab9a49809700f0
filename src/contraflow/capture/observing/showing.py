"""The observer's part for code that runs through an object: from then on it runs observed."""

from __future__ import annotations

import functools
import gc
import types
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from contraflow.capture.observing.objects import (
    C_CALLABLES,
    CACHED,
    CONTAINERS,
    is_component,
    is_dunder,
    is_filled,
)
from contraflow.capture.observing.session import swap
from contraflow.capture.observing.sight import Sight
from contraflow.capture.rewriting import rewrite
from contraflow.capture.rewriting.library import (
    functions_of_users,
    in_python,
    is_library_class,
    is_library_code,
    is_library_module,
    is_ours,
    is_partial,
    names,
)
from contraflow.capture.state.places import ClassAttribute, Constant, Field, Place, own_attributes
from contraflow.capture.state.reads import PLAIN, Same, Sized
from contraflow.operation.op import Op
from contraflow.tensors.tensor import Tensor

# Modules whose classes call methods of those made of them only by names that they have too.
_MARKING = names("abc typing enum types functools threading dataclasses")
_FUNCTION = types.FunctionType
_UNBOUND = (staticmethod, classmethod)
# Methods of modules and optimizers that the library calls.
_CALLED = ("__call__", "forward", "step", "update")
# The attributes by which wrappers hold functions.
_WRAPPED: dict[type, tuple[str, ...]] = {
    staticmethod: ("__func__",), classmethod: ("__func__",), property: ("fget", "fset", "fdel"),
    functools.cached_property: ("func",), functools.partialmethod: ("func",),
    CACHED: ("__wrapped__",),
}  # fmt: skip


class Showing(Sight):
    """Lets the user's functions run observed that come into sight, and those of their classes."""

    def show(self, x: Any) -> None:
        """Let user code that may run through this object run observed."""
        kind = type(x)
        if kind in PLAIN or id(x) in self._shown:
            return
        if kind is types.FunctionType:
            self._show_function(x)
        elif kind in _WRAPPED:
            for name in _WRAPPED[kind]:
                self.show(getattr(x, name))
        elif kind is types.MethodType:
            self.show(x.__func__)
            self.show_class(type(x.__self__))
        elif is_partial(kind):
            for part in (x.func, *x.args, *x.keywords.values()):
                self.show(part)
        elif kind is functools.singledispatchmethod:
            self._show_dispatcher(x)
        elif issubclass(kind, Tensor):
            for hooks in (x._hooks, x._accumulated_hooks):
                for hook in (hooks or {}).values():
                    self.see(hook)
        elif issubclass(kind, type):
            self.show_class(x)
        elif kind is Op:
            self._show_op(x)
        elif kind is types.ModuleType:
            self._show_module(x)
        elif issubclass(kind, CONTAINERS) or kind in C_CALLABLES:
            self.show_class(kind)
        elif callable(x) and not in_python(kind):  # an object of C's, around a function
            for part in gc.get_referents(x):
                if type(part) is types.FunctionType:
                    self.show(part)
        elif is_component(kind):
            self._show_component(x)
        else:
            self._show_object(x)

    def _show_function(self, f: types.FunctionType) -> None:
        """A function: the user's runs observed, and so does one that the library's wraps."""
        self._shown[id(f)] = f
        if id(f) not in self._made:
            self.see(f)
        if not is_library_code(f.__code__, f.__globals__):
            swap(f)
            return
        for cell in f.__closure__ or ():  # a decorator of the library's around a function
            self._show_contents(cell)
        wrapped = f.__dict__.get("__wrapped__")
        if wrapped is not None:
            self.show(wrapped)

    def _show_dispatcher(self, x: functools.singledispatchmethod[Any]) -> None:
        """The implementations of a method for several types, of which others may be registered."""
        dispatcher: Any = x.dispatcher
        self._ask(dispatcher, Constant(dispatcher, x.func.__name__), _implementations)
        for implementation in dispatcher.registry.values():
            self.show(implementation)

    def _show_module(self, x: types.ModuleType) -> None:
        """A module of Python, by its own `__getattr__`."""
        self._shown[id(x)] = x
        getter = own_attributes(x).get("__getattr__")
        if getter is not None and not is_library_module(x.__dict__.get("__name__")):
            self.see(getter)

    def _show_object(self, x: Any) -> None:
        """Another object: a function that it wraps, and its class."""
        kind = type(x)
        wrapped = own_attributes(x).get("__wrapped__")
        if wrapped is not None and wrapped is not x:
            self.show(wrapped)
            if is_ours(kind) and id(x) in self.known:
                with suppress(ReferenceError):
                    self.see(getattr(x, "instance", None))  # of a compiled method
        self.show_class(kind)

    def _show_contents(self, cell: types.CellType) -> None:
        if is_filled(cell) and callable(cell.cell_contents):
            self.show(cell.cell_contents)

    def _show_op(self, x: Op) -> None:
        """An op: of those of the user's, shapes, dtypes and gradients are found while recording."""
        self._shown[id(x)] = x
        if not is_library_code(x.body.__code__, getattr(x.body, "__globals__", {})):
            for part in (x.shape, x.types, *(rule.function for rule in x.rules)):
                self.show(part)

    def _show_component(self, x: Any) -> None:
        """A module or an optimizer, with all that it may call."""
        self._shown[id(x)] = x
        if not self.recorder.made_here(x):
            self.copies.keep(own_attributes(x))
        self.show_class(type(x))
        for name, kept in own_attributes(x).items():
            if name.endswith("_hooks"):
                for hook in _hooks_in(kept) if kept else ():
                    self.see(hook)
            elif callable(kept) and not issubclass(type(kept), (type, Tensor)):
                self.see(kept)  # a method of its own, or a function that it was given
        for parameter in own_attributes(x).get("_parameters", {}).values():
            if parameter is not None and (parameter._hooks or parameter._accumulated_hooks):
                self.show(parameter)
        for child in list(own_attributes(x).get("_modules", {}).values()):
            if child is not None:
                self.show(child)

    def show_class(self, kind: type) -> None:
        """The functions of a class that are called without being named, or by the library."""
        if id(kind) in self._shown:
            return
        self._shown[id(kind)] = kind
        bases = kind.__mro__
        theirs = [b for b in bases if is_library_class(b)]
        for base in bases:
            if is_ours(base) and id(base) not in self._searched:
                self._searched[id(base)] = base
                for x in functions_of_users(base):  # that were put into a class of ours
                    self._show_quietly(x)
            if is_library_class(base) or not in_python(base):
                continue
            if id(base) not in self._made:
                self._counted[id(base)] = base
            for name, x in list(base.__dict__.items()):
                if type(x) in PLAIN:
                    continue
                if type(x) is types.FunctionType and not _is_implicit(name, theirs):
                    continue  # shown where it is named
                if type(x) is types.FunctionType and is_dunder(name) and name != "__call__":
                    for f in _functions_of_users_in(x):
                        self._show_quietly(f)
                        found = self._unnamed.setdefault(id(rewrite.original(f.__code__)), [])
                        found.append((kind, name))
                elif hasattr(type(x), "__get__") and not isinstance(x, type):
                    self.show(x)
                    called = name == "__call__" or not is_dunder(name)  # by the library
                    by_python = type(x) in _UNBOUND and is_dunder(name)  # `__new__`
                    if by_python or (called and any(name in b.__dict__ for b in theirs)):
                        self.in_class(kind.__mro__, name)
        if kind not in theirs and any(map(_may_call_any, theirs)):
            self.show_methods(kind)
        if type(kind) is not type:
            self.show_class(type(kind))

    def count_attributes(self) -> None:
        """Guard on the number of attributes of classes of the user's: none gets a special method.

        Those that they have are noted where they run (`entered`). The number is that at the end of
        the function: Python keeps some notes in classes too, `__slotnames__` for copies.
        """
        for kind in list(self._counted.values()):
            self.see(kind)
            place = self.place_of(kind)
            if place is not None:
                self._add((id(kind), "count"), Sized(Field(place, "__dict__"), kind.__dict__))

    def show_methods(self, kind: type) -> None:
        """The methods of a class of the user's, which a library may call by any name: `close`."""
        if id(kind) in self._open or not in_python(kind) or is_library_class(kind):
            return
        self._open[id(kind)] = kind
        for base in kind.__mro__:
            if in_python(base) and not is_library_class(base):
                for name, x in list(base.__dict__.items()):
                    if type(x) is types.FunctionType and not is_dunder(name):
                        self.show(x)
                        self.in_class(kind.__mro__, name)

    def note_class_methods(self, kind: type) -> None:
        """The library has called modules or optimizers of a class, by methods that the class may
        get from the user later. One guard on `__call__` serves all classes of the library."""
        for name in _CALLED:
            base = next((b for b in kind.__mro__ if name in b.__dict__), None)
            if base is not None and is_ours(base) and type(base.__dict__[name]) is _FUNCTION:
                shared = name == "__call__" and is_ours(kind)
                self.note_method(base if shared else kind, name, base.__dict__[name])

    def note_method(self, kind: type, name: str, method: types.FunctionType) -> None:
        """A class has a method, itself or by its bases."""
        if self.stored and any((id(base), name, "class") in self.stored for base in kind.__mro__):
            return
        place: Place | None = Constant(kind, kind.__name__)
        if not is_library_class(kind):
            self.see(kind)
            place = self.place_of(kind)
        if place is None:
            return
        where = ClassAttribute(place, name) if name in kind.__dict__ else Field(place, name)
        lives_on = is_library_code(method.__code__, method.__globals__)
        read = Same(where, method, method) if lives_on else self._expected(where, method)
        self._add((id(kind), name, "method"), read)

    def entered(self, code: types.CodeType) -> None:
        """A function that was shown quietly begins to run: its classes have it by a name."""
        for kind, name in self._unnamed.pop(id(code), ()):
            self.in_class(kind.__mro__, name)

    def _show_quietly(self, f: types.FunctionType) -> None:
        """A function that may never run: it is observed if it does, and then tells so."""
        if id(f) not in self._shown and not is_library_code(f.__code__, f.__globals__):
            self._shown[id(f)] = f
            self.known.setdefault(id(f), (f, self._whereabouts(f, None)))
            self._see_function(f)
            swap(f, tells=True)


def _may_call_any(kind: type) -> bool:
    """Whether a class of a library may call methods of those made of it by any name."""
    return in_python(kind) and kind.__module__ not in _MARKING and not is_ours(kind)


def _functions_of_users_in(f: types.FunctionType) -> list[types.FunctionType]:
    """A function of the user's, or those that functions of the library's are closed around: the
    `__repr__` of a dataclass is called by one."""
    pending, seen = [f], {}
    while pending:
        each = pending.pop()
        if id(each) in seen:
            continue
        seen[id(each)] = each
        if is_library_code(each.__code__, each.__globals__):
            contents = [cell.cell_contents for cell in each.__closure__ or () if is_filled(cell)]
            pending += [x for x in contents if type(x) is _FUNCTION]
    return [x for x in seen.values() if not is_library_code(x.__code__, x.__globals__)]


def _implementations(dispatcher: Any) -> tuple[int, ...]:
    return tuple(map(id, dispatcher.registry.values()))


def _hooks_in(kept: dict[Any, Any]) -> Iterator[Any]:
    """The functions among hooks, which some owners keep by what they are called for."""
    for hook in kept.values():
        if type(hook) is dict:
            yield from _hooks_in(hook)
        else:
            yield getattr(hook, "function", hook)


def _is_implicit(name: str, theirs: Iterable[type]) -> bool:
    """Whether a method is called without being named, or by a library that knows its name."""
    return is_dunder(name) or any(name in base.__dict__ for base in theirs)
