"""Effects: what a replay does beside computing, kind by kind.

Each kind has two faces, as a guard has (`reads.py`): `do`, from what a program gave, and
`source_lines`, the same as source text in the function of a call that hits (`hit.py`).
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

from contraflow.capture.state.guards import Guards
from contraflow.capture.state.places import ConditionWriter, GivenArguments
from contraflow.capture.state.writes import Registered, SlotStore, Write
from contraflow.compiler.tape import Value
from contraflow.devices.failures import clear
from contraflow.dtypes import DType
from contraflow.runtime.outputs import number_of
from contraflow.shapes import View
from contraflow.tensors.generator import Generator
from contraflow.tensors.grad_slot import Block, still_holds
from contraflow.tensors.replayed import Writes, count_replays
from contraflow.tensors.source_line import UserLine
from contraflow.tensors.storage import Storage, serials
from contraflow.tensors.tensor import Tensor


class EffectWriter(ConditionWriter, Protocol):
    """Writes the function of a call that hits, where the program has run."""

    @property
    def standing(self) -> Collection[int]:
        """The outputs that are gradients and stay where they are."""

    def write(self, line: str) -> None:
        """Write a line."""

    def block(self, position: int) -> str:
        """The variable that holds the block of an output."""

    def number(self, position: int) -> str:
        """The number that an output is, or that its block holds, as an expression."""

    def storage(self, value: Value) -> str:
        """The storage of an input in this call, as an expression."""


class Effect(Protocol):
    """The use of outputs of a program by a replay."""

    def do(self, outputs: Sequence[Any]) -> None:
        """Do it."""

    def source_lines(self, writer: EffectWriter) -> Iterator[str]:
        """The same work as lines of source text, for the function of a hit."""


class ScalarsSet(NamedTuple):
    """Host scalars get the numbers that a program computed."""

    cells: Sequence[tuple[weakref.ref[Any], int]]  # with the positions of outputs

    def do(self, outputs: Sequence[Any]) -> None:
        for cell_ref, position in self.cells:
            cell = cell_ref()
            if cell is not None:
                output = outputs[position]
                cell.value = type(cell.value)(number_of(output))

    def source_lines(self, writer: EffectWriter) -> Iterator[str]:
        for cell_ref, position in self.cells:
            yield f"if (c := {writer.name(cell_ref)}()) is not None:"
            yield f"  c.value = type(c.value)({writer.number(position)})"


class GradientsSet(NamedTuple):
    """Gradients of state become blocks, and stay blocks until `.grad` is read."""

    owners: Sequence[tuple[weakref.ref[Tensor], int]]  # with the positions of outputs

    def do(self, outputs: Sequence[Any]) -> None:
        for owner_ref, position in self.owners:
            owner = owner_ref()
            if owner is not None:
                owner._grad = outputs[position]

    def source_lines(self, writer: EffectWriter) -> Iterator[str]:
        for owner_ref, position in self.owners:
            if position not in writer.standing:
                owner = writer.name(owner_ref)
                yield f"if (t := {owner}()) is not None: t._grad = {writer.block(position)}"


class GeneratorsMoved(NamedTuple):
    """Random generators move on as the function has moved them, or start where it has put them."""

    advances: Mapping[Generator, int]  # blocks drawn
    reseeds: Mapping[Generator, tuple[int, int]]

    def __bool__(self) -> bool:
        return bool(self.advances or self.reseeds)

    @property
    def generators(self) -> list[Generator]:
        """All of them."""
        return [*self.advances, *self.reseeds]

    def do(self, outputs: Sequence[Any]) -> None:
        for generator, blocks in self.advances.items():
            generator.take(blocks)
        for generator, saved in self.reseeds.items():
            generator.set_state(saved)

    def source_lines(self, writer: EffectWriter) -> Iterator[str]:
        for generator, blocks in self.advances.items():
            yield f"{writer.name(generator.take)}({blocks})"
        for generator, saved in self.reseeds.items():
            yield f"{writer.name(generator.set_state)}({saved})"


class WritesCounted(NamedTuple):
    """Inputs were overwritten in place: their versions count it."""

    writers: Sequence[tuple[int, tuple[str, UserLine | None]]]  # with the positions of inputs

    def do(self, storages: Sequence[Storage]) -> None:
        """Count in the storages of this call."""
        for position, by in self.writers:
            storage = storages[position]
            if type(storage) is Storage:  # `wrote` does the same; a call for each takes longer
                storage.version += 1
                storage.writer = by
            else:
                storage.wrote(*by)

    def source_lines(
        self, writer: ConditionWriter, inputs: Sequence[str | Storage], writes: Writes
    ) -> Iterator[str]:
        """The same as lines. Of inputs some are variables, which are other storages in each call;
        the writes to the others are counted once."""
        for position, by in self.writers:
            storage = inputs[position]
            if isinstance(storage, str):
                yield f"{storage}.version += 1; {storage}.writer = {writer.name(by)}"
            else:
                count_replays(storage, writes, by)
        if self._counts_state(inputs):
            known = writer.name(writes)
            yield f"{known}.count += 1; {known}.last = moment()"

    def written(
        self, writer: ConditionWriter, inputs: Sequence[str | Storage], writes: Writes
    ) -> list[str]:
        """Expressions of what the lines count in."""
        given = [storage for i, _ in self.writers if isinstance(storage := inputs[i], str)]
        return [*given, writer.name(writes)] if self._counts_state(inputs) else given

    def _counts_state(self, inputs: Sequence[str | Storage]) -> bool:
        return any(isinstance(inputs[position], Storage) for position, _ in self.writers)


class UndoneCall:
    """The state that a call changes beside memory: taken back where its program fails later.

    Only what still is as the call has left it is taken back: the user may have changed it since.
    Of the results it knows the buffers, and keeps none of them alive.
    """

    # A call that hits makes one of these: states are read by functions of C.
    __slots__ = (
        "_written", "_cells", "_owners", "_generators", "_values", "_slots", "_random", "_left",
        "_is_undone", "_made",
    )  # fmt: skip

    def __init__(
        self,
        written: Sequence[Storage | Writes],
        cells: Sequence[Any],
        owners: Sequence[Tensor],
        generators: Sequence[Any],
    ) -> None:
        self._written, self._cells, self._owners = written, cells, owners
        self._generators = generators
        self._values = tuple(map(_value_of, cells))
        self._slots = tuple(map(_slot_of, owners))
        self._random = tuple(map(_random_of, generators))
        self._left = self._values, self._slots, self._random
        self._is_undone = False
        self._made: tuple[weakref.ref[Any], ...] = ()

    def note(self, blocks: Iterable[Block]) -> None:
        """The call is over, and has results in new blocks."""
        self._made = tuple(map(weakref.ref, map(_array_of, blocks)))
        self._left = (
            tuple(map(_value_of, self._cells)), tuple(map(_slot_of, self._owners)),
            tuple(map(_random_of, self._generators)),
        )  # fmt: skip
        if self._is_undone:  # by another thread, before this one had changed everything
            clear(self.undo())

    def undo(self) -> list[Any]:
        """Take back host scalars, gradients and random states; the buffers of results that nothing
        has written.

        A storage was not written to, but it gets a version that it has never had: a value that was
        saved meanwhile, of a write that never came, must not pass for a later one.
        """
        self._is_undone = True
        for storage in self._written:
            storage.wrote("a call that was taken back", None)
        cells, grads, random = self._values, self._slots, self._random
        left_cells, left_grads, left_random = self._left
        for cell, value, left in zip(self._cells, cells, left_cells):
            if cell.value == left:
                cell.value = value
        for owner, grad, left in zip(self._owners, grads, left_grads):
            if still_holds(owner, left):
                owner._grad = grad
        for generator, saved, left in zip(self._generators, random, left_random):
            if (generator.seed, generator.offset) == left:
                generator.seed, generator.offset = saved
        return [buffer for made in self._made if (buffer := made()) is not None]


_array_of = attrgetter("array")
_value_of, _slot_of = attrgetter("value"), attrgetter("_slot")
_random_of = attrgetter("seed", "offset")


class NewTensor(NamedTuple):
    """A result that is a tensor over an output, which nothing else is made of."""

    position: int
    view: View
    dtype: DType
    whole: bool  # the output as it is
    device: str

    def source(self, writer: EffectWriter) -> str:
        """The tensor as a variable, in which `new_tensor` has been written out: calling it would be
        a tenth of a small call."""
        position, view, dtype, whole, device = self
        block, t, storage = writer.block(position), f"t{position}", f"n{position}"
        new, number = writer.name(_new), writer.name(serials)
        writer.write(f"{storage} = {new}({writer.name(Storage)})")
        for name, value in (("_data", "array"), ("address", "address")):
            writer.write(f"{storage}.{name} = {block}.{value}")
        writer.write(f"{storage}.serial = {writer.name(next)}({number})")
        writer.write(f"{t} = {new}({writer.name(Tensor)})")
        writer.write(f"{t}.storage = {storage}")
        writer.write(f"{t}.layout = {writer.name(view)}")
        writer.write(f"{t}.dtype = {writer.name(dtype)}")
        if device != "cpu":
            writer.write(f"{storage}.device = {device!r}")
        elif whole:
            writer.write(f"{t}._array = {block}.array")
        return t


def new_tensors(results: Sequence[NewTensor], outputs: Sequence[Any]) -> list[Tensor]:
    """Results that are nothing but tensors over outputs."""
    return [
        new_tensor(outputs[position], view, dtype, whole, device)
        for position, view, dtype, whole, device in results
    ]


def new_tensor(block: Block, view: View, dtype: DType, whole: bool, device: str = "cpu") -> Tensor:
    """A tensor over the memory of an output, outside any graph."""
    storage, t = _new(Storage), _new(Tensor)
    storage._data, storage.address, storage.serial = block.array, block.address, next(serials)
    t.storage, t.layout, t.dtype = storage, view, dtype
    if device != "cpu":
        storage.device = device
    elif whole:
        t._array = block.array
    return t


_new = object.__new__


class StateWritten(NamedTuple):
    """Python's state is written; the values are the second of what the program gave."""

    writes: Sequence[Write]

    def do(self, results: Any, given: GivenArguments, guards: Guards) -> Any:
        """Do it, and give the result of the function."""
        result, values = results
        counts = []
        for write in self.writes:
            # The modes and modules that were read have changed.
            if isinstance(write, SlotStore) and isinstance(write.place, Registered) and write.quiet:
                module = write.place.parent.get(given)
                if not write.place.registers(module):
                    counts.append((module, module._structure))
        # A write may change the way to what another one is about.
        changed = [write.target.get(given) for write in self.writes]
        for write, target, value in zip(self.writes, changed, values):
            write.do(target, value)
        if counts:
            guards.renew(counts)
        return result

    @property
    def is_quiet(self) -> bool:
        """Whether no write changes the structure of a module, so that guards stay as they are."""
        return not any(
            isinstance(write, SlotStore)
            and isinstance(write.place, Registered)
            and write.place.loud
            for write in self.writes
        )

    def source_lines(self, writer: ConditionWriter, results: str) -> Iterator[str]:
        """The same as lines, where it `is_quiet`."""
        changed = [writer.place(each.target) for each in self.writes]
        yield f"result, values = {results}"
        for i, (each, target) in enumerate(zip(self.writes, changed)):
            yield f"{writer.name(each.do)}({target}, values[{i}])"
        yield "return result"
