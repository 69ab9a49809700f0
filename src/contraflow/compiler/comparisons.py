"""Values that must have one outcome wherever they are read, since it shows if they do not.

A compiler that may contract a product and a sum into one operation, which rounds once, does so in
one kernel, or in one sweep over the points of a kernel, and not in another (`Limits.exact`). And on
every device kernels compute in float32 with half precision, and round what they store. Most results
differ in their last digit then. But the gradient of a maximum finds the maximum by its bits, and
shares nothing out where it does not. So two sorts of values are stored once and read from memory:
those that are compared for equality, and those that meet what was selected of them (`meetings.py`).
Both are traced back through operations that do not round.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from contraflow.compiler.kernel import Limits
from contraflow.compiler.line_expressions import LineExpressions, line_expressions
from contraflow.compiler.meetings import ExaminedLine, meeting_values
from contraflow.compiler.tape import Tape, Value
from contraflow.dtypes import HALVES
from contraflow.expressions import expression as s


def compared_values(tape: Tape, limits: Limits) -> set[Value]:
    """The values that must have the same bits wherever they are read: those that are compared, and
    what they are made of without rounding."""
    if _is_exact(tape, limits):
        return set()
    return _compared_values(tape, limits, _examined_lines(tape))


def kept_values(tape: Tape, limits: Limits) -> set[Value]:
    """The compared values that kernels must read from memory: those that a line has rounded.

    Unless it is rounded to half precision, a fold has one result wherever it is read. Lines that
    are neither maps nor folds are kernels of their own, which store what they make.
    """
    if _is_exact(tape, limits):
        return set()
    lines = _examined_lines(tape)
    compared = _compared_values(tape, limits, lines)
    return {v for each in lines for v in compared.intersection(_rounded(tape, each))}


def _is_exact(tape: Tape, limits: Limits) -> bool:
    return limits.exact and not any(spec.dtype in HALVES for spec in tape.specs.values())


def _examined_lines(tape: Tape) -> list[ExaminedLine]:
    found = []
    for line in tape.lines:
        shown = line_expressions(tape, line)
        moves = line.op.is_view or line.op.is_assign
        found.append(ExaminedLine(line, shown, shown.rounds if shown is not None else not moves))
    return found


def _rounded(tape: Tape, each: ExaminedLine) -> Iterator[Value]:
    """The results of a line that would have other bits if they were computed elsewhere."""
    for v in each.line.outs if each.rounds else ():
        if each.line.op.kind.lowering == "map" or tape.specs[v].dtype in HALVES:
            yield v


def _compared_values(tape: Tape, limits: Limits, lines: Sequence[ExaminedLine]) -> set[Value]:
    rounded = {
        v
        for each in lines
        for v in _rounded(tape, each)
        if not limits.exact or tape.specs[v].dtype in HALVES
    }
    found = meeting_values(tape, lines, rounded)
    for line, shown, rounds in reversed(lines):
        if not rounds and not found.isdisjoint(line.outs):
            found.update(_values(line.inputs))
        if shown is not None:
            found.update(_values(line.inputs[i] for i in _compared(shown)))
    return {v for v in found if not limits.exact or tape.specs[v].dtype in HALVES}


def _values(operands: Sequence[Any] | Iterator[Any]) -> Iterator[Value]:
    return (x for x in operands if isinstance(x, Value))


def _compared(shown: LineExpressions) -> set[int]:
    """The inputs that comparisons of a line for equality depend on."""
    # The points of a fold are compared with each other: with what the same input has elsewhere.
    if shown.formula.combine_compares:
        return {0}
    found: set[int] = set()
    for pair in shown.formula.comparisons:
        if not any(map(shown.is_infinite, pair)):
            found.update(e.data for e in s.walk(pair) if e.fn in ("input", "read"))
    return found
