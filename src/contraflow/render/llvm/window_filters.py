"""Products of one row with windows of 3 x 3 that lie one element apart, as LLVM IR.

These are most of the convolutions with a filter for each channel. With the taps known, a vector of
an image is read once for all of ROWS rows of places that it belongs to: half as many reads as
`window_rows.py` needs. Sums are taken in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence

from contraflow.compiler.kernel import Contraction
from contraflow.render.llvm.panels import DEPTH
from contraflow.render.llvm.single_row import SingleRowRenderer
from contraflow.render.llvm.text import CodeStretch, FunctionText, memory
from contraflow.render.llvm.window_rows import VECTOR_BYTES

SIDE = 3  # of a filter
ROWS = 4  # of places that are done at once: as many as registers hold beside the filter


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
        return "\n".join([self._filter(), self._correlate()])

    def _vectors(
        self, code: CodeStretch, start: str, pitch: str, rows: int, mask: str | None
    ) -> dict[tuple[int, int], str]:
        """A vector for each row and tap of a row that the windows of some rows of places read."""
        found, element = {}, memory(self.sum)
        for row in range(rows + SIDE - 1):
            here = code.at(start, element, code.integer("mul", str(row), pitch) if row else "0")
            for tap in range(SIDE):
                place = code.at(here, element, str(tap))
                found[row, tap] = self._lanes_at(code, place, mask)
        return found

    # --- a column for each place ---------------------------------------------------------------

    def _filter(self) -> str:
        """Write `height` x `width` places of C, at least ROWS of them high; rows of B lie `pitch`
        elements apart."""
        function = FunctionText(
            f"define internal void @{self.name}_filter(ptr %a, i64 %ak, ptr %b, ptr %c, "
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
        mask = self._first_lanes(code, "%width")
        with function.loop("0", "%height", ROWS) as group:
            code = function.code()
            # The last rows and the last vector of a row overlap those before.
            y = self._least(code, group.index, lowest)
            row = self._row_apart(code, "%b", y, "%pitch")
            target = self._row_apart(code, "%c", y, "%width")
            with function.loop("0", whole, self.width) as loop:
                body = function.code()
                x = self._least(body, loop.index, furthest)
                start, out = (body.at(pointer, element, x) for pointer in (row, target))
                self._filter_rows(body, filters, start, out, None)
            with function.when(function.code().let(f"xor i1 {wide_enough}, true")):
                self._filter_rows(function.code(), filters, row, target, mask)
        return function.text()

    def _filter_rows(
        self, code: CodeStretch, filters: Sequence[str], start: str, out: str, mask: str | None
    ) -> None:
        totals = ["zeroinitializer"] * ROWS
        for (line, tap), vector in self._vectors(code, start, "%pitch", ROWS, mask).items():
            for row in range(max(0, line - SIDE + 1), min(ROWS, line + 1)):
                left = filters[(line - row) * SIDE + tap]
                totals[row] = self._multiply_add(code, left, vector, totals[row])
        for row, total in enumerate(totals):
            target = self._row_apart(code, out, str(row), "%width") if row else out
            if mask is None:
                self._write_row(code, target, [total])
            else:
                self._write_lanes(code, target, total, mask)

    # --- a column for each tap -----------------------------------------------------------------

    def _correlate(self) -> str:
        """Add sums over `height` x `width` places, of `images` that lie apart, to C, or to nothing
        at first."""
        function = FunctionText(
            f"define internal void @{self.name}_correlate(ptr %a, ptr %b, ptr %c, i64 %cn, "
            "i64 %pitch, i64 %height, i64 %width, i64 %images, i64 %a_apart, i64 %b_apart, "
            "i1 %first) #0"
        )
        code = function.code()
        whole = code.let(f"and i64 %width, {-self.width}")
        groups = code.let(f"and i64 %height, {-ROWS}")
        mask = self._first_lanes(code, code.integer("sub", "%width", whole))
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
                    line = self._row_apart(code, b, group.index, "%pitch")
                    left = self._row_apart(code, a, group.index, "%width")
                    group.following = self._add_row(
                        function, (left, line), rows, group.carried, whole, mask
                    )
                totals = group.carried
            image.following = totals
        columns = [str(tap) for tap in range(SIDE * SIDE)]
        code = function.code()
        sums = [self._folded(code, [total]) for total in image.carried]
        self._add_to(code, "%c", "%cn", columns, sums)
        return function.text()

    def _add_row(
        self, function: FunctionText, starts: tuple[str, str], rows: int, totals: Sequence[str],
        whole: str, mask: str,
    ) -> list[str]:  # fmt: skip
        """Lanes with the products of some rows of places added, the last of them under a mask."""
        element = memory(self.sum)
        for begin, end, lanes in (("0", whole, None), (whole, "%width", mask)):
            carried = [(self.vector, total) for total in totals]
            with function.loop(begin, end, self.width, carried) as loop:
                code = function.code()
                left, line = (code.at(start, element, loop.index) for start in starts)
                lefts = [
                    self._lanes_at(code, self._row_apart(code, left, str(r), "%width"), lanes)
                    for r in range(rows)
                ]
                sums = list(loop.carried)
                for (at, tap), vector in self._vectors(code, line, "%pitch", rows, lanes).items():
                    for row in range(max(0, at - SIDE + 1), min(rows, at + 1)):
                        t = (at - row) * SIDE + tap
                        sums[t] = self._multiply_add(code, lefts[row], vector, sums[t])
                loop.following = sums
            totals = loop.carried
        return list(totals)
