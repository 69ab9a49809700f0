"""Writes: changes of Python's state that outlive the call, and that every replay repeats.

A value that was computed is a result of the program; the containers around it are made anew.
"""

from __future__ import annotations

import itertools
import operator
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from contraflow.capture.state.places import (
    MISSING,
    Attribute,
    ConditionWriter,
    GivenArguments,
    NestedPlace,
    Place,
)
from contraflow.capture.state.reads import items
from contraflow.tensors.tensor import Tensor
from contraflow.tensors.tree import elements_of, plain_type


class Write:
    """One change of state."""

    __slots__ = ("line",)

    def __init__(self, line: Any) -> None:
        self.line = line  # of the user's

    @property
    def values(self) -> Any:
        """The written values, as containers of tensors, numbers and objects."""
        raise NotImplementedError

    def changes(self, container: Any) -> bool:
        """Whether it is a change of a container, as long as the recording goes on."""
        raise NotImplementedError

    def forget_values(self) -> None:
        """Drop the values of the recording."""
        raise NotImplementedError

    @property
    def target(self) -> Place:
        """Where to find what is changed, before any write of the call is done."""
        raise NotImplementedError

    def do(self, changed: Any, values: Any) -> None:
        """Change what was found at `target` in a call, with the values of this call."""
        raise NotImplementedError


class SlotStore(Write):
    """A slot gets a value, or loses what it holds."""

    __slots__ = ("key", "place", "value", "quiet")

    def __init__(self, key: Any, place: NestedPlace, value: Any, line: Any) -> None:
        super().__init__(line)
        self.key, self.place, self.value = key, place, value
        self.quiet = isinstance(value, Tensor)  # to recordings that guard on its module

    @property
    def values(self) -> Any:
        return None if self.value is MISSING else self.value

    def changes(self, container: Any) -> bool:
        return bool(self.key[0] == id(container))

    def forget_values(self) -> None:
        self.key = None
        if self.value is not MISSING:
            self.value = None

    @property
    def target(self) -> Place:
        return self.place.parent

    def do(self, changed: Any, values: Any) -> None:
        if self.value is MISSING:
            self.place.remove(changed)
        else:
            self.place.put(changed, values)

    def __str__(self) -> str:
        return str(self.place)


class Registered(NestedPlace):
    """An attribute of a module, which may register what it is given.

    A buffer or a plain attribute that only the user's code reads changes quietly: a
    recording that reads it guards on it. Any other change is one that all recordings must notice.
    """

    __slots__ = ("slot", "loud", "created", "buffer", "persistent")

    def __init__(
        self,
        slot: NestedPlace,
        module: Place,
        name: str,
        loud: bool,
        created: bool,
        buffer: bool,
    ) -> None:
        super().__init__(module, name)
        self.slot = slot
        self.loud = loud
        self.created = created  # by the write: the count of changes guards that it is not there
        self.buffer, self.persistent = buffer, True

    def registers(self, module: Any) -> bool:
        """Whether a module does not have the buffer yet, which other code looks for."""
        return self.buffer and self.key not in module._buffers

    def address(self, given: GivenArguments) -> tuple[Any, ...]:
        return self.slot.address(given)

    def get(self, given: GivenArguments) -> Any:
        return self.slot.get(given)

    def source(self, writer: ConditionWriter) -> str:
        return self.slot.source(writer)

    def put(self, holder: Any, value: Any) -> None:
        if self.registers(holder):
            holder.register_buffer(self.key, value, self.persistent)
        elif self.loud:
            setattr(holder, self.key, value)
        elif isinstance(self.slot, Attribute):
            self.slot.put(holder, value)
        else:
            dict.__setitem__(holder._buffers, self.key, value)

    def remove(self, holder: Any) -> None:
        if hasattr(holder, self.key):
            delattr(holder, self.key)

    def __str__(self) -> str:
        return f"{self.parent}.{self.key}"


def registered(slot: NestedPlace, module: Place, name: str, before: Any, ours: bool) -> Registered:
    """The attribute of a module that a slot of its registries stands for."""
    own = isinstance(slot, Attribute)
    buffer = not own and isinstance(slot.parent, Attribute) and slot.parent.key == "_buffers"
    created = before is MISSING
    loud = ours or created or not (own or buffer)
    return Registered(slot, module, name, loud, created, buffer)


REFILL = "="  # stands for a method that gives a container other contents


class Mutation(Write):
    """A container is changed by one of its methods."""

    __slots__ = ("container", "place", "method", "args", "kwargs", "function")

    def __init__(
        self,
        container: Any,
        place: Place,
        method: str,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        line: Any,
    ) -> None:
        super().__init__(line)
        self.container, self.place, self.method = container, place, method
        self.args, self.kwargs = args, kwargs
        kind = plain_type(type(container))
        self.function = refill if method == REFILL else getattr(kind, method)

    @property
    def values(self) -> Any:
        return tuple(self.args), dict(self.kwargs)

    def changes(self, container: Any) -> bool:
        return self.container is container

    def forget_values(self) -> None:
        self.container, self.args, self.kwargs = None, (), {}

    @property
    def target(self) -> Place:
        return self.place

    def do(self, changed: Any, values: Any) -> None:
        args, kwargs = values
        self.function(changed, *args, **kwargs)

    def __str__(self) -> str:
        return str(self.place) if self.method == REFILL else f"{self.place}.{self.method}"


def refill(container: Any, contents: Any) -> None:
    """Give a container other contents; code of a user's class that is one does not run."""
    for call in refills(container, contents):
        call()


def refills(container: Any, contents: Any) -> list[Callable[[], Any]]:
    """The calls that give a container other contents, each of C alone."""
    kind: Any = plain_type(type(container))
    if issubclass(kind, (list, bytearray)):  # bytes that others look at stay in their place
        return [partial(kind.__setitem__, container, slice(None), contents)]
    fill = kind.update if issubclass(kind, (dict, set)) else kind.extend
    return [partial(kind.clear, container), partial(fill, container, contents)]


def copied(container: Any) -> Any:
    """The contents of a container, in a container of a builtin type."""
    kind = type(container)
    if kind is dict:
        return container.copy()
    if issubclass(kind, deque):
        return deque(elements_of(container), container.maxlen)
    if issubclass(kind, np.ndarray):
        return container.copy()
    if issubclass(kind, dict):
        return dict(items(container))
    return plain_type(kind)(elements_of(container))


def undoing(calls: list[Any]) -> Callable[[], Any]:
    """A call that makes the calls of a list behind its first entry, None, last first; it is C
    throughout, so that no interrupt ends it halfway."""
    return partial(deque, map(operator.call, iter(calls.pop, None)), 0)


def do_noted(call: Callable[[], Any], undo: Callable[[], Any], undos: list[Any]) -> None:
    """Make a call and note how to undo it, unless it raises. If both are C, no interrupt comes in
    between."""
    done = zip(map(operator.call, (call,)), (undo,))
    undos.extend(map(operator.itemgetter(1), done))


def do_if(call: Callable[[], Any], undo: Callable[[], Any], undos: list[Any]) -> bool:
    """The same, where the call says whether it has changed anything."""
    count = len(undos)
    undos.extend(itertools.compress((undo,), map(operator.call, (call,))))
    return len(undos) > count
