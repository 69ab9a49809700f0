"""Contractions as LLVM IR: register-blocked matrix multiplication for any sizes and strides.

A panel of B, two vectors wide and DEPTH deep, is packed into scratch memory on the stack, converted
to the accumulator's type and filled up to its width, so that all layouts run alike from there. One
that few rows meet, and that needs none of this, is read where it lies.
Blocks of rows of A meet it: each keeps rows x 2 vectors of sums in registers while it walks down,
from zero, so that what is rounded is a sum of DEPTH products, or one of such sums.
Where the elements of a row lie far apart, and many panels meet them, blocks are packed as well.
Between panels the sums rest in C, or, where C has another type, gaps or fewer columns, in a strip
of scratch, also two vectors wide, which is converted and written to C once, when all of K has been
added. So every sum is taken in the order of K, in the accumulator's type, and in panels that begin
at multiples of DEPTH, however the work is cut and however wide vectors are.

Where C is narrow and tall its transpose is computed instead, to fill the vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from contraflow.compiler.kernel import Contraction
from contraflow.dtypes import DType
from contraflow.render.llvm.text import (
    ARGUMENTS,
    CodeStretch,
    FunctionText,
    convert,
    mangled,
    memory,
    register,
    wide,
)

DEPTH = 256  # rows of a packed panel: 16 KiB with 32-byte vectors, half of a first-level cache
STRIP_ROWS = 240
# Up to so many rows packing a panel takes longer than it saves, if its own rows are not further
# apart than so many elements: where they are, they displace each other in the cache.
FEW_ROWS, NEAR_ROWS = 64, 128
# Rows whose elements are further apart than FAR are packed, if MANY panels meet them: so many rows
# that they fill PACKED_BYTES, a part of a second-level cache. So are rows that begin a multiple of
# CLASH bytes apart, where a block has more of them than a first-level cache has places for those.
FAR, MANY, PACKED_BYTES = 128, 8, 1 << 17
CLASH, PLACES = 1 << 11, 8
# Rows of a block by bytes of a vector: with two vectors of B they fill the registers.
BLOCK_ROWS = {16: 4, 32: 6, 64: 14}


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


class RowStrip(NamedTuple):
    """A strip of rows, as names: where they begin in A and C, how many, and how they are cut."""

    a: str
    c: str
    height: str
    last: str  # the first row of the last block
    few: str  # whether they are too few to pack panels for


class ContractionRenderer:
    """Writes the functions of a contraction whose operands have one stride along each axis."""

    def __init__(self, kernel: Contraction, name: str, vector_bytes: int) -> None:
        self.name = name
        self.dtype, self.sum = kernel.dtype, kernel.accumulate
        self.width = vector_bytes // self.sum.itemsize
        self.columns = 2 * self.width
        self.block = BLOCK_ROWS[vector_bytes]
        self.strip_rows = STRIP_ROWS // self.block * self.block
        fit = PACKED_BYTES // (DEPTH * self.sum.itemsize)
        self.packed_rows = max(fit // self.block, 1) * self.block
        self.packs_rows = self.dtype is self.sum  # others are converted as they are read
        self.vector = register(self.sum, self.width)
        self.align = self.sum.itemsize

    def text(self) -> str:
        """The functions, the entry last."""
        parts = [self._block(rows) for rows in range(1, self.block + 1)]
        if self.packs_rows:
            parts.append(self._pack_rows())
        return "\n".join([*parts, self._pack(), self._write(), self._entry()])

    # --- pieces --------------------------------------------------------------------------------

    def _load(self, code: CodeStretch, pointer: str, dtype: DType, width: int) -> str:
        align = dtype.itemsize
        return code.let(f"load {memory(dtype, width)}, ptr {pointer}, align {align}")

    def _read_row(self, code: CodeStretch, row: str) -> list[str]:
        """The two vectors of a row of a panel or strip."""
        pointers = [code.at(row, memory(self.sum), str(v * self.width)) for v in range(2)]
        return [self._load(code, pointer, self.sum, self.width) for pointer in pointers]

    def _write_row(self, code: CodeStretch, row: str, vectors: list[str]) -> None:
        for v, vector in enumerate(vectors):
            pointer = code.at(row, memory(self.sum), str(v * self.width))
            code.do(f"store {self.vector} {vector}, ptr {pointer}, align {self.align}")

    def _row(self, code: CodeStretch, base: str, index: str) -> str:
        return code.at(base, f"[{self.columns} x {memory(self.sum)}]", index)

    def _row_apart(self, code: CodeStretch, base: str, index: str, pitch: str) -> str:
        """Where a row of sums begins whose rows lie `pitch` elements apart."""
        return code.at(base, memory(self.sum), code.integer("mul", index, pitch))

    def _multiply_add(self, code: CodeStretch, a: str, b: str, c: str) -> str:
        if self.sum.is_floating_point:
            typed = ", ".join(f"{self.vector} {x}" for x in (a, b, c))
            suffix = mangled(register(self.sum), self.width)
            return code.let(f"call {self.vector} @llvm.fmuladd.{suffix}({typed})")
        product = code.let(f"mul {self.vector} {a}, {b}")
        return code.let(f"add {self.vector} {product}, {c}")

    def _add(self, code: CodeStretch, a: str, b: str) -> str:
        return code.let(f"{'fadd' if self.sum.is_floating_point else 'add'} {self.vector} {a}, {b}")

    def _masks(self, code: CodeStretch, columns: str) -> list[str]:
        """Which lanes of the two vectors are columns of C."""
        limit = code.splat(columns, "i64", self.width)
        return [code.let(f"icmp slt {lanes}, {limit}") for lanes in self._lanes()]

    def _distances(self, code: CodeStretch, stride: str) -> list[str]:
        """How far each lane of the two vectors lies from the first, for columns `stride` apart."""
        step = code.splat(stride, "i64", self.width)
        return [code.let(f"mul {lanes}, {step}") for lanes in self._lanes()]

    def _lanes(self) -> Iterator[str]:
        """The columns of a panel that the lanes of its two vectors hold, with their types."""
        for start in (0, self.width):
            columns = ", ".join(f"i64 {start + lane}" for lane in range(self.width))
            yield f"{wide('i64', self.width)} <{columns}>"

    def _flag(self, code: CodeStretch, *conditions: str) -> str:
        flags = [code.let(f"icmp eq i64 {condition}") for condition in conditions]
        result = flags[0]
        for flag in flags[1:]:
            result = code.let(f"and i1 {result}, {flag}")
        return result

    # --- functions -----------------------------------------------------------------------------

    def _block(self, rows: int) -> str:
        """Add `rows` rows of A, times the panel, to rows of sums, and write them to the target."""
        function = FunctionText(
            f"define internal void @{self.name}_rows{rows}(ptr %a, i64 %am, i64 %ak, ptr %panel, "
            "i64 %width, ptr %sums, i64 %apart, ptr %target, i64 %pitch, i64 %depth) #1"
        )
        code = function.code()
        starts = [
            code.at("%a", memory(self.dtype), code.let(f"mul i64 %am, {r}")) for r in range(rows)
        ]
        nothing = [(self.vector, "zeroinitializer")] * (2 * rows)
        with function.loop("0", "%depth", 1, nothing) as loop:
            body = function.code()
            step = body.integer("mul", loop.index, "%ak")
            right = self._read_row(body, self._row_apart(body, "%panel", loop.index, "%width"))
            following = []
            for r, start in enumerate(starts):
                pointer = body.at(start, memory(self.dtype), step)
                value = self._load(body, pointer, self.dtype, 1)
                value = convert(body, value, self.dtype, self.sum, 1)
                left = body.splat(value, register(self.sum), self.width)
                for v in range(2):
                    following.append(
                        self._multiply_add(body, left, right[v], loop.carried[2 * r + v])
                    )
            loop.following = following
        end = function.code()
        for r in range(rows):
            before = self._read_row(end, self._row_apart(end, "%sums", str(r), "%apart"))
            totals = map(partial(self._add, end), before, loop.carried[2 * r :])
            self._write_row(end, self._row_apart(end, "%target", str(r), "%pitch"), list(totals))
        return function.text()

    def _pack(self) -> str:
        """Copy a panel of B: `depth` rows of `columns` columns."""
        function = FunctionText(
            f"define internal void @{self.name}_pack"
            "(ptr %b, i64 %bk, i64 %bn, i64 %depth, i64 %columns, ptr %panel) #0"
        )
        code = function.code()
        whole = self._flag(code, "%bn, 1", f"%columns, {self.columns}")
        along_columns = self._flag(code, "%bk, 1")
        blocks = code.let(f"and i64 %depth, {-self.width}")
        transposed = code.let(f"select i1 {along_columns}, i64 {blocks}, i64 0")
        transposed = code.let(f"select i1 {whole}, i64 0, i64 {transposed}")
        copied = code.let(f"select i1 {whole}, i64 %depth, i64 0")
        rest = code.let(f"add i64 {copied}, {transposed}")
        masks, distances = self._masks(code, "%columns"), self._distances(code, "%bn")
        self._copy_rows(function, copied)
        self._transpose_columns(function, transposed)
        self._gather_rows(function, rest, masks, distances)
        return function.text()

    def _converted(self, code: CodeStretch, vectors: Sequence[str]) -> list[str]:
        return [convert(code, x, self.dtype, self.sum, self.width) for x in vectors]

    def _copy_rows(self, function: FunctionText, stop: str) -> None:
        """Pack rows of B that are as wide as a panel and lie side by side."""
        element = memory(self.dtype)
        with function.loop("0", stop, 1) as loop:
            body = function.code()
            row = body.at("%b", element, body.integer("mul", loop.index, "%bk"))
            pointers = [body.at(row, element, str(v * self.width)) for v in range(2)]
            vectors = [self._load(body, pointer, self.dtype, self.width) for pointer in pointers]
            vectors = self._converted(body, vectors)
            self._write_row(body, self._row(body, "%panel", loop.index), vectors)

    def _transpose_columns(self, function: FunctionText, stop: str) -> None:
        """Pack columns of B that lie side by side, in squares of vectors."""
        element = memory(self.dtype)
        with function.loop("0", stop, DEPTH):  # at most once
            code = function.code()
            last = code.let("sub i64 %columns, 1")
            columns = []
            for n in range(self.columns):
                # Beyond the last column any other does: what it adds up to is not written.
                column = code.let(f"call i64 @llvm.smin.i64(i64 {last}, i64 {n})")
                columns.append(code.at("%b", element, code.let(f"mul i64 %bn, {column}")))
            with function.loop("0", stop, self.width) as loop:
                body = function.code()
                vectors = [
                    self._load(body, body.at(column, element, loop.index), self.dtype, self.width)
                    for column in columns
                ]
                vectors = self._converted(body, vectors)
                halves = (vectors[: self.width], vectors[self.width :])
                rows = zip(*(self._transpose(body, half) for half in halves))
                for k, row_vectors in enumerate(rows):
                    target = body.integer("add", loop.index, str(k))
                    self._write_row(body, self._row(body, "%panel", target), list(row_vectors))

    def _gather_rows(
        self, function: FunctionText, start: str, masks: list[str], distances: list[str]
    ) -> None:
        """Pack rows of B from `start` on, whatever their strides and however few columns."""
        element, kind = memory(self.dtype), memory(self.dtype, self.width)
        with function.loop(start, "%depth", 1) as loop:
            body = function.code()
            row = body.at("%b", element, body.integer("mul", loop.index, "%bk"))
            vectors = []
            for mask, distance in zip(masks, distances):
                pointers = body.let(
                    f"getelementptr {element}, ptr {row}, {wide('i64', self.width)} {distance}"
                )
                suffix = f"{mangled(element, self.width)}.v{self.width}p0"
                vectors.append(
                    body.let(
                        f"call {kind} @llvm.masked.gather.{suffix}(<{self.width} x ptr> "
                        f"{pointers}, i32 {self.dtype.itemsize}, "
                        f"{wide('i1', self.width)} {mask}, {kind} zeroinitializer)"
                    )
                )
            target = self._row(body, "%panel", loop.index)
            self._write_row(body, target, self._converted(body, vectors))

    def _pack_rows(self) -> str:
        """Copy a block of A, so that what its rows have at one depth lies side by side."""
        function = FunctionText(
            f"define internal void @{self.name}_pack_rows"
            "(ptr %a, i64 %am, i64 %ak, i64 %rows, i64 %depth, ptr %packed) #0"
        )
        code = function.code()
        element, align = memory(self.dtype), self.align
        whole = self._flag(code, "%am, 1", f"%rows, {self.block}")
        copied = code.let(f"select i1 {whole}, i64 %depth, i64 0")
        kind = f"<{self.block} x {element}>"
        with function.loop("0", copied, 1) as loop:
            body = function.code()
            source = body.at("%a", element, body.integer("mul", loop.index, "%ak"))
            values = body.let(f"load {kind}, ptr {source}, align {align}")
            target = body.at("%packed", f"[{self.block} x {element}]", loop.index)
            body.do(f"store {kind} {values}, ptr {target}, align {align}")
        with function.loop(copied, "%depth", 1) as loop:
            body = function.code()
            source = body.at("%a", element, body.integer("mul", loop.index, "%ak"))
            target = body.at("%packed", element, body.integer("mul", loop.index, "%rows"))
            with function.loop("0", "%rows", 1) as row:
                body = function.code()
                here = body.at(source, element, body.integer("mul", row.index, "%am"))
                value = self._load(body, here, self.dtype, 1)
                there = body.at(target, element, row.index)
                body.do(f"store {element} {value}, ptr {there}, align {align}")
        return function.text()

    def _transpose(self, code: CodeStretch, rows: list[str]) -> list[str]:
        """Transpose a square of vectors: exchange blocks of half the size, then of a quarter..."""
        size = self.width // 2
        while size:
            result = list(rows)
            for i in range(self.width):
                if i & size:
                    continue
                a, b = rows[i], rows[i + size]
                # Lane l of the new row i comes from column l & size of the pair of blocks.
                low = [
                    lane if not lane & size else self.width + lane - size
                    for lane in range(self.width)
                ]
                high = [
                    lane + size if not lane & size else self.width + lane
                    for lane in range(self.width)
                ]
                for target, lanes in ((i, low), (i + size, high)):
                    picks = ", ".join(f"i32 {lane}" for lane in lanes)
                    result[target] = code.let(
                        f"shufflevector {self.vector} {a}, {self.vector} {b}, "
                        f"<{self.width} x i32> <{picks}>"
                    )
            rows, size = result, size // 2
        return rows

    def _write(self) -> str:
        """Convert the strip and write `columns` columns of it to C."""
        function = FunctionText(
            f"define internal void @{self.name}_write"
            "(ptr %strip, ptr %c, i64 %cm, i64 %cn, i64 %rows, i64 %columns) #0"
        )
        code = function.code()
        contiguous = self._flag(code, "%cn, 1")
        whole = self._flag(code, "%cn, 1", f"%columns, {self.columns}")
        full = code.let(f"select i1 {whole}, i64 %rows, i64 0")
        masked = code.let(f"select i1 {contiguous}, i64 %rows, i64 0")
        masks, distances = self._masks(code, "%columns"), self._distances(code, "%cn")
        element, kind = memory(self.dtype), memory(self.dtype, self.width)
        suffix, align = mangled(element, self.width), self.dtype.itemsize

        def row(index: str) -> tuple[CodeStretch, str, list[str]]:
            body = function.code()
            vectors = self._read_row(body, self._row(body, "%strip", index))
            results = [convert(body, x, self.sum, self.dtype, self.width) for x in vectors]
            return body, body.at("%c", element, body.integer("mul", index, "%cm")), results

        # Of three loops one runs: whole vectors, some lanes of them, or lanes apart in memory.
        with function.loop("0", full, 1) as loop:
            body, start, results = row(loop.index)
            for v, result in enumerate(results):
                pointer = body.at(start, element, str(v * self.width))
                body.do(f"store {kind} {result}, ptr {pointer}, align {align}")
        with function.loop(full, masked, 1) as loop:
            body, start, results = row(loop.index)
            for v, result in enumerate(results):
                pointer = body.at(start, element, str(v * self.width))
                body.do(
                    f"call void @llvm.masked.store.{suffix}.p0({kind} {result}, ptr {pointer}, "
                    f"i32 {align}, {wide('i1', self.width)} {masks[v]})"
                )
        with function.loop(masked, "%rows", 1) as loop:
            body, start, results = row(loop.index)
            for v, result in enumerate(results):
                lanes = wide("i64", self.width)
                pointers = body.let(f"getelementptr {element}, ptr {start}, {lanes} {distances[v]}")
                body.do(
                    f"call void @llvm.masked.scatter.{suffix}.v{self.width}p0({kind} {result}, "
                    f"<{self.width} x ptr> {pointers}, i32 {align}, "
                    f"{wide('i1', self.width)} {masks[v]})"
                )
        return function.text()

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

    def _scratch(self, code: CodeStretch) -> None:
        """Reserve scratch memory beside the panel and the strip."""

    def _begin_columns(self, function: FunctionText, b: str, column: str, extent: str) -> str:
        """Where the panel that begins at a column of B begins."""
        code = function.code()
        return code.at(b, memory(self.dtype), code.integer("mul", column, self.bn))

    def _provide(
        self, function: FunctionText, b: str, start: str, depth: str, columns: str, few: str
    ) -> tuple[str, str]:
        """The panel from row `start` on, packed if need be, and how far apart its rows lie."""
        code = function.code()
        source = code.at(b, memory(self.dtype), code.integer("mul", start, self.bk))
        ready = "false"
        if self.dtype is self.sum:
            ready = self._flag(code, f"{self.bn}, 1", f"{columns}, {self.columns}")
            near = code.let(f"icmp sle i64 {self.bk}, {NEAR_ROWS}")
            ready = code.let(f"and i1 {ready}, {code.let(f'and i1 {few}, {near}')}")
        with function.loop(code.let(f"zext i1 {ready} to i64"), "1", 1):
            function.code().do(
                f"call void @{self.name}_pack(ptr {source}, i64 {self.bk}, i64 {self.bn}, "
                f"i64 {depth}, i64 {columns}, ptr {self.panel})"
            )
        code = function.code()
        return (
            code.let(f"select i1 {ready}, ptr {source}, ptr {self.panel}"),
            code.let(f"select i1 {ready}, i64 {self.bk}, i64 {self.columns}"),
        )

    def _entry(self) -> str:
        function = FunctionText(f"define void @{self.name}{ARGUMENTS} #0")
        code = function.code()
        self._reserve(code)
        sides = self._sides(code)
        products = code.integer("mul", sides.outer, sides.k)
        self.empty = code.let(f"icmp eq i64 {products}, 0")
        self.apart = self._apart(code, sides.rows[0], sides.depth)
        batches, rows, columns = self._cut(code, sides.b, sides.m, sides.n)
        with function.loop(*batches, 1) as batch:
            code = function.code()
            a, b, c = self._matrices(code, sides, batch.index)
            if self.packs_rows:
                columns = self._packed_columns(function, sides, (a, b, c), rows, columns)
            with function.loop(*rows, self.strip_rows) as block:
                code = function.code()
                height = self._at_most(code, self.strip_rows, rows[1], block.index)
                strip = self._strip(code, sides, (a, c), block.index, height)
                with function.loop(*columns, self.columns) as column:
                    self._tile(function, sides, strip, b, column.index, columns[1])
        return function.text()

    def _reserve(self, code: CodeStretch) -> None:
        """Reserve scratch memory on the stack."""
        row_type = f"[{self.columns} x {memory(self.sum)}]"
        self.panel = code.let(f"alloca [{DEPTH} x {row_type}], align 64", "panel")
        self.strip = code.let(f"alloca [{self.strip_rows} x {row_type}], align 64", "strip")
        self.zeros = code.let(f"alloca {row_type}, align 64", "zeros")
        self._write_row(code, self.zeros, ["zeroinitializer"] * 2)
        self._scratch(code)
        if self.packs_rows:
            kind = f"[{self.packed_rows} x [{DEPTH} x {memory(self.sum)}]]"
            self.packed = code.let(f"alloca {kind}, align 64", "packed")

    def _tile(
        self, function: FunctionText, sides: Sides, strip: RowStrip, b: str, column: str, stop: str
    ) -> None:
        """The sums of a strip of rows and a panel of columns, from a column on."""
        code, c_stride = function.code(), sides.rows[1]
        extent = self._at_most(code, self.columns, stop, column)
        c_tile = self._ahead(code, strip.c, column, sides.column)
        # Where the sums lie: in C, if they may.
        direct = "false"
        if self.dtype is self.sum:
            direct = self._flag(code, f"{sides.column}, 1", f"{extent}, {self.columns}")
        sums = code.let(f"select i1 {direct}, ptr {c_tile}, ptr {self.strip}")
        pitch = code.let(f"select i1 {direct}, i64 {c_stride}, i64 {self.columns}")
        b_columns = self._begin_columns(function, b, column, extent)
        # Sums of nothing, which no block writes.
        unwritten = code.let(f"select i1 {self.empty}, i64 {strip.height}, i64 0")
        with function.loop("0", unwritten, 1) as row:
            code = function.code()
            nothing = self._row_apart(code, sums, row.index, pitch)
            self._write_row(code, nothing, ["zeroinitializer"] * 2)
        self._add_products(function, sides, strip, b_columns, extent, (sums, pitch))
        code = function.code()
        with function.loop(code.let(f"zext i1 {direct} to i64"), "1", 1):
            function.code().do(
                f"call void @{self.name}_write(ptr {self.strip}, ptr {c_tile}, i64 {c_stride}, "
                f"i64 {sides.column}, i64 {strip.height}, i64 {extent})"
            )

    def _add_products(
        self, function: FunctionText, sides: Sides, strip: RowStrip, b_columns: str, extent: str,
        target: tuple[str, str],
    ) -> None:  # fmt: skip
        """Add the products of a strip of A and a panel of B, panel by panel in the order of K.

        `target` says where the sums begin, and how far apart their rows lie.
        """
        (am, _), ak = sides.rows, sides.depth
        sums, pitch = target
        with function.loop("0", sides.outer, 1) as outer:
            code = function.code()
            a_outer, b_outer = (
                self._ahead(code, pointer, outer.index, stride)
                for pointer, stride in zip((strip.a, b_columns), sides.apart)
            )
            with function.loop("0", sides.k, DEPTH) as depth:
                code = function.code()
                length = self._at_most(code, DEPTH, sides.k, depth.index)
                a_depth = self._ahead(code, a_outer, depth.index, ak)
                first = self._is_first(code, outer.index, depth.index)
                panel = self._provide(function, b_outer, depth.index, length, extent, strip.few)
                with function.loop("0", strip.height, self.block) as row:
                    code = function.code()
                    start, count = self._block_rows(code, row.index, strip)
                    left = self._ahead(code, a_depth, start, am), am, ak
                    right = self._row_apart(code, sums, start, pitch), pitch
                    self._meet(function, left, panel, right, first, count, length)

    def _packed_columns(
        self, function: FunctionText, sides: Sides, pointers: Sequence[str],
        rows: tuple[str, str], columns: tuple[str, str],
    ) -> tuple[str, str]:  # fmt: skip
        """Whole columns of panels, by rows that are packed, if that is worth it; the rest is left.

        A block of rows is packed once for all panels, so depth is the outer loop here.
        """
        code, ahead = function.code(), self._ahead
        (a, b, c), (am, cm), ak = pointers, sides.rows, sides.depth
        extent = code.let(f"sub i64 {columns[1]}, {columns[0]}")
        whole = code.let(f"and i64 {extent}, {-self.columns}")
        worth = code.let(f"and i1 {self._flag(code, f'{sides.column}, 1')}, {self.apart}")
        for size, least in ((extent, MANY * self.columns), (sides.m, self.block)):
            worth = code.let(f"and i1 {worth}, {code.let(f'icmp sge i64 {size}, {least}')}")
        worth = code.let(f"select i1 {self.empty}, i1 false, i1 {worth}")
        stop = code.let(f"add i64 {columns[0]}, {whole}")
        stop = code.let(f"select i1 {worth}, i64 {stop}, i64 {columns[0]}")
        height_all = code.let(f"select i1 {worth}, i64 {rows[1]}, i64 {rows[0]}")
        with function.loop(rows[0], height_all, self.packed_rows) as block:
            code = function.code()
            height = self._at_most(code, self.packed_rows, rows[1], block.index)
            strip = self._strip(code, sides, (a, c), block.index, height)
            with function.loop("0", sides.outer, 1) as outer:
                code = function.code()
                a_outer = ahead(code, strip.a, outer.index, sides.apart[0])
                with function.loop("0", sides.k, DEPTH) as depth:
                    code = function.code()
                    length = self._at_most(code, DEPTH, sides.k, depth.index)
                    a_depth = ahead(code, a_outer, depth.index, ak)
                    first = self._is_first(code, outer.index, depth.index)
                    self._pack_strip(function, strip, (a_depth, am, ak), length)
                    with function.loop(columns[0], stop, self.columns) as column:
                        code = function.code()
                        sums = code.at(strip.c, memory(self.dtype), column.index)
                        b_columns = self._begin_columns(
                            function, b, column.index, str(self.columns)
                        )
                        code = function.code()
                        b_outer = ahead(code, b_columns, outer.index, sides.apart[1])
                        panel = self._provide(
                            function, b_outer, depth.index, length, str(self.columns), strip.few
                        )
                        with function.loop("0", height, self.block) as row:
                            code = function.code()
                            start, count = self._block_rows(code, row.index, strip)
                            left = self._packed_block(code, start), "1", count
                            target = self._row_apart(code, sums, start, cm), cm
                            self._meet(function, left, panel, target, first, count, length)
        return stop, columns[1]

    def _pack_strip(
        self, function: FunctionText, strip: RowStrip, source: tuple[str, str, str], length: str
    ) -> None:
        """Pack the rows of a strip block by block; `source` has where they begin, and strides."""
        a_depth, am, ak = source
        with function.loop("0", strip.height, self.block) as row:
            code = function.code()
            start, count = self._block_rows(code, row.index, strip)
            rows = self._ahead(code, a_depth, start, am)
            packed = self._packed_block(code, start)
            code.do(
                f"call void @{self.name}_pack_rows(ptr {rows}, i64 {am}, i64 {ak}, "
                f"i64 {count}, i64 {length}, ptr {packed})"
            )

    def _packed_block(self, code: CodeStretch, row: str) -> str:
        """Where the packed block that begins with a row lies."""
        return code.at(self.packed, f"[{DEPTH} x {memory(self.sum)}]", row)

    def _meet(
        self, function: FunctionText, left: tuple[str, str, str], panel: tuple[str, str],
        target: tuple[str, str], first: str, count: str, length: str,
    ) -> None:  # fmt: skip
        """Add a block of rows times a panel to what its target holds, or to nothing at first.

        Rows have a pointer and the strides along m and k, panel and target how far apart rows lie.
        """
        code, (rows, pitch) = function.code(), target
        before = code.let(f"select i1 {first}, ptr {self.zeros}, ptr {rows}")
        apart = code.let(f"select i1 {first}, i64 0, i64 {pitch}")
        (a, am, ak), (b, width) = left, panel
        arguments = (
            f"(ptr {a}, i64 {am}, i64 {ak}, ptr {b}, i64 {width}, ptr {before}, i64 {apart}, "
            f"ptr {rows}, i64 {pitch}, i64 {length})"
        )
        calls = [f"call void @{self.name}_rows{r}{arguments}" for r in range(1, self.block + 1)]
        function.switch(count, calls)

    def _is_first(self, code: CodeStretch, outer: str, depth: str) -> str:
        """Whether nothing has been added to the sums yet."""
        return code.let(f"icmp eq i64 {code.let(f'or i64 {outer}, {depth}')}, 0")

    def _ahead(self, code: CodeStretch, pointer: str, index: str, stride: str) -> str:
        """Where an element of a matrix lies, `index` strides after another."""
        return code.at(pointer, memory(self.dtype), code.integer("mul", index, stride))

    def _strip(
        self, code: CodeStretch, sides: Sides, pointers: Sequence[str], start: str, height: str
    ) -> RowStrip:
        """The strip of `height` rows of A and C from `start` on."""
        last = self._last_block(code, height)
        few = code.let(f"icmp sle i64 {height}, {FEW_ROWS}")
        a, c = (self._ahead(code, x, start, stride) for x, stride in zip(pointers, sides.rows))
        return RowStrip(a, c, height, last, few)

    def _last_block(self, code: CodeStretch, height: str) -> str:
        """Where the last block of rows begins.

        It shares evenly with the one before: few rows leave the multipliers waiting.
        """
        padded = code.let(f"add i64 {height}, {self.block - 1}")
        blocks = code.let(f"sdiv i64 {padded}, {self.block}")
        whole = code.let(f"mul i64 {code.let(f'sub i64 {blocks}, 2')}, {self.block}")
        left = code.let(f"sub i64 {height}, {whole}")
        shared = code.let(f"sub i64 {height}, {code.let(f'sdiv i64 {left}, 2')}")
        several = code.let(f"icmp sgt i64 {blocks}, 1")
        return code.let(f"select i1 {several}, i64 {shared}, i64 0")

    def _block_rows(self, code: CodeStretch, row: str, strip: RowStrip) -> tuple[str, str]:
        """The first row of the block whose turn it is at `row`, and how many it has."""
        start = code.let(f"call i64 @llvm.smin.i64(i64 {row}, i64 {strip.last})")
        following = code.let(f"add i64 {row}, {self.block}")
        ends = code.let(f"icmp sge i64 {following}, {strip.height}")
        stop = code.let(f"call i64 @llvm.smin.i64(i64 {following}, i64 {strip.last})")
        stop = code.let(f"select i1 {ends}, i64 {strip.height}, i64 {stop}")
        return start, code.let(f"sub i64 {stop}, {start}")

    def _at_most(self, code: CodeStretch, most: int, stop: str, start: str) -> str:
        left = code.let(f"sub i64 {stop}, {start}")
        return code.let(f"call i64 @llvm.smin.i64(i64 {left}, i64 {most})")

    def _apart(self, code: CodeStretch, am: str, ak: str) -> str:
        """Whether the elements or rows of a block lie so far apart that it should be packed."""
        far = code.let(f"icmp sgt i64 {ak}, {FAR}")
        if self.block <= PLACES:
            return far
        odd = code.let(f"and i64 {am}, {CLASH // self.dtype.itemsize - 1}")
        return code.let(f"or i1 {far}, {code.let(f'icmp eq i64 {odd}, 0')}")

    def _cut(self, code: CodeStretch, b: str, m: str, n: str) -> list[tuple[str, str]]:
        """The ranges of batches, rows and columns in these parts: one of the three is cut.

        Batches where there are many, else rows or columns, whichever has more blocks, or columns
        where there are enough: rows pack the same panels every time, columns the same rows, if
        these lie far apart, and else nothing.
        """
        steps = (1, self.block, self.columns)
        units = []
        for size, step in zip((b, m, n), steps):
            padded = code.integer("add", size, str(step - 1))
            units.append(code.let(f"sdiv i64 {padded}, {step}"))
        many = code.let(f"icmp sge i64 {b}, {code.let('mul i64 %parts, 2')}")
        least = code.let(f"call i64 @llvm.smax.i64(i64 %parts, i64 {MANY})")
        enough = code.let(f"icmp sge i64 {units[2]}, {least}")
        near = code.let(f"xor i1 {self.apart}, true")
        wider = code.let(f"icmp sge i64 {units[2]}, {units[1]}")
        by_columns = code.let(f"or i1 {wider}, {code.let(f'and i1 {near}, {enough}')}")
        axis = code.let(f"select i1 {by_columns}, i64 2, i64 1")
        axis = code.let(f"select i1 {many}, i64 0, i64 {axis}")
        ranges = []
        for i, (size, step) in enumerate(zip((b, m, n), steps)):
            here = code.let(f"icmp eq i64 {axis}, {i}")
            edges = []
            for edge in ("%first", "%last"):
                unit = code.let(f"sdiv i64 {code.let(f'mul i64 {units[i]}, {edge}')}, %parts")
                edges.append(code.integer("mul", unit, str(step)))
            stop = code.let(f"call i64 @llvm.smin.i64(i64 {edges[1]}, i64 {size})")
            ranges.append(
                (
                    code.let(f"select i1 {here}, i64 {edges[0]}, i64 0"),
                    code.let(f"select i1 {here}, i64 {stop}, i64 {size}"),
                )
            )
        return ranges
