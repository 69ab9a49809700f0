"""The bodies of contractions: tiles of A and B pass through memory that a group shares."""

from __future__ import annotations

from collections.abc import Sequence

from contraflow.compiler.kernel import Contraction
from contraflow.render.clike.source import (
    A_PITCH,
    DEPTH,
    SHARE,
    SPREAD,
    TILE,
    GroupArray,
    Syntax,
)
from contraflow.render.clike.writer import Writer, template


class ContractionWriter(Writer):
    """Writes the body of a contraction: tiles of A and B pass through shared memory."""

    def __init__(self, kernel: Contraction, syntax: Syntax) -> None:
        super().__init__(kernel, syntax)
        self.kernel = kernel
        self.shared = [
            GroupArray("a_tile", kernel.accumulate, DEPTH * A_PITCH),
            GroupArray("b_tile", kernel.accumulate, DEPTH * TILE),
        ]

    def write_tiles(self) -> None:
        """Write the loop over the tiles of the result: everything."""
        for name, value in (
            ("row_tiles", f"(size2 + {TILE - 1}) / {TILE}"),
            ("column_tiles", f"(size3 + {TILE - 1}) / {TILE}"),
            ("tiles", "size0 * size1 * row_tiles * column_tiles"),
            ("row", f"thread / {SPREAD}"),
            ("column", f"thread % {SPREAD}"),
        ):
            self.index(name, value)
        share = range(SHARE)
        cells = [(i, j) for i in share for j in share]
        accumulate = self.kernel.accumulate
        zero = self.syntax.literal(0, accumulate)
        with self.loop("tile", "group", "tiles", "groups"):
            self.index("batch", "tile / (row_tiles * column_tiles)")
            self.index("batch0", "batch / size1")
            self.index("batch1", "batch % size1")
            self.index("first_row", f"tile / column_tiles % row_tiles * {TILE}")
            self.index("first_column", f"tile % column_tiles * {TILE}")
            for i, j in cells:
                type_name = self.syntax.type_of(accumulate)
                self.line(self.syntax.variable(f"sum{i}_{j}", type_name, zero) + ";")
            with self.loop("start", "0", "size4", str(DEPTH)):
                self.stage(0)
                self.stage(1)
                self.line(self.syntax.barrier)
                with self.loop("k", "0", str(DEPTH), "1"):
                    self.multiply(cells)
                self.line(self.syntax.barrier)
            for i in share:
                self.index(f"row{i}", f"first_row + row{_beyond(i)}")
                self.index(f"column{i}", f"first_column + column{_beyond(i)}")
            for i, j in cells:
                self.finish(i, j)

    def stage(self, number: int) -> None:
        """Write the copy of a tile of A or B to shared memory, padded with zeros."""
        # Threads go along k first in A and along n in B: neighbours in memory unless transposed.
        if number == 0:
            place, free, deep = f"a_tile[deep * {A_PITCH} + free]", f"/ {DEPTH}", f"% {DEPTH}"
            first, size, free_axis, deep_axis = "first_row", "size2", 2, 3
        else:
            place, free, deep = f"b_tile[deep * {TILE} + free]", f"% {TILE}", f"/ {TILE}"
            first, size, free_axis, deep_axis = "first_column", "size3", 3, 2
        with self.loop("at", "thread", str(TILE * DEPTH), "threads"):
            self.index("free", f"at {free}")
            self.index("deep", f"at {deep}")
            address = (
                f"{self.matrix(number)}"
                f" + ({first} + free) * stride{number}_{free_axis}"
                f" + (start + deep) * stride{number}_{deep_axis}"
            )
            inside = [f"{first} + free < {size}", "start + deep < size4"]
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
            product = self.call("mul", f"a{i}", f"b{j}")
            self.line(f"sum{i}_{j} = {self.call('add', f'sum{i}_{j}', f'({product})')};")

    def call(self, fn: str, *args: str) -> str:
        """A row of the table in the accumulator's dtype."""
        dtype = self.kernel.accumulate
        return self.syntax.apply(template(fn, dtype, self.syntax.column) or "", args, dtype)

    def finish(self, i: int, j: int) -> None:
        """Write the store of one cell, where it lies inside the result."""
        kernel = self.kernel
        address = f"{self.matrix(2)} + row{i} * stride2_2 + column{j} * stride2_3"
        value = self.syntax.convert(f"sum{i}_{j}", kernel.accumulate, kernel.dtype)
        with self.block(f"if (row{i} < size2 && column{j} < size3)"):
            self.line(self.syntax.store(2, kernel.dtype, address, value))


def _beyond(i: int) -> str:
    """How far a thread's cell number `i` lies from its first one, as the end of a sum."""
    return f" + {i * SPREAD}" if i else ""
