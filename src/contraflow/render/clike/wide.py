"""The bodies of products in float32, for languages with vectors, and of long sweeps.

Of a product a group has a square tile of the result (`Tiling`). Vectors of four rows of A, and of
four columns of B, at one k pass through shared memory; the next ones are loaded while those there
are multiplied. Where a tile is small, slices of the group's threads have different k of it, and add
up their sums in the end: a result of few tiles keeps as many threads busy as one of many.

Vectors are stored where the xor of their number and the lower bits of k says: threads that store
neighbours along k would meet in one bank of memory else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from contraflow.compiler.kernel import Contraction, Store
from contraflow.render.clike.loops import LoopsWriter
from contraflow.render.clike.source import THREADS, GroupArray, Syntax
from contraflow.render.clike.writer import Writer

STEPS = 8  # products of so many k are written out
# Products that are added up from zero: the sums of such panels are added up in the result, unless
# that has fewer digits than the sums.
PANEL = 1024
VECTOR = "vec4<f32>"
POINTS = 4  # of a long sweep that a thread has at a time
_PARTS = "xyzw"
_TILE_VECTORS = 512  # of A, and of B, in shared memory: together 16 KiB, which WebGPU guarantees


class Tiling(NamedTuple):
    """How the threads of a group share a tile of a product's result."""

    tile: int  # rows and columns of the tile
    share: int  # rows and columns that one thread has

    @property
    def spread(self) -> int:
        """Threads along each side of the tile."""
        return self.tile // self.share

    @property
    def slices(self) -> int:
        """Parts of the group's threads, each of which has the whole tile."""
        return THREADS // self.spread**2

    @property
    def vectors(self) -> int:
        """Vectors along a side of the tile, of one k."""
        return self.tile // 4

    @property
    def depth(self) -> int:
        """How much of k is in shared memory at a time."""
        return _TILE_VECTORS // self.vectors


# From the largest on. A thread of a large tile loads less of shared memory for each product.
TILINGS = (Tiling(128, 8), Tiling(64, 8), Tiling(32, 4), Tiling(16, 4))


class ProductWriter(Writer):
    """Writes the body of a product."""

    def __init__(
        self, kernel: Contraction, syntax: Syntax, tiling: Tiling, adds: bool = False
    ) -> None:
        super().__init__(kernel, syntax)
        self.kernel, self.tiling = kernel, tiling
        self.old = "true" if adds else "panel > 0"  # where the result holds something to add to
        self.own = _TILE_VECTORS // THREADS  # vectors of A, and of B, that a thread loads
        share = range(tiling.share)
        self.sums = [(i, j) for i in share for j in range(tiling.share // 4)]
        self.panel = str(PANEL) if kernel.dtype is kernel.accumulate else "max(size4, 1)"
        self.shared = [GroupArray("vectors", kernel.accumulate, 2 * _TILE_VECTORS, VECTOR)]

    def write_points(self) -> None:
        """Write the loop over the tiles of the result: everything."""
        tile, spread = self.tiling.tile, self.tiling.spread
        for name, value in (
            ("row_tiles", f"(size2 + {tile - 1}) / {tile}"),
            ("column_tiles", f"(size3 + {tile - 1}) / {tile}"),
            ("tiles", "size0 * size1 * row_tiles * column_tiles"),
            ("slice", f"thread / {spread**2}"),
            ("row", f"thread / {spread} % {spread}"),
            ("column", f"thread % {spread}"),
        ):
            self.index(name, value)
        self.write_own_places()
        with self.loop("tile", "group", "tiles", "groups"):
            self.index("batch", "tile / (row_tiles * column_tiles)")
            self.index("batch0", "batch / size1")
            self.index("batch1", "batch % size1")
            self.index("first_row", f"tile / column_tiles % row_tiles * {tile}")
            self.index("first_column", f"tile % column_tiles * {tile}")
            for number in range(3):
                batch = f"batch0 * stride{number}_0 + batch1 * stride{number}_1"
                self.index(f"matrix{number}", f"offset{number} + {batch}")
            inside = f"first_row + {tile} <= size2 && first_column + {tile} <= size3"
            self.line(self.syntax.constant("inside", "bool", inside) + ";")
            with self.loop("panel", "0", "max(size4, 1)", self.panel):
                self.write_panel()

    def write_own_places(self) -> None:
        """Declare which vectors a thread loads: neighbours load neighbours in memory."""
        depth, vectors = self.tiling.depth, self.tiling.vectors
        for number, (name, free_axis, deep_axis) in enumerate((("a", 2, 3), ("b", 3, 2))):
            # Along k where that is where neighbours lie, and else along rows of A, columns of B.
            across = f"stride{number}_{free_axis} == 1"
            if number == 1:
                across = f"stride{number}_{deep_axis} != 1"
            self.line(self.syntax.constant(f"{name}_across", "bool", across) + ";")
            for r in range(self.own):
                own = f"thread + {r * THREADS}" if r else "thread"
                along = f"({own}) % {depth}", f"({own}) / {depth}"
                crosswise = f"({own}) / {vectors}", f"({own}) % {vectors}"
                for part, there, other in zip(("deep", "free"), along, crosswise):
                    choice = f"select({there}, {other}, {name}_across)"
                    self.index(f"{name}_{part}{r}", choice)
                first = f"{number * _TILE_VECTORS} + {name}_deep{r} * {vectors}"
                place = f"{first} + ({name}_free{r} ^ ({name}_deep{r} & {self.mask}))"
                self.index(f"{name}_place{r}", place)

    @property
    def mask(self) -> int:
        """The bits of k that decide where a vector is stored."""
        return min(self.tiling.vectors, STEPS) - 1

    def write_panel(self) -> None:
        """Write the sum over a panel of k, and its stores."""
        depth = self.tiling.depth
        deep = depth // self.tiling.slices
        zero = f"{VECTOR}(0.0)"
        names = [f"sum{i}_{j}" for i, j in self.sums]
        names += [f"{name}{r}" for name in "ab" for r in range(self.own)]
        for name in names:
            self.line(self.syntax.variable(name, VECTOR, zero) + ";")
        self.index("end", f"min(panel + {self.panel}, size4)")
        # Each turn loads what the next one multiplies; the first one multiplies nothing.
        with self.loop("start", f"panel - {depth}", "end", str(depth)):
            self.index("next", f"start + {depth}")
            with self.block("if (next < end)"):
                self.write_loads()
            with self.block("if (start >= panel)"):
                if deep == STEPS:
                    self.write_products(f"slice * {deep}")
                else:
                    with self.loop("k", "0", str(deep), str(STEPS)):
                        self.write_products(f"slice * {deep} + k")
            self.line(self.syntax.barrier)
            for name in "ab":
                for r in range(self.own):
                    self.line(f"vectors[{name}_place{r}] = {name}{r};")
            self.line(self.syntax.barrier)
        self.write_results()

    def write_loads(self) -> None:
        """Write the loads of a thread's vectors, with zeros beyond the ends of the matrices."""
        whole = self.block(f"if (inside && next + {self.tiling.depth} <= end)")
        for header, checked in ((whole, False), (self.block("else"), True)):
            with header:
                for number in range(2):
                    for r in range(self.own):
                        self.write_load(number, r, checked)

    def write_load(self, number: int, r: int, checked: bool) -> None:
        """Write the load of one vector. An element beyond the ends is zero. The first one of the
        matrix is read in its place: branches would make loads wait for each other."""
        name, first, size, free_axis, deep_axis = (
            ("a", "first_row", "size2", 2, 3), ("b", "first_column", "size3", 3, 2),
        )[number]  # fmt: skip
        deep, free = f"{name}_deep{r}", f"{name}_free{r}"
        stride, matrix = f"stride{number}_{free_axis}", f"matrix{number}"
        self.index(
            f"{name}_at{r}",
            f"{matrix} + ({first} + {free} * 4) * {stride}"
            f" + (next + {deep}) * stride{number}_{deep_axis}",
        )
        parts = []
        for i in range(4):
            at = f"{name}_at{r} + {i} * {stride}" if i else f"{name}_at{r}"
            if checked:
                here = f"{name}_here{r}_{i}"
                condition = f"{first} + {free} * 4 + {i} < {size} && next + {deep} < end"
                self.line(self.syntax.constant(here, "bool", condition) + ";")
                loaded = self.syntax.load(
                    number, self.kernel.dtype, f"select({matrix}, {at}, {here})"
                )
                parts.append(f"select(0.0, {loaded}, {here})")
            else:
                parts.append(self.syntax.load(number, self.kernel.dtype, at))
        self.line(f"{name}{r} = {VECTOR}({', '.join(parts)});")

    def write_products(self, first: str) -> None:
        """Write the products of `STEPS` k from a first one on."""
        vectors, spread = self.tiling.vectors, self.tiling.spread
        parts = range(self.tiling.share // 4)
        self.index("a_from", f"({first}) * {vectors}")
        self.index("b_from", f"a_from + {_TILE_VECTORS}")
        for step in range(STEPS):
            with self.block(""):
                for q in parts:
                    for name, own in (("a", "row"), ("b", "column")):
                        place = f"({own} ^ {step & self.mask})"
                        at = f"{name}_from + {step * vectors + q * spread} + {place}"
                        value = f"vectors[{at}]"
                        self.line(self.syntax.constant(f"{name}_part{q}", VECTOR, value) + ";")
                for i, j in self.sums:
                    factor = f"{VECTOR}(a_part{i // 4}.{_PARTS[i % 4]})"
                    self.line(f"sum{i}_{j} = fma({factor}, b_part{j}, sum{i}_{j});")

    def write_results(self) -> None:
        """Write what becomes of the sums over a panel."""
        if self.tiling.slices == 1:
            self.write_stores()
        else:
            self.write_sums_of_slices()

    def write_stores(self) -> None:
        """Write the stores of a thread's sums."""
        spread = self.tiling.spread
        for i in range(self.tiling.share):
            row = f"first_row + row * 4 + {i // 4 * spread * 4 + i % 4}"
            with self.block(f"if ({row} < size2)"):
                self.index("row_at", f"matrix2 + ({row}) * stride2_2")
                for j in range(self.tiling.share // 4):
                    self.write_store(f"first_column + column * 4 + {j * spread * 4}", f"sum{i}_{j}")

    def write_sums_of_slices(self) -> None:
        """Write the sums over slices, four vectors of each thread at a time, and their stores."""
        spread, slices = self.tiling.spread, self.tiling.slices
        threads, parts = spread**2, self.tiling.share // 4
        for first in range(0, len(self.sums), 4):
            for number, (i, j) in enumerate(self.sums[first : first + 4]):
                self.line(f"vectors[thread + {number * THREADS}] = sum{i}_{j};")
            self.line(self.syntax.barrier)
            with self.loop("own", "thread", str(4 * threads), str(THREADS)):
                self.index("at", f"own / {threads} * {THREADS} + own % {threads}")
                self.line(self.syntax.variable("total", VECTOR, "vectors[at]") + ";")
                for other in range(1, slices):
                    self.line(f"total += vectors[at + {other * threads}];")
                self.index("number", f"own / {threads} + {first}")
                self.index("i", f"number / {parts}")
                self.index("own_row", f"own % {threads} / {spread} + i / 4 * {spread}")
                self.index("own_column", f"own % {spread} + number % {parts} * {spread}")
                self.index("to_row", "first_row + own_row * 4 + i % 4")
                with self.block("if (to_row < size2)"):
                    self.index("row_at", "matrix2 + to_row * stride2_2")
                    self.write_store("first_column + own_column * 4", "total")
            self.line(self.syntax.barrier)

    def write_store(self, column: str, vector: str) -> None:
        """Write the store of four columns, or add them to those of the panels before."""
        dtype = self.kernel.dtype
        for part, name in enumerate(_PARTS):
            own = f"{column} + {part}"
            with self.block(f"if ({own} < size3)"):
                self.index("to", f"row_at + ({own}) * stride2_3")
                value = f"{vector}.{name}"
                if dtype is not self.kernel.accumulate:
                    value = self.syntax.convert(value, self.kernel.accumulate, dtype)
                    self.line(self.syntax.store(2, dtype, "to", value))
                    continue
                self.line(self.syntax.store(2, dtype, "to", self.add_panels(value, "to")))

    def add_panels(self, value: str, address: str) -> str:
        """Name a sum with those of the panels before, which the result holds at an address."""
        found, dtype = self.next_name(), self.kernel.dtype
        before = self.syntax.load(2, dtype, address)
        for line in self.syntax.guarded(
            found, self.syntax.type_of(dtype), self.old, f"{before} + {value}", value
        ):
            self.line(line)
        return found


class WideWriter(LoopsWriter):
    """Writes the body of maps, rows and columns in which each thread has several points at a time:
    all are loaded and computed before the first is folded or stored, so that loads do not wait for
    each other."""

    def write_points(self) -> None:
        """Write the loop over the outer axes: everything."""
        if self.kernel.inner:
            super().write_points()
            return
        outer, stores = range(self.kernel.outer), self.kernel.stores
        whole = f"threads * {POINTS}"
        self.index("points", self.extent(outer))
        with self.loop("first", f"group * ({whole}) + thread", "points", f"groups * ({whole})"):
            with self.block(f"if (first + threads * {POINTS - 1} < points)"):
                self.write_several("first", "threads", outer, (), stores)
            with (
                self.block("else"),
                self.loop("point", "first", "points", "threads"),
            ):
                self.split("point", outer)
                self.store(stores)

    def write_sweep(self, reductions: Sequence[int], stores: Sequence[Store], turns: str) -> None:
        """Write the sweep of one pass over the inner axes."""
        if not self.width:
            super().write_sweep(reductions, stores, turns)
            return
        inner = range(self.kernel.outer, self.kernel.outer + self.kernel.inner)
        start, step = self.shares()
        with self.loop("first", start, "elements", f"{step} * {POINTS}"):
            with self.block(f"if (first + {step} * {POINTS - 1} < elements)"):
                self.write_several("first", step, inner, reductions, stores)
                self.end_turn(reductions, turns, POINTS)
            with self.block("else"), self.loop("element", "first", "elements", step):
                self.split("element", inner)
                self.visit(reductions, stores)
                self.end_turn(reductions, turns, 1)

    def write_several(
        self,
        first: str,
        step: str,
        axes: Sequence[int],
        reductions: Sequence[int],
        stores: Sequence[Store],
    ) -> None:
        """Write what happens at `POINTS` points."""
        syntax = self.syntax
        folded = [v for r in reductions for v in self.kernel.reductions[r].values]
        roots = [*folded, *(store.value for store in stores)]
        for number in range(POINTS):
            for i, e in enumerate(roots):
                zero = syntax.literal(0, e.dtype)
                name = f"value{i}_{number}"
                self.line(syntax.variable(name, syntax.type_of(e.dtype), zero) + ";")
            with self.at_point(f"{first} + {step} * {number}", axes):
                for i, value in enumerate(self.compute(roots)):
                    self.line(f"value{i}_{number} = {value.text};")
        for number in range(POINTS):
            values = iter(range(len(roots)))
            for r in reductions:
                found = [f"value{next(values)}_{number}" for _ in self.kernel.reductions[r].values]
                self.fold(r, found)
            if stores:
                with self.at_point(f"{first} + {step} * {number}", axes):
                    for store, i in zip(stores, values):
                        dtype = self.operands[store.operand].dtype
                        address, name = self.address(store.operand), f"value{i}_{number}"
                        text = syntax.store(store.operand, dtype, address, name)
                        condition = " && ".join(self.conditions)
                        self.line(f"if ({condition}) {{ {text} }}" if condition else text)

    @contextmanager
    def at_point(self, point: str, axes: Sequence[int]) -> Iterator[None]:
        """Write a block about one point."""
        with self.block(""):
            self.index("point_there", point)
            self.split("point_there", axes)
            yield
