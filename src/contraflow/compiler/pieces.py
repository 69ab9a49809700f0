"""Pieces of values: parts that are stored one by one, and what is left of the whole then."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple, cast

from contraflow import thresholds
from contraflow.compiler.tape import Tape, TapeLine, TapeOperand, Uses, Value, count_uses, renamed
from contraflow.operation import core
from contraflow.shapes import View, contiguous
from contraflow.spec import Spec


class PaddedPiece(NamedTuple):
    """A value among zeros: where it lies along one dim, and the line that pads or stores it."""

    dim: int
    start: int
    stop: int
    line: int


def join_pieces(tape: Tape) -> Tape:
    """Store pieces among zeros that are summed and do not overlap side by side instead.

    So are the gradients of the parts of a tensor: to sum them whole would take as many passes over
    all as there are parts.
    """
    sums = [i for i, line in enumerate(tape.lines) if line.op.is_sum]
    if not sums:
        return tape
    makers = {v: i for i, line in enumerate(tape.lines) for v in line.outs}
    uses = count_uses(tape)
    inner = set()  # sums that are part of others
    kept: dict[int, list[TapeLine]] = {}  # by the number of the line they replace
    same: dict[Value, Value] = {}
    result = tape.replaced([])
    for i in reversed(sums):
        if i in inner or not _is_plain_sum(tape, tape.lines[i]):
            continue
        parts, terms = _terms(tape, makers, uses, i)
        inner.update(parts)
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
        kept |= {number: [] for number in parts}
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
        result.lines += [renamed(new, same) for new in kept.get(i, [line])]
    return result.replaced(result.lines, same)


def _is_plain_sum(tape: Tape, line: TapeLine) -> bool:
    """Whether a line adds two values of the shape and dtype of their sum."""
    if not line.op.is_sum:
        return False
    specs = [tape.specs.get(x) for x in (*line.inputs, *line.outs)]  # type: ignore[arg-type]
    return specs.count(specs[-1]) == 3


def _terms(
    tape: Tape, makers: Mapping[Value, int], uses: Uses, root: int
) -> tuple[list[int], list[Value]]:
    """The lines of the sums that are used only by this sum, and all its terms, in order."""
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
    tape: Tape, makers: Mapping[Value, int], uses: Uses, v: Value, root: int
) -> PaddedPiece | None:
    """The piece that a term is, if it is a value put among zeros along one dim for this sum."""
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
    """Whether there are more pieces than one kernel should pad and sum as it reads them."""
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
    return line._replace(op=core.assign, inputs=inputs, params=region._asdict())


def first_parts_of_wholes(tape: Tape, uses: Uses) -> set[int]:
    """First assignments of chains that overwrite a whole value: its initial contents are dead."""
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
    """Whether parts of a value cover it."""
    known = sorted(part for part in parts if part is not None)
    if len(known) < len(parts) or known[0][0] != known[-1][0]:
        return False
    end = 0
    for _, start, stop in known:
        if start > end:
            return False
        end = max(end, stop)
    return end == spec.shape[known[0][0]]
