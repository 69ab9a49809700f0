"""The bodies of large calls: products in float32, for languages with vectors, and maps.

Of a product a thread has 8 x 8 sums, and a group a tile of 128 x 128. Vectors of four rows of A,
and of four columns of B, at one k pass through shared memory; the next ones are loaded while those
there are multiplied. Vectors are stored where the xor of their number and k says: threads that
store neighbours along k would meet in one bank of memory else.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from contraflow.compiler.kernel import Contraction
from contraflow.render.clike.loops import LoopsWriter
from contraflow.render.clike.source import THREADS, GroupArray, Syntax
from contraflow.render.clike.writer import Writer

TILE, DEPTH, SHARE = 128, 16, 8
VECTORS = TILE // 4  # of one k
SPREAD = TILE // SHARE  # threads along each side of the tile
OWN = VECTORS * DEPTH // THREADS  # vectors of A, and of B, that a thread loads
STEPS = 4  # products of so many k are written out
# Products that are added up from zero: the sums of such panels are added up in the result.
PANEL = 1024
VECTOR = "vec4<f32>"
POINTS = 4  # of a map that a thread has at a time
_PARTS = "xyzw"


class WideWriter(Writer):
    """Writes the body of a product."""

    def __init__(self, kernel: Contraction, syntax: Syntax) -> None:
        super().__init__(kernel, syntax)
        self.kernel = kernel
        self.shared = [
            GroupArray(f"{name}_tile", kernel.dtype, DEPTH * VECTORS, VECTOR) for name in "ab"
        ]

    def write_points(self) -> None:
        """Write the loop over the tiles of the result: everything."""
        for name, value in (
            ("row_tiles", f"(size2 + {TILE - 1}) / {TILE}"),
            ("column_tiles", f"(size3 + {TILE - 1}) / {TILE}"),
            ("tiles", "size0 * size1 * row_tiles * column_tiles"),
            ("row", f"thread / {SPREAD}"),
            ("column", f"thread % {SPREAD}"),
        ):
            self.index(name, value)
        self.write_own_places()
        with self.loop("tile", "group", "tiles", "groups"):
            self.index("batch", "tile / (row_tiles * column_tiles)")
            self.index("batch0", "batch / size1")
            self.index("batch1", "batch % size1")
            self.index("first_row", f"tile / column_tiles % row_tiles * {TILE}")
            self.index("first_column", f"tile % column_tiles * {TILE}")
            for number in range(3):
                batch = f"batch0 * stride{number}_0 + batch1 * stride{number}_1"
                self.index(f"matrix{number}", f"offset{number} + {batch}")
            inside = f"first_row + {TILE} <= size2 && first_column + {TILE} <= size3"
            self.line(self.syntax.constant("inside", "bool", inside) + ";")
            with self.loop("panel", "0", "max(size4, 1)", str(PANEL)):
                self.write_panel()

    def write_own_places(self) -> None:
        """Declare which vectors a thread loads: neighbours load neighbours in memory."""
        for number, (name, free_axis, deep_axis) in enumerate((("a", 2, 3), ("b", 3, 2))):
            # Along k where that is where neighbours lie, and else along rows of A, columns of B.
            across = f"stride{number}_{free_axis} == 1"
            if number == 1:
                across = f"stride{number}_{deep_axis} != 1"
            self.line(self.syntax.constant(f"{name}_across", "bool", across) + ";")
            for r in range(OWN):
                own = f"thread + {r * THREADS}" if r else "thread"
                along = f"({own}) % {DEPTH}", f"({own}) / {DEPTH}"
                crosswise = f"({own}) / {VECTORS}", f"({own}) % {VECTORS}"
                for part, there, other in zip(("deep", "free"), along, crosswise):
                    choice = f"select({there}, {other}, {name}_across)"
                    self.index(f"{name}_{part}{r}", choice)

    def write_panel(self) -> None:
        """Write the sum over a panel of k, and its stores."""
        for i in range(SHARE):
            for j in range(SHARE // 4):
                self.line(self.syntax.variable(f"sum{i}_{j}", VECTOR, f"{VECTOR}(0.0)") + ";")
        for name in "ab":
            for r in range(OWN):
                self.line(self.syntax.variable(f"{name}{r}", VECTOR, f"{VECTOR}(0.0)") + ";")
        self.index("end", f"min(panel + {PANEL}, size4)")
        # Each turn loads what the next one multiplies; the first one multiplies nothing.
        with self.loop("start", f"panel - {DEPTH}", "end", str(DEPTH)):
            self.index("next", f"start + {DEPTH}")
            with self.block("if (next < end)"):
                self.write_loads()
            with self.block("if (start >= panel)"), self.loop("k", "0", str(DEPTH), str(STEPS)):
                for step in range(STEPS):
                    self.write_products(f"k + {step}" if step else "k")
            self.line(self.syntax.barrier)
            for name in "ab":
                for r in range(OWN):
                    at = f"{name}_deep{r} * {VECTORS} + ({name}_free{r} ^ {name}_deep{r})"
                    self.line(f"{name}_tile[{at}] = {name}{r};")
            self.line(self.syntax.barrier)
        self.write_stores()

    def write_loads(self) -> None:
        """Write the loads of a thread's vectors, with zeros beyond the ends of the matrices."""
        sides = ((0, "a", "first_row", "size2", 2, 3), (1, "b", "first_column", "size3", 3, 2))
        whole = self.block(f"if (inside && next + {DEPTH} <= end)")
        for header, checked in ((whole, False), (self.block("else"), True)):
            with header:
                for number, name, first, size, free_axis, deep_axis in sides:
                    for r in range(OWN):
                        deep, free = f"{name}_deep{r}", f"{name}_free{r}"
                        stride = f"stride{number}_{free_axis}"
                        self.index(
                            f"{name}_at{r}",
                            f"matrix{number} + ({first} + {free} * 4) * {stride}"
                            f" + (next + {deep}) * stride{number}_{deep_axis}",
                        )
                        parts = []
                        for i in range(4):
                            at = f"{name}_at{r} + {i} * {stride}" if i else f"{name}_at{r}"
                            if checked:
                                here = f"{first} + {free} * 4 + {i} < {size}"
                                parts.append(
                                    self.element(number, at, [here, f"next + {deep} < end"])
                                )
                            else:
                                parts.append(self.syntax.load(number, self.kernel.dtype, at))
                        self.line(f"{name}{r} = {VECTOR}({', '.join(parts)});")

    def write_products(self, k: str) -> None:
        """Write the products of one k."""
        with self.block(""):
            self.index("deep", k)
            for q in range(SHARE // 4):
                for name, own in (("a", "row"), ("b", "column")):
                    free = f"({own} + {q * SPREAD})" if q else own
                    at = f"deep * {VECTORS} + ({free} ^ deep)"
                    self.line(
                        self.syntax.constant(f"{name}_part{q}", VECTOR, f"{name}_tile[{at}]") + ";"
                    )
            for i in range(SHARE):
                factor = f"{VECTOR}(a_part{i // 4}.{_PARTS[i % 4]})"
                for j in range(SHARE // 4):
                    self.line(f"sum{i}_{j} = fma({factor}, b_part{j}, sum{i}_{j});")

    def write_stores(self) -> None:
        """Write the stores of a thread's sums, or add them to those of the panels before."""
        dtype = self.kernel.dtype
        for i in range(SHARE):
            row = f"first_row + row * 4 + {i // 4 * SPREAD * 4 + i % 4}"
            with self.block(f"if ({row} < size2)"):
                self.index("row_at", f"matrix2 + ({row}) * stride2_2")
                for j in range(SHARE // 4):
                    for part in range(4):
                        column = f"first_column + column * 4 + {j * SPREAD * 4 + part}"
                        with self.block(f"if ({column} < size3)"):
                            self.index("at", f"row_at + ({column}) * stride2_3")
                            value = f"sum{i}_{j}.{_PARTS[part]}"
                            name = self.next_name()
                            before = self.syntax.load(2, dtype, "at")
                            for line in self.syntax.guarded(
                                name, self.syntax.type_of(dtype), "panel > 0",
                                f"{before} + {value}", value,
                            ):  # fmt: skip
                                self.line(line)
                            self.line(self.syntax.store(2, dtype, "at", name))


class WideMapWriter(LoopsWriter):
    """Writes the body of a map in which each thread has several points at a time: all are loaded
    and computed before the first is stored, so that loads do not wait for each other."""

    def write_points(self) -> None:
        """Write the loop over the outer axes: everything."""
        kernel, syntax = self.kernel, self.syntax
        outer, stores = range(kernel.outer), kernel.stores
        whole = f"threads * {POINTS}"
        self.index("points", self.extent(outer))
        with self.loop("first", f"group * ({whole}) + thread", "points", f"groups * ({whole})"):
            with self.block(f"if (first + threads * {POINTS - 1} < points)"):
                for number in range(POINTS):
                    for i, store in enumerate(stores):
                        dtype = store.value.dtype
                        zero = syntax.literal(0, dtype)
                        name = f"value{i}_{number}"
                        self.line(syntax.variable(name, syntax.type_of(dtype), zero) + ";")
                    with self.at_point(f"first + threads * {number}"):
                        found = self.compute([store.value for store in stores])
                        for i, value in enumerate(found):
                            self.line(f"value{i}_{number} = {value.text};")
                for number in range(POINTS):
                    with self.at_point(f"first + threads * {number}"):
                        for i, store in enumerate(stores):
                            dtype, address = store.value.dtype, self.address(store.operand)
                            name = f"value{i}_{number}"
                            self.line(syntax.store(store.operand, dtype, address, name))
            with (
                self.block("else"),
                self.loop("point", "first", "points", "threads"),
            ):
                self.split("point", outer)
                self.store(stores)

    @contextmanager
    def at_point(self, point: str) -> Iterator[None]:
        """Write a block about one point."""
        with self.block(""):
            self.index("point", point)
            self.split("point", range(self.kernel.outer))
            yield
