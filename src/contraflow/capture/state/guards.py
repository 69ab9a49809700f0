"""Guards: the conditions beyond its key under which a program serves a call.

The modules it called, the tensors it found, the `.grad` slots it read, and what it read of Python's
state (`reads.py`).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from contraflow import thresholds
from contraflow.capture.state.places import (
    NOTHING_THERE,
    ConditionWriter,
    GivenArguments,
    NestedPlace,
)
from contraflow.capture.state.reads import Equal, Read, Same, shown
from contraflow.capture.state.written import holding
from contraflow.dtypes import DType
from contraflow.shapes import View
from contraflow.tensors.epoch import Structure
from contraflow.tensors.hooks import hooks_in
from contraflow.tensors.storage import Storage
from contraflow.tensors.tensor import Tensor


class Held(NamedTuple):
    """A tensor that an effect or a guard is about: an argument by its number, or one of state."""

    argument: int  # -1 for state
    tensor: weakref.ref[Tensor]
    placed: bool = False  # at its place in the graph that the call itself has given it

    def get(self, arguments: Sequence[Tensor]) -> Tensor | None:
        """The tensor in this call."""
        return self.tensor() if self.argument < 0 else arguments[self.argument]


class Watched(NamedTuple):
    """A tensor from outside as the recording found it."""

    tensor: weakref.ref[Tensor]
    storage: weakref.ref[Storage]
    needs: bool
    layout: View
    dtype: DType
    hooks: tuple[Any, ...]

    @staticmethod
    def of(t: Tensor) -> Watched:
        """A tensor as it is now."""
        refs = weakref.ref(t), weakref.ref(t.storage)
        return Watched(*refs, t.requires_grad, t.layout, t.dtype, _hooks(t))

    def holds(self) -> bool:
        """Whether the tensor is unchanged; one that is gone may have left its storage to others."""
        storage, t = self.storage(), self.tensor()
        if storage is None or t is None:
            return storage is not None
        if t.storage is not storage or t.layout != self.layout or t.dtype is not self.dtype:
            return False
        return t.requires_grad is self.needs and _hooks(t) == self.hooks


class Pin(NamedTuple):
    """The memory of state that an argument shares, and whether it is a tensor of that state."""

    storage: weakref.ref[Storage]
    tensors: list[weakref.ref[Tensor]]  # of state, over that memory
    number: int  # of the argument among them, -1 for another tensor

    def holds(self, t: Tensor) -> bool:
        """Whether it is so for an argument."""
        return self.storage() is t.storage and _among(self.tensors, t) == self.number


def _among(tensors: Sequence[weakref.ref[Tensor]], t: Tensor) -> int:
    return next((number for number, ref in enumerate(tensors) if ref() is t), -1)


def _hooks(t: Tensor) -> tuple[Any, ...]:
    return hooks_in(t._hooks, t._accumulated_hooks)


def layout_of(gradient: Tensor | None) -> Any:
    """The properties of a gradient, beside its elements, that a program depends on."""
    if gradient is None:
        return None
    return gradient.layout, gradient.dtype, gradient.storage.data.size, gradient._needs


class GradientRead(NamedTuple):
    """A `.grad` that was read, by its layout; None if there was no gradient."""

    held: Held
    layout: Any  # what `layout_of` gave

    def holds(self, arguments: Sequence[Tensor]) -> bool:
        """Whether it is so in this call."""
        argument, tensor, _ = self.held
        owner = tensor() if argument < 0 else arguments[argument]
        return owner is not None and layout_of(owner._grad) == self.layout

    def source(self, writer: ConditionWriter) -> str:
        """The condition that it is so."""
        argument, tensor, _ = self.held
        owner = f"{writer.name(tensor)}()" if argument < 0 else f"a{argument}"
        if self.layout is None:
            return f"{owner}._slot is None"
        return f"{writer.name(layout_of)}({owner}._grad) == {writer.name(self.layout)}"


class KeptArrays:
    """Keeps arrays alive until one of their owners dies.

    Callers copy the reference to the list first, so an owner that dies during a call is safe.
    """

    __slots__ = ("arrays",)

    def __init__(self, arrays: list[Any]) -> None:
        self.arrays: Any = arrays


class Guards:
    """The conditions beyond the key under which a program serves a call."""

    def __init__(self, modules: list[tuple[weakref.ref[Any], int]]) -> None:
        self.modules = modules
        self.epoch = Structure.epoch
        self.gradients: list[GradientRead] = []
        self.sharing: list[tuple[int, int, bool]] = []  # of these with others
        self.watched: list[Watched] = []
        # The storages that are not arguments, by their ids, which others have when they are gone.
        self.state: dict[int, weakref.ref[Storage]] = {}
        self.pins: dict[int, Pin] = {}  # of arguments that are also state
        self.reads: list[Read] = []
        self._at_once: Callable[[Sequence[Any]], bool] | None = None  # asks all of them
        self._asked = 0  # how often they were asked one by one
        self.late = 0  # how many of these, at the end, only backward has read
        self.references: list[weakref.ref[Any]] = []
        self.gone: list[weakref.ref[Any]] = []  # of what was read, and of state
        self.kept: list[Any] = []  # what cannot be referred to weakly

    def set_reads(self, forward: dict[Any, Read], backward: dict[Any, Read]) -> None:
        """Guard on what was read of Python's state, by the function and by its backward."""
        late = [read for key, read in backward.items() if key not in forward]
        self.reads, self.late = [*forward.values(), *late], len(late)
        self._at_once, self._asked = None, 0

    def watch(self, tensors: Sequence[Tensor], arguments: Sequence[Tensor]) -> None:
        """Guard on the tensors that the function knows, and on which arguments are among them."""
        self.watched = [Watched.of(t) for t in tensors]
        known = {id(t.storage): w.storage for t, w in zip(tensors, self.watched)}
        own = {id(t.storage) for t in arguments}
        self.state = {key: ref for key, ref in known.items() if key not in own}
        self.sharing = self._sharing(arguments)
        for number, t in enumerate(arguments):
            if id(t.storage) in known:
                over = [w.tensor for x, w in zip(tensors, self.watched) if x.storage is t.storage]
                self.pins[number] = Pin(known[id(t.storage)], over, _among(over, t))

    def keep_memory(self, storages: Sequence[Storage]) -> KeptArrays:
        """The memory of state, as long as the state itself is there."""
        memory = KeptArrays([storage.data for storage in storages])
        # Callbacks in C: an interrupt in one of Python's would be lost.
        for callback in (self.gone.append, partial(setattr, memory, "arrays")):
            self.references += [weakref.ref(storage, callback) for storage in storages]
        return memory

    def forget_gone(self) -> None:
        """Leave out modules that the function itself made, and that are gone after it."""
        self.modules = [(module, n) for module, n in self.modules if module() is not None]

    def are_current(self) -> bool:
        """Whether modules and tensors are unchanged; if not, they never match again."""
        # Another object may have the address of one that is gone.
        return not self.gone and self._are_as_recorded()

    def _are_as_recorded(self) -> bool:
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

    def changed_value(self, given: GivenArguments) -> NestedPlace | None:
        """The place where there is another number or tensor than a recording has read, if that is
        the first of what has changed."""
        read = next((read for read in self.reads if not read.holds(given)), None)
        place = None if read is None else read.place
        if not isinstance(place, NestedPlace) or not isinstance(read, (Equal, Same)):
            return None
        with suppress(*NOTHING_THERE):
            now = place.get(given)
            if isinstance(read, Equal) and type(now) in (int, float):
                return place if type(read.value) in (int, float) else None
            return place if isinstance(now, Tensor) and read.was() == shown(now) else None
        return None

    def change(self, given: GivenArguments) -> str | None:
        """The first read that finds something else, as text."""
        return next((read.change(given) for read in self.reads if not read.holds(given)), None)

    def repeats(self, given: GivenArguments) -> bool:
        """Whether the function itself would find what it has read."""
        first = len(self.reads) - self.late
        late = {id(getattr(read, "reference", None)) for read in self.reads[first:]}
        if any(id(reference) not in late for reference in self.gone):
            return False
        return self._are_as_recorded() and all(read.holds(given) for read in self.reads[:first])

    def renew(self, counts: Sequence[tuple[Any, int]]) -> None:
        """Accept the changes of modules that a replay itself has made."""
        known = {(id(module), number): module for module, number in counts}
        self.modules = [
            (ref, known[id(ref()), number]._structure if (id(ref()), number) in known else number)
            for ref, number in self.modules
        ]

    def hold(self, arguments: Sequence[Tensor], given: GivenArguments) -> bool:
        """Whether everything holds: reads, `.grad` slots, and aliasing of arguments and state."""
        if (self.gone or self.epoch != Structure.epoch) and not self.are_current():
            return False
        if not self._reads_hold(given):
            return False
        if self.state:
            for number, t in enumerate(arguments):
                if number not in self.pins and self.is_state(id(t.storage)):
                    return False
        if self.pins:
            for number, pin in self.pins.items():
                if not pin.holds(arguments[number]):
                    return False
        if not self.gradients:
            return True
        return all(read.holds(arguments) for read in self.gradients) and self.share_as_recorded(
            arguments
        )

    def _reads_hold(self, given: GivenArguments) -> bool:
        """Whether all reads hold, asked by a function that is written for calls that come often."""
        if self._at_once is not None:
            if not given[1] and self._at_once(given[0]):
                return True
        elif self._asked < thresholds.written_guards:
            self._asked += 1
        else:
            self._at_once = holding(self.reads)
        return all(read.holds(given) for read in self.reads)

    def is_state(self, address: int) -> bool:
        """Whether the storage there is state, and not another at the address of one gone."""
        reference = self.state.get(address)
        if reference is not None and reference() is None:
            self.state.pop(address, None)  # also where hits look
            return False
        return reference is not None

    def share_as_recorded(self, arguments: Sequence[Tensor]) -> bool:
        """Whether the gradients that were read are one tensor, or share memory, with each other,
        with arguments and with state, as they did."""
        return self._sharing(arguments) == self.sharing

    def _sharing(self, arguments: Sequence[Tensor]) -> list[tuple[int, int, bool]]:
        """For each gradient its number and that of its memory, and whether that is of state."""
        owners = [read.held.get(arguments) for read in self.gradients if read.layout is not None]
        if not owners:
            return []
        tensors: dict[int, int] = {}
        storages: dict[int, int] = {}
        for t in arguments:
            tensors.setdefault(id(t), len(tensors))
            storages.setdefault(id(t.storage), len(storages))
        found = []
        for owner in owners:
            gradient = None if owner is None else owner._slot
            # A gradient that has not been read has no other owner.
            memory = id(gradient.storage if isinstance(gradient, Tensor) else gradient)
            number = tensors.setdefault(id(gradient), len(tensors))
            found.append(
                (number, storages.setdefault(memory, len(storages)), self.is_state(memory))
            )
        return found

    def conditions(self, writer: ConditionWriter, arguments: int) -> Iterator[str]:
        """The conditions of `hold` as source text, for the function of a call that hits.

        There the storages of arguments are `s0`, `s1`, ..., none of which is one of state.
        """
        known = writer.name(self)
        yield f"not {known}.gone"
        yield f"({known}.epoch == {writer.name(Structure)}.epoch or {known}.are_current())"
        for read in self.reads:
            yield read.source(writer)
        if self.state and arguments:
            state = writer.name(self.state)
            yield " and ".join(f"id(s{i}) not in {state}" for i in range(arguments))
        for gradient in self.gradients:
            yield gradient.source(writer)
        if self.sharing:
            given = "".join(f"a{i}, " for i in range(arguments))
            yield f"{known}.share_as_recorded(({given}))"
