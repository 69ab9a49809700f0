"""Plans: a slot of memory for each value, and the order of steps. No device is named here.

A `Plan` is what a device loads: steps over slots. A slot is a whole value; temporaries also get
an offset in an arena, chosen so that values alive at the same time do not overlap. On a device
whose `Limits` allow no `arena`, each lies at the start of a piece of memory, and those alive at the
same time in different ones.
"""

from __future__ import annotations

import functools
import math
from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple

from contraflow.compiler.aliases import join_aliases
from contraflow.compiler.arena import Temporary, lay_apart, lay_out
from contraflow.compiler.kernel import (
    READS,
    WRITES,
    KernelCall,
    Limits,
    Loops,
    Operand,
    Store,
    loops,
)
from contraflow.compiler.lower import Fused, HostUse, KernelUse, OperandPlace, Use, is_access
from contraflow.compiler.tape import Tape, TapeLine, TapeOperand, Value
from contraflow.dtypes import DType
from contraflow.errors import TRANSLATED, retold
from contraflow.expressions import expression as s
from contraflow.operation.op import Op
from contraflow.operation.reference import run_reference, strided
from contraflow.shapes import numel
from contraflow.spec import Params


class Binding(NamedTuple):
    """The binding of a kernel operand: a slot, from an element offset on.

    A scalar operand is bound to `(SCALARS, i)`: word i of the block of host scalars.
    """

    slot: int
    offset: int = 0


SCALARS = -1
_new = tuple.__new__  # of a named tuple, as its class does it, which takes twice as long


@dataclass(eq=False, repr=False)
class Slot:
    """Memory for one value. `kind` is temp (in an arena), input or output (given per replay)."""

    kind: str
    dtype: DType
    numel: int
    offset: int = 0  # in bytes within its arena, for temps
    arena: int = 0  # the number of that
    element_bytes: int = 0  # on the device; 0: its itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of the value."""
        return self.numel * (self.element_bytes or self.dtype.itemsize)


@dataclass(eq=False, repr=False)
class KernelStep:
    """Run a kernel. `line` is the number of the tape line that errors are blamed on, `does` those
    of all lines whose work it does, that which names it first."""

    call: KernelCall
    bindings: tuple[Binding, ...]
    line: int = 0
    makes: Set[Value] = frozenset()  # the values of the tape that it writes
    does: tuple[int, ...] = ()

    @property
    def reads(self) -> tuple[int, ...]:
        """The slots that it reads."""
        operands = zip(self.call.kernel.operands, self.bindings)
        return tuple(binding.slot for operand, binding in operands if operand.mode in READS)

    @property
    def writes(self) -> tuple[int, ...]:
        """The slots that it writes."""
        operands = zip(self.call.kernel.operands, self.bindings)
        return tuple(binding.slot for operand, binding in operands if operand.mode in WRITES)

    @property
    def may_fail(self) -> bool:
        """Whether it may find an index out of range."""
        return self.call.kernel.checks_indices


@dataclass(eq=False, repr=False)
class HostStep:
    """An op without a kernel: run Python over arrays, which are contiguous, in slot order. On a
    device whose `Limits` allow no such steps a library of its own does the op, by its name."""

    name: str
    run: Callable[..., Any]  # arrays of `reads` in, arrays for `writes` out
    reads: tuple[int, ...]  # slots
    writes: tuple[int, ...]
    shapes: dict[int, tuple[int, ...]] = field(default_factory=dict)
    line: int = 0
    params: Params = field(default_factory=dict)
    may_fail = True  # as Python may

    @property
    def does(self) -> tuple[int, ...]:
        """The tape line whose work it does."""
        return (self.line,)


class StepOrigin(NamedTuple):
    """The op that a step does, as the user called it, at which line, and the lines of other ops
    that the step does too."""

    op: str
    line: Any
    others: tuple[Any, ...] = ()


@dataclass(eq=False, repr=False)
class Plan:
    """Steps in order over slots, the sizes of the arenas, and the number of host scalars."""

    slots: list[Slot]
    steps: list[KernelStep | HostStep]
    arenas: list[int]  # in bytes; one, or several where `Limits` allow none that is shared
    scalar_dtypes: list[DType]  # per word of the scalar block: a float (float64) or int (int64)
    lines: Sequence[TapeLine] = ()  # of the tape, which steps name by number

    def blame(self, number: int, problem: str, called: Any = None) -> str:
        """A problem with the step of a tape line, as one of the op that the user called there, or
        at the line that has `called` the program."""
        if number >= len(self.lines):
            return problem
        line = self.lines[number]
        return (line if called is None else line._replace(line=called)).blame(problem)

    def origin(self, step: KernelStep | HostStep) -> StepOrigin:
        """The op and the line that a step is for; a profile asks."""
        found = [self.lines[number] for number in step.does if number < len(self.lines)]
        if not found:
            return StepOrigin("", None)
        first = found[0]
        others = {str(x.line): x.line for x in found[1:] if x.line is not None}
        others.pop(str(first.line), None)
        return StepOrigin(first.called, first.line, tuple(others.values()))

    @property
    def arena_bytes(self) -> int:
        """Bytes of all temporaries."""
        return sum(self.arenas)


# --- planning ----------------------------------------------------------------------------------


def make_plan(
    tape: Tape, fused: Fused, host: set[Value], limits: Limits
) -> tuple[Plan, list[TapeOperand]]:
    """Slots and steps for a fused tape, and the host scalar in each word of the scalar block."""
    return _Planner(tape, fused, host, limits).run()


class _Planner:
    """Decides where each value lies.

    All steps are there from the start, copies included: one before each store into part of a
    value, and one at the end for each input that is written. A copy is dropped if source and
    target can share a slot: no lifetimes in it overlap.
    """

    def __init__(self, tape: Tape, fused: Fused, host: set[Value], limits: Limits) -> None:
        self.tape, self.host, self.limits = tape, host, limits
        self.slots: list[Slot] = []
        self.slot_of: dict[Value, int] = {}
        # The values that live in each slot, with the steps of their lifetimes, in order.
        self.residents: dict[int, list[tuple[float, float, Value]]] = defaultdict(list)
        self.words: list[TapeOperand] = []
        self.word_dtypes: list[DType] = []
        self.word_numbers: dict[Any, int] = {}  # by what a word holds: kernels share them
        self.uses: list[Use | None] = []
        self.rests: dict[int, tuple[Value, Value]] = {}  # step of a copy: what it copies, to what
        for use in fused:
            if isinstance(use, KernelUse) and use.rest is not None:
                (out,) = use.writes
                self.rests[len(self.uses)] = (use.rest, out)
                self.uses.append(_copy(tape, use.rest, out, use.line))
            self.uses.append(use)
        # Steps that may fail come first, so that a failed replay has changed no input.
        self.last_risk = max((i for i, u in enumerate(self.uses) if u and u.may_fail), default=-1)
        # The final contents of an input are a value of their own, made by its copy.
        self.finals: dict[Value, tuple[Value, int]] = {}
        makers = {v: i for i, x in enumerate(tape.lines) for v in x.outs} if tape.writes else {}
        for target, v in tape.writes.items():
            final = tape.new(tape.specs[target])
            self.finals[target] = (final, len(self.uses))
            make = _fill if v in host else _copy
            self.uses.append(make(tape, v, final, makers.get(v, 0)))
        self.lives = self._lives()

    def _lives(self) -> dict[Value, tuple[float, float]]:
        """The steps from which and up to which each value is needed."""
        lives: dict[Value, tuple[float, float]] = {}
        for v, role in self.tape.inputs.items():
            if role != "scalar":
                lives[v] = (-1, -1 if v in self.tape.writes else math.inf)
        for i, use in enumerate(self.uses):
            assert use is not None
            for v in use.writes | _loads(use):
                first, last = lives.get(v, (i, i))
                lives[v] = (first, max(last, i))
        for v in (*self.tape.outputs, *(final for final, _ in self.finals.values())):
            if v in lives:
                lives[v] = (lives[v][0], math.inf)
        return lives

    def run(self) -> tuple[Plan, list[TapeOperand]]:
        """Lay everything out."""
        for v, role in self.tape.inputs.items():
            if role != "scalar":
                self._assign_slot(v, self._slot("input", v))
        for v in self.tape.outputs:
            if v not in self.host:
                self._assign_slot(v, self._slot("output", v))
        for target, (final, _) in self.finals.items():
            self._assign_slot(final, self.slot_of[target])
        for target, (final, step) in self.finals.items():
            self._write_in_place(target, final, step)
        for base, out in reversed(self.rests.values()):
            self._start_in_output(base, out)
        for step, (base, out) in self.rests.items():
            self._store_in_place(base, out, step)
        for v in self.lives:
            if v not in self.slot_of:
                self._assign_slot(v, self._slot("temp", v))
        uses = [use for use in self.uses if use is not None]
        arenas = self._lay_out_arenas(uses)
        steps = [self._step(use) for use in uses]
        return Plan(self.slots, steps, arenas, self.word_dtypes, self.tape.lines), self.words

    def _slot(self, kind: str, v: Value) -> int:
        spec = self.tape.specs[v]
        element_bytes = self.limits.element_bytes(spec.dtype)
        self.slots.append(Slot(kind, spec.dtype, numel(spec.shape), element_bytes=element_bytes))
        return len(self.slots) - 1

    def _assign_slot(self, v: Value, slot: int) -> None:
        if self.slot_of.get(v) != slot:
            self.slot_of[v] = slot
            insort(self.residents[slot], (*self.lives[v], v))

    # --- sharing --------------------------------------------------------------------------

    def _may_share(self, v: Value, slot: int, but: Value | None = None) -> bool:
        """Whether `v` can share the slot with its residents, ignoring `but`."""
        first, last = self.lives[v]
        residents = self.residents[slot]
        at = bisect_right(residents, last, key=itemgetter(0))
        while at and residents[at - 1][1] >= first:  # earlier ones are gone
            at -= 1
            begins, ends, other = residents[at]
            if other in (v, but):
                continue
            if ends == first and self._takes_over(other, v, int(first)):
                continue
            if begins == last and self._takes_over(v, other, int(last)):
                continue
            return False
        return True

    def _takes_over(self, old: Value, new: Value, step: int) -> bool:
        """Whether a step that reads one value and makes another may do so in the same memory."""
        use = self.uses[step]
        if step in self.rests:
            return True  # a copy onto itself, which will be left out
        return isinstance(use, KernelUse) and _reads_where_it_writes(use, old, new)

    def _write_in_place(self, target: Value, final: Value, step: int) -> None:
        """Make an input's new value in its own memory, if the old one is not needed by then."""
        v, slot = self.tape.writes[target], self.slot_of[target]
        if v in self.slot_of or v in self.host or self.lives[v][0] <= self.last_risk:
            return
        kept = self.lives[v]
        self.lives[v] = (kept[0], math.inf)
        if self._may_share(v, slot, but=final):
            self.residents[self.slot_of.pop(final)].remove((*self.lives.pop(final), final))
            self._assign_slot(v, slot)
            self.uses[step] = None
        else:
            self.lives[v] = kept

    def _store_in_place(self, base: Value, out: Value, step: int) -> None:
        """Store into part of a value where it lies, if the whole is not needed afterwards."""
        if base not in self.slot_of:
            if base in self.host:
                return
            self._assign_slot(base, self._slot("temp", base))
        slot = self.slot_of[base]
        if self.slots[slot].kind == "input" and self.lives[out][0] <= self.last_risk:
            return
        if self.slot_of.get(out, slot) == slot and self._may_share(out, slot):
            self._assign_slot(out, slot)
            self.uses[step] = None

    def _start_in_output(self, base: Value, out: Value) -> None:
        """Compute a value in the memory of the output to which it would be copied in the end."""
        slot = self.slot_of.get(out)
        if slot is None or self.slots[slot].kind != "output" or base in self.host:
            return
        if base not in self.slot_of and self._may_share(base, slot):
            self._assign_slot(base, slot)

    # --- the arena ------------------------------------------------------------------------

    def _lay_out_arenas(self, uses: Sequence[Use]) -> list[int]:
        """Give temporaries their places; the sizes of the arenas."""
        born: dict[int, int] = {}
        dies: dict[int, int] = {}
        for i, use in enumerate(uses):
            for v in _loads(use) | use.writes:
                born.setdefault(self.slot_of[v], i)
                dies[self.slot_of[v]] = i
        temps = sorted(i for i in born if self.slots[i].kind == "temp")
        lives = [Temporary(born[i], dies[i], self.slots[i].nbytes) for i in temps]
        if not self.limits.arena:
            numbers, sizes = lay_apart(lives)
            for i, number in zip(temps, numbers):
                self.slots[i].arena = number
            return sizes
        offsets, size = lay_out(lives, self.limits.alignment)
        for i, offset in zip(temps, offsets):
            self.slots[i].offset = offset
        return [size]

    # --- steps ----------------------------------------------------------------------------

    def _step(self, use: Use) -> KernelStep | HostStep:
        if isinstance(use, HostUse):
            return self._host_step(use)
        bindings = []
        for operand, place in zip(use.call.kernel.operands, use.places):
            if operand.mode == "scalar":
                bindings.append(_new(Binding, (SCALARS, self._word(place, operand.dtype))))
            elif operand.mode == "position":
                bindings.append(_new(Binding, (0, place.offset)))
            else:
                assert isinstance(place.value, Value)
                bindings.append(_new(Binding, (self.slot_of[place.value], place.offset)))
        call = use.call
        if not self.limits.aliasing:
            memory = [o.mode not in ("scalar", "position") for o in call.kernel.operands]
            slots = [b.slot if own else -1 for own, b in zip(memory, bindings)]
            call, kept = join_aliases(call, slots)
            bindings = [bindings[i] for i in kept]
        return KernelStep(call, tuple(bindings), use.line, use.writes, use.does)

    def _word(self, place: OperandPlace, dtype: DType) -> int:
        word = place.value
        assert word is not None
        # Numbers that compare equal may differ: True, 1 and 1.0, or the signs of zeros.
        held = word if isinstance(word, Value) else (type(word), repr(word))
        number = self.word_numbers.setdefault((held, dtype), len(self.words))
        if number == len(self.words):
            self.words.append(word)
            self.word_dtypes.append(dtype)
        return number

    def _host_step(self, use: HostUse) -> HostStep:
        line = use.tape_line
        reads = tuple(self.slot_of[x[0]] for x in use.inputs if is_access(x))
        writes = tuple(self.slot_of[v] for v in line.outs)
        shapes = {
            self.slot_of[v]: self.tape.specs[v].shape for v in (*sorted(use.reads), *line.outs)
        }
        given = tuple(self.tape.given(line.inputs))
        run = functools.partial(_run_on_host, line.op, use.inputs, given, line.params)
        return HostStep(line.op.name, run, reads, writes, shapes, use.line, line.params)


def _run_on_host(op: Op, inputs: Any, given: Any, params: Any, *arrays: Any) -> Any:
    """Run an op's reference over the arrays of its slots, under the views the line reads."""
    remaining = iter(arrays)
    prepared = [strided(next(remaining), x[1]) if is_access(x) else x for x in inputs]
    try:
        return run_reference(op, prepared, given, params)
    except tuple(TRANSLATED) as error:
        raise retold(error, op.name, op.takes, given, params)  # noqa: B904 (it has its cause)


def _loads(use: Use) -> set[Value]:
    """The values whose elements a step reads; the rest that a store keeps is copied by another."""
    return use.loads if isinstance(use, KernelUse) else use.reads


def _reads_where_it_writes(use: KernelUse, target: Value, v: Value) -> bool:
    """Whether a kernel reads each old element only at the point that writes the new one."""
    kernel = use.call.kernel
    if not isinstance(kernel, Loops):
        return False
    stored = next(i for i, p in enumerate(use.places) if p.value == v)
    if any(store.inner for store in kernel.stores if store.operand == stored):
        return False  # a later pass may read the element again
    return all(
        i not in kernel.gathered
        and use.call.strides[i] == use.call.strides[stored]
        and place.offset == use.places[stored].offset
        for i, place in enumerate(use.places)
        if place.value == target
    )


def _copy(tape: Tape, source: Value, target: Value, line: int = 0) -> KernelUse:
    """A step that copies a whole value."""
    return _map(tape, "in", source, target, line)


def _fill(tape: Tape, source: Value, target: Value, line: int = 0) -> KernelUse:
    """A step that stores a host scalar."""
    return _map(tape, "scalar", source, target, line)


def _map(tape: Tape, mode: str, source: Value, target: Value, line: int) -> KernelUse:
    """A map over the flat elements of `target` that stores one operand."""
    shape, dtype = tape.specs[target]
    kernel, strides = _storing(tape.specs[source].dtype, mode, dtype)
    call = KernelCall(kernel, (numel(shape),), strides)
    return KernelUse(call, (OperandPlace(source), OperandPlace(target)), line)


@functools.lru_cache(maxsize=256)
def _storing(given: DType, mode: str, dtype: DType) -> tuple[Loops, tuple[tuple[int, ...], ...]]:
    """The kernel that stores the elements of an operand, cast, and the strides of its calls."""
    strides = ((1,) if mode == "in" else (), (1,))
    operands = (Operand(given, mode, strides[0]), Operand(dtype, "out", strides[1]))
    value = s.cast(s.leaf("load", given, 0), dtype)
    return loops(1, 0, 0, operands, (), (Store(1, value, False),), None), strides
