"""Lowering of attention: how its operands are read where they lie, and which of them are copied."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from contraflow.compiler.kernel import KernelCall, attention
from contraflow.compiler.lower import KernelUse, OperandPlace, TapeScope, is_access
from contraflow.compiler.tape import TapeLine, Value
from contraflow.shapes import Shape, contiguous, numel, reshape_strides


def lower_attention(
    scope: TapeScope, number: int, line: TapeLine, copied: Callable[[Value], Value]
) -> Iterator[KernelUse]:
    """The kernels of an attention line: one for each of the `parts` of its op.

    The leading dims of all operands are a batch of two axes, as the heads of examples are; an
    operand whose dims do not merge into two is read from a copy.
    """
    specs = scope.tape.specs
    tensors = [x for x in line.inputs if isinstance(x, Value)]
    (query, dtype), (key, _), (value, _) = (specs[x] for x in tensors[:3])
    lead = query[:-2]
    found = [scope.access(x) for x in tensors]

    def copies(batch: Shape) -> int:
        return sum(_strides(x, lead, batch) is None for x in found)

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
    for part, names in line.op.extra["parts"].items():
        results = [line.outs[line.op.outs.index(name)] for name in names]
        layouts = [_strides((v, scope.layout(v)), lead, batch) or () for v in results]
        kernel = attention(dtype, dtype.compute, part, line.params["is_causal"])
        call = KernelCall(kernel, sizes, (*strides, *layouts, ()))
        bound = (*places, *map(OperandPlace, results), OperandPlace(line.params["scale"]))
        yield KernelUse(call, bound, number)


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
