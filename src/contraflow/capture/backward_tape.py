"""The backward tape of a recorded call, cut from the joint tape of forward and backward.

Of the values that cross, those that cheap work makes again from others are made again, and the rest
are residuals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from contraflow import devices, thresholds
from contraflow.compiler.comparisons import compared_values
from contraflow.compiler.passes import eliminate_dead
from contraflow.compiler.tape import Tape, TapeLine, TapeOperand, Value
from contraflow.contexts.recording import InputSource
from contraflow.operation.op import REGISTRY


class Residual(NamedTuple):
    """A value that the forward program gives as an output for the backward."""

    value: Value


class ForwardInput(NamedTuple):
    """The memory of an input of the forward program, as it was then."""

    value: Value


class Late(NamedTuple):
    """Something that only backward reads, a hook for instance: as it is when backward runs."""

    origin: InputSource


Kept = Residual | ForwardInput | Late


def split(
    tape: Tape,
    mark: int,
    cotangents: Sequence[Value],
    late: dict[Value, InputSource],
    gradients: Sequence[Value],
) -> tuple[Tape, dict[Value, Kept]]:
    """The backward tape of a joint one whose first `mark` lines are the forward.

    `late` are the inputs that nobody read before. Also given: where its inputs, beside cotangents
    and host scalars, come from.
    """
    behind = Tape(tape.name, tape.specs, {}, tape.lines[mark:], {}, list(gradients), tape.device)
    behind = eliminate_dead(behind)
    makers = {v: line for line in tape.lines[:mark] for v in line.outs}
    used = {x for line in behind.lines for x in line.inputs if isinstance(x, Value)}
    made = {v for line in behind.lines for v in line.outs}
    crossing = sorted({*used, *gradients} - made - set(late) - set(cotangents))
    again: dict[Value, TapeLine] = {}
    kept: dict[Value, Kept] = {v: Late(source) for v, source in late.items()}
    # Host scalars and constants cost nothing; other inputs only where they are kept anyway.
    free = {v for v, role in tape.inputs.items() if role in ("scalar", "constant")}
    compared = compared_values(tape, devices.lookup(tape.device).limits)
    for v in crossing:
        base = _base(makers, v)
        if base in tape.inputs and base not in tape.writes:
            free.add(base)
    for v in crossing:
        base = _base(makers, v)
        if base not in free and base not in again:
            lines = _derive(makers, free, again, compared, base)
            if lines is None:
                kept[base] = Residual(base)
                free.add(base)
            else:
                again.update((out, line) for line in lines for out in line.outs)
        again.update((line.outs[0], line) for line in _views(makers, v))
    order = [line for line in tape.lines[:mark] if line.outs[0] in again]
    behind.lines = order + behind.lines
    read = {x for line in behind.lines for x in line.inputs if isinstance(x, Value)}
    read |= set(gradients)
    for v in tape.inputs:
        if v in read and v in free and v not in kept and tape.inputs[v] != "scalar":
            kept[v] = ForwardInput(v)
    kept = {v: kept[v] for v in sorted(kept) if v in read}
    return behind, kept


def _base(makers: dict[Value, TapeLine], v: Value) -> Value:
    """The base of a view."""
    while v in makers and makers[v].op.is_view:
        (v,) = makers[v].inputs  # type: ignore[assignment]
    return v


def _views(makers: dict[Value, TapeLine], v: Value) -> list[TapeLine]:
    """The lines that make a value of its base."""
    found = []
    while v in makers and makers[v].op.is_view:
        found.append(makers[v])
        (v,) = makers[v].inputs  # type: ignore[assignment]
    return found


def _derive(
    makers: dict[Value, TapeLine],
    free: set[Value],
    again: dict[Value, TapeLine],
    compared: set[Value],
    wanted: Value,
) -> list[TapeLine] | None:
    """A few cheap lines that compute a value from those at hand; None if it takes more, or if the
    forward program has a value with other bits that is `compared` for equality."""
    lines: dict[Value, TapeLine] = {}
    stack = [wanted]
    while stack:
        v = stack.pop()
        if v in free or v in again or v in lines:
            continue
        line = makers.get(v)
        if line is None or line.region or v in compared:
            return None
        if len(lines) == thresholds.recomputed_lines:
            return None
        if not (line.op.is_view or line.op.kind.pointwise):
            return None
        lines[v] = line
        stack.extend(x for x in line.inputs if isinstance(x, Value))
    return list(lines.values())


def without(tape: Tape, absent: set[Value]) -> tuple[Tape, set[Value]]:
    """A backward tape for cotangents of which some did not come, and the values that are zero.

    Zeros are not computed with: a cotangent that never came times infinity is not NaN.
    """
    zeros = set(absent)
    same: dict[Value, Value] = {}
    result = tape.replaced([])
    spelled: dict[Value, Value] = {}

    def spell(x: TapeOperand) -> TapeOperand:
        """An operand, written out if it is zero and matters."""
        if not isinstance(x, Value) or x not in zeros:
            return same.get(x, x) if isinstance(x, Value) else x
        if x not in spelled:
            shape, dtype = tape.specs[x]
            params = REGISTRY["full"].params | {"shape": shape, "dtype": dtype}
            (spelled[x],) = result.add(REGISTRY["full"], (0.0,), params)
        return spelled[x]

    for line in tape.lines:
        nil = [isinstance(x, Value) and x in zeros for x in line.inputs]
        zero = [n or (type(x) is not Value and x == 0) for x, n in zip(line.inputs, nil)]
        if any(nil) and line.op.vanishes(zero):
            zeros.update(line.outs)
            continue
        if line.op.is_sum and any(nil):
            other = line.inputs[nil.index(False)]
            if isinstance(other, Value) and tape.specs[other] == tape.specs[line.outs[0]]:
                same[line.outs[0]] = same.get(other, other)
                continue
        inputs = tuple(spell(x) for x in line.inputs)
        result.lines.append(
            TapeLine(line.outs, line.op, inputs, line.params, line.line, line.region)
        )
    result.outputs = [same.get(v, v) for v in tape.outputs]
    return result, zeros
