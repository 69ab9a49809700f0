"""The findings of a recording as a program: its results and its effects."""

from __future__ import annotations

import dis
import functools
import gc
import weakref
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from contraflow.capture.backward import BackwardRecording
from contraflow.capture.call import FunctionCall, Owner
from contraflow.capture.observing.observer import Observer
from contraflow.capture.replay import CapturedProgram
from contraflow.capture.restart import CachesFilled, PlacesToCarry
from contraflow.capture.results import (
    ArgumentResult,
    ComputedNumber,
    Found,
    Fresh,
    Graded,
    GradientResult,
    HostNumber,
    MovedResult,
    NumberResult,
    Result,
    SameResult,
    SharedResult,
    SlotResult,
    StoreKey,
    ViewOf,
)
from contraflow.capture.rewriting.rewrite import original
from contraflow.capture.state.guards import GradientRead, Held, layout_of
from contraflow.capture.state.made import MadeAnew
from contraflow.capture.state.places import Answer, Located, Object
from contraflow.capture.state.reads import Equal, Read, Same
from contraflow.capture.state.trees import NoStructure
from contraflow.capture.state.writes import SlotStore, Write
from contraflow.compiler.host_numbers import host_values
from contraflow.compiler.tape import Tape, Value
from contraflow.contexts.record import Recorder
from contraflow.errors import CaptureError, describe
from contraflow.tensors.host_scalar import StepScalar
from contraflow.tensors.node import Node, nodes_below
from contraflow.tensors.source_line import UserLine
from contraflow.tensors.symbol import Symbol
from contraflow.tensors.tensor import Tensor, ops_after

_RETURNS = ("RETURN_VALUE", "RETURN_CONST")


class Findings:
    """The effects and results of a recorded call, and how they become a program."""

    program: CapturedProgram
    known: list[Tensor]

    def __init__(
        self,
        owner: Owner,
        recorder: Recorder,
        call: FunctionCall,
        observer: Observer,
        settled: bool,
    ) -> None:
        self.owner, self.recorder, self.call, self.observer = owner, recorder, call, observer
        self.settled = settled
        # Of outputs, by id of the storage: what is shared stays so.
        self.positions: dict[int, int] = {}
        self.outputs: dict[Value, int] = {}  # positions by value
        # Views among the results of what other results show too: positions and bases.
        self.views: list[tuple[int, Tensor, ViewOf]] = []
        self.first: dict[int, int] = {}  # of results, the position at which a tensor is first found

    def as_program(self, result: Any) -> CapturedProgram:
        """Describe results and effects, and record the backward if the results have one."""
        recorder, owner = self.recorder, self.owner
        self._check_carried()
        self.observer.check_hooks()
        self.observer.check_locks()
        self.program = program = CapturedProgram(recorder.finish(), owner)
        self.known = known = self._known_tensors()
        program.writes = list(self.observer.writes)
        graded = self._describe_results(self._take_apart(result))
        for write in program.writes:
            write.forget_values()
        self._describe_effects()
        guards = program.guards
        for number, hooks in program.recording.hooks.items():
            self.observer.read_hooks(self.call.arguments[number], hooks)
        self._read_places()
        for t, is_leaf in recorder.graph.as_leaves.items():
            self.observer.read_of_tensor(t, "is_leaf", is_leaf)
        for kind in dict.fromkeys(map(type, recorder.modules)):
            self.observer.note_class_methods(kind)
        self.observer.count_attributes()
        self.observer.note_apart()
        forward = self.observer.begin_backward()
        tape = recorder.tape
        program.tape = Tape(
            tape.name, tape.specs, dict(tape.inputs), list(tape.lines), tape.writes, tape.outputs,
            tape.device,
        )  # fmt: skip
        program.order_inputs()
        if graded:
            recording = BackwardRecording(self.program, recorder, self.observer, self.outputs)
            program.pullback = recording.pullback_of(graded, self.call.arguments, known)
            self._read_places()  # for which hooks and rules of the user's looked
            program.pullback.reads = list(self.observer.reads.values())
            program.pullback.carried = self.observer.carried_read
            self.observer.count_attributes()
        guards.set_reads({**forward, **self._numbers_asked()}, self.observer.reads)
        guards.gone, guards.kept = self.observer.gone, self.observer.kept
        return program

    def _read_places(self) -> None:
        """Guard on what backward found where it looked for tensors from outside."""
        graph = self.recorder.graph
        for result in graph.reached.values():
            self.observer.read_result_hooks(*result)
        for targets, met in graph.searches:
            self.observer.read_search(targets, met)
        graph.reached, graph.searches = {}, []

    def _numbers_asked(self) -> dict[Any, Read]:
        """The numbers of optimizers that the function has asked for."""
        return {
            ("host scalar", id(cell)): Equal(
                Answer(Object(weakref.ref(cell), "a number of an optimizer"), attrgetter("value")),
                number,
            )
            for cell, number in self.recorder.fixed_numbers.items()
        }

    def _check_carried(self) -> None:
        """Slots that were read and then got another tensor or number are inputs of a program."""
        if self.observer.caches_filled:
            raise CachesFilled
        if self.observer.filled:  # a cache, which does not run its function again
            self.recorder.use_once()
        fixed = self.settled or self.observer.filled
        found = [] if fixed else self.observer.changed_places()
        if found:
            raise PlacesToCarry(found)

    def _known_tensors(self) -> list[Tensor]:
        """The tensors from outside that the function read, or that its modules hold."""
        found = list(self.observer.tensors.values())
        for source in self.program.recording.sources.values():
            t = source.owner() if source.role == "state" and source.owner is not None else None
            if t is not None:
                found.append(t)
        for module in self.recorder.modules:
            for name in ("_parameters", "_buffers"):
                found += [t for t in getattr(module, name, {}).values() if t is not None]
        unique = {id(t): t for t in found}
        named = {read.address for read in self.observer.reads.values() if isinstance(read, Same)}
        for x in self.observer.inputs():
            if id(x) not in named:  # else it is state as well, and both must stay one
                unique.pop(id(x), None)
        return [t for t in unique.values() if not t.storage.is_recorded]

    # --- results and effects --------------------------------------------------------------

    def _output(self, value: Value) -> int:
        self.recorder.tape.outputs.append(value)
        return self.outputs.setdefault(value, len(self.recorder.tape.outputs) - 1)

    def _take_apart(self, result: Any) -> list[Any]:
        """The leaves of the result and of what is stored, which is the second of a pair if
        anything is."""
        kept = MadeAnew(is_new=self.observer.is_new)
        self._structures(kept, result, [])  # to see what is met more than once
        kept.forget()
        found: list[Any] = []
        structure, *stored = self._structures(kept, result, found)
        if stored:
            structure = tuple, (structure, (list, tuple(stored)))
        self.program.structure = structure
        return found

    def _structures(self, kept: MadeAnew, result: Any, found: list[Any]) -> list[Any]:
        """The structures of the result and of what is written; their leaves go to `found`."""
        writes = self.program.writes
        structures = [self._structure(kept, result, None, found)]
        return structures + [self._structure(kept, w.values, w, found) for w in writes]

    def _structure(self, kept: MadeAnew, x: Any, write: Write | None, found: list[Any]) -> Any:
        """The structure of the result, or of what is written; its leaves go to `found`."""
        first, line = len(found), functools.partial(self._line_of, write)
        kept.locate = functools.partial(self.observer.located, kept=write is not None, line=line)
        try:
            structure = kept.flatten(x, found)
        except NoStructure as error:
            raise self._refuse_value(str(error), write) from None
        except RecursionError:
            raise self._refuse_value("a container that contains itself", write) from None
        if any(isinstance(leaf, np.ndarray) for leaf in found[first:]):
            raise self._refuse_value("a NumPy array, which would never change", write)
        return structure

    def _refuse_value(self, what: str, write: Write | None) -> CaptureError:
        """The error for something that is returned, or stored, and cannot be made again."""
        verb = "Return" if write is None else "Store"
        return self.recorder.refusal(
            f"the function returns {what}" if write is None else f"{write} is given {what}",
            f"{verb} tensors, numbers, or containers of them.",
            self._line_of(write),
        )

    def _line_of(self, write: Write | None) -> UserLine | None:
        """The line of a write, else where the function returns; of several, where it begins."""
        if write is not None:
            return write.line  # type: ignore[no-any-return]
        return return_line(self.owner.function)

    def _describe_results(self, found: Sequence[Any]) -> list[Tensor]:
        """Note what each result is; those with a graph that begins outside are given."""
        graded: list[Tensor] = []
        first = self.first
        first_at: dict[tuple[int, int], int] = {}  # the same by its edge in the graph
        for position, x in enumerate(found):
            if isinstance(x, Tensor) and first.setdefault(id(x), position) == position:
                end, index = x.edge or (x, 0)
                first_at.setdefault((id(end), index), position)
        tensors = [found[position] for position in first.values()]
        for position, x in enumerate(found):
            if not isinstance(x, Tensor):
                result = _describe_value(x, first_at)
            elif self.recorder.is_number(x):  # of an optimizer
                kind = float if x.dtype.is_floating_point else int
                result = HostNumber(self._output(self.recorder.value_at_end(x)), kind)
            elif (known := self._describe_found(x)) is not None:
                result = known
            elif first[id(x)] != position:
                result = SameResult(first[id(x)])
            else:
                result = self._describe_new(x, position, tensors, graded)
            self.program.results.append(result)
        for position, base, of in self.views:
            self.program.views.append((position, self._position(base), of))
        self.views = []
        return graded

    def _position(self, t: Tensor) -> int:
        """The position of a tensor among the results; one that is not there is added."""
        if id(t) not in self.first:
            self.first[id(t)] = len(self.program.results)
            self.program.results.append(self._describe_found(t) or self._describe_tensor(t))
        return self.first[id(t)]

    def _describe_found(self, t: Tensor) -> Result | None:
        """A tensor that each call finds: one of its arguments, or the gradient of a tensor."""
        argument = next((i for i, a in enumerate(self.call.arguments) if a is t), None)
        if argument is not None:
            return ArgumentResult(argument)
        if self.observer.place_of(t) is None:
            for slot in self.program.recording.slots.values():
                if slot.original is t and slot.read_first:
                    return GradientResult(Held(slot.argument, weakref.ref(slot.tensor)))
        return None

    def _describe_new(
        self, t: Tensor, position: int, tensors: Sequence[Tensor], graded: list[Tensor]
    ) -> Result:
        """A tensor, one of `tensors`, that is not an argument; it is `graded` if it has a graph."""
        described = self._describe_tensor(t)
        made = not isinstance(described, SharedResult) or not self.recorder.is_from_outside(t)
        if type(t) is not Tensor and made:
            self.program.kinds[position] = type(t)
        node: Node | None = t.node
        if not t._needs or (node is not None and node.done) or self._is_outside(t):
            return self._as_view(t, described, position, tensors)
        if node is None:
            self._refuse_shared_leaf(t, tensors)
            return Graded(described, -1, True)
        alone = sum(x.storage is t.storage for x in tensors) == 1
        self.program.differentiable.append(position)
        graded.append(t)
        return Graded(described, len(graded) - 1, alone and not isinstance(described, SharedResult))

    def _as_view(
        self,
        t: Tensor,
        described: Fresh | MovedResult | SharedResult,
        position: int,
        tensors: Sequence[Tensor],
    ) -> Fresh | MovedResult | SharedResult:
        """A result without a graph, as the view that it is: of a tensor from outside, or of what
        other results are too."""
        base, ops = t._base, t.view_ops
        if base is None:
            return described
        if isinstance(described, SharedResult):
            known = [(-1, x) for x in self.known if x is base]
            for argument, x in (*known, *enumerate(self.call.arguments)):
                after = ops_after(x, t) if x is base or x._base is base else None
                if after is not None:
                    viewed = Held(argument, weakref.ref(x)), ViewOf(after, t._writable)
                    described = described._replace(viewed=viewed)
        elif sum(x is base or x._base is base for x in tensors) > 1:
            self.views.append((position, base, ViewOf(ops, t._writable)))
        return described

    def _is_outside(self, t: Tensor) -> bool:
        """Whether a tensor has its place in the graph from before the call."""
        if not self.recorder.is_from_outside(t) or t.storage.serial > self.recorder.start:
            return False
        return t._node is None or t._node.sequence_nr < self.recorder.first_node

    def _refuse_shared_leaf(self, leaf: Tensor, results: Sequence[Tensor]) -> None:
        edges = [e for t in results if (e := t.edge) is not None]
        for node in nodes_below(edges, self.recorder.first_node):
            if any(e is not None and e[0] is leaf for e in node.edges):
                raise self.recorder.refusal(
                    f"{describe(leaf)} is made by the function, requires grad, and is returned"
                    f"{self._kept(leaf)} beside a result computed from it",
                    "Make it outside and pass it as an argument.",
                    self.recorder.made_at(leaf) or self._line_of(None),
                )

    def _kept(self, t: Tensor) -> str:
        """Where a tensor is kept, for messages."""
        found = (w for w in self.observer.writes if isinstance(w, SlotStore) and w.value is t)
        return next((f" (kept at {write.line})" for write in found), "")

    def _describe_tensor(self, t: Tensor) -> Fresh | MovedResult | SharedResult:
        """How a tensor that the function leaves behind is made of what the program gives."""
        if not t.storage.is_recorded and t.storage.serial < self.recorder.start:
            return SharedResult(self.recorder.input_of(t), t.layout, t.dtype, weakref.ref(t))
        key = id(t.storage)
        if key not in self.positions:
            self.positions[key] = self._output(self.recorder.value_at_end(t))
        if t.storage.device != self.recorder.tape.device:
            return MovedResult(self.positions[key], t.layout, t.dtype, t.storage.device)
        return Fresh(self.positions[key], t.layout, t.dtype)

    def _describe_gradient(self, t: Tensor) -> SlotResult:
        """How a gradient is made that the function leaves in `.grad`.

        One that it leaves elsewhere too, or has not made, is added to the results.
        """
        slots = self.program.recording.final_grads.values()
        if id(t) not in self.first and self._describe_found(t) is None:
            described = self._describe_tensor(t)
            if isinstance(described, Fresh) and sum(final is t for final in slots) == 1:
                return described
        return SameResult(self._position(t))

    def _describe_effects(self) -> None:
        program, recording = self.program, self.program.recording
        for key, slot in recording.slots.items():
            final = recording.final_grads[key]
            held = Held(slot.argument, weakref.ref(slot.tensor))
            stays = final is slot.original and (slot.read_first or final is None)
            if slot.read_first or stays:  # what is cleared without need may be there another time
                program.guards.gradients.append(GradientRead(held, layout_of(slot.original)))
            if not stays:
                gradient = None if final is None else self._describe_gradient(final)
                program.slot_outputs.append((held, gradient))
        recording.slots, recording.final_grads = {}, {}
        settable = any(not isinstance(cell, StepScalar) for cell in recording.cells)
        host = host_values(recording.tape) if settable else set()
        for cell, operand in recording.cells.items():
            assert isinstance(operand, Value)
            if operand not in host and not isinstance(cell, StepScalar):
                made = (line.line for line in recording.tape.lines if operand in line.outs)
                raise self.recorder.refusal(
                    "a host scalar such as a learning rate is set from the elements of a tensor, "
                    "which are not known before a replay",
                    "Set it outside the compiled function.",
                    next(made, None) or self._line_of(None),
                )
            program.cell_outputs.append((weakref.ref(cell), self._output(operand)))
        recording.cells = {}
        for number, t, needs in recording.needs:
            program.needs.append((Held(number, weakref.ref(t)), needs))
        for number, t, method in recording.placed:
            program.placed.append((Held(number, weakref.ref(t)), method))
        recording.needs, recording.placed = [], []

    def describe_escapes(self) -> None:
        """Storages that outlive the function without being returned get this call's values."""
        recorder, program = self.recorder, self.program
        own = program.recording.own_cells
        escaped = recorder.alive()
        if escaped or any(cell() is not None for cell in own):
            del escaped
            gc.collect()  # a cycle in the user's code is not an escape
            escaped = recorder.alive()
        if any(cell() is not None for cell in own):  # its next call may go on with it
            program.recording.once = True
        if not escaped:
            return
        known = {*program.tape.inputs, *(v for line in program.tape.lines for v in line.outs)}
        for storage, value, spec, line in escaped:
            if str(line) in self.owner.escape_lines:
                raise recorder.refusal(
                    f"{spec} that is made here outlives the call for the second time without being "
                    f"returned",
                    "Return it, or do not keep it.",
                    line,
                )
            if value not in known:
                raise recorder.refusal(
                    f"a hook keeps {spec} that is made here, which only backward computes",
                    "Register the hook on a result of the compiled function, or compile the whole "
                    "step, backward included.",
                    line,
                )
            if id(storage) not in self.positions:
                program.tape.outputs.append(value)
                self.positions[id(storage)] = len(program.tape.outputs) - 1
            program.escapes.append((storage, self.positions[id(storage)]))
        self.owner.escape_lines.update(str(line) for *_, line in escaped)


def return_line(function: Any) -> UserLine | None:
    """The line where a function returns; of several, where it begins."""
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    code = original(code)
    found = [i.offset for i in dis.get_instructions(code) if i.opname in _RETURNS]
    return UserLine(code, found[0] if len(found) == 1 else 0)


def _describe_value(x: Any, first_at: dict[tuple[int, int], int]) -> Result:
    """A result that is not a tensor: an object from before, a number, or a key of a store."""
    if type(x) is Located:
        return Found(x.place)
    if type(x) is Symbol:
        return ComputedNumber(x._known.position)
    if isinstance(x, (int, float)):
        return NumberResult(x)
    node, index = x if isinstance(x, tuple) else (x, 0)
    position = first_at.get((id(node), index))
    if position is not None:
        return SameResult(position)
    return StoreKey(
        weakref.ref(node), node.sequence_nr, index, node.name, node.label, node.line, node.form,
        tuple(node.input_names),
    )  # fmt: skip
