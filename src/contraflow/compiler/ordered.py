"""Lowering of ops that visit points in order: scatters, scans and sorts.

As in `pattern.py` the names are taken out first, so that what is left is lowered once for all lines
that do the same; `fuse.py` gives each such line a kernel of its own.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from contraflow.compiler.folds import lane_of
from contraflow.compiler.kernel import KernelFold, Store, scan, scatter, sort
from contraflow.compiler.pattern import Builder, Lowered, Pattern, PatternLine, StoredResult
from contraflow.dtypes import DType, int64
from contraflow.expressions import expression as s
from contraflow.operation.kinds import Scanning, Scattering, Sorting
from contraflow.shapes import Shape, contiguous_strides


class ScatterPattern(NamedTuple):
    """One sweep of a scattering line; `shape` is that of the result, in argument `target`."""

    line: PatternLine
    arguments: tuple[DType, ...]
    target: int
    shape: Shape
    sweep: int


@lru_cache(maxsize=1024)
def lower_scatter(pattern: ScatterPattern) -> Lowered:
    """The kernel of a scattering line."""
    line, arguments, target, shape, sweep = pattern
    op, params, dtype = line.op, dict(line.params), arguments[target]
    assert isinstance(op.kind, Scattering)
    coordinates, value = op.kind.points(op, line.given, params)
    walked = op.kind.walked(op, line.given, params)
    builder = Builder(Pattern(line.shape, walked, (line,), arguments, (), dtype))
    *coordinates_read, value = builder.reads(line, [*coordinates, value])
    strides, offset = builder.place(coordinates_read, contiguous_strides(shape))
    at = s.const(0, int64) if offset is None else offset
    if any(e.fn == "checked" for e in s.walk([at])):
        builder.checks = 0
    number = builder.bind(dtype, "inout", strides, target)
    settled = builder.settle([Store(number, e, True) for e in (at, s.cast(value, dtype))])
    outer, sizes, operands = settled.outer, settled.sizes, settled.operands
    at, value = (store.value for store in settled.stores)
    combine = op.kind.sweeps(op, dtype, params)[sweep]
    kernel = scatter(
        outer, len(sizes) - outer, lane_of(operands, sizes[:outer], outer, 0), operands,
        settled.stores[0].operand, at, value, combine,
    )  # fmt: skip
    return builder.lowered(kernel, settled)


class ScanPattern(NamedTuple):
    """A scanning line along `dim`, and where its results are stored."""

    line: PatternLine
    arguments: tuple[DType, ...]
    dim: int
    results: tuple[StoredResult, ...]
    carried: DType | None  # what floats of the state are, None for what arithmetic is done in


@lru_cache(maxsize=1024)
def lower_scan(pattern: ScanPattern) -> Lowered:
    """The kernel of a scanning line."""
    line, arguments, dim, results, carried = pattern
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
    along = tuple(int(d == dim) for d in range(len(line.shape)))
    step = builder.with_positions(step, "reduced", along, ())
    builder.reductions.append(KernelFold(step, (), start))
    builder.made += [s.leaf("reduced", e.dtype, (0, i)) for i, e in enumerate(step)]
    settled = builder.settle(builder.stored())
    outer, sizes, operands = settled.outer, settled.sizes, settled.operands
    (fold,) = builder.reductions
    lane = lane_of(operands, sizes[:outer], outer, 1)
    kernel = scan(outer, 1, lane, operands, fold.identity, fold.values, settled.stores)
    return builder.lowered(kernel, settled)


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


@lru_cache(maxsize=1024)
def lower_keys(pattern: KeysPattern) -> Lowered:
    """The kernel that stores the keys of a sorting line."""
    line, arguments, target, strides = pattern
    op, params = line.op, dict(line.params)
    assert isinstance(op.kind, Sorting)
    casts, _ = op.types(line.given, params)
    results = (StoredResult(0, target, strides),)
    builder = Builder(Pattern(line.shape, frozenset(), (line,), arguments, results, int64))
    builder.made.append(op.kind.key(op, builder.operand(line, 0, casts[0]), params))
    settled = builder.settle(builder.stored())
    return builder.lowered(settled.kernel(), settled)
