"""Values that meet what was selected of them, where a difference in their last bit would show.

`l >= l.amax(1, keepdim=True)` holds for one element of each row, `l.amax() - l` is nowhere below
zero, and the quotient of both is nowhere above one: but only if `l` is rounded alike where it is
selected from and where it is read. No op is named here. A value that arithmetic has rounded is
followed through the expressions of lines, by the way in which it is read: as itself, or as what a
line selects of it (a fold that does not round, elements at other coordinates, a clamp). Where two
ways come together, the result may be one that depends on every bit of both (`Closeness`); where
that comes to a function that is not continuous, or not near zero (a comparison, `floor`, `sqrt`, a
divisor), the value must have one outcome.

The exponential of a difference of both has a small relative error, so a softmax stays one kernel. A
sum of many terms is not expected to have certain bits, but one of differences that may all be zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import reduce
from typing import NamedTuple

from contraflow import thresholds
from contraflow.compiler.line_expressions import CHOICES, LineExpressions
from contraflow.compiler.tape import Tape, TapeLine, Value
from contraflow.expressions import expression as s
from contraflow.expressions.expression import Expr
from contraflow.operation.kinds import Scanning, Scattering


class Closeness(IntEnum):
    """How a result of two ways to read one value is off where these have other bits."""

    RATIO = 1  # by a few last bits of its own
    OFFSET = 2  # by a few last bits of its terms, as one minus a ratio is
    DIFFERENCE = 3  # the same, and the terms are many times larger


# How the values that something is made of were read: as themselves, as what another value has
# selected of them, or in two ways.
Ways = dict[Value, "Value | Closeness"]


class ExaminedLine(NamedTuple):
    """A line, what it computes if that is known, and whether it rounds."""

    line: TapeLine
    shown: LineExpressions | None
    rounds: bool


def meeting_values(tape: Tape, lines: Sequence[ExaminedLine], rounded: set[Value]) -> set[Value]:
    """Those of some rounded values that must have the same bits in all ways in which they are
    read."""
    followed = _selected_from(tape, lines).intersection(rounded)
    if not followed:
        return set()
    finder = _Finder(tape, followed)
    for each in lines:
        finder.follow(each)
    return finder.found


def _selected_from(tape: Tape, lines: Sequence[ExaminedLine]) -> set[Value]:
    """The values of which lines select elements, and what they are made of without rounding."""
    found: set[Value] = set()
    for each in reversed(lines):
        if _selects(each) or (not each.rounds and not found.isdisjoint(each.line.outs)):
            floats = (x for x in each.line.inputs if isinstance(x, Value))
            found.update(x for x in floats if tape.specs[x].dtype.is_floating_point)
    return found


def _selects(each: ExaminedLine) -> bool:
    line, shown, rounds = each
    if shown is None:
        return isinstance(line.op.kind, (Scanning, Scattering))
    if line.op.kind.lowering == "reduce":
        return not rounds
    return shown.formula.chooses


# Continuous functions: small differences stay small, and a product of ratios is a ratio.
_SMOOTH = frozenset(("neg", "mul", "tanh", "sin", "cos", "erf"))
_SUMS = frozenset(("add", "sub", "fma", "muladd"))


class _Finder:
    """Follows values from line to line."""

    def __init__(self, tape: Tape, followed: set[Value]) -> None:
        self._tape, self._followed = tape, followed
        self._ways: dict[Value, Ways] = {}
        self.found: set[Value] = set()

    def follow(self, each: ExaminedLine) -> None:
        """Note how the results of a line depend on values that are followed."""
        line, shown, _ = each
        out, kind = line.outs[0], line.op.kind
        results: Sequence[Ways]
        if line.op.is_view or line.op.is_assign:
            results = [self._together(line)]
        elif shown is not None:
            results = self._shown(line, shown)
        elif isinstance(kind, (Scanning, Scattering)):
            among = _summed if self._sums(line) else _chosen_by(out)
            results = [among(self._together(line))] * len(line.outs)
        else:
            results = [{}] * len(line.outs)
        for v, ways in zip(line.outs, results, strict=True):
            kept = {r: way for r, way in ways.items() if r not in self.found}
            if v in self._followed:
                kept[v] = v
            if kept and self._tape.specs[v].dtype.is_floating_point:
                self._ways[v] = dict([*kept.items()][-thresholds.followed_meetings :])

    def _shown(self, line: TapeLine, shown: LineExpressions) -> Sequence[Ways]:
        """How the results of a map or a fold depend on them."""
        done: dict[Expr, Ways] = {}
        inputs = [self._ways.get(x, {}) if isinstance(x, Value) else {} for x in line.inputs]
        if not any(inputs):
            return [{}] * len(line.outs)
        choose = _chosen_by(line.outs[0])
        for e in shown.formula.order:
            if e.fn in ("input", "read"):
                done[e] = inputs[e.data] if e.fn == "input" else choose(inputs[e.data])
            else:
                done[e] = self._through(e, [done[a] for a in e.args], choose, shown)
        results = [done[e] for e in shown.formula.points]
        if line.op.kind.lowering != "reduce":
            return results
        among = _summed if shown.formula.combine_rounds else choose
        return [among(reduce(_met, results))] * len(line.outs)

    def _through(
        self, e: Expr, args: Sequence[Ways], choose: Callable[[Ways], Ways], shown: LineExpressions
    ) -> Ways:
        """How the result of a function depends on them."""
        if e.fn == "select":
            args = args[1:]
        if not any(args):
            return {}
        ways = reduce(_met, args)
        if e.fn in CHOICES:
            return choose(ways)
        if e.fn in _SUMS:
            return _offset(ways)
        if e.fn in _SMOOTH or (e.fn == "cast" and e.dtype.is_floating_point):
            return ways
        if e.fn == "exp":
            return {r: Closeness.RATIO if _is_met(way) else way for r, way in ways.items()}
        if e.fn in ("div", "sqrt", "log"):
            self._needs(args[-1], Closeness.OFFSET)
            return _offset(ways) if e.fn == "log" else ways
        if not _is_test_for_nan(e) and not any(map(shown.is_infinite, e.args)):
            self._needs(ways, Closeness.RATIO)
        return ways if e.dtype.is_floating_point else {}

    def _needs(self, ways: Ways, least: Closeness) -> None:
        """Find what a function that is not continuous there depends on this closely."""
        for r, way in ways.items():
            if isinstance(way, Closeness) and way >= least:
                self.found.add(r)

    def _together(self, line: TapeLine) -> Ways:
        """How all inputs of a line depend on them."""
        return reduce(
            _met, (self._ways.get(x, {}) for x in line.inputs if isinstance(x, Value)), {}
        )

    def _sums(self, line: TapeLine) -> bool:
        """Whether a scan or a scattering line rounds."""
        op, given = line.op, self._tape.given(line.inputs)
        dtypes = [dtype.compute for dtype in op.types(given, line.params)[1]]
        if isinstance(op.kind, Scattering):
            return s.rounds(op.kind.sweeps(op, dtypes[0], line.params))
        assert isinstance(op.kind, Scanning)
        elements = [s.leaf("input", dtypes[0], i) for i in range(len(line.inputs))]
        return s.rounds(op.kind.fold(op, elements, dtypes)[1])


def _is_test_for_nan(e: Expr) -> bool:
    return e.fn == "isnan" or (e.fn in ("eq", "ne") and e.args[0] is e.args[1])


def _is_met(way: Value | Closeness) -> bool:
    return isinstance(way, Closeness)


def _met(a: Ways, b: Ways) -> Ways:
    """The ways of something that is made of two things."""
    if not a or not b or a is b:
        return a or b
    return {**a, **{r: _joined(a[r], way) if r in a else way for r, way in b.items()}}


def _joined(a: Value | Closeness, b: Value | Closeness) -> Value | Closeness:
    if a == b:
        return a
    if isinstance(a, Closeness):
        return max(a, b if isinstance(b, Closeness) else Closeness.OFFSET)
    return max(b, Closeness.OFFSET) if isinstance(b, Closeness) else Closeness.DIFFERENCE


def _offset(ways: Ways) -> Ways:
    """The ways of a sum of two terms."""
    return {r: Closeness.OFFSET if way is Closeness.RATIO else way for r, way in ways.items()}


def _chosen_by(out: Value) -> Callable[[Ways], Ways]:
    """A function that gives the ways of what a line selects."""
    return lambda ways: {r: out if way == r else way for r, way in ways.items()}


def _summed(ways: Ways) -> Ways:
    """The ways of a sum of many terms."""
    return {r: way for r, way in ways.items() if way == Closeness.DIFFERENCE}
