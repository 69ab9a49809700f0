"""A recorded call: where its inputs come from at each replay, and what becomes of its outputs."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Sequence
from typing import Any

from contraflow import devices
from contraflow.capture.backward_tape import ForwardInput, Residual
from contraflow.capture.call import FunctionCall, Hit, Owner, ReplayInputs
from contraflow.capture.pullback import (
    CompiledNode,
    Pullback,
    saved_memory,
    whole,
)
from contraflow.capture.results import (
    Fresh,
    Graded,
    GradientResult,
    HitResult,
    HostNumber,
    MovedResult,
    ReplayValues,
    Result,
    SameResult,
    SlotResult,
    ViewOf,
)
from contraflow.capture.state.effects import (
    Effect,
    GeneratorsMoved,
    GradientsSet,
    NewTensor,
    ScalarsSet,
    StateWritten,
    UndoneCall,
    WritesCounted,
    new_tensors,
)
from contraflow.capture.state.guards import Guards, Held
from contraflow.capture.state.places import Place
from contraflow.capture.state.trees import builder
from contraflow.capture.state.writes import Write
from contraflow.compiler.tape import Value
from contraflow.contexts.recording import InputSource, Recording
from contraflow.devices.failures import LateFailure
from contraflow.dtypes import int64
from contraflow.graph.saved import keep
from contraflow.operation.context import state
from contraflow.runtime import executable
from contraflow.runtime.executable import Executable, Native
from contraflow.runtime.outputs import Standing
from contraflow.shapes import contiguous
from contraflow.spec import Spec
from contraflow.tensors.epoch import Structure
from contraflow.tensors.generator import Generator
from contraflow.tensors.grad_slot import Block
from contraflow.tensors.node import Edge
from contraflow.tensors.source_line import user_line
from contraflow.tensors.storage import Storage
from contraflow.tensors.symbol import Numbers, arithmetic
from contraflow.tensors.tensor import Tensor


class CapturedProgram:
    """One recorded call: its tape, the sources of its inputs, and the use of its outputs."""

    executable: Executable
    record_ms: float  # how long the recording took
    pullback: Pullback | None = None
    hit: Hit | None = None  # from the second call on
    standing: Standing | None = None  # the gradients that stay where they are

    def __init__(self, recording: Recording, owner: Owner) -> None:
        self.recording = recording
        self.tape = recording.tape
        self.owner = owner
        self.guards = Guards(recording.modules)
        self.results: list[Result] = []
        self.structure: Any = None
        self.differentiable: list[int] = []  # numbers of the results that the node gives
        self.residuals: dict[Value, int] = {}  # positions of outputs that backward keeps
        self.slot_outputs: list[tuple[Held, SlotResult | None]] = []
        self.cell_outputs: list[tuple[weakref.ref[Any], int]] = []
        self.carried_places: Sequence[Place] = ()  # where there are inputs beside the arguments
        self.kinds: dict[int, type] = {}  # of results that are of a class of their own
        self.writes: list[Write] = []  # of Python's state; their values are results
        self.escapes: list[tuple[Storage, int]] = []
        self.needs: list[tuple[Held, bool]] = []  # leaves that require grad from now on, or not
        self.views: list[tuple[int, int, ViewOf]] = []  # of results of other results, by positions
        self.placed: list[tuple[Held, str]] = []  # methods that change places in the graph

    def order_inputs(self) -> None:
        """Sort the inputs by kind, since those of a kind are found together at each replay."""
        sources = self.recording.sources
        self.tape.inputs = dict(
            sorted(self.tape.inputs.items(), key=lambda item: _kind_of(sources[item[0]]))
        )

    def load(self) -> None:
        """Make the tape ready to run, and decide once what every replay will do."""
        self.order_inputs()
        self.executable = executable.load(self.tape)
        self.input_positions = {v: i for i, v in enumerate(self.tape.inputs)}
        written = self.recording.writers.items()
        self.counted = WritesCounted([(self.input_positions[v], writer) for v, writer in written])
        self._sort_sources([self.recording.sources[v] for v in self.tape.inputs])
        self._sort_results()

    def _sort_sources(self, sources: Sequence[InputSource]) -> None:
        found: dict[int, list[Any]] = {kind: [] for kind in range(7)}
        kinds = list(map(_kind_of, sources))
        for source, kind in zip(sources, kinds):
            found[kind].append(source)
        self.argument_numbers: list[int] = [source.argument for source in found[_ARGUMENT]]
        self.gradients: list[InputSource] = found[_GRADIENT]
        self.moved: list[InputSource] = found[_MOVED]
        self.constants: list[Storage] = [source.constant for source in found[_CONSTANT]]
        self.state_refs: list[weakref.ref[Storage]] = [source.storage for source in found[_STATE]]
        self.cells: list[weakref.ref[Any]] = [source.cell for source in found[_CELL]]
        self.numbers: list[InputSource] = found[_NUMBER]
        self.compute: Numbers | None = None
        steps = self.recording.steps
        entering = [
            source.argument
            for v, source in zip(self.tape.inputs, sources)
            if source.is_argument_number and self.tape.specs[v].dtype is int64
        ]
        if steps or entering:
            self.compute = arithmetic(steps, self.recording.leaves, entering)
        moving = len(self.argument_numbers) + len(self.gradients) + len(self.moved)
        self.executable.fixed_from = moving
        # The storages whose versions a node notes, for when the function runs again.
        self._remembered = [i for i, kind in enumerate(kinds) if kind in (_GRADIENT, _STATE)]

    def _sort_results(self) -> None:
        """Tell gradients that may stay blocks and results that are nothing but tensors."""
        used = Counter([*self.residuals.values(), *(position for _, position in self.escapes)])
        for result in (*self.results, *(gradient for _, gradient in self.slot_outputs)):
            fresh = result.result if isinstance(result, Graded) else result
            if isinstance(fresh, Fresh):
                used[fresh.position] += 1

        def alone(result: Any) -> bool:
            """Whether a result is made of an output that nothing else is made of."""
            fresh = isinstance(result, Fresh) and used[result.position] == 1
            return fresh and result.position not in self.executable.scalar_outputs

        blocks: list[tuple[weakref.ref[Tensor], int]] = []
        self._slots: list[tuple[Held, SlotResult | None]] = []
        read = [id(result.held.tensor) for result in self.results if type(result) is GradientResult]
        for held, gradient in self.slot_outputs:
            # Of state: the next replay binds the slot of the same tensor again.
            bound = held.argument < 0 and id(held.tensor) not in read
            if bound and alone(gradient) and self._is_whole(gradient):
                blocks.append((held.tensor, gradient.position))  # type: ignore[union-attr]
            else:
                self._slots.append((held, gradient))
        self.scalars, self.blocks = ScalarsSet(self.cell_outputs), GradientsSet(blocks)
        self.draws = GeneratorsMoved(self.recording.advances, self.recording.reseeds)
        self.effects: list[Effect] = [e for e in (self.scalars, self.blocks) if any(e)]
        if self.draws:
            self.effects.append(self.draws)
        self.stores = StateWritten(self.writes)
        # Changes of Python's own state are made when the program is known to be well.
        numbers = {i for _, i in self.cell_outputs} - self.executable.scalar_outputs
        changes = self.writes or self.placed or self.needs or self.escapes
        self.waits = bool(changes or numbers or any(map(self._is_read, self.results)))
        rare = (self.escapes, self._slots, self.needs, self.placed)
        self.plain: list[NewTensor] | None = None
        self.leaves: list[NewTensor | HitResult] | None = None  # where they can be written out
        simple = self.pullback is None and not any((*rare, self.kinds))
        if simple:
            tensors = [self._new_tensor(result) for result in self.results if alone(result)]
            if len(tensors) == len(self.results):
                self.plain = tensors
            new = iter(tensors)
            others = [result for result in self.results if isinstance(result, HitResult)]
            if len(tensors) + len(others) == len(self.results):
                known = iter(others)
                self.leaves = [next(new) if alone(r) else next(known) for r in self.results]
        same = [(i, r) for i, r in enumerate(self.results) if isinstance(r, SameResult)]
        self._repeated: list[tuple[int, SameResult]] = same
        self.arranged = builder(self.structure)

    def _is_read(self, result: Result) -> bool:
        """Whether the host reads an output to make a result."""
        if isinstance(result, Graded):
            return self._is_read(result.result)
        if isinstance(result, HostNumber):
            return result.position not in self.executable.scalar_outputs
        return isinstance(result, MovedResult)

    def _new_tensor(self, result: Any) -> NewTensor:
        """A result that is made of an output alone."""
        whole = self._is_whole(result)
        return NewTensor(result.position, result.view, result.dtype, whole, self.tape.device)

    def _is_whole(self, result: Any) -> bool:
        """Whether a result is an output as it is, not a view of it."""
        shape, dtype = self.tape.specs[self.tape.outputs[result.position]]
        return bool(result.view == contiguous(shape)) and result.dtype is dtype

    def find_inputs(self, call: FunctionCall) -> ReplayInputs | None:
        """The storages and host scalars that the program reads, None if it does not fit."""
        arguments = call.arguments
        scalars: list[Any] = []
        storages: list[Any] = []
        for number in self.argument_numbers:
            storages.append(arguments[number].storage)
        if self.gradients:
            storages += [source.find(arguments) for source in self.gradients]
        if self.moved:
            storages += [moved_copy(source.find(arguments), source.moved) for source in self.moved]
        storages += self.constants
        if self.state_refs:
            storages += [ref() for ref in self.state_refs]
        if not all(storages):
            return None
        if self.pullback is not None and not self.pullback.finds_targets():
            return None
        if self.cells:
            cells: list[Any] = [ref() for ref in self.cells]
            if any(cell is None for cell in cells):
                return None
            scalars = [cell.value for cell in cells]
        numbers = self._numbers_of(call)
        if numbers is None:
            return None
        if self.numbers:
            scalars += [source.number(numbers) for source in self.numbers]
        return storages, scalars

    def _numbers_of(self, call: FunctionCall) -> Sequence[Any] | None:
        """The leaves of a call and what Python computes of them; None: see `arithmetic`."""
        return call.leaves if self.compute is None else self.compute(call.leaves)

    def replay(self, call: FunctionCall, inputs: ReplayInputs) -> Any:
        """Run the program, repeat the effects, and build the results."""
        storages, scalars = inputs
        context = state().context
        if not context.hits:
            specs = [self.tape.specs[v] for v in self.tape.inputs]
            memory = [whole(storage, spec) for storage, spec in zip(storages, specs)]
            written = [memory[position] for position, _ in self.counted.writers]
            context.replay(memory, written, self.draws.generators)
        if self.standing is not None:
            self.standing.notice.given = True
        undo = None
        if self.executable.is_asynchronous:
            if self.waits:  # for what others have left, too: nothing is changed yet
                devices.lookup(self.tape.device).synchronize()
            undo = self._undo(call, storages)
        try:
            outputs = self.executable.replay(storages, scalars, self._late(undo))
            if undo is not None and self.waits:
                devices.lookup(self.tape.device).synchronize()
        except KeyboardInterrupt:  # which may have come after the writes
            self.counted.do(storages)
            raise
        if self.counted.writers:
            self.counted.do(storages)
        random = [(g, (g.seed, g.offset)) for g in self.draws.generators] if self.draws else []
        for effect in self.effects:
            effect.do(outputs)
        if self.plain is not None and not state().inference:
            results = self.arranged(new_tensors(self.plain, outputs))
        else:
            results = self._build(call, inputs, outputs, random)
        if undo is not None:
            undo.note([x for x in outputs if type(x) is Block])
        return self.stores.do(results, call.given, self.guards) if self.writes else results

    def _undo(self, call: FunctionCall, storages: Sequence[Storage]) -> UndoneCall:
        """How this call is taken back where its program, or one before it, fails later."""
        slots = [held.get(call.arguments) for held, _ in self.slot_outputs]
        cells = [ref() for ref, _ in self.cell_outputs]
        return UndoneCall(
            [storages[position] for position, _ in self.counted.writers],
            [cell for cell in cells if cell is not None],
            [t for t in slots if t is not None],
            self.draws.generators,
        )

    def _late(self, undo: UndoneCall | None) -> LateFailure | None:
        if undo is None:
            return None
        assert isinstance(self.executable, Native)
        return LateFailure(self.executable.with_line, undo.undo)

    def _build(
        self,
        call: FunctionCall,
        inputs: ReplayInputs,
        outputs: list[Any],
        random: list[tuple[Generator, tuple[int, int]]],
    ) -> Any:
        """Repeat the rarer effects, and build results of every kind. `random` holds the states of
        generators before the call."""
        values = ReplayValues(
            call, inputs[0], self.input_positions, outputs, self._output_spec, self.tape.device
        )
        for storage, position in self.escapes:
            values.fill(storage, position)
        for held, needs in self.needs:
            owner = held.get(call.arguments)
            if owner is not None and owner._needs is not needs:
                owner._needs = needs
                Structure.changed()
        kept = [] if self.pullback is None else [_saved(x) for x in call.leaves]
        edges = self._move_in_graph(call.arguments)
        if self.pullback is not None:
            values.node = node = self._node(self.pullback, values, inputs, edges)
            node.structure, node.leaves, node.random = call.structure, kept, random
        values.numbers = self._numbers_of(call) or ()
        leaves: list[Any] = [result.get(values) for result in self.results]
        for position, result in self._repeated:
            leaves[position] = leaves[result.original]
        for position, kind in self.kinds.items():
            leaves[position].__class__ = kind
        for position, base, of in self.views:
            of.attach(leaves[position], leaves[base])
        for held, gradient in self._slots:
            owner = held.get(call.arguments)
            if owner is not None and isinstance(gradient, SameResult):
                owner._grad = leaves[gradient.original]
            elif owner is not None:
                owner._grad = None if gradient is None else gradient.get(values)
        return self.arranged(leaves)

    def _output_spec(self, position: int) -> Spec:
        return self.tape.specs[self.tape.outputs[position]]

    def _move_in_graph(self, arguments: Sequence[Tensor]) -> list[Edge | None]:
        """Change the places of tensors in the graph as the function does; the edges that the
        gradients of backward go along, before or after that."""
        before = self._edges(arguments)
        if not self.placed:
            return before
        for held, method in self.placed:
            owner = held.get(arguments)
            if owner is not None:
                getattr(owner, method)()
        if self.pullback is None:
            return before
        targets = zip(self.pullback.targets, before, self._edges(arguments))
        return [now if target.placed else then for target, then, now in targets]

    def _edges(self, arguments: Sequence[Tensor]) -> list[Edge | None]:
        """Where the gradients of the targets of backward go."""
        if self.pullback is None:
            return []
        targets = [target.get(arguments) for target in self.pullback.targets]
        return [None if t is None else t.edge for t in targets]

    def _node(
        self,
        pullback: Pullback,
        values: ReplayValues,
        inputs: ReplayInputs,
        edges: Sequence[Edge | None],
    ) -> CompiledNode:
        """The node of this call, with what its backward needs."""
        storages, scalars = inputs
        current = state()
        line = current.line or user_line()
        node = CompiledNode(self, pullback, edges, line, len(self.differentiable))
        specs = self.tape.specs
        for v, kept in pullback.kept.items():
            if isinstance(kept, Residual):
                node.kept.append(saved_memory(values.memory(self.residuals[v]), specs[v]))
            elif isinstance(kept, ForwardInput):
                node.kept.append(saved_memory(storages[self.input_positions[v]], specs[v]))
            else:
                node.kept.append(kept)
        node.scalars = [scalars[i] for i in pullback.scalars]
        if self._remembered:
            known = [storages[position] for position in self._remembered]
            node.state = [(storage, storage.version) for storage in known]
        return node


def moved_copy(storage: Storage | None, device: str | None) -> Storage | None:
    """A copy of an input on the device that the program runs on; None if the input is gone."""
    assert device is not None
    if storage is None:
        return None
    return Storage(devices.lookup(device).upload(storage.fetched()), device)


def _saved(x: Any) -> Any:
    """A leaf of the arguments, kept; a write to what was made in inference mode is not noticed."""
    return keep(x, x.edge) if isinstance(x, Tensor) and not x.storage.inference else x


# Kinds of inputs, in the order in which a tape has them.
_ARGUMENT, _GRADIENT, _MOVED, _CONSTANT, _STATE, _CELL, _NUMBER = range(7)


def _kind_of(source: InputSource) -> int:
    if source.role == "scalar":
        return _NUMBER if source.cell is None else _CELL
    if source.moved is not None:
        return _MOVED
    if source.is_argument:
        return _ARGUMENT
    if source.constant is not None:
        return _CONSTANT
    return _GRADIENT if source.role == "grad" else _STATE
