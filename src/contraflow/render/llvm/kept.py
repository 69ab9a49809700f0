"""Values kept between the passes of a kernel, in the memory of its result.

A softmax sums exponentials in one pass and divides them in the next. Values that cost more than a
load to compute are stored by the first, in the memory of the result, and read there by the second.
"""

from __future__ import annotations

from dataclasses import replace

from contraflow.compiler.kernel import Loops, Store
from contraflow.expressions import expression as s
from contraflow.expressions.expression import Expr
from contraflow.expressions.intrinsics import INTRINSICS
from contraflow.render.llvm.lowering import template_of


def keep_values(kernel: Loops) -> Loops:
    """The kernel with additional stores, and results made from what they kept."""
    computed: dict[Expr, int] = {}  # at the points of the inner axes, by the pass that does so
    for number, (reductions, stores) in enumerate(kernel.passes):
        for i in stores:
            kernel = _keep(kernel, i, number, computed)
        roots = [value for r in reductions for value in kernel.reductions[r].values]
        for e in s.walk(roots):
            computed.setdefault(e, number)
    return kernel


def _keep(kernel: Loops, i: int, number: int, computed: dict[Expr, int]) -> Loops:
    """The kernel in which store `i`, of pass `number`, reads what an earlier pass computed."""
    store = kernel.stores[i]
    dtype = kernel.operands[store.operand].dtype
    known = [e for e in s.walk([store.value]) if e in computed and e.dtype is dtype and _is_long(e)]
    if not known:
        return kernel
    kept = known[-1]  # what it contains comes before it
    load = s.leaf("load", dtype, store.operand)
    (value,) = s.rewrite([store.value], lambda e: load if e is kept else None)
    stores = list(kernel.stores)
    stores[i] = store._replace(value=value)
    changed = replace(kernel, stores=(*stores, Store(store.operand, kept, inner=True)))
    passes = changed.passes
    # The rest of the result must still wait for the passes between.
    in_order = i in passes[number][1] and len(stores) in passes[computed[kept]][1]
    return changed if in_order else kernel


def _is_long(e: Expr) -> bool:
    """Whether a function that the processor lacks is evaluated in an expression."""
    return any(x.fn in INTRINSICS and template_of(x) is None for x in s.walk([e]) if x.args)
