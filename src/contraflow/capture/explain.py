"""`explain()`: a text about what a compiled function has captured, guards and runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from contraflow.capture.call import FunctionCall
from contraflow.capture.key import CallKey
from contraflow.capture.observing.ahead import LIMITS
from contraflow.capture.observing.alarm import HEARS
from contraflow.capture.replay import CapturedProgram
from contraflow.capture.rewriting import rewrite
from contraflow.compiler.tape import Tape, Value
from contraflow.errors import counted
from contraflow.shapes import numel
from contraflow.tensors.symbol import departure


class ProgramMemory(NamedTuple):
    """Bytes that a program needs: for each call what it gives and keeps, and its temporaries."""

    results: int
    residuals: int
    temporaries: int


def memory_of(program: CapturedProgram) -> ProgramMemory:
    """The memory that one call of a program takes, beside its inputs."""
    tape, kept = program.tape, set(program.residuals.values())
    sizes = [_nbytes(tape, v) for v in tape.outputs]
    residuals = sum(size for position, size in enumerate(sizes) if position in kept)
    return ProgramMemory(sum(sizes) - residuals, residuals, program.executable.temporary_bytes)


def _nbytes(tape: Tape, v: Value) -> int:
    shape, dtype = tape.specs[v]
    return numel(shape) * dtype.itemsize


def explain(
    name: str,
    programs: Sequence[CapturedProgram],
    captures: int,
    changes: Sequence[str],
    refusals: Sequence[str],
    unobserved: Sequence[str],
) -> str:
    """Programs with their inputs, guards, effects, kernels and times; and what was refused."""
    rows = [f"compile({name}): {counted(len(programs), 'program')}, {counted(captures, 'capture')}"]
    for number, program in enumerate(programs, 1):
        tape = program.tape
        where = "" if tape.device == "cpu" else f" on {tape.device}"
        rows.append(f"program {number}{where}: {counted(len(tape.lines), 'line')}")
        rows += [f"  {row}" for row in _program(program)]
    rows += [f"recorded again: {text}" for text in changes]
    rows += [f"refused: {text}" for text in refusals]
    rows += [f"not observed: {text}" for text in unobserved]
    if not rewrite.KNOWN:
        rows.append(f"not observed: this Python is not known, so that {LIMITS}")
    elif not HEARS:
        rows.append("not observed: unknown, since only Python 3.12 and later tell what runs")
    return "\n".join(rows)


def _program(program: CapturedProgram) -> Iterator[str]:
    tape, guards, recording = program.tape, program.guards, program.recording
    roles = Counter(tape.inputs.values())
    yield "inputs  " + (", ".join(f"{n} {role}" for role, n in roles.items()) or "none")
    watched = [
        counted(len(guards.modules), "module"), counted(len(guards.watched), "tensor"),
    ]  # fmt: skip
    if guards.gradients:
        watched.append(counted(len(guards.gradients), ".grad slot"))
    watched += dict.fromkeys(str(read) for read in guards.reads if read.matters)
    yield "guards  " + ", ".join(watched)
    effects = [f"writes {counted(len(tape.writes), 'input')}"]
    if program.writes:
        effects.append(f"sets {', '.join(dict.fromkeys(map(str, program.writes)))}")
    if program.slot_outputs:
        effects.append(f"sets {counted(len(program.slot_outputs), 'gradient')}")
    if program.cell_outputs:
        effects.append(f"sets {counted(len(program.cell_outputs), 'host scalar')}")
    if recording.advances or recording.reseeds:
        effects.append("draws random numbers")
    yield "effects " + ", ".join(effects)
    results, residuals, temporaries = memory_of(program)
    yield f"memory  {results} bytes of results, {residuals} kept for backward, {temporaries} inside"
    yield from program.executable.explain()
    yield _times({"record": program.record_ms, **program.executable.times})
    if program.pullback is not None:
        pullback = program.pullback
        count = counted(len(pullback.tape.lines), "line")
        if pullback.refusal is not None:
            yield f"backward: {pullback.refusal}"
            return
        yield f"backward: {count}, {counted(len(program.residuals), 'residual')}"
        for (present, needed), variant in pullback.variants.items():
            came, asked = sum(present), sum(needed)
            yield f"  from {came} of {len(present)} results to {asked} of {len(needed)} inputs"
            yield from (f"  {row}" for row in variant.executable.explain())
            yield "  " + _times(variant.executable.times)


def _times(times: dict[str, float]) -> str:
    stages = ", ".join(f"{stage} {ms:.1f} ms" for stage, ms in times.items())
    return f"time    {stages or 'none'}"


# --- why a call is recorded again ----------------------------------------------------------------


def parameter_names(function: Any, instance: Any, count: int) -> list[str]:
    """The names of a function's positional parameters, without the object of a method."""
    code = getattr(function, "__code__", None)
    first = 0 if instance is None else 1
    known = () if code is None else code.co_varnames[first : code.co_argcount]
    return [*known[:count], *(f"argument {i}" for i in range(len(known), count))]


def change_of(
    program: CapturedProgram,
    before: CallKey,
    key: CallKey,
    call: FunctionCall,
    parts: Sequence[str],
    fixed: Sequence[int],
) -> str:
    """The changes since the call for which a program of the key `before` was recorded.

    `parts` are the names of arguments and of what is carried, `fixed` the positions of the numbers
    that are part of the key.
    """
    if before != key:
        return key.change(before, call, parts, fixed)
    change = program.guards.change(call.given)
    change = change or departure(program.recording.steps, call.leaves, key.leaf_names(parts))
    return change or "a module, a hook, a gradient or captured state has changed"
