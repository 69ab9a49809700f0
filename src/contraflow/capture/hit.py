"""Cache hits: one generated Python function per program, with guards and replay inlined.

`Compiled` finds a program by a key, asks its guards, gathers inputs and builds results, in loops
over what the recording found. That does not change, so here the loops are unrolled into a function
that compares, gathers and builds just this. It gives MISS, before anything is changed, wherever the
long way has to look closer.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from contraflow.capture.call import FunctionCall, Hit
from contraflow.capture.key import SCOPE, CallKey, conditions
from contraflow.capture.replay import CapturedProgram, moved_copy
from contraflow.capture.results import Found, SameResult
from contraflow.capture.state.effects import UndoneCall
from contraflow.capture.state.trees import source_of
from contraflow.capture.state.written import ABSENT, PlaceWriter
from contraflow.compiler.tape import Value
from contraflow.devices.failures import LateFailure
from contraflow.operation.context import state
from contraflow.runtime.executable import Native
from contraflow.tensors.replayed import Writes, moments
from contraflow.tensors.storage import Storage
from contraflow.tensors.tensor import Tensor

MISS = object()


def misses(args: tuple[Any, ...]) -> Any:
    """Stands in for the function of a program that has none: always a miss."""
    return MISS


def write_hit(program: CapturedProgram, call: FunctionCall, key: CallKey) -> Hit:
    """The function for calls like this one, or `misses` where there cannot be one."""
    native = program.executable
    if not isinstance(native, Native) or native.addresses is None or state().inference:
        return misses
    if not _can_hit(program) or not _is_of_tensors(call) or not _are_on_cpu(program, call):
        return misses
    return _HitWriter(program, native, call.arguments, key).function()


def _can_hit(program: CapturedProgram) -> bool:
    """Whether the inputs, results and effects of a program can be written out."""
    given = any(source.is_argument_number for source in program.numbers)
    reads_more = program.gradients or given or program.compute or program.guards.pins
    return not reads_more and program.leaves is not None and program.stores.is_quiet


def _are_on_cpu(program: CapturedProgram, call: FunctionCall) -> bool:
    """Whether inputs that are moved are arguments or state, and lie on the cpu: another device may
    tell of an earlier failure when they are read."""
    found = [source.find(call.arguments) for source in program.moved if source.role != "grad"]
    return len(found) == len(program.moved) and all(x and x.device == "cpu" for x in found)


def _is_of_tensors(call: FunctionCall) -> bool:
    """Whether a call has positional tensors that share no memory, and carries tensors alone."""
    args, kwargs = call.given
    if kwargs or not all(type(x) is Tensor for x in args):
        return False
    if not all(isinstance(x, Tensor) for x in call.carried_values):
        return False
    return len({x.storage for x in call.arguments}) == len(call.arguments)


class _HitWriter(PlaceWriter):
    """Lines of the function, and what the names in them stand for."""

    def __init__(
        self,
        program: CapturedProgram,
        native: Native,
        arguments: Sequence[Tensor],
        key: CallKey,
    ) -> None:
        super().__init__(program.guards.reads)
        self.program, self.native, self.arguments, self.key = program, native, arguments, key
        self.state: list[Any] = [ref() for ref in program.state_refs]  # which was just found
        standing = [(ref, i) for ref, i in program.blocks.owners if i in native.late]
        self.standing = [position for _, position in standing]
        program.standing = native.standing(standing) if standing else None
        self.moving = [f"s{i}" for i in program.argument_numbers]
        self.moving += [f"m{i}" for i in range(len(program.moved))]
        self.inputs: list[str | Storage] = [*self.moving, *program.constants, *self.state]
        self.writes = Writes(weakref.ref(program))  # to state
        self.scope |= {
            **SCOPE, **native.scope, "MISS": MISS,
            "moment": moments.__next__, "state": state,
        }  # fmt: skip

    def function(self) -> Hit:
        """The whole, compiled."""
        for part in (self._state, self._modes, self._arguments, self._guards, self._undo):
            part()
        # An unassigned name or a missing attribute is a miss: `Compiled._call` decides.
        text = ["def hit(args):", "  try:", *(f"    {line}" for line in self.lines)]
        text += [f"  except {ABSENT}:", "    return MISS"]
        self.lines = []
        for part in (self._run, self._effects, self._results):
            part()
        text += [f"  {line}" for line in self.lines]
        return self.compiled("hit", text)  # type: ignore[no-any-return]

    def write(self, line: str) -> None:
        """Write a line."""
        self.lines.append(line)

    def block(self, position: int) -> str:
        """The variable that holds the block of an output."""
        return self.native.block(position)

    def number(self, position: int) -> str:
        """The number that an output is, or that its block holds, as an expression."""
        return self.native.number(position)

    def storage(self, value: Value) -> str:
        """The storage of an input in this call, as an expression."""
        program, position = self.program, self.program.input_positions[value]
        first = len(self.moving)
        if position < first:
            return self.moving[position]
        if position < first + len(program.constants):
            return self.name(program.constants[position - first])
        return f"{self.name(program.state_refs[position - first - len(program.constants)])}()"

    def _unless(self, *conditions: str) -> None:
        """Write a miss for when one of the conditions does not hold."""
        self.lines.append(f"if not ({' and '.join(conditions)}): return MISS")

    # --- before anything is changed -----------------------------------------------------------

    def _modes(self) -> None:
        now = state()
        quiet = ("current.context.hits", "not current.anomaly", "not current.saved_hooks")
        same = (*quiet, *conditions(self.key.modes, self))
        self.lines.append("current = state()")
        # A state is never changed. One in which nothing runs may be kept.
        idle = now.task is None and not now.saved_hooks and now.line is None
        known = f"current is {self.name(now)} or " if idle and now.context.hits else ""
        self._unless(f"({known}{' and '.join(same)})", *conditions(self.key.settings, self))

    def _arguments(self) -> None:
        count, places = len(self.arguments), self.program.carried_places
        given = count - len(places)
        self.lines.append(f"{''.join(f'a{i}, ' for i in range(given)) or '()'} = args")
        for i, (t, known) in enumerate(zip(self.arguments, self.key.tensors)):
            if i >= given:
                self.lines.append(f"a{i} = {places[i - given].source(self)}")
            self.lines.append(f"s{i} = a{i}.storage")
            self._unless(f"type(a{i}) is {self.name(type(t))}", *conditions(known, self, i))

    def _guards(self) -> None:
        for condition in self.program.guards.conditions(self, len(self.arguments)):
            self._unless(condition)
        for leaf in self.program.leaves or ():
            if isinstance(leaf, Found):
                self.place(leaf.place)
        for i, source in enumerate(self.program.moved):
            if source.is_argument:
                storage = f"s{source.argument}"
            elif source.constant is not None:  # the memory of an array from outside
                storage = self.name(source.constant)
            else:
                storage = f"{self.name(source.storage)}()"
            self._unless(f"(m{i} := {self.name(moved_copy)}({storage}, {source.moved!r}))")

    def _state(self) -> None:
        """Hold the memory of state, and read numbers. Guards notice state that was gone before;
        a number that is gone is None, which has no value."""
        if self.state:
            memory = self.program.guards.keep_memory(self.state)
            self.lines.append(f"held = {self.name(memory)}.arrays")
        if self.native.constant_prologue is None:
            program = self.program
            numbers = [f"{self.name(ref)}().value" for ref in program.cells]
            numbers += [f"{self.name(x.generator)}.{x.field}" for x in program.numbers]
            self.lines.append(f"cells = ({''.join(f'{number}, ' for number in numbers)})")

    def _undo(self) -> None:
        """On an asynchronous device, note what this call changes: its program may fail later. A
        tensor or host scalar that is gone has no state."""
        if not self.native.is_asynchronous:
            return
        program = self.program
        given = {
            "written": program.counted.written(self, self.inputs, self.writes),
            "counters": [f"{self.name(ref)}()" for ref, _ in program.cell_outputs],
            "owners": self._owners(standing=False),
            "random": map(self.name, program.draws.generators),
        }
        for name, values in given.items():
            self.lines.append(f"{name} = ({''.join(f'{value}, ' for value in values)})")
        if program.standing is not None:  # gradients that stay are given other blocks, or are not
            others = "".join(f"{owner}, " for owner in self._owners(standing=True))
            notice = f"{self.name(program.standing)}.notice"
            self.lines.append(f"if {notice}.given: owners += ({others})")
        self.lines.append(f"undo = {self.name(UndoneCall)}(written, counters, owners, random)")

    def _owners(self, standing: bool) -> list[str]:
        """The tensors whose gradients are set, those that stay where they are or the others."""
        found = self.program.blocks.owners
        return [f"{self.name(ref)}()" for ref, i in found if (i in self.standing) is standing]

    # --- from here on nothing misses ----------------------------------------------------------

    def _run(self) -> None:
        """Compute the outputs, and count what that writes."""
        program, native = self.program, self.native
        waits = native.is_asynchronous and program.waits
        if waits:  # for what others have left, too: nothing is changed yet
            self.lines.append("synchronize()")
        if native.is_asynchronous:
            self.lines.append(f"late = {self.name(LateFailure)}(with_line, undo.undo)")
        counting = [*program.counted.source_lines(self, self.inputs, self.writes)]
        self.lines += native.replay_lines(self.name, self.moving, program.standing, counting, waits)

    def _effects(self) -> None:
        for effect in self.program.effects:
            self.lines += effect.source_lines(self)
        if self.native.is_asynchronous:
            made = self.native.new_blocks(self.program.standing)
            self.lines.append(f"undo.note(({''.join(f'{block}, ' for block in made)}))")

    def _results(self) -> None:
        program = self.program
        assert program.leaves is not None
        again = {leaf.original for leaf in program.leaves if isinstance(leaf, SameResult)}
        leaves = [leaf.source(self) for leaf in program.leaves]
        for number in again:
            leaves[number] = f"(leaf{number} := {leaves[number]})"
        text = source_of(program.structure, iter(leaves), self.name)
        if program.writes:
            self.lines += [*program.stores.source_lines(self, text)]
        else:
            self.lines.append(f"return {text}")
