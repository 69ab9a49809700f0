"""Lowering of folds: the vector axis of a kernel, and long reductions split into partial ones.

A fold over many points becomes two kernels, or more: one stores a partial result for each part of
an axis, another folds those. The parts are independent points, so every thread of a processor and
every group of a GPU has work even where all is folded to one number; and since each part starts
anew, rounding errors do not grow with the length of a sum. Where a fold is cut follows from its
sizes alone, never from the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from contraflow import thresholds
from contraflow.compiler.kernel import (
    BLOCK,
    STRIDED,
    KernelFold,
    LaneCosts,
    Loops,
    Operand,
    Store,
    loops,
)
from contraflow.dtypes import DType
from contraflow.expressions import expression as s
from contraflow.expressions.expression import Expr
from contraflow.shapes import Shape, contiguous_strides, numel


def may_return(rows: int, points: int) -> bool:
    """Whether a kernel may read rows of so many points a second time, after reducing them."""
    if points <= thresholds.long_fold:
        return True
    return points <= thresholds.long_row and rows >= thresholds.few_long_rows


class Settled(NamedTuple):
    """The parts of a kernel, with its final axes."""

    reductions: tuple[KernelFold, ...]
    stores: tuple[Store, ...]
    outer: int  # the number of axes, first in order, whose points are independent
    sizes: Shape
    operands: tuple[Operand, ...]
    strides: tuple[Shape, ...]
    bindings: tuple[int | s.Size | None, ...]  # per operand: an argument, or a size itself
    cut: int | None = None  # as in Loops

    def kernel(self, costs: LaneCosts) -> Loops:
        """The kernel, without its sizes."""
        outer, sizes, operands = self.outer, self.sizes, self.operands
        lane = lane_of(costs, operands, sizes, outer, len(self.reductions), self.cut)
        inner = len(sizes) - outer
        return loops(outer, inner, lane, operands, self.reductions, self.stores, self.cut)


class Partial(NamedTuple):
    """Memory for partial results, between the two kernels of a split fold."""

    elements: int
    dtype: DType


def cut(whole: Settled, first: int) -> tuple[list[Settled], list[Partial]]:
    """The kernels that together do the work of one, in order, and their partial results, which are
    arguments from number `first` on."""
    points = whole.sizes[whole.outer :]
    if math.prod(points) <= thresholds.long_fold or not whole.reductions or not _is_one_pass(whole):
        return [whole], []
    longest = max(range(len(points)), key=points.__getitem__)
    length = thresholds.fold_part * points[longest] // math.prod(points)
    parts = -(-points[longest] // max(BLOCK, length // BLOCK * BLOCK))
    if parts < 2:
        return [whole], []
    part, partials = fold_parts(whole, longest, parts, first)
    rest, more = cut(_rest(whole, parts, partials, first), first + len(partials))
    return [part, *rest], partials + more


def _is_one_pass(whole: Settled) -> bool:
    """Whether nothing at the inner points waits for a reduction."""
    inner = [e for r in whole.reductions for e in r.values]
    inner += [st.value for st in whole.stores if st.inner]
    return not any(e.fn == "reduced" for e in s.walk(inner))


def _components(whole: Settled) -> Iterator[tuple[int, int, DType]]:
    """The results of all reductions: by the number of the reduction, and that of the component."""
    for r, reduction in enumerate(whole.reductions):
        for component, e in enumerate(reduction.values):
            yield r, component, e.dtype


def partial_strides(whole: Settled, parts: int) -> tuple[int, ...]:
    """Strides of a partial result along the outer axes and the parts, which have the largest."""
    along, *rest = contiguous_strides((parts, *whole.sizes[: whole.outer]))
    return (*rest, along)


def fold_parts(
    whole: Settled, longest: int, parts: int, first: int
) -> tuple[Settled, list[Partial]]:
    """The kernel of the parts: one more outer axis, and a store for each partial result."""
    outer, inner = whole.outer, len(whole.sizes) - whole.outer
    sizes = (*whole.sizes[:outer], parts, *whole.sizes[outer:])
    strides = [(*st[:outer], 0, *st[outer:]) if st else () for st in whole.strides]
    own = (*partial_strides(whole, parts), *(0,) * inner)

    def shift(e: Expr) -> Expr | None:
        return s.axis(e.data + 1) if e.fn == "axis" and e.data >= outer else None

    reductions, stores = rewritten(whole.reductions, whole.stores, shift)
    stores = [st for st in stores if st.inner]
    operands, bindings, partials = list(whole.operands), list(whole.bindings), []
    for number, (r, component, dtype) in enumerate(_components(whole)):
        stores.append(Store(len(operands), s.leaf("reduced", dtype, (r, component)), False))
        operands.append(Operand(dtype, "out"))
        strides.append(own)
        bindings.append(first + number)
        partials.append(Partial(parts * numel(whole.sizes[:outer]), dtype))
    kernel = settle_pruned(reductions, stores, outer + 1, sizes, operands, strides, bindings)
    return kernel._replace(cut=outer + 1 + longest), partials


def _rest(whole: Settled, parts: int, partials: Sequence[Partial], first: int) -> Settled:
    """The kernel that folds partial results, and computes what depends on the whole fold."""
    outer = whole.outer
    strides = [(*st[:outer], 0) if st else () for st in whole.strides]
    operands, bindings = list(whole.operands), list(whole.bindings)
    loads: list[Expr] = []
    for number, partial in enumerate(partials):
        loads.append(s.leaf("load", partial.dtype, len(operands)))
        operands.append(Operand(partial.dtype, "in"))
        strides.append(partial_strides(whole, parts))
        bindings.append(first + number)
    found = iter(loads)
    reductions = [
        KernelFold(tuple(next(found) for _ in r.values), r.combine, r.identity)
        for r in whole.reductions
    ]
    stores = [st for st in whole.stores if not st.inner]
    sizes = (*whole.sizes[:outer], parts)
    return settle_pruned(reductions, stores, outer, sizes, operands, strides, bindings)


def settle_pruned(
    reductions: Sequence[KernelFold],
    stores: Sequence[Store],
    outer: int,
    sizes: Shape,
    operands: Sequence[Operand],
    strides: Sequence[Shape],
    bindings: Sequence[int | s.Size | None],
) -> Settled:
    """A kernel without its unused operands, and with the stride classes of those that are left."""
    reductions, stores, used = pruned(reductions, stores)
    kept = tuple(strides[i] for i in used)
    classed = tuple(
        Operand(operands[i].dtype, operands[i].mode, classes(st)) for i, st in zip(used, kept)
    )
    bound = tuple(bindings[i] for i in used)
    return Settled(tuple(reductions), tuple(stores), outer, sizes, classed, kept, bound)


# --- expressions of a kernel -------------------------------------------------------------------


def roots_of(reductions: Sequence[KernelFold], stores: Sequence[Store]) -> list[Expr]:
    """The expressions that a kernel computes."""
    return [e for r in reductions for e in r.values] + [st.value for st in stores]


def rewritten(
    reductions: Sequence[KernelFold],
    stores: Sequence[Store],
    replace: Callable[[Expr], Expr | None],
) -> tuple[list[KernelFold], list[Store]]:
    """All expressions of a kernel rewritten together, so that what they share stays shared."""
    values = iter(s.rewrite(roots_of(reductions, stores), replace))
    folded = [
        KernelFold(tuple(next(values) for _ in r.values), r.combine, r.identity) for r in reductions
    ]
    return folded, [Store(st.operand, next(values), st.inner) for st in stores]


def pruned(
    reductions: Sequence[KernelFold], stores: Sequence[Store]
) -> tuple[Sequence[KernelFold], Sequence[Store], list[int]]:
    """Expressions whose operands are numbered without gaps, and the numbers that these had."""
    loads = (e for e in s.walk(roots_of(reductions, stores)) if e.fn == "load")
    used = sorted({e.data for e in loads} | {st.operand for st in stores})
    if used == list(range(len(used))):
        return reductions, stores, used
    numbers = {old: new for new, old in enumerate(used)}

    def renumber(e: Expr) -> Expr | None:
        return s.leaf("load", e.dtype, numbers[e.data], *e.args) if e.fn == "load" else None

    folded, kept = rewritten(reductions, stores, renumber)
    return folded, [Store(numbers[st.operand], st.value, st.inner) for st in kept], used


def classes(strides: Shape) -> Shape:
    """The class of each stride."""
    return tuple(x if x in (0, 1) else STRIDED for x in strides)


# --- the lane ----------------------------------------------------------------------------------


def lane_of(
    costs: LaneCosts,
    operands: Sequence[Operand],
    sizes: Sequence[int],
    outer: int,
    folds: int,
    cut: int | None = None,
) -> int | None:
    """The axis along which vectors cost least on a device; later axes win ties.

    Elements that lie side by side are loaded by the vector, others one by one. Along an inner axis
    each of the `folds` ends with adding up lanes, and the values after it have one lane. The axis
    that counts the parts of the `cut` one cannot be the lane: the cut range depends on it.
    """
    vector, body, fold = costs
    best, least = None, math.inf
    memory = [o for o in operands if o.mode in ("in", "out", "inout")]
    elements = [numel(n for n, kind in zip(sizes, o.strides) if kind) for o in memory]
    for axis, n in enumerate(sizes):
        across = folds and axis < outer  # where that pays even if no elements lie side by side
        counts = cut is not None and axis == outer - 1
        if n < 2 or counts or (not across and all(o.strides[axis] != 1 for o in memory)):
            continue
        vectors = -(-n // vector) / n
        cost = body * numel(sizes) * vectors
        if folds:
            rows = numel(sizes[:outer])
            cost += rows * (body * vectors if axis < outer else body + fold * folds)
        for o, count in zip(memory, elements):
            cost += count * (1 if o.strides[axis] == STRIDED else vectors)
        if cost <= least:
            best, least = axis, cost
    return best
