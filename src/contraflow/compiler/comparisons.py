"""Comparisons for equality, where a value that is computed again may have other bits.

A compiler that may contract a product and a sum into one operation, which rounds once, does so in
one kernel, or in one sweep over the points of a kernel, and not in another (`Limits.exact`). And on
every device kernels compute in float32 with half precision, and round what they store. Most results
differ in their last digit then. But the gradient of a maximum finds the maximum by its bits, and
shares nothing out where it does not. So a comparison for equality is made of values in memory, by
operations that do not round: it has one outcome, wherever it is made.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from contraflow.compiler.kernel import Limits
from contraflow.compiler.tape import Tape, TapeLine, Value
from contraflow.dtypes import HALVES, DType, of_number
from contraflow.expressions import expression as s
from contraflow.expressions.expression import Expr
from contraflow.operation.kinds import Reduction
from contraflow.spec import Given, Spec


def compared_values(tape: Tape, limits: Limits) -> set[Value]:
    """The values that must have the same bits wherever they are read: those that are compared for
    equality, and what they are made of without rounding."""
    if limits.exact and not any(spec.dtype in HALVES for spec in tape.specs.values()):
        return set()
    found: set[Value] = set()
    for line in reversed(tape.lines):
        examined = _examine(tape, line)
        if not found.isdisjoint(line.outs) and not examined.rounds:
            found.update(_values(line.inputs))
        found.update(_values(line.inputs[i] for i in examined.compared))
    return {v for v in found if not limits.exact or tape.specs[v].dtype in HALVES}


def kept_values(tape: Tape, limits: Limits) -> set[Value]:
    """The compared values that kernels must read from memory: those that a line has rounded.

    Unless it is rounded to half precision, a fold has one result wherever it is read. Lines that
    are neither maps nor folds are kernels of their own, which store what they make.
    """
    compared = compared_values(tape, limits)
    if not compared:
        return compared
    return {
        v
        for line in tape.lines
        for v in line.outs
        if v in compared
        and (line.op.kind.lowering == "map" or tape.specs[v].dtype in HALVES)
        and _examine(tape, line).rounds
    }


class _Examined(NamedTuple):
    """Properties of a line that its expressions show."""

    rounds: bool  # whether results are more than elements of the inputs, their signs or parts
    compared: tuple[int, ...] = ()  # the inputs that are compared for equality


def _values(operands: Sequence[Any] | Iterator[Any]) -> Iterator[Value]:
    return (x for x in operands if isinstance(x, Value))


def _examine(tape: Tape, line: TapeLine) -> _Examined:
    op, given = line.op, tape.given(line.inputs)
    if op.is_view or op.is_assign:
        return _Examined(False)
    if op.kind.lowering not in ("map", "reduce"):
        return _Examined(True)
    casts, dtypes = op.types(given, line.params)
    # A value that is given twice is one leaf.
    places = [
        line.inputs.index(x) if isinstance(x, Value) else i for i, x in enumerate(line.inputs)
    ]
    leaves = [
        s.leaf("input", (cast or _dtype(x)).compute, i) for i, cast, x in zip(places, casts, given)
    ]
    floats = [d for d in map(_dtype, given) if d.is_floating_point]
    narrows = any(d in HALVES and any(x is not d for x in floats) for d in dtypes)
    if isinstance(op.kind, Reduction):
        values, combine, _ = op.kind.fold(op, leaves[0])
        # Points are compared with each other: with what the same input has elsewhere.
        among = any(True for _ in _comparisons(combine))
        found = {0} if among else _compared(values, given)
        return _Examined(narrows or s.rounds((*values, *combine)), tuple(found))
    roots = op.kind.expression(op, given, line.params, leaves)
    return _Examined(narrows or s.rounds(roots), tuple(_compared(roots, given)))


def _dtype(x: Given) -> DType:
    return x.dtype if isinstance(x, Spec) else of_number(x)


def _comparisons(roots: Sequence[Expr]) -> Iterator[tuple[Expr, Expr]]:
    """The pairs of floats that are compared for equality. One that is compared with a constant of
    the body is not looked for among others, nor is one that is compared with itself."""
    for e in s.walk(roots):
        if e.fn in ("eq", "ne") and e.args[0].dtype.is_floating_point:
            a, b = e.args
            if a is not b and "const" not in (a.fn, b.fn):
                yield a, b


def _compared(roots: Sequence[Expr], given: Sequence[Given]) -> set[int]:
    """The inputs that comparisons in an expression depend on."""
    found: set[int] = set()
    for pair in _comparisons(roots):
        # Rounding does not make a number infinite.
        if not any(e.fn == "input" and _is_infinite(given[e.data]) for e in pair):
            found.update(e.data for e in s.walk(pair) if e.fn in ("input", "read"))
    return found


def _is_infinite(x: Given) -> bool:
    return isinstance(x, float) and math.isinf(x)
