"""Lowering of ops that visit points in order: scatters, scans and sorts.

As in `pattern.py` the names are taken out first, so that what is left is lowered once for all lines
that do the same; `fuse.py` gives each such line a kernel of its own.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from contraflow import thresholds
from contraflow.compiler.folds import Partial, lane_of
from contraflow.compiler.kernel import KernelFold, LaneCosts, Store, scatter, sort
from contraflow.compiler.narrow_integers import guarded
from contraflow.compiler.pattern import Builder, Lowered, Pattern, PatternLine, StoredResult
from contraflow.compiler.scan_parts import cut_scan
from contraflow.dtypes import DType, int32, int64
from contraflow.expressions import expression as s
from contraflow.expressions.expression import Expr
from contraflow.operation.kinds import Scanning, Scattering, Sorting
from contraflow.shapes import Shape, contiguous_strides, numel


class ScatterPattern(NamedTuple):
    """One sweep of a scattering line; `shape` is that of the result, in argument `target`.

    If the points come in the order of their targets, `order` is the argument that holds it and its
    strides over the points. The indices of a line that is `trusted` were checked before.
    """

    line: PatternLine
    arguments: tuple[DType, ...]
    target: int
    shape: Shape
    sweep: int
    order: tuple[int, Shape] | None = None
    trusted: bool = False
    narrow: bool = False  # whether int64 has 32 bits, so that sums are checked
    costs: LaneCosts = LaneCosts()


def _kept_inside(e: Expr) -> Expr | None:
    """An index that was checked before, when the program may have failed: no other memory is
    reached by it, and nobody sees what is done with it."""
    if e.fn != "checked":
        return None
    index, size = e.args
    return s.minimum(s.maximum(index, 0), size - 1)


@lru_cache(maxsize=1024)
def lower_scatter(pattern: ScatterPattern) -> Lowered:
    """The kernel of a scattering line."""
    line, arguments, target, shape, sweep, order, trusted, narrow, costs = pattern
    op, params, dtype = line.op, dict(line.params), arguments[target]
    assert isinstance(op.kind, Scattering)
    coordinates, value = op.kind.points(op, line.given, params)
    walked = op.kind.walked(op, line.given, params)
    builder = Builder(Pattern(line.shape, walked, (line,), arguments, (), dtype))
    *coordinates_read, value = builder.reads(line, [*coordinates, value])
    strides, offset = builder.place(coordinates_read, contiguous_strides(shape))
    at = s.const(0, int64) if offset is None else offset
    if trusted:
        (at,) = s.rewrite([at], _kept_inside)
    if any(e.fn == "checked" for e in s.walk([at])):
        builder.checks = 0
    number = builder.bind(dtype, "inout", strides, target)
    stores = [Store(number, e, True) for e in (at, s.cast(value, dtype))]
    if order is not None:
        argument, rows = order
        listed = builder.bind(arguments[argument], "in", rows, argument)
        stores.append(Store(listed, s.const(0, int64), True))
    settled = builder.settle(stores)
    outer, sizes, operands = settled.outer, settled.sizes, settled.operands
    at, value = (store.value for store in settled.stores[:2])
    combine = op.kind.sweeps(op, dtype, params)[sweep]
    if narrow:
        (combine,) = guarded([combine])
    kernel = scatter(
        outer, len(sizes) - outer, lane_of(costs, operands, sizes[:outer], outer, 0), operands,
        settled.stores[0].operand, at, value, combine,
        None if order is None else settled.stores[2].operand,
    )  # fmt: skip
    return builder.lowered(kernel, settled)


class PlacesPattern(NamedTuple):
    """A scattering line, and the shape of its result."""

    line: PatternLine
    arguments: tuple[DType, ...]
    shape: Shape
    trusted: bool = False  # as that of a `ScatterPattern`
    costs: LaneCosts = LaneCosts()


class LoweredPlaces(NamedTuple):
    """The kernel that stores where each point goes, as integers, in an argument behind the others.

    Points that may meet are a row. Dims of the other points have rows of their own if the places
    depend on them: `rows` are their sizes, and `strides` those of the rows over all points.
    """

    lowered: Lowered
    dtype: DType
    rows: Shape
    strides: Shape


@lru_cache(maxsize=1024)
def lower_places(pattern: PlacesPattern) -> LoweredPlaces:
    """The kernel of the places that a scattering line goes to."""
    line, arguments, shape, trusted, costs = pattern
    op, params = line.op, dict(line.params)
    assert isinstance(op.kind, Scattering)
    coordinates, _ = op.kind.points(op, line.given, params)
    walked = op.kind.walked(op, line.given, params)
    dtype = int32 if numel(shape) < 1 << 31 else int64
    arguments = (*arguments, dtype)

    def placed(domain: Shape) -> tuple[Builder, Expr]:
        points = line._replace(shape=domain)
        builder = Builder(Pattern(domain, frozenset(), (points,), arguments, (), dtype))
        strides, offset = builder.place(
            builder.reads(points, coordinates), contiguous_strides(shape)
        )
        place = s.const(0, int64) if offset is None else offset
        if trusted:
            (place,) = s.rewrite([place], _kept_inside)
        for d in sorted(walked):
            if strides[d] and domain[d] > 1:
                place = place + s.axis(d) * s.const(s.Size(strides[d]), int64)
        return builder, s.cast(place, dtype)

    builder, place = placed(line.shape)
    varies = set(walked)
    for e in s.walk([place]):
        if e.fn == "axis":
            varies.add(e.data)
        elif e.fn == "load":
            varies.update(d for d, stride in enumerate(builder.operands[e.data][2]) if stride)
    domain = tuple(n if d in varies else 1 for d, n in enumerate(line.shape))
    rows = [d for d in sorted(varies) if d not in walked]
    dims = [*rows, *sorted(walked)]
    steps = dict(zip(dims, contiguous_strides(tuple(domain[d] for d in dims))))
    builder, place = placed(domain)
    if any(e.fn == "checked" for e in s.walk([place])):
        builder.checks = 0
    whole = tuple(steps.get(d, 0) for d in range(len(domain)))
    number = builder.bind(dtype, "out", whole, len(arguments) - 1)
    settled = builder.settle([Store(number, place, False)])
    return LoweredPlaces(
        builder.lowered(settled.kernel(costs), settled),
        dtype,
        tuple(domain[d] for d in rows),
        tuple(steps[d] if d in rows else 0 for d in range(len(domain))),
    )


class ScanPattern(NamedTuple):
    """A scanning line along `dim`, and where its results are stored."""

    line: PatternLine
    arguments: tuple[DType, ...]
    dim: int
    results: tuple[StoredResult, ...]
    carried: DType | None  # what floats of the state are, None for what arithmetic is done in
    in_parts: bool = False  # whether a few long rows are scanned in parts
    narrow: bool = False  # whether int64 has 32 bits, so that states are checked
    costs: LaneCosts = LaneCosts()


@lru_cache(maxsize=1024)
def lower_scan(pattern: ScanPattern) -> tuple[list[Lowered], list[Partial]]:
    """The kernels of a scanning line, more than one if it is scanned in parts, and the states of
    parts, which are arguments behind the others."""
    line, arguments, dim, results, carried, in_parts, narrow, costs = pattern
    op, inner, params = line.op, frozenset((dim,)), dict(line.params)
    assert isinstance(op.kind, Scanning)
    casts, dtypes = op.types(line.given, params)
    builder = Builder(Pattern(line.shape, inner, (line,), arguments, results, dtypes[0]))
    elements = [builder.operand(line, i, cast) for i, cast in enumerate(casts)]
    states = [dtype.compute for dtype in dtypes]
    if carried is not None:
        elements = [s.cast(e, carried) for e in elements]
        states = [carried if dtype.is_floating_point else dtype for dtype in states]
    start, step = op.kind.fold(op, elements, states)
    if narrow:
        # The states of parts may wrap around: each is a result too, where the part before it ends.
        step = guarded(step)
    along = tuple(int(d == dim) for d in range(len(line.shape)))
    step = builder.with_positions(step, "reduced", along, ())
    builder.reductions.append(KernelFold(step, (), start))
    builder.made += [s.leaf("reduced", e.dtype, (0, i)) for i, e in enumerate(step)]
    settled = builder.settle(builder.stored())
    combine = op.kind.combine(op, states) if in_parts else None
    found, partials = cut_scan(settled, combine, len(arguments), costs)
    return [builder.lowered(kernel, of) for kernel, of in found], partials


thresholds.on_change(lower_scan.cache_clear)


class SortPattern(NamedTuple):
    """A sorting line along `dim`: where its positions go, and its scratch memory if it has any."""

    line: PatternLine
    arguments: tuple[DType, ...]
    dim: int
    target: int  # an argument
    strides: Shape
    scratch: int | None  # an argument
    areas: int
    wanted: int


@lru_cache(maxsize=1024)
def lower_sort(pattern: SortPattern) -> Lowered:
    """The kernel of a sorting line."""
    line, arguments, dim = pattern[:3]
    op, params = line.op, dict(line.params)
    assert isinstance(op.kind, Sorting)
    casts, _ = op.types(line.given, params)
    builder = Builder(Pattern(line.shape, frozenset((dim,)), (line,), arguments, (), int64))
    key = op.kind.key(op, builder.operand(line, 0, casts[0]), params)
    target = memory = builder.bind(int64, "out", pattern.strides, pattern.target)
    if pattern.scratch is not None:
        memory = builder.bind(int64, "scratch", (), pattern.scratch)
    areas, wanted = (s.const(s.Size(n), int64) for n in (pattern.areas, pattern.wanted))
    pairs = zip((target, memory, target), (key, areas, wanted))
    settled = builder.settle([Store(n, e, True) for n, e in pairs])
    place, scratch, _ = settled.stores
    kernel = sort(
        settled.outer, 1, None, settled.operands,
        place.operand, None if pattern.scratch is None else scratch.operand,
        *(store.value for store in settled.stores),
    )  # fmt: skip
    return builder.lowered(kernel, settled)


class KeysPattern(NamedTuple):
    """A sorting line whose keys are stored in an argument, with strides over its points."""

    line: PatternLine
    arguments: tuple[DType, ...]
    target: int
    strides: Shape
    costs: LaneCosts = LaneCosts()


@lru_cache(maxsize=1024)
def lower_keys(pattern: KeysPattern) -> Lowered:
    """The kernel that stores the keys of a sorting line."""
    line, arguments, target, strides, costs = pattern
    op, params = line.op, dict(line.params)
    assert isinstance(op.kind, Sorting)
    casts, _ = op.types(line.given, params)
    results = (StoredResult(0, target, strides),)
    builder = Builder(Pattern(line.shape, frozenset(), (line,), arguments, results, int64))
    builder.made.append(op.kind.key(op, builder.operand(line, 0, casts[0]), params))
    settled = builder.settle(builder.stored())
    return builder.lowered(settled.kernel(costs), settled)
