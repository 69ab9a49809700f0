"""The expressions of one line of a tape, for parts of the compiler that ask what a line does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

from contraflow.compiler.tape import Tape, TapeLine, Value
from contraflow.dtypes import HALVES, DType, of_number
from contraflow.expressions import expression as s
from contraflow.expressions.expression import Expr
from contraflow.operation.kinds import Elementwise, Reduction
from contraflow.operation.op import Op
from contraflow.spec import Given, Spec

# Functions that give one of their arguments, or a part of one.
CHOICES = frozenset(("select", "max", "min", "clamp", "abs"))


class Formula:
    """The expressions that an op computes, and what is asked of them.

    `points` are those at a point: the results of a map, the terms of a fold; `combine` is how a
    fold joins two terms, over `left` and `right` leaves.
    """

    def __init__(self, points: Sequence[Expr], combine: Sequence[Expr] = ()) -> None:
        self.points, self.combine = points, combine
        self.order = s.walk(points)  # all that the points are made of, arguments first

    @cached_property
    def rounds(self) -> bool:
        """Whether there is arithmetic on floats."""
        return s.rounds((*self.points, *self.combine))

    @cached_property
    def chooses(self) -> bool:
        """Whether points are selected from what is given, or read elsewhere."""
        return any(e.fn in CHOICES or e.fn == "read" for e in self.order)

    @cached_property
    def combine_rounds(self) -> bool:
        """Whether terms are joined by arithmetic on floats."""
        return s.rounds(self.combine)

    @cached_property
    def combine_compares(self) -> bool:
        """Whether terms are compared with each other for equality."""
        return bool(_comparisons(s.walk(self.combine)))

    @cached_property
    def comparisons(self) -> list[tuple[Expr, Expr]]:
        """The pairs of floats that are compared for equality at a point."""
        return _comparisons(self.order)


def _comparisons(expressions: Sequence[Expr]) -> list[tuple[Expr, Expr]]:
    """The pairs of floats that some of them compare for equality. One that is compared with a
    constant of the body is not looked for among others, nor is one that is compared with itself."""
    found = [e.args for e in expressions if e.fn in ("eq", "ne")]
    return [
        (a, b)
        for a, b in found
        if a.dtype.is_floating_point and a is not b and "const" not in (a.fn, b.fn)
    ]


class LineExpressions(NamedTuple):
    """The expressions of a map or a fold, and the operands that it was given.

    The `input` and `read` leaves of its formula are numbered as the inputs are; a value given twice
    is one leaf.
    """

    formula: Formula
    given: Sequence[Given]
    narrows: bool  # whether results are rounded to half precision when they are stored

    @property
    def rounds(self) -> bool:
        """Whether results are more than elements of the inputs, their signs or parts."""
        return self.narrows or self.formula.rounds

    def is_infinite(self, e: Expr) -> bool:
        """Whether an expression is an infinite number that was given. Rounding makes none."""
        x = self.given[e.data] if e.fn == "input" else e.data
        return isinstance(x, float) and math.isinf(x)


def line_expressions(tape: Tape, line: TapeLine) -> LineExpressions | None:
    """The expressions of a line, None if it is neither a map nor a fold."""
    op, params = line.op, line.params
    if op.kind.lowering not in ("map", "reduce"):
        return None
    given = tape.given(line.inputs)
    casts, dtypes = op.types(given, params)
    places: Sequence[int] = range(len(given))
    if len({*line.inputs}) < len(given):
        places = [
            line.inputs.index(x) if isinstance(x, Value) else i for i, x in enumerate(line.inputs)
        ]
    leaves = tuple(
        [
            s.leaf("input", (cast or dtype_of(x)).compute, i)
            for i, cast, x in zip(places, casts, given)
        ]
    )
    narrows = False
    if not HALVES.isdisjoint(dtypes):
        floats = [d for d in map(dtype_of, given) if d.is_floating_point]
        narrows = any(d in HALVES and any(x is not d for x in floats) for d in dtypes)
    if isinstance(op.kind, Reduction):
        formula = _of_fold(op, leaves[0])
    elif type(op.kind) is Elementwise and all(isinstance(x, DType) for x in params.values()):
        formula = _of_map(op, leaves, tuple(params.items()))
    else:
        formula = Formula(op.kind.expression(op, given, params, leaves))
    return LineExpressions(formula, given, narrows)


@lru_cache(maxsize=1024)
def _of_fold(op: Op, x: Expr) -> Formula:
    assert isinstance(op.kind, Reduction)
    return Formula(*op.kind.fold(op, x)[:2])


@lru_cache(maxsize=1024)
def _of_map(op: Op, leaves: tuple[Expr, ...], params: tuple[tuple[str, DType], ...]) -> Formula:
    return Formula(op.kind.expression(op, (), dict(params), leaves))


def dtype_of(x: Given) -> DType:
    """The dtype of an operand."""
    return x.dtype if isinstance(x, Spec) else of_number(x)
