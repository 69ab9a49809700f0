"""The backward of a recorded call: recorded behind the forward, on the same tape.

Placeholders for the cotangents of the results are sent through the graph that the function built,
down to the tensors from outside.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Sequence

from contraflow.capture.backward_tape import ForwardInput, Kept, Late, Residual, split
from contraflow.capture.observing.observer import Observer
from contraflow.capture.pullback import Inward, Pullback
from contraflow.capture.replay import CapturedProgram
from contraflow.capture.state.guards import Held
from contraflow.compiler.tape import Tape, Value
from contraflow.contexts.record import Recorder
from contraflow.contexts.recording import InputSource, RecordedEffects
from contraflow.errors import CaptureError, GradientError, describe
from contraflow.tensors.node import Edge, Node, nodes_below
from contraflow.tensors.source_line import UserLine
from contraflow.tensors.tensor import Tensor


class BackwardRecording:
    """Records the backward of the results of a call, and cuts it off as a tape of its own."""

    def __init__(
        self,
        program: CapturedProgram,
        recorder: Recorder,
        observer: Observer,
        outputs: dict[Value, int],
    ) -> None:
        self.program, self.recorder, self.observer = program, recorder, observer
        self.outputs = outputs  # positions of the forward's outputs, by value
        self.name = program.owner.name

    def pullback_of(
        self, results: Sequence[Tensor], arguments: Sequence[Tensor], known: Sequence[Tensor]
    ) -> Pullback:
        """The backward program of results, down to arguments and other known tensors."""
        tape, mark = self.recorder.tape, len(self.recorder.tape.lines)
        inputs = set(tape.inputs)
        seeds = [self.recorder.placeholder(t.spec, t.storage.device) for t in results]
        cotangents = [v for v in tape.inputs if v not in inputs]
        starts = [(e, g) for t, g in zip(results, seeds) if (e := t.edge) is not None]
        edges = self._outward([e for e, _ in starts])
        owners = self._owners(edges, arguments, known, [e for e, _ in starts])
        self._check_retained(results)
        found, error = self._run(starts, edges)
        reached = [i for i, g in enumerate(found) if g is not None or error is not None]
        gradients = [self.recorder.read(found[i]) for i in reached] if error is None else []
        late = self._take_late_inputs(inputs)
        behind, kept = split(tape, mark, cotangents, late, gradients)  # type: ignore[arg-type]
        self._keep_late_arguments(late, kept)
        scalars = self._set_inputs(behind, cotangents, kept)
        self._keep_residuals(kept)
        targets = [owners[i] for i in reached]
        pullback = Pullback(
            behind, cotangents, kept, targets, [_owner(target).spec for target in targets],
            [_owner(target).storage.device for target in targets],
        )  # fmt: skip
        pullback.scalars = scalars
        if isinstance(error, GradientError):
            pullback.refusal = copy.copy(error)  # without the frames that it came through
        pullback.fails = error is not None
        return pullback

    def _outward(self, starts: Sequence[Edge]) -> list[Edge]:
        """Where the graph that the function built leads to outside, each edge once."""
        first, start = self.recorder.first_node, self.recorder.start
        found: dict[tuple[int, int], Edge] = {}
        for node in nodes_below(starts, first):
            for edge in node.edges:
                if edge is None:
                    continue
                end = edge[0]
                if isinstance(end, Node):
                    outside = end.sequence_nr < first
                else:
                    outside = not end.storage.is_recorded and end.storage.serial < start
                if outside:
                    found.setdefault((id(end), edge[1]), edge)
        return list(found.values())

    def _owners(
        self,
        edges: Sequence[Edge],
        arguments: Sequence[Tensor],
        known: Sequence[Tensor],
        starts: Sequence[Edge],
    ) -> list[Held]:
        """The tensors whose gradients go along some edges: these are found again at each call.

        `starts` are where the graph begins that leads to them.
        """
        found: dict[tuple[int, int], Held] = {}
        for t in (*known, *self.recorder.graded):
            for (end, index), placed in self.recorder.graph.edges_of(t):
                found[id(end), index] = Held(-1, weakref.ref(t), placed)
        for number, t in reversed(list(enumerate(arguments))):
            for (end, index), placed in self.recorder.graph.edges_of(t):
                found[id(end), index] = Held(number, weakref.ref(t), placed)
        owners = []
        for end, index in edges:
            owner = found.get((id(end), index))
            if owner is None:
                made = end.name if isinstance(end, Node) else describe(end)
                nodes = nodes_below(starts, self.recorder.first_node)
                readers = (n for n in nodes if any(e is not None and e[0] is end for e in n.edges))
                raise self.recorder.refusal(
                    f"a result depends on {made} from before the call, through a tensor that is "
                    f"neither an argument nor named by the function",
                    "Pass it as an argument.",
                    next((node.line for node in readers), None),
                )
            owners.append(owner)
        return owners

    def _check_retained(self, results: Sequence[Tensor]) -> None:
        for t in results:
            if t._retains:
                raise self.recorder.refusal(
                    "retain_grad is called on this result, whose gradient only a later backward "
                    "knows",
                    "Call it on the result of the compiled function.",
                    None if t.node is None else t.node.line,
                )

    def _run(
        self, starts: list[tuple[Edge, Tensor]], edges: list[Edge]
    ) -> tuple[list[Tensor | None], Exception | None]:
        """Run backward from the results; the gradient of each edge, or why there is none.

        As in eager, nobody need ever ask for a gradient that a rule of the user's refuses.
        """
        effects, writes = self.recorder.effects(), len(self.observer.writes)
        mark = len(self.recorder.tape.lines)
        task = Inward(False, edges, self.recorder.first_node)
        failure: Exception | None = None
        try:
            task.run(starts)
        except CaptureError:
            raise
        except Exception as error:
            if isinstance(error, TypeError) and self.recorder.has_symbols:
                raise  # it may be fine with the numbers themselves
            failure = error
        if self.recorder.effects() != effects or len(self.observer.writes) != writes:
            raise self.recorder.refusal(
                "a hook that runs in backward writes to a tensor or to Python's state, sets a "
                "gradient or draws random numbers",
                "Register it on a result of the compiled function, or compile the whole step, "
                "backward included.",
                self._changed_at(effects, writes, mark),
            )
        return task.found(), failure

    def _changed_at(self, effects: RecordedEffects, writes: int, mark: int) -> UserLine | None:
        """The user's line that has had another effect since a point of the recording."""
        for write in self.observer.writes[writes:]:
            line: UserLine | None = write.line
            return line
        written = self.recorder.effects().written
        for v in [v for v in written if effects.written.get(v) != written[v]]:
            return self.recorder.written_at(v)
        drawn = {v for v, source in self.recorder.sources.items() if source.generator is not None}
        lines = self.recorder.tape.lines[mark:]
        return next((line.line for line in lines if not drawn.isdisjoint(line.inputs)), None)

    def _take_late_inputs(self, inputs: set[Value]) -> dict[Value, InputSource]:
        """The inputs that only backward reads, which are no longer inputs of the forward.

        A number among the arguments stays one: the call has it from the start.
        """
        program, sources = self.program, self.program.recording.sources
        for v, source in sources.items():
            if v not in inputs and source.is_argument_number:
                program.tape.inputs[v] = "scalar"
                inputs.add(v)
        late = {v: sources.pop(v) for v in list(sources) if v not in inputs}
        scalars = [v for v in late if self.recorder.tape.inputs[v] == "scalar"]
        if scalars:
            readers = (n for n in self.recorder.tape.lines if scalars[0] in n.inputs)
            raise self.recorder.refusal(
                "a hook that runs in backward reads a host scalar such as a learning rate",
                "Read it in the function, too.",
                next((line.line for line in readers), None),
            )
        return late

    def _keep_late_arguments(self, late: dict[Value, InputSource], kept: dict[Value, Kept]) -> None:
        """Make arguments that only backward reads inputs of the forward, where they are kept."""
        program = self.program
        for v, source in late.items():
            if v in kept and source.is_argument:
                program.recording.sources[v], program.tape.inputs[v] = source, "arg"
                kept[v] = ForwardInput(v)

    def _set_inputs(
        self, behind: Tape, cotangents: list[Value], kept: dict[Value, Kept]
    ) -> list[int]:
        """Name the backward tape and its inputs; the numbers of the host scalars among these."""
        program, tape = self.program, self.recorder.tape
        scalars = [v for v, role in program.tape.inputs.items() if role == "scalar"]
        read = {x for line in behind.lines for x in line.inputs} | set(behind.outputs)
        taken = [v for v in scalars if v in read]
        behind.name = f"{tape.name}.backward"
        behind.inputs = dict.fromkeys(cotangents, "arg")
        behind.inputs |= {
            v: tape.inputs[v] if isinstance(k, Late) else "arg" for v, k in kept.items()
        }
        behind.inputs |= dict.fromkeys(taken, "scalar")
        return [scalars.index(v) for v in taken]

    def _keep_residuals(self, kept: dict[Value, Kept]) -> None:
        """Make values that backward keeps outputs of the forward."""
        program = self.program
        for v, k in kept.items():
            if isinstance(k, Residual):
                if v not in self.outputs:
                    program.tape.outputs.append(v)
                    self.outputs[v] = len(program.tape.outputs) - 1
                program.residuals[v] = self.outputs[v]


def _owner(target: Held) -> Tensor:
    t = target.tensor()
    assert t is not None
    return t
