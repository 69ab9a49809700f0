"""Passes: a tape in, a tape with the same meaning out. They know nothing of any device."""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain, pairwise
from typing import Any, NamedTuple, cast

from contraflow import thresholds
from contraflow.compiler.spans import cut_products
from contraflow.compiler.tape import Tape, TapeLine, TapeOperand, Value
from contraflow.dtypes import DType, bool_, float64, int64, of_number
from contraflow.expressions.expression import leaf, walk
from contraflow.operation.kinds import Creating, Elementwise
from contraflow.operation.op import REGISTRY, Op
from contraflow.operation.reference import quiet
from contraflow.shapes import View, contiguous, numel
from contraflow.spec import Given, Spec


def count_uses(tape: Tape) -> Counter[TapeOperand]:
    """How often each value is read, or is a result; numbers are counted too."""
    uses: Counter[TapeOperand] = Counter(chain.from_iterable([line.inputs for line in tape.lines]))
    uses.update(tape.roots)
    return uses


def eliminate_dead(tape: Tape) -> Tape:
    """Drop lines whose results nobody uses."""
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
            line = _renamed(line, same)
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


def _renamed(line: TapeLine, names: Mapping[Value, Value]) -> TapeLine:
    """A line with other names for some of the values it reads."""
    if names.keys().isdisjoint(line.inputs):
        return line
    inputs = [names.get(x, x) if isinstance(x, Value) else x for x in line.inputs]
    return line._replace(inputs=tuple(inputs))


def fold_whole_assignments(tape: Tape) -> Tape:
    """A value that replaces all of another, in order, is that value in the other's shape."""
    views = {v for line in tape.lines if line.op.is_view for v in line.outs}

    def folded(line: TapeLine) -> TapeLine:
        if not line.op.is_assign or line.inputs[1] in views:
            return line
        whole = contiguous(tape.specs[line.outs[0]].shape)
        region = View(**line.params)
        if region.offset or not region.is_contiguous or numel(region.shape) != numel(whole.shape):
            return line
        op, params = REGISTRY["strided"], whole._asdict()
        return line._replace(op=op, inputs=(line.inputs[1],), params=params)

    return tape.replaced(map(folded, tape.lines))


class PaddedPiece(NamedTuple):
    """A value among zeros: where it lies along one dim, and the line that pads or stores it."""

    dim: int
    start: int
    stop: int
    line: int


def join_pieces(tape: Tape) -> Tape:
    """Pieces among zeros that are summed and do not overlap are stored side by side instead.

    So are the gradients of the parts of a tensor: to sum them whole would take as many passes over
    all as there are parts.
    """
    makers = {v: i for i, line in enumerate(tape.lines) for v in line.outs}
    uses = count_uses(tape)
    inner = set()  # sums that are part of others
    kept: dict[int, list[TapeLine]] = {}  # by the number of the line they replace
    same: dict[Value, Value] = {}
    result = tape.replaced([])
    for i in reversed(range(len(tape.lines))):
        if i in inner or not _is_plain_sum(tape, tape.lines[i]):
            continue
        sums, terms = _terms(tape, makers, uses, i)
        inner.update(sums)
        pieces = {v: p for v in terms if (p := _piece(tape, makers, uses, v, i)) is not None}
        rows = [row for row in _rows(pieces.values()) if _is_worth_joining(tape, row)]
        if not rows:
            continue
        for row in rows:
            row.sort(key=lambda piece: piece.line)
            for before, piece in pairwise(row):
                kept[piece.line] = [_stored_beside(tape, before, piece)]
        gone = {v for row in rows for p in row[:-1] for v in tape.lines[p.line].outs}
        left = [v for v in terms if v not in gone]
        kept |= {number: [] for number in sums}
        root = tape.lines[i]
        kept[i] = []
        total = left[0]
        for n, term in enumerate(left[1:], 2):
            outs = root.outs if n == len(left) else (result.new(tape.specs[root.outs[0]]),)
            kept[i].append(root._replace(outs=outs, inputs=(total, term)))
            (total,) = outs
        if len(left) == 1:
            same[root.outs[0]] = total
    if not kept:
        return tape
    for i, line in enumerate(tape.lines):
        result.lines += [_renamed(new, same) for new in kept.get(i, [line])]
    return result.replaced(result.lines, same)


def _is_plain_sum(tape: Tape, line: TapeLine) -> bool:
    """Whether a line adds two values of the shape and dtype of their sum."""
    if not line.op.is_sum:
        return False
    specs = [tape.specs.get(x) for x in (*line.inputs, *line.outs)]  # type: ignore[arg-type]
    return specs.count(specs[-1]) == 3


def _terms(
    tape: Tape, makers: Mapping[Value, int], uses: Counter[TapeOperand], root: int
) -> tuple[list[int], list[Value]]:
    """The sums that only serve this one, by line, and the terms it has in all, in order."""
    sums, terms = [], []
    stack = [*reversed(tape.lines[root].inputs)]
    while stack:
        v = cast(Value, stack.pop())
        i = makers.get(v, -1)
        line = tape.lines[i]
        alike = line.region == tape.lines[root].region
        if i >= 0 and uses[v] == 1 and alike and _is_plain_sum(tape, line):
            sums.append(i)
            stack += reversed(line.inputs)
        else:
            terms.append(v)
    return sums, terms


def _piece(
    tape: Tape, makers: Mapping[Value, int], uses: Counter[TapeOperand], v: Value, root: int
) -> PaddedPiece | None:
    """What a term is, if it is a value that was put among zeros along one dim for this sum."""
    i = makers.get(v, -1)
    line = tape.lines[i]
    if i < 0 or uses[v] > 1 or line.region != tape.lines[root].region:
        return None
    shape = tape.specs[v].shape
    if line.op.is_padding and _is_zero(line.inputs[1]):
        padded = [d for d, pads in enumerate(line.params["pads"]) if any(pads)]
        pads = line.params["pads"][padded[0]] if len(padded) == 1 else (-1, -1)
        return (
            None
            if min(pads) < 0
            else PaddedPiece(padded[0], pads[0], shape[padded[0]] - pads[1], i)
        )
    if line.op.is_assign:
        base = makers.get(cast(Value, line.inputs[0]), -1)
        zeros = base >= 0 and tape.lines[base].op.is_fill
        if zeros and _is_zero(tape.lines[base].inputs[0]):
            found = _part(contiguous(shape), View(**line.params))
            return None if found is None else PaddedPiece(*found, i)
    return None


def _is_zero(x: TapeOperand) -> bool:
    return type(x) in (bool, int, float) and x == 0


def _part(whole: View, region: View) -> tuple[int, int, int] | None:
    """The dim along which a region is a part of a whole, its start and its stop."""
    for dim, (size, stride) in enumerate(zip(whole.shape, whole.strides)):
        start = region.offset // max(1, stride)
        if start < size and whole.select(dim, start) == region:
            return dim, start, start + 1
        stop = start + region.shape[dim] if dim < len(region.shape) else 0
        if start < stop <= size and whole.slice(dim, start, stop, 1) == region:
            return dim, start, stop
    return None


def _is_worth_joining(tape: Tape, row: list[PaddedPiece]) -> bool:
    """Whether there are more pieces than one kernel sums, which pads them as it reads them."""
    stored = any(tape.lines[piece.line].op.is_assign for piece in row)
    return len(row) > (1 if stored else thresholds.padded_pieces)


def _rows(pieces: Iterable[PaddedPiece]) -> list[list[PaddedPiece]]:
    """Pieces in rows along one dim, without overlaps, as few as possible."""
    rows: list[list[PaddedPiece]] = []
    ends: list[tuple[int, int, int]] = []  # dim, where a row ends, its number
    for piece in sorted(pieces):
        if ends and ends[0][0] < piece.dim:
            ends = []
        if ends and ends[0][1] <= piece.start:
            number = heapq.heappop(ends)[2]
        else:
            number = len(rows)
            rows.append([])
        rows[number].append(piece)
        heapq.heappush(ends, (piece.dim, piece.stop, number))
    return rows


def _stored_beside(tape: Tape, before: PaddedPiece, piece: PaddedPiece) -> TapeLine:
    """The line that stores a piece into what holds the pieces before it."""
    line, base = tape.lines[piece.line], tape.lines[before.line].outs[0]
    if line.op.is_assign:
        return line._replace(inputs=(base, line.inputs[1]))
    whole = contiguous(tape.specs[line.outs[0]].shape)
    region = whole.slice(piece.dim, piece.start, piece.stop, 1)
    inputs = (base, line.inputs[0])
    return line._replace(op=REGISTRY["assign"], inputs=inputs, params=region._asdict())


def first_parts_of_wholes(tape: Tape) -> set[int]:
    """First assignments of chains that overwrite a whole value: its initial contents are dead."""
    uses = count_uses(tape)
    # The first line of those that assigned the parts of a value.
    chains: dict[TapeOperand, int] = {}
    parts: dict[int, list[tuple[int, int, int] | None]] = defaultdict(list)
    for i, line in enumerate(tape.lines):
        if line.op.is_assign:
            base, (out,) = cast(Value, line.inputs[0]), line.outs
            first = chains[out] = chains.get(base, i) if uses[base] == 1 else i
            parts[first].append(_part(contiguous(tape.specs[out].shape), View(**line.params)))
    return {i for i, found in parts.items() if _cover(tape.specs[tape.lines[i].outs[0]], found)}


def _cover(spec: Spec, parts: list[tuple[int, int, int] | None]) -> bool:
    """Whether there is nothing outside of some parts of a value."""
    known = sorted(part for part in parts if part is not None)
    if len(known) < len(parts) or known[0][0] != known[-1][0]:
        return False
    end = 0
    for _, start, stop in known:
        if start > end:
            return False
        end = max(end, stop)
    return end == spec.shape[known[0][0]]


def own_results(tape: Tape) -> Tape:
    """Give each result that is an input, a view or another result memory of its own, by a copy."""
    views = {v for line in tape.lines if line.op.is_view for v in line.outs}
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
        if (
            line.op.kind.pointwise
            and not tape.specs[line.outs[0]].shape  # nor do other results have dims
            and known.issuperset([x for x in line.inputs if type(x) is Value])
            and _means_the_same_wide(tape, line)
        ):
            known.update(line.outs)
    return known


def _means_the_same_wide(tape: Tape, line: TapeLine) -> bool:
    """Whether float64 and int64, in which the host computes, give what the line's dtypes do.

    One sum, product, quotient or root in float64, rounded to fewer bits, is what those bits give,
    which is not so of two steps. A number that is given in a dtype is rounded to it. Integers of
    fewer bits would not wrap, and a bitcast would see other bits.
    """
    if isinstance(line.op.kind, Creating) and not _is_exact(tape, line):
        return False
    given = tape.given(line.inputs)
    own = [x.dtype if isinstance(x, Spec) else of_number(x) for x in given]
    dtypes = own + [tape.specs[v].dtype for v in line.outs]
    if not all(d.is_floating_point or d in (bool_, int64) for d in dtypes):
        return False
    # Which rows a body has depends on the dtypes alone, so a number may stand for all of its kind.
    alike = tuple(x if isinstance(x, Spec) else type(x)(1) for x in given)
    return _rounds_the_same(line.op, alike, tuple(map(type, alike)), tuple(line.params.items()))


# What has no more digits than its arguments, beside what rounds once.
_EXACT = frozenset((
    "input", "const", "cast", "neg", "abs", "floor", "ceil", "trunc", "rint", "max", "min",
    "select", "isnan", "lt", "le", "gt", "ge", "eq", "ne", "and", "or", "xor", "not",
))  # fmt: skip
_ROUNDS_ONCE = frozenset(("add", "sub", "mul", "div", "sqrt"))


@lru_cache(maxsize=1024)
def _rounds_the_same(
    op: Op, given: tuple[Given, ...], kinds: tuple[type, ...], params: tuple[tuple[str, Any], ...]
) -> bool:
    """Whether the body of an op, in float64 and its results rounded, gives what it gives in its own
    dtypes. `kinds` tell 1, 1.0 and True apart, which are equal."""
    casts, _ = op.types(given, dict(params))
    own = (x.dtype if isinstance(x, Spec) else of_number(x) for x in given)
    leaves = [leaf("input", (c or d).compute, i) for i, (c, d) in enumerate(zip(casts, own))]
    body = op.kind.expression(op, given, dict(params), leaves)
    rows = list(walk(body))
    if all(not e.dtype.is_floating_point or e.dtype is float64 for e in rows):
        return all(e.fn != "bitcast" for e in rows)
    inner = walk([a for e in body for a in (e.args if e.fn in _ROUNDS_ONCE else (e,))])
    return all(e.fn in _EXACT and _is_number_of(e.dtype, e.data) for e in inner)


def _is_number_of(dtype: DType, x: Any) -> bool:
    """Whether a number that a body holds is one of its dtype, or there is none."""
    if not isinstance(x, float) or math.isnan(x) or not dtype.is_floating_point:
        return True
    return float(quiet.run(dtype.numpy.type, x)) == x


def _is_exact(tape: Tape, line: TapeLine) -> bool:
    """Whether the numbers that a tensor is made of are numbers of its dtype."""
    dtype = tape.specs[line.outs[0]].dtype
    return all(isinstance(x, Value) or _is_number_of(dtype, float(x)) for x in line.inputs)


def wide_numbers(tape: Tape) -> list[TapeLine]:
    """The lines of arithmetic among host scalars that rounds as Python's does, if at all."""
    known = {v for v, role in tape.inputs.items() if role == "scalar"}
    lines = []
    for line in tape.lines:
        if is_wide(tape, line, known):
            known.update(line.outs)
            lines.append(line)
    return lines


def is_wide(tape: Tape, line: TapeLine, numbers: set[Value]) -> bool:
    """Whether a line computes with some of these numbers alone, and gives such numbers again."""
    if not isinstance(line.op.kind, Elementwise) or numbers.isdisjoint(line.inputs):
        return False
    alone = numbers.issuperset([x for x in line.inputs if type(x) is Value])
    wide = all(tape.specs[v].dtype in (bool_, int64, float64) for v in line.outs)
    return alone and wide and _means_the_same_wide(tape, line)


def optimize(tape: Tape) -> Tape:
    """The passes every program goes through, in order."""
    tape = join_pieces(fold_whole_assignments(merge_common(tape)))
    return own_results(eliminate_dead(cut_products(tape)))
