"""Guards: what a program depends on beside its arguments, and whether that is still so.

The modules it called, the tensors it found, the `.grad` slots it read, the globals and closure
cells that the function's code names, and the attributes that it reads of them (`attributes.py`).
"""

from __future__ import annotations

import dis
import types
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from contraflow.capture.attributes import PLAIN, Attribute, Given, contents
from contraflow.hooks import Structure
from contraflow.storage import Storage
from contraflow.structure import exact
from contraflow.tensor import Tensor


class Held(NamedTuple):
    """A tensor that an effect or a guard is about: an argument by its number, or one of state."""

    number: int
    tensor: weakref.ref[Tensor]

    def get(self, arguments: Sequence[Tensor]) -> Tensor | None:
        """The tensor in this call."""
        return self.tensor() if self.number < 0 else arguments[self.number]


class Watched(NamedTuple):
    """A tensor from outside as the recording found it."""

    tensor: weakref.ref[Tensor]
    storage: weakref.ref[Storage]
    needs: bool
    hooks: tuple[Any, ...]

    @staticmethod
    def of(t: Tensor) -> Watched:
        """What is to be found again."""
        return Watched(weakref.ref(t), weakref.ref(t.storage), t._needs, _hooks(t))

    def holds(self) -> bool:
        """Whether it is found again; a tensor that is gone may have left its storage to others."""
        storage, t = self.storage(), self.tensor()
        if storage is None or t is None:
            return storage is not None
        return t.storage is storage and t._needs is self.needs and _hooks(t) == self.hooks


def _hooks(t: Tensor) -> tuple[Any, ...]:
    return (*(t._hooks or {}).values(), None, *(t._accumulated_hooks or {}).values())


def layout_of(gradient: Tensor | None) -> Any:
    """What a program that reads a gradient depends on, beside its elements."""
    return (
        None if gradient is None else (gradient.layout, gradient.dtype, gradient.storage.data.size)
    )


class Memory:
    """Arrays that stay until one of those they belong to is gone; who uses them takes the list."""

    __slots__ = ("arrays",)

    def __init__(self, arrays: list[Any]) -> None:
        self.arrays: Any = arrays


class Guards:
    """What a program found, to be found again."""

    def __init__(self, modules: list[tuple[weakref.ref[Any], int]]) -> None:
        self.modules = modules
        self.epoch = Structure.epoch
        self.read_slots: list[tuple[Held, Any]] = []  # with the layout of the gradient found
        self.watched: list[Watched] = []
        self.state: set[int] = set()  # ids of the storages that are not arguments
        self.pins: dict[int, weakref.ref[Storage]] = {}  # of arguments that are also state
        self.key: tuple[Any, ...] = ()  # of the surroundings
        self.attributes: list[Attribute] = []
        self.surroundings: list[weakref.ref[Any]] = []
        self.gone: list[weakref.ref[Any]] = []  # of the surroundings, and of state
        self.kept: list[Any] = []  # what cannot be referred to weakly

    def watch(self, tensors: Sequence[Tensor], arguments: Sequence[Tensor]) -> None:
        """Guard on tensors that the function knows, and on which arguments are among them."""
        self.watched = [Watched.of(t) for t in tensors]
        known = {id(t.storage): w.storage for t, w in zip(tensors, self.watched)}
        own = {id(t.storage) for t in arguments}
        self.state = set(known) - own
        for number, t in enumerate(arguments):
            if id(t.storage) in known:
                self.pins[number] = known[id(t.storage)]

    def surround(self, values: Iterable[Any]) -> None:
        """See to it that the ids of globals and closure cells in the key stay meaningful."""
        for value in values:
            try:
                self.surroundings.append(weakref.ref(value, self.gone.append))
            except TypeError:
                self.kept.append(value)

    def keep_memory(self, storages: Sequence[Storage]) -> Memory:
        """The memory of state, as long as the state itself is there."""
        memory = Memory([storage.data for storage in storages])
        # Callbacks in C: an interrupt in one of Python's would be lost.
        for callback in (self.gone.append, partial(setattr, memory, "arrays")):
            self.surroundings += [weakref.ref(storage, callback) for storage in storages]
        return memory

    def forget_gone(self) -> None:
        """Leave out modules that the function itself made, and that are gone after it."""
        self.modules = [(module, n) for module, n in self.modules if module() is not None]
        self.attributes = [a for a in self.attributes if not a.root.is_gone()]

    def are_current(self) -> bool:
        """Whether modules, tensors and surroundings are as they were; if not, they never will."""
        if self.gone:  # another object may have its address now
            return False
        epoch = Structure.epoch  # what changes from here on is looked at next time
        if self.epoch == epoch:
            return True
        for module, structure in self.modules:
            found = module()
            if found is None or found._structure != structure:
                return False
        if not all(watched.holds() for watched in self.watched):
            return False
        self.epoch = epoch
        return True

    def changed_attribute(self, given: Given) -> Attribute | None:
        """The first attribute that is not what it was."""
        return next((a for a in self.attributes if not a.holds(given)), None)

    def hold(
        self, arguments: Sequence[Tensor], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> bool:
        """Whether all is as it was, attributes, `.grad` slots and aliasing of arguments and state
        included."""
        if (self.gone or self.epoch != Structure.epoch) and not self.are_current():
            return False
        if self.attributes:
            given = args, kwargs
            for attribute in self.attributes:
                if not attribute.holds(given):
                    return False
        if self.state:
            for number, t in enumerate(arguments):
                if id(t.storage) in self.state and number not in self.pins:
                    return False
        if self.pins:
            for number, pin in self.pins.items():
                if pin() is not arguments[number].storage:
                    return False
        for held, layout in self.read_slots:
            owner = held.get(arguments)
            if owner is None or layout_of(owner._grad) != layout:
                return False
        return True


class Surroundings:
    """What a function's own code names: globals, then closure cells."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        code: types.CodeType | None = getattr(function, "__code__", None)
        self._globals: dict[str, Any] = getattr(function, "__globals__", {})
        self._cells = getattr(function, "__closure__", None) or ()
        self._names = () if code is None else tuple(_names(code))
        self._last: tuple[list[int], tuple[Any, ...], list[Any]] = [], (), []  # ids, and their key

    def values(self) -> list[Any]:
        """What the names stand for now."""
        values = [*map(self._globals.get, self._names)]
        try:
            values += [cell.cell_contents for cell in self._cells]
        except ValueError:  # one of them is not assigned to yet
            values += map(contents, self._cells)
        return values

    def written(self, name: Callable[[Any], str]) -> list[tuple[str, Any]]:
        """How to look up each of them in Python, and what it is now; `name` names an object."""
        get = name(self._globals.get)
        places = [f"{get}({known!r})" for known in self._names]
        places += [f"{name(cell)}.cell_contents" for cell in self._cells]
        return [*zip(places, self.values())]

    def key(self) -> tuple[Any, ...]:
        """What a program depends on: numbers and texts by value, and which objects they are."""
        if not self._names and not self._cells:
            return ()
        values = self.values()
        ids, (known, key, _) = [*map(id, values)], self._last
        if ids != known:
            key = tuple([_token(x) for x in values])
            # What is compared by value is kept, so that nothing else gets its id.
            self._last = ids, key, [x for x in values if type(x) in PLAIN]
        return key


def _token(x: Any) -> Any:
    return (type(x), exact(x)) if type(x) in PLAIN else id(x)


def _names(code: types.CodeType) -> dict[str, None]:
    """The names that a function's code, and the functions within it, look up."""
    # co_names holds attribute names too: `optimizer.step()` does not read a global `step`.
    reads = (i for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    names = dict.fromkeys(i.argval for i in reads)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names(constant)
    return names
