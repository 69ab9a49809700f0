"""Numbers that the host computes: which lines of a tape give what Python's own arithmetic gives."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from contraflow.compiler.tape import Tape, TapeLine, Value
from contraflow.dtypes import DType, bool_, float64, int64, of_number
from contraflow.expressions.expression import leaf, walk
from contraflow.operation.op import Op
from contraflow.operation.reference import quiet
from contraflow.spec import Given, Spec


def host_values(tape: Tape) -> set[Value]:
    """The values computed from host scalars and literals alone: they are known before a replay."""
    known = {v for v, role in tape.inputs.items() if role == "scalar"}
    for line in tape.lines:
        if (
            line.op.kind.pointwise
            and not tape.specs[line.outs[0]].shape  # nor do other results have dims
            and known.issuperset([x for x in line.inputs if type(x) is Value])
            and _means_the_same_wide(tape, line)
        ):
            known.update(line.outs)
    return known


def _means_the_same_wide(tape: Tape, line: TapeLine) -> bool:
    """Whether float64 and int64, in which the host computes, give what the line's dtypes do.

    One sum, product, quotient or root in float64, rounded to fewer bits, is what those bits give,
    which is not so of two steps. A number that is given in a dtype is rounded to it. Integers of
    fewer bits would not wrap, and a bitcast would see other bits.
    """
    if line.op.creates and not _is_exact(tape, line):
        return False
    specs = tape.specs
    # Which rows a body has depends on the dtypes alone, so a number may stand for all of its kind.
    alike = [specs[x] if type(x) is Value else type(x)(1) for x in line.inputs]
    made = tuple([specs[v].dtype for v in line.outs])
    return _rounds_the_same(line.op, tuple(line.params.items()), made, *alike)


# Functions whose results have no more digits than their arguments, and those that round once.
_EXACT = frozenset((
    "input", "const", "cast", "neg", "abs", "floor", "ceil", "trunc", "rint", "max", "min",
    "select", "isnan", "lt", "le", "gt", "ge", "eq", "ne", "and", "or", "xor", "not",
))  # fmt: skip
_ROUNDS_ONCE = frozenset(("add", "sub", "mul", "div", "sqrt"))


@lru_cache(maxsize=1024, typed=True)  # typed: 1, 1.0 and True are equal
def _rounds_the_same(
    op: Op, params: tuple[tuple[str, Any], ...], made: tuple[DType, ...], *given: Given
) -> bool:
    """Whether the body of an op, in float64 and its results rounded, gives what it gives in its own
    dtypes, with results of the dtypes `made`."""
    own = [x.dtype if isinstance(x, Spec) else of_number(x) for x in given]
    if not all(d.is_floating_point or d in (bool_, int64) for d in (*own, *made)):
        return False
    casts, _ = op.types(given, dict(params))
    leaves = [leaf("input", (c or d).compute, i) for i, (c, d) in enumerate(zip(casts, own))]
    body = op.kind.expression(op, given, dict(params), leaves)
    rows = list(walk(body))
    if all(not e.dtype.is_floating_point or e.dtype is float64 for e in rows):
        return all(e.fn != "bitcast" for e in rows)
    inner = walk([a for e in body for a in (e.args if e.fn in _ROUNDS_ONCE else (e,))])
    return all(e.fn in _EXACT and _is_number_of(e.dtype, e.data) for e in inner)


def _is_number_of(dtype: DType, x: Any) -> bool:
    """Whether a number that a body holds is one of its dtype, or there is none."""
    if not isinstance(x, float) or math.isnan(x) or not dtype.is_floating_point:
        return True
    return float(quiet.run(dtype.numpy.type, x)) == x


def _is_exact(tape: Tape, line: TapeLine) -> bool:
    """Whether the numbers that a tensor is made of are numbers of its dtype."""
    dtype = tape.specs[line.outs[0]].dtype
    return all(isinstance(x, Value) or _is_number_of(dtype, float(x)) for x in line.inputs)


def wide_numbers(tape: Tape) -> list[TapeLine]:
    """The lines of arithmetic among host scalars that rounds as Python's does, if at all."""
    known = {v for v, role in tape.inputs.items() if role == "scalar"}
    lines = []
    for line in tape.lines:
        if is_wide(tape, line, known):
            known.update(line.outs)
            lines.append(line)
    return lines


def is_wide(tape: Tape, line: TapeLine, numbers: set[Value]) -> bool:
    """Whether a line computes with some of these numbers alone, and gives such numbers again."""
    if not line.op.is_elementwise or numbers.isdisjoint(line.inputs):
        return False
    alone = numbers.issuperset([x for x in line.inputs if type(x) is Value])
    wide = all(tape.specs[v].dtype in (bool_, int64, float64) for v in line.outs)
    return alone and wide and _means_the_same_wide(tape, line)
