"""Contractions as LLVM IR whose operand B is read through several strides, for convolutions.

Along k and along n an element's number has several digits, each with a size and a stride: for a
convolution these are channel and tap, and the place. No copy is made that shows every window: a
panel is packed from where the elements lie, and from then on all is as in `contraction.py`.

Rows of a panel follow a counter of k's digits. Its columns lie side by side, the whole panel or
each vector in one or two runs; or elements lie side by side down a column, and squares of them are
transposed; else they are gathered. One row of A meets windows without panels (`window_rows.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from contraflow.compiler.kernel import Contraction
from contraflow.render.llvm.contraction import ContractionRenderer, Panel, Sides
from contraflow.render.llvm.identity import STANDARD_SIZES, BlockSizes
from contraflow.render.llvm.panels import DEPTH
from contraflow.render.llvm.text import CodeStretch, FunctionText, mangled, memory, wide
from contraflow.render.llvm.window_filters import ROWS, SIDE, STRIDES, WindowFilters
from contraflow.render.llvm.window_rows import HEADER, PIECES, WORDS, WindowRows, piece_place

_SIZES = 6  # the first word of the sizes: three operands lie before, with two words each
PANELS = 16  # of a chunk: so many have a table of where their columns lie


class WindowRenderer(ContractionRenderer):
    """Writes the functions of a contraction with digits."""

    plain = False

    def __init__(
        self, kernel: Contraction, name: str, vector_bytes: int, several_rows: bool = False,
        sizes: BlockSizes = STANDARD_SIZES,
    ) -> None:  # fmt: skip
        super().__init__(kernel, name, vector_bytes, several_rows, sizes)
        assert kernel.digits is not None
        self.depths, self.places = kernel.digits
        self.table_type = f"[{self.columns} x i64]"
        # Processors with such vectors gather faster than they read elements one by one. Zen 4,
        # which has them, packs windows in shorter ones.
        self.gathers = vector_bytes == 64
        self.rows = WindowRows(kernel, name) if self.single_rows else None
        near = self.rows and kernel.digits == (2, 2)
        self.filters = WindowFilters(kernel, name) if near else None

    def text(self) -> str:
        """The functions, the entry last."""
        parts = [self._table(), super().text()]
        if self.rows:
            parts = [self.rows.text(), self._pieces(True), self._pieces(False), *parts]
        if self.filters:
            parts = [self.filters.text(), *parts]
        return "\n".join(parts)

    # --- arguments -----------------------------------------------------------------------------

    def _digits(self, code: CodeStretch, of_depth: bool) -> list[tuple[str, str]]:
        """The sizes and strides of B's digits along k, or along n."""
        skipped, count = (0, self.depths) if of_depth else (self.depths, self.places)
        sizes = _SIZES + 4 + skipped
        strides = _SIZES + 4 + self.depths + self.places + 5 + 3 + skipped
        return [
            (code.word("%arguments", sizes + i, "size"), code.word("%arguments", strides + i))
            for i in range(count)
        ]

    def _sides(self, code: CodeStretch) -> Sides:
        g, b, m, outer = (code.word("%arguments", _SIZES + i) for i in range(4))
        k, n = (
            self._product(code, [size for size, _ in self._digits(code, of_depth)])
            for of_depth in (True, False)
        )
        first = _SIZES + 4 + self.depths + self.places
        strides = [code.word("%arguments", first + i, "stride") for i in range(8)]
        (ag, ab, am, ao, ak), (bg, bb, bo) = strides[:5], strides[5:]
        last = first + 8 + self.depths + self.places
        cg, cb, cm, cn = (code.word("%arguments", last + i, "stride") for i in range(4))
        matrices, batch = code.integer("mul", g, b), [(ag, ab), (bg, bb), (cg, cb)]
        return Sides(
            self._pointers(code), matrices, m, n, k, b, batch, [am, cm], cn, ak, outer, (ao, bo)
        )

    def _product(self, code: CodeStretch, factors: Sequence[str]) -> str:
        result = factors[0]
        for factor in factors[1:]:
            result = code.integer("mul", result, factor)
        return result

    # --- counting ------------------------------------------------------------------------------

    def _split(
        self, code: CodeStretch, number: str, digits: Sequence[tuple[str, str]]
    ) -> tuple[list[str], str]:
        """The digits of a number, and the offset they stand for."""
        found, offset, rest = [], "0", number
        for i, (size, stride) in reversed(list(enumerate(digits))):
            digit = code.let(f"srem i64 {rest}, {size}") if i else rest
            rest = code.let(f"sdiv i64 {rest}, {size}") if i else rest
            offset = code.integer("add", offset, code.integer("mul", digit, stride))
            found.append(digit)
        return found[::-1], offset

    def _returns(self, code: CodeStretch, digits: Sequence[tuple[str, str]]) -> list[str]:
        """For every digit but the first: the way from its end to a step of the digit before."""
        result = []
        for (_, above), (size, stride) in itertools.pairwise(digits):
            result.append(code.let(f"sub i64 {above}, {code.integer('mul', size, stride)}"))
        return result

    def _advance(
        self, code: CodeStretch, digits: Sequence[tuple[str, str]], returns: Sequence[str],
        counter: Sequence[str], by: str = "1",
    ) -> list[str]:  # fmt: skip
        """The next state of a counter: an offset, then the digits below the first.

        `by` steps of the last digit are made, to its end at most.
        """
        offset, *values = counter
        offset = code.integer("add", offset, code.integer("mul", by, digits[-1][1]))
        following: list[str] = []
        carry, step = "true", by
        for (size, _), back, digit in reversed(list(zip(digits[1:], returns, values))):
            moved = code.integer("add", digit, step)
            full = code.let(f"icmp eq i64 {moved}, {size}")
            carry = code.let(f"and i1 {carry}, {full}")
            following.append(code.let(f"select i1 {carry}, i64 0, i64 {moved}"))
            added = code.let(f"select i1 {carry}, i64 {back}, i64 0")
            offset = code.integer("add", offset, added)
            step = code.let(f"zext i1 {carry} to i64")
        return [offset, *following[::-1]]

    # --- columns -------------------------------------------------------------------------------

    def _scratch(self, code: CodeStretch) -> None:
        self.tables = code.let(f"alloca [{PANELS} x {self.table_type}], align 64", "tables")
        if self.rows:
            table = f"[{HEADER + WORDS * PIECES} x i64]"
            self.taps, self.pieces = (code.let(f"alloca {table}, align 64") for _ in range(2))

    def _chunk(self, code: CodeStretch, sides: Sides) -> str:
        most = str(PANELS * self.columns)
        return self._least(code, super()._chunk(code, sides), most)

    def _begin_columns(
        self, function: FunctionText, b: str, column: str, extent: str, turn: str, first: str
    ) -> str:
        code = function.code()
        self.table = code.at(self.tables, "i64", turn)
        digits = self._digits(code, of_depth=False)
        found, offset = self._split(code, column, digits)
        size, stride = digits[-1]
        end = code.integer("add", found[-1], str(self.columns))
        fits = code.let(f"icmp sle i64 {end}, {size}")
        whole = self._flag(code, f"{stride}, 1", f"{extent}, {self.columns}")
        self.whole = code.let(f"and i1 {fits}, {whole}")
        self.first = found[-1]
        unknown = code.let(f"xor i1 {self.whole}, true")
        with function.when(self._all(code, first, unknown)):
            function.code().do(
                f"call void @{self.name}_table(ptr %arguments, i64 {column}, i64 {extent}, "
                f"ptr {self.table})"
            )
        return function.code().at(b, memory(self.dtype), offset)

    def _table(self) -> str:
        """Write how far each column of a panel lies from its first; the last one is repeated."""
        function = FunctionText(
            f"define internal void @{self.name}_table"
            "(ptr %arguments, i64 %column, i64 %columns, ptr %table) #0"
        )
        code = function.code()
        digits = self._digits(code, of_depth=False)
        returns = self._returns(code, digits)
        found, _ = self._split(code, "%column", digits)
        carried = [("i64", "0"), *(("i64", digit) for digit in found[1:])]
        last = code.let("sub i64 %columns, 1")
        with function.loop("0", str(self.columns), 1, carried) as loop:
            body = function.code()
            body.do(f"store i64 {loop.carried[0]}, ptr {body.at('%table', 'i64', loop.index)}")
            more = body.let(f"icmp slt i64 {loop.index}, {last}")
            moved = self._advance(body, digits, returns, loop.carried)
            loop.following = [
                body.let(f"select i1 {more}, i64 {new}, i64 {old}")
                for new, old in zip(moved, loop.carried)
            ]
        return function.text()

    # --- one row -------------------------------------------------------------------------------

    def _single_rows(
        self, function: FunctionText, sides: Sides, batches: tuple[str, str],
        rows: tuple[str, str], columns: tuple[str, str],
    ) -> tuple[str, str]:  # fmt: skip
        assert self.rows is not None
        code = function.code()
        single = self._flag(code, f"{sides.m}, 1", f"{rows[0]}, 0", f"{rows[1]}, 1")
        single = self._all(code, single, code.let(f"xor i1 {self.empty}, true"))
        depths, places = (self._digits(code, of_depth) for of_depth in (True, False))
        few_taps = code.let(f"icmp sle i64 {sides.k}, {PIECES}")
        more = code.let(f"icmp sge i64 {sides.n}, {sides.k}")
        one_sum = self._flag(code, f"{sides.outer}, 1")
        along_places = self._all(code, single, self.direct, one_sum, few_taps, more)
        few_taps = code.let(f"icmp sle i64 {sides.n}, {PIECES}")
        long = code.let(f"icmp sge i64 {depths[-1][0]}, {self.rows.width // 2}")
        beside = self._flag(code, f"{sides.depth}, 1")
        fewer = code.let(f"xor i1 {along_places}, true")
        along_depth = self._all(code, single, beside, few_taps, long, fewer)
        done = self._any(code, along_places, along_depth)
        if self.filters:
            high = code.let(f"icmp sge i64 {places[0][0]}, {ROWS}")
            whole = self._flag(code, f"{columns[0]}, 0", f"{columns[1]}, {sides.n}")
            narrow = code.let(f"icmp sle i64 {depths[1][0]}, {self.filters.most_columns}")
            # However C is cut, one part adds up all taps, in the order that follows from the sizes:
            # that with the first one. Parts without columns may begin there too.
            some = code.let(f"icmp sgt i64 {columns[1]}, 0")
            begins = self._all(code, self._flag(code, f"{columns[0]}, 0"), some)
            for stride in STRIDES:
                code = function.code()
                near = self._near_windows(code, depths, places, stride)
                near = self._all(code, near, high, whole)
                filters = self._all(code, along_places, near)
                along_places = code.let(f"select i1 {near}, i1 false, i1 {along_places}")
                near = self._all(code, self._near_windows(code, places, depths, stride), narrow)
                correlates = self._all(code, along_depth, near, begins)
                along_depth = code.let(f"select i1 {near}, i1 false, i1 {along_depth}")
                with function.when(filters):
                    self._filter(function, sides, batches, depths, places, stride)
                with function.when(correlates):
                    self._correlate(function, sides, batches, places, depths, stride)
        with function.when(along_places):
            self._list_pieces(function.code(), True, "0", sides.k, "1", self.taps)
            self._sum_taps(function, sides, batches, columns, places[-1])
        with function.when(along_depth):
            self._list_pieces(function.code(), False, *columns, "1", self.taps)
            self._sum_places(function, sides, batches, columns, depths[-1])
        code = function.code()
        return code.let(f"select i1 {done}, i64 {batches[1]}, i64 {batches[0]}"), batches[1]

    def _near_windows(
        self, code: CodeStretch, taps: Sequence[tuple[str, str]],
        places: Sequence[tuple[str, str]], stride: int,
    ) -> str:  # fmt: skip
        """Whether windows have 3 x 3 elements side by side, and begin so many elements apart."""
        (high, line), (wide_, beside) = taps
        (_, step), (_, near) = places
        return self._flag(
            code, f"{high}, {SIDE}", f"{wide_}, {SIDE}", f"{beside}, 1", f"{near}, {stride}",
            f"{code.integer('mul', line, str(stride))}, {step}",
        )  # fmt: skip

    def _filter(
        self, function: FunctionText, sides: Sides, batches: tuple[str, str],
        taps: Sequence[tuple[str, str]], places: Sequence[tuple[str, str]], stride: int,
    ) -> None:  # fmt: skip
        """All places of windows of 3 x 3."""
        (_, pitch), ((height, _), (width, _)) = taps[0], places
        with function.loop(*batches, 1) as batch:
            code = function.code()
            a, b, c = self._matrices(code, sides, batch.index)
            code.do(
                f"call void @{self.name}_filter{stride}(ptr {a}, i64 {sides.depth}, ptr {b}, "
                f"ptr {c}, i64 {pitch}, i64 {height}, i64 {width})"
            )

    def _correlate(
        self, function: FunctionText, sides: Sides, batches: tuple[str, str],
        taps: Sequence[tuple[str, str]], places: Sequence[tuple[str, str]], stride: int,
    ) -> None:  # fmt: skip
        """All taps of windows of 3 x 3: rows of places, or of several images, that add up as many
        vectors as a panel has rows."""
        assert self.filters is not None
        (_, pitch), ((height, step), (width, _)) = taps[0], places
        code = function.code()
        each = self._units(code, width, self.filters.width)
        lines = code.let(f"and i64 {code.let(f'sdiv i64 {DEPTH}, {each}')}, {-ROWS}")
        images = code.let(f"sdiv i64 {DEPTH}, {code.let(f'mul i64 {each}, {height}')}")
        images = code.let(f"call i64 @llvm.smax.i64(i64 {images}, i64 1)")
        with (
            function.loop(*batches, 1) as batch,
            function.loop("0", height, lines) as line,
            function.loop("0", sides.outer, images) as outer,
        ):
            code = function.code()
            a, b, c = self._matrices(code, sides, batch.index)
            a, b = (
                self._ahead(code, self._ahead(code, pointer, outer.index, apart), line.index, row)
                for pointer, apart, row in zip((a, b), sides.apart, (width, step))
            )
            count, extent = (
                self._least(code, code.let(f"sub i64 {total}, {index}"), step)
                for total, index, step in (
                    (sides.outer, outer.index, images), (height, line.index, lines)
                )
            )  # fmt: skip
            first = self._flag(code, f"{code.let(f'or i64 {outer.index}, {line.index}')}, 0")
            code.do(
                f"call void @{self.name}_correlate{stride}(ptr {a}, ptr {b}, ptr {c}, "
                f"i64 {sides.column}, i64 {pitch}, i64 {extent}, i64 {width}, i64 {count}, "
                f"i64 {sides.apart[0]}, i64 {sides.apart[1]}, i1 {first})"
            )

    def _sum_taps(
        self, function: FunctionText, sides: Sides, batches: tuple[str, str],
        columns: tuple[str, str], place: tuple[str, str],
    ) -> None:  # fmt: skip
        """Some places, each the sum of all taps."""
        chunks = self._chunks(function, False, columns, place[0])
        with chunks, function.loop(*batches, 1) as batch:
            code = function.code()
            a, b, c = self._matrices(code, sides, batch.index)
            code.do(
                f"call void @{self.name}_places(ptr {a}, i64 {sides.depth}, ptr {b}, ptr {c}, "
                f"i64 {sides.k}, ptr {self.taps}, i64 {place[1]}, ptr {self.pieces})"
            )

    def _sum_places(
        self, function: FunctionText, sides: Sides, batches: tuple[str, str],
        columns: tuple[str, str], depth: tuple[str, str],
    ) -> None:  # fmt: skip
        """Some taps, each the sum of all places."""
        extent = function.code().integer("sub", columns[1], columns[0])
        with self._chunks(function, True, ("0", sides.k), depth[0]) as chunk:
            code = function.code()
            listed = code.let(f"add i64 {code.word(self.pieces, 0)}, {code.word(self.pieces, 1)}")
            images = code.let(f"sdiv i64 {PIECES}, {listed}")
            loops = function.loop(*batches, 1), function.loop("0", sides.outer, images)
            with loops[0] as batch, loops[1] as outer:
                code = function.code()
                a, b, c = self._matrices(code, sides, batch.index)
                a, b = (
                    self._ahead(code, pointer, outer.index, stride)
                    for pointer, stride in zip((a, b), sides.apart)
                )
                c = self._ahead(code, c, columns[0], sides.column)
                left = code.let(f"sub i64 {sides.outer}, {outer.index}")
                first = self._flag(code, f"{code.let(f'or i64 {outer.index}, {chunk}')}, 0")
                code.do(
                    f"call void @{self.name}_depths(ptr {a}, ptr {b}, ptr {c}, "
                    f"i64 {sides.column}, i64 {extent}, ptr {self.taps}, i64 {depth[1]}, "
                    f"ptr {self.pieces}, i64 {self._least(code, left, images)}, "
                    f"i64 {sides.apart[0]}, i64 {sides.apart[1]}, i1 {first})"
                )

    @contextmanager
    def _chunks(
        self, function: FunctionText, of_depth: bool, span: tuple[str, str], size: str
    ) -> Iterator[str]:
        """A loop over parts of a span, of which a table lists the pieces: whole runs of the last
        digit, which has a size, or parts of them if they are long."""
        assert self.rows is not None
        code, width = function.code(), self.rows.width
        each = self._units(code, size, width)  # pieces of a run; one more begins in the middle
        runs = code.let(f"sub i64 {code.let(f'sdiv i64 {PIECES}, {each}')}, 1")
        length = code.let(f"mul i64 {runs}, {size}")
        some = code.let(f"icmp sgt i64 {runs}, 0")
        step = code.let(f"select i1 {some}, i64 {length}, i64 {PIECES // 2 * width}")
        with function.loop(*span, step) as loop:
            code = function.code()
            end = self._least(code, code.let(f"add i64 {loop.index}, {step}"), span[1])
            self._list_pieces(code, of_depth, loop.index, end, str(width), self.pieces)
            yield loop.index

    def _list_pieces(
        self, code: CodeStretch, of_depth: bool, start: str, stop: str, width: str, table: str
    ) -> None:
        code.do(
            f"call void @{self.name}_{'depth' if of_depth else 'place'}_pieces(ptr %arguments, "
            f"i64 {start}, i64 {stop}, i64 {width}, ptr {table})"
        )

    def _pieces(self, of_depth: bool) -> str:
        """List the pieces of up to `width` elements from number `start` to `stop` along k or n."""
        function = FunctionText(
            f"define internal void @{self.name}_{'depth' if of_depth else 'place'}_pieces"
            "(ptr %arguments, i64 %start, i64 %stop, i64 %width, ptr %table) #0"
        )
        code = function.code()
        digits = self._digits(code, of_depth)
        returns, (size, stride) = self._returns(code, digits), digits[-1]
        found, offset = self._split(code, "%start", digits)
        runs, several = "1", len(digits) > 1
        if several:
            extent = code.let(f"sub i64 %stop, {code.let(f'sub i64 %start, {found[-1]}')}")
            runs = self._units(code, extent, size)
        counter = [("i64", offset), *(("i64", digit) for digit in found[1:])]
        with function.loop("0", runs, 1, [("i64", "%start"), *[("i64", "0")] * 2, *counter]) as run:
            code = function.code()
            number, whole, ragged, *state = run.carried
            length = code.let(f"sub i64 %stop, {number}")
            if several:
                length = self._least(code, length, code.let(f"sub i64 {size}, {state[-1]}"))
            with function.loop("0", length, "%width", [("i64", whole), ("i64", ragged)]) as piece:
                code = function.code()
                whole, ragged = piece.carried
                left = code.let(f"sub i64 {length}, {piece.index}")
                full = code.let(f"icmp sge i64 {left}, %width")
                back = code.let(f"sub i64 {PIECES - 1}, {ragged}")
                slot = code.let(f"select i1 {full}, i64 {whole}, i64 {back}")
                entry = piece_place(code, "%table", slot)
                moved = code.integer("mul", piece.index, stride)
                words = (
                    code.integer("add", state[0], moved),
                    code.integer("add", number, piece.index),
                    self._least(code, left, "%width"),
                )
                for i, word in enumerate(words):
                    code.do(f"store i64 {word}, ptr {code.at(entry, 'i64', str(i))}")
                one = code.let(f"zext i1 {full} to i64")
                other = code.let(f"xor i64 {one}, 1")
                piece.following = [
                    code.let(f"add i64 {whole}, {one}"), code.let(f"add i64 {ragged}, {other}")
                ]  # fmt: skip
            code = function.code()
            moved_state = self._advance(code, digits, returns, state, length)
            run.following = [
                code.integer("add", number, length), *piece.carried, *moved_state
            ]  # fmt: skip
        code = function.code()
        for i, count in enumerate(run.carried[1:3]):
            code.do(f"store i64 {count}, ptr {code.at('%table', 'i64', str(i))}")
        return function.text()

    # --- packing -------------------------------------------------------------------------------

    def _provide(
        self, function: FunctionText, b: str, start: str, depth: str, columns: str, few: str
    ) -> Panel:
        function.code().do(
            f"call void @{self.name}_pack(ptr %arguments, ptr {b}, i64 {start}, i64 {depth}, "
            f"i64 {self.first}, i64 {columns}, i1 {self.whole}, ptr {self.table}, ptr {self.panel})"
        )
        return Panel(self.panel, str(self.columns))

    def _pack(self) -> str:
        """Copy a panel of B: `depth` rows from `start` on, `columns` columns."""
        self.function = function = FunctionText(
            f"define internal void @{self.name}_pack(ptr %arguments, ptr %b, i64 %start, "
            "i64 %depth, i64 %first, i64 %columns, i1 %whole, ptr %table, ptr %panel) #0"
        )
        code = function.code()
        self.digits = self._digits(code, of_depth=True)
        self.returns = self._returns(code, self.digits)
        found, offset = self._split(code, "%start", self.digits)
        self.counter = [("i64", offset), *(("i64", digit) for digit in found[1:])]
        size, stride = self._digits(code, of_depth=False)[-1]
        depth_size, depth_stride = self.digits[-1]
        # Of four loops one runs.
        near = self._wide_enough(code, size, stride)
        tall = self._wide_enough(code, depth_size, depth_stride)
        ends = []
        taken = "false"
        for chosen in ("%whole", near, tall, "true"):
            free = code.let(f"xor i1 {taken}, true")
            here = code.let(f"and i1 {chosen}, {free}")
            taken = code.let(f"or i1 {taken}, {here}")
            ends.append(code.let(f"select i1 {here}, i64 %depth, i64 0"))
        self._pack_whole(ends[0])
        self._pack_runs(ends[1], size)
        self._pack_squares(ends[2], found[-1])
        self._pack_gathered(ends[3])
        return function.text()

    def _wide_enough(self, code: CodeStretch, size: str, stride: str) -> str:
        """Whether elements lie side by side along a digit, at least a vector of them."""
        side_by_side = code.let(f"icmp eq i64 {stride}, 1")
        enough = code.let(f"icmp sge i64 {size}, {self.width}")
        return code.let(f"and i1 {side_by_side}, {enough}")

    def _pack_whole(self, end: str) -> None:
        """All columns side by side."""
        element = memory(self.dtype)
        with self.function.loop("0", end, 1, self.counter) as loop:
            body = self.function.code()
            row = body.at("%b", element, loop.carried[0])
            pointers = [body.at(row, element, str(v * self.width)) for v in range(self.vectors)]
            vectors = [self._load(body, pointer, self.dtype, self.width) for pointer in pointers]
            target = self._row(body, "%panel", loop.index)
            self._write_row(body, target, self._converted(body, vectors))
            loop.following = self._advance(body, self.digits, self.returns, loop.carried)

    def _pack_runs(self, end: str, size: str) -> None:
        """Each vector in one or two runs: the last digit of n starts again at most once."""
        element, kind = memory(self.dtype), memory(self.dtype, self.width)
        lanes, flags = wide("i64", self.width), wide("i1", self.width)
        suffix, align = mangled(element, self.width), self.dtype.itemsize
        numbers = "<" + ", ".join(f"i64 {lane}" for lane in range(self.width)) + ">"
        with self.function.loop("0", end, DEPTH):  # at most once
            code = self.function.code()
            runs: list[list[tuple[str, str]]] = []  # for each vector: starts and masks
            digit = "%first"
            for v in range(self.vectors):
                remaining = code.let(f"sub i64 {size}, {digit}")
                split = code.let(f"call i64 @llvm.smin.i64(i64 {remaining}, i64 {self.width})")
                left = code.let(f"sub i64 %columns, {v * self.width}")
                within = code.let(
                    f"icmp slt {lanes} {numbers}, {code.splat(left, 'i64', self.width)}"
                )
                before = code.let(
                    f"icmp slt {lanes} {numbers}, {code.splat(split, 'i64', self.width)}"
                )
                after = code.let(f"xor {flags} {before}, splat (i1 true)")
                turn = code.let(f"add i64 {split}, {v * self.width}")
                turn = code.let(f"call i64 @llvm.smin.i64(i64 {turn}, i64 {self.columns - 1})")
                offset = code.let(f"load i64, ptr {code.at('%table', 'i64', turn)}")
                starts = (
                    code.word("%table", v * self.width),
                    code.let(f"sub i64 {offset}, {split}"),
                )
                runs.append(
                    [
                        (start, code.let(f"and {flags} {within}, {mask}"))
                        for start, mask in zip(starts, (before, after))
                    ]
                )
                moved = code.let(f"add i64 {digit}, {self.width}")
                past = code.let(f"icmp sge i64 {moved}, {size}")
                again = code.let(f"sub i64 {moved}, {size}")
                digit = code.let(f"select i1 {past}, i64 {again}, i64 {moved}")
            with self.function.loop("0", end, 1, self.counter) as loop:
                body = self.function.code()
                row = body.at("%b", element, loop.carried[0])
                vectors = []
                for parts in runs:
                    found = "zeroinitializer"
                    for start, mask in parts:
                        pointer = body.at(row, element, start)
                        found = body.let(
                            f"call {kind} @llvm.masked.load.{suffix}.p0(ptr {pointer}, "
                            f"i32 {align}, {flags} {mask}, {kind} {found})"
                        )
                    vectors.append(found)
                target = self._row(body, "%panel", loop.index)
                self._write_row(body, target, self._converted(body, vectors))
                loop.following = self._advance(body, self.digits, self.returns, loop.carried)

    def _pack_squares(self, end: str, digit: str) -> None:
        """Down the columns: squares within each run of k's last digit are transposed."""
        element, function = memory(self.dtype), self.function
        size, _ = self.digits[-1]
        with function.loop("0", end, DEPTH):  # at most once
            code = function.code()
            stop = code.integer("add", digit, end)
            rounded = code.let(f"add i64 {stop}, {code.let(f'sub i64 {size}, 1')}")
            runs = code.let(f"sdiv i64 {rounded}, {size}") if self.depths > 1 else "1"
            with function.loop("0", runs, 1, [("i64", "0"), *self.counter]) as run:
                code = function.code()
                done, *counter = run.carried
                length = code.let(f"sub i64 {end}, {done}")
                if self.depths > 1:
                    left = code.let(f"sub i64 {size}, {counter[-1]}")
                    length = code.let(f"call i64 @llvm.smin.i64(i64 {length}, i64 {left})")
                short = code.let(f"icmp slt i64 {length}, {self.width}")
                squares = code.let(f"select i1 {short}, i64 0, i64 {length}")
                squared = code.let(f"select i1 {short}, i64 0, i64 %columns")
                last = code.let(f"sub i64 {length}, {self.width}")
                with function.loop("0", squared, self.width) as group:
                    code = function.code()
                    table = code.at("%table", "i64", group.index)
                    columns = [
                        code.at("%b", element, code.word(table, n)) for n in range(self.width)
                    ]
                    panel = code.at("%panel", memory(self.sum), group.index)
                    with function.loop("0", squares, self.width) as loop:
                        body = function.code()
                        # The last square overlaps the one before.
                        at = self._least(body, loop.index, last)
                        source = body.integer("add", counter[0], at)
                        vectors = [
                            self._load(body, body.at(x, element, source), self.dtype, self.width)
                            for x in columns
                        ]
                        rows = self._transpose(body, self._converted(body, vectors))
                        target = self._row(body, panel, body.integer("add", done, at))
                        for k, row in enumerate(rows):
                            self._write_row(body, self._row(body, target, str(k)), [row])
                with function.loop(squares, length, 1) as loop:
                    body = function.code()
                    source = body.integer("add", counter[0], loop.index)
                    self._gather(
                        source, self._row(body, "%panel", body.integer("add", done, loop.index))
                    )
                code = function.code()
                moved = self._advance(code, self.digits, self.returns, counter, length)
                run.following = [code.integer("add", done, length), *moved]

    def _pack_gathered(self, end: str) -> None:
        """Every element by itself."""
        with self.function.loop("0", end, 1, self.counter) as loop:
            body = self.function.code()
            self._gather(loop.carried[0], self._row(body, "%panel", loop.index))
            following = self.function.code()
            loop.following = self._advance(following, self.digits, self.returns, loop.carried)

    def _gather(self, offset: str, target: str) -> None:
        """Pack a row, element by element; beyond the last column it is repeated."""
        element, kind = memory(self.dtype), memory(self.dtype, self.width)
        suffix = f"{mangled(element, self.width)}.v{self.width}p0"
        lanes, flags = wide("i64", self.width), wide("i1", self.width)
        row = self.function.code().at("%b", element, offset)
        for start in range(0, self.columns, self.width):
            some = self.function.code().let(f"icmp sgt i64 %columns, {start}")
            with self.function.when(some):
                code = self.function.code()
                place = code.at("%table", "i64", str(start))
                if self.gathers:
                    distances = code.let(f"load {lanes}, ptr {place}, align 8")
                    pointers = code.let(f"getelementptr {element}, ptr {row}, {lanes} {distances}")
                    found = code.let(
                        f"call {kind} @llvm.masked.gather.{suffix}(<{self.width} x ptr> "
                        f"{pointers}, i32 {self.dtype.itemsize}, {flags} splat (i1 true), "
                        f"{kind} zeroinitializer)"
                    )
                else:
                    found = "poison"
                    for lane in range(self.width):
                        pointer = code.at(row, element, code.word(place, lane))
                        value = self._load(code, pointer, self.dtype, 1)
                        here = f"{element} {value}, i64 {lane}"
                        found = code.let(f"insertelement {kind} {found}, {here}")
                there = code.at(target, memory(self.sum), str(start))
                self._write_row(code, there, self._converted(code, [found]))
