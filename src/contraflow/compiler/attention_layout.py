"""Lowering of attention: how its operands are read where they lie, and which of them are copied;
and how its results are written where other lines would put them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterator
from itertools import pairwise
from typing import NamedTuple

from contraflow.compiler.kernel import KernelCall, Limits, attention
from contraflow.compiler.lower import KernelUse, OperandPlace, TapeScope, is_access
from contraflow.compiler.narrow_layouts import rearranged_view
from contraflow.compiler.tape import Tape, TapeLine, Value, count_uses
from contraflow.shapes import Shape, View, contiguous, numel, rearranged, reshape_strides

_MOST_DIMS = 4  # with at most two leading dims, results of any strides are a batch of two axes
_STRIDED = ("map", "reduce", "view", "contract", "attention")  # lowerings that read any layout


class AttentionParts(NamedTuple):
    """The results of an attention line that others assign to parts of one value, one by one."""

    line: int  # of attention
    stores: tuple[int, ...]  # the lines that assign, in order
    layouts: dict[Value, View]  # by result: where its elements lie in the value
    value: Value  # the whole


def parted_attention(tape: Tape) -> Iterator[AttentionParts]:
    """Attention lines of which every result is assigned to a part of one value, and not read
    otherwise: as gradients of queries, keys and values are that are parts of one projection."""
    makers = _makers(tape)
    if not makers:
        return
    shown, uses = _views(tape), count_uses(tape)
    found: dict[int, list[tuple[int, Value, View]]] = defaultdict(list)
    for number, line in enumerate(tape.lines):
        source = line.inputs[-1] if line.op.is_assign else None
        if not isinstance(source, Value) or uses[source] > 1:
            continue
        x, view = shown.get(source) or (source, contiguous(tape.specs[source].shape))
        if x in makers and uses[x] == 1 and tape.specs[x].dtype is tape.specs[line.outs[0]].dtype:
            layout = rearranged(tape.specs[x].shape, view, View(**line.params))
            if layout is not None and _fits(tape, x):
                found[makers[x]].append((number, x, layout))
    for maker, stores in found.items():
        numbers = tuple(number for number, _, _ in stores)
        chained = all(
            tape.lines[b].inputs[0] == tape.lines[a].outs[0] and uses[tape.lines[a].outs[0]] == 1
            for a, b in pairwise(numbers)
        )
        if chained and len(stores) == len(tape.lines[maker].outs):
            layouts = {x: layout for _, x, layout in stores}
            yield AttentionParts(maker, numbers, layouts, tape.lines[numbers[-1]].outs[0])


def reordered_attention(tape: Tape, taken: Container[Value]) -> Iterator[tuple[int, Value, View]]:
    """Lines that copy a result of attention in another order, the result, and a layout in which it
    lies in this order in the first place; none of values that are `taken`, being so already."""
    makers = _makers(tape)
    if not makers:
        return
    shown, roots = _views(tape), set(tape.roots)
    readers: dict[Value, list[TapeLine]] = defaultdict(list)
    for line in tape.lines:
        for x in line.inputs:
            if isinstance(x, Value) and x in makers:
                readers[x].append(line)
    done: set[Value] = set()
    for number, line in enumerate(tape.lines):
        source = line.inputs[-1] if line.op.is_copy else None
        if not isinstance(source, Value):
            continue
        x, view = shown.get(source) or (source, contiguous(tape.specs[source].shape))
        if x not in makers or x in done or x in taken or not _fits(tape, x):
            continue
        (out,), shape = line.outs, tape.specs[x].shape
        if not roots.isdisjoint((x, out)) or tape.specs[x].dtype is not tape.specs[out].dtype:
            continue
        layout = rearranged(shape, view, contiguous(tape.specs[source].shape))
        if layout is not None and all(_reads(line, shape, layout) for line in readers[x]):
            done.add(x)
            yield number, x, layout


def _makers(tape: Tape) -> dict[Value, int]:
    """The attention line that makes each result of one."""
    lines = enumerate(tape.lines)
    return {v: i for i, line in lines if line.op.kind.lowering == "attention" for v in line.outs}


def _views(tape: Tape) -> dict[Value, tuple[Value, View]]:
    """The value that each view is one of, and the view."""
    found = {}
    for line in tape.lines:
        if line.op.kind.lowering == "view" and isinstance(line.inputs[0], Value):
            found[line.outs[0]] = (line.inputs[0], View(**line.params))
    return found


def _fits(tape: Tape, x: Value) -> bool:
    return len(tape.specs[x].shape) <= _MOST_DIMS


def _reads(line: TapeLine, shape: Shape, layout: View) -> bool:
    """Whether a line can read a value in another layout."""
    lowering = line.op.kind.lowering
    if lowering == "view":
        return rearranged_view(View(**line.params), shape, layout) is not None
    return lowering in _STRIDED


def lower_attention(
    scope: TapeScope,
    number: int,
    line: TapeLine,
    copied: Callable[[Value], Value],
    limits: Limits,
    parts: AttentionParts | None = None,
    rest: Value | None = None,
) -> Iterator[KernelUse]:
    """The kernels of an attention line: one for each of the `parts` of its op, or one for all where
    it may have as many operands.

    The leading dims of all operands are a batch of two axes, as the heads of examples are; an
    operand whose dims do not merge into two is read from a copy. Results that are `parts` of a
    value are written there, beside `rest`.
    """
    specs = scope.tape.specs
    tensors = [x for x in line.inputs if isinstance(x, Value)]
    (query, dtype), (key, _), (value, _) = (specs[x] for x in tensors[:3])
    lead = query[:-2]
    found = [scope.access(x) for x in tensors]
    layouts = parts.layouts if parts else {v: scope.layout(v) for v in line.outs}

    def copies(batch: Shape) -> int:
        operands = (*found, *layouts.items())
        return sum(_strides(x, lead, batch) is None for x in operands)

    batch = min(_batches(lead), key=copies)
    places, strides = [], []
    for x, access in zip(tensors, found):
        steps = _strides(access, lead, batch)
        if steps is None:
            access = (copied(x), contiguous(specs[x].shape))
            steps = _strides(access, lead, batch)
        assert steps is not None
        places.append(OperandPlace(access[0], access[1].offset))
        strides.append(steps)
    sizes = (*batch, query[-2], key[-2], query[-1], value[-1])
    made = line.op.extra["parts"]
    if len(made) > 1 and len(tensors) + len(line.outs) < limits.bindings:
        made = {"all": line.op.outs}
    for i, (part, names) in enumerate(made.items(), 1):
        results = [line.outs[line.op.outs.index(name)] for name in names]
        stored = [_strides((v, layouts[v]), lead, batch) or () for v in results]
        kernel = attention(dtype, dtype.compute, part, line.params["is_causal"])
        call = KernelCall(kernel, sizes, (*strides, *stored, ()))
        targets, before = [OperandPlace(v) for v in results], rest
        if parts:
            spec = scope.tape.specs[parts.value]
            rest = parts.value if i == len(made) else scope.tape.new(spec)
            targets = [OperandPlace(rest, layouts[v].offset) for v in results]
        bound = (*places, *targets, OperandPlace(line.params["scale"]))
        yield KernelUse(call, bound, number, before)


def _batches(lead: Shape) -> Iterator[Shape]:
    """The ways to see leading dims as two."""
    for split in range(len(lead) + 1):
        yield numel(lead[:split]), numel(lead[split:])


def _strides(access: object, lead: Shape, batch: Shape) -> Shape | None:
    """The strides of an operand over a batch and its own dims, None if its dims do not merge or it
    is not in memory."""
    if not is_access(access):
        return None
    assert isinstance(access, tuple)
    strides = access[1].strides
    merged = reshape_strides(lead, strides[: len(lead)], batch)
    return None if merged is None else (*merged, *strides[len(lead) :])
