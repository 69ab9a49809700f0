"""Passes: a tape in, a tape with the same meaning out. They know nothing of any device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from contraflow.op import REGISTRY
from contraflow.tape import Tape, TapeLine, Value


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
            # 1, 1.0 and True are equal as keys and are not the same operand.
            literals = tuple(None if isinstance(x, Value) else (type(x), repr(x)) for x in inputs)
            params = tuple(line.params.items())
            key = (line.op.name, inputs, literals, params, line.region)
            found = seen.setdefault(key, line.outs)
            if found is line.outs:
                yield replace(line, inputs=inputs)
            else:
                same.update(zip(line.outs, found))

    kept = list(lines())
    return tape.replaced(kept, same)


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
    return own_results(eliminate_dead(merge_common(tape)))
