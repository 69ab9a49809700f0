"""The observer's part for carried state: values read and then changed become inputs.

`self.h = self.h * 0.5 + x` reads what the last call has written. If that were guarded, every call
would be recorded again; so what is there at the beginning of a call is one more argument.
"""

from __future__ import annotations

import gc
import types
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from typing import Any

from contraflow.capture.observing.objects import (
    described_fields,
    is_component,
    is_iterator,
    is_leaf,
    is_passed,
    is_record,
    items_of,
    keys_of,
)
from contraflow.capture.observing.sight import LARGEST
from contraflow.capture.observing.stores import Stores
from contraflow.capture.rewriting.library import is_library_class, is_ours, names
from contraflow.capture.state.places import (
    NOTHING_THERE,
    Described,
    GivenArguments,
    Located,
    NestedPlace,
    Place,
    lookup,
)
from contraflow.capture.state.reads import shown
from contraflow.capture.state.writes import SlotStore
from contraflow.tensors.source_line import UserLine
from contraflow.tensors.symbol import Symbol
from contraflow.tensors.tensor import Tensor

# Containers whose contents may be inputs of a program.
CARRYING = (tuple, list, dict, deque)
# Modules of classes whose objects are compared by identity, and never change.
_VALUES = names("builtins types typing functools operator re logging")


class Carrying(Stores):
    """Knows which places are inputs of the program, and which should be."""

    def carry(
        self, places: Sequence[Place], contents: Sequence[Any], given: GivenArguments
    ) -> None:
        """Make the values at some places inputs of the program; `contents` stand for them."""
        for place, x in zip(places, contents):
            self._carry(place, x, given)

    def _carry(self, place: Place, x: Any, given: GivenArguments) -> None:
        if issubclass(type(x), CARRYING) or is_record(x):
            own = place.get(given)
            self.described[id(own)] = own, x
            for container in (own, x):
                self.known.pop(id(container), None)
                self._see_argument(container, Described(place))
        elif type(x) is Symbol or issubclass(type(x), (Tensor, int, float)):
            assert isinstance(place, NestedPlace)
            key = place.address(given)
            self.carried_values[key], self.carried_places[key] = x, place

    def inputs(self) -> list[Any]:
        """The tensors among the carried values."""
        found = [*self.carried_values.values(), *(x for x, _ in self.described.values())]
        return [x for x in _leaves(found) if isinstance(x, Tensor)]

    def located(self, x: Any, kept: bool, line: Callable[[], UserLine | None]) -> Any:
        """Located for an object from before, which is found again at each call; or the object.

        It is kept, or returned, at a line.
        """
        kind = type(x)
        place = self.place_of(x)
        if place is not None and not issubclass(kind, (type, types.FunctionType)):
            return Located(place)
        made = is_component(kind) and self.recorder.made_here(x)
        if made or self._cannot_be_made_again(x):
            raise self.recorder.refusal(
                f"{shown(x)} that the function makes is {'kept' if kept else 'returned'}, and "
                f"every replay would give the same one",
                "Make it outside.",
                line(),
            )
        return x

    def is_new(self, x: Any) -> bool:
        """Whether an object was made by the function: since it began, nothing was collected."""
        if type(x) is types.FunctionType:
            return id(x) in self._made
        if not gc.is_tracked(x):
            return True
        if self._young is None:
            self._young = set(map(id, gc.get_objects(0)))
        return id(x) in self._young

    def _cannot_be_made_again(self, x: Any) -> bool:
        """Whether no replay could make an object of the function again: its state is hidden."""
        kind = type(x)
        if issubclass(kind, type):
            return id(x) in self._made
        if kind is types.FunctionType:
            return id(x) in self._made and x.__closure__ is not None
        if issubclass(kind, BaseException):
            return x.__traceback__ is not None
        if is_iterator(x) or issubclass(type(x), (Coroutine, AsyncIterator)):
            return True
        # An Event, a Generator: two of them are never equal, and nobody sees all that they keep.
        apart = (
            is_library_class(kind)
            and lookup(kind, "__eq__") is object.__eq__
            and kind is not object
        )
        if not apart or is_ours(kind) or kind.__module__ in _VALUES:
            return False
        return self.is_new(x) if gc.is_tracked(x) else kind.__module__ == "_thread"

    def changed_places(self) -> list[Place]:
        """The places that were read and then changed, and whose values can be inputs."""
        found: dict[int, Place] = {}
        for write in self.writes:
            changed = (
                self._stored_at(write) if isinstance(write, SlotStore) else self._mutated_at(write)
            )
            if changed is not None:
                found[id(changed)] = changed
        return list(found.values())

    def _stored_at(self, store: SlotStore) -> Place | None:
        if store.key not in self.slots or store.key in self.carried_values:
            return None
        place, before = self.slots[store.key]
        if type(store.value) in (list, dict) and id(store.value) in self.known:
            return None  # it is found at its own place, whatever it holds
        changes = store.value is not before and id(before) not in self.described
        return place if changes and _varies(before) and _varies(store.value) else None

    def _mutated_at(self, mutation: Any) -> Place | None:
        container = mutation.container
        place, before = self.place_of(container), self.before.get(id(container))
        if place is None or is_passed(place) or not self._was_read(container):
            return None
        return place if _varies(before) else None

    def _was_read(self, container: Any) -> bool:
        """Whether the function depends on what a container held."""
        return any(
            (kind, id(container)) in self.reads for kind in ("contents", "length", "keys")
        ) or any((id(container), key) in self.reads for key in keys_of(container))


def can_be_carried(x: Any, depth: int = 3) -> bool:
    """Whether something can be an input of a program: a tensor, a number, a container of them."""
    kind = type(x)
    if is_leaf(kind):
        return True
    named = (issubclass(kind, tuple) and hasattr(kind, "_fields")) or is_record(x)
    if kind not in CARRYING and not named:
        return False
    inside = _inside(x)
    return (
        depth > 0 and len(inside) <= LARGEST and all(can_be_carried(v, depth - 1) for v in inside)
    )


def _varies(x: Any) -> bool:
    """Whether a value may be an input of a program, and another one in the next call."""
    kind = type(x)
    if kind in (int, float, Symbol) or issubclass(kind, Tensor):
        return True
    return can_be_carried(x) and any(map(_varies, _inside(x)))


def _inside(x: Any) -> list[Any]:
    """The items of a container, or the fields of a record."""
    if is_record(x):
        return [getattr(x, name) for name in described_fields(x)]
    return [item for _, item in items_of(x)]


def _leaves(x: Any) -> Iterator[Any]:
    if issubclass(type(x), CARRYING) or is_record(x):
        for item in _inside(x):
            yield from _leaves(item)
    else:
        yield x


def identity(place: Place, given: GivenArguments) -> Any:
    """The identity of a place in a call: its slot, or the object that is there."""
    try:
        return place.address(given) if isinstance(place, NestedPlace) else id(place.get(given))
    except NOTHING_THERE:
        return id(place)
