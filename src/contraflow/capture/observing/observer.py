"""The observer of a recording: calls, on top of its parts for reads and stores.

User code runs observed. Code of C and of libraries does not: its arguments are looked at as a
whole, and some functions stand for reads and writes themselves.
"""

from __future__ import annotations

import builtins
import collections
import functools
import itertools
import math
import operator
import sys
import types
import weakref
from _thread import allocate_lock
from contextvars import Context, ContextVar
from threading import RLock, get_ident
from typing import Any

import numpy as np

from contraflow import config
from contraflow.capture.observing.builtin import SPECIAL
from contraflow.capture.observing.carried import Carrying
from contraflow.capture.observing.containers import ALL, IN_PLACE
from contraflow.capture.observing.impure import is_answering, keeps_to_itself, why_impure
from contraflow.capture.observing.objects import (
    C_CALLABLES,
    CACHED,
    CONTAINERS,
    MUTABLE,
    is_component,
    is_iterator,
)
from contraflow.capture.observing.session import listening, unheard
from contraflow.capture.rewriting.library import (
    in_python,
    is_library_class,
    is_library_code,
    is_ours,
    is_partial,
    names,
)
from contraflow.capture.state.places import (
    MISSING,
    Attribute,
    Constant,
    Field,
    Item,
    Place,
    lookup,
    own_attributes,
)
from contraflow.capture.state.reads import Sized
from contraflow.dtypes import set_default_dtype
from contraflow.errors import GradientError
from contraflow.tensors.epoch import Every
from contraflow.tensors.hooks import HookHandle
from contraflow.tensors.symbol import Symbol, apply_step
from contraflow.tensors.tensor import Tensor
from contraflow.tensors.tree import leaves_of

# Methods of containers that leave them as they are.
_READING = names(
    "get __getitem__ items keys values index count copy __contains__ __len__ __iter__ union "
    "intersection difference issubset issuperset isdisjoint symmetric_difference __reversed__ "
    "__eq__ __ne__ __lt__ __le__ __gt__ __ge__ __repr__ __str__ __add__ __mul__ __or__ __and__ "
    "__sub__ __xor__ __format__ __hash__ __sizeof__ __class_getitem__ fromkeys decode hex find "
    "startswith"
)
_REGISTERING = names(
    "register_buffer register_parameter register_module add_module append extend insert "
    "__setitem__ __delitem__ pop clear update"
)
_COUNTING = names("append extend insert pop clear update __delitem__")  # they look what is there
# Methods of dicts that change them.
_CHANGING = names("__setitem__ __delitem__ __ior__ clear pop popitem setdefault update")
# Methods of arrays of the standard library and of exceptions that change them.
_CHANGING_OTHERS = names(
    "__setitem__ __delitem__ __iadd__ __imul__ append extend insert pop remove reverse byteswap "
    "fromlist frombytes fromunicode fromfile add_note"
)
# Methods of the standard library's containers in Python that answer and change nothing.
_ASKING = names(
    "get __getitem__ __contains__ __len__ keys values items most_common is_set isEnabledFor "
    "getEffectiveLevel qsize empty full get_last_lr peek"
)
_LISTING = names("keys values items")
_OBJECT_METHODS = ("__setattr__", "__delattr__", "__getattribute__")
_OTHER = object()  # stands for the result of a function that is called as others are
# Modules whose functions hold what they are given, or call its methods.
_HOLDING = names(
    "builtins functools _functools itertools collections _collections operator _operator"
)
# Modules whose functions look at the fields and annotations of classes.
_INSPECTING = names("dataclasses typing inspect")
# Modules that keep functions which they are given, and call them later.
_CALLING_LATER = names("contextlib weakref")
_ITERATING = (list, tuple, set, frozenset, enumerate, zip, iter, reversed, sorted, any, all)
_COLLECTIONS: Any = collections._count_elements.__self__  # type: ignore[attr-defined]
_OPERATORS: Any = operator.getitem.__self__  # type: ignore[attr-defined]
_IN_PLACE_OPERATORS = {method.strip("_"): op for op, method in IN_PLACE.items()} | {"iconcat": 13}
_OF_PAIRS = ("frexp", "modf")  # functions of `math` that give two numbers
_LOCKS = (type(allocate_lock()), type(RLock()))
_ACQUIRING = names("acquire acquire_lock __enter__")
_RELEASING = names("release release_lock __exit__")
_GETTERS = (operator.attrgetter, operator.itemgetter, operator.methodcaller)
_WATCHED = (types.BuiltinFunctionType, types.MethodWrapperType, *_GETTERS)
# Functions of Python's own that look at the frame they are called from.
_FRAMED = names("locals super breakpoint __import__")
# Functions of the modules in `_LOOKING` that do not.
_SEEING_NO_FRAMES = names(
    "isEnabledFor getEffectiveLevel getLogger setLevel disable addHandler removeHandler addFilter "
    "removeFilter basicConfig captureWarnings"
)
# Beginnings of the names of functions that set something of the process or the thread.
_SETTING = ("set_", "simplefilter", "filterwarnings", "resetwarnings")
# Modules whose functions look at frames.
_LOOKING = names("warnings _warnings logging traceback pdb bdb")
_LOOKING_OF_INSPECT = names("currentframe stack trace")
# Their functions that log or warn.
_TELLING = names("debug info warning warn error critical fatal exception log")


class Observer(Carrying):
    """Is told all that a recording does in Python."""

    def callee(self, f: Any) -> Any:
        """The function to call for `f`: itself if it is user code, which runs observed."""
        if self.again and _tells(f):  # as `print` does it, once
            return _nothing
        kind = type(f)
        named = kind is types.FunctionType or issubclass(kind, type)
        if named and f.__name__.startswith(_SETTING):
            self.set_at = self.recorder.user_line()
        if kind is types.FunctionType:
            if is_library_code(f.__code__, f.__globals__):
                return f if _looks_at_frames(f) else functools.partial(called, f)
            self.show(f)
            return f
        if kind is types.MethodType:
            function = f.__func__
            library = type(function) is not types.FunctionType or is_library_code(
                function.__code__, function.__globals__
            )
            self.show(f)
            return functools.partial(called, f) if library and not _looks_at_frames(f) else f
        if issubclass(kind, type):
            self.show_class(f)
            if f is super:
                return f
            new, init = lookup(f, "__new__"), lookup(f, "__init__")
            theirs = in_python(f) and not is_library_class(f)
            if theirs and (type(new) is staticmethod or type(init) is types.FunctionType):
                self.in_class(f.__mro__, "__init__")
                return f
            return functools.partial(called, f)
        if kind is types.BuiltinFunctionType and f.__self__ is builtins:
            return f if f.__name__ in _FRAMED else functools.partial(called, f)
        if f is sys._getframe or (f.__class__ is types.BuiltinFunctionType and _looks_at_frames(f)):
            return f
        if is_component(kind):
            self.use_component(f) if not is_library_class(kind) else self.show(f)
            return f
        if is_partial(kind):
            self._partial(f)
            return _watched(f)
        if type(lookup(kind, "__call__")) is types.FunctionType and not is_library_class(kind):
            self.show(f)
            self.in_class(kind.__mro__, "__call__")
            return f
        return functools.partial(called, f)

    def _partial(self, f: Any) -> None:
        place = self.place_of(f)
        for part in (f.func, *f.args, *f.keywords.values()):
            self.show(part)
        if place is not None:
            self.see(f.func, Field(place, "func"))
            for name, held in (("args", f.args), ("keywords", f.keywords)):
                where = Field(place, name)
                self.known.setdefault(id(held), (held, where))
                self.touch_all(held)
        if type(f.func) is types.FunctionType and is_library_code(
            f.func.__code__, f.func.__globals__
        ):
            for part in (*f.args, *f.keywords.values()):
                self.hand_over(part)

    def call(self, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call what is C's or the library's."""
        problem = why_impure(f, args, kwargs, self._own)
        if problem:
            raise self.refuse(*problem)
        kind = type(f)
        owner = getattr(f, "__self__", None) if kind in C_CALLABLES else None
        if owner is builtins or owner is _COLLECTIONS:
            special = SPECIAL.get(f.__name__)
            if special is not None:
                return special(self, *args, **kwargs)  # no frame between: see `CALLER`
        found = self._call_python(f, kind, owner, args, kwargs)
        if found is _OTHER:
            found = self._call_c(f, kind, owner, args, kwargs)
        if found is not _OTHER:
            return found
        ours = str(getattr(f, "__module__", None)).startswith("contraflow.")
        if is_library_class(kind) and in_python(kind) and not is_ours(kind):
            self.hand_over(f)  # an object that is called, as a polynomial of NumPy's
        args, kwargs = self._hand_over_arguments(f, args, kwargs, ours)
        run = functools.partial(f, *args, **kwargs)
        if ours and _is_hooking(getattr(f, "__name__", "")):
            for every in Every.known:
                run = functools.partial(self.hooking, every, run)
        found = run() if ours else self.refilling(itertools.chain(args, kwargs.values()), run)
        if keeps_to_itself(found):
            self._own.append(found)
        if f is builtins.__build_class__:
            self._made[id(found)] = found
        else:
            self.given_out(found)
        return found

    def _call_python(
        self, f: Any, kind: type, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call a function of Python's or the library's that stands for reads; _OTHER for others."""
        if owner is math and not kwargs and _are_numbers(args) and f.__name__ not in _OF_PAIRS:
            return apply_step(f, *args)
        if f is type and len(args) == 1:
            return args[0].__class__ if type(args[0]) is Symbol else type(args[0])
        if kind is types.MethodType:
            return self._call_method(f, args, kwargs)
        if kind is types.FunctionType and "dispatch" in f.__dict__ and args:
            return self._dispatched(f, args, kwargs)
        if f is config.read_environment:
            self.see(config.environment)
            return self._call_method(config.environment.get, args, kwargs)
        if is_answering(f):
            question = operator.methodcaller("__call__", *args, **kwargs)
            return self._ask(f, Constant(f, f.__name__), question)
        if f is set_default_dtype:
            self.recorder.default_set_at = self.recorder.user_line()
        return _OTHER

    def _call_c(
        self, f: Any, kind: type, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call a function or a method of C's that reads or writes; _OTHER for others."""
        if getattr(f, "__name__", "") == "__subclasses__":
            place = self.place_of(owner)
            if place is not None:
                return self._ask(owner, place, operator.methodcaller("__subclasses__"))
        if kind is CACHED and id(f) in self.known:
            return self._cached(f, args, kwargs)
        if kind in (weakref.ref, weakref.WeakMethod):
            found = f()
            self.see(getattr(found, "__self__", None) if kind is weakref.WeakMethod else found)
            return found
        if kind is weakref.CallableProxyType:
            function = f.__repr__.__self__  # what the proxy stands for
            self.see(function)
            return self.callee(function)(*args, **kwargs)
        if type(owner) is ContextVar:
            return self._context_variable(owner, f, args)
        if type(owner) is Context and f.__name__ == "run":
            raise self.refuse(
                "a function runs in a context of its own, whose variables a replay would not see",
                "Run the compiled function in that context.",
            )
        unbound = kind in (types.MethodDescriptorType, types.WrapperDescriptorType) and args
        if unbound and (issubclass(type(args[0]), CONTAINERS) or f.__name__ in _OBJECT_METHODS):
            bound = functools.partial(f, args[0])
            return self._call_bound(args[0], f.__name__, bound, args[1:], kwargs)
        if owner is not None and kind in C_CALLABLES and type(owner) is not types.ModuleType:
            return self._call_bound(owner, f.__name__, f, args, kwargs)
        if kind is types.BuiltinFunctionType and owner is _OPERATORS:
            return self._operate(f, args)
        if kind in _GETTERS:
            return self._call_getter(f, args)
        return _OTHER

    def _hand_over_arguments(
        self, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any], ours: bool
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Hand the arguments over to a function that may read all of them; what to call it with."""
        module = str(getattr(f, "__module__", None))
        if module in _INSPECTING:
            self._see_fields(args)
        # Functions of `_HOLDING` hold what they are given, or call its methods, which are observed.
        levels = 0 if module in _HOLDING else ALL
        if module in _CALLING_LATER or (module in _HOLDING and f is not functools.partial):
            args = tuple(map(_watched, args))
            kwargs = {name: _watched(x) for name, x in kwargs.items()}
        for x in itertools.chain(args, kwargs.values()):
            if f in _ITERATING and issubclass(type(x), dict):
                self.iterate(x)
            elif not (ours and issubclass(type(x), np.ndarray) and self.becomes_tensor(x)):
                self.hand_over(x, levels)
        return args, kwargs

    def _see_fields(self, given: tuple[Any, ...]) -> None:
        """A function of `dataclasses` or `typing` looks at the fields of a class."""
        for x in given:
            kind = x if issubclass(type(x), type) else type(x)
            if hasattr(kind, "__dataclass_fields__"):
                self.touch_all(self.in_class(kind.__mro__, "__dataclass_fields__"))
            if x is kind:
                for base in kind.__mro__:
                    if "__annotations__" in base.__dict__ and not is_library_class(base):
                        self.touch_all(self.attribute(base, "__annotations__"))

    def subclass(self, kind: Any, kinds: Any) -> None:
        """Whether a class is a subclass was asked for, which an abstract one decides itself."""
        given = kinds if type(kinds) is tuple else (kinds,)
        if not issubclass(type(kind), type) or id(kind) in self._made:
            return
        if any(type(each) is not type for each in given):
            place = self._class_place(kind)
            if place is not None:
                self._ask(kind, place, functools.partial(_is_subclass, kinds))

    def _dispatched(self, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A function of `functools.singledispatch`."""
        place, kind = self.place_of(f), args[0].__class__
        if place is None:
            chosen = f.dispatch(kind)
            self.show(chosen)
        else:
            chosen = self._ask(f, place, operator.methodcaller("dispatch", kind))
        return self.callee(chosen)(*args, **kwargs)

    def _call_method(self, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A method in Python of the library's."""
        owner = f.__self__
        kind = type(owner)
        if type(f.__func__) is CACHED and id(f.__func__) in self.known:
            return self._cached(f.__func__, (owner, *args), kwargs)
        if kind.__module__ in _CALLING_LATER:
            args = tuple(map(_watched, args))
        tensor = issubclass(kind, Tensor)
        for x in itertools.chain(args, kwargs.values()):
            if tensor and issubclass(type(x), np.ndarray) and self.becomes_tensor(x):
                continue
            self.hand_over(x)
        if is_component(kind):
            self.use_component(owner)
            if f.__name__ in _REGISTERING or f.__name__ in ("train", "eval"):
                changed = owner.modules() if f.__name__ in ("train", "eval") else [owner]
                if f.__name__ in _COUNTING:
                    self.registered_names(owner)
                return self.registering(changed, functools.partial(f, *args, **kwargs))
            if _is_hooking(f.__name__):
                return self.hooking(owner, functools.partial(f, *args, **kwargs))
            found = f(*args, **kwargs)
            if is_component(type(found)):
                self.use_component(found)
            return found
        if hasattr(kind, "registered_in"):
            if f.__name__ in _CHANGING:
                return self.change_registry(owner, functools.partial(f, *args, **kwargs))
            self.registry(owner)
        if kind is HookHandle and owner._owner() is not None:
            return self.hooking(owner._owner(), f)
        place = self.place_of(owner)
        if place is not None:
            for name in getattr(kind, "guarded", ()):  # dicts that are empty between steps
                where = Attribute(place, name)
                self._add((id(owner), name), Sized(where, own_attributes(owner)[name]))
        if place is not None and not is_ours(kind):
            if is_library_class(kind) and f.__name__ in _ASKING and not kwargs:
                return self._answer(owner, place, f.__name__, args)
            self.hand_over(owner)
            found = self.refilling((owner, *args), functools.partial(f, *args, **kwargs))
        else:
            found = f(*args, **kwargs)
        self.show(found)
        return found

    def _answer(self, x: Any, place: Place, name: str, args: tuple[Any, ...]) -> Any:
        """The answer of a container of the standard library; of an iterator, all that it gives."""
        question = operator.methodcaller(name, *args)
        if name in _LISTING and is_iterator(question(x)):  # as of a WeakKeyDictionary
            return iter(self._ask(x, place, functools.partial(_listed, name)))
        return self._ask(x, place, question)

    def _cached(self, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A function of `functools.lru_cache`."""
        place, writes = self.place_of(f), len(self.writes)
        if place is None or any(isinstance(x, Tensor) for x in leaves_of([*args, kwargs])):
            found = f(*args, **kwargs)
        else:
            if self.fills_caches:
                self._fill(f, args, kwargs)
            found = self._ask(f, place, operator.methodcaller("__call__", *args, **kwargs))
        self.filled = self.filled or len(self.writes) != writes
        return found

    def _fill(self, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Let a cache compute a result that it lacks outside of the recording, which starts again.

        The cache keeps it, so that it must be there whatever becomes of the recording.
        """
        misses = f.cache_info().misses
        try:
            with self.recorder.outside(), unheard():
                f(*args, **kwargs)
        except GradientError as error:
            raise self.refuse(
                f"{f.__name__}, a function with an lru_cache, needs tensors that are computed in "
                f"this call, and its cache would keep what it makes of them",
                "Pass them as arguments, or call the function without its cache, as "
                f"{f.__name__}.__wrapped__(...).",
            ) from error
        self.caches_filled = self.caches_filled or f.cache_info().misses != misses

    def _context_variable(self, variable: Any, f: Any, args: tuple[Any, ...]) -> Any:
        self.see(variable)
        place = self.place_of(variable)
        if f.__name__ != "get" or place is None:
            raise self.refuse(
                "a context variable is set, and a replay would not set it",
                "Set it outside the compiled function.",
            )
        return self._ask(variable, place, operator.methodcaller("get", *args))

    def _call_bound(
        self, owner: Any, name: str, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A method of C's."""
        kind, place = type(owner), self.place_of(owner)
        if is_ours(kind) and not is_component(kind):
            for x in itertools.chain(args, kwargs.values()):
                self.hand_over(x)
            return f(*args, **kwargs)
        if (owner is sys.stdout or owner is sys.stderr) and name in ("write", "flush"):
            # Once, as `print` does.
            return f(*args, **kwargs) if not self.again else len(args[0]) if args else None
        if place is not None and kind in _LOCKS:
            return self._use_lock(owner, place, name, f, args, kwargs)
        if kind is CACHED and name == "cache_clear" and place is not None:
            raise self.refuse(
                f"the cache of {place} is cleared, and a replay would not clear it",
                "Clear it outside.",
            )
        if name == "__setattr__" and len(args) == 2:
            self._plain_setattr(owner, args[0], args[1])
            return None
        if name == "__delattr__" and len(args) == 1:
            self._plain_setattr(owner, args[0], MISSING)
            return None
        if name == "__getattribute__" and len(args) == 1:
            if place is None:
                return f(*args)
            if not is_component(kind) and not issubclass(kind, (type, types.ModuleType, Tensor)):
                return self.plain_attribute(owner, args[0], lambda x, name: f(name))
            if args[0] in own_attributes(owner):
                return self._own_attribute(owner, args[0])
            return f(*args)
        if self.class_of(owner) is not None:
            self.look(owner)
        if name == "sort":  # by a key, which it calls
            kwargs = {given: _watched(x) for given, x in kwargs.items()}
        if place is not None and issubclass(kind, MUTABLE):
            return self._call_container(owner, place, name, f, args, kwargs)
        if place is not None:
            if name in _CHANGING_OTHERS and (kind.__module__ == "array" or name == "add_note"):
                raise self.refuse_change(owner)
            self.touch_all(owner)
        for x in itertools.chain(args, kwargs.values()):
            self.hand_over(x)
        if issubclass(kind, np.ndarray):
            found = self.refilling((owner, *args), functools.partial(f, *args, **kwargs))
        else:
            found = f(*args, **kwargs)
        self.show(found)
        return found

    def _use_lock(
        self, lock: Any, place: Place, name: str, f: Any, args: tuple[Any, ...], kwargs: Any
    ) -> Any:
        """A method of a lock from before."""
        run, taking = functools.partial(f, *args, **kwargs), name in _ACQUIRING
        # One that does not wait tells whether the lock is free.
        asking = name == "locked" or (taking and (args or kwargs) and hasattr(lock, "locked"))
        if asking and not self.holds(lock, False):
            self._ask(lock, place, operator.methodcaller("locked"))
        if taking:
            return self.acquire(lock, name == "__enter__", run)
        return self.release(lock, name == "__exit__", run) if name in _RELEASING else run()

    def _plain_setattr(self, x: Any, name: str, value: Any) -> None:
        if is_component(type(x)):
            self._store_in_component(x, name, value)
        elif value is MISSING:
            self.plain_delete(x, name) if id(x) in self.known else object.__delattr__(x, name)
        elif id(x) in self.known:
            self.put_attribute(x, name, value)
        else:
            object.__setattr__(x, name, value)

    def _call_container(
        self, c: Any, place: Place, name: str, f: Any, args: tuple[Any, ...], kwargs: Any
    ) -> Any:
        """A method of a container from before."""
        for x in itertools.chain(args, kwargs.values()):
            self.hand_over(x)
        mapping = issubclass(type(c), dict)
        if mapping and name in ("get", "setdefault", "pop", "__getitem__") and args:
            if dict.__contains__(c, args[0]):
                found = self._dict_item(c, place, args[0])
                if name == "pop":
                    self._put_in_dict(c, args[0], MISSING, Item(place, args[0], type(c)))
                return found
            self._lacks(c, place, args[0])
            if name == "setdefault":
                value = args[1] if len(args) > 1 else None
                self._put_in_dict(c, args[0], value, Item(place, args[0], type(c)))
                return value
            return f(*args, **kwargs)
        if mapping and name in ("update", "__ior__"):
            for key, value in dict(*args, **kwargs).items():
                self._put_in_dict(c, key, value, Item(place, key, type(c)))
            return c if name == "__ior__" else None
        if name == "__getitem__" and len(args) == 1:
            return self.plain_item(c, place, args[0])
        if name == "__setitem__" and len(args) == 2:
            self.put_item(c, *args)
            return None
        if name == "__len__":
            self.plain_length(c)
            return f()
        if name == "__contains__":
            self.plain_member(args[0], c, place)
            return f(*args)
        if name in _READING:
            self.touch(c)
            found = f(*args, **kwargs)
            self.show(found)
            return found
        count = len(self.writes)
        given = self._mutate(c, name, args, kwargs)
        try:
            found = f(*given, **kwargs)
        except Exception:
            if not any(map(is_iterator, args)):  # which have given some items by then
                del self.writes[count:]  # the user may catch it
            raise
        self.show(found)
        return found

    def _operate(self, f: Any, args: tuple[Any, ...]) -> Any:
        """A function of `operator` that stands for an instruction; _OTHER for another one."""
        if f is operator.getitem:
            return self.item(*args)
        if f is operator.setitem:
            return self.store_item(*args)
        if f is operator.delitem:
            return self.delete_item(*args)
        if f is operator.contains:
            self.member(args[1], args[0])
            return f(*args)
        if f.__name__ in _IN_PLACE_OPERATORS:
            self.operate(args[0], args[1], _IN_PLACE_OPERATORS[f.__name__])
            return f(*args)
        return _OTHER

    def _call_by_name(self, f: Any, x: Any) -> Any:
        """`operator.methodcaller`."""
        made, given = f.__reduce__()
        if isinstance(made, functools.partial):  # with keyword arguments
            return self.callee(self.attribute(x, made.args[0]))(*given, **made.keywords)
        return self.callee(self.attribute(x, given[0]))(*given[1:])

    def _call_getter(self, f: Any, args: tuple[Any, ...]) -> Any:
        """`attrgetter`, `itemgetter` and `methodcaller`, as the reads and calls that they make."""
        names = f.__reduce__()[1]
        if type(f) is operator.attrgetter:
            made = [functools.reduce(self.attribute, name.split("."), args[0]) for name in names]
        elif type(f) is operator.itemgetter:
            made = [self.item(args[0], name) for name in names]
        else:
            return self._call_by_name(f, args[0])
        return made[0] if len(made) == 1 else tuple(made)


def _are_numbers(args: tuple[Any, ...]) -> bool:
    """Whether some of the arguments are symbols, and the others numbers."""
    kinds = {*map(type, args)}
    return Symbol in kinds and kinds <= {Symbol, int, float, bool}


def _is_hooking(name: str) -> bool:
    return name.startswith("register_") and name.endswith("hook")


def _tells(f: Any) -> bool:
    """Whether a function logs, or warns."""
    return getattr(f, "__name__", "") in _TELLING and _looks_at_frames(f)


def _nothing(*args: Any, **kwargs: Any) -> None:
    pass


def _looks_at_frames(f: Any) -> bool:
    name, module = getattr(f, "__name__", ""), str(getattr(f, "__module__", "")).partition(".")[0]
    if module == "inspect":
        return name in _LOOKING_OF_INSPECT
    return module in _LOOKING and name not in _SEEING_NO_FRAMES


def called(f: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Call what is not observed, by way of the observer that listens."""
    observer = listening.get(get_ident())
    return f(*args, **kwargs) if observer is None else observer.call(f, args, kwargs)


def _watched(x: Any) -> Any:
    """A function of C's that others call, by way of the observer: `map(log.append, ...)`."""
    kind = type(x)
    if kind is functools.partial and type(x.func) in _WATCHED:
        return functools.partial(_watched(x.func), *x.args, **x.keywords)
    if kind in _WATCHED and getattr(x, "__name__", "") not in _FRAMED:
        return functools.partial(called, x)
    return x


def _is_subclass(kinds: Any, x: Any) -> bool:
    return issubclass(x, kinds)


def _listed(name: str, x: Any) -> list[Any]:
    return list(getattr(x, name)())
