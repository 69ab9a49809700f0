"""Passes: a tape in, a tape with the same meaning out. They know nothing of any device."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from contraflow.compiler.pieces import join_pieces
from contraflow.compiler.spans import cut_products
from contraflow.compiler.tape import Tape, TapeLine, Value, renamed
from contraflow.operation import core
from contraflow.shapes import View, contiguous, numel


def eliminate_dead(tape: Tape) -> Tape:
    """Drop lines whose results nothing uses."""
    live = set(tape.roots)
    kept = []
    for line in reversed(tape.lines):
        if not live.isdisjoint(line.outs):
            live.update([x for x in line.inputs if type(x) is Value])
            kept.append(line)
    return tape.replaced(reversed(kept))


def merge_common(tape: Tape) -> Tape:
    """Compute equal lines once, unless they have effects.

    Never across checkpoint regions: they recompute on purpose.
    """
    seen: dict[object, tuple[Value, ...]] = {}
    same: dict[Value, Value] = {}

    def lines() -> Iterator[TapeLine]:
        for line in tape.lines:
            if same:
                line = renamed(line, same)
            # As text: 1, 1.0 and True are equal and not the same operand, NaN is not equal to NaN.
            operands = tuple([x if type(x) is Value else repr(x) for x in line.inputs])
            params = tuple(line.params.items())
            key = (line.op, operands, params, line.region)
            found = line.outs if line.op.effects else seen.setdefault(key, line.outs)
            if found is line.outs:
                yield line
            else:
                same.update(zip(line.outs, found))

    kept = list(lines())
    return tape.replaced(kept, same)


def fold_whole_assignments(tape: Tape) -> Tape:
    """Replace an assignment of a whole value by the assigned value, in the other's shape."""
    views = {v for line in tape.lines if line.op.is_view for v in line.outs}

    def folded(line: TapeLine) -> TapeLine:
        if not line.op.is_assign or line.inputs[1] in views:
            return line
        whole = contiguous(tape.specs[line.outs[0]].shape)
        region = View(**line.params)
        if region.offset or not region.is_contiguous or numel(region.shape) != numel(whole.shape):
            return line
        op, params = core.strided, whole._asdict()
        return line._replace(op=op, inputs=(line.inputs[1],), params=params)

    return tape.replaced(map(folded, tape.lines))


def own_results(tape: Tape) -> Tape:
    """Give each result that is an input, a view or another result memory of its own, by a copy."""
    views = {v for line in tape.lines if line.op.is_view for v in line.outs}
    taken = {*tape.inputs, *views}
    result = tape.replaced(tape.lines)

    def own(v: Value) -> Value:
        if v in taken:
            (v,) = result.add(core.clone, (v,), {})
        taken.add(v)
        return v

    result.writes = {k: own(v) for k, v in tape.writes.items() if k != v}
    result.outputs = [own(v) for v in tape.outputs]
    return result


# The passes of every program, in order.
PASSES: tuple[Callable[[Tape], Tape], ...] = (
    merge_common,
    fold_whole_assignments,
    join_pieces,
    cut_products,
    eliminate_dead,
    own_results,
)


def optimize(tape: Tape) -> Tape:
    """The tape after all passes."""
    for run in PASSES:
        tape = run(tape)
    return tape
