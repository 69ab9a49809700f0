"""Lowering: a group of fused lines, or a contraction, made into a kernel with its operands.

`fuse.py` decides which lines belong together; here their operands are found and numbered, and
`pattern.py` makes a kernel of what is left, once for all groups that do the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from contraflow import thresholds
from contraflow.compiler.folds import may_return
from contraflow.compiler.kernel import READS, WRITES, KernelCall, contraction
from contraflow.compiler.narrow_layouts import rearranged_view
from contraflow.compiler.ordered import (
    ScanPattern,
    ScatterPattern,
    SortPattern,
    lower_scan,
    lower_scatter,
    lower_sort,
)
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
from contraflow.expressions.expression import Size, leaf
from contraflow.operation.kinds import Scattering, Sorting
from contraflow.shapes import Shape, View, contiguous, contiguous_strides, numel
from contraflow.spec import Spec

Access = tuple[Value, View]


class OperandPlace(NamedTuple):
    """What a kernel operand is bound to: elements of a value from an offset on, or a scalar."""

    value: Value | bool | int | float | None
    offset: int = 0


@dataclass(eq=False, repr=False)
class KernelUse:
    """A kernel with what its operands are bound to, and the tape line that errors are blamed on."""

    call: KernelCall
    places: tuple[OperandPlace, ...]
    line: int
    # For a store into part of a value: the value whose elements fill the rest.
    rest: Value | None = None
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
    """A line of a map or a reduction."""

    line: TapeLine
    shape: Shape  # the points it visits: its result's, or those it reduces
    operands: tuple[Any, ...]  # as `TapeScope.access` finds them
    reads: tuple[Access, ...]  # those of them that are values in memory
    reduced: frozenset[int] | None  # the dims it reduces, if it does


class TapeScope:
    """What lowering knows of a tape: how each operand is found."""

    def __init__(self, tape: Tape, host: set[Value]) -> None:
        self.tape, self.host = tape, host
        self.views: dict[Value, Access] = {}  # strided lines, folded into their reads
        self.fills: dict[Value, Any] = {}  # values that are one number throughout
        self.layouts: dict[Value, View] = {}  # of values that are not row-major
        self._found: dict[Value, Any] = {}
        self._visits: dict[int, Visit] = {}

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
        found = self._visits.get(number)
        if found is None:
            line = self.tape.lines[number]
            operands = tuple(map(self.access, line.inputs))
            reads = tuple(filter(is_access, operands))
            first = line.inputs[0] if line.inputs else None
            if line.op.kind.lowering == "reduce" and isinstance(first, Value):
                shape = self.tape.specs[first].shape
                dims = reduced_dims(line.op, line.params, len(shape))
                found = Visit(line, shape, operands, reads, dims)
            else:
                found = Visit(line, self.tape.specs[line.outs[0]].shape, operands, reads, None)
            self._visits[number] = found
        return found


@dataclass(eq=False, repr=False)
class Group:
    """A kernel being gathered: lines that visit the same points."""

    domain: Shape
    region: int = 0
    inner: frozenset[int] = frozenset()  # dims of the domain that are reduced over
    lines: list[int] = field(default_factory=list)
    # For each value made here: the strides, over the domain's axes, it would be stored with.
    made: dict[Value, Shape] = field(default_factory=dict)
    reads: set[Value] = field(default_factory=set)

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

    def storing(self, visit: Visit, layout: View) -> Shape:
        """The strides over the domain with which a result of a line would be stored."""
        if visit.reduced is None:
            return self.reading(layout.shape, layout)
        gone = frozenset() if visit.line.params["keepdim"] else visit.reduced
        axes = [d for d in range(len(self.domain)) if d not in gone]
        return spread(len(self.domain), axes, layout.strides, layout.shape)


# --- groups and stores -------------------------------------------------------------------------


def lower_group(scope: TapeScope, group: Group, wanted: set[Value]) -> list[KernelUse]:
    """The kernels of a group, none if nobody wants anything of it."""
    if wanted.isdisjoint(group.made):
        return []
    naming, lines = _Naming(scope), []
    for number in group.lines:
        visit = scope.visit(number)
        line = visit.line
        operands = tuple(map(naming.found, visit.operands))
        params, given = tuple(line.params.items()), tuple(scope.tape.given(line.inputs))
        first = line.outs[0]
        layout = group.made[first]
        if first in scope.layouts:  # elements are numbered in row-major order all the same
            layout = group.storing(visit, contiguous(scope.tape.specs[first].shape))
        lines.append(PatternLine(line.op, params, operands, given, visit.shape, layout))
        naming.make(line.outs)
    results = tuple(
        StoredResult(number, naming.target(v, 0), group.made[v])
        for v, number in naming.made.items()
        if v in wanted
    )
    dtypes = tuple(naming.dtypes)
    pattern = Pattern(group.domain, group.inner, tuple(lines), dtypes, results, get_default_dtype())
    kernels, partials = lower_pattern(pattern)
    for elements, dtype in partials:
        naming.target(scope.tape.new(Spec((elements,), dtype)), 0)
    return [naming.use(x, 0 if x.checks is None else group.lines[x.checks]) for x in kernels]


def lower_store(
    scope: TapeScope, source: Any, target: Value, region: View, line: int, rest: Value | None = None
) -> KernelUse:
    """A kernel that stores elements (an Access or a scalar) into a region of a new value."""
    naming = _Naming(scope)
    operand = naming.found(source)
    naming.target(target, region.offset)
    assert not isinstance(operand, Made)
    lowered = lower_copy(operand, region._replace(offset=0), tuple(naming.dtypes))
    return naming.use(lowered, line, rest)


def lower_scattering(
    scope: TapeScope, number: int, line: TapeLine, target: Value, rest: Value, sweep: int
) -> KernelUse:
    """The kernel for a sweep of a line that scatters values into a copy of `rest`."""
    naming = _Naming(scope)
    operands = tuple(map(naming.operand, line.inputs))
    given = tuple(scope.tape.given(line.inputs))
    assert isinstance(line.op.kind, Scattering)
    points = line.op.kind.domain(line.op, given)
    described = PatternLine(line.op, tuple(line.params.items()), operands, given, points, ())
    argument, shape = naming.target(target, 0), scope.tape.specs[target].shape
    dtypes = tuple(naming.dtypes)
    lowered = lower_scatter(ScatterPattern(described, dtypes, argument, shape, sweep))
    return naming.use(lowered, number, rest)


def lower_scanning(
    scope: TapeScope, number: int, line: TapeLine, carried: DType | None
) -> KernelUse:
    """The kernel for a running fold; one from the end walks over everything backwards."""
    walk = _Walk(scope, line, line.params.get("reverse", False))
    results = tuple(StoredResult(i, *walk.target(v)) for i, v in enumerate(line.outs))
    dtypes = tuple(walk.naming.dtypes)
    lowered = lower_scan(ScanPattern(walk.line, dtypes, line.params["dim"], results, carried))
    return walk.naming.use(lowered, number)


def lower_sorting(scope: TapeScope, number: int, line: TapeLine) -> KernelUse:
    """The kernel for the positions in order; every area of its scratch serves one share."""
    walk, dim = _Walk(scope, line, False), line.params["dim"]
    shape, (given,) = walk.line.shape, walk.line.given
    assert isinstance(line.op.kind, Sorting) and isinstance(given, Spec)
    areas = max(1, min(numel(shape[:dim] + shape[dim + 1 :]), thresholds.sort_areas))
    argument, strides = walk.target(line.outs[0])
    key = line.op.kind.key(line.op, leaf("input", given.dtype.compute, 0), line.params)
    words = 4 * key.dtype.itemsize // int64.itemsize  # two keys and two positions
    scratch = scope.tape.new(Spec((areas * words * shape[dim],), int64))
    room, dtypes = walk.naming.target(scratch, 0), tuple(walk.naming.dtypes)
    wanted = (scope.tape.specs[line.outs[0]].shape or (1,))[dim]
    pattern = SortPattern(walk.line, dtypes, dim, argument, strides, room, areas, wanted)
    return walk.naming.use(lower_sort(pattern), number)


class _Walk:
    """A line whose operands are walked along one dim, from its end if `reverse`."""

    def __init__(self, scope: TapeScope, line: TapeLine, reverse: bool) -> None:
        self.naming, self.specs = _Naming(scope), scope.tape.specs
        self.dim, self.reverse = line.params["dim"], reverse
        operands = []
        for x in line.inputs:
            found = scope.access(x)
            if is_access(found):
                found = (found[0], self._seen(found[1]))
            operands.append(self.naming.found(found))
        given, params = tuple(scope.tape.given(line.inputs)), tuple(line.params.items())
        assert isinstance(given[0], Spec)
        self.line = PatternLine(line.op, params, tuple(operands), given, given[0].shape or (1,), ())

    def _seen(self, view: View) -> View:
        if not view.shape:  # a number is a line of one
            view = View((1,), (1,), view.offset)
        return _reversed(view, self.dim) if self.reverse else view

    def target(self, v: Value) -> tuple[int, Shape]:
        """The argument for a result, and its strides."""
        room = self._seen(contiguous(self.specs[v].shape))
        return self.naming.target(v, room.offset), room.strides


def _reversed(view: View, dim: int) -> View:
    """The same elements with a dim from its end."""
    stride, strides = view.strides[dim], list(view.strides)
    strides[dim] = -stride
    return View(view.shape, tuple(strides), view.offset + max(view.shape[dim] - 1, 0) * stride)


class _Naming:
    """The numbers that the operands and results of a group have in its pattern."""

    def __init__(self, scope: TapeScope) -> None:
        self.scope, self.specs = scope, scope.tape.specs
        self.places: list[OperandPlace] = []
        self.dtypes: list[DType] = []
        self.made: dict[Value, int] = {}
        self._read: dict[tuple[Value, int], int] = {}

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
            return NumberOperand(self._argument(OperandPlace(x), dtype), dtype)
        value, (shape, strides, offset) = x
        if value in self.made:
            return Made(self.made[value])
        argument = self._read.get((value, offset))
        if argument is None:
            argument = self._argument(OperandPlace(value, offset), self.specs[value].dtype)
            self._read[value, offset] = argument
        return ArrayOperand(argument, shape, strides)

    def make(self, outs: Sequence[Value]) -> None:
        """A line's results."""
        for v in outs:
            self.made[v] = len(self.made)

    def target(self, v: Value, offset: int) -> int:
        """A value to store to, from an offset on."""
        return self._argument(OperandPlace(v, offset), self.specs[v].dtype)

    def use(self, lowered: Lowered, line: int, rest: Value | None = None) -> KernelUse:
        """A kernel with what is behind the numbers."""
        places = tuple(
            OperandPlace(None)
            if x is None
            else OperandPlace(int(x))
            if isinstance(x, Size)
            else self.places[x]
            for x in lowered.bindings
        )
        return KernelUse(lowered.call, places, line, rest)


def _number_dtype(x: bool | int | float) -> DType:
    if isinstance(x, bool):
        return bool_
    return int64 if isinstance(x, int) else float64


# --- contractions ------------------------------------------------------------------------------


Groups = tuple[list[str], list[str], list[str], list[str]]  # labels of g, b, m and n


class Target(NamedTuple):
    """Where a product is written: from a place on, with a stride per dim, beside the rest."""

    place: OperandPlace
    strides: Shape
    rest: Value | None = None


class _ProductSides(NamedTuple):
    """A and B with their labels, the ways to group the dims of C, and its strides by label."""

    a: tuple[Any, str]
    b: tuple[Any, str]
    groups: list[Groups]
    strides: dict[str, int]


class ContractionLayout:
    """A labelled contraction laid out as C[g, b, m, n] = sum over k of A[g, b, m, k] B[g, b, k, n].

    `labels` are those of a, b and the result. `copy(x, dtype, dims)` gives a contiguous copy of an
    operand with dims (number, size), -1 for one that repeats it; it is asked for where the dims of
    a group do not lie evenly. With `windows` the kernel reads B through several strides instead, as
    overlapping windows need it.
    """

    def __init__(
        self,
        scope: TapeScope,
        line: TapeLine,
        labels: tuple[str, str, str],
        copy: Callable[..., Value],
        windows: bool,
    ) -> None:
        self.scope, self.line, self.labels = scope, line, labels
        self.copy, self.windows = copy, windows
        (result,), specs = line.outs, scope.tape.specs
        self.dtype = specs[result].dtype
        self.plain = Target(OperandPlace(result), scope.layout(result).strides)
        self.sizes: dict[str, int] = {}
        for letters, x in zip(labels, line.inputs):
            assert isinstance(x, Value)
            self.sizes.update(zip(letters, specs[x].shape))

    def suits(self, strides: Shape) -> bool:
        """Whether the product may as well be written with these strides along its dims: by products
        of the same matrices, or their transposes, whose rows are dense."""
        sides, plain = self._sides(strides), self._sides(self.plain.strides)
        if not sides.groups:
            return False
        found, wanted = sides.groups[0][2:], plain.groups[0][2:]
        alike = found in (wanted, wanted[::-1])
        return alike and self._even(found[1:], sides.strides) in ((0,), (1,))

    def lower(self, number: int, target: Target | None = None) -> KernelUse:
        """The kernel, which writes to the result or to a target that suits."""
        target = target or self.plain
        (a, left), (b, right), groups, strides = self._sides(target.strides)
        *batch, rows, columns = min(groups, key=lambda found: self._copies(found[:2]))
        depth = [c for c in left if c in right and c not in strides and c != "_"]
        outer, inner = self._halves(a, left, (*batch, rows, depth))
        window = self._window(b, right, (*batch, outer, inner, columns)) if self.windows else None
        if window is not None:
            place_a, strides_a = self._operand(a, left, (*batch, rows, outer, inner))
            place_b, strides_b, sizes, digits = window
            sizes = (*map(self._count, (*batch, rows)), *sizes)
        else:
            place_a, strides_a = self._operand(a, left, (*batch, rows, depth))
            place_b, strides_b = self._operand(b, right, (*batch, depth, columns))
            sizes, digits = tuple(map(self._count, (*batch, rows, columns, depth))), None
        kernel = contraction(self.dtype, self.dtype.compute, digits)
        strides_c = self._even((*batch, rows, columns), strides)
        assert strides_c is not None
        call = KernelCall(kernel, sizes, (strides_a, strides_b, strides_c))
        return KernelUse(call, (place_a, place_b, target.place), number, target.rest)

    def _sides(self, steps: Shape) -> _ProductSides:
        """A and B for a C with these strides: the dim along which it is dense is one of B's."""
        (left, right, out), (a, b) = self.labels, self.line.inputs
        strides = dict(zip(out, steps))
        out = "".join(sorted(out, key=lambda c: -strides[c]))
        if out and out[-1] in left and out[-1] not in right:
            a, b, left, right = b, a, right, left
        return _ProductSides(
            (a, left), (b, right), self._groups(left, right, out, strides), strides
        )

    def _copies(self, batch: Sequence[Sequence[str]]) -> int:
        """How many of the operands have to be copied for the way in which a batch is grouped."""
        found = (self._steps(x, labels) for x, labels in zip(self.line.inputs, self.labels))
        return sum(self._even(batch, strides) is None for strides in found)

    def _steps(self, x: Any, labels: str) -> dict[str, int]:
        """The strides of an operand, or those of a copy of it that has its dims."""
        found = self._in_place(x)
        shape = self.scope.tape.specs[x].shape
        return dict(zip(labels, found[1].strides if found else contiguous_strides(shape)))

    def _count(self, labels: Sequence[str]) -> int:
        return numel(self.sizes[c] for c in labels)

    def _halves(
        self, x: Any, labels: str, groups: Sequence[list[str]]
    ) -> tuple[list[str], list[str]]:
        """The dims of k that A needs a stride of their own for, and those that lie evenly there.

        Where the latter are few it is cheaper to copy A than to cut the sum into many short ones.
        """
        *lead, depth = groups
        found = self._in_place(x)
        strides = dict(zip(labels, found[1].strides)) if found else {}
        for split in range(len(depth) if found else 0):
            outer, inner = depth[:split], depth[split:]
            if self._even((*lead, outer, inner), strides) is not None:
                long = self._count(inner) >= thresholds.long_inner_sum
                return (outer, inner) if long else ([], depth)
        return [], depth

    def _window(
        self, x: Any, labels: str, groups: Sequence[list[str]]
    ) -> tuple[OperandPlace, Shape, Shape, tuple[int, int]] | None:
        """B, its strides, the sizes of o, k and n, and the digits, for a read through several
        strides; None where one per group will do, or B must be copied for its other dims."""
        *batch, outer, inner, columns = groups
        found = self._in_place(x)
        if found is None:
            return None
        value, view = found
        strides = dict(zip(labels, view.strides))
        lead = self._even((*batch, outer), strides)
        if lead is None or (not outer and self._even((inner, columns), strides) is not None):
            return None
        depths, places = self._digits(inner, strides), self._digits(columns, strides)
        sizes, steps = zip(*depths, *places)
        digits = (len(depths), len(places))
        return (
            OperandPlace(value, view.offset),
            (*lead, *steps),
            (self._count(outer), *sizes),
            digits,
        )

    def _digits(self, labels: Sequence[str], strides: dict[str, int]) -> list[tuple[int, int]]:
        """Dims as (size, stride), even neighbours merged; at least one."""
        result: list[tuple[int, int]] = []
        for c in labels:
            size, stride = self.sizes[c], strides.get(c, 0)
            if size == 1:
                continue
            if result and result[-1][1] == stride * size:
                size *= result.pop()[0]
            result.append((size, stride))
        return result or [(1, 0)]

    def _groups(self, left: str, right: str, out: str, strides: dict[str, int]) -> list[Groups]:
        """The ways to make groups g, b, m and n of the dims of C, which come in memory's order.

        Leading dims act as a batch until what follows is all of m, then all of n, evenly.
        """
        both = {c for c in out if c in left and c in right}
        order = [c for c in out if c not in both]
        for lead in range(len(order) + 1):
            batch = [c for c in out if c in both or c in order[:lead]]
            rows = [c for c in order[lead:] if c in left]
            columns = [c for c in order[lead:] if c in right]
            ways = [(batch[:i], batch[i:], rows, columns) for i in range(len(batch) + 1)]
            even = [groups for groups in ways if self._even(groups, strides) is not None]
            if even and order[lead:] == rows + columns:
                return even
        return []

    def _even(
        self, groups: Sequence[Sequence[str]], strides: dict[str, int]
    ) -> tuple[int, ...] | None:
        """One stride per group that walks over its dims in order, None if a group has none."""
        result = []
        for labels in groups:
            merged, extent = 0, 1
            for c in reversed(labels):
                if self.sizes[c] == 1:
                    continue
                stride = strides.get(c, 0)
                if extent == 1:
                    merged = stride
                elif extent and stride != merged * extent:  # over no elements any stride walks
                    return None
                extent *= self.sizes[c]
            result.append(merged)
        return tuple(result)

    def _in_place(self, x: Any) -> Access | None:
        """The memory an operand lies in, None where it has to be made."""
        found = self.scope.access(x)
        here = is_access(found) and self.scope.tape.specs[x].dtype is self.dtype
        return found if here else None

    def _nearest_last(
        self, found: Any, labels: str, groups: Sequence[Sequence[str]]
    ) -> list[Sequence[str]]:
        """Groups in the order in which a copy reads longest runs: windows lie side by side along
        their taps and along their places, and there are more places."""
        if not is_access(found):
            return list(groups)
        strides = dict(zip(labels, found[1].strides))

        def distance(group: Sequence[str]) -> tuple[float, int]:
            inner = [c for c in group if self.sizes[c] != 1 and c in labels][-1:]
            return (strides[inner[0]], -self.sizes[inner[0]]) if inner else (math.inf, 0)

        return sorted(groups, key=distance, reverse=True)

    def _operand(
        self, x: Any, labels: str, groups: Sequence[Sequence[str]]
    ) -> tuple[OperandPlace, tuple[int, ...]]:
        in_place = self._in_place(x)
        if in_place is not None:
            value, view = in_place
            strides = self._even(groups, dict(zip(labels, view.strides)))
            if strides is not None:
                return OperandPlace(value, view.offset), strides
        # Dims of a batch that repeat the operand are copied beside some that walk over it.
        batch = [c for g in groups[:2] if not set(labels).isdisjoint(g) for c in g]
        order = self._nearest_last(self.scope.access(x), labels, groups[2:])
        wanted = batch + [c for g in order for c in g if c in labels]
        copy = self.copy(x, self.dtype, [(labels.find(c), self.sizes[c]) for c in wanted])
        shape = self.scope.tape.specs[copy].shape
        strides = self._even(groups, dict(zip(wanted, contiguous_strides(shape))))
        assert strides is not None
        return OperandPlace(copy), strides
