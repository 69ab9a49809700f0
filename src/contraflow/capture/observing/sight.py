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
import sys
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from contraflow.capture.observing.chain import ObserverChain, SlotKey
from contraflow.capture.observing.copies import ComponentCopies
from contraflow.capture.observing.objects import (
    BOUND,
    described_fields,
    holds_tensor,
    is_component,
    is_filled,
    is_passed,
    items_of,
    lives_on,
)
from contraflow.capture.observing.unheard import Unheard
from contraflow.capture.restart import PlacesToGuard
from contraflow.capture.rewriting import rewrite
from contraflow.capture.rewriting.bytecode import globals_of, imports_of
from contraflow.capture.rewriting.library import (
    in_python,
    is_library_class,
    is_library_code,
    is_library_module,
)
from contraflow.capture.state.graph_reads import LeafHooks, OutsideGraph, ResultHooks
from contraflow.capture.state.places import (
    Argument,
    Cell,
    Constant,
    Described,
    DictKey,
    Field,
    GivenArguments,
    Global,
    Item,
    NestedPlace,
    Object,
    Place,
    RecordField,
)
from contraflow.capture.state.reads import (
    PLAIN,
    VALUED,
    Absent,
    BoundMethod,
    Equal,
    FunctionCode,
    Lacks,
    Read,
    Same,
    Together,
    Typed,
    Valued,
    is_plain,
    shown,
)
from contraflow.capture.state.writes import SlotStore, Write, undoing
from contraflow.contexts.record import Recorder
from contraflow.errors import CaptureError
from contraflow.operation.op import REGISTRY
from contraflow.tensors.epoch import Every
from contraflow.tensors.host_scalar import HostScalar
from contraflow.tensors.symbol import Symbol
from contraflow.tensors.tensor import Tensor

LARGEST = 1000  # elements of a container that may be guarded as a whole


class Sight(ObserverChain):
    """The Python state that one recording has met."""

    def __init__(self, recorder: Recorder | Unheard) -> None:
        self.recorder = recorder
        # The carried inputs of the program: the contents of slots, and containers by their address.
        self.carried_values: dict[SlotKey, Any] = {}
        self.carried_places: dict[SlotKey, NestedPlace] = {}
        self.carried_read: set[int] = set()  # ids of their places
        self.described: dict[int, tuple[Any, Any]] = {}  # itself, and what stands for it
        self.stand_ins: dict[int, tuple[Any, Any]] = {}  # the same of containers in arguments
        self.found_by_c: list[Place] = []  # of containers that something stands for
        self.known: dict[int, tuple[Any, Place | None]] = {}  # what was there before, and where
        self.reads: dict[SlotKey, Read] = {}
        # Read before anything was stored there: where it is, and what was there.
        self.slots: dict[SlotKey, tuple[NestedPlace, Any]] = {}
        self.stored: dict[SlotKey, None] = {}
        self.before: dict[int, Any] = {}  # what containers held that were changed
        self._mutated: set[int] = set()  # containers that a method has changed
        self._restored: set[int] = set()  # containers that get back all that they held
        self._appended: dict[int, int] = {}  # how many elements at the end the function has put
        self.writes: list[Write] = []
        # The stores that count, by what holds them: a deletion, a value, or one and then the other.
        self._latest: dict[int, dict[SlotKey, list[SlotStore]]] = {}
        self.tensors: dict[int, Tensor] = {}
        self.gone: list[Any] = []  # weak references whose objects are gone
        self.kept: list[Any] = []  # what cannot be referred to weakly
        self.refused: CaptureError | None = None
        self._undo: list[Any] = [None]  # calls that undo, None-terminated
        self.copies = ComponentCopies()
        self.again = False  # the recording has started over
        # Whether a function that writes has filled an lru_cache, and so will not run again.
        self.filled = False
        self.fills_caches = True  # results that caches lack are computed outside of the recording
        self.caches_filled = False  # that was done: they were not there when the recording began
        self.whole: set[int] = set()  # modules that the library has looked at
        self._parameters: dict[int, Any] = {}  # the parameters of the modules that were used
        self._indexed = 0  # how many modules `_parameters` is made of
        self._touched: set[int] = set()
        self._handed: set[int] = set()  # objects that were given to the library as a whole
        self._shown: dict[int, Any] = {}  # the objects whose code runs observed
        # Classes of the library that were searched for functions of the user's.
        self._searched: dict[int, type] = {}
        # Methods that run without being named, by their code: the classes, and the names there.
        self._unnamed: dict[int, list[tuple[type, str]]] = {}
        self._counted: dict[int, type] = {}  # classes that the function gives no attributes
        self._open: dict[int, type] = {}  # classes whose methods a library may call by any name
        self._own: list[Any] = []  # generators of random numbers that the function itself seeds
        self._proxies: dict[int, tuple[Any, type]] = {}  # what `vars` gives of classes
        self._made: dict[int, Any] = {}  # the functions and classes that the function makes
        # Locks from before that the function has acquired or entered: how often, and the last line.
        self._locked: dict[tuple[int, bool], tuple[int, Any]] = {}
        self._hooked: dict[int, tuple[Any, Any, Any]] = {}  # the tables of hooks that it changes
        self._hooked_at: Any = None  # the last line that changed one
        # The addresses of all objects that the function has made, once they are asked for.
        self._young: set[int] | None = None
        self.set_at: Any = None  # the line that has called a function that sets something

    def begin(self, function: Any, instance: Any, args: Any, kwargs: Any) -> None:
        """Note what a call starts from: the function, its object, and the arguments."""
        self.see(function, Constant(function, getattr(function, "__name__", "self")))
        self.callee(function)
        for every in Every.known:
            self._show_component(every)
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

    def stand_for(self, given: GivenArguments, args: Any, kwargs: Any) -> None:
        """Note what stands for containers in the arguments, which state may hold as well."""
        pending = [*zip(given[0], args), *((x, kwargs[name]) for name, x in given[1].items())]
        while pending:
            own, shown = pending.pop()
            if own is shown or type(own) is not type(shown) or id(own) in self.stand_ins:
                continue
            fields = described_fields(own)
            if fields or issubclass(type(own), (list, tuple, dict, deque)):
                self.stand_ins[id(own)] = own, shown
                pending += [(getattr(own, n), getattr(shown, n)) for n in fields]
                pending += [(x, y) for (_, x), (_, y) in zip(items_of(own), items_of(shown))]

    def _see_argument(self, x: Any, place: Place) -> None:
        """An argument, or a part of one: containers are described by the key of the call."""
        kind = type(x)
        if kind in PLAIN or kind is Symbol or id(x) in self.known:
            return
        self.known[id(x)] = x, place
        if issubclass(kind, Tensor):
            self.show(x)
            return
        if kind is types.FunctionType and not is_library_code(x.__code__, x.__globals__):
            self._see_function(x)
            self._guard_code(x)
        if issubclass(kind, (list, tuple, dict)):
            for number, (key, item) in enumerate(items_of(x)):
                if holds_tensor(key):
                    self._see_argument(key, DictKey(place, number, kind))
                self._see_argument(item, Item(place, key, kind))
        for name in described_fields(x):
            self._see_argument(getattr(x, name), RecordField(place, name))
        self.show(x)

    def see(self, x: Any, place: Place | None = None) -> None:
        """Note an object from before the recording, found at a place."""
        kind = type(x)
        if kind in PLAIN or kind is Symbol or x is REGISTRY:  # which is the library's own
            return
        if issubclass(kind, Tensor):
            self.tensors[id(x)] = x  # which may be an argument as well
            if x._base is not None and id(x) not in self.known:
                self.recorder.bring_up_to_date(x)
        if id(x) in self.stand_ins and id(x) not in self.known:
            # C has found it: nothing may stand for it.
            raise self.refuse(
                f"{place or shown(x)} is an argument too, and is read by a function of C's",
                "Pass another one.",
            )
        known = self.known.get(id(x))
        if known is not None and id(x) in self.described:
            self._not_found_by_c(x)
        theirs = kind is types.FunctionType and not is_library_code(x.__code__, x.__globals__)
        if known is not None:
            compared = kind in (list, dict, types.MethodType)  # by `is`, with no other guard on it
            if place is not None and compared and known[1] is not place:
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

    def _not_found_by_c(self, x: Any) -> None:
        """Start again without what stands for a container, if another object does: C has found it,
        and may have given it to the function."""
        place = self.known[id(x)][1]
        assert isinstance(place, Described)
        if self.described[id(x)][1] is not x:
            self.found_by_c.append(place.place)
            raise PlacesToGuard(self.found_by_c)

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
        known_component = is_component(kind) and not self.recorder.made_here(x)
        self.see(x) if known_component or hasattr(kind, "keeps_for_users") else self.show(x)

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
        if isinstance(place, Constant) or (place is not None and type(x) is types.MethodType):
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
        if kind is types.MethodType:
            kept = self._keep(value)
            if kept[1] is not value.__self__:  # which a strong reference would keep alive
                return BoundMethod(place, value, kept)
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
        if type(x) is types.MethodType:
            return self._keep(x.__func__), self._keep(x.__self__)
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
        if key in self.carried_values:
            self.carried_read.add(id(self.carried_places[key]))
            value = self.carried_values[key]
            self._at(place, self.carried_places[key])
            self.see(value, place)
            return value
        passed = is_passed(place)
        standing = self._stands_for(value)
        if standing is not None:
            if not passed:
                self._together(place, self.place_of(standing))
            return standing
        if type(value) is types.BuiltinFunctionType:
            standing = self._stands_for(value.__self__)
            if standing is not None:
                # A method that was bound before the call: that of what stands for its container.
                if not passed:
                    self._add(key, self._expected(place, value))
                return getattr(standing, value.__name__)
        if key not in self.slots:
            self.slots[key] = place, value
            if not passed:
                self._add(key, self._expected(place, value))
        if passed:
            self._see_argument(value, place)
        else:
            self.see(value, place)
        return value

    def _stands_for(self, x: Any) -> Any:
        """The stand-in of a container that is an input or a part of an argument; else None."""
        found = self.described.get(id(x)) or self.stand_ins.get(id(x))
        return None if found is None else found[1]

    def _at(self, place: NestedPlace, known: NestedPlace) -> None:
        """A slot was read by one way, and is an input by another: both must lead to it."""
        if str(place) != str(known):
            read = Together(place.parent, known.parent, True)
            self._add(("together", id(place), id(known)), read)

    def read_hooks(self, leaf: Tensor, hooks: Sequence[Any]) -> None:
        """Backward has run the hooks on an argument, or on what is carried."""
        place = self.tensor_place(leaf)
        if place is not None:
            self._add((id(leaf), "hooks"), LeafHooks(place, hooks, self._keep))

    def read_result_hooks(self, x: Tensor, hooks: Sequence[Any], retains: bool) -> None:
        """Backward has ended at the result of an op from outside."""
        place = self._graph_place(x)
        self._add((id(x), "hooks"), ResultHooks(place, hooks, retains, self._keep))

    def read_search(self, targets: Sequence[Tensor], met: Sequence[Tensor]) -> None:
        """Backward has looked for some tensors, and ended at what it met on the way."""
        found = [self._graph_place(x) for x in met if not self._is_parameter(x)]
        if found:
            key = "search", *map(id, targets), *map(id, met)
            self._add(key, OutsideGraph([self._graph_place(x) for x in targets], found))

    def _graph_place(self, x: Tensor) -> Place:
        """Where each call finds a tensor, whose place in the graph matters."""
        if self.recorder.argument_of(x) is None:
            self.see(x)
        place = self.tensor_place(x)
        assert place is not None, "a tensor can be referred to weakly"
        return place

    def read_of_tensor(self, x: Tensor, name: str, value: Any, *path: str) -> None:
        """A property of a tensor from before had a value that the recording depends on.

        It is found again as the attribute of its name, or by a path of attributes.
        """
        if self.recorder.argument_of(x) is None:
            self.see(x)
        place = self.tensor_place(x)
        if place is not None:
            for attribute in path or (name,):
                place = Field(place, attribute)
            self._add((id(x), name), self._expected(place, value))

    def tensor_place(self, x: Tensor) -> Place | None:
        """Where each call finds a tensor: an argument, what is carried, or one that stays."""
        found = (
            self.carried_places[key] for key, value in self.carried_values.items() if value is x
        )
        return next(found, None) or self.place_of(x)

    def place_of(self, x: Any) -> Place | None:
        """The place of an object that existed before the call; None for a new one."""
        found = self.known.get(id(x))
        if found is None:
            return None
        if id(x) in self.described:
            self._not_found_by_c(x)
        return found[1]

    def begin_backward(self) -> dict[SlotKey, Read]:
        """Note from now on what backward reads; what the function itself has read is given."""
        forward, self.reads, self.carried_read = self.reads, {}, set()
        self.slots, self._touched, self._handed = {}, set(), set()
        return forward

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
        self._open = {}
        self._searched = {}
        self._young = None
        self.writes, self._latest, self._mutated, self._undo = [], {}, set(), [None]
        self._appended, self._restored, self._parameters = {}, set(), {}
        self.carried_values, self.described, self._proxies = {}, {}, {}
        self.stand_ins = {}


def _self_place(instance: Any) -> Place:
    """Where the object of a method is found; one without room for a weak reference is kept."""
    try:
        return Object(weakref.ref(instance), "self")
    except TypeError:
        return Constant(instance, "self")


def undefined_names(code: types.CodeType, namespace: dict[str, Any]) -> Iterator[str]:
    """The global variables that code reads, or code within it, and that are not there."""
    absent = [n for n in code.co_names if n not in namespace and not hasattr(builtins, n)]
    if absent:  # most of them are attributes
        read = globals_of(rewrite.original(code))
        yield from (name for name in absent if name in read)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from undefined_names(constant, namespace)
