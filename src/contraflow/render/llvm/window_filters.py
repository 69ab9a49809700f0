"""Products of one row with windows of 3 x 3 that lie one or two elements apart, as LLVM IR.

These are most of the convolutions with a filter for each channel. With the taps known, a vector of
an image is read once for all of ROWS rows of places that it belongs to: half as many reads as
`window_rows.py` needs. Sums of places are taken in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from contraflow.compiler.kernel import Contraction
from contraflow.render.llvm.panels import DEPTH
from contraflow.render.llvm.single_row import SingleRowRenderer
from contraflow.render.llvm.text import CodeStretch, FunctionText, memory
from contraflow.render.llvm.window_rows import VECTOR_BYTES

SIDE = 3  # of a filter
ROWS = 4  # of places that are done at once: as many as registers hold beside the filter
STRIDES = (1, 2)  # from a window to the next, along both dims


class Lanes(NamedTuple):
    """Which lanes of a vector are places, and which are elements, of each vector that is read."""

    places: str
    elements: list[str]


class WindowFilters(SingleRowRenderer):
    """Writes the functions of contractions of one row with windows of 3 x 3."""

    def __init__(self, kernel: Contraction, name: str) -> None:
        super().__init__(kernel, name, VECTOR_BYTES, 1, 1)

    @property
    def most_columns(self) -> int:
        """The most places of a row: ROWS rows of them are added up from zero."""
        return DEPTH // ROWS * self.width

    def text(self) -> str:
        """The functions."""
        functions = (self._filter, self._correlate)
        return "\n".join(write(stride) for write in functions for stride in STRIDES)

    def _vectors(
        self, code: CodeStretch, start: str, rows: int, stride: int, lanes: Lanes | None
    ) -> dict[tuple[int, int], str]:
        """A vector for each row and tap of a row that the windows of some rows of places read."""
        found: dict[tuple[int, int], str] = {}
        element = memory(self.sum)
        for row in range((rows - 1) * stride + SIDE):
            here = code.at(start, element, code.integer("mul", str(row), "%pitch") if row else "0")
            masks = lanes.elements if lanes else [None] * len(self._offsets(stride))
            vectors = [
                self._lanes_at(code, code.at(here, element, str(offset)), mask)
                for offset, mask in zip(self._offsets(stride), masks)
            ]
            if stride == 2:
                low, high, near, far = vectors
                even, odd = (range(first, 2 * self.width, 2) for first in range(2))
                # From `near` the first half of its even lanes, from `far` the odd ones.
                half = self.width // 2
                last = [*even[:half], *odd[half:]]
                taps = ((low, high), even), ((low, high), odd), ((near, far), last)
                vectors = [self._shuffled(code, self.vector, *tap) for tap in taps]
            found |= {(row, tap): vector for tap, vector in enumerate(vectors)}
        return found

    def _offsets(self, stride: int) -> Sequence[int]:
        """Where the vectors begin that are read for the taps of a row: none reaches beyond the last
        element of the last window."""
        if stride == 1:
            return range(SIDE)
        return 0, self.width, 2, self.width + 1

    def _some_lanes(self, code: CodeStretch, count: str, stride: int) -> Lanes:
        """The lanes of the first so many places."""
        places = self._first_lanes(code, count)
        if stride == 1:
            return Lanes(places, [places] * SIDE)
        spanned = code.let(f"add i64 {code.let(f'mul i64 {count}, {stride}')}, {SIDE - stride}")
        return Lanes(
            places, [self._first_lanes(code, spanned, start) for start in self._offsets(stride)]
        )

    def _taps(self, line: int, rows: int, stride: int) -> list[tuple[int, int]]:
        """The rows of places whose windows have a line of elements, and which line it is there."""
        found = ((row, line - row * stride) for row in range(rows))
        return [(row, at) for row, at in found if 0 <= at < SIDE]

    # --- a column for each place ---------------------------------------------------------------

    def _filter(self, stride: int) -> str:
        """Write `height` x `width` places of C, at least ROWS of them high; rows of B lie `pitch`
        elements apart."""
        function = FunctionText(
            f"define internal void @{self.name}_filter{stride}(ptr %a, i64 %ak, ptr %b, ptr %c, "
            "i64 %pitch, i64 %height, i64 %width) #0"
        )
        code, element = function.code(), memory(self.sum)
        taps = range(SIDE * SIDE)
        filters = [self._splatted(code, self._row_apart(code, "%a", str(t), "%ak")) for t in taps]
        lowest, furthest = (
            code.let(f"sub i64 {extent}, {step}")
            for extent, step in (("%height", ROWS), ("%width", self.width))
        )
        wide_enough = code.let(f"icmp sge i64 {furthest}, 0")
        whole = code.let(f"select i1 {wide_enough}, i64 %width, i64 0")
        lanes = self._some_lanes(code, "%width", stride)
        step = code.integer("mul", "%pitch", str(stride))
        with function.loop("0", "%height", ROWS) as group:
            code = function.code()
            # The last rows and the last vector of a row overlap those before.
            y = self._least(code, group.index, lowest)
            row = self._row_apart(code, "%b", y, step)
            target = self._row_apart(code, "%c", y, "%width")
            with function.loop("0", whole, self.width) as loop:
                body = function.code()
                x = self._least(body, loop.index, furthest)
                start = body.at(row, element, body.integer("mul", x, str(stride)))
                out = body.at(target, element, x)
                self._filter_rows(body, filters, start, out, stride, None)
            with function.when(function.code().let(f"xor i1 {wide_enough}, true")):
                self._filter_rows(function.code(), filters, row, target, stride, lanes)
        return function.text()

    def _filter_rows(
        self, code: CodeStretch, filters: Sequence[str], start: str, out: str, stride: int,
        lanes: Lanes | None,
    ) -> None:  # fmt: skip
        totals = ["zeroinitializer"] * ROWS
        for (line, tap), vector in self._vectors(code, start, ROWS, stride, lanes).items():
            for row, at in self._taps(line, ROWS, stride):
                left = filters[at * SIDE + tap]
                totals[row] = self._multiply_add(code, left, vector, totals[row])
        for row, total in enumerate(totals):
            target = self._row_apart(code, out, str(row), "%width") if row else out
            if lanes is None:
                self._write_row(code, target, [total])
            else:
                self._write_lanes(code, target, total, lanes.places)

    # --- a column for each tap -----------------------------------------------------------------

    def _correlate(self, stride: int) -> str:
        """Add sums over `height` x `width` places, of `images` that lie apart, to C, or to nothing
        at first."""
        function = FunctionText(
            f"define internal void @{self.name}_correlate{stride}(ptr %a, ptr %b, ptr %c, i64 %cn, "
            "i64 %pitch, i64 %height, i64 %width, i64 %images, i64 %a_apart, i64 %b_apart, "
            "i1 %first) #0"
        )
        code = function.code()
        whole = code.let(f"and i64 %width, {-self.width}")
        groups = code.let(f"and i64 %height, {-ROWS}")
        ragged = self._some_lanes(code, code.integer("sub", "%width", whole), stride)
        step = code.integer("mul", "%pitch", str(stride))
        carried = [(self.vector, "zeroinitializer")] * (SIDE * SIDE)
        with function.loop("0", "%images", 1, carried) as image:
            code = function.code()
            a = self._row_apart(code, "%a", image.index, "%a_apart")
            b = self._row_apart(code, "%b", image.index, "%b_apart")
            totals = image.carried
            for start, stop, rows in (("0", groups, ROWS), (groups, "%height", 1)):
                carried = [(self.vector, total) for total in totals]
                with function.loop(start, stop, rows, carried) as group:
                    code = function.code()
                    line = self._row_apart(code, b, group.index, step)
                    left = self._row_apart(code, a, group.index, "%width")
                    group.following = self._add_row(
                        function, (left, line), rows, stride, group.carried, whole, ragged
                    )
                totals = group.carried
            image.following = totals
        columns = [str(tap) for tap in range(SIDE * SIDE)]
        code = function.code()
        sums = [self._folded(code, [total]) for total in image.carried]
        self._add_to(code, "%c", "%cn", columns, sums)
        return function.text()

    def _add_row(
        self, function: FunctionText, starts: tuple[str, str], rows: int, stride: int,
        totals: Sequence[str], whole: str, ragged: Lanes,
    ) -> list[str]:  # fmt: skip
        """Lanes with the products of some rows of places added, the last of them under a mask."""
        element = memory(self.sum)
        for begin, end, lanes in (("0", whole, None), (whole, "%width", ragged)):
            mask = lanes.places if lanes else None
            carried = [(self.vector, total) for total in totals]
            with function.loop(begin, end, self.width, carried) as loop:
                code = function.code()
                left = code.at(starts[0], element, loop.index)
                line = code.at(starts[1], element, code.integer("mul", loop.index, str(stride)))
                lefts = [
                    self._lanes_at(code, self._row_apart(code, left, str(r), "%width"), mask)
                    for r in range(rows)
                ]
                sums = list(loop.carried)
                for (at, tap), vector in self._vectors(code, line, rows, stride, lanes).items():
                    for row, within in self._taps(at, rows, stride):
                        t = within * SIDE + tap
                        sums[t] = self._multiply_add(code, lefts[row], vector, sums[t])
                loop.following = sums
            totals = loop.carried
        return list(totals)
