"""The inner functions of contractions as LLVM IR: blocks of sums, and panels packed for them.

A block adds up `rows` x `vectors` vectors of sums in registers, from zero: at each step of k it
reads a row of B, and one element of each row of A, which meets the whole row. A and the rows of B
may lie anywhere: where they are packed the strides are small, and nothing else differs.

Panels are packed as one block reads them: of B `columns` elements side by side at each step of k,
of A one element of each row of a block. Elements are converted to the type of the sums, and a
panel of B is filled up with zeros or repeated elements, whose sums nobody reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from contraflow.compiler.kernel import Attention, Contraction
from contraflow.dtypes import DType
from contraflow.render.llvm.text import (
    CodeStretch,
    FunctionText,
    convert,
    mangled,
    memory,
    register,
    wide,
)

DEPTH = 256  # steps of k that are added up from zero: the rows of a panel of B
# Rows that lie apart are fetched so many steps before they are read: as many as stay in a cache of
# few ways if they are a power of two apart.
AHEAD = 8
LINE = 64  # bytes of a cache line
BLOCK_ARGUMENTS = (
    "(ptr %a, i64 %am, i64 %ak, ptr %b, i64 %bk, i64 %depth, ptr %before, i64 %apart, ptr %sums, "
    "i64 %pitch, ptr %other, i64 %step, i64 %count)"
)


class PanelRenderer:
    """Writes the inner functions of a contraction, for blocks of `rows` x `vectors` vectors."""

    pair = 1  # steps of k that lie side by side in a panel
    depth = DEPTH  # of a panel, in such pairs
    fetching = True  # whether blocks fetch where their sums go, which is not in a cache

    def __init__(
        self, kernel: Contraction | Attention, name: str, vector_bytes: int, rows: int, vectors: int
    ) -> None:
        self.name = name
        self.dtype, self.sum = kernel.dtype, kernel.accumulate
        self.width = vector_bytes // self.sum.itemsize
        self.block, self.vectors = rows, vectors
        self.columns = vectors * self.width
        self.converts = self.dtype is not self.sum
        self.vector = register(self.sum, self.width)
        self.align = self.sum.itemsize

    # --- pieces --------------------------------------------------------------------------------

    def _load(self, code: CodeStretch, pointer: str, dtype: DType, width: int) -> str:
        align = dtype.itemsize
        return code.let(f"load {memory(dtype, width)}, ptr {pointer}, align {align}")

    def _read_row(self, code: CodeStretch, row: str, vectors: int) -> list[str]:
        """The vectors of a row of a panel, or of sums."""
        pointers = [code.at(row, memory(self.sum), str(v * self.width)) for v in range(vectors)]
        return [self._load(code, pointer, self.sum, self.width) for pointer in pointers]

    def _write_row(self, code: CodeStretch, row: str, vectors: Sequence[str]) -> None:
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
        """Which lanes of the vectors of a panel are columns of C."""
        limit = code.splat(columns, "i64", self.width)
        return [code.let(f"icmp slt {lanes}, {limit}") for lanes in self._lanes()]

    def _distances(self, code: CodeStretch, stride: str) -> list[str]:
        """How far each lane of the vectors lies from the first, for columns `stride` apart."""
        step = code.splat(stride, "i64", self.width)
        return [code.let(f"mul {lanes}, {step}") for lanes in self._lanes()]

    def _lanes(self) -> Iterator[str]:
        """The columns of a panel that the lanes of its vectors hold, with their types."""
        for start in range(0, self.columns, self.width):
            columns = ", ".join(f"i64 {start + lane}" for lane in range(self.width))
            yield f"{wide('i64', self.width)} <{columns}>"

    def _flag(self, code: CodeStretch, *conditions: str) -> str:
        """Whether pairs of integers, as `a, b`, are equal."""
        return self._all(code, *(code.let(f"icmp eq i64 {pair}") for pair in conditions))

    def _all(self, code: CodeStretch, *flags: str) -> str:
        result = flags[0]
        for flag in flags[1:]:
            result = code.let(f"and i1 {result}, {flag}")
        return result

    def _any(self, code: CodeStretch, *flags: str) -> str:
        result = flags[0]
        for flag in flags[1:]:
            result = code.let(f"or i1 {result}, {flag}")
        return result

    def _one_of(self, code: CodeStretch, stop: str, *conditions: str) -> list[str]:
        """The ends of loops to `stop`, of which one runs: that of the first condition that holds,
        or else one more."""
        ends, taken = [], "false"
        for chosen in (*conditions, "true"):
            here = self._all(code, chosen, code.let(f"xor i1 {taken}, true"))
            taken = self._any(code, taken, here)
            ends.append(code.let(f"select i1 {here}, i64 {stop}, i64 0"))
        return ends

    def _least(self, code: CodeStretch, a: str, b: str | int) -> str:
        return code.let(f"call i64 @llvm.smin.i64(i64 {a}, i64 {b})")

    def _ahead(self, code: CodeStretch, pointer: str, index: str, stride: str) -> str:
        """Where an element of a matrix lies, `index` strides after another."""
        return code.at(pointer, memory(self.dtype), code.integer("mul", index, stride))

    def _runs(self, code: CodeStretch, starts: Sequence[str], at: str) -> list[str]:
        """A vector of what lies side by side along k from each start on, `at` steps further."""
        pointers = [code.at(start, memory(self.dtype), at) for start in starts]
        return self._converted(
            code, [self._load(code, p, self.dtype, self.width) for p in pointers]
        )

    def _fetch_ahead(
        self, function: FunctionText, starts: Sequence[str], at: str, stop: str
    ) -> None:
        """Fetch what lies four lines further along k than `at`, from each start, up to `stop`."""
        step = self.dtype.itemsize * self.pair
        coming = function.code().let(f"add i64 {at}, {4 * LINE // step}")
        with function.when(function.code().let(f"icmp slt i64 {coming}, {stop}")):
            code = function.code()
            for start in starts:
                code.fetch(code.at(start, f"[{step} x i8]", coming))

    def _converted(self, code: CodeStretch, vectors: Sequence[str]) -> list[str]:
        return [convert(code, x, self.dtype, self.sum, self.width) for x in vectors]

    def _rounded(self, code: CodeStretch, vector: str) -> str:
        """Sums as elements of C."""
        return convert(code, vector, self.sum, self.dtype, self.width)

    def _shuffled(
        self, code: CodeStretch, kind: str, pair: tuple[str, str], lanes: Sequence[int]
    ) -> str:
        picks = ", ".join(f"i32 {lane}" for lane in lanes)
        a, b = pair
        return code.let(f"shufflevector {kind} {a}, {kind} {b}, <{len(lanes)} x i32> <{picks}>")

    def _transpose(self, code: CodeStretch, rows: list[str]) -> list[str]:
        """Transpose a square of vectors: exchange blocks of half the size, then of a quarter..."""
        size = self.width // 2
        while size:
            rows = self._exchange(code, rows, size, size)
            size //= 2
        return rows

    def _exchange(self, code: CodeStretch, rows: list[str], apart: int, size: int) -> list[str]:
        """Exchange runs of `size` lanes between the rows of each pair that lies `apart`."""
        width, result = self.width, list(rows)
        low = [lane if not lane & size else width + lane - size for lane in range(width)]
        high = [lane + size if not lane & size else width + lane for lane in range(width)]
        for i in range(len(rows)):
            if not i & apart:
                pair = (rows[i], rows[i + apart])
                result[i] = self._shuffled(code, self.vector, pair, low)
                result[i + apart] = self._shuffled(code, self.vector, pair, high)
        return result

    # --- blocks --------------------------------------------------------------------------------

    def _block_name(self, rows: int, vectors: int, packs: bool = False) -> str:
        return f"{self.name}_{'packs' if packs else 'rows'}{rows}x{vectors}"

    def _fewest_rows(self, rows: int, vectors: int, packs: bool) -> int:
        """The fewest rows that a block takes: it repeats the last one then."""
        return rows if packs else 1

    def _block(self, rows: int, vectors: int, packs: bool = False) -> str:
        """Add rows of A, times rows of B, to what lies at `before`, and write that to sums.

        On its way it fetches what lies at `other` and `step` bytes further at each step of k;
        one that packs writes the rows of B there. There are `rows` rows, or, where it takes fewer
        as well, `count`.
        """
        function = FunctionText(
            f"define internal void @{self._block_name(rows, vectors, packs)}{BLOCK_ARGUMENTS} #0"
        )
        code, element = function.code(), memory(self.sum)
        numbers = [str(r) for r in range(rows)]
        fewest = self._fewest_rows(rows, vectors, packs)
        if fewest < rows:
            last = code.let("sub i64 %count, 1")
            numbers[fewest:] = [self._least(code, last, r) for r in numbers[fewest:]]
        lines = range(0, vectors * self.width * self.sum.itemsize, LINE)
        starts = [self._row_apart(code, "%a", r, "%am") for r in numbers]
        targets = [self._row_apart(code, "%sums", r, "%pitch") for r in numbers]
        for target in targets if self.fetching else ():
            for line in lines:
                code.fetch(code.at(target, "i8", str(line)), write=True)
        far = code.let(f"mul i64 %bk, {AHEAD}") if packs else ""
        carried = [("i64", "0"), ("ptr", "%b"), ("ptr", "%other")]
        nothing = [(self.vector, "zeroinitializer")] * (vectors * rows)
        with function.loop("0", "%depth", 1, [*carried, *nothing]) as loop:
            body = function.code()
            place, b, other, *sums = loop.carried
            right = self._read_row(body, b, vectors)
            if packs:
                self._write_row(body, other, right)
                coming = body.at(b, element, far)
                for line in lines:
                    body.fetch(body.at(coming, "i8", str(line)))
                following = body.at(other, element, str(self.columns))
            else:
                body.fetch(other)
                following = body.at(other, "i8", "%step")
            totals = []
            for r, start in enumerate(starts):
                value = self._load(body, body.at(start, element, place), self.sum, 1)
                left = body.splat(value, register(self.sum), self.width)
                for v in range(vectors):
                    totals.append(self._multiply_add(body, left, right[v], sums[vectors * r + v]))
            place = body.let(f"add i64 {place}, %ak")
            loop.following = [place, body.at(b, element, "%bk"), following, *totals]
        end, (_, _, _, *sums) = function.code(), loop.carried
        reads = [self._row_apart(end, "%before", r, "%apart") for r in numbers]
        writes = []
        for r, (read, target) in enumerate(zip(reads, targets)):
            before = self._read_row(end, read, vectors)
            writes.append((target, list(map(partial(self._add, end), before, sums[vectors * r :]))))
            # A row that may be repeated is read by all before one of them writes it.
            if r < fewest - 1 or fewest == rows:
                self._write_row(end, *writes.pop())
        for target, totals in writes:
            self._write_row(end, target, totals)
        return function.text()

    # --- panels of A ---------------------------------------------------------------------------

    def _pack_rows(self) -> str:
        """Copy a block of A, so that the elements of its rows at one step of k lie side by side.

        Where it has fewer rows than a block, the last one is repeated.
        """
        function = FunctionText(
            f"define internal void @{self.name}_pack_rows"
            "(ptr %a, i64 %am, i64 %ak, i64 %rows, i64 %depth, ptr %packed) #0"
        )
        code, element = function.code(), memory(self.dtype)
        last = code.let("sub i64 %rows, 1")
        starts = [
            self._ahead(code, "%a", self._least(code, last, r), "%am") for r in range(self.block)
        ]
        long = code.let(f"icmp sge i64 %depth, {self.width}")
        along = self._all(code, self._flag(code, "%ak, 1"), long)
        beside = self._flag(code, "%am, 1", f"%rows, {self.block}")
        squares, copied, single = self._one_of(code, "%depth", along, beside)
        final = code.let(f"sub i64 %depth, {self.width}")
        with function.loop("0", squares, self.width) as loop:
            body = function.code()
            # The last square overlaps the one before.
            at = self._least(body, loop.index, final)
            self._fetch_ahead(function, starts, at, squares)
            body = function.code()
            packed = self._interleaved(body, self._runs(body, starts, at))
            target = body.at("%packed", f"[{self.block} x {memory(self.sum)}]", at)
            self._write_row(body, target, packed)
        for stop, gathers in ((copied, False), (single, True)):
            with function.loop("0", stop, 1) as loop:
                body = function.code()
                step = body.integer("mul", loop.index, "%ak")
                if gathers:
                    values = "poison"
                    for r, start in enumerate(starts):
                        value = self._load(body, body.at(start, element, step), self.dtype, 1)
                        kind = wide(register(self.dtype), self.block)
                        here = f"{register(self.dtype)} {value}, i64 {r}"
                        values = body.let(f"insertelement {kind} {values}, {here}")
                else:
                    source = body.at("%a", element, step)
                    body.fetch(body.at(source, element, body.let(f"mul i64 %ak, {AHEAD}")))
                    values = self._load(body, source, self.dtype, self.block)
                values = convert(body, values, self.dtype, self.sum, self.block)
                target = body.at("%packed", f"[{self.block} x {memory(self.sum)}]", loop.index)
                kind = register(self.sum, self.block)
                body.do(f"store {kind} {values}, ptr {target}, align {self.align}")
        return function.text()

    def _interleaved(self, code: CodeStretch, rows: list[str]) -> list[str]:
        """Vectors of the first element of each row, then of the second, and so on.

        An element's place in the rows is (row, lane), and it is to be (lane, row), in bits. Each
        exchange swaps a bit of the row with one of the lane, from the highest down; the lanes
        within each vector are put in order at last, and the vectors.
        """
        width, count = self.width, len(rows)
        places = [[lane * count + row for lane in range(width)] for row in range(count)]
        apart, size = min(count, width) // 2, width // 2
        while apart and size:
            rows = self._exchange(code, rows, apart, size)
            moved = [list(place) for place in places]
            for i in range(count):
                if not i & apart:
                    for lane in range(width):
                        pair = (places[i], places[i + apart])
                        moved[i][lane] = pair[bool(lane & size)][lane & ~size]
                        moved[i + apart][lane] = pair[bool(lane & size)][lane | size]
            places, apart, size = moved, apart // 2, size // 2
        result = []
        for start in range(0, count * width, width):
            (i,) = (i for i, place in enumerate(places) if min(place) == start)
            order = [places[i].index(start + lane) for lane in range(width)]
            row = rows[i]
            if order != list(range(width)):
                row = self._shuffled(code, self.vector, (row, "poison"), order)
            result.append(row)
        return result

    # --- panels of B ---------------------------------------------------------------------------

    def _pack(self) -> str:
        """Copy a panel of B: `depth` rows of `columns` columns."""
        function = FunctionText(
            f"define internal void @{self.name}_pack"
            "(ptr %b, i64 %bk, i64 %bn, i64 %depth, i64 %columns, ptr %panel) #0"
        )
        code = function.code()
        beside = self._flag(code, "%bn, 1")
        whole = self._flag(code, "%bn, 1", f"%columns, {self.columns}")
        long = code.let(f"icmp sge i64 %depth, {self.width}")
        along = self._all(code, self._flag(code, "%bk, 1"), long)
        ends = self._one_of(code, "%depth", whole, beside, along)
        ways = (
            self._copy_rows, self._copy_lanes, self._transpose_columns, self._gather_rows,
        )  # fmt: skip
        for pack, end in zip(ways, ends):
            with function.when(function.code().let(f"icmp sgt i64 {end}, 0")):
                pack(function, end)
        return function.text()

    def _copy_rows(self, function: FunctionText, stop: str) -> None:
        """Pack rows of B that are as wide as a panel and lie side by side."""
        element = memory(self.dtype)
        far = function.code().let(f"mul i64 %bk, {AHEAD}")
        with function.loop("0", stop, 1) as loop:
            body = function.code()
            row = self._ahead(body, "%b", loop.index, "%bk")
            coming = body.at(row, element, far)
            for start in range(0, self.columns * self.dtype.itemsize, LINE):
                body.fetch(body.at(coming, "i8", str(start)))
            pointers = [body.at(row, element, str(v * self.width)) for v in range(self.vectors)]
            vectors = [self._load(body, pointer, self.dtype, self.width) for pointer in pointers]
            vectors = self._converted(body, vectors)
            self._write_row(body, self._row(body, "%panel", loop.index), vectors)

    def _copy_lanes(self, function: FunctionText, stop: str) -> None:
        """Pack rows of B that are narrower and lie side by side."""
        masks = self._masks(function.code(), "%columns")
        element, kind = memory(self.dtype), memory(self.dtype, self.width)
        suffix, flags = mangled(element, self.width), wide("i1", self.width)
        with function.loop("0", stop, 1) as loop:
            body = function.code()
            row = self._ahead(body, "%b", loop.index, "%bk")
            vectors = []
            for v, mask in enumerate(masks):
                pointer = body.at(row, element, str(v * self.width))
                vectors.append(
                    body.let(
                        f"call {kind} @llvm.masked.load.{suffix}.p0(ptr {pointer}, "
                        f"i32 {self.dtype.itemsize}, {flags} {mask}, {kind} zeroinitializer)"
                    )
                )
            vectors = self._converted(body, vectors)
            self._write_row(body, self._row(body, "%panel", loop.index), vectors)

    def _transpose_columns(self, function: FunctionText, stop: str) -> None:
        """Pack columns of B that lie side by side, in squares of vectors."""
        code = function.code()
        last = code.let("sub i64 %columns, 1")
        final = code.let(f"sub i64 {stop}, {self.width}")
        some = code.let(f"icmp sgt i64 {stop}, 0")
        with function.loop(
            "0", code.let(f"select i1 {some}, i64 %columns, i64 0"), self.width
        ) as group:
            code = function.code()
            panel = code.at("%panel", memory(self.sum), group.index)
            # Beyond the last column any other does: what it adds up to is not written.
            columns = [
                self._ahead(
                    code,
                    "%b",
                    self._least(code, last, code.integer("add", group.index, str(n))),
                    "%bn",
                )
                for n in range(self.width)
            ]
            with function.loop("0", stop, self.width) as loop:
                body = function.code()
                at = self._least(body, loop.index, final)  # the last square overlaps another
                self._fetch_ahead(function, columns, at, stop)
                body = function.code()
                rows = self._transpose(body, self._runs(body, columns, at))
                start = self._row(body, panel, at)
                for k, row in enumerate(rows):
                    self._write_row(body, self._row(body, start, str(k)), [row])

    def _gather_rows(self, function: FunctionText, stop: str) -> None:
        """Pack rows of B whatever their strides and however few columns."""
        code = function.code()
        masks, distances = self._masks(code, "%columns"), self._distances(code, "%bn")
        element, kind = memory(self.dtype), memory(self.dtype, self.width)
        with function.loop("0", stop, 1) as loop:
            body = function.code()
            row = self._ahead(body, "%b", loop.index, "%bk")
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

    # --- sums that do not lie in C -------------------------------------------------------------

    def _write(self) -> str:
        """Convert rows of a strip and write `columns` columns of it to C."""
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
            vectors = self._read_row(body, self._row(body, "%strip", index), self.vectors)
            results = [self._rounded(body, x) for x in vectors]
            return body, self._ahead(body, "%c", index, "%cm"), results

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
