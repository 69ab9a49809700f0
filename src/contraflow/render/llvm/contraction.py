"""Contractions as LLVM IR: register-blocked matrix multiplication for any sizes and strides.

`panels.py` has the inner functions: a block of rows of A meets a panel of B, whose rows are a few
vectors wide and DEPTH steps of k deep. Here are the loops around them, from the outside:

    batches, chunks of columns, strips of rows, DEPTH steps of k, panels of B, blocks of rows

A strip is as high as fits a second-level cache together with what else is used, and is packed where
its rows or their elements lie so that they displace each other. So each element of A is packed once
for a whole row of panels. A panel is packed once for all blocks of a strip, by the first of them on
its way; where few blocks meet it, it is read where it lies.

Blocks begin with sums of zero, so that what is rounded is a sum of DEPTH products, or one of such
sums. Between panels the sums rest in C, or, where C has another type, gaps or columns that do not
fill a vector, in scratch memory, which is converted and written to C once, when all of K has been
added. So every sum is taken in the order of K, in the accumulator's type, and in panels that begin
at multiples of DEPTH, however the work is cut and however wide vectors are.

Where C is narrow and tall its transpose is computed instead, to fill the vectors.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from contraflow.compiler.kernel import Contraction
from contraflow.render.llvm.identity import STANDARD_SIZES, BlockSizes
from contraflow.render.llvm.panels import BLOCK_ARGUMENTS, DEPTH, LINE
from contraflow.render.llvm.single_row import SingleRowRenderer
from contraflow.render.llvm.text import ARGUMENTS, CodeStretch, FunctionText, Loop, memory

# The most rows of a block with one vector, with two and so on, by bytes of a vector: as many sums
# as registers hold beside a row of B and an element of A, and enough that none waits for another.
BLOCKS = {16: (8, 4), 32: (8, 6, 4), 64: (8, 8, 8)}
FEW_REGISTERS = (8, 4)  # the same where a product of integers takes a register of its own
EVEN = 2  # rows of which the last two blocks have a multiple: odd ones would repeat one each
# Up to so many rows packing a panel takes longer than it saves, if its own rows are not further
# apart than so many elements: where they are, they displace each other in the cache.
FEW_ROWS, NEAR_ROWS = 128, 128
# Strips are packed if MANY columns meet them, and the elements of a row lie apart, or rows begin a
# multiple of CLASH bytes apart, so that they displace each other in a cache.
MANY, CLASH = 192, 1 << 10
# Parts are cut out of C in the way that costs least: PACKING is how many products take as long as
# packing an element. Ways are powers of two, and all parts in a row; a batch is cut if matrices are
# shared evenly, or each part has MANY_MATRICES.
PACKING, GRID_TRIES, MANY_MATRICES = 16, 9, 4


class Sides(NamedTuple):
    """The arguments of a contraction, as names: where A, B and C begin, sizes, and strides."""

    pointers: list[str]
    b: str  # matrices in all
    m: str
    n: str
    k: str
    inner: str  # the size of the batch's second axis
    batch: list[tuple[str, str]]  # strides of A, B and C along both
    rows: list[str]  # strides of A and C along m
    column: str  # stride of C along n
    depth: str  # stride of A along k
    # Sums over k that are added up, one after the other, and how far apart they lie in A and in B.
    outer: str = "1"
    apart: tuple[str, str] = ("0", "0")


class Stretch(NamedTuple):
    """Rows or columns that are taken block by block, as names; see `_stretch`."""

    start: str
    stop: str
    step: int | str
    last: str  # where the last block begins


class PartGrid(NamedTuple):
    """How work is cut into parts, as names: how many there are along the batch, for each of these,
    and across the columns; the others are along the rows."""

    batches: str
    rest: str
    across: str


class Strip(NamedTuple):
    """A strip of rows that meets a chunk of columns, as names."""

    a: str  # where the rows begin in A and C
    c: str
    height: str
    columns: Stretch
    above: str  # rows of the part above it, and in all
    part_rows: str


class Panel(NamedTuple):
    """A panel of B, as names: where it lies, how far apart its rows lie, whether the first block
    that meets it has to pack it, and where it lies in B."""

    b: str
    pitch: str
    packs: str = "false"
    source: str = ""


class ContractionRenderer(SingleRowRenderer):
    """Writes the functions of a contraction whose operands have one stride along each axis."""

    plain = True  # whether B has one stride along each axis
    blocks = BLOCKS
    high_strips = False  # whatever the type of C
    panels = 1  # packed ones of B that there is room for

    def __init__(
        self, kernel: Contraction, name: str, vector_bytes: int, several_rows: bool = False,
        sizes: BlockSizes = STANDARD_SIZES,
    ) -> None:  # fmt: skip
        self.heights = self.blocks[vector_bytes]
        if not kernel.accumulate.is_floating_point and vector_bytes < 64:
            self.heights = FEW_REGISTERS
        super().__init__(kernel, name, vector_bytes, self.heights[-1], len(self.heights))
        self.several_rows = several_rows  # in all matrices
        # Whether matrices of a single row have functions of their own.
        self.single_rows = not (self.converts or several_rows)
        high = self.high_strips or (vector_bytes == 64 and not self.converts)
        fit = (sizes.high_strip if high else sizes.strip) // (self.depth * self.sum.itemsize)
        self.strip_rows = fit // self.block * self.block
        # Panels of a chunk whose sums do not rest in C: one if that is an exception.
        panel_bytes = self.strip_rows * self.columns * self.sum.itemsize
        self.chunk = max(sizes.chunk // panel_bytes, 1) if self.converts else 1

    def text(self) -> str:
        """The functions, the entry last."""
        shapes = self._shapes()
        names = ", ".join(f"ptr @{self._block_name(*shape)}" for shape in shapes)
        table = f"@{self.name}_blocks = internal constant [{len(shapes)} x ptr] [{names}]"
        parts = [self._block(*shape) for shape in dict.fromkeys(shapes)]
        parts += [self._pack_rows(), self._pack(), self._write()]
        if self.plain and self.single_rows:
            parts += [self._sweep(), self._dots()]
        parts.append(self._entry())
        return "\n".join([table, *parts])

    def _shapes(self) -> list[tuple[int, int, bool]]:
        """The rows and vectors of the blocks in their table, and whether they pack.

        With one vector there is one, for any number of rows; with more there is a place for each
        number. Odd ones have no block of their own, which LLVM would have to compile: the block
        that is one row higher repeats the last. A single row has one where matrices have no more.
        """
        most, *others = self.heights
        shapes = [(most, 1, False)]
        shapes += [
            (1 if rows == 1 and not self.several_rows else rows + rows % 2, vectors, False)
            for vectors, most in enumerate(others, 2)
            for rows in range(1, most + 1)
        ]
        packing = (self.block, self.vectors, True)
        return [*shapes, packing] if self.plain and not self.converts else shapes

    def _fewest_rows(self, rows: int, vectors: int, packs: bool) -> int:
        if vectors == 1:
            return 1
        return rows - (rows % 2 == 0 and not packs)

    # --- arguments -----------------------------------------------------------------------------

    def _sides(self, code: CodeStretch) -> Sides:
        """Read the arguments, and exchange A and B where C is narrow and tall."""
        pointers = self._pointers(code)
        g, b, m, n, k = (code.word("%arguments", 6 + i, name) for i, name in enumerate("gbmnk"))
        strides = [code.word("%arguments", 11 + i, "stride") for i in range(12)]
        (ag, ab, am, ak), (bg, bb, bk, bn), (cg, cb, cm, cn) = (
            strides[i : i + 4] for i in (0, 4, 8)
        )
        narrow = code.let(f"icmp sle i64 {n}, {self.width}")
        tall = code.let(f"icmp slt i64 {n}, {m}")
        swap = code.let(f"and i1 {narrow}, {tall}", "swap")

        def exchange(kind: str, x: str, y: str) -> tuple[str, str]:
            return (
                code.let(f"select i1 {swap}, {kind} {y}, {kind} {x}"),
                code.let(f"select i1 {swap}, {kind} {x}, {kind} {y}"),
            )

        pointers[:2] = exchange("ptr", *pointers[:2])
        (ag, bg), (ab, bb), (ak, self.bk), (am, self.bn) = (
            exchange("i64", *pair) for pair in ((ag, bg), (ab, bb), (ak, bk), (am, bn))
        )
        (m, n), (cm, cn) = exchange("i64", m, n), exchange("i64", cm, cn)
        matrices, batch = code.integer("mul", g, b), [(ag, ab), (bg, bb), (cg, cb)]
        return Sides(pointers, matrices, m, n, k, b, batch, [am, cm], cn, ak)

    def _matrices(self, code: CodeStretch, sides: Sides, number: str) -> list[str]:
        """Where the matrices of A, B and C begin that have a number in the batch."""
        outer = code.let(f"sdiv i64 {number}, {sides.inner}")
        inner = code.let(f"sub i64 {number}, {code.integer('mul', outer, sides.inner)}")
        return [
            self._ahead(code, self._ahead(code, pointer, outer, far), inner, near)
            for pointer, (far, near) in zip(sides.pointers, sides.batch)
        ]

    def _pointers(self, code: CodeStretch) -> list[str]:
        result = []
        for i in range(3):
            index, offset = (code.word("%arguments", 2 * i + part) for part in range(2))
            base = code.let(f"load ptr, ptr {code.at('%bases', 'ptr', index)}")
            result.append(code.at(base, memory(self.dtype), offset))
        return result

    # --- panels --------------------------------------------------------------------------------

    def _scratch(self, code: CodeStretch) -> None:
        """Reserve scratch memory beside the panel and the strips."""

    def _release(self, code: CodeStretch) -> None:
        """Give back what is not memory."""

    def _begin_columns(
        self, function: FunctionText, b: str, column: str, extent: str, turn: str, first: str
    ) -> str:
        """Where the panel that begins at a column of B begins."""
        return self._ahead(function.code(), b, column, self.bn)

    def _provide(
        self, function: FunctionText, b: str, start: str, depth: str, columns: str, few: str
    ) -> Panel:
        """The panel from row `start` on, packed if need be."""
        code = function.code()
        source = self._ahead(code, b, start, self.bk)
        ready = packs = "false"
        if not self.converts:
            beside = self._flag(code, f"{self.bn}, 1")
            ragged = code.let(f"and i64 {columns}, {self.width - 1}")
            near = code.let(f"icmp sle i64 {self.bk}, {NEAR_ROWS}")
            ready = self._all(code, beside, self._flag(code, f"{ragged}, 0"), few, near)
            ready = self._any(
                code, ready, self._all(code, beside, self._flag(code, f"{ragged}, 0"), self.single)
            )
            if self.plain:
                wide_enough = self._flag(code, f"{columns}, {self.columns}")
                packs = self._all(code, beside, wide_enough, self.full)
                packs = code.let(f"select i1 {ready}, i1 false, i1 {packs}")
        in_place = self._any(code, ready, packs)
        with function.when(code.let(f"xor i1 {in_place}, true")):
            function.code().do(
                f"call void @{self.name}_pack(ptr {source}, i64 {self.bk}, i64 {self.bn}, "
                f"i64 {depth}, i64 {columns}, ptr {self.panel})"
            )
        code = function.code()
        return Panel(
            code.let(f"select i1 {in_place}, ptr {source}, ptr {self.panel}"),
            code.let(f"select i1 {in_place}, i64 {self.bk}, i64 {self.columns}"),
            packs,
            source,
        )

    def _coming(self, code: CodeStretch, panel: Panel, number: str) -> tuple[str, str]:
        """The addresses that the block with a number fetches, as a start and a step per k: one line
        of each row of the panel beside its own in B, until all have been fetched."""
        size = self.dtype.itemsize
        lines = -(-self.columns * size // LINE) * self.pair
        beside = self._flag(code, f"{self.bn}, 1")
        some = code.let(f"icmp slt i64 {number}, {lines}")
        start = code.at(panel.source, memory(self.dtype), str(self.columns))
        if self.pair == 2:
            start = self._ahead(code, start, code.let(f"and i64 {number}, 1"), self.bk)
            number = code.let(f"lshr i64 {number}, 1")
        start = code.at(start, f"[{LINE} x i8]", number)
        step = code.let(f"mul i64 {self.bk}, {size * self.pair}")
        fetches = self._all(code, beside, some)
        return (
            code.let(f"select i1 {fetches}, ptr {start}, ptr {self.panel}"),
            code.let(f"select i1 {fetches}, i64 {step}, i64 0"),
        )

    # --- loops ---------------------------------------------------------------------------------

    def _entry(self) -> str:
        function = FunctionText(f"define void @{self.name}{ARGUMENTS} #0")
        code = function.code()
        self._reserve(code)
        sides = self._sides(code)
        products = code.integer("mul", sides.outer, sides.k)
        self.empty = code.let(f"icmp eq i64 {products}, 0")
        self.direct = "false" if self.converts else self._flag(code, f"{sides.column}, 1")
        chunk = self._chunk(code, sides)
        grid = self._grid(function, sides)
        self.packs_rows = self._packs_rows(function.code(), sides, grid)
        with function.loop("%first", "%last", 1) as part:
            batches, rows, columns = self._cut(function, sides, grid, part.index)
            if not self.plain and self.single_rows:
                batches = self._single_rows(function, sides, batches, rows, columns)
            with function.loop(*batches, 1) as batch:
                a, b, c = self._matrices(function.code(), sides, batch.index)
                start = columns[0]
                if self.plain and self.single_rows:
                    start = self._one_row(function, sides, (a, b, c), rows, columns)
                with function.loop(start, columns[1], chunk) as place:
                    code = function.code()
                    end = self._least(code, code.let(f"add i64 {place.index}, {chunk}"), columns[1])
                    across = self._stretch(code, place.index, end, self.columns, self.width)
                    with function.loop(*rows, self.strip_rows) as row:
                        code = function.code()
                        strip = self._strip(code, sides, (a, c), row.index, rows, across)
                        self._add_products(function, sides, strip, b)
                        self._finish(function, sides, strip)
        self._release(function.code())
        return function.text()

    def _single_rows(
        self, function: FunctionText, sides: Sides, batches: tuple[str, str],
        rows: tuple[str, str], columns: tuple[str, str],
    ) -> tuple[str, str]:  # fmt: skip
        """Write the matrices of a part that have a single row, if there is a way for these; give
        those that are left to do."""
        raise NotImplementedError

    def _one_row(
        self, function: FunctionText, sides: Sides, pointers: Sequence[str],
        rows: tuple[str, str], columns: tuple[str, str],
    ) -> str:  # fmt: skip
        """Write the only row of C, if that is all there is, and B lies well; give the column from
        which on there is something left to do."""
        code, (a, b, c) = function.code(), pointers
        single = self._flag(code, f"{sides.m}, 1", f"{rows[0]}, 0", f"{rows[1]}, 1")
        single = self._all(code, single, code.let(f"xor i1 {self.empty}, true"))
        dots = self._all(code, single, self._flag(code, f"{self.bk}, 1", f"{sides.depth}, 1"))
        sweeps = self._all(code, single, self._flag(code, f"{self.bn}, 1"), self.direct)
        sweeps = code.let(f"select i1 {dots}, i1 false, i1 {sweeps}")
        extent = code.integer("sub", columns[1], columns[0])
        b = self._ahead(code, b, columns[0], self.bn)
        c = self._ahead(code, c, columns[0], sides.column)
        ways = (
            (dots, self.dot_depth, f"_dots(ptr {{a}}, ptr {{b}}, i64 {self.bn}, i64 {{length}}, "
             f"i64 {extent}, ptr {c}, i64 {sides.column}, i1 {{first}})"),
            (sweeps, DEPTH, f"_sweep(ptr {{a}}, i64 {sides.depth}, ptr {{b}}, i64 {self.bk}, "
             f"i64 {{length}}, i64 {extent}, ptr {c}, i1 {{first}})"),
        )  # fmt: skip
        for chosen, step, call in ways:
            code = function.code()
            with function.loop(
                "0", code.let(f"select i1 {chosen}, i64 {sides.k}, i64 0"), step
            ) as k:
                code = function.code()
                length = self._least(code, code.let(f"sub i64 {sides.k}, {k.index}"), step)
                values = {
                    "a": self._ahead(code, a, k.index, sides.depth),
                    "b": self._ahead(code, b, k.index, self.bk),
                    "length": length,
                    "first": self._flag(code, f"{k.index}, 0"),
                }
                code.do(f"call void @{self.name}{call.format(**values)}")
        code = function.code()
        done = self._any(code, dots, sweeps)
        return code.let(f"select i1 {done}, i64 {columns[1]}, i64 {columns[0]}")

    def _reserve(self, code: CodeStretch) -> None:
        """Reserve scratch memory on the stack."""
        element = memory(self.sum)
        row_type = f"[{self.columns} x {element}]"
        self.panel = code.let(
            f"alloca [{self.panels * self.depth} x {row_type}], align 64", "panel"
        )
        sums = f"[{self.chunk * self.strip_rows} x {row_type}]"
        self.sums = code.let(f"alloca {sums}, align 64", "sums")
        self.zeros = code.let(f"alloca {row_type}, align 64", "zeros")
        self._write_row(code, self.zeros, ["zeroinitializer"] * self.vectors)
        packed = f"[{self.strip_rows} x [{self.depth} x {element}]]"
        self.packed = code.let(f"alloca {packed}, align 64", "packed")
        self._scratch(code)

    def _packs_rows(self, code: CodeStretch, sides: Sides, grid: PartGrid) -> str:
        """Whether strips of A are packed, by each part for itself."""
        if self.converts:
            return "true"
        columns = code.let(f"sdiv i64 {sides.n}, {grid.across}")
        many = code.let(f"icmp sge i64 {columns}, {MANY}")
        odd = code.let(f"and i64 {sides.rows[0]}, {CLASH // self.dtype.itemsize - 1}")
        clash = self._flag(code, f"{odd}, 0")
        apart = code.let(f"icmp ne i64 {sides.depth}, 1")
        return self._all(code, many, self._any(code, clash, apart))

    def _chunk(self, code: CodeStretch, sides: Sides) -> str:
        """The columns of a chunk: all, or those whose sums there is room for."""
        least = str(self.chunk * self.columns)
        if self.converts:
            return least
        return code.let(f"select i1 {self.direct}, i64 {1 << 62}, i64 {least}")

    def _strip(
        self, code: CodeStretch, sides: Sides, pointers: Sequence[str], start: str,
        rows: tuple[str, str], columns: Stretch,
    ) -> Strip:  # fmt: skip
        """The strip of rows of A and C from `start` on, in a part that has these rows."""
        height = self._least(code, code.let(f"sub i64 {rows[1]}, {start}"), self.strip_rows)
        a, c = (self._ahead(code, x, start, stride) for x, stride in zip(pointers, sides.rows))
        above, part_rows = (code.let(f"sub i64 {end}, {rows[0]}") for end in (start, rows[1]))
        return Strip(a, c, height, columns, above, part_rows)

    def _add_products(self, function: FunctionText, sides: Sides, strip: Strip, b: str) -> None:
        """Add the products of a strip of A and a chunk of B, in the order of K."""
        code, (am, _), ak = function.code(), sides.rows, sides.depth
        few = code.let(f"icmp sle i64 {strip.height}, {FEW_ROWS}")
        self.single = code.let(f"icmp sle i64 {strip.height}, {self.block}")
        whole = self._stretch(code, "0", strip.height, self.block, EVEN)
        _, count = self._turn(code, "0", whole)
        self.full = self._flag(code, f"{count}, {self.block}")
        with function.loop("0", sides.outer, 1) as outer:
            code = function.code()
            a_outer, b_outer = (
                self._ahead(code, pointer, outer.index, stride)
                for pointer, stride in zip((strip.a, b), sides.apart)
            )
            with function.loop("0", sides.k, self.depth * self.pair) as depth:
                code = function.code()
                left = code.let(f"sub i64 {sides.k}, {depth.index}")
                length = self._least(code, left, self.depth * self.pair)
                a_depth = self._ahead(code, a_outer, depth.index, ak)
                first = self._flag(code, f"{code.let(f'or i64 {outer.index}, {depth.index}')}, 0")
                with function.when(self.packs_rows):
                    self._pack_strip(function, whole, (a_depth, am, ak), length)
                with function.loop(strip.columns.start, strip.columns.stop, self.columns) as panel:
                    code = function.code()
                    column, extent = self._turn(code, panel.index, strip.columns)
                    turn = code.let(f"sub i64 {panel.index}, {strip.columns.start}")
                    target = self._target(code, sides, strip, column, extent, turn)
                    source = self._begin_columns(function, b_outer, column, extent, turn, first)
                    found = self._provide(function, source, depth.index, length, extent, few)
                    code = function.code()
                    height, cases = self._height(code, extent)
                    rows = self._stretch(code, "0", strip.height, height, EVEN)
                    with function.loop("0", strip.height, height, [("i64", "0")]) as row:
                        self._meet(
                            function, rows, (a_depth, am, ak), found, target, row,
                            first, length, cases,
                        )  # fmt: skip

    def _height(self, code: CodeStretch, extent: str) -> tuple[str, str]:
        """The rows of blocks with panels of so many columns, and where that with one row would be
        in the table; the one that has any number of rows is the first."""
        result, before = str(self.heights[0]), str(-self.heights[0])
        for v in range(1, self.vectors):
            more = code.let(f"icmp sgt i64 {extent}, {v * self.width}")
            result = code.let(f"select i1 {more}, i64 {self.heights[v]}, i64 {result}")
            others = sum(self.heights[1:v])
            before = code.let(f"select i1 {more}, i64 {others}, i64 {before}")
        packed = code.let(f"select i1 {self.packs_rows}, i64 {self.block}, i64 {result}")
        return packed, before

    def _meet(
        self, function: FunctionText, rows: Stretch, left: tuple[str, str, str], panel: Panel,
        target: tuple[str, str], turn: Loop, first: str, length: str, cases: str,
    ) -> None:  # fmt: skip
        """Add the block whose turn it is, times the panel, to what its target holds, or to nothing
        at first. The loop counts rows, and carries the number of the block."""
        code, (a, am, ak), (b, pitch, packs, _) = function.code(), left, panel
        row, (place,) = turn.index, turn.carried
        turn.following = [code.integer("add", place, "1")]
        start, count = self._turn(code, row, rows)
        packed = self._packed_block(code, row)
        a = code.let(
            f"select i1 {self.packs_rows}, ptr {packed}, ptr {self._ahead(code, a, start, am)}"
        )
        am = code.let(f"select i1 {self.packs_rows}, i64 1, i64 {am}")
        ak = code.let(f"select i1 {self.packs_rows}, i64 {self.block}, i64 {ak}")
        at, apart = self._row_apart(code, target[0], start, target[1]), target[1]
        before = code.let(f"select i1 {first}, ptr {self.zeros}, ptr {at}")
        before_apart = code.let(f"select i1 {first}, i64 0, i64 {apart}")
        if self.pair == 2:
            length = code.let(f"lshr i64 {code.let(f'add i64 {length}, 1')}, 1")
        number = code.integer("add", cases, count)
        number = code.let(f"call i64 @llvm.smax.i64(i64 {number}, i64 0)")
        other, step = self._coming(code, panel, place) if panel.source else (self.panel, "0")
        if packs != "false":
            starts = self._flag(code, f"{row}, 0")
            initial, later = self._all(code, packs, starts), code.let(f"xor i1 {starts}, true")
            later = self._all(code, packs, later)
            b = code.let(f"select i1 {later}, ptr {self.panel}, ptr {b}")
            pitch = code.let(f"select i1 {later}, i64 {self.columns}, i64 {pitch}")
            packing = len(self._shapes()) - 1
            number = code.let(f"select i1 {initial}, i64 {packing}, i64 {number}")
            other = code.let(f"select i1 {initial}, ptr {self.panel}, ptr {other}")
        values = (
            a, am, ak, b, pitch, length, before, before_apart, at, apart, other, step, count
        )  # fmt: skip
        kinds = re.findall(r"(\w+) %", BLOCK_ARGUMENTS)
        arguments = ", ".join(f"{kind} {value}" for kind, value in zip(kinds, values, strict=True))
        block = code.let(f"load ptr, ptr {code.at(f'@{self.name}_blocks', 'ptr', number)}")
        code.do(f"call void {block}({arguments})")

    def _target(
        self, code: CodeStretch, sides: Sides, strip: Strip, column: str, extent: str, turn: str
    ) -> tuple[str, str]:
        """Where the sums of a panel rest, and how far apart their rows lie."""
        slot = self._slot(code, turn)
        if self.converts:
            return slot, str(self.columns)
        c = self._ahead(code, strip.c, column, sides.column)
        there = self._rests_in_c(code, extent)
        return (
            code.let(f"select i1 {there}, ptr {c}, ptr {slot}"),
            code.let(f"select i1 {there}, i64 {sides.rows[1]}, i64 {self.columns}"),
        )

    def _rests_in_c(self, code: CodeStretch, extent: str) -> str:
        """Whether the sums of a panel of so many columns rest in C."""
        ragged = code.let(f"and i64 {extent}, {self.width - 1}")
        return self._all(code, self.direct, self._flag(code, f"{ragged}, 0"))

    def _slot(self, code: CodeStretch, turn: str) -> str:
        """Where the sums of a panel rest that do not rest in C."""
        if self.chunk == 1:  # of a chunk that is wider they rest in C, except for the last panel's
            return self.sums
        number = code.let(f"sdiv i64 {turn}, {self.columns}")
        return self._row(code, self.sums, code.let(f"mul i64 {number}, {self.strip_rows}"))

    def _finish(self, function: FunctionText, sides: Sides, strip: Strip) -> None:
        """Write sums that rest elsewhere to C, and sums of nothing, which no block has written."""
        with function.loop(strip.columns.start, strip.columns.stop, self.columns) as panel:
            code = function.code()
            column, extent = self._turn(code, panel.index, strip.columns)
            turn = code.let(f"sub i64 {panel.index}, {strip.columns.start}")
            sums, pitch = self._target(code, sides, strip, column, extent, turn)
            padded = code.let(f"add i64 {extent}, {self.width - 1}")
            filled = code.let(f"and i64 {padded}, {-self.width}")
            unwritten = code.let(f"select i1 {self.empty}, i64 {strip.height}, i64 0")
            with function.loop("0", unwritten, 1) as row:
                nothing = self._row_apart(function.code(), sums, row.index, pitch)
                with function.loop("0", filled, self.width) as lane:
                    code = function.code()
                    self._write_row(
                        code, code.at(nothing, memory(self.sum), lane.index), ["zeroinitializer"]
                    )
            code = function.code()
            there = "false" if self.converts else self._rests_in_c(code, extent)
            with function.when(code.let(f"xor i1 {there}, true")):
                code = function.code()
                c = self._ahead(code, strip.c, column, sides.column)
                code.do(
                    f"call void @{self.name}_write(ptr {sums}, ptr {c}, i64 {sides.rows[1]}, "
                    f"i64 {sides.column}, i64 {strip.height}, i64 {extent})"
                )

    def _pack_strip(
        self, function: FunctionText, rows: Stretch, source: tuple[str, str, str], length: str
    ) -> None:
        """Pack the rows of a strip block by block; `source` has where they begin, and strides."""
        a_depth, am, ak = source
        with function.loop("0", rows.stop, self.block) as row:
            code = function.code()
            start, count = self._turn(code, row.index, rows)
            source_rows = self._ahead(code, a_depth, start, am)
            packed = self._packed_block(code, row.index)
            code.do(
                f"call void @{self.name}_pack_rows(ptr {source_rows}, i64 {am}, i64 {ak}, "
                f"i64 {count}, i64 {length}, ptr {packed})"
            )

    def _packed_block(self, code: CodeStretch, row: str) -> str:
        """Where the packed block lies whose turn it is at a row."""
        return code.at(self.packed, f"[{self.depth} x {memory(self.sum)}]", row)

    # --- cutting -------------------------------------------------------------------------------

    def _stretch(
        self, code: CodeStretch, start: str, stop: str, step: int | str, unit: int
    ) -> Stretch:
        """Rows or columns that are taken in blocks of `step`, which is so many units.

        The last block shares evenly with the one before, in whole units: with few rows or vectors
        the multipliers wait for their sums.
        """
        size = code.integer("sub", stop, start)
        padded = code.let(f"add i64 {size}, {code.let(f'sub i64 {step}, 1')}")
        blocks = code.let(f"sdiv i64 {padded}, {step}")
        whole = code.let(f"mul i64 {code.let(f'sub i64 {blocks}, 2')}, {step}")
        left = code.let(f"sub i64 {size}, {whole}")
        half = code.let(f"sdiv i64 {code.let(f'add i64 {left}, {2 * unit - 1}')}, {2 * unit}")
        half = code.integer("mul", half, str(unit))
        last = code.integer("add", start, code.let(f"add i64 {whole}, {half}"))
        several = code.let(f"icmp sgt i64 {blocks}, 1")
        return Stretch(start, stop, step, code.let(f"select i1 {several}, i64 {last}, i64 {start}"))

    def _turn(self, code: CodeStretch, index: str, stretch: Stretch) -> tuple[str, str]:
        """Where the block begins whose turn it is at `index`, and how long it is."""
        start = self._least(code, index, stretch.last)
        following = code.let(f"add i64 {index}, {stretch.step}")
        ends = code.let(f"icmp sge i64 {following}, {stretch.stop}")
        stop = self._least(code, following, stretch.last)
        stop = code.let(f"select i1 {ends}, i64 {stretch.stop}, i64 {stop}")
        return start, code.let(f"sub i64 {stop}, {start}")

    def _grid(self, function: FunctionText, sides: Sides) -> PartGrid:
        """How work is cut: batches first, if that leaves even parts, and then C into rectangles
        that have the least to compute and to pack."""
        code = function.code()
        several = code.let("icmp sgt i64 %parts, 1")
        tries = code.let(f"select i1 {several}, i64 {GRID_TRIES}, i64 0")

        def divisor(body: CodeStretch, number: str, of: str) -> tuple[str, str]:
            """A power of two, all if it is more or the last, and whether nothing is left then."""
            power = body.let(f"shl i64 1, {number}")
            final = body.let(f"icmp eq i64 {number}, {GRID_TRIES - 1}")
            found = body.let(f"select i1 {final}, i64 {of}, i64 {power}")
            found = self._least(body, found, of)
            return found, self._flag(body, f"{body.let(f'srem i64 {of}, {found}')}, 0")

        with function.loop("0", tries, 1, [("i64", "1")]) as loop:
            body = function.code()
            found, valid = divisor(body, loop.index, "%parts")
            even = self._flag(body, f"{body.let(f'srem i64 {sides.b}, {found}')}, 0")
            each = body.let(f"sdiv i64 {sides.b}, {found}")
            many = body.let(f"icmp sge i64 {each}, {MANY_MATRICES}")
            some = body.let(f"icmp sgt i64 {sides.b}, 0")
            good = self._all(body, valid, some, self._any(body, even, many))
            loop.following = [body.let(f"select i1 {good}, i64 {found}, i64 {loop.carried[0]}")]
        (batches,) = loop.carried
        code = function.code()
        rest = code.let(f"sdiv i64 %parts, {batches}")
        units = [self._units(code, sides.m, self.block), self._units(code, sides.n, self.width)]
        with function.loop("0", tries, 1, [("i64", "1"), ("i64", str((1 << 63) - 1))]) as loop:
            body = function.code()
            across, valid = divisor(body, loop.index, rest)
            down = body.let(f"sdiv i64 {rest}, {across}")
            height, width = (
                body.integer("mul", self._units(body, unit, parts), str(step))
                for unit, parts, step in zip(units, (down, across), (self.block, self.width))
            )
            both = body.let(f"mul i64 {body.let(f'add i64 {height}, {width}')}, {PACKING}")
            cost = body.let(f"add i64 {body.let(f'mul i64 {height}, {width}')}, {both}")
            less = body.let(f"icmp slt i64 {cost}, {loop.carried[1]}")
            better = self._all(body, valid, less)
            loop.following = [
                body.let(f"select i1 {better}, i64 {new}, i64 {old}")
                for new, old in zip((across, cost), loop.carried)
            ]
        return PartGrid(batches, rest, loop.carried[0])

    def _units(self, code: CodeStretch, size: str, step: int | str) -> str:
        """How many blocks of so many there are, the last one perhaps smaller."""
        padded = code.integer("add", size, code.let(f"sub i64 {step}, 1"))
        return code.let(f"sdiv i64 {padded}, {step}")

    def _cut(
        self, function: FunctionText, sides: Sides, grid: PartGrid, part: str
    ) -> list[tuple[str, str]]:
        """The ranges of batches, rows and columns in a part. A part that is all there is takes no
        divisions, which cost a small product a tenth of its time."""
        code = function.code()
        several = code.let(f"zext i1 {code.let('icmp sgt i64 %parts, 1')} to i64")
        whole = [("i64", end) for size in (sides.b, sides.m, sides.n) for end in ("0", size)]
        with function.loop("0", several, 1, whole) as cut:
            cut.following = self._edges(function.code(), sides, grid, part)
        edges = cut.carried
        return list(zip(edges[::2], edges[1::2]))

    def _edges(self, code: CodeStretch, sides: Sides, grid: PartGrid, part: str) -> list[str]:
        """Where the batches, rows and columns of a part begin and end."""
        batch = code.let(f"sdiv i64 {part}, {grid.rest}")
        place = code.let(f"srem i64 {part}, {grid.rest}")
        row = code.let(f"sdiv i64 {place}, {grid.across}")
        column = code.let(f"srem i64 {place}, {grid.across}")
        down = code.let(f"sdiv i64 {grid.rest}, {grid.across}")
        edges = []
        for size, step, number, parts in (
            (sides.b, 1, batch, grid.batches),
            (sides.m, self.block, row, down),
            (sides.n, self.width, column, grid.across),
        ):
            units = self._units(code, size, step)
            for edge in (number, code.let(f"add i64 {number}, 1")):
                unit = code.let(f"sdiv i64 {code.let(f'mul i64 {units}, {edge}')}, {parts}")
                edges.append(self._least(code, code.integer("mul", unit, str(step)), size))
        return edges
