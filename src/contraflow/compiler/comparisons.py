"""Comparisons for equality, on devices that may round a value otherwise when it is computed again.

A compiler that may contract a product and a sum into one operation, which rounds once, does so in
one kernel, or in one sweep over the points of a kernel, and not in another (`Limits.exact`). Most
results differ in their last digit then. But the gradient of a maximum finds the maximum by its
bits, and shares nothing out where it does not. So on such a device a comparison for equality is
made of values in memory, by operations that do not round: it has one outcome, wherever it is made.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from contraflow.compiler.tape import Tape, TapeLine, Value
from contraflow.dtypes import of_number
from contraflow.expressions import expression as s
from contraflow.expressions.expression import Expr
from contraflow.operation.kinds import Reduction
from contraflow.spec import Given, Spec


def compared_values(tape: Tape) -> set[Value]:
    """The values whose bits decide about comparisons for equality: what is compared, and what that
    is made of without rounding."""
    found: set[Value] = set()
    for line in reversed(tape.lines):
        examined = _examine(tape, line)
        if not found.isdisjoint(line.outs) and not examined.rounds:
            found.update(_values(line.inputs))
        found.update(_values(line.inputs[i] for i in examined.compared))
    return found


def kept_values(tape: Tape) -> set[Value]:
    """The compared values that kernels must read from memory: they are rounded point by point.

    A fold has one result wherever it is read, and other lines are kernels of their own.
    """
    compared = compared_values(tape)
    makers = (line for line in tape.lines if not compared.isdisjoint(line.outs))
    return {
        v
        for line in makers
        if line.op.kind.lowering == "map" and _examine(tape, line).rounds
        for v in line.outs
    }


class _Examined(NamedTuple):
    """Properties of a line that its expressions show."""

    rounds: bool  # whether results are more than elements of the inputs, or signs or parts of them
    compared: tuple[int, ...] = ()  # the inputs that are compared for equality


def _values(operands: Sequence[Any] | Iterator[Any]) -> Iterator[Value]:
    return (x for x in operands if isinstance(x, Value))


def _examine(tape: Tape, line: TapeLine) -> _Examined:
    op, given = line.op, tape.given(line.inputs)
    if op.is_view or op.is_assign:
        return _Examined(False)
    if op.kind.lowering not in ("map", "reduce"):
        return _Examined(True)
    casts, _ = op.types(given, line.params)
    leaves = [
        s.leaf("input", (cast or _dtype(x)).compute, i)
        for i, (cast, x) in enumerate(zip(casts, given))
    ]
    if isinstance(op.kind, Reduction):
        values, combine, _ = op.kind.fold(op, leaves[0])
        # Points are compared with each other: with what the same input has elsewhere.
        among = any(True for _ in _comparisons(combine))
        found = {0} if among else _compared(values, given)
        return _Examined(s.rounds((*values, *combine)), tuple(found))
    roots = op.kind.expression(op, given, line.params, leaves)
    return _Examined(s.rounds(roots), tuple(_compared(roots, given)))


def _dtype(x: Given) -> Any:
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
