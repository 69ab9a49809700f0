"""The expressions of one line of a tape, for parts of the compiler that ask what a line does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from contraflow.compiler.tape import Tape, TapeLine, Value
from contraflow.dtypes import HALVES, DType, of_number
from contraflow.expressions import expression as s
from contraflow.expressions.expression import Expr
from contraflow.operation.kinds import Reduction
from contraflow.spec import Given, Spec


class LineExpressions(NamedTuple):
    """The expressions that a map or a fold computes.

    Its `input` and `read` leaves are numbered as the inputs are; a value given twice is one leaf.
    """

    points: Sequence[Expr]  # at a point: the results of a map, the terms of a fold
    combine: Sequence[Expr]  # how a fold joins two terms, over `left` and `right` leaves
    given: Sequence[Given]
    narrows: bool  # whether results are rounded to half precision when they are stored

    @property
    def rounds(self) -> bool:
        """Whether results are more than elements of the inputs, their signs or parts."""
        return self.narrows or s.rounds((*self.points, *self.combine))

    def is_infinite(self, e: Expr) -> bool:
        """Whether an expression is an infinite number that was given. Rounding makes none."""
        x = self.given[e.data] if e.fn == "input" else e.data
        return isinstance(x, float) and math.isinf(x)


def line_expressions(tape: Tape, line: TapeLine) -> LineExpressions | None:
    """The expressions of a line, None if it is neither a map nor a fold."""
    op, given = line.op, tape.given(line.inputs)
    if op.kind.lowering not in ("map", "reduce"):
        return None
    casts, dtypes = op.types(given, line.params)
    places = [
        line.inputs.index(x) if isinstance(x, Value) else i for i, x in enumerate(line.inputs)
    ]
    leaves = [
        s.leaf("input", (cast or dtype_of(x)).compute, i)
        for i, cast, x in zip(places, casts, given)
    ]
    floats = [d for d in map(dtype_of, given) if d.is_floating_point]
    narrows = any(d in HALVES and any(x is not d for x in floats) for d in dtypes)
    if isinstance(op.kind, Reduction):
        points, combine, _ = op.kind.fold(op, leaves[0])
        return LineExpressions(points, combine, given, narrows)
    return LineExpressions(op.kind.expression(op, given, line.params, leaves), (), given, narrows)


def dtype_of(x: Given) -> DType:
    """The dtype of an operand."""
    return x.dtype if isinstance(x, Spec) else of_number(x)
