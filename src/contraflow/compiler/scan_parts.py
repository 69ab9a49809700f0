"""Scans of a few long rows in parts: three kernels, whose points all threads of a device share.

The first folds each part to one state (a fold that is cut, as in `folds.py`), the second scans
those states, in parts again if they are many, and the third scans the parts, each from the state
of all parts before it. Where rows are cut follows from their sizes alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from contraflow import thresholds
from contraflow.compiler.folds import (
    Partial,
    Settled,
    fold_parts,
    lane_of,
    partial_strides,
    settle_pruned,
)
from contraflow.compiler.kernel import Kernel, KernelFold, LaneCosts, Operand, Store, scan
from contraflow.dtypes import int64
from contraflow.expressions import expression as s
from contraflow.expressions.expression import Expr
from contraflow.shapes import numel

ScanKernels = list[tuple[Kernel, Settled]]


def cut_scan(
    whole: Settled, combine: tuple[Expr, ...] | None, first: int, costs: LaneCosts
) -> tuple[ScanKernels, list[Partial]]:
    """The kernels of a scan, with what they were made of, and the states of parts in memory, which
    are arguments from number `first` on.

    The one fold of `whole` has the state after a point as its values, and the first state as its
    identity. `combine` makes one state of two; without it a scan is not cut.
    """
    (fold,) = whole.reductions
    points, rows = whole.sizes[-1], numel(whole.sizes[: whole.outer])
    if combine is None or points <= thresholds.scan_part or rows >= thresholds.many_scans:
        return [(_scan(whole, fold.identity, fold.values, costs), whole)], []
    parts = -(-points // thresholds.scan_part)
    # The state of one point is what the step makes of the first state.
    values = _from_start(fold.values, fold.identity)
    folds = (KernelFold(values, combine, fold.identity),)
    part, partials = fold_parts(whole._replace(reductions=folds, stores=()), 0, parts, first)
    before = first + len(partials)
    between, more = cut_scan(
        _states(whole, combine, parts, first, before), combine, before + len(partials), costs
    )
    rest = _rest(whole, parts, before)
    count = len(fold.values)
    (both,) = rest.reductions
    last = (_scan(rest, both.values[count:], both.values[:count], costs), rest)
    return [(part.kernel(costs), part), *between, last], [*partials, *partials, *more]


def _scan(of: Settled, start: tuple[Expr, ...], step: tuple[Expr, ...], costs: LaneCosts) -> Kernel:
    lane = lane_of(costs, of.operands, of.sizes[: of.outer], of.outer, 1, of.cut)
    return scan(of.outer, 1, lane, of.operands, start, step, of.stores, of.cut)


def _from_start(step: Sequence[Expr], start: Sequence[Expr]) -> tuple[Expr, ...]:
    """A step from the first state."""
    return tuple(s.rewrite(step, lambda e: start[e.data] if e.fn == "left" else None))


def _states(
    whole: Settled, combine: tuple[Expr, ...], parts: int, first: int, before: int
) -> Settled:
    """The scan of the states of parts, arguments from `first` on, to those from `before` on."""
    (fold,) = whole.reductions
    dtypes = [e.dtype for e in fold.identity]
    count, memory = len(dtypes), partial_strides(whole, parts)
    loads = [s.leaf("load", dtype, i) for i, dtype in enumerate(dtypes)]
    step = s.rewrite(combine, lambda e: loads[e.data] if e.fn == "right" else None)
    stores = [
        Store(count + i, s.leaf("reduced", dtype, (0, i)), True) for i, dtype in enumerate(dtypes)
    ]
    operands = [Operand(dtype, mode) for mode in ("in", "out") for dtype in dtypes]
    bindings = [*range(first, first + count), *range(before, before + count)]
    sizes = (*whole.sizes[: whole.outer], parts)
    folds = [KernelFold(tuple(step), (), fold.identity)]
    strides = [memory] * len(operands)
    return settle_pruned(folds, stores, whole.outer, sizes, operands, strides, bindings)


def _rest(whole: Settled, parts: int, before: int) -> Settled:
    """The scan of the parts, each from the state of those before it. The values of its fold are the
    state after a point and, behind them, the first state."""
    (fold,) = whole.reductions
    outer = whole.outer
    sizes = (*whole.sizes[:outer], parts, whole.sizes[outer])
    strides = [(*st[:outer], 0, *st[outer:]) if st else () for st in whole.strides]
    operands, bindings = list(whole.operands), list(whole.bindings)
    memory = partial_strides(whole, parts)
    # The state of the part before lies as far back as parts are apart.
    back = s.leaf("load", int64, len(operands))
    operands.append(Operand(int64, "scalar"))
    strides.append(())
    bindings.append(s.Size(memory[-1]))
    later = s.axis(outer) > 0
    starts = []
    for i, start in enumerate(fold.identity):
        load = s.leaf("load", start.dtype, len(operands), s.const(0, int64) - back, later)
        starts.append(s.select(later, load, start))
        operands.append(Operand(start.dtype, "in"))
        strides.append((*memory, 0))
        bindings.append(before + i)

    def shift(e: Expr) -> Expr | None:
        return s.axis(e.data + 1) if e.fn == "axis" and e.data >= outer else None

    step = tuple(s.rewrite(fold.values, shift))
    stores = [
        Store(st.operand, e, True)
        for st, e in zip(whole.stores, s.rewrite([st.value for st in whole.stores], shift))
    ]
    both = [KernelFold((*step, *starts), (), ())]
    kernel = settle_pruned(both, stores, outer + 1, sizes, operands, strides, bindings)
    return kernel._replace(cut=outer + 1)
