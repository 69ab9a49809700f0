"""Products and the maps over their results as one step, which saves a dispatch and two passes over
the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from contraflow.compiler.kernel import READS, WRITES, Contraction
from contraflow.compiler.plan import SCALARS, Binding, KernelStep, Slot
from contraflow.render.clike import fused, source, wgsl


def with_epilogues(steps: Sequence[KernelStep], slots: Sequence[Slot]) -> list[KernelStep]:
    """The same work in fewer steps: a product takes the map over its result along, where that may
    run as early."""
    found: list[KernelStep | None] = list(steps)
    last_risk = max((i for i, step in enumerate(steps) if step.may_fail), default=-1)
    for i, step in enumerate(steps):
        if not _takes_epilogue(step):
            continue
        for j in range(i + 1, len(steps)):
            following = found[j]
            if following is None or (i <= last_risk < j):
                continue
            result = _operand_of_result(step, following)
            if result is None:
                continue
            others = [x for x in found[i + 1 : j] if x is not None]
            if _may_come_earlier(step, following, others, slots):
                later = [x for x in found[i + 1 :] if x is not None and x is not following]
                (made,) = step.writes
                keeps = slots[made].kind != "temp" or any(made in _read_slots(x) for x in later)
                joined = _joined(step, following, result, keeps)
                if len(source.in_memory(joined.call.kernel)) <= wgsl.STORAGE_BUFFERS:
                    found[i], found[j] = joined, None
            break  # others that read the result come after it
    return [step for step in found if step is not None]


def _takes_epilogue(step: KernelStep) -> bool:
    kernel = step.call.kernel
    if not isinstance(kernel, Contraction):
        return False
    return wgsl.variant_of(step.call).tiling is not None


def _operand_of_result(product: KernelStep, step: KernelStep) -> int | None:
    """The operand of a map that reads the result of a product, if it may follow that."""
    result = product.bindings[2]
    numbers = [
        i for i in source.in_memory(step.call.kernel) if step.bindings[i].slot == result.slot
    ]
    if len(numbers) != 1 or step.bindings[numbers[0]] != result:
        return None
    return numbers[0] if fused.may_follow(product.call, step.call, numbers[0]) else None


def _may_come_earlier(
    product: KernelStep, step: KernelStep, between: Sequence[KernelStep], slots: Sequence[Slot]
) -> bool:
    """Whether a step may be done with a product before it: no other touches what it writes, or
    writes what it reads, and the product does not read what it writes."""
    written = _memories(step, WRITES, slots)
    if not written.isdisjoint(_memories(product, ("in", "out", "inout"), slots)):
        return False
    touched = written | _memories(step, READS, slots)
    return all(
        written.isdisjoint(_memories(other, (*READS, *WRITES), slots))
        and touched.isdisjoint(_memories(other, WRITES, slots))
        for other in between
    )


def _memories(
    step: KernelStep, modes: Sequence[str], slots: Sequence[Slot]
) -> set[tuple[str, int]]:
    """The memory of the operands of some modes: an arena each, or a slot of the caller."""
    found = set()
    for operand, binding in zip(step.call.kernel.operands, step.bindings):
        if operand.mode in modes and binding.slot != SCALARS:
            slot = slots[binding.slot]
            found.add(("arena", slot.arena) if slot.kind == "temp" else ("slot", binding.slot))
    return found


def _read_slots(step: KernelStep) -> set[int]:
    operands = zip(step.call.kernel.operands, step.bindings)
    return {binding.slot for operand, binding in operands if operand.mode in READS}


def _joined(product: KernelStep, step: KernelStep, result: int, keeps: bool) -> KernelStep:
    call = fused.fused(product.call, step.call, result, keeps)
    others = [binding for i, binding in enumerate(step.bindings) if i != result]
    coordinates = [Binding(0)] * (len(call.kernel.operands) - len(product.bindings) - len(others))
    bindings = (*product.bindings, *others, *coordinates)
    return replace(product, call=call, bindings=bindings, does=(*product.does, *step.does))
