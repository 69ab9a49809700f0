"""Passes: a tape in, a tape with the same meaning out. They know nothing of any device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

from contraflow.op import REGISTRY
from contraflow.shapes import View, contiguous
from contraflow.tape import Operand, Tape, TapeLine, Value


def eliminate_dead(tape: Tape) -> Tape:
    """Drop lines whose results nobody uses."""
    live = set(tape.roots)
    kept = []
    for line in reversed(tape.lines):
        if any(v in live for v in line.outs):
            live.update(x for x in line.inputs if isinstance(x, Value))
            kept.append(line)
    return tape.replaced(reversed(kept))


def merge_common(tape: Tape) -> Tape:
    """Compute equal lines once. Never across checkpoint regions: they recompute on purpose."""
    seen: dict[object, tuple[Value, ...]] = {}
    same: dict[Value, Value] = {}

    def lines() -> Iterator[TapeLine]:
        for line in tape.lines:
            inputs = tuple(same.get(x, x) if isinstance(x, Value) else x for x in line.inputs)
            # As text: 1, 1.0 and True are equal and not the same operand, NaN is not equal to NaN.
            operands = tuple(x if isinstance(x, Value) else repr(x) for x in inputs)
            params = tuple(line.params.items())
            key = (line.op.name, operands, params, line.region)
            found = seen.setdefault(key, line.outs)
            if found is line.outs:
                yield replace(line, inputs=inputs)
            else:
                same.update(zip(line.outs, found))

    kept = list(lines())
    return tape.replaced(kept, same)


def fold_transposes(tape: Tape) -> Tape:
    """A copy of a transposed product becomes the product of the transposed factors, swapped."""
    makers = {v: line for line in tape.lines for v in line.outs}
    uses = Counter(x for line in tape.lines for x in line.inputs if isinstance(x, Value))
    uses.update(tape.roots)
    result = tape.replaced([])
    for line in tape.lines:
        product = _transposed_product(tape, makers, uses, line)
        if product is None:
            result.lines.append(line)
            continue
        place = (line.line, line.region)
        a, b = (_transposed(result, makers, x, *place) for x in product.inputs)
        result.lines.append(replace(line, op=product.op, inputs=(b, a)))
    return result


def _transposed_product(
    tape: Tape, makers: Mapping[Value, TapeLine], uses: Counter[Value], line: TapeLine
) -> TapeLine | None:
    """The matmul whose transpose `line` copies and nobody else sees, if that is what it does."""
    view = makers.get(line.inputs[0]) if line.op.name == "clone" else None  # type: ignore[arg-type]
    if view is None or view.op.name != "strided" or uses[view.outs[0]] > 1:
        return None
    product = makers.get(view.inputs[0])  # type: ignore[arg-type]
    if product is None or product.op.name != "matmul" or uses[product.outs[0]] > 1:
        return None
    shape = tape.specs[product.outs[0]].shape
    swapped = contiguous(shape).permute((*range(len(shape) - 2), len(shape) - 1, len(shape) - 2))
    return product if View(**view.params) == swapped else None


def _transposed(
    tape: Tape, makers: Mapping[Value, TapeLine], x: Operand, line: Any, region: int
) -> Value:
    """The last two dims of a value exchanged, as a view of what it is a view of."""
    assert isinstance(x, Value)
    view = contiguous(tape.specs[x].shape)
    maker = makers.get(x)
    if maker is not None and maker.op.name == "strided":
        x, view = cast(Value, maker.inputs[0]), View(**maker.params)
    rank = len(view.shape)
    swapped = view.permute((*range(rank - 2), rank - 1, rank - 2))
    if swapped == contiguous(swapped.shape) and swapped.shape == tape.specs[x].shape:
        return x
    (out,) = tape.add(REGISTRY["strided"], (x,), swapped._asdict(), line, region)
    return out


def own_results(tape: Tape) -> Tape:
    """Give each result that is an input, a view or another result memory of its own, by a copy."""
    views = {v for line in tape.lines if line.op.name == "strided" for v in line.outs}
    taken = {*tape.inputs, *views}
    result = tape.replaced(tape.lines)

    def own(v: Value) -> Value:
        if v in taken:
            (v,) = result.add(REGISTRY["clone"], (v,), {})
        taken.add(v)
        return v

    result.writes = {k: own(v) for k, v in tape.writes.items() if k != v}
    result.outputs = [own(v) for v in tape.outputs]
    return result


def host_values(tape: Tape) -> set[Value]:
    """The values computed from host scalars and literals alone: they are known before a replay."""
    known = {v for v, role in tape.inputs.items() if role == "scalar"}
    for line in tape.lines:
        values = {x for x in line.inputs if isinstance(x, Value)}
        single = all(not tape.specs[v].shape for v in line.outs)
        if single and line.op.kind.name in ("elementwise", "create") and known >= values:
            known.update(line.outs)
    return known


def optimize(tape: Tape) -> Tape:
    """The passes every program goes through, in order."""
    return own_results(eliminate_dead(fold_transposes(merge_common(tape))))
