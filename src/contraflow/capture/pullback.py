"""The vector-Jacobian product of a recorded call: its tape, its residuals and its node.

A recording goes on after the function has returned: placeholders for the cotangents of its results
are sent through the graph that it built, down to the tensors from outside. The lines up to there
are the forward program, those after it the backward program. Of the values that cross, those that
cheap work makes again from others are made again, and the rest are residuals.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from contraflow import threads
from contraflow.capture.backward_tape import Kept, Late, without
from contraflow.capture.observing.observe import undone
from contraflow.capture.rerun import check_unchanged, note_state
from contraflow.capture.state.guards import Held
from contraflow.capture.state.made import leaves_like
from contraflow.capture.state.places import NOTHING_THERE, GivenArguments, Place
from contraflow.capture.state.reads import Read, token
from contraflow.capture.state.trees import rebuild
from contraflow.compiler.passes import eliminate_dead
from contraflow.compiler.tape import Tape, Value
from contraflow.errors import GradientError
from contraflow.graph.cotangent import TENSORS, Cotangent
from contraflow.graph.engine import Pass
from contraflow.graph.saved import Saved
from contraflow.operation import core
from contraflow.operation.context import changed, state
from contraflow.runtime import executable
from contraflow.runtime.executable import Executable
from contraflow.shapes import contiguous
from contraflow.spec import Spec
from contraflow.tensors.node import Edge, Node, nodes_below, sequence_numbers
from contraflow.tensors.source_line import Instruction, at
from contraflow.tensors.storage import Storage
from contraflow.tensors.tensor import Tensor

if TYPE_CHECKING:
    from contraflow.capture.replay import CapturedProgram


class Inward(Pass):
    """A pass through what was applied since `first`, which stops at everything older.

    Hooks of the tensors it stops at are left to whoever goes on from there.
    """

    def __init__(self, create_graph: bool, targets: list[Edge], first: int) -> None:
        super().__init__(create_graph, create_graph, targets)
        self.deal_in(TENSORS)  # a shortcut would not stop there
        self.first = first
        self.boundary: dict[tuple[int, int], Cotangent] = {}

    def prepare(self, starts: Sequence[tuple[Edge, Tensor]]) -> None:
        self.needed = set()
        for node in nodes_below((edge for edge, _ in starts), self.first):
            ends = [(id(e[0]), e[1]) for e in node.edges if e is not None]
            if any(end in self.wanted or end[0] in self.needed for end in ends):
                self.needed.add(id(node))

    def deliver(self, sent: Iterable[tuple[Edge, Cotangent]]) -> None:
        inside = []
        for edge, g in sent:
            target, index = edge
            if isinstance(target, Node) and target.sequence_nr >= self.first:
                inside.append((edge, g))
            elif (id(target), index) in self.wanted:
                place = id(target), index
                held = self.boundary.get(place)
                self.boundary[place] = g if held is None else self.cotangents.add(held, g)
        super().deliver(inside)

    def found(self) -> list[Tensor | None]:
        return [self.boundary.get((id(t), i)) for t, i in self.targets or ()]


class Variant(NamedTuple):
    """The backward for some cotangents and some gradients."""

    executable: Executable
    arrays: list[Value]  # what it takes beside host scalars
    positions: list[int | None]  # per gradient: the number of the output, None for zero


class Pullback:
    """The backward program of a recorded call."""

    def __init__(
        self,
        tape: Tape,
        cotangents: list[Value],
        kept: dict[Value, Kept],
        targets: list[Held],
        target_specs: list[Spec],
        target_devices: list[str],
    ) -> None:
        self.tape, self.cotangents, self.kept = tape, cotangents, kept
        self.targets, self.target_specs = targets, target_specs
        self.target_devices = target_devices
        self._state = [target.tensor for target in targets if target.argument < 0]
        # None, or why backward is impossible: the error that eager mode would raise.
        self.refusal: GradientError | None = None
        self.fails = False  # a rule of the user's raised an error: it is run again, eagerly
        self.reads: list[Read] = []  # of Python's state, by hooks and gradient rules of the user's
        self.carried: set[int] = set()  # ids of carried places that they read
        self.scalars: list[int] = []  # numbers of the host scalars of the forward that it takes
        self.variants: dict[Any, Variant] = {}
        self.lock = threads.recursive_lock()  # a program runs in one thread at a time

    def finds_targets(self) -> bool:
        """Whether all tensors that gradients go to are still there."""
        return all(ref() is not None for ref in self._state)

    def variant(self, present: tuple[bool, ...], needed: tuple[bool, ...]) -> Variant:
        """The program for the cotangents that came and the gradients that are asked for."""
        key = (present, needed)
        with self.lock:
            if key not in self.variants:
                self.variants[key] = self._prepare(present, needed)
            return self.variants[key]

    def _prepare(self, present: tuple[bool, ...], needed: tuple[bool, ...]) -> Variant:
        tape = self.tape.replaced(self.tape.lines)
        zeros: set[Value] = set()
        if not all(present):
            tape, zeros = without(tape, {v for v, p in zip(self.cotangents, present) if not p})
        wanted: list[Value] = []
        positions: list[int | None] = []
        for v, original, need in zip(tape.outputs, self.tape.outputs, needed):
            if not need or original in zeros:
                positions.append(None)
            else:
                positions.append(len(wanted))
                wanted.append(v)
        tape.outputs = wanted
        tape = eliminate_dead(tape)
        read = {x for line in tape.lines for x in line.inputs} | set(wanted)
        tape.inputs = {v: role for v, role in tape.inputs.items() if role == "scalar" or v in read}
        arrays = [v for v, role in tape.inputs.items() if role != "scalar"]
        return Variant(executable.load(tape), arrays, positions)


class CompiledNode(Node):
    """A call of a compiled function, as one node of the graph."""

    freed = False

    def __init__(
        self,
        program: CapturedProgram,
        pullback: Pullback,
        edges: Sequence[Edge | None],
        line: Instruction | None,
        output_count: int,
    ) -> None:
        super().__init__(edges, pullback.target_specs, output_count, line)
        self.program, self.pullback = program, pullback
        self.kept: list[Saved | Late] = []
        self.scalars: list[int | float] = []
        # The values to run the function again with, for gradients of gradients.
        self.structure: Any = None
        self.leaves: list[Any] = []
        self.state: list[tuple[Storage, int]] = []
        self.random: list[tuple[Any, tuple[int, int]]] = []
        self.autocast = state().autocast

    @property
    def output_specs(self) -> Sequence[Spec | None]:
        return [self.pullback.tape.specs[v] for v in self.pullback.cotangents]

    @property
    def name(self) -> str:
        return self.program.owner.name

    @property
    def saved(self) -> dict[str, Any]:
        return {str(i): x for i, x in enumerate(self.kept) if isinstance(x, Saved)}

    def backward(self, cotangents: list[Tensor | None]) -> Sequence[Tensor | None]:
        if self.freed:
            raise GradientError(
                f"backward: {self.name}{at(self.line)} has run already and its saved values were "
                f"freed. Pass retain_graph=True to the first backward."
            )
        if self.pullback.refusal is not None:
            raise copy.copy(self.pullback.refusal)
        current = state()
        runs = not self.pullback.fails and self._finds_reads()
        if current.grad or not current.context.replays or not runs:
            return self._again(cotangents)
        return self._replay(cotangents)

    def _finds_reads(self) -> bool:
        """Whether what backward reads of Python's state is as it was recorded."""
        reads, read = self.pullback.reads, self.pullback.carried
        if not reads and not read:
            return True
        args, kwargs, carried = rebuild(self.structure, iter(self._leaves()))
        given = args, kwargs
        found = zip(self.program.carried_places, carried)
        return all(each.holds(given) for each in reads) and all(
            _is_there(place, value, given) for place, value in found if id(place) in read
        )

    def _leaves(self) -> list[Any]:
        """The leaves of the arguments of the call."""
        return [x.get(self) if isinstance(x, Saved) else x for x in self.leaves]

    def _replay(self, cotangents: list[Tensor | None]) -> list[Tensor | None]:
        """The gradients by the backward program."""
        pullback, task = self.pullback, state().task
        needed = [e is not None for e in self.edges]
        if task is not None and task.targets is not None:
            needed = [e is not None and task.reaches(e) for e in self.edges]
        present = tuple(g is not None for g in cotangents)
        variant = pullback.variant(present, tuple(needed))
        cotangent = dict(zip(pullback.cotangents, cotangents))
        kept = dict(zip(pullback.kept, self.kept))
        arrays = []
        for v in variant.arrays:
            g = cotangent.get(v)
            if g is None:
                arrays.append(self._memory(kept[v]))
                continue
            device, dtype = pullback.tape.device, pullback.tape.specs[v].dtype
            fits = g.dtype is dtype and g.storage.device == device  # as nearly always
            arrays.append(_flat(g if fits else g.to(device, dtype)))
        with pullback.lock:
            outputs = variant.executable.run(arrays, self.scalars)
        return [
            None if p is None else self._gradient(outputs[p], spec, device)
            for p, spec, device in zip(
                variant.positions, pullback.target_specs, pullback.target_devices
            )
        ]

    def _gradient(self, output: Any, spec: Spec, wanted: str) -> Tensor:
        """An output of the backward program as the gradient of a target on a device."""
        device = self.pullback.tape.device
        if device == wanted == "cpu":
            return Tensor.of_array(output.reshape(spec.shape))
        storage = Storage(output, device)
        return Tensor.of_storage(storage, contiguous(spec.shape), spec.dtype).to(wanted)

    def _memory(self, kept: Saved | Late) -> Any:
        """The kept memory, as a flat array or a buffer."""
        if isinstance(kept, Saved):
            return _flat(kept.get(self))
        storage = kept.origin.find(())
        if storage is None:
            raise GradientError(
                f"backward: a value that a hook inside {self.name} reads no longer exists."
            )
        return storage.data

    def _again(self, cotangents: list[Tensor | None]) -> list[Tensor | None]:
        """The gradients as functions of the inputs: by the function itself, applied once more."""
        leaves = self._leaves()
        args, kwargs, carried = rebuild(self.structure, iter(leaves))
        check_unchanged(self.program, self, (args, kwargs))
        first = next(sequence_numbers)
        modes = {"grad": True, "autocast": self.autocast, "saved_hooks": ()}
        undo = note_state(self.program, leaves, self.random)
        try:
            for generator, saved in self.random:  # random numbers as in the call
                generator.seed, generator.offset = saved
            program = self.program
            again = undone(program.owner, (args, kwargs), program.carried_places, carried)
            with changed(**modes), again as observer:
                left: Any = program.owner.eager(*args, **kwargs)
                if program.writes:  # whose values are results too
                    left = left, [write.values for write in observer.writes]
                outs = list(leaves_like(program.structure, left))
        finally:
            try:
                undo()
            except KeyboardInterrupt:  # it must be done all the same
                undo()
                raise
        starts = []
        for number, g in zip(self.program.differentiable, cotangents):
            edge = outs[number].edge
            if g is not None and edge is not None:
                starts.append((edge, g))
        task = Inward(state().grad, [e for e in self.edges if e is not None], first)
        task.run(starts)
        found = iter(task.found())
        return [None if e is None else next(found) for e in self.edges]

    def free(self) -> None:
        self.kept, self.leaves, self.state = [], [], []
        self.freed = True


def _is_there(place: Place, value: Any, given: GivenArguments) -> bool:
    """Whether what a call has carried is still at its place."""
    try:
        now = place.get(given)
    except NOTHING_THERE:
        return False
    if isinstance(now, Tensor) and isinstance(value, Tensor):
        return now.storage is value.storage and now.layout == value.layout
    return bool(token(now) == token(value))


def _flat(t: Tensor) -> Any:
    """The elements in order: a flat array, or a buffer that holds nothing else."""
    if t.storage.device == "cpu":
        return np.ascontiguousarray(t.array).reshape(-1)
    return t.storage.data if t.storage.shows(t.layout) else core.clone(t).storage.data


def whole(storage: Storage, spec: Spec) -> Tensor:
    """The whole memory of a storage as a tensor."""
    return Tensor.of_storage(storage, contiguous(spec.shape), spec.dtype)


def saved_memory(storage: Storage, spec: Spec) -> Saved:
    """The whole memory of a storage, kept with its version."""
    return Saved(whole(storage, spec), None)
