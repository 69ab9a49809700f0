"""Patterns: groups of fused lines with the names taken out, and the kernels they become.

Layers of one kind differ in the values they read and make, not in what they do with them. So the
values of a group are numbered as they are met (`lower.py` does that); what is left is its pattern,
which is lowered once: operands, expressions, reductions and stores, with axes dropped and merged,
so that one kernel serves every size.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from contraflow import thresholds
from contraflow.compiler.folds import Partial, Settled, classes, cut, pruned, rewritten, roots_of
from contraflow.compiler.kernel import Kernel, KernelCall, KernelFold, LaneCosts, Operand, Store
from contraflow.compiler.narrow_integers import exact, guarded
from contraflow.dtypes import DType, int64
from contraflow.expressions import expression as s
from contraflow.expressions.expression import Expr
from contraflow.operation.kinds import Reduction
from contraflow.operation.op import Op
from contraflow.shapes import (
    Shape,
    View,
    broadcast_strides,
    contiguous_strides,
    normalize_dims,
)
from contraflow.spec import Given, Params, Spec


class ArrayOperand(NamedTuple):
    """An operand in memory: the number of an argument, and its view's shape and strides there."""

    argument: int
    shape: Shape
    strides: Shape


class NumberOperand(NamedTuple):
    """An operand that is one number: which argument holds it, and in which dtype."""

    argument: int
    dtype: DType


class Made(NamedTuple):
    """An operand that an earlier line of the pattern makes."""

    result: int


class PatternLine(NamedTuple):
    """A line whose operands are numbered; `given` are their specs, or the numbers themselves."""

    op: Op
    params: tuple[tuple[str, Any], ...]
    operands: tuple[ArrayOperand | NumberOperand | Made, ...]
    given: tuple[Given, ...]
    shape: Shape  # the points it visits
    layout: Shape  # the strides, over the domain, that its first result would be stored with


class StoredResult(NamedTuple):
    """A result that is stored: which, into which argument, with which strides over the domain."""

    number: int
    argument: int
    strides: Shape


class Pattern(NamedTuple):
    """The computation of a group, apart from its operands; `arguments` has the dtype of each."""

    domain: Shape
    inner: frozenset[int]
    lines: tuple[PatternLine, ...]
    arguments: tuple[DType, ...]
    results: tuple[StoredResult, ...]
    default_dtype: DType  # which dtype rules may ask for
    narrow: bool = False  # whether int64 has 32 bits, so that results are checked
    costs: LaneCosts = LaneCosts()


class Lowered(NamedTuple):
    """A kernel with its sizes; per operand the argument it is bound to, or a size itself.

    Arguments beyond those of its pattern are partial results.
    """

    call: KernelCall
    bindings: tuple[int | s.Size | None, ...]
    checks: int | None  # the number of the first line that checks an element


# --- points ------------------------------------------------------------------------------------


@lru_cache(maxsize=8192)
def axes_of(domain: Shape, inner: frozenset[int], shape: Shape) -> tuple[int, ...] | None:
    """The axis of a domain for each dim of a value of this shape, None if it does not fit.

    A value fits if it has the domain's shape, or that of a result reduced over `inner`.
    """
    if shape == domain:
        return tuple(range(len(shape)))
    if inner:
        if shape == tuple(1 if d in inner else n for d, n in enumerate(domain)):
            return tuple(range(len(shape)))
        outer = tuple(d for d in range(len(domain)) if d not in inner)
        if shape == tuple(domain[d] for d in outer):
            return outer
    return None


def spread(rank: int, axes: Sequence[int], strides: Shape, shape: Shape) -> Shape:
    """Strides of the dims of a value as strides over a domain; size-one dims have none."""
    result = [0] * rank
    for axis, stride, n in zip(axes, strides, shape):
        result[axis] = stride if n != 1 else 0
    return tuple(result)


@lru_cache(maxsize=8192)
def reading(
    domain: Shape, inner: frozenset[int], shape: Shape, own: Shape, strides: Shape
) -> Shape:
    """The strides over a domain with which a line of `shape` reads a view of shape `own`."""
    axes = axes_of(domain, inner, shape)
    assert axes is not None
    return spread(len(domain), axes, broadcast_strides(own, strides, shape), shape)


def reduced_dims(op: Op, params: Params, rank: int) -> frozenset[int]:
    """The dims a reduction goes over."""
    return frozenset(normalize_dims(op.name, params["dim"], rank))


# --- lowering ----------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def lower_pattern(pattern: Pattern) -> tuple[list[Lowered], list[Partial]]:
    """The kernels of a pattern: more than one where a fold is long; and its partial results."""
    builder = Builder(pattern)
    for number, line in enumerate(pattern.lines):
        builder.add(number, line)
    kernels, partials = cut(builder.settle(builder.stored()), len(pattern.arguments))
    costs = pattern.costs
    return [builder.lowered(settled.kernel(costs), settled) for settled in kernels], partials


thresholds.on_change(lower_pattern.cache_clear)


@lru_cache(maxsize=4096)
def lower_copy(
    source: ArrayOperand | NumberOperand,
    region: View,
    arguments: tuple[DType, ...],
    narrow: bool,
    costs: LaneCosts,
) -> Lowered:
    """The kernel that stores elements, or one number, into a region of the last argument."""
    result = StoredResult(0, len(arguments) - 1, region.strides)
    dtype = arguments[-1].compute
    builder = Builder(Pattern(region.shape, frozenset(), (), arguments, (result,), dtype, narrow))
    if isinstance(source, ArrayOperand):
        element = s.cast(builder.load(source.argument, source.strides), dtype)
    else:
        element = builder.scalar(source, dtype)
    builder.made.append(element)
    settled = builder.settle(builder.stored())
    return builder.lowered(settled.kernel(costs), settled)


@lru_cache(maxsize=4096)
def _body(
    op: Op, params: tuple[tuple[str, Any], ...], kinds: tuple[type, ...], *dtypes: DType
) -> tuple[Expr, ...]:
    """The body of an elementwise op over placeholders, for any shapes. `kinds` tell 1, 1.0 and
    True apart, which are equal."""
    leaves = [s.leaf("input", dtype, i) for i, dtype in enumerate(dtypes)]
    return op.kind.expression(op, (), dict(params), leaves)


@lru_cache(maxsize=4096)
def _counts(outs: tuple[Expr, ...]) -> bool:
    """Whether a body reads the number of its element."""
    return any(e.fn == "axis" for e in s.walk(outs))


@lru_cache(maxsize=4096)
def _over(outs: tuple[Expr, ...], inputs: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """A body over its operands: the same at any size, if they lie in the same places."""
    return tuple(s.rewrite(outs, lambda e: inputs[e.data] if e.fn == "input" else None))


class Builder:
    """Gathers what a kernel is made of: operands, expressions, reductions, stores."""

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self.operands: list[tuple[DType, str, Shape]] = []  # strides are over the domain
        self.bindings: list[int | s.Size | None] = []
        self.made: list[Expr] = []
        self.reductions: list[KernelFold] = []
        self.checks: int | None = None
        self._numbers: dict[Any, int] = {}  # operands already there, by what they are

    # --- operands -------------------------------------------------------------------------

    def bind(self, dtype: DType, mode: str, strides: Shape, bound: int | s.Size | None) -> int:
        """A new operand, bound to an argument or a size; its number."""
        self.operands.append((dtype, mode, strides))
        self.bindings.append(bound)
        return len(self.operands) - 1

    def load(self, argument: int, strides: Shape, *args: Expr) -> Expr:
        """The element of a value in memory, at affine strides plus an offset expression."""
        dtype = self.pattern.arguments[argument]
        key = (argument, strides)
        if key not in self._numbers:
            self._numbers[key] = self.bind(dtype, "in", strides, argument)
        return s.leaf("load", dtype, self._numbers[key], *args)

    def scalar(self, x: NumberOperand, dtype: DType) -> Expr:
        """A literal or host value as an argument of the kernel."""
        given = dtype if x.dtype.category == dtype.category else x.dtype.compute
        if self.pattern.narrow and given is int64 and dtype.is_floating_point:
            given = dtype  # converted by the host: it may have more bits than the device
        element = s.leaf("load", given, self.bind(given, "scalar", (), x.argument))
        return s.cast(element, dtype)

    def fill(self, x: NumberOperand, dtype: DType) -> Expr:
        """The element of a fill: its number converted to the tensor's dtype. A fill of bools by 3
        holds ones, and one of float16 by 0.1 what 0.1 is rounded to."""
        return s.cast(s.cast(self.scalar(x, dtype.compute), dtype), dtype.compute)

    def position(self, strides: Shape) -> Expr:
        """The address in a contiguous array without the array: a counter."""
        key = ("position", strides)
        if key not in self._numbers:
            self._numbers[key] = self.bind(int64, "position", strides, None)
        return s.leaf("load", int64, self._numbers[key])

    def operand(self, line: PatternLine, i: int, cast: DType | None) -> Expr:
        """An operand of a line at the current point, in the dtype that arithmetic is done in."""
        x, given = line.operands[i], line.given[i]
        if isinstance(x, NumberOperand):
            if isinstance(given, Spec):
                element = self.fill(x, given.dtype)
                return s.cast(element, (cast or given.dtype).compute)
            return self.scalar(x, (cast or x.dtype).compute)
        if isinstance(x, Made):
            element = self.made[x.result]
        else:
            domain, inner = self.pattern.domain, self.pattern.inner
            strides = reading(domain, inner, line.shape, x.shape, x.strides)
            element = self.load(x.argument, strides)
        return s.cast(element, (cast or element.dtype).compute)

    # --- lines ----------------------------------------------------------------------------

    def add(self, number: int, line: PatternLine) -> None:
        """Add a line's results as expressions."""
        params = dict(line.params)
        casts, dtypes = line.op.types(line.given, params)
        if line.op.kind.lowering == "reduce":
            outs = self._fold(line, params, self.operand(line, 0, casts[0]))
        elif line.op.kind.indexes:
            outs = self._index(line, params, casts)
        else:
            inputs = [self.operand(line, i, c) for i, c in enumerate(casts)]
            outs = self._expression(line, params, inputs, dtypes)
        may_fail = line.op.kind.indexes or line.op.fails is not None or self.pattern.narrow
        if may_fail and self.checks is None and any(e.fn == "checked" for e in s.walk(outs)):
            self.checks = number
        self.made += [s.cast(e, dtype.compute) for e, dtype in zip(outs, dtypes, strict=True)]

    def _expression(
        self,
        line: PatternLine,
        params: dict[str, Any],
        inputs: Sequence[Expr],
        dtypes: Sequence[DType],
    ) -> tuple[Expr, ...]:
        """A body over its operands. It is built over placeholders first: what the operands are
        made of, which may be long, is not walked through again for every line."""
        if line.op.is_elementwise:
            kinds = tuple([type(value) for _, value in line.params])
            outs = _body(line.op, line.params, kinds, *[e.dtype for e in inputs])
            if self.pattern.narrow:
                outs = guarded([s.cast(e, d.compute) for e, d in zip(outs, dtypes, strict=True)])
        else:
            leaves = [s.leaf("input", e.dtype, i) for i, e in enumerate(inputs)]
            outs = line.op.kind.expression(line.op, line.given, params, leaves)
        if not _counts(tuple(outs)):
            return _over(tuple(outs), tuple(inputs))
        # The row-major number of an element is its address in a contiguous result.
        return self.with_positions(outs, "linear", line.layout, inputs)

    def with_positions(
        self, roots: Sequence[Expr], name: str, strides: Shape, inputs: Sequence[Expr]
    ) -> tuple[Expr, ...]:
        """Put operands in the place of their leaves, and an address in that of a counter."""

        def replace(e: Expr) -> Expr | None:
            if e.fn == "input":
                operand: Expr = inputs[e.data]
                return operand
            return self.position(strides) if e.fn == "axis" and e.data == name else None

        return tuple(s.rewrite(roots, replace))

    def _fold(self, line: PatternLine, params: dict[str, Any], x: Expr) -> tuple[Expr, ...]:
        kind = line.op.kind
        assert isinstance(kind, Reduction)
        values, combine, identity = kind.fold(line.op, s.leaf("input", x.dtype, 0))
        dims = reduced_dims(line.op, params, len(line.shape))
        within = tuple(n if d in dims else 1 for d, n in enumerate(line.shape))
        rank = len(within)
        counting = spread(rank, range(rank), contiguous_strides(within), within)
        values = self.with_positions(values, "reduced", counting, [x])
        if not dims:  # over no dims: the element itself
            return values
        fold = KernelFold(values, combine, identity)
        number = len(self.reductions)
        checked = exact(fold) if self.pattern.narrow else None
        if checked is not None:
            self.reductions.append(checked.fold)
            parts = (
                s.leaf("reduced", v.dtype, (number, i)) for i, v in enumerate(checked.fold.values)
            )
            return (checked.result(*parts),)
        self.reductions.append(fold)
        return tuple(s.leaf("reduced", v.dtype, (number, i)) for i, v in enumerate(values))

    def _index(
        self, line: PatternLine, params: dict[str, Any], casts: Sequence[DType | None]
    ) -> tuple[Expr, ...]:
        """An index op's body."""
        first = next(g.dtype for g in line.given if isinstance(g, Spec))
        sources = [
            None if isinstance(g, Spec) else self.operand(line, i, c or first)
            for i, (g, c) in enumerate(zip(line.given, casts))
        ]
        return self.reads(line, line.op.kind.expression(line.op, line.given, params, sources))

    def reads(self, line: PatternLine, outs: Sequence[Expr]) -> tuple[Expr, ...]:
        """Expressions over coordinates of a line, with each `read` turned into a load."""
        axes = axes_of(self.pattern.domain, self.pattern.inner, line.shape)
        assert axes is not None

        def lower(e: Expr) -> Expr | None:
            if e.fn == "axis":
                # Along a single point there is no loop whose coordinate this could be.
                point = self.pattern.domain[axes[e.data]] == 1
                return s.const(0, int64) if point else s.axis(axes[e.data])
            return self._read(line, e.data, e.args) if e.fn == "read" else None

        return tuple(s.rewrite(outs, lower))

    def _read(self, line: PatternLine, i: int, args: Sequence[Expr]) -> Expr:
        x, given = line.operands[i], line.given[i]
        assert isinstance(given, Spec)
        rank = len(given.shape)
        valid = args[rank:]
        if isinstance(x, NumberOperand):
            return _fill_read(self.fill(x, given.dtype), args[:rank], valid)
        assert isinstance(x, ArrayOperand)
        strides, offset = self.place(args[:rank], x.strides)
        if offset is None and valid:
            offset = s.const(0, int64)
        extra = () if offset is None else (offset, *valid)
        element = self.load(x.argument, strides, *extra)
        return s.cast(element, element.dtype.compute)

    def place(self, coordinates: Sequence[Expr], steps: Shape) -> tuple[Shape, Expr | None]:
        """Where an element lies: strides over the domain, and what else is added if anything is."""
        strides = [0] * len(self.pattern.domain)
        offset: Expr | None = None
        for coordinate, step in zip(coordinates, steps):
            axes, rest = _affine(coordinate)
            for axis in axes:
                strides[axis] += step
            if not (rest.fn == "const" and rest.data == 0):
                term = rest * s.const(s.Size(step), int64)
                offset = term if offset is None else offset + term
        return tuple(strides), offset

    # --- the kernel -----------------------------------------------------------------------

    def stored(self) -> list[Store]:
        """The stores of the results."""
        stores = []
        for result in self.pattern.results:
            dtype = self.pattern.arguments[result.argument]
            number = self.bind(dtype, "out", result.strides, result.argument)
            # Else it is the same at every point.
            inner = any(result.strides[d] for d in self.pattern.inner)
            stores.append(Store(number, s.cast(self.made[result.number], dtype), inner))
        return stores

    def lowered(self, kernel: Kernel, settled: Settled) -> Lowered:
        """A kernel with its sizes and what its operands are bound to."""
        call = KernelCall(kernel, settled.sizes, settled.strides)
        return Lowered(call, settled.bindings, self.checks)

    def settle(self, stores: list[Store]) -> Settled:
        """Drop unused operands, merge axes, and turn sizes into arguments."""
        stores = self._prune(stores)
        axes, sizes = set(), False
        for e in s.walk(roots_of(self.reductions, stores)):
            if e.fn == "axis":
                axes.add(e.data)
            sizes = sizes or _is_size(e)
        box = _KernelAxes(self.pattern, [st for _, _, st in self.operands], axes)

        def settle(e: Expr) -> Expr | None:
            if e.fn == "axis":
                return s.axis(box.names.index(e.data))
            return self._size(e.data) if _is_size(e) else None

        if axes or sizes:
            self.reductions, stores = rewritten(self.reductions, stores, settle)
        strides_of = box.strides + [[] for _ in self.operands[len(box.strides) :]]
        strides = tuple(map(tuple, strides_of))
        operands = tuple(
            Operand(dtype, mode, classes(st))
            for (dtype, mode, _), st in zip(self.operands, strides)
        )
        reductions, bindings = tuple(self.reductions), tuple(self.bindings)
        return Settled(
            reductions, tuple(stores), box.outer, tuple(box.sizes), operands, strides, bindings
        )

    def _prune(self, stores: list[Store]) -> list[Store]:
        """Drop operands that only unused values would read."""
        reductions, kept, used = pruned(self.reductions, stores)
        self.reductions = list(reductions)
        self.operands = [self.operands[i] for i in used]
        self.bindings = [self.bindings[i] for i in used]
        return list(kept)

    def _size(self, n: s.Size) -> Expr:
        """A size or stride as an argument, one for each number."""
        key = ("size", n)
        if key not in self._numbers:
            self._numbers[key] = self.bind(int64, "scalar", (), n)
        return s.leaf("load", int64, self._numbers[key])


def _fill_read(element: Expr, coordinates: Sequence[Expr], valid: Sequence[Expr]) -> Expr:
    """The result of reading a fill: its element, or zero where the position is not valid.

    No address depends on the coordinates, but loaded indices among them must be in range all the
    same: the test, which always holds where they are, keeps their check in the kernel.
    """
    conditions = list(valid)
    conditions += [e >= 0 for e in s.walk(coordinates) if e.fn == "checked"]
    for condition in conditions:
        element = s.select(condition, element, 0)
    return element


def _is_size(e: Expr) -> bool:
    """Whether an expression is a size or stride that has to be an argument."""
    return e.fn == "const" and isinstance(e.data, s.Size) and e.data not in (0, 1)


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


class _KernelAxes:
    """The axes of a kernel: outer ones first, single points dropped, even neighbours merged."""

    def __init__(self, pattern: Pattern, strides: Sequence[Shape], used: set[int]) -> None:
        """`used` are the axes whose coordinates are computed with: they stay as they are."""
        self.names = [d for d in range(len(pattern.domain)) if d not in pattern.inner]
        self.outer = len(self.names)
        self.names += sorted(pattern.inner)
        self.sizes = [pattern.domain[d] for d in self.names]
        self.strides = [[st[d] for d in self.names] if st else [] for st in strides]
        self._used = used
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
