"""Products of one row with windows as LLVM IR: convolutions in which each channel has its filter.

There is one row of A, so that no panel is worth packing: windows are read where they lie, in pieces
of up to a vector that lie evenly apart. `window.py` lists the pieces and the taps, which are alike
in all channels, with where each lies in B:

    the number of whole pieces, and of ragged ones, which have fewer elements than a vector
    per piece   its offset in B, its number along C or A, its elements

Whole ones stand at the front, ragged ones at the back, from the last on. Of a result that has a
column for each place, pieces lie along its columns, and each meets all taps in order. Of one that
has a column for each tap (the gradient of a filter), pieces lie along k, and each meets several
taps. Vectors have 32 bytes at most, which rows of small images fill, whatever the processor has: so
the sums of lanes, and their bits, are the same everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from contraflow.compiler.kernel import Contraction
from contraflow.render.llvm.panels import DEPTH
from contraflow.render.llvm.single_row import SingleRowRenderer
from contraflow.render.llvm.text import CodeStretch, FunctionText, mangled, memory, wide

PIECES = DEPTH  # in a table, and so the steps that lanes add up from zero
HEADER, WORDS = 2, 3  # words before the pieces of a table, and of each piece
TAPS = 9  # that a piece along k meets at once
VECTOR_BYTES = 32


class _Way(NamedTuple):
    """How the elements of pieces are read, how many pieces at once, and which ones: a number, and
    how many of these are among the whole ones."""

    read: Callable[[CodeStretch, str, Sequence[str]], str]
    ragged: bool
    at_once: int
    pieces: str
    whole: str


class WindowRows(SingleRowRenderer):
    """Writes the functions of contractions of one row with windows."""

    def __init__(self, kernel: Contraction, name: str) -> None:
        super().__init__(kernel, name, VECTOR_BYTES, 1, 1)

    def text(self) -> str:
        """The functions."""
        return "\n".join([self._along_places(), self._along_depth()])

    # --- pieces --------------------------------------------------------------------------------

    def _ways(self, code: CodeStretch) -> list[_Way]:
        """The loops over all pieces: by how far apart elements lie, some have none."""
        whole, ragged = code.word("%pieces", 0), code.word("%pieces", 1)
        beside, second = self._flag(code, "%stride, 1"), self._flag(code, "%stride, 2")
        even = self._any(code, beside, second)

        def chosen(flag: str, count: str, otherwise: str = "0") -> str:
            return code.let(f"select i1 {flag}, i64 {count}, i64 {otherwise}")

        rest = chosen(even, "0", whole)
        every = code.let(f"add i64 {rest}, {ragged}")
        return [
            _Way(self._beside, False, 8, *[chosen(beside, whole)] * 2),
            _Way(self._every_second, False, 4, *[chosen(second, whole)] * 2),
            _Way(self._beside, True, 4, chosen(beside, ragged), "0"),
            _Way(self._every_second, True, 2, chosen(second, ragged), "0"),
            _Way(self._lanes_apart, True, 4, chosen(even, "0", every), rest),
        ]

    def _beside(self, code: CodeStretch, pointer: str, masks: Sequence[str]) -> str:
        """A vector of elements that lie side by side, zeros where a mask is not set."""
        return self._lanes_at(code, pointer, masks[0] if masks else None)

    def _every_second(self, code: CodeStretch, pointer: str, masks: Sequence[str]) -> str:
        """A vector of elements that lie two apart: of two that overlap, so that none is read which
        lies behind the last."""
        odd = self.width - 1
        starts = (pointer, code.at(pointer, memory(self.sum), str(odd)))
        low, high = map(self._lanes_at, [code] * 2, starts, masks[1:] or (None, None))
        lanes = [2 * lane if 2 * lane <= odd else 2 * lane + 1 for lane in range(self.width)]
        return self._shuffled(code, self.vector, (low, high), lanes)

    def _lanes_apart(self, code: CodeStretch, pointer: str, masks: Sequence[str]) -> str:
        """A vector of elements that lie `stride` apart, zeros where a mask is not set."""
        element, kind = memory(self.sum), memory(self.sum, self.width)
        (distance,) = self._distances(code, "%stride")
        pointers = code.let(
            f"getelementptr {element}, ptr {pointer}, {wide('i64', self.width)} {distance}"
        )
        return code.let(
            f"call {kind} @llvm.masked.gather.{mangled(element, self.width)}.v{self.width}p0"
            f"(<{self.width} x ptr> {pointers}, i32 {self.align}, "
            f"{wide('i1', self.width)} {masks[0]}, {kind} zeroinitializer)"
        )

    def _piece(self, code: CodeStretch, way: _Way, number: str) -> tuple[str, str, list[str]]:
        """The offset of a piece in B, its number, and if it is ragged the lanes that it has, and
        those of the two vectors from which every second element is taken."""
        slot = number
        if way.ragged:
            front = code.let(f"icmp slt i64 {number}, {way.whole}")
            behind = code.let(f"sub i64 {number}, {way.whole}")
            back = code.let(f"sub i64 {PIECES - 1}, {behind}")
            slot = code.let(f"select i1 {front}, i64 {number}, i64 {back}")
        entry = piece_place(code, "%pieces", slot)
        offset, index = code.word(entry, 0), code.word(entry, 1)
        if not way.ragged:
            return offset, index, []
        lanes = [code.word(entry, 2)]
        if way.read == self._every_second:
            spanned = code.let(f"sub i64 {code.let(f'shl i64 {lanes[0]}, 1')}, 1")
            lanes += [spanned, code.let(f"sub i64 {spanned}, {self.width - 1}")]
        return offset, index, [self._first_lanes(code, count) for count in lanes]

    # --- a column for each place ---------------------------------------------------------------

    def _along_places(self) -> str:
        """Write the columns of C in all pieces: `depth` taps, each times its element of A."""
        function = FunctionText(
            f"define internal void @{self.name}_places(ptr %a, i64 %ak, ptr %b, ptr %c, "
            "i64 %depth, ptr %taps, i64 %stride, ptr %pieces) #0"
        )
        element = memory(self.sum)
        for way in self._ways(function.code()):
            code = function.code()
            last = code.let(f"sub i64 {way.pieces}, 1")
            with function.loop("0", way.pieces, way.at_once) as group:
                code = function.code()
                starts, targets = [], []
                for i in range(way.at_once):
                    number = self._least(code, last, code.integer("add", group.index, str(i)))
                    offset, index, masks = self._piece(code, way, number)
                    starts.append(code.at("%b", element, offset))
                    targets.append((code.at("%c", element, index), masks))
                nothing = [(self.vector, "zeroinitializer")] * way.at_once
                with function.loop("0", "%depth", 1, nothing) as loop:
                    body = function.code()
                    tap = body.word(piece_place(body, "%taps", loop.index), 0)
                    left = self._splatted(body, self._row_apart(body, "%a", loop.index, "%ak"))
                    loop.following = []
                    for start, (_, masks), total in zip(starts, targets, loop.carried):
                        right = way.read(body, body.at(start, element, tap), masks)
                        loop.following.append(self._multiply_add(body, left, right, total))
                code = function.code()
                for (target, masks), total in zip(targets, loop.carried):
                    if masks:
                        self._write_lanes(code, target, total, masks[0])
                    else:
                        self._write_row(code, target, [total])
        return function.text()

    # --- a column for each tap -----------------------------------------------------------------

    def _along_depth(self) -> str:
        """Add sums over all pieces, of `images` that lie apart, to C, or to nothing at first."""
        function = FunctionText(
            f"define internal void @{self.name}_depths(ptr %a, ptr %b, ptr %c, i64 %cn, "
            "i64 %columns, ptr %taps, i64 %stride, ptr %pieces, i64 %images, i64 %a_apart, "
            "i64 %b_apart, i1 %first) #0"
        )
        code, element = function.code(), memory(self.sum)
        ways, last = self._ways(code), code.let("sub i64 %columns, 1")
        with function.loop("0", "%columns", TAPS) as group:
            code = function.code()
            columns = [
                self._least(code, last, code.integer("add", group.index, str(i)))
                for i in range(TAPS)
            ]
            taps = [code.word(piece_place(code, "%taps", column), 0) for column in columns]
            nothing = [(self.vector, "zeroinitializer")] * TAPS
            with function.loop("0", "%images", 1, nothing) as image:
                code = function.code()
                a = self._row_apart(code, "%a", image.index, "%a_apart")
                b = self._row_apart(code, "%b", image.index, "%b_apart")
                starts = [code.at(b, element, tap) for tap in taps]
                totals = image.carried
                for way in ways:
                    totals = self._add_pieces(function, way, a, starts, totals)
                image.following = totals
            code = function.code()
            sums = [self._folded(code, [total]) for total in image.carried]
            self._add_to(code, "%c", "%cn", columns, sums)
        return function.text()

    def _add_pieces(
        self, function: FunctionText, way: _Way, a: str, starts: Sequence[str],
        totals: Sequence[str],
    ) -> list[str]:  # fmt: skip
        """Lanes with the products of A and of all pieces added, for each of some taps."""
        element = memory(self.sum)
        carried = [(self.vector, total) for total in totals]
        with function.loop("0", way.pieces, 1, carried) as loop:
            body = function.code()
            offset, index, masks = self._piece(body, way, loop.index)
            left = self._beside(body, body.at(a, element, index), masks)
            loop.following = []
            for start, total in zip(starts, loop.carried):
                right = way.read(body, body.at(start, element, offset), masks)
                loop.following.append(self._multiply_add(body, left, right, total))
        return loop.carried


def piece_place(code: CodeStretch, table: str, number: str) -> str:
    """Where a piece stands in a table."""
    first = code.at(table, "i64", str(HEADER))
    return code.at(first, f"[{WORDS} x i64]", number)
