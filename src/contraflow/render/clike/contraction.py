"""The bodies of contractions: tiles of A and B pass through memory that a group shares."""

from __future__ import annotations

from collections.abc import Sequence

from contraflow.compiler.kernel import Contraction
from contraflow.render.clike.source import (
    A_PITCH,
    DEPTH,
    PANEL,
    SHARE,
    SPREAD,
    TILE,
    GroupArray,
    Syntax,
)
from contraflow.render.clike.writer import Writer, template


class ContractionWriter(Writer):
    """Writes the body of a contraction: tiles of A and B pass through shared memory."""

    columns, depth_size = "size3", "size4"  # the extents of n and k
    deep_axis = 3  # that of k in A

    def __init__(self, kernel: Contraction, syntax: Syntax) -> None:
        super().__init__(kernel, syntax)
        self.kernel = kernel
        self.shared = [
            GroupArray("a_tile", kernel.accumulate, DEPTH * A_PITCH),
            GroupArray("b_tile", kernel.accumulate, DEPTH * TILE),
        ]

    def write_points(self) -> None:
        """Write the loop over the tiles of the result: everything."""
        for name, value in (
            *self.extents(),
            ("row_tiles", f"(size2 + {TILE - 1}) / {TILE}"),
            ("column_tiles", f"({self.columns} + {TILE - 1}) / {TILE}"),
            ("tiles", "size0 * size1 * row_tiles * column_tiles"),
            ("row", f"thread / {SPREAD}"),
            ("column", f"thread % {SPREAD}"),
        ):
            self.index(name, value)
        share = range(SHARE)
        cells = [(i, j) for i in share for j in share]
        with self.loop("tile", "group", "tiles", "groups"):
            self.index("batch", "tile / (row_tiles * column_tiles)")
            self.index("batch0", "batch / size1")
            self.index("batch1", "batch % size1")
            self.index("first_row", f"tile / column_tiles % row_tiles * {TILE}")
            self.index("first_column", f"tile % column_tiles * {TILE}")
            self.begin("sum", cells)
            self.sum_up(cells)
            for i in share:
                self.index(f"row{i}", f"first_row + row{_beyond(i)}")
                self.index(f"column{i}", f"first_column + column{_beyond(i)}")
            for i, j in cells:
                self.finish(i, j)

    def extents(self) -> Sequence[tuple[str, str]]:
        """The names and values of extents that are not among the sizes."""
        return ()

    def sum_up(self, cells: Sequence[tuple[int, int]]) -> None:
        """Write the loop over k. The sum of each panel begins with zero and is added to the others,
        so that rounding errors do not grow with all of k."""
        with self.loop("panel", "0", self.depth_size, str(PANEL)):
            self.begin("part", cells)
            self.index("end", f"min(panel + {PANEL}, {self.depth_size})")
            with self.loop("start", "panel", "end", str(DEPTH)):
                self.stage(0)
                self.stage(1)
                self.line(self.syntax.barrier)
                with self.loop("k", "0", str(DEPTH), "1"):
                    self.multiply(cells)
                self.line(self.syntax.barrier)
            for i, j in cells:
                total = self.call("add", f"sum{i}_{j}", f"part{i}_{j}")
                self.line(f"sum{i}_{j} = {total};")

    def begin(self, name: str, cells: Sequence[tuple[int, int]]) -> None:
        """Write variables for a thread's cells, zero at first."""
        accumulate = self.kernel.accumulate
        type_name, zero = self.syntax.type_of(accumulate), self.syntax.literal(0, accumulate)
        for i, j in cells:
            self.line(self.syntax.variable(f"{name}{i}_{j}", type_name, zero) + ";")

    def stage(self, number: int) -> None:
        """Write the copy of a tile of A or B to shared memory, padded with zeros."""
        # Threads go along k first in A and along n in B: neighbours in memory unless transposed.
        if number == 0:
            place, free, deep = f"a_tile[deep * {A_PITCH} + free]", f"/ {DEPTH}", f"% {DEPTH}"
            first, size, free_axis, deep_axis = "first_row", "size2", 2, self.deep_axis
        else:
            place, free, deep = f"b_tile[deep * {TILE} + free]", f"% {TILE}", f"/ {TILE}"
            first, size, free_axis, deep_axis = "first_column", self.columns, 3, 2
        with self.loop("at", "thread", str(TILE * DEPTH), "threads"):
            self.index("free", f"at {free}")
            self.index("deep", f"at {deep}")
            address = (
                f"{self.matrix(number)}"
                f" + ({first} + free) * stride{number}_{free_axis}"
                f" + (start + deep) * stride{number}_{deep_axis}"
            )
            inside = [f"{first} + free < {size}", f"start + deep < {self.depth_size}"]
            self.place(number, place, address, inside)

    def place(self, number: int, place: str, address: str, inside: Sequence[str]) -> None:
        """Write the copy of one element to shared memory."""
        value = self.element(number, address, inside)
        kernel = self.kernel
        self.line(f"{place} = {self.syntax.convert(value, kernel.dtype, kernel.accumulate)};")

    def matrix(self, number: int) -> str:
        """Where the matrix of an operand begins that the tile belongs to."""
        return f"offset{number} + batch0 * stride{number}_0 + batch1 * stride{number}_1"

    def multiply(self, cells: Sequence[tuple[int, int]]) -> None:
        """Write the products of one k for a thread's cells."""
        accumulate = self.kernel.accumulate
        type_name = self.syntax.type_of(accumulate)
        for i in range(SHARE):
            for name, tile in (
                (f"a{i}", f"a_tile[k * {A_PITCH} + row{_beyond(i)}]"),
                (f"b{i}", f"b_tile[k * {TILE} + column{_beyond(i)}]"),
            ):
                self.line(self.syntax.constant(name, type_name, tile) + ";")
        for i, j in cells:
            self.line(f"part{i}_{j} = {self.added(f'part{i}_{j}', f'a{i}', f'b{j}')};")

    def added(self, total: str, a: str, b: str) -> str:
        """A sum with one more product: fused, since no other kernel computes it again."""
        if self.kernel.accumulate.is_floating_point:
            return self.call("muladd", a, b, total)
        return self.call("add", total, f"({self.call('mul', a, b)})")

    def call(self, fn: str, *args: str) -> str:
        """A row of the table in the accumulator's dtype."""
        dtype = self.kernel.accumulate
        return self.syntax.apply(template(fn, dtype, self.syntax.column) or "", args, dtype)

    def finish(self, i: int, j: int) -> None:
        """Write the store of one cell, where it lies inside the result."""
        kernel = self.kernel
        address = f"{self.matrix(2)} + row{i} * stride2_2 + column{j} * stride2_3"
        value = self.syntax.convert(f"sum{i}_{j}", kernel.accumulate, kernel.dtype)
        with self.block(f"if (row{i} < size2 && column{j} < {self.columns})"):
            self.line(self.syntax.store(2, kernel.dtype, address, value))


class WindowWriter(ContractionWriter):
    """Writes the body of a contraction that reads B through several strides, as windows are."""

    columns, depth_size = "columns", "depth"
    deep_axis = 4

    def __init__(self, kernel: Contraction, syntax: Syntax) -> None:
        super().__init__(kernel, syntax)
        assert kernel.digits is not None
        depths, places = kernel.digits
        self.depths, self.places = range(4, 4 + depths), range(4 + depths, 4 + depths + places)

    def extents(self) -> Sequence[tuple[str, str]]:
        """Those of n and k, which have several axes."""
        axes = (("columns", self.places), ("depth", self.depths))
        return [(name, " * ".join(f"size{k}" for k in found)) for name, found in axes]

    def sum_up(self, cells: Sequence[tuple[int, int]]) -> None:
        """Write the loops over o and k. A thread stages elements of one column of B only."""
        self.index("own_column", f"first_column + thread % {TILE}")
        self.index("column_address", self.walk("own_column", self.places))
        with self.loop("outer", "0", "size3", "1"):
            super().sum_up(cells)

    def matrix(self, number: int) -> str:
        """Where the matrix of an operand begins, with the part of it that `outer` names."""
        lead = super().matrix(number)
        return f"{lead} + outer * stride{number}_{3 - number}" if number < 2 else lead

    def stage(self, number: int) -> None:
        """Write the copy of a tile of A or B to shared memory, padded with zeros."""
        if number == 0:
            super().stage(0)
            return
        with self.loop("deep", f"thread / {TILE}", str(DEPTH), f"threads / {TILE}"):
            self.index("at", "start + deep")
            address = f"{self.matrix(1)} + column_address + {self.walk('at', self.depths)}"
            inside = ["own_column < columns", "at < depth"]
            self.place(1, f"b_tile[deep * {TILE} + thread % {TILE}]", address, inside)

    def walk(self, position: str, axes: Sequence[int]) -> str:
        """How far the digits of a position move in B: its axes have one less than the sizes."""
        terms = []
        for k in reversed(axes):
            here = position if k == axes[0] else f"{position} % size{k}"
            terms.append(f"{here} * stride1_{k - 1}")
            position = f"{position} / size{k}"
        return " + ".join(terms)


def _beyond(i: int) -> str:
    """How far a thread's cell number `i` lies from its first one, as the end of a sum."""
    return f" + {i * SPREAD}" if i else ""
