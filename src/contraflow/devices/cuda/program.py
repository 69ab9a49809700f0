"""Plans as programs of a GPU: launches on the device's stream, or one CUDA graph.

A compiled call is recorded as a graph when it has run a few times: by then it shows which of its
buffers lie elsewhere at every call. Ops of eager mode are launched: nearly all are one kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

from contraflow import config, thresholds
from contraflow.compiler.plan import Plan
from contraflow.devices.cuda.graph import CannotRecord, PlanGraph
from contraflow.devices.cuda.launches import LaunchedStep, StreamLaunches
from contraflow.devices.cuda.library_calls import library_steps
from contraflow.devices.cuda.memory import BufferLoan
from contraflow.devices.cuda.runs import CALLS, LINE_BITS, OPS
from contraflow.devices.cuda.timing import MOST_TIMED
from contraflow.devices.failures import LateFailure
from contraflow.devices.run_words import RunWords, addresses_of
from contraflow.devices.segments import kernel_steps, step_event
from contraflow.operation.context import state

if TYPE_CHECKING:
    from contraflow.devices.cuda.device import CudaDevice


class CudaProgram:
    """A plan that is ready to run."""

    def __init__(self, device: CudaDevice, plan: Plan) -> None:
        self._device, self._plan = device, plan
        by_library = library_steps(plan)
        self._steps = kernel_steps(plan)
        self._may_fail = any(step.may_fail for step in self._steps)
        self._arena_bytes = plan.arena_bytes
        self._words = RunWords(plan)
        self.put: Callable[[int, int], None] = self._words.put
        self._launches = StreamLaunches(device, plan.steps, plan, self._words)
        self._outputs = [
            i
            for i, slot in enumerate(self._words.slots, self._words.first)
            if plan.slots[slot].kind == "output"
        ]
        self._graph: PlanGraph | None = None
        self._varying: frozenset[int] = frozenset()
        self._last: list[int] = []  # the words of the last run, while they are watched
        self._runs = self._graphs = 0
        self.why_no_graph = (
            "" if len(self._steps) >= thresholds.cuda_graph_steps else "it has few steps"
        )
        if by_library:
            names = ", ".join(dict.fromkeys(step.name for step in by_library))
            self.why_no_graph = f"calls of cuSOLVER are not recorded ({names})"

    def replay(self, buffers: Sequence[Any], scalars: Sequence[float | int]) -> None:
        """Run all steps. `buffers` are those of the input and output slots, in slot order."""
        self.run(addresses_of(self._device.address, buffers), tuple(scalars))

    def run(
        self,
        addresses: Sequence[int],
        scalars: tuple[float | int, ...],
        late: LateFailure | None = None,
    ) -> None:
        """The same, with buffers given by their addresses."""
        device = self._device
        with device.lock:
            self._words.set_addresses(*addresses)
            if late is not None and late.undo is not None:
                self.rerun(scalars, late)
                return
            # Every op of eager mode comes through here, hence few calls.
            seen = device.outcomes.seen
            if seen[0] or seen[2]:
                device.outcomes.check()
            device.driver.enter()
            device.runs += 1
            if scalars:
                self._words.set_scalars(*scalars)
            timeline = state().context.timeline
            launches = self._launches
            if late is None and timeline is None and not self._may_fail:
                device.latest = None
                if self._arena_bytes or launches.kind != OPS:
                    self._place(OPS)
                for call in launches.fixed or launches.ready()[1]:
                    status = call()
                    if status:
                        launches.fail(call, status)
            else:
                self._run_launches(late, timeline)

    def rerun(self, scalars: tuple[float | int, ...], late: LateFailure | None = None) -> None:
        """The same, with buffers at the addresses of the last run, or those set by `put` since."""
        device = self._device
        with device.lock:
            device.driver.enter()
            seen = device.outcomes.seen
            if seen[0] or seen[2]:
                device.outcomes.check()
            device.runs += 1
            self._words.set_scalars(*scalars)
            timeline = state().context.timeline
            if (
                late is None
                or late.undo is None
                or timeline is not None
                or self.why_no_graph
                or not self._run_graph(late)
            ):
                with device.undisturbed:  # half of a step of training is none
                    self._run_launches(late, timeline)

    @property
    def notes(self) -> list[str]:
        """How the steps are run."""
        if self._graph is not None:
            return [f"one CUDA graph of {self._graph.count} launches"]
        why = (
            self.why_no_graph or f"it becomes a CUDA graph after {thresholds.cuda_graph_runs} runs"
        )
        return [f"launches: {why}"]

    # --- one graph ------------------------------------------------------------------------

    def _run_graph(self, late: LateFailure) -> bool:
        """Run the graph, if there is one or can be one by now."""
        device = self._device
        words: Any = self._words.block
        graph = self._graph
        if (
            graph is None
            or not graph.fits(words)
            or (graph.arena is not None and graph.arena != device.arena(self._arena_bytes))
            or graph.precision != config.float32_matmul_precision
        ):
            if not self._watch(words[:]):
                return False
            if len(device.outcomes.pending):
                device.outcomes.wait()  # memory is asked for, and products are tried
            with device.undisturbed:
                graph = self._record(device.arena(self._arena_bytes))
            if graph is None:
                return False
        if not self._may_fail and self._launches.is_unguarded and len(device.outcomes.pending):
            device.outcomes.wait()  # libraries are not guarded
        number = device.outcomes.begin(late, self._may_fail, ())
        status = graph.run(words, number)
        if status:
            device.driver.fail("cuGraphLaunch", status)
        device.latest = graph, number
        return True

    def _watch(self, words: list[int]) -> bool:
        """Note which buffers lie elsewhere than at the last run; whether that was done for long."""
        before, self._last = self._last, words
        self._runs += 1
        if self._graphs == 0 and self._runs < thresholds.cuda_graph_runs:
            return False
        given = self._words.slots
        first = self._words.first
        if self._graph is None:
            moved = {s for s, a, b in zip(given, words[first:], before[first:]) if a != b}
        else:  # one that was fixed has moved: others will that are not state, too
            written = {slot for step in self._steps for slot in step.writes}
            slots = self._plan.slots
            moved = {s for s in given if slots[s].kind == "output" or s not in written}
            moved |= self._graph.moved(words)
        self._varying |= moved
        return True

    def _record(self, arena: int) -> PlanGraph | None:
        self._graph = None
        self._graphs += 1
        if self._graphs > thresholds.cuda_graphs:
            self.why_no_graph = "its buffers lie elsewhere at too many calls"
            return None
        try:
            self._graph = PlanGraph(
                self._device, self._plan, self._steps, self._words, self._varying, arena
            )
        except CannotRecord as error:
            self.why_no_graph = str(error)
        return self._graph

    # --- launches -------------------------------------------------------------------------

    def _place(self, kind: int) -> None:
        """Have launches find the arena, and one of the two sets of words for failures."""
        device, launches = self._device, self._launches
        arena = device.arena(self._arena_bytes) if self._arena_bytes else 0
        if launches.arena != arena or launches.kind != kind:
            launches.place(arena, kind)

    def _run_launches(self, late: LateFailure | None, timeline: Any) -> None:
        """Launch one step after the other."""
        device, launches = self._device, self._launches
        device.latest = None
        is_call = late is not None and late.undo is not None
        if is_call and launches.is_unguarded and len(device.outcomes.pending):
            device.outcomes.wait()  # libraries are not guarded
        number = device.outcomes.begin(late, self._may_fail, self._made(late))
        self._place(CALLS if is_call else OPS)
        launches.mark(number << LINE_BITS)
        waits = is_call and launches.is_unguarded and self._may_fail
        steps = launches.ready()[0]
        stop = launches.last_risk + 1 if waits else len(steps)
        for part in (steps[:stop], steps[stop:]):
            if timeline is None:
                for step in part:
                    for call in step.calls:
                        status = call()
                        if status:
                            launches.fail(call, status)
            else:
                self._run_timed(part, timeline)
            if waits:
                device.outcomes.wait()
                waits = False

    def _run_timed(self, launched: Sequence[LaunchedStep], timeline: Any) -> None:
        """Launch steps, and note how long the GPU took for each."""
        steps = [each for each in launched if each.calls]
        for first in range(0, len(steps), MOST_TIMED):
            part = steps[first : first + MOST_TIMED]
            times = self._device.timer.run(self._launches, part)
            end = perf_counter()
            for each, (start, total) in zip(part, times):
                assert each.step is not None
                timeline.note_step(*step_event(self._plan, each.step), end + start, total)

    def _made(self, late: LateFailure | None) -> list[BufferLoan]:
        """The memory of the results of an op of eager mode that may fail."""
        if not self._may_fail or late is None or late.undo is not None:
            return []
        loans = self._device.memory.loans
        found = [loans.get(self._words.block[i]) for i in self._outputs]
        return [loan for loan in found if loan is not None]
