"""Contractions of bfloat16 as LLVM IR for processors that multiply tiles of them (Intel's AMX).

A tile is a register of 16 rows of 64 bytes. One instruction adds the product of two of them to a
third: 16 rows of A, 32 elements along k, times 16 columns of B, as 16 rows of pairs. A block adds
up 32 rows times 32 columns in four tiles, and so uses each tile that it reads twice; at edges it
has 16 rows or 16 columns. The instruction adds its 32 products up from zero before it adds them to
the sum, so that errors grow with a thirty-second of k, and sums go on from panel to panel. Like
that of pairs, it takes subnormal numbers for zero.

Moving elements takes most of the time. So panels of B are packed once for all strips of rows
(`KEPT`), and a block whose sums are complete goes to C at once, while a first-level cache has them.
Panels of A hold the rows of a tile one after the other, 32 elements of each. Panels of both are
filled up with zeros along k: the product of a zero and what was left in memory may be NaN.

The number and sizes of tiles are part of a thread's state. Each call of a kernel sets them, and
releases them at its end: a thread that has tiles takes longer to switch.
"""

from __future__ import annotations

import re

from contraflow.render.llvm.contraction import Sides, Strip
from contraflow.render.llvm.pairs import PairsRenderer
from contraflow.render.llvm.text import CodeStretch, FunctionText, memory, wide

ROWS = 16  # of a tile, each of one pair of elements per column
ROW_BYTES = 64
STEP = 32  # elements along k in one tile
DEPTH = 512  # pairs along k of a panel
# The most packed panels of B that are kept while strips of rows pass. A chunk has as many columns
# as that allows, but no fewer panels than LEAST_PANELS: strips are packed again for each chunk.
KEPT, LEAST_PANELS = 16, 4
BLOCKS: dict[int, tuple[int, ...]] = {64: (2 * ROWS, 2 * ROWS)}
_ARGUMENTS = (
    "(ptr %a, ptr %b, i64 %steps, ptr %before, i64 %apart, ptr %sums, ptr %target, i64 %pitch)"
)


class TilesRenderer(PairsRenderer):
    """Writes the functions of a contraction of bfloat16 with float32 sums, in tiles."""

    blocks = BLOCKS
    panels, depth, high_strips = KEPT, DEPTH, True

    # --- blocks --------------------------------------------------------------------------------

    def _shapes(self) -> list[tuple[int, int, bool]]:
        return [(rows, vectors, False) for vectors in (1, 2) for rows in (ROWS, 2 * ROWS)]

    def _block(self, rows: int, vectors: int, packs: bool = False) -> str:
        """Add `steps` tiles of rows of A, times those of B, to what lies at `before`, whose rows
        lie `apart` bytes apart, and write that to sums; `target` is where it will be written."""
        function = FunctionText(
            f"define internal void @{self._block_name(rows, vectors, packs)}{_ARGUMENTS} #0"
        )
        code, heights = function.code(), range(rows // ROWS)
        places = [(h, v) for h in heights for v in range(vectors)]
        sums = {place: number for number, place in enumerate(places)}
        left = {h: len(sums) + h for h in heights}
        right = {v: len(sums) + len(left) + v for v in range(vectors)}
        panel_row, packed_row = 4 * self.columns, self.block * ROW_BYTES
        for h, v in places:
            rows_above = code.let(f"mul i64 %apart, {ROWS * h}")
            start = code.at(code.at("%before", "i8", rows_above), "i8", str(ROW_BYTES * v))
            self._tile(code, "tileloadd64", sums[h, v], start, "%apart")
        for row in range(rows):
            code.fetch(code.at("%target", "i8", code.let(f"mul i64 %pitch, {row}")), write=True)
        with function.loop("0", "%steps", 1, [("ptr", "%a"), ("ptr", "%b")]) as loop:
            body, (a, b) = function.code(), loop.carried
            for v, tile in right.items():
                start = body.at(b, "i8", str(ROW_BYTES * v))
                self._tile(body, "tileloadd64", tile, start, str(panel_row))
            for h, tile in left.items():
                start = body.at(a, "i8", str(ROWS * ROW_BYTES * h))
                self._tile(body, "tileloadd64", tile, start, str(ROW_BYTES))
                # A load waits for its tile, a fetch for nothing: those of the next steps run ahead.
                # On Emerald Rapids that is 4 % faster than to fetch what is three steps ahead.
                for line in range(ROWS):
                    body.fetch(body.at(start, "i8", str(line * ROW_BYTES)))
                for v in right:
                    numbers = ", ".join(f"i8 {x}" for x in (sums[h, v], tile, right[v]))
                    body.do(f"call void @llvm.x86.tdpbf16ps({numbers})")
            loop.following = [
                body.at(a, "i8", str(packed_row)),
                body.at(b, "i8", str(ROWS * panel_row)),
            ]
        code = function.code()
        for h, v in places:
            start = code.at("%sums", "i8", str(ROWS * panel_row * h + ROW_BYTES * v))
            self._tile(code, "tilestored64", sums[h, v], start, str(panel_row))
        return function.text()

    def _tile(self, code: CodeStretch, what: str, number: int, start: str, apart: str) -> None:
        """Load or store a tile, whose rows lie `apart` bytes apart."""
        code.do(f"call void @llvm.x86.{what}(i8 {number}, ptr {start}, i64 {apart})")

    # --- loops ---------------------------------------------------------------------------------

    def _scratch(self, code: CodeStretch) -> None:
        row_type = f"[{self.columns} x {memory(self.sum)}]"
        self.result = code.let(f"alloca [{self.block} x {row_type}], align 64", "result")
        # Eight tiles of whole rows: the palette, and from bytes 16 and 48 on what each row of a
        # tile has in bytes, in two of them, and how many rows it has.
        palette = [1, *[0] * 15, *[ROW_BYTES, 0] * 8, *[0] * 16, *[ROWS] * 8, *[0] * 8]
        kind, values = wide("i8", 64), ", ".join(f"i8 {value}" for value in palette)
        shape = code.let(f"alloca {kind}, align 64")
        code.do(f"store {kind} <{values}>, ptr {shape}, align 64")
        code.do(f"call void @llvm.x86.ldtilecfg(ptr {shape})")

    def _release(self, code: CodeStretch) -> None:
        code.do("call void @llvm.x86.tilerelease()")

    def _chunk(self, code: CodeStretch, sides: Sides) -> str:
        depths = self._units(code, sides.k, 2 * DEPTH)
        depths = code.let(f"call i64 @llvm.smax.i64(i64 {depths}, i64 1)")
        found = self._least(code, code.let(f"sdiv i64 {KEPT}, {depths}"), self.chunk)
        keeps = code.let(f"icmp sge i64 {found}, {LEAST_PANELS}")
        panels = code.let(f"select i1 {keeps}, i64 {found}, i64 {self.chunk}")
        return code.let(f"mul i64 {panels}, {self.columns}")

    def _add_products(self, function: FunctionText, sides: Sides, strip: Strip, b: str) -> None:
        code, (am, _), ak = function.code(), sides.rows, sides.depth
        rows = self._stretch(code, "0", strip.height, self.block, ROWS)
        width = code.let(f"sub i64 {strip.columns.stop}, {strip.columns.start}")
        panels = self._units(code, width, self.columns)
        all_panels = code.integer("mul", panels, self._units(code, sides.k, 2 * DEPTH))
        several = code.let(f"icmp sgt i64 {strip.part_rows}, {self.strip_rows}")
        keeps = self._all(code, several, code.let(f"icmp sle i64 {all_panels}, {KEPT}"))
        later = code.let(f"icmp sgt i64 {strip.above}, 0")
        missing = code.let(f"xor i1 {self._all(code, keeps, later)}, true")
        with function.loop("0", sides.k, 2 * DEPTH) as depth:
            code = function.code()
            left = code.let(f"sub i64 {sides.k}, {depth.index}")
            length = self._least(code, left, 2 * DEPTH)
            first = self._flag(code, f"{depth.index}, 0")
            last = code.let(f"icmp sle i64 {left}, {2 * DEPTH}")
            steps = self._units(code, length, STEP)
            a_depth = self._ahead(code, strip.a, depth.index, ak)
            b_depth = self._ahead(code, b, depth.index, self.bk)
            number = code.let(f"sdiv i64 {depth.index}, {2 * DEPTH}")
            before = code.let(f"mul i64 {number}, {panels}")
            self._pack_strip(function, rows, (a_depth, am, ak), length)
            with function.loop(strip.columns.start, strip.columns.stop, self.columns) as turn:
                code = function.code()
                column, extent = self._turn(code, turn.index, strip.columns)
                passed = code.let(f"sub i64 {turn.index}, {strip.columns.start}")
                number = code.let(f"sdiv i64 {passed}, {self.columns}")
                number = code.let(f"add i64 {number}, {before}")
                number = code.let(f"select i1 {keeps}, i64 {number}, i64 0")
                panel = self._row(code, self.panel, code.let(f"mul i64 {number}, {DEPTH}"))
                with function.when(missing):
                    code = function.code()
                    source = self._ahead(code, b_depth, column, self.bn)
                    code.do(
                        f"call void @{self.name}_pack(ptr {source}, i64 {self.bk}, i64 {self.bn}, "
                        f"i64 {length}, i64 {extent}, ptr {panel})"
                    )
                code = function.code()
                slot, c = self._slot(code, passed), self._ahead(code, strip.c, column, sides.column)
                with function.loop("0", strip.height, self.block) as row:
                    start, count = self._turn(function.code(), row.index, rows)
                    packed = self._packed_block(function.code(), row.index)
                    self._add_block(
                        function, sides, (packed, panel, steps), (slot, c), start, (count, extent),
                        (first, last),
                    )  # fmt: skip

    def _add_block(
        self, function: FunctionText, sides: Sides, factors: tuple[str, str, str],
        panel_sums: tuple[str, str], start: str, size: tuple[str, str], ends: tuple[str, str],
    ) -> None:  # fmt: skip
        """Add a block of `size` rows and columns, `start` rows below the panel's first ones, to the
        sums of the panel, or to nothing at first; at last to C, where it is written."""
        code, (slot, c), (count, extent), (first, last) = function.code(), panel_sums, size, ends
        high = code.let(f"icmp sgt i64 {count}, {ROWS}")
        broad = code.let(f"icmp sgt i64 {extent}, {self.width}")
        shape = code.let(f"select i1 {broad}, i64 2, i64 0")
        shape = code.let(f"add i64 {shape}, {code.let(f'zext i1 {high} to i64')}")
        place = code.at(f"@{self.name}_blocks", "ptr", shape)
        sums, cm = self._row(code, slot, start), sides.rows[1]
        c = self._ahead(code, c, start, cm)
        pitch = code.let(f"mul i64 {cm}, {self.dtype.itemsize}")
        values = (
            *factors,
            code.let(f"select i1 {first}, ptr {self.zeros}, ptr {sums}"),
            code.let(f"select i1 {first}, i64 0, i64 {self.sum.itemsize * self.columns}"),
            code.let(f"select i1 {last}, ptr {self.result}, ptr {sums}"),
            code.let(f"select i1 {last}, ptr {c}, ptr {self.result}"),
            code.let(f"select i1 {last}, i64 {pitch}, i64 {ROW_BYTES}"),
        )
        kinds = re.findall(r"(\w+) %", _ARGUMENTS)
        arguments = ", ".join(f"{kind} {value}" for kind, value in zip(kinds, values, strict=True))
        code.do(f"call void {code.let(f'load ptr, ptr {place}')}({arguments})")
        with function.when(last):
            function.code().do(
                f"call void @{self.name}_write(ptr {self.result}, ptr {c}, i64 {cm}, "
                f"i64 {sides.column}, i64 {count}, i64 {extent})"
            )

    def _finish(self, function: FunctionText, sides: Sides, strip: Strip) -> None:
        with function.when(self.empty):
            super()._finish(function, sides, strip)

    # --- panels of A ---------------------------------------------------------------------------

    def _pack_rows(self) -> str:
        """Copy rows of A as tiles: at each step of k the elements of every row.

        Where there are fewer rows than in tiles, the last one is repeated.
        """
        function = FunctionText(
            f"define internal void @{self.name}_pack_rows"
            "(ptr %a, i64 %am, i64 %ak, i64 %rows, i64 %depth, ptr %packed) #0"
        )
        code = function.code()
        last = code.let("sub i64 %rows, 1")
        padded = code.let(f"and i64 {code.let(f'add i64 %rows, {ROWS - 1}')}, {-ROWS}")
        conditions = (self._flag(code, "%ak, 1"), self._flag(code, "%am, 1"))
        along, beside, single = self._one_of(code, padded, *conditions)
        self._copy_runs(function, along, last)
        self._transpose_runs(function, beside)
        self._copy_elements(function, single, last)
        return function.text()

    def _tile_row(self, code: CodeStretch, row: str, k: str) -> str:
        """Where a row of a packed block has its elements from k on, which begins a tile."""
        base = code.at("%packed", f"[{ROW_BYTES} x i8]", row)
        return code.at(base, f"[{self.block * ROW_BYTES // STEP} x i8]", k)

    def _copy_runs(self, function: FunctionText, stop: str, last: str) -> None:
        """Pack rows whose elements lie side by side."""
        code, kind = function.code(), wide("i16", STEP)
        whole = code.let(f"and i64 %depth, {-STEP}")
        left = code.splat(code.let(f"sub i64 %depth, {whole}"), "i64", STEP)
        lanes = ", ".join(f"i64 {lane}" for lane in range(STEP))
        mask = code.let(f"icmp slt {wide('i64', STEP)} <{lanes}>, {left}")
        ragged = code.let(f"icmp slt i64 {whole}, %depth")
        with function.loop("0", stop, 1) as row:
            code = function.code()
            source = self._ahead(code, "%a", self._least(code, row.index, last), "%am")
            coming = self._ahead(code, source, "2", "%am")
            with function.loop("0", whole, STEP) as k:
                body = function.code()
                body.fetch(body.at(coming, "i16", k.index))
                value = self._load(body, body.at(source, "i16", k.index), self.dtype, STEP)
                target = self._tile_row(body, row.index, k.index)
                body.do(f"store {kind} {value}, ptr {target}, align {ROW_BYTES}")
            with function.when(ragged):
                body = function.code()
                value = body.let(
                    f"call {kind} @llvm.masked.load.v{STEP}i16.p0("
                    f"ptr {body.at(source, 'i16', whole)}, i32 2, "
                    f"{wide('i1', STEP)} {mask}, {kind} zeroinitializer)"
                )
                target = self._tile_row(body, row.index, whole)
                body.do(f"store {kind} {value}, ptr {target}, align {ROW_BYTES}")

    def _transpose_runs(self, function: FunctionText, stop: str) -> None:
        """Pack rows that lie side by side, so that those of a tile are read at once."""
        lanes = ", ".join(f"i64 {lane}" for lane in range(ROWS))
        code = function.code()
        whole = code.let(f"and i64 %depth, {-STEP}")
        ragged = code.let(f"icmp slt i64 {whole}, %depth")
        with function.loop("0", stop, ROWS) as row:
            code = function.code()
            here = code.splat(code.let(f"sub i64 %rows, {row.index}"), "i64", ROWS)
            mask = code.let(f"icmp slt {wide('i64', ROWS)} <{lanes}>, {here}")
            with function.loop("0", whole, STEP) as k:
                self._transpose_step(function.code(), row.index, k.index, mask, ends=False)
            with function.when(ragged):
                self._transpose_step(function.code(), row.index, whole, mask, ends=True)

    def _transpose_step(self, code: CodeStretch, row: str, k: str, mask: str, ends: bool) -> None:
        """Pack those of a tile; its last elements along k are zeros if it ends before."""
        kind, flag_kind = wide("i16", ROWS), wide("i1", ROWS)
        start = self._ahead(code, code.at("%a", "i16", row), k, "%ak")
        values = []
        for i in range(STEP):
            flags = mask
            if ends:
                inside = code.let(f"icmp slt i64 {code.let(f'add i64 {k}, {i}')}, %depth")
                flags = code.let(f"and {flag_kind} {code.splat(inside, 'i1', ROWS)}, {mask}")
            pointer = self._ahead(code, start, str(i), "%ak")
            code.fetch(self._ahead(code, pointer, str(STEP), "%ak"))
            values.append(
                code.let(
                    f"call {kind} @llvm.masked.load.v{ROWS}i16.p0(ptr {pointer}, i32 2, "
                    f"{flag_kind} {flags}, {kind} zeroinitializer)"
                )
            )
        pairs = [self._paired(code, *values[i : i + 2]) for i in range(0, STEP, 2)]
        target = self._tile_row(code, row, k)
        for r, value in enumerate(self._transpose(code, pairs)):
            self._write_row(code, code.at(target, f"[{ROW_BYTES} x i8]", str(r)), [value])

    def _copy_elements(self, function: FunctionText, stop: str, last: str) -> None:
        """Pack rows whatever their strides."""
        with function.loop("0", stop, 1) as row:
            code = function.code()
            source = self._ahead(code, "%a", self._least(code, row.index, last), "%am")
            with function.loop("0", "%depth", STEP) as k:
                code = function.code()
                self._write_row(code, self._tile_row(code, row.index, k.index), ["zeroinitializer"])
            with function.loop("0", "%depth", 1) as k:
                code = function.code()
                value = self._load(code, self._ahead(code, source, k.index, "%ak"), self.dtype, 1)
                begin = code.let(f"and i64 {k.index}, {-STEP}")
                place = code.let(f"and i64 {k.index}, {STEP - 1}")
                target = code.at(self._tile_row(code, row.index, begin), "i16", place)
                code.do(f"store i16 {value}, ptr {target}, align 2")

    # --- panels of B ---------------------------------------------------------------------------

    def _fill_up(self, function: FunctionText) -> None:
        code = function.code()
        pairs = code.let(f"lshr i64 {code.let('add i64 %depth, 1')}, 1")
        end = code.let(f"and i64 {code.let(f'add i64 {pairs}, {ROWS - 1}')}, {-ROWS}")
        with function.loop(pairs, end, 1) as pair:
            code = function.code()
            nothing = ["zeroinitializer"] * self.vectors
            self._write_row(code, self._row(code, "%panel", pair.index), nothing)
