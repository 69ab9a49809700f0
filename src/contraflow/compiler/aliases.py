"""Kernels that read and write the same memory by one operand, for devices that allow no two."""

from __future__ import annotations

from collections.abc import Sequence

from contraflow.compiler.folds import rewritten
from contraflow.compiler.kernel import KernelCall, Loops, loops
from contraflow.expressions.expression import Expr, leaf


def join_aliases(call: KernelCall, slots: Sequence[int]) -> tuple[KernelCall, list[int]]:
    """A call in which operands that are read and written in one slot are one operand, and the
    numbers that its operands had. `slots` has the memory of each operand, below 0 for none.

    A plan lets a kernel write where it reads only if it reads each element at the point that
    writes it: both operands have the same strides.
    """
    kernel = call.kernel
    modes = [operand.mode for operand in kernel.operands]
    written = {slot: i for i, slot in enumerate(slots) if modes[i] in ("out", "inout")}
    same = {
        i: written[slot] for i, slot in enumerate(slots) if modes[i] == "in" and slot in written
    }
    if not same:
        return call, list(range(len(modes)))
    assert isinstance(kernel, Loops), "no other kernel is planned to write where it reads"
    kept = [i for i in range(len(modes)) if i not in same]
    numbers = {old: new for new, old in enumerate(kept)}
    for i, other in same.items():
        assert call.strides[i] == call.strides[other]
        assert kernel.operands[i].dtype is kernel.operands[other].dtype
        numbers[i] = numbers[other]

    def renumber(e: Expr) -> Expr | None:
        return leaf("load", e.dtype, numbers[e.data], *e.args) if e.fn == "load" else None

    reductions, stores = rewritten(kernel.reductions, kernel.stores, renumber)
    stores = [store._replace(operand=numbers[store.operand]) for store in stores]
    both = set(same.values())
    operands = tuple(
        kernel.operands[i]._replace(mode="inout") if i in both else kernel.operands[i] for i in kept
    )
    joined = loops(
        kernel.outer, kernel.inner, kernel.lane, operands, tuple(reductions), tuple(stores),
        kernel.cut,
    )  # fmt: skip
    return KernelCall(joined, call.sizes, tuple(call.strides[i] for i in kept)), kept
