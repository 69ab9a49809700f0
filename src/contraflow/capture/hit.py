"""The call that hits, written out: one Python function for each program that is called again.

`Compiled` finds a program by a key, asks its guards, gathers inputs and builds results, in loops
over what the recording found. That does not change, so here the loops are unrolled into a function
that compares, gathers and builds just this. It gives MISS, before anything is changed, wherever the
long way has to look closer.
"""

from __future__ import annotations

import builtins
import weakref
from collections.abc import Sequence
from sys import getrefcount
from typing import Any

from contraflow.capture.guards import layout_of
from contraflow.capture.key import SCOPE, CallKey, conditions
from contraflow.capture.places import Place
from contraflow.capture.replay import CapturedProgram, FunctionCall, Hit, new_tensor
from contraflow.capture.trees import written
from contraflow.capture.writes import Registered, SlotStore, Write
from contraflow.operation.context import state
from contraflow.runtime.executable import HELD_BY_BLOCK, HELD_BY_ROOM, Native, Standing
from contraflow.tensors.epoch import Structure
from contraflow.tensors.replayed import Writes, count_replays, moments
from contraflow.tensors.storage import Storage
from contraflow.tensors.tensor import Tensor

MISS = object()


def misses(args: tuple[Any, ...]) -> Any:
    """Stands for the function where there is none."""
    return MISS


def write_hit(program: CapturedProgram, call: FunctionCall, key: CallKey) -> Hit:
    """The function for calls with tensors like these; other programs leave it at a miss."""
    native = program.executable
    args, kwargs = call.given
    of_tensors = not kwargs and all(type(x) is Tensor for x in args)
    numbers = program.numbers or program.compute
    more = program.gradients or numbers or program.guards.pins or state().inference
    if not of_tensors or more or program.plain is None:
        return misses
    if not all(isinstance(x, Tensor) for x in call.carried) or any(map(_is_loud, program.writes)):
        return misses
    if not isinstance(native, Native) or native.addresses is None:
        return misses
    if len({x.storage for x in call.arguments}) < len(call.arguments):
        return misses
    return _HitWriter(program, native, call.arguments, key).function()


def _is_loud(write: Write) -> bool:
    """Whether a write changes the structure of a module."""
    return isinstance(write, SlotStore) and isinstance(write.place, Registered) and write.place.loud


class _HitWriter:
    """Lines of the function, and what the names in them stand for."""

    def __init__(
        self,
        program: CapturedProgram,
        native: Native,
        arguments: Sequence[Tensor],
        key: CallKey,
    ) -> None:
        self.program, self.native, self.arguments, self.key = program, native, arguments, key
        self._places: dict[Place, str] = {}
        self._parents = {getattr(read.place, "parent", None) for read in program.guards.reads}
        self.state: list[Any] = [ref() for ref in program.state_refs]  # which was just found
        self.standing = {  # the owners of gradients, by the number of their room
            self._room(position): ref for ref, position in program.blocks if position in native.late
        }
        self.scope: dict[str, Any] = {
            **SCOPE, "MISS": MISS, "Structure": Structure, "count": getrefcount,
            "layout_of": layout_of, "locate": native.locate, "located": native.located,
            "moment": moments.__next__, "new_tensor": new_tensor, "prologue": native.prologue,
            "put": native.program.put, "rerun": native.program.rerun, "state": state,
        }  # fmt: skip
        self.lines: list[str] = []

    def function(self) -> Hit:
        """The whole, compiled."""
        for part in (self._state, self._modes, self._arguments, self._guards):
            part()
        # A name that is not assigned to, or an attribute that is gone, is for the long way.
        text = ["def hit(args):", "  try:", *(f"    {line}" for line in self.lines)]
        text += [
            "  except (AttributeError, LookupError, TypeError, ValueError):",
            "    return MISS",
        ]
        self.lines = []
        for part in (self._run, self._effects, self._results):
            part()
        text += [f"  {line}" for line in self.lines]
        exec(builtins.compile("\n".join(text), "<hit>", "exec"), self.scope)
        return self.scope["hit"]  # type: ignore[no-any-return]

    def name(self, x: Any) -> str:
        """A name for an object."""
        name = f"x{len(self.scope)}"
        self.scope[name] = x
        return name

    def place(self, place: Place) -> str:
        """A variable that holds what is found at a place."""
        if place not in self._places:
            value = place.written(self)
            self._places[place] = f"p{len(self._places)}"
            self.lines.append(f"{self._places[place]} = {value}")
        return self._places[place]

    def value(self, place: Place) -> str:
        """What is found at a place: a variable where other places are within it."""
        return self.place(place) if place in self._parents else place.written(self)

    def _unless(self, *conditions: str) -> None:
        """A miss, unless all of them hold."""
        self.lines.append(f"if not ({' and '.join(conditions)}): return MISS")

    # --- before anything is changed -----------------------------------------------------------

    def _modes(self) -> None:
        now = state()
        same = ("current.context.hits", "not current.anomaly", *conditions(self.key.modes, self))
        self.lines.append("current = state()")
        # A state is never changed. One in which nothing runs may be kept.
        idle = now.task is None and not now.saved_hooks and now.line is None
        known = f"current is {self.name(now)} or " if idle and now.context.hits else ""
        self._unless(f"({known}{' and '.join(same)})", *conditions(self.key.settings, self))

    def _arguments(self) -> None:
        count, carried = len(self.arguments), self.program.carried
        given = count - len(carried)
        self._unless(f"len(args) == {given}")
        for i, (t, known) in enumerate(zip(self.arguments, self.key.tensors)):
            source = f"args[{i}]" if i < given else carried[i - given].written(self)
            self.lines.append(f"a{i} = {source}; s{i} = a{i}.storage")
            self._unless(f"type(a{i}) is {self.name(type(t))}", *conditions(known, self, i))
        if self.program.guards.state and count:
            state_ids = self.name(self.program.guards.state)
            self._unless(*(f"id(s{i}) not in {state_ids}" for i in range(count)))

    def _guards(self) -> None:
        guards = self.program.guards
        known = self.name(guards)
        self._unless(
            f"not {known}.gone", f"({known}.epoch == Structure.epoch or {known}.are_current())"
        )
        for read in guards.reads:
            self._unless(read.written(self))
        for held, layout in guards.read_slots:
            owner = f"{self.name(held)}.get(args)"
            empty = f"{owner}._slot is None"
            self._unless(
                empty if layout is None else f"layout_of({owner}._grad) == {self.name(layout)}"
            )

    def _state(self) -> None:
        """Hold the memory of state, and read numbers. Guards notice state that was gone before;
        a number that is gone is None, which has no value."""
        if self.state:
            memory = self.program.guards.keep_memory(self.state)
            self.lines.append(f"held = {self.name(memory)}.arrays")
        if self.native.fixed is None:
            refs = map(self.name, self.program.cells)
            self.lines.append(f"cells = ({''.join(f'{ref}().value, ' for ref in refs)})")

    # --- from here on nothing misses ----------------------------------------------------------

    def _run(self) -> None:
        """Compute the outputs: blocks b0, b1, ... and numbers, which are the first of `known`."""
        native, write = self.native, self.lines.append
        if native.fixed is None:
            write("known = prologue(cells)")
        else:
            write(f"known = {self.name(native.fixed[0])}")
        for place, i in enumerate(self.program.argument_numbers):
            write(f"put({place}, s{i}.address or locate(s{i}))")
        for i, room in enumerate(native.rooms):
            if i in self.standing:
                continue
            m = self.name(room)
            write(f"b{i} = {m}.idle")
            write(f"if count(b{i}) == {HELD_BY_ROOM} and count(b{i}.array) == {HELD_BY_BLOCK}:")
            write(f"  {m}.idle = {m}.recent; {m}.recent = b{i}")
            write(f"else: b{i} = {m}.refill()")
            write(f"put({len(native.inputs.arrays) + i}, b{i}.address)")
        standing = self._stand()
        if standing:
            write(f"if {standing}.notice.given: {standing}.take()")
        numbers = len(native.host_outputs)
        write(f"try: rerun({f'known[{numbers}:]' if numbers else 'known'})")
        write("except IndexError as error: raise located(error) from None")
        counting = self._count_writes()
        if counting:  # an interrupt may have come after the writes
            write("except KeyboardInterrupt:")
            self.lines += [f"  {line}" for line in (*counting, "raise")]
        self.lines += counting
        if standing:
            write(f"if {standing}.notice.given: {standing}.settle()")

    def _stand(self) -> str | None:
        """A name for the gradients that may stay where they are, if there are any."""
        if not self.standing:
            return None
        places = [len(self.native.inputs.arrays) + i for i in self.standing]
        rooms = [self.native.rooms[i] for i in self.standing]
        standing = Standing(self.native.program, places, rooms, list(self.standing.values()))
        self.program.standing = standing
        return self.name(standing)

    def _count_writes(self) -> list[str]:
        """Lines that count the writes to arguments and state."""
        program = self.program
        storages: list[Storage | None] = [None] * len(program.argument_numbers)
        storages += [*program.constants, *self.state]
        writes, lines = Writes(weakref.ref(program)), []
        for place, writer in program.written:
            storage = storages[place]
            if storage is None:
                argument = f"s{program.argument_numbers[place]}"
                lines.append(f"{argument}.version += 1; {argument}.writer = {self.name(writer)}")
            else:
                count_replays(storage, writes, writer)
        if any(storages[place] is not None for place, _ in program.written):
            known = self.name(writes)
            lines.append(f"{known}.count += 1; {known}.last = moment()")
        return lines

    def _effects(self) -> None:
        program, write = self.program, self.lines.append
        for ref, position in program.cell_outputs:
            write(f"if (c := {self.name(ref)}()) is not None:")
            write(f"  c.value = type(c.value)({self._number(position)})")
        for ref, position in program.blocks:
            room = self._room(position)
            if room not in self.standing:
                write(f"if (t := {self.name(ref)}()) is not None: t._grad = b{room}")

    def _results(self) -> None:
        made = [
            f"new_tensor(b{self._room(position)}, {self.name(view)}, {self.name(dtype)}, {whole})"
            for position, view, dtype, whole in self.program.plain or ()
        ]
        program = self.program
        text = written(program.structure, iter(made), self.name)
        if text is None:
            text = f"{self.name(program.arranged)}([{', '.join(made)}])"
        if not program.writes:
            self.lines.append(f"return {text}")
            return
        self.lines += [f"result, values = {text}", "given = args, {}"]
        for i, write in enumerate(program.writes):
            self.lines.append(f"{self.name(write.do)}(values[{i}], given)")
        self.lines.append("return result")

    def _room(self, position: int) -> int:
        """The number of the room of an output."""
        return position - sum(number < position for number in self.native.numbers)

    def _number(self, position: int) -> str:
        """The number that an output is, or that its block holds."""
        if position not in self.native.numbers:
            return f"b{self._room(position)}.array"
        return f"known[{[i for i, _ in self.native.host_outputs].index(position)}]"
