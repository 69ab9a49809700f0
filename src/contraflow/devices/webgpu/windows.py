"""Steps over tensors that are larger than what a kernel may bind.

A buffer may be larger than a binding, so a kernel is bound to a window of it: the elements that its
call touches. A call that touches more than fits a window is replaced by several, which share out
the points of one of its axes; those of a product that share out k add to its result. Only where an
operand is read or written anywhere, as by an index, or where a result needs more of one than fits,
is the step refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from contraflow.compiler.kernel import Contraction, KernelCall, Loops, part_length
from contraflow.compiler.plan import Binding, KernelStep, Slot
from contraflow.devices.failures import StepRefused
from contraflow.dtypes import float32
from contraflow.expressions import expression as s
from contraflow.render.clike import source
from contraflow.render.clike.wgsl import element_bytes

ALIGNED = 256  # bytes at which a window may begin, on every device
# Points of a call at most: a thread adds the number of all to that of its own, in 32 bits.
POINTS = 1 << 29

_SUMMED = 4  # the number of a product's axis k
_OF_PRODUCT = ((0, 1, 2, 4), (0, 1, 4, 3), (0, 1, 2, 3))  # the axes of A, B and C among the sizes


@dataclass(eq=False, repr=False)
class PartStep(KernelStep):
    """A part of a step; `adds` says that it adds to what a part before it has stored."""

    adds: bool = False


class Extent(NamedTuple):
    """The elements of an operand that a call touches, counted from its first point's."""

    first: int
    end: int


def fit(slots: Sequence[Slot], limit: int) -> bool:
    """Whether each slot is within what a window of so many bytes holds, wherever it begins."""
    most = limit - ALIGNED  # a window begins before its first element
    return all(
        slot.numel <= POINTS and slot.numel * element_bytes(slot.dtype) <= most for slot in slots
    )


def divided(steps: Sequence[KernelStep], slots: Sequence[Slot], limit: int) -> list[PartStep]:
    """Steps of which each fits windows of so many bytes; they do what the given ones do."""
    whole = [PartStep(step.call, step.bindings, step.line, does=step.does) for step in steps]
    if fit(slots, limit):
        return whole
    return [part for step in whole for part in _parts(step, slots, limit - ALIGNED)]


def extent(step: KernelStep, slots: Sequence[Slot], operand: int) -> Extent:
    """The elements that a step touches of an operand in memory; all where that depends on values.

    They are counted from the element that the operand is bound to.
    """
    axes = _axes(step.call, operand)
    if axes is None:
        slot, offset = step.bindings[operand]
        return Extent(-offset, slots[slot].numel - offset)
    sizes = step.call.sizes
    ends = [(sizes[k] - 1) * t for k, t in zip(axes, step.call.strides[operand]) if sizes[k]]
    return Extent(sum(min(0, x) for x in ends), sum(max(0, x) for x in ends) + 1)


def _axes(call: KernelCall, operand: int) -> Sequence[int] | None:
    """The axes that the strides of an operand are about; None if these do not say everything."""
    kernel = call.kernel
    if isinstance(kernel, Contraction) and kernel.digits is None:
        return _OF_PRODUCT[operand]
    if isinstance(kernel, Loops) and operand not in kernel.gathered:
        return range(len(call.sizes))
    return None


def _parts(step: PartStep, slots: Sequence[Slot], most: int) -> Iterator[PartStep]:
    """A step, or several that do the same and touch at most so many bytes of each operand."""
    large = {}
    for i in source.in_memory(step.call.kernel):
        first, end = extent(step, slots, i)
        nbytes = (end - first) * element_bytes(step.call.kernel.operands[i].dtype)
        if nbytes > most or (end - first > POINTS and _axes(step.call, i) is not None):
            large[i] = nbytes
    if not large:
        yield step
        return
    worst = max(large, key=lambda i: large[i])
    found = _halves(step, worst)
    if found is None:
        raise StepRefused(
            f"its kernel needs {large[worst]:,} bytes of one tensor at a time, and this adapter of "
            f"webgpu lets it have {most:,}. Use smaller batches, parts of the tensor, or the cpu: "
            "device='cpu'",
            step.line,
        )
    for half in found:
        yield from _parts(half, slots, most)


def _halves(step: PartStep, operand: int) -> tuple[PartStep, PartStep] | None:
    """Two steps that do what one does, by an axis along which they touch less of an operand."""
    call, kernel = step.call, step.call.kernel
    axes = _axes(call, operand)
    if axes is None:
        return None
    reach = {k: max(call.sizes[k] - 1, 0) * abs(t) for k, t in zip(axes, call.strides[operand])}
    free = [k for k in _independent(call) if reach.get(k)]
    if free:
        axis = max(free, key=lambda k: reach[k])
        half = call.sizes[axis] // 2
        second = _part(step, {axis: (half, call.sizes[axis] - half)})
        second.adds = step.adds or (isinstance(kernel, Contraction) and axis == _SUMMED)
        return _part(step, {axis: (0, half)}), second
    if not isinstance(kernel, Loops) or kernel.cut is None or not reach.get(kernel.cut):
        return None
    counter, size = kernel.outer - 1, call.sizes[kernel.cut]
    parts = call.sizes[counter]
    if parts == 1 or not {counter, kernel.cut}.isdisjoint(_read_axes(kernel)):
        return None
    half = parts // 2
    elements = min(half * part_length(size, parts), size)
    return (
        _part(step, {counter: (0, half), kernel.cut: (0, elements)}),
        _part(step, {counter: (half, parts - half), kernel.cut: (elements, size - elements)}),
    )


def _independent(call: KernelCall) -> list[int]:
    """The axes whose points may be shared out: those that are independent of each other, and whose
    coordinates nothing is computed from. Sums that are stored as they are may be added to."""
    kernel = call.kernel
    if isinstance(kernel, Contraction):
        adds = kernel.dtype is kernel.accumulate is float32
        return list(range(_SUMMED + adds))
    assert isinstance(kernel, Loops)
    counted = kernel.outer - 1 if kernel.cut is not None else None
    read = _read_axes(kernel)
    return [k for k in range(kernel.outer) if k != counted and k not in read]


def _read_axes(kernel: Loops) -> set[int]:
    return {e.data for e in s.walk(kernel.roots) if e.fn == "axis"}


def _part(step: PartStep, ranges: dict[int, tuple[int, int]]) -> PartStep:
    """The part of a step that has some points of some axes: (first, count) for each."""
    call = step.call
    sizes = tuple(ranges[k][1] if k in ranges else n for k, n in enumerate(call.sizes))
    bindings = list(step.bindings)
    for i, strides in enumerate(call.strides):
        axes = _OF_PRODUCT[i] if isinstance(call.kernel, Contraction) else range(len(sizes))
        moved = sum(ranges[k][0] * t for k, t in zip(axes, strides) if k in ranges)
        slot, offset = bindings[i]
        bindings[i] = Binding(slot, offset + moved)
    return replace(step, call=call._replace(sizes=sizes), bindings=tuple(bindings))
