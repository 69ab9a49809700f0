"""Lowering: a group of fused lines made into a kernel with its operands.

`fuse.py` decides which lines belong together; here their operands are found and numbered, and
`pattern.py` makes a kernel of what is left, once for all groups that do the same.
`contraction_layout.py` does the same for contractions, `ordered_uses.py` for scatters, scans and
sorts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from contraflow.compiler.folds import may_return
from contraflow.compiler.kernel import READS, WRITES, KernelCall, LaneCosts
from contraflow.compiler.narrow_layouts import rearranged_view
from contraflow.compiler.pattern import (
    ArrayOperand,
    Lowered,
    Made,
    NumberOperand,
    Pattern,
    PatternLine,
    StoredResult,
    axes_of,
    lower_copy,
    lower_pattern,
    reading,
    reduced_dims,
    spread,
)
from contraflow.compiler.tape import Tape, TapeLine, Value
from contraflow.dtypes import DType, bool_, float64, get_default_dtype, int64
from contraflow.expressions.expression import Size
from contraflow.shapes import Shape, View, contiguous, numel
from contraflow.spec import Spec

Access = tuple[Value, View]

_new = tuple.__new__  # of a named tuple, as its class does it, which takes twice as long


class OperandPlace(NamedTuple):
    """The binding of a kernel operand: elements of a value from an offset on, or a scalar."""

    value: Value | bool | int | float | None
    offset: int = 0


@dataclass(eq=False, repr=False)
class KernelUse:
    """A kernel with what its operands are bound to, and the tape line that errors are blamed on.

    `does` holds the numbers of the tape lines whose work it does, that which names it first.
    """

    call: KernelCall
    places: tuple[OperandPlace, ...]
    line: int
    # For a store into part of a value: the value whose elements fill the rest.
    rest: Value | None = None
    does: tuple[int, ...] = ()
    loads: set[Value] = field(init=False)  # the values whose elements the kernel reads
    reads: set[Value] = field(init=False)  # the values the step needs
    writes: set[Value] = field(init=False)  # the values it makes

    def __post_init__(self) -> None:
        self.loads, self.writes = set(), set()
        for operand, place in zip(self.call.kernel.operands, self.places):
            if isinstance(place.value, Value):
                if operand.mode in READS:
                    self.loads.add(place.value)
                if operand.mode in WRITES:
                    self.writes.add(place.value)
        self.reads = self.loads if self.rest is None else {*self.loads, self.rest}
        self.does = self.does or (self.line,)

    @property
    def may_fail(self) -> bool:
        """Whether it may raise: one that checks indices does."""
        return self.call.kernel.checks_indices


@dataclass(eq=False, repr=False)
class HostUse:
    """A line that runs on the host, with the views of the values it reads."""

    line: int
    tape_line: TapeLine
    inputs: tuple[Any, ...]  # an Access per tensor, and literals
    may_fail = True  # as Python may

    @property
    def reads(self) -> set[Value]:
        """The values it reads."""
        return {x[0] for x in self.inputs if is_access(x)}

    @property
    def writes(self) -> set[Value]:
        """The values it makes."""
        return set(self.tape_line.outs)


Use = KernelUse | HostUse
Fused = list[Use]


def is_access(x: Any) -> bool:
    """Whether an operand is a value in memory under a view (a literal or host value is not)."""
    return type(x) is tuple


class Visit(NamedTuple):
    """A line of a map or a reduction, by its number first: visits sort as lines do."""

    number: int
    line: TapeLine
    shape: Shape  # the points it visits: its result's, or those it reduces
    operands: tuple[Any, ...]  # as `TapeScope.access` finds them
    reads: tuple[Access, ...]  # those of them that are values in memory
    reduced: frozenset[int] | None  # the dims it reduces, if it does
    may_fail: bool = False  # whether it may check something, so that failures are recorded


class TapeScope:
    """A tape as lowering sees it: how each operand is found."""

    def __init__(self, tape: Tape, host: set[Value]) -> None:
        self.tape, self.host = tape, host
        self.views: dict[Value, Access] = {}  # strided lines, folded into their reads
        self.fills: dict[Value, Any] = {}  # values that are one number throughout
        self.layouts: dict[Value, View] = {}  # of values that are not row-major
        self.narrow = False  # whether int64 has 32 bits
        self.costs = LaneCosts()  # of the device
        self.trusted = _trusted(tape)  # lines whose indices others have checked before
        self._found: dict[Value, Any] = {}

    def access(self, x: Any) -> Any:
        """The Access of a tensor operand; literals, fills and host values come as scalars."""
        if not isinstance(x, Value):
            return x
        found = self._found.get(x)
        if found is None:
            value, view = self.located(x)
            # Any view of a host scalar shows that one number.
            found = value if value in self.host else self.fills.get(value, (value, view))
            self._found[x] = found
        return found

    def located(self, x: Value) -> Access:
        """The value in whose memory a tensor operand lies, if it lies in any, and its view."""
        return self.views.get(x) or (x, self.layout(x))

    def layout(self, v: Value) -> View:
        """How the elements of a value lie in its own memory."""
        return self.layouts.get(v) or contiguous(self.tape.specs[v].shape)

    def view(self, v: Value, view: View) -> View:
        """A view of a row-major value, for one that may lie in another order."""
        if v not in self.layouts:
            return view
        found = rearranged_view(view, self.tape.specs[v].shape, self.layouts[v])
        assert found is not None, "it would not have been laid out so"
        return found

    def visit(self, number: int) -> Visit:
        """A line of a map or a reduction, and where it goes."""
        line = self.tape.lines[number]
        operands = tuple(map(self.access, line.inputs))
        reads = tuple(filter(is_access, operands))
        first = line.inputs[0] if line.inputs else None
        if line.op.kind.lowering == "reduce" and isinstance(first, Value):
            shape = self.tape.specs[first].shape
            dims = reduced_dims(line.op, line.params, len(shape))
        else:
            shape, dims = self.tape.specs[line.outs[0]].shape, None
        may_fail = self._may_fail(line)
        return _new(Visit, (number, line, shape, operands, reads, dims, may_fail))

    def _may_fail(self, line: TapeLine) -> bool:
        if line.op.kind.indexes or line.op.fails is not None:
            return True
        return self.narrow and any(self.tape.specs[v].dtype is int64 for v in line.outs)


def _trusted(tape: Tape) -> set[int]:
    """Lines whose indices an earlier line has compared with the same ranges, none of them empty."""
    found, known = set(), set()
    for number, line in enumerate(tape.lines):
        if line.op.bound is None:
            continue
        name, bound = line.op.bound
        indices = line.inputs[line.op.inputs.index(name)]
        checked = (indices, bound(*tape.given(line.inputs), **line.params))
        if checked in known and all(checked[1]):
            found.add(number)
        known.add(checked)
    return found


@dataclass(eq=False, repr=False)
class Group:
    """A kernel being gathered: lines that visit the same points."""

    domain: Shape
    region: int = 0
    inner: frozenset[int] = frozenset()  # dims of the domain that are reduced over
    visits: list[Visit] = field(default_factory=list)
    indexes: bool = False  # whether a line reads at positions of its own
    may_fail: bool = False  # whether a line may check something
    reductions: int = 0  # how many of the lines reduce
    # For each value made here: the strides, over the domain's axes, it would be stored with.
    made: dict[Value, Shape] = field(default_factory=dict)
    reads: set[Value] = field(default_factory=set)
    kept: set[Value] = field(default_factory=set)  # made here, and read from memory only

    def axes(self, shape: Shape) -> tuple[int, ...] | None:
        """The domain axis of each dim of a value of this shape, None if it does not fit."""
        return axes_of(self.domain, self.inner, shape)

    def reading(self, shape: Shape, view: View) -> Shape:
        """The strides over the domain with which a line of this shape reads under a view."""
        return reading(self.domain, self.inner, shape, view.shape, view.strides)

    def folds(self, value: Value) -> bool:
        """Whether a value made here has one element for all points that are reduced."""
        strides = self.made[value]
        return not any(strides[d] for d in self.inner)

    def may_return(self) -> bool:
        """Whether a line may visit the points that are reduced once more, with the results."""
        points = numel(self.domain[d] for d in self.inner)
        return may_return(numel(self.domain) // max(points, 1), points)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The lines by number, that which names the kernel first: the last that reduces, or else
        the last."""
        found = [visit.number for visit in self.visits]
        reducing = [visit.number for visit in self.visits if visit.reduced is not None]
        naming = (reducing or found)[-1]
        return (naming, *(number for number in found if number != naming))

    def storing(self, visit: Visit, layout: View) -> Shape:
        """The strides over the domain with which a result of a line would be stored."""
        if visit.reduced is None:
            return self.reading(layout.shape, layout)
        gone = frozenset() if visit.line.params["keepdim"] else visit.reduced
        axes = [d for d in range(len(self.domain)) if d not in gone]
        return spread(len(self.domain), axes, layout.strides, layout.shape)


# --- groups and stores -------------------------------------------------------------------------


def lower_group(scope: TapeScope, group: Group, wanted: set[Value]) -> list[KernelUse]:
    """The kernels of a group, none if no result of it is used."""
    if wanted.isdisjoint(group.made):
        return []
    naming, lines = Naming(scope), []
    for visit in group.visits:
        line = visit.line
        operands = tuple(map(naming.found, visit.operands))
        params, given = tuple(line.params.items()), tuple(scope.tape.given(line.inputs))
        first = line.outs[0]
        layout = group.made[first]
        if first in scope.layouts:  # elements are numbered in row-major order all the same
            layout = group.storing(visit, contiguous(scope.tape.specs[first].shape))
        lines.append(_new(PatternLine, (line.op, params, operands, given, visit.shape, layout)))
        naming.make(line.outs)
    results = tuple(
        StoredResult(number, naming.target(v, 0), group.made[v])
        for v, number in naming.made.items()
        if v in wanted
    )
    dtypes = tuple(naming.dtypes)
    pattern = Pattern(
        group.domain, group.inner, tuple(lines), dtypes, results, get_default_dtype(),
        scope.narrow, scope.costs,
    )  # fmt: skip
    kernels, partials = lower_pattern(pattern)
    for elements, dtype in partials:
        naming.target(scope.tape.new(Spec((elements,), dtype)), 0)
    does = group.numbers
    checks = [does[0] if x.checks is None else group.visits[x.checks].number for x in kernels]
    return [naming.use(x, number, does=does) for x, number in zip(kernels, checks)]


def lower_store(
    scope: TapeScope, source: Any, target: Value, region: View, line: int, rest: Value | None = None
) -> KernelUse:
    """A kernel that stores elements (an Access or a scalar) into a region of a new value."""
    naming = Naming(scope)
    operand = naming.found(source)
    naming.target(target, region.offset)
    assert not isinstance(operand, Made)
    dtypes = tuple(naming.dtypes)
    lowered = lower_copy(operand, region._replace(offset=0), dtypes, scope.narrow, scope.costs)
    return naming.use(lowered, line, rest)


class Naming:
    """The numbers that the operands and results of a group have in its pattern."""

    def __init__(self, scope: TapeScope) -> None:
        self.scope, self.specs = scope, scope.tape.specs
        self.places: list[OperandPlace] = []
        self.dtypes: list[DType] = []
        self.made: dict[Value, int] = {}
        self._read: dict[OperandPlace, int] = {}

    def _argument(self, place: OperandPlace, dtype: DType) -> int:
        self.places.append(place)
        self.dtypes.append(dtype)
        return len(self.places) - 1

    def operand(self, x: Any) -> ArrayOperand | NumberOperand | Made:
        """An operand of a line."""
        return self.found(self.scope.access(x))

    def found(self, x: Any) -> ArrayOperand | NumberOperand | Made:
        """An Access, a literal or a host value."""
        if not is_access(x):
            dtype = self.specs[x].dtype if isinstance(x, Value) else _number_dtype(x)
            argument = self._argument(_new(OperandPlace, (x, 0)), dtype)
            return _new(NumberOperand, (argument, dtype))
        value, (shape, strides, offset) = x
        if value in self.made:
            return _new(Made, (self.made[value],))
        place = _new(OperandPlace, (value, offset))
        if place not in self._read:
            self._read[place] = self._argument(place, self.specs[value].dtype)
        return _new(ArrayOperand, (self._read[place], shape, strides))

    def make(self, outs: Sequence[Value]) -> None:
        """A line's results."""
        for v in outs:
            self.made[v] = len(self.made)

    def target(self, v: Value, offset: int) -> int:
        """A value to store to, from an offset on."""
        return self._argument(_new(OperandPlace, (v, offset)), self.specs[v].dtype)

    def use(
        self, lowered: Lowered, line: int, rest: Value | None = None, does: tuple[int, ...] = ()
    ) -> KernelUse:
        """A kernel with the values that its operand numbers stand for."""
        places = tuple([
            OperandPlace(None)
            if x is None
            else OperandPlace(int(x))
            if isinstance(x, Size)
            else self.places[x]
            for x in lowered.bindings
        ])  # fmt: skip
        return KernelUse(lowered.call, places, line, rest, does)


def _number_dtype(x: bool | int | float) -> DType:
    if isinstance(x, bool):
        return bool_
    return int64 if isinstance(x, int) else float64
