"""Lowering: a group of fused lines, or a contraction, made into a kernel with its operands.

`fuse.py` decides which lines belong together; here they become expressions, operands, reductions
and stores, with axes dropped and merged, so that one kernel serves every size of a pattern.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from contraflow import scalar as s
from contraflow.dtypes import DType, bool_, float64, int64
from contraflow.kernel import STRIDED, Call, Contraction, Loops, Operand, Reduction, Store
from contraflow.kinds import Reduction as ReductionKind
from contraflow.scalar import Expr
from contraflow.shapes import (
    Shape,
    View,
    broadcast_strides,
    contiguous,
    contiguous_strides,
    normalize_dims,
    numel,
)
from contraflow.spec import Spec
from contraflow.tape import Tape, TapeLine, Value

Access = tuple[Value, View]


class Place(NamedTuple):
    """What a kernel operand is bound to: elements of a value from an offset on, or a scalar."""

    value: Value | bool | int | float | None
    offset: int = 0


@dataclass
class KernelUse:
    """A kernel with what its operands are bound to, and the tape line that errors are blamed on."""

    call: Call
    places: tuple[Place, ...]
    line: int
    # For a store into part of a value: the value whose elements fill the rest.
    rest: Value | None = None

    @property
    def loads(self) -> set[Value]:
        """The values whose elements the kernel reads."""
        return self._values(("in", "inout"))

    @property
    def reads(self) -> set[Value]:
        """The values the step needs."""
        return self.loads | ({self.rest} if self.rest is not None else set())

    @property
    def writes(self) -> set[Value]:
        """The values it makes."""
        return self._values(("out", "inout"))

    def _values(self, modes: tuple[str, ...]) -> set[Value]:
        return {
            p.value
            for o, p in zip(self.call.kernel.operands, self.places)
            if o.mode in modes and isinstance(p.value, Value)
        }


@dataclass
class HostUse:
    """A line that runs on the host, with the views of the values it reads."""

    line: int
    tape_line: TapeLine
    inputs: tuple[Any, ...]  # an Access per tensor, and literals

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
    return isinstance(x, tuple) and not isinstance(x, Value)


class Scope:
    """What lowering knows of a tape: how each operand is found."""

    def __init__(self, tape: Tape, host: set[Value]) -> None:
        self.tape, self.host = tape, host
        self.views: dict[Value, Access] = {}  # strided lines, folded into their reads
        self.fills: dict[Value, Any] = {}  # values that are one number throughout

    def access(self, x: Any) -> Any:
        """The Access of a tensor operand; literals, fills and host values come as scalars."""
        if not isinstance(x, Value):
            return x
        value, view = self.located(x)
        if value in self.host:
            return value  # any view of a host scalar shows that one number
        return self.fills.get(value, (value, view))

    def located(self, x: Value) -> Access:
        """The value in whose memory a tensor operand lies, if it lies in any, and its view."""
        return self.views.get(x) or (x, contiguous(self.tape.specs[x].shape))

    def accesses(self, line: TapeLine) -> Iterator[Access]:
        """The values in memory that a line reads."""
        return filter(is_access, map(self.access, line.inputs))

    def shape(self, line: TapeLine) -> Shape:
        """The points a line visits: its result's, or those it reduces."""
        first = line.inputs[0] if line.inputs else None
        reduces = line.op.kind.lowering == "reduce" and isinstance(first, Value)
        return self.tape.specs[first if reduces else line.outs[0]].shape  # type: ignore[index]

    def reduced(self, line: TapeLine) -> frozenset[int]:
        """The dims a reduction goes over."""
        return frozenset(normalize_dims(line.op.name, line.params["dim"], len(self.shape(line))))


@dataclass
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
        """The domain axis of each dim of a value of this shape, None if it does not fit.

        A value fits if it has the domain's shape, or that of a result reduced over `inner`.
        """
        if shape == self.domain:
            return tuple(range(len(shape)))
        if self.inner:
            if shape == tuple(1 if d in self.inner else n for d, n in enumerate(self.domain)):
                return tuple(range(len(shape)))
            outer = tuple(d for d in range(len(self.domain)) if d not in self.inner)
            if shape == tuple(self.domain[d] for d in outer):
                return outer
        return None

    def spread(self, axes: Sequence[int], strides: Shape, shape: Shape) -> Shape:
        """Strides of the dims of a value as strides over the domain; size-one dims have none."""
        result = [0] * len(self.domain)
        for axis, stride, n in zip(axes, strides, shape):
            result[axis] = stride if n != 1 else 0
        return tuple(result)

    def reading(self, shape: Shape, view: View) -> Shape:
        """The strides over the domain with which a line of this shape reads under a view."""
        axes = self.axes(shape)
        assert axes is not None
        return self.spread(axes, broadcast_strides(view.shape, view.strides, shape), shape)

    def storing(self, scope: Scope, line: TapeLine, v: Value) -> Shape:
        """The strides over the domain with which a result of a line would be stored."""
        shape = scope.tape.specs[v].shape
        axes: Sequence[int] | None = self.axes(shape)
        if line.op.kind.lowering == "reduce":
            gone = frozenset() if line.params["keepdim"] else scope.reduced(line)
            axes = [d for d in range(len(self.domain)) if d not in gone]
        assert axes is not None
        return self.spread(axes, contiguous_strides(shape), shape)


# --- entry points ------------------------------------------------------------------------------


def lower_group(scope: Scope, group: Group, wanted: set[Value]) -> KernelUse | None:
    """The kernel of a group, None if nobody wants anything of it."""
    builder = _Builder(scope, group)
    for number in group.lines:
        builder.add(number)
    builder.results = {v: e for v, e in builder.results.items() if v in wanted}
    return builder.finish() if builder.results else None


def lower_store(
    scope: Scope, source: Any, target: Value, region: View, line: int, rest: Value | None = None
) -> KernelUse:
    """A kernel that stores elements (an Access or a scalar) into a region of a new value."""
    builder = _Builder(scope, Group(region.shape, made={target: region.strides}), region.offset)
    builder.line = line
    dtype = scope.tape.specs[target].dtype.compute
    if is_access(source):
        value, view = source
        element = builder.load(value, view.strides, view.offset)
    else:
        element = builder.scalar(source, dtype)
    builder.results[target] = s.cast(element, dtype)
    use = builder.finish()
    use.rest = rest
    return use


class _Builder:
    """Makes a `Loops` kernel: operands, expressions, reductions, stores."""

    def __init__(self, scope: Scope, group: Group, offset: int = 0) -> None:
        self.scope, self.group, self.offset = scope, group, offset
        self.tape = scope.tape
        self.operands: list[tuple[DType, str, Shape]] = []  # strides are over the domain
        self.places: list[Place] = []
        self.results: dict[Value, Expr] = {}
        self.reductions: list[Reduction] = []
        self.line: int | None = None  # of the first op that checks an index
        self._numbers: dict[Any, int] = {}  # operands already there, by what they are

    # --- operands -------------------------------------------------------------------------

    def _operand(self, dtype: DType, mode: str, strides: Shape, place: Place) -> int:
        self.operands.append((dtype, mode, strides))
        self.places.append(place)
        return len(self.operands) - 1

    def load(self, value: Value, strides: Shape, offset: int, *args: Expr) -> Expr:
        """The element of a value in memory, at affine strides plus an offset expression."""
        dtype = self.tape.specs[value].dtype
        key = (value, strides, offset)
        if key not in self._numbers:
            self._numbers[key] = self._operand(dtype, "in", strides, Place(value, offset))
        return s.leaf("load", dtype, self._numbers[key], *args)

    def scalar(self, x: Any, dtype: DType) -> Expr:
        """A literal or host value as an argument of the kernel."""
        own = self.tape.specs[x].dtype if isinstance(x, Value) else _number_dtype(x)
        given = dtype if own.category == dtype.category else own.compute
        element = s.leaf("load", given, self._operand(given, "scalar", (), Place(x)))
        return s.cast(element, dtype)

    def position(self, strides: Shape) -> Expr:
        """The address in a contiguous array without the array: a counter."""
        key = ("position", strides)
        if key not in self._numbers:
            self._numbers[key] = self._operand(int64, "position", strides, Place(None))
        return s.leaf("load", int64, self._numbers[key])

    def operand(self, line: TapeLine, x: Any, cast: DType | None) -> Expr:
        """An operand of a line at the current point, in the dtype that arithmetic is done in."""
        found = self.scope.access(x)
        if not is_access(found):
            own = self.tape.specs[x].dtype if isinstance(x, Value) else _number_dtype(x)
            return self.scalar(found, (cast or own).compute)
        value, view = found
        element = self.results.get(value)
        if element is None:
            strides = self.group.reading(self.scope.shape(line), view)
            element = self.load(value, strides, view.offset)
        return s.cast(element, (cast or element.dtype).compute)

    # --- lines ----------------------------------------------------------------------------

    def add(self, number: int) -> None:
        """Add a line's results as expressions."""
        line = self.tape.lines[number]
        given = self.tape.given(line.inputs)
        casts, dtypes = line.op.types(given, line.params)
        if line.op.kind.lowering == "reduce":
            outs = self._fold(line, self.operand(line, line.inputs[0], casts[0]))
        elif line.op.kind.indexes:
            outs = self._index(line, given, casts)
            if self.line is None and any(e.fn == "checked" for e in s.walk(outs)):
                self.line = number
        else:
            inputs = [self.operand(line, x, c) for x, c in zip(line.inputs, casts)]
            outs = self._expression(line, given, inputs)
        for v, e, dtype in zip(line.outs, outs, dtypes):
            self.results[v] = s.cast(e, dtype.compute)

    def _expression(
        self, line: TapeLine, given: Sequence[Any], inputs: Sequence[Expr]
    ) -> tuple[Expr, ...]:
        """A body over its operands. It is built over placeholders first: what the operands are
        made of, which may be long, is not walked through again for every line."""
        leaves = [s.leaf("input", e.dtype, i) for i, e in enumerate(inputs)]
        outs = line.op.kind.expression(line.op, given, line.params, leaves)
        # The row-major number of an element is its address in a contiguous result.
        layout = self.group.storing(self.scope, line, line.outs[0])
        return self._with_positions(outs, "linear", layout, inputs)

    def _with_positions(
        self, roots: Sequence[Expr], name: str, strides: Shape, inputs: Sequence[Expr]
    ) -> tuple[Expr, ...]:
        """Put operands in the place of their leaves, and an address in that of a counter."""

        def replace(e: Expr) -> Expr | None:
            if e.fn == "input":
                operand: Expr = inputs[e.data]
                return operand
            return self.position(strides) if e.fn == "axis" and e.data == name else None

        return tuple(s.rewrite(roots, replace))

    def _fold(self, line: TapeLine, x: Expr) -> tuple[Expr, ...]:
        kind = line.op.kind
        assert isinstance(kind, ReductionKind)
        values, combine, identity = kind.fold(line.op, s.leaf("input", x.dtype, 0))
        dims = self.scope.reduced(line)
        within = tuple(n if d in dims else 1 for d, n in enumerate(self.group.domain))
        axes = range(len(within))
        counting = self.group.spread(axes, contiguous_strides(within), within)
        values = self._with_positions(values, "reduced", counting, [x])
        if not dims:  # over no dims: the element itself
            return values
        self.reductions.append(Reduction(values, combine, identity))
        number = len(self.reductions) - 1
        return tuple(s.leaf("reduced", v.dtype, (number, i)) for i, v in enumerate(values))

    def _index(
        self, line: TapeLine, given: Sequence[Any], casts: Sequence[DType | None]
    ) -> tuple[Expr, ...]:
        """An index op's body, with each `read` turned into a load at a computed address."""
        first = next(g.dtype for g in given if isinstance(g, Spec))
        sources = [
            None if isinstance(g, Spec) else self.operand(line, x, c or first)
            for g, x, c in zip(given, line.inputs, casts)
        ]
        outs = line.op.kind.expression(line.op, given, line.params, sources)
        axes = self.group.axes(self.scope.shape(line))
        assert axes is not None

        def lower(e: Expr) -> Expr | None:
            if e.fn == "axis":
                # Along a single point there is no loop whose coordinate this could be.
                point = self.group.domain[axes[e.data]] == 1
                return s.const(0, int64) if point else s.axis(axes[e.data])
            return self._read(line.inputs[e.data], e.args) if e.fn == "read" else None

        return tuple(s.rewrite(outs, lower))

    def _read(self, x: Any, args: Sequence[Expr]) -> Expr:
        found = self.scope.access(x)
        if not is_access(found):
            return self.scalar(found, self.tape.specs[x].dtype.compute)
        value, view = found
        rank = len(view.shape)
        strides = [0] * len(self.group.domain)
        offset: Expr | None = None
        for coordinate, stride in zip(args[:rank], view.strides):
            axes, rest = _affine(coordinate)
            for axis in axes:
                strides[axis] += stride
            if not (rest.fn == "const" and rest.data == 0):
                term = rest * s.const(s.Size(stride), int64)
                offset = term if offset is None else offset + term
        valid = args[rank:]
        if offset is None and valid:
            offset = s.const(0, int64)
        extra = () if offset is None else (offset, *valid)
        element = self.load(value, tuple(strides), view.offset, *extra)
        return s.cast(element, element.dtype.compute)

    # --- the kernel -----------------------------------------------------------------------

    def finish(self) -> KernelUse:
        """The kernel that stores `results`."""
        group = self.group
        stores = []
        for v, e in self.results.items():
            dtype, strides = self.tape.specs[v].dtype, group.made[v]
            number = self._operand(dtype, "out", strides, Place(v, self.offset))
            inner = any(strides[d] for d in group.inner)  # else it is the same at every point
            stores.append(Store(number, s.cast(e, dtype), inner))
        stores = self._prune(stores)
        roots = [e for r in self.reductions for e in r.values] + [st.value for st in stores]
        box = _Box(group, [st for _, _, st in self.operands], roots)

        def settle(e: Expr) -> Expr | None:
            if e.fn == "axis":
                return s.axis(box.names.index(e.data))
            if e.fn == "const" and isinstance(e.data, s.Size) and e.data not in (0, 1):
                return self._size(e.data)
            return None

        stores = self._rewritten(stores, settle)
        strides_of = box.strides + [[] for _ in self.operands[len(box.strides) :]]
        operands = tuple(
            Operand(dtype, mode, tuple(x if x in (0, 1) else STRIDED for x in st))
            for (dtype, mode, _), st in zip(self.operands, strides_of)
        )
        inner_count = len(box.sizes) - box.outer
        lane = _lane(operands, box.sizes)
        kernel = Loops(
            box.outer, inner_count, lane, operands, tuple(self.reductions), tuple(stores)
        )
        call = Call(kernel, tuple(box.sizes), tuple(map(tuple, strides_of)))
        return KernelUse(call, tuple(self.places), self.line or 0)

    def _rewritten(
        self, stores: Sequence[Store], replace: Callable[[Expr], Expr | None]
    ) -> list[Store]:
        """Rewrite all expressions of the kernel together, so that what they share stays shared."""
        roots = [e for r in self.reductions for e in r.values] + [st.value for st in stores]
        values = iter(s.rewrite(roots, replace))
        self.reductions = [
            Reduction(tuple(next(values) for _ in r.values), r.combine, r.identity)
            for r in self.reductions
        ]
        return [Store(st.operand, next(values), st.inner) for st in stores]

    def _prune(self, stores: list[Store]) -> list[Store]:
        """Drop operands that only values nobody wants would have read."""
        roots = [e for r in self.reductions for e in r.values] + [st.value for st in stores]
        used = {e.data for e in s.walk(roots) if e.fn == "load"} | {st.operand for st in stores}
        renumbered = {old: new for new, old in enumerate(sorted(used))}
        self.operands = [self.operands[i] for i in renumbered]
        self.places = [self.places[i] for i in renumbered]

        def renumber(e: Expr) -> Expr | None:
            return s.leaf("load", e.dtype, renumbered[e.data], *e.args) if e.fn == "load" else None

        kept = self._rewritten(stores, renumber)
        return [Store(renumbered[st.operand], st.value, st.inner) for st in kept]

    def _size(self, n: int) -> Expr:
        """A size or stride as an argument, one for each number."""
        key = ("size", n)
        if key not in self._numbers:
            self._numbers[key] = self._operand(int64, "scalar", (), Place(int(n)))
        return s.leaf("load", int64, self._numbers[key])


def _affine(coordinate: Expr) -> tuple[list[int], Expr]:
    """A coordinate as a sum of axes and a rest, so that a shifted read stays a strided one."""
    if coordinate.fn == "axis":
        return [coordinate.data], s.const(0, int64)
    if coordinate.fn not in ("add", "sub"):
        return [], coordinate
    left, right = coordinate.args
    axes, rest = _affine(left)
    more, other = _affine(right) if coordinate.fn == "add" else ([], right)
    if not axes and not more:
        return [], coordinate
    if rest.fn == "const" and rest.data == 0 and coordinate.fn == "add":
        return axes + more, other
    return axes + more, s.call(coordinate.fn, rest, other)


class _Box:
    """The axes of a kernel: outer ones first, single points dropped, even neighbours merged."""

    def __init__(self, group: Group, strides: Sequence[Shape], roots: Sequence[Expr]) -> None:
        self.names = [d for d in range(len(group.domain)) if d not in group.inner]
        self.outer = len(self.names)
        self.names += sorted(group.inner)
        self.sizes = [group.domain[d] for d in self.names]
        self.strides = [[st[d] for d in self.names] if st else [] for st in strides]
        self._used = {e.data for e in s.walk(roots) if e.fn == "axis"}
        self._drop_points()
        self._merge_neighbours()

    def _drop_points(self) -> None:
        for i in reversed(range(len(self.sizes))):
            # A fold needs its sweep: the last inner axis stays, even if it is a single point.
            sweep = i >= self.outer and len(self.sizes) - self.outer == 1
            if self.sizes[i] == 1 and self.names[i] not in self._used and not sweep:
                self._remove(i)

    def _merge_neighbours(self) -> None:
        for i in reversed(range(len(self.sizes) - 1)):
            same_level = i + 1 < self.outer or i >= self.outer
            free = self._used.isdisjoint((self.names[i], self.names[i + 1]))
            n = self.sizes[i + 1]
            if same_level and free and all(not st or st[i] == st[i + 1] * n for st in self.strides):
                self.sizes[i + 1] *= self.sizes[i]
                self._remove(i)

    def _remove(self, i: int) -> None:
        self.outer -= i < self.outer
        for row in (self.sizes, self.names, *self.strides):
            if row:
                del row[i]


LANES = 8  # about as many as a vector has
BODY = 4  # about as many times longer than a load the body of a kernel takes


def _lane(operands: Sequence[Operand], sizes: Sequence[int]) -> int | None:
    """The axis along which vectors cost least; later axes win ties.

    Elements that lie side by side are loaded by the vector, others one by one.
    """
    best, least = None, math.inf
    memory = [o for o in operands if o.mode in ("in", "out", "inout")]
    elements = [numel(n for n, kind in zip(sizes, o.strides) if kind) for o in memory]
    for axis, n in enumerate(sizes):
        if n == 1 or all(o.strides[axis] != 1 for o in memory):
            continue
        vectors = 1 / max(1, min(n, LANES))
        cost = BODY * numel(sizes) * vectors
        for o, count in zip(memory, elements):
            cost += count * (1 if o.strides[axis] == STRIDED else vectors)
        if cost <= least:
            best, least = axis, cost
    return best


def _number_dtype(x: bool | int | float) -> DType:
    if isinstance(x, bool):
        return bool_
    return int64 if isinstance(x, int) else float64


# --- contractions ------------------------------------------------------------------------------


LONG_SUM = 64  # products


class ContractionLayout:
    """A labelled contraction laid out as C[b, m, n] = sum over k of A[b, m, k] B[b, k, n].

    `copy(x, dtype, dims)` gives a contiguous copy of an operand with dims (number, size), -1 for
    one that repeats it; it is asked for where the dims of a group do not lie evenly. With `windows`
    the kernel reads B through several strides instead, as overlapping windows need it.
    """

    def __init__(
        self, scope: Scope, dtype: DType, copy: Callable[..., Value], windows: bool
    ) -> None:
        self.scope, self.dtype, self.copy, self.windows = scope, dtype, copy, windows
        self.sizes: dict[str, int] = {}

    def lower(self, line: TapeLine, number: int, labels: tuple[str, str, str]) -> KernelUse:
        """The kernel for `labels` (of a, b and the result)."""
        (left, right, out), (a, b) = labels, line.inputs
        if out and out[-1] in left and out[-1] not in right:
            a, b, left, right = b, a, right, left  # the last dim of C comes from B
        specs = self.scope.tape.specs
        for letters, x in ((left, a), (right, b)):
            assert isinstance(x, Value)
            self.sizes.update(zip(letters, specs[x].shape))
        (result,) = line.outs
        own = dict(zip(out, contiguous_strides(specs[result].shape)))
        (batch, rows, columns), strides_c = self._groups(left, right, out, own)
        depth = [c for c in left if c in right and c not in out and c != "_"]
        outer, inner = self._halves(a, left, (batch, rows, depth))
        window = self._window(b, right, (batch, outer, inner, columns)) if self.windows else None
        if window is not None:
            place_a, strides_a = self._operand(a, left, (batch, rows, outer, inner))
            place_b, strides_b, sizes, digits = window
            sizes = (self._count(batch), self._count(rows), *sizes)
        else:
            place_a, strides_a = self._operand(a, left, (batch, rows, depth))
            place_b, strides_b = self._operand(b, right, (batch, depth, columns))
            sizes, digits = tuple(map(self._count, (batch, rows, columns, depth))), None
        kernel = Contraction(self.dtype, self.dtype.compute, digits)
        call = Call(kernel, sizes, (strides_a, strides_b, strides_c))
        return KernelUse(call, (place_a, place_b, Place(result)), number)

    def _count(self, labels: Sequence[str]) -> int:
        return numel(self.sizes[c] for c in labels)

    def _halves(
        self, x: Any, labels: str, groups: Sequence[list[str]]
    ) -> tuple[list[str], list[str]]:
        """The dims of k that A needs a stride of their own for, and those that lie evenly there.

        Where the latter are few, A had better be copied than the sum be cut into many short ones.
        """
        *lead, depth = groups
        found = self._in_place(x)
        strides = dict(zip(labels, found[1].strides)) if found else {}
        for split in range(len(depth) if found else 0):
            outer, inner = depth[:split], depth[split:]
            if self._even((*lead, outer, inner), strides) is not None:
                return (outer, inner) if self._count(inner) >= LONG_SUM else ([], depth)
        return [], depth

    def _window(
        self, x: Any, labels: str, groups: Sequence[list[str]]
    ) -> tuple[Place, Shape, Shape, tuple[int, int]] | None:
        """B, its strides, the sizes of o, k and n, and the digits, for a read through several
        strides; None where one per group will do, or B must be copied for its other dims."""
        batch, outer, inner, columns = groups
        found = self._in_place(x)
        if found is None:
            return None
        value, view = found
        strides = dict(zip(labels, view.strides))
        lead = self._even((batch, outer), strides)
        if lead is None or (not outer and self._even((inner, columns), strides) is not None):
            return None
        depths, places = self._digits(inner, strides), self._digits(columns, strides)
        sizes, steps = zip(*depths, *places)
        digits = (len(depths), len(places))
        return Place(value, view.offset), (*lead, *steps), (self._count(outer), *sizes), digits

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

    def _groups(
        self, left: str, right: str, out: str, strides: dict[str, int]
    ) -> tuple[tuple[list[str], list[str], list[str]], tuple[int, ...]]:
        """Labels of b, m and n, and C's strides along them.

        Leading dims of C act as a batch until what follows is all of m, then all of n, evenly.
        """
        both = {c for c in out if c in left and c in right}
        order = [c for c in out if c not in both]
        lead = 0
        while True:
            batch = [c for c in out if c in both or c in order[:lead]]
            rows = [c for c in order[lead:] if c in left]
            columns = [c for c in order[lead:] if c in right]
            found = self._even((batch, rows, columns), strides)
            if order[lead:] == rows + columns and found is not None:
                return (batch, rows, columns), found
            lead += 1

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
                elif stride != merged * extent:
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
    ) -> tuple[Place, tuple[int, ...]]:
        in_place = self._in_place(x)
        if in_place is not None:
            value, view = in_place
            strides = self._even(groups, dict(zip(labels, view.strides)))
            if strides is not None:
                return Place(value, view.offset), strides
        batch = [c for c in groups[0] if c in labels]
        if batch:  # batch dims that repeat the operand, beside some that walk over it
            batch = list(groups[0])
        order = self._nearest_last(self.scope.access(x), labels, groups[1:])
        wanted = batch + [c for g in order for c in g if c in labels]
        copy = self.copy(x, self.dtype, [(labels.find(c), self.sizes[c]) for c in wanted])
        shape = self.scope.tape.specs[copy].shape
        strides = self._even(groups, dict(zip(wanted, contiguous_strides(shape))))
        assert strides is not None
        return Place(copy), strides
