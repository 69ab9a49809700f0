"""A recorded call: where its inputs come from at each replay, and what becomes of its outputs."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from contraflow.capture.attributes import Attribute, Given
from contraflow.capture.guards import Guards, Held
from contraflow.capture.pullback import (
    CompiledNode,
    Input,
    Pullback,
    Residual,
    saved_memory,
    written_back,
)
from contraflow.capture.trees import rebuild
from contraflow.dispatch import state
from contraflow.dtypes import DType
from contraflow.errors import GradientError
from contraflow.executable import Executable
from contraflow.hooks import Structure
from contraflow.node import Saved, at
from contraflow.passes import eliminate_dead
from contraflow.record import Recording
from contraflow.shapes import View
from contraflow.storage import Storage, user_line
from contraflow.tape import Value
from contraflow.tensor import Tensor


class Owner(Protocol):
    """Whose programs these are: the compiled function."""

    name: str
    escape_lines: set[str]
    warned: bool  # of a very long tape

    @property
    def eager(self) -> Callable[..., Any]: ...

    def surroundings(self) -> list[Any]: ...

    def surroundings_key(self) -> tuple[Any, ...]: ...

    def attributes(self, given: Given) -> list[Attribute]: ...


class Call(NamedTuple):
    """What a function was called with."""

    structure: Any
    leaves: list[Any]  # tensors and numbers, in order
    arguments: list[Tensor]  # the tensors among them


class Fresh(NamedTuple):
    """A tensor over one of the program's outputs."""

    position: int
    view: View
    dtype: DType


class Shared(NamedTuple):
    """A view of the storage of an input: a new one, or the tensor itself if it lives on."""

    source: Value
    view: View
    dtype: DType
    tensor: weakref.ref[Tensor]

    def over(self, storage: Storage) -> Tensor:
        """The tensor, over the storage that the input has in this call."""
        t = self.tensor()
        if t is not None and t.storage is storage and t.layout == self.view:
            return t
        return Tensor.of_storage(storage, self.view, self.dtype)


class Argument(NamedTuple):
    """One of the arguments itself."""

    number: int


class Constant(NamedTuple):
    """A number."""

    value: int | float


class Graded(NamedTuple):
    """A result with a place in the graph: an output of the call's node, or a leaf of its own."""

    result: Fresh | Shared
    output: int  # of the node, -1 for a leaf
    writable: bool


Result = Fresh | Shared | Argument | Constant | Graded


Inputs = tuple[dict[Value, Storage], list[int | float]]


class Program:
    """One recorded call: its tape, where inputs come from, and what to do with what comes out."""

    executable: Executable
    arrays: list[Value]  # the inputs that are no host scalars
    record_ms: float  # how long the recording took
    pullback: Pullback | None = None

    def __init__(self, recording: Recording, owner: Owner) -> None:
        self.recording = recording
        self.tape = recording.tape
        self.owner = owner
        self.guards = Guards(recording.modules)
        self.results: list[Result] = []
        self.structure: Any = None
        self.differentiable: list[int] = []  # numbers of the results that the node gives
        self.residuals: dict[Value, int] = {}  # positions of outputs that backward keeps
        self.slot_outputs: list[tuple[Held, Fresh | Shared | None]] = []
        self.cell_outputs: list[tuple[weakref.ref[Any], int]] = []
        self.escapes: list[tuple[Storage, int]] = []
        self.needs: list[tuple[Held, bool]] = []  # leaves that require grad from now on, or not

    def find_inputs(self, call: Call) -> Inputs | None:
        """The storages and host scalars the program reads, None if one of them is gone."""
        if self.pullback is not None and not self.pullback.finds(call.arguments):
            return None
        storages: dict[Value, Storage] = {}
        scalars: list[int | float] = []
        for value, source in self.recording.sources.items():
            if source.role == "scalar":
                number = source.number(call.leaves)
                if number is None:
                    return None
                scalars.append(number)
            else:
                storage = source.find(call.arguments)
                if storage is None:
                    return None
                storages[value] = storage
        return storages, scalars

    def replay(self, call: Call, inputs: Inputs) -> Any:
        """Run the program, repeat the effects, and build the results."""
        storages, scalars = inputs
        arguments = call.arguments
        arrays = [storages[v].data for v in self.arrays]
        outputs = self.executable.run(arrays, scalars)
        recording = self.recording
        for value, (op, line) in recording.written.items():
            storages[value].wrote(op, line)
        random: list[Any] = []
        if recording.advances or recording.reseeds:
            random = [(g, (g.seed, g.offset)) for g in (*recording.advances, *recording.reseeds)]
            for generator, blocks in recording.advances.items():
                generator.take(blocks)
            for generator, saved in recording.reseeds.items():
                generator.set_state(saved)
        for cell_ref, position in self.cell_outputs:
            cell = cell_ref()
            if cell is not None:
                cell.value = type(cell.value)(outputs[position])
        made: dict[int, Storage] = {}
        for storage, position in self.escapes:
            storage.data = outputs[position].reshape(-1)
            made[position] = storage

        def memory(position: int) -> Storage:
            if position not in made:  # results that were views of one storage stay so
                made[position] = Storage(outputs[position].reshape(-1))
                if state().inference:
                    made[position].inference = True
            return made[position]

        def fetch(result: Fresh | Shared) -> Tensor:
            if isinstance(result, Shared):
                return result.over(storages[result.source])
            position, view, dtype = result
            return Tensor.of_storage(memory(position), view, dtype)

        for held, gradient in self.slot_outputs:
            owner = held.get(arguments)
            if owner is not None:
                owner._grad = None if gradient is None else fetch(gradient)
        for held, needs in self.needs:
            owner = held.get(arguments)
            if owner is not None and owner._needs is not needs:
                owner._needs = needs
                Structure.changed()
        node = None
        if self.pullback is not None:
            node = self._node(self.pullback, call, inputs, memory, random)

        def built(result: Result) -> Any:
            if isinstance(result, Argument):
                return arguments[result.number]
            if isinstance(result, Constant):
                return result.value
            return _placed(result, fetch, node) if isinstance(result, Graded) else fetch(result)

        return rebuild(self.structure, map(built, self.results))

    def _node(
        self,
        pullback: Pullback,
        call: Call,
        inputs: Inputs,
        memory: Callable[[int], Storage],
        random: list[Any],
    ) -> CompiledNode:
        """The node of this call, with what its backward needs."""
        storages, scalars = inputs
        current = state()
        tensors = [target.get(call.arguments) for target in pullback.targets]
        edges = [None if t is None else t.edge for t in tensors]
        place = current.line or user_line()
        node = CompiledNode(self, pullback, edges, place, len(self.differentiable))
        if current.region:
            node.region = current.region
        specs = self.tape.specs
        for v, kept in pullback.kept.items():
            if isinstance(kept, Residual):
                node.kept.append(saved_memory(memory(self.residuals[v]), specs[v]))
            elif isinstance(kept, Input):
                node.kept.append(saved_memory(storages[v], specs[v]))
            else:
                node.kept.append(kept)
        node.scalars = [scalars[i] for i in pullback.scalars]
        node.structure, node.random = call.structure, random
        node.leaves = [_saved(x) for x in call.leaves]
        node.state = [
            (storages[v], storages[v].version)
            for v, source in self.recording.sources.items()
            if source.role in ("state", "grad")
        ]
        return node

    # --- once more, for gradients of gradients --------------------------------------------

    def check_unchanged(self, node: CompiledNode, given: Given) -> None:
        """Refuse to run the function again where it would not do what it did."""
        pure = self.tape.replaced(self.tape.lines)
        pure.writes = {}
        read = {x for line in eliminate_dead(pure).lines for x in line.inputs}
        if read & set(self.tape.writes):
            raise GradientError(
                f"backward: create_graph differentiates {self.name_at(node)} by running it again, "
                f"but it overwrites what it reads. Write after reading into another tensor, or "
                f"call {self.owner.name}.eager."
            )
        for storage, version in node.state:
            if storage.version != version:
                writer, line = storage.writer or ("a write", None)
                raise GradientError(
                    f"backward: create_graph differentiates {self.name_at(node)} by running it "
                    f"again, but {writer} overwrote what it reads{at(line)}. Use the out-of-place "
                    f"form, or run backward before."
                )
        guards = self.guards
        named = self.owner.surroundings_key() == guards.key
        if not named or not guards.are_current() or guards.changed_attribute(given) is not None:
            raise GradientError(
                f"backward: create_graph differentiates {self.name_at(node)} by running it again, "
                f"but modules or variables that it uses have changed. Run backward before."
            )

    def name_at(self, node: CompiledNode) -> str:
        """The function and where it was called, for messages."""
        return f"{node.name}{at(node.line)}"

    @contextmanager
    def undone(self, leaves: Sequence[Any], random: list[Any]) -> Iterator[None]:
        """Random numbers as in the call, and no effect outlasts the block."""
        arguments = [x for x in leaves if isinstance(x, Tensor)]
        found = self.find_inputs(Call(None, list(leaves), arguments))
        if found is None:
            raise GradientError(f"backward: what {self.owner.name} read is gone.")
        storages = found[0]
        slots = [held.get(arguments) for held, _ in self.slot_outputs]
        grads = [(t, t._grad) for t in slots if t is not None]
        cells = [(cell, cell.value) for ref, _ in self.cell_outputs if (cell := ref()) is not None]
        now = [(g, (g.seed, g.offset)) for g, _ in random]
        with written_back(storages[v] for v in self.recording.written):
            try:
                for generator, saved in random:
                    generator.seed, generator.offset = saved
                yield
            finally:
                for generator, saved in now:
                    generator.seed, generator.offset = saved
                for t, grad in grads:
                    t._grad = grad
                for cell, value in cells:
                    cell.value = value


def _saved(x: Any) -> Any:
    """A leaf of the arguments, kept; a write to what was made in inference mode is not noticed."""
    return Saved(x, x.edge) if isinstance(x, Tensor) and not x.storage.inference else x


def _placed(
    graded: Graded, fetch: Callable[[Fresh | Shared], Tensor], node: CompiledNode | None
) -> Tensor:
    """A result with its place in the graph."""
    t = fetch(graded.result)
    if graded.output < 0:
        t._needs = True
        return t
    assert node is not None
    t = t.attached(node, graded.output)
    t._writable = graded.writable
    return t
