"""The observer's base: objects that existed before the recording, and the places of each.

Only what is reached from globals, closures, defaults and arguments was there before: it is `known`.
Functions that come into sight run observed from then on, with those that their classes have.

The verbs of the observer, from here up its chain of classes:

- *see*: it was there before, so it becomes known, with the place where it is found again.
- *show*: the user's code that may run through it runs observed from now on.
- *read*: the slot of something known is read once, which is a guard, unless it is an input.
- *touch*: all that one container holds is read; *touch all*: and what the containers in it hold.
- *look*: an instruction of C's is about to look at the whole of something; it is touched.
- *ask*: something that keeps its state to itself has answered; the answer is a guard.
- *hand over*: the user gives it to the library or to C, which may read all of it: it is touched,
  and so are the attributes of the objects in it.
- *give out*: the library gives it to the user: it is seen, or shown if it is the library's own.
- *made*: the function itself has made it, so nothing that is read of it is a guard.
- *store*, *put*: a slot gets a value; by code of the user's class, or as Python itself does it.
- *mutate*: a method changes what a container holds.
- *carry*: what is in a slot that is read and then written is an input of the program.
- *undo*, *forget*: the ends of a recording.
"""

from __future__ import annotations

import builtins
import dataclasses
import functools
import gc
import sys
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from contraflow.capture.observing.session import swap
from contraflow.capture.observing.structures import Structures
from contraflow.capture.rewriting import rewrite
from contraflow.capture.rewriting.bytecode import globals_of, imports_of
from contraflow.capture.rewriting.library import (
    in_python,
    is_library_class,
    is_library_code,
    is_library_module,
    is_ours,
)
from contraflow.capture.state.places import (
    MISSING,
    Argument,
    Cell,
    Constant,
    Described,
    Field,
    Global,
    Item,
    NestedPlace,
    Object,
    Place,
)
from contraflow.capture.state.reads import (
    PLAIN,
    VALUED,
    Absent,
    Equal,
    FunctionCode,
    Lacks,
    Read,
    Same,
    Together,
    Typed,
    Valued,
    is_plain,
    items,
)
from contraflow.capture.state.writes import SlotStore, Write, undoing
from contraflow.errors import CaptureError
from contraflow.operation.op import REGISTRY, Op
from contraflow.tensors.epoch import Every
from contraflow.tensors.host_scalar import HostScalar
from contraflow.tensors.symbol import Symbol
from contraflow.tensors.tensor import Tensor
from contraflow.tensors.tree import elements_of

LARGEST = 1000  # elements of a container that may be guarded as a whole

SlotKey = tuple[Any, ...]  # of a slot: the address of what holds it, and its name there

MUTABLE = (list, dict, set, deque, bytearray)
CONTAINERS = (*MUTABLE, tuple, frozenset)
BOUND = (types.MethodType, types.BuiltinFunctionType, types.MethodWrapperType)
CACHED = type(functools.lru_cache(len))
C_CALLABLES = (
    types.BuiltinFunctionType, types.MethodWrapperType, types.WrapperDescriptorType,
    types.MethodDescriptorType, types.ClassMethodDescriptorType,
)  # fmt: skip


class Sight:
    """The Python state that one recording has met."""

    def __init__(self, recorder: Any) -> None:
        self.recorder = recorder
        # The carried inputs of the program: the contents of slots, and containers by their address.
        self.carried: dict[SlotKey, Any] = {}
        self.carried_at: dict[SlotKey, NestedPlace] = {}
        self.described: dict[int, tuple[Any, Any]] = {}  # itself, and what stands for it
        self.known: dict[int, tuple[Any, Place | None]] = {}  # what was there before, and where
        self.reads: dict[SlotKey, Read] = {}
        # Read before anything was stored there: where it is, and what was there.
        self.slots: dict[SlotKey, tuple[NestedPlace, Any]] = {}
        self.stored: dict[SlotKey, None] = {}
        self.before: dict[int, Any] = {}  # what containers held that were changed
        self._mutated: set[int] = set()  # containers that a method has changed
        self._appended: dict[int, int] = {}  # how many elements at the end the function has put
        self.writes: list[Write] = []
        # The stores that count, by what holds them: a deletion, a value, or one and then the other.
        self._latest: dict[int, dict[SlotKey, list[SlotStore]]] = {}
        self.tensors: dict[int, Tensor] = {}
        self.gone: list[Any] = []  # references to what is no more
        self.kept: list[Any] = []  # what cannot be referred to weakly
        self.refused: CaptureError | None = None
        self._undo: list[Any] = [None]  # calls that undo, None-terminated
        self.structures = Structures()
        self.again = False  # the recording has started over
        self.filled = False  # an lru_cache, by a function that wrote and will not run again
        self.whole: set[int] = set()  # modules that the library has looked at
        self._touched: set[int] = set()
        self._handed: set[int] = set()  # objects that were given to the library as a whole
        self._shown: dict[int, Any] = {}  # whose code runs observed
        self._own: list[Any] = []  # generators of random numbers that the function itself seeds
        self._proxies: dict[int, tuple[Any, type]] = {}  # what `vars` gives of classes
        self._made: dict[int, Any] = {}  # functions and classes that it makes
        self._hooked: dict[int, tuple[Any, Any, Any]] = {}  # tables of hooks that it changes
        self._hooked_at: Any = None  # the line that did so last
        self._young: set[int] | None = None  # addresses of all that it has made, if asked for
        self.set_at: Any = None  # the line that has called a function that sets something

    def begin(self, function: Any, instance: Any, args: Any, kwargs: Any) -> None:
        """Note what a call starts from: the function, its object, and the arguments."""
        self.see(function, Constant(function, getattr(function, "__name__", "self")))
        self.callee(function)
        for every in Every.known:
            self._show_structured(every)
        if instance is not None:
            self.see(instance, _self_place(instance))
        code = getattr(function, "__code__", None)
        names = code.co_varnames if code is not None else ()
        shift = 0 if instance is None else 1
        for i, x in enumerate(args):
            name = names[i + shift] if i + shift < len(names) else f"argument {i}"
            self._see_argument(x, Argument(i, name))
        for key, x in kwargs.items():
            self._see_argument(x, Argument(key, key))

    def _see_argument(self, x: Any, place: Place) -> None:
        """An argument, or a part of one: containers are described by the key of the call."""
        kind = type(x)
        if kind in PLAIN or kind is Symbol or id(x) in self.known:
            return
        self.known[id(x)] = x, place
        if issubclass(kind, Tensor):
            return
        if kind is types.FunctionType and not is_library_code(x.__code__, x.__globals__):
            self._see_function(x)
            self._guard_code(x)
        if issubclass(kind, (list, tuple, dict)):
            for key, item in items_of(x):
                self._see_argument(item, Item(place, key, kind))
        for name in described_fields(x):
            self._see_argument(getattr(x, name), Item(place, name, dict))
        self.show(x)

    def see(self, x: Any, place: Place | None = None) -> None:
        """Note an object from before the recording, found at a place."""
        kind = type(x)
        if kind in PLAIN or kind is Symbol or x is REGISTRY:  # which is the library's own
            return
        if issubclass(kind, Tensor):
            self.tensors[id(x)] = x  # which may be an argument as well
        known = self.known.get(id(x))
        theirs = kind is types.FunctionType and not is_library_code(x.__code__, x.__globals__)
        if known is not None:
            if place is not None and kind in (list, dict) and known[1] is not place:
                self._together(place, known[1])
            if theirs:
                self._guard_code(x)
            return
        if id(x) in self._made:
            return
        self.known[id(x)] = x, self._whereabouts(x, place)
        if theirs:
            self._see_function(x)
            self._guard_code(x)
        elif kind in BOUND:
            self._see_method(x)
        self.show(x)

    def made(self, x: Any) -> None:
        """The function itself has made a function or a class."""
        self._made[id(x)] = x

    def imported(self, name: str) -> None:
        """A module was imported."""
        module = sys.modules.get(name)
        self.reads.pop(("lacks", id(sys.modules), name), None)
        if module is not None and not is_library_module(name):
            where = Item(Constant(sys.modules, "sys.modules"), name, dict)
            self._add((id(sys.modules), name), self._expected(where, module))
            self.see(module)

    def given_out(self, x: Any) -> None:
        """The library gives the user something of its own, or something that it keeps for users."""
        kind = type(x)
        structured = is_structured(kind) and not self.recorder.made_here(x)
        self.see(x) if structured or hasattr(kind, "keeps_for_users") else self.show(x)

    def see_globals(self, namespace: dict[str, Any]) -> None:
        """The variables of a module were there before."""
        self.known.setdefault(id(namespace), (namespace, Constant(namespace, "globals()")))

    def _see_method(self, x: Any) -> None:
        """A method in a variable: of an object, or of a container."""
        place, owner = self.known[id(x)][1], x.__self__
        if place is None or owner is None or type(owner) is types.ModuleType:
            return
        self.see(owner, Field(place, "__self__"))

    def _together(self, place: Place, other: Place | None) -> None:
        if other is not None and str(place) != str(other):
            self._add(("together", id(place)), Together(place, other, True))

    def _whereabouts(self, x: Any, place: Place | None) -> Place | None:
        """The place of an object: a weak reference, or the path to it."""
        if isinstance(place, Constant):
            return place
        label = str(place) if place is not None else getattr(x, "__name__", type(x).__name__)
        try:
            return Object(weakref.ref(x, self.gone.append), str(label))
        except TypeError:
            return place

    def _see_function(self, f: types.FunctionType) -> None:
        """Where a function looks for variables."""
        place = self.known[id(f)][1]
        assert place is not None
        self.see_globals(f.__globals__)
        for name in undefined_names(f.__code__, f.__globals__):
            self._add((id(f.__globals__), name), Lacks(Global(f.__globals__, name)))
        for number, cell in enumerate(f.__closure__ or ()):
            variable = Cell(place, number, f.__code__.co_freevars[number])
            self.known.setdefault(id(cell), (cell, variable))
            if not is_filled(cell):
                self._add((id(cell), "empty"), Absent(variable))
        for name in imports_of(f.__code__):
            if name not in sys.modules:
                absent = Lacks(Item(Constant(sys.modules, "sys.modules"), name, dict))
                self._add(("lacks", id(sys.modules), name), absent)

    def _guard_code(self, f: types.FunctionType) -> None:
        """Guard on the identity of a function: its code and its defaults."""
        place = self.known[id(f)][1]
        if place is None or (id(f), "__code__") in self.reads:
            return
        code = rewrite.original(f.__code__)
        self._add((id(f), "__code__"), FunctionCode(Field(place, "__code__"), code, code))
        for name in ("__defaults__", "__kwdefaults__"):
            given = getattr(f, name)
            where = Field(place, name)
            if given is None:  # a call that went without defaults does not depend on them
                continue
            self._add((id(f), name), Typed(where, given))
            self.known[id(given)] = given, where
            self.touch(given)  # what the containers in it hold is read by the function itself

    def show(self, x: Any) -> None:
        """Let user code that may run through this object run observed."""
        kind = type(x)
        if kind in PLAIN or id(x) in self._shown:
            return
        if kind is types.FunctionType:
            self._shown[id(x)] = x
            if id(x) not in self._made:
                self.see(x)
            if is_library_code(x.__code__, x.__globals__):
                for cell in x.__closure__ or ():  # a decorator of the library's around a function
                    self._show_contents(cell)
                wrapped = x.__dict__.get("__wrapped__")
                if wrapped is not None:
                    self.show(wrapped)
            else:
                swap(x)
        elif kind is types.MethodType:
            self.show(x.__func__)
            self.show_class(type(x.__self__))
        elif kind is functools.partial:
            for part in (x.func, *x.args, *x.keywords.values()):
                self.show(part)
        elif kind in (staticmethod, classmethod):
            self.show(x.__func__)
        elif kind is property:
            for part in (x.fget, x.fset, x.fdel):
                self.show(part)
        elif kind in (functools.cached_property, functools.partialmethod):
            self.show(x.func)
        elif kind is functools.singledispatchmethod:
            dispatcher = Constant(x.dispatcher, x.func.__name__)
            self._asked(x.dispatcher, dispatcher, _implementations)
            for implementation in x.dispatcher.registry.values():
                self.show(implementation)
        elif kind is CACHED:
            self.show(x.__wrapped__)
        elif issubclass(kind, Tensor):
            for hooks in (x._hooks, x._accumulated_hooks):
                for hook in (hooks or {}).values():
                    self.see(hook)
        elif issubclass(kind, type):
            self.show_class(x)
        elif kind is Op:
            self._show_op(x)
        elif kind is types.ModuleType:
            self._shown[id(x)] = x
            getter = own_attributes(x).get("__getattr__")
            if getter is not None and not is_library_module(x.__dict__.get("__name__")):
                self.see(getter)
        elif issubclass(kind, CONTAINERS) or kind in C_CALLABLES:
            self.show_class(kind)
        elif callable(x) and not in_python(kind):  # of C's, around a function
            for part in gc.get_referents(x):
                if type(part) is types.FunctionType:
                    self.show(part)
        elif is_structured(kind):
            self._show_structured(x)
        else:
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

    def _show_structured(self, x: Any) -> None:
        """A module or an optimizer, with all that it may call."""
        self._shown[id(x)] = x
        if not self.recorder.made_here(x):
            self.structures.keep(own_attributes(x))
        self.show_class(type(x))
        for name, kept in own_attributes(x).items():
            if name.endswith("_hooks"):
                for hook in _hooks_in(kept):
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
            if is_ours(base):
                self._show_patches(base)
            if is_library_class(base) or not in_python(base):
                continue
            for name, x in list(base.__dict__.items()):
                if type(x) in PLAIN:
                    continue
                if type(x) is types.FunctionType and not _is_implicit(name, theirs):
                    continue  # shown where it is named
                if type(x) is types.FunctionType and is_dunder(name) and name != "__call__":
                    self._show_quietly(x)
                elif hasattr(type(x), "__get__") and not isinstance(x, type):
                    self.show(x)
                    if not is_dunder(name) and any(name in b.__dict__ for b in theirs):
                        self.in_class(kind.__mro__, name)
        if type(kind) is not type:
            self.show_class(type(kind))

    def _show_patches(self, kind: type) -> None:
        """The functions of the user's that were put into a class of ours."""
        for x in list(kind.__dict__.values()):
            if type(x) is types.FunctionType and not is_library_code(x.__code__, x.__globals__):
                self._show_quietly(x)

    def note_class_methods(self, x: Any) -> None:
        """The library has called a module or an optimizer, by methods that its class may have got
        from the user meanwhile."""
        base = next((b for b in type(x).__mro__ if "forward" in b.__dict__), None)
        if base is not None and is_ours(base):
            method = base.__dict__["forward"]
            if type(method) is types.FunctionType:
                self.note_method(type(x) if is_ours(type(x)) else base, "forward", method)

    def note_method(self, kind: type, name: str, method: Any) -> None:
        """A class of a library has a method, itself or by its bases."""
        if not any((id(base), name, "class") in self.stored for base in kind.__mro__):
            place = Field(Constant(kind, kind.__name__), name)
            self._add((id(kind), name, "method"), self._expected(place, method))

    def _show_quietly(self, f: types.FunctionType) -> None:
        """A function that may never run: it is observed if it does, and itself not guarded."""
        if id(f) not in self._shown and not is_library_code(f.__code__, f.__globals__):
            self._shown[id(f)] = f
            self.known.setdefault(id(f), (f, self._whereabouts(f, None)))
            self._see_function(f)
            swap(f)

    # --- what the classes made of this one do ---------------------------------------------

    def callee(self, f: Any) -> Any:
        """The function to call for `f`: itself if it is user code, which runs observed."""
        raise NotImplementedError

    def call(self, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call what is C's or the library's."""
        raise NotImplementedError

    def item(self, container: Any, key: Any) -> Any:
        """Read an item."""
        raise NotImplementedError

    def _dict_item(self, container: dict[Any, Any], place: Place, key: Any) -> Any:
        """Read an item of a dict from before."""
        raise NotImplementedError

    def _asked(self, x: Any, place: Place, question: Callable[[Any], Any]) -> Any:
        """Ask an object that keeps its state to itself."""
        raise NotImplementedError

    def touch(self, x: Any) -> None:
        """Note that a container from before is read whole."""
        raise NotImplementedError

    def in_class(self, bases: Sequence[type], name: str) -> Any:
        """The attribute in the first of some classes that has it; MISSING if none has."""
        raise NotImplementedError

    def _stored(self, holder: Any, key: SlotKey, place: NestedPlace, value: Any) -> None:
        """A slot of something from before is about to hold a value."""
        raise NotImplementedError

    def _mutate(
        self, container: Any, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, ...]:
        """A method is about to change a container from before; the arguments to call it with."""
        raise NotImplementedError

    # --- what is to be found again ----------------------------------------------------------

    def _add(self, key: SlotKey, read: Read) -> None:
        self.reads.setdefault(key, read)

    def _expected(self, place: Place, value: Any) -> Read:
        """The guard on a value that was read."""
        if is_plain(value):
            return Equal(place, value)
        kind = type(value)
        if kind in (list, dict, tuple, bytearray):
            return Typed(place, value)
        if lives_on(value):
            return Same(place, value, value)
        try:
            return Same(place, value, weakref.ref(value, self.gone.append))
        except TypeError:
            pass
        if issubclass(kind, VALUED):
            return Valued(place, value)
        if in_python(kind) and not is_library_class(kind):
            return Typed(place, value)
        self.kept.append(value)
        return Same(place, value, value)

    def _keep(self, x: Any) -> Any:
        """Keeps the address of an element valid: a weak reference, or the element itself."""
        if is_plain(x) or type(x) in (list, dict, tuple, bytearray):
            return None
        try:
            return weakref.ref(x, self.gone.append)
        except TypeError:
            return x

    def read(self, key: SlotKey, place: NestedPlace, value: Any) -> Any:
        """A slot that was there before was read; its value, or what stands for it."""
        if issubclass(type(value), HostScalar):
            return value  # which tells the recorder itself
        if key in self.stored:
            self.show(value)
            return value
        if key in self.carried:
            value = self.carried[key]
            self._at(place, self.carried_at[key])
            self.see(value, place)
            return value
        if id(value) in self.described:
            return self.described[id(value)][1]
        passed = is_passed(place)
        if key not in self.slots:
            self.slots[key] = place, value
            if not passed:
                self._add(key, self._expected(place, value))
        if passed:
            self._see_argument(value, place)
        else:
            self.see(value, place)
        return value

    def _at(self, place: NestedPlace, known: NestedPlace) -> None:
        """A slot was read by one way, and is an input by another: both must lead to it."""
        if str(place) != str(known):
            read = Together(place.parent, known.parent, True)
            self._add(("together", id(place), id(known)), read)

    def place_of(self, x: Any) -> Place | None:
        """Where something is found that was there before; None for what is new."""
        found = self.known.get(id(x))
        return None if found is None else found[1]

    # --- the ends ---------------------------------------------------------------------------

    def refuse(self, problem: str, remedy: str) -> CaptureError:
        """The error for what cannot be recorded; it stands even if the function catches it."""
        self.refused = self.refused or self.recorder.refusal(problem, remedy)
        return self.refused

    def undo(self) -> Callable[[], Any]:
        """A call that undoes all writes, last first; it is C throughout, so that no interrupt can
        end it halfway."""
        return undoing(self._undo)

    def forget(self) -> None:
        """Drop the references to old and new objects."""
        self.known, self.slots, self.before, self.tensors = {}, {}, {}, {}
        self._own, self._made, self._shown, self._touched = [], {}, {}, set()
        self._young = None
        self.writes, self._latest, self._mutated, self._undo = [], {}, set(), [None]
        self._appended = {}
        self.carried, self.described, self._proxies = {}, {}, {}


def _implementations(dispatcher: Any) -> tuple[int, ...]:
    return tuple(map(id, dispatcher.registry.values()))


def is_filled(cell: types.CellType) -> bool:
    """Whether a variable of a closure has a value."""
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def own_attributes(x: Any, default: Any = types.MappingProxyType({})) -> Any:
    """The `__dict__` of an object; no code of its class runs."""
    try:
        found = object.__getattribute__(x, "__dict__")
    except (AttributeError, TypeError):
        return default
    return found if issubclass(type(found), dict) else default


def _self_place(instance: Any) -> Place:
    """Where the object of a method is found; one without room for a weak reference is kept."""
    try:
        return Object(weakref.ref(instance), "self")
    except TypeError:
        return Constant(instance, "self")


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


def is_structured(kind: type) -> bool:
    """Whether objects of a class count the changes of their structure: modules, optimizers."""
    return hasattr(kind, "_restructured")


def _hooks_in(kept: dict[Any, Any]) -> Iterator[Any]:
    """The functions among hooks, which some owners keep by what they are called for."""
    for hook in kept.values():
        if type(hook) is dict:
            yield from _hooks_in(hook)
        else:
            yield getattr(hook, "function", hook)


def is_iterator(x: Any) -> bool:
    """Whether something is an iterator of Python's own: a generator, `map`, `zip`."""
    return hasattr(type(x), "__next__") and not in_python(type(x))


def is_leaf(kind: type) -> bool:
    """Whether objects of a class hold no Python state."""
    return kind in PLAIN or kind is Symbol or issubclass(kind, Tensor)


def is_alias(method: Any, name: str) -> bool:
    """Whether a class has another method of C's by a name, as in `__getattr__ = dict.get`."""
    return type(method) in C_CALLABLES and method.__name__ != name


def is_dunder(name: str) -> bool:
    """Whether a name is one of Python's own."""
    return name.startswith("__") and name.endswith("__")


def _is_implicit(name: str, theirs: Iterable[type]) -> bool:
    """Whether a method is called without being named, or by a library that knows its name."""
    return is_dunder(name) or any(name in base.__dict__ for base in theirs)


def described_fields(x: Any) -> list[str]:
    """The attributes of an argument that the key of a call describes."""
    kind = type(x)
    if kind is types.SimpleNamespace:
        return list(x.__dict__)
    return [field.name for field in dataclasses.fields(kind)] if _is_dataclass(kind) else []


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


def undefined_names(code: types.CodeType, namespace: dict[str, Any]) -> Iterator[str]:
    """The global variables that code reads, or code within it, and that are not there."""
    absent = [n for n in code.co_names if n not in namespace and not hasattr(builtins, n)]
    if absent:  # most of them are attributes
        read = globals_of(rewrite.original(code))
        yield from (name for name in absent if name in read)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from undefined_names(constant, namespace)
