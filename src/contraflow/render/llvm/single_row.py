"""Products of one row of A as LLVM IR: each element of B is used once, so it must come in order.

Where the elements of a row of B lie side by side, whole rows of B are swept, a few of them at once,
and sums rest in a row of scratch memory. Where those of a column do, each sum is a dot product of
LANES partial sums, whatever the width of vectors, over DOT_DEPTH steps of k: so many that no lane
adds up more products than a block does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from contraflow.render.llvm.panels import DEPTH, LINE, PanelRenderer
from contraflow.render.llvm.text import CodeStretch, FunctionText, mangled, memory, register, wide

SWEPT_ROWS = 8  # of B that are read side by side
SWEPT_BYTES = 1 << 13  # of their sums at a time, a quarter of a first-level cache
DOTS = 4  # columns whose dot products are formed side by side
LANES_BYTES = 64  # of the partial sums of a dot product


class SingleRowRenderer(PanelRenderer):
    """Writes the functions of contractions with one row."""

    @property
    def dot_depth(self) -> int:
        """Steps of k that are added up from zero in dot products."""
        return DEPTH * (LANES_BYTES // self.sum.itemsize)

    def _sweep(self) -> str:
        """Add a row times `columns` columns, which lie side by side, to sums, or to nothing."""
        function = FunctionText(
            f"define internal void @{self.name}_sweep(ptr %a, i64 %ak, ptr %b, i64 %bk, "
            "i64 %depth, i64 %columns, ptr %sums, i1 %first) #0"
        )
        code, element = function.code(), memory(self.sum)
        most = SWEPT_BYTES // self.sum.itemsize
        row = code.let(f"alloca [{most} x {element}], align 64")
        groups = code.let(f"and i64 %depth, {-SWEPT_ROWS}")
        with function.loop("0", "%columns", most) as chunk:
            code = function.code()
            extent = self._least(code, code.let(f"sub i64 %columns, {chunk.index}"), most)
            whole = code.let(f"and i64 {extent}, {-self.width}")
            b = code.at("%b", element, chunk.index)
            target = code.at("%sums", element, chunk.index)
            with function.loop("0", extent, self.width) as loop:
                code = function.code()
                self._write_row(code, code.at(row, element, loop.index), ["zeroinitializer"])
            for start, stop, step in (("0", groups, SWEPT_ROWS), (groups, "%depth", 1)):
                with function.loop(start, stop, step) as depth:
                    code = function.code()
                    steps = [code.integer("add", depth.index, str(i)) for i in range(step)]
                    rows = [self._row_apart(code, b, k, "%bk") for k in steps]
                    elements = [self._row_apart(code, "%a", k, "%ak") for k in steps]
                    lefts = [self._splatted(code, pointer) for pointer in elements]
                    for code, place, mask in self._places(function, extent, whole):
                        here = code.at(row, element, place)
                        (total,) = self._read_row(code, here, 1)
                        for left, b_row in zip(lefts, rows):
                            right = self._lanes_at(code, code.at(b_row, element, place), mask)
                            total = self._multiply_add(code, left, right, total)
                        self._write_row(code, here, [total])
            for code, place, mask in self._places(function, extent, whole):
                there = code.at(target, element, place)
                (total,) = self._read_row(code, code.at(row, element, place), 1)
                before = self._lanes_at(code, there, mask)
                before = code.let(
                    f"select i1 %first, {self.vector} zeroinitializer, {self.vector} {before}"
                )
                total = self._add(code, before, total)
                if mask is None:
                    self._write_row(code, there, [total])
                else:
                    self._write_lanes(code, there, total, mask)
        return function.text()

    def _places(
        self, function: FunctionText, extent: str, whole: str
    ) -> Iterator[tuple[CodeStretch, str, str | None]]:
        """Where the vectors of so many columns begin: whole ones, and one with a mask if columns
        are left."""
        with function.loop("0", whole, self.width) as loop:
            yield function.code(), loop.index, None
        code = function.code()
        rest = code.integer("sub", extent, whole)
        with function.when(code.let(f"icmp sgt i64 {rest}, 0")):
            code = function.code()
            yield code, whole, self._first_lanes(code, rest)

    def _first_lanes(self, code: CodeStretch, count: str, start: int = 0) -> str:
        """Which lanes, counted from `start` on, are among the first `count`."""
        lanes = ", ".join(f"i64 {start + lane}" for lane in range(self.width))
        limit = code.splat(count, "i64", self.width)
        return code.let(f"icmp slt {wide('i64', self.width)} <{lanes}>, {limit}")

    def _lanes_at(self, code: CodeStretch, pointer: str, mask: str | None) -> str:
        """A vector, zeros where a mask is not set."""
        if mask is None:
            return self._load(code, pointer, self.sum, self.width)
        kind, suffix = memory(self.sum, self.width), mangled(memory(self.sum), self.width)
        return code.let(
            f"call {kind} @llvm.masked.load.{suffix}.p0(ptr {pointer}, i32 {self.align}, "
            f"{wide('i1', self.width)} {mask}, {kind} zeroinitializer)"
        )

    def _write_lanes(self, code: CodeStretch, pointer: str, vector: str, mask: str) -> None:
        """Write the lanes of a vector for which a mask is set."""
        suffix = mangled(memory(self.sum), self.width)
        code.do(
            f"call void @llvm.masked.store.{suffix}.p0({self.vector} {vector}, ptr {pointer}, "
            f"i32 {self.align}, {wide('i1', self.width)} {mask})"
        )

    def _splatted(self, code: CodeStretch, pointer: str) -> str:
        value = self._load(code, pointer, self.sum, 1)
        return code.splat(value, register(self.sum), self.width)

    def _dots(self) -> str:
        """Add dot products of a row with `columns` columns, whose elements lie side by side along
        k, to sums, or to nothing."""
        function = FunctionText(
            f"define internal void @{self.name}_dots(ptr %a, ptr %b, i64 %bn, i64 %depth, "
            "i64 %columns, ptr %sums, i64 %apart, i1 %first) #0"
        )
        code, element = function.code(), memory(self.sum)
        lanes = LANES_BYTES // self.sum.itemsize
        parts = range(0, lanes, self.width)
        whole = code.let(f"and i64 %depth, {-lanes}")
        rest = code.integer("sub", "%depth", whole)
        last = code.let("sub i64 %columns, 1")
        masks = [self._first_lanes(code, rest, part) for part in parts]
        with function.loop("0", "%columns", DOTS) as group:
            code = function.code()
            places = [
                self._least(code, last, code.integer("add", group.index, str(i)))
                for i in range(DOTS)
            ]
            columns = [self._row_apart(code, "%b", place, "%bn") for place in places]
            nothing = [(self.vector, "zeroinitializer")] * (DOTS * len(parts))
            with function.loop("0", whole, lanes, nothing) as loop:
                body = function.code()
                left = self._parts(body, "%a", loop.index, parts)
                loop.following = []
                for i, column in enumerate(columns):
                    body.fetch(body.at(body.at(column, element, loop.index), "i8", str(8 * LINE)))
                    right = self._parts(body, column, loop.index, parts)
                    totals = loop.carried[len(parts) * i :]
                    loop.following += map(
                        self._multiply_add, [body] * len(parts), left, right, totals
                    )
            code = function.code()
            left = self._parts(code, "%a", whole, parts, masks)
            results = []
            for i, column in enumerate(columns):
                right = self._parts(code, column, whole, parts, masks)
                totals = loop.carried[len(parts) * i :]
                sums = list(map(self._multiply_add, [code] * len(parts), left, right, totals))
                results.append(self._folded(code, sums))
            self._add_to(code, "%sums", "%apart", places, results)
        return function.text()

    def _add_to(
        self, code: CodeStretch, start: str, apart: str, places: Sequence[str], sums: Sequence[str]
    ) -> None:
        """Add sums to the elements at places so far apart, the last of which may be repeated; to
        nothing if they are the first."""
        element = memory(self.sum)
        targets = [self._row_apart(code, start, place, apart) for place in places]
        befores = [self._load(code, target, self.sum, 1) for target in targets]
        add = "fadd" if self.sum.is_floating_point else "add"
        for target, before, found in zip(targets, befores, sums):
            held = code.let(f"select i1 %first, {element} zeroinitializer, {element} {before}")
            total = code.let(f"{add} {element} {held}, {found}")
            code.do(f"store {element} {total}, ptr {target}, align {self.align}")

    def _parts(
        self, code: CodeStretch, pointer: str, start: str, parts: Sequence[int],
        masks: Sequence[str | None] = (),
    ) -> list[str]:  # fmt: skip
        """The vectors of as many elements as there are partial sums; zeros where no mask is set."""
        at = code.at(pointer, memory(self.sum), start)
        pointers = [code.at(at, memory(self.sum), str(part)) for part in parts]
        return [
            self._lanes_at(code, x, mask)
            for x, mask in zip(pointers, masks or (None,) * len(pointers))
        ]

    def _folded(self, code: CodeStretch, vectors: list[str]) -> str:
        """The sum of all lanes: halves are added until one is left."""
        while len(vectors) > 1:
            half = len(vectors) // 2
            vectors = list(map(self._add, [code] * half, vectors[:half], vectors[half:]))
        (total,), size = vectors, self.width // 2
        while size:
            lanes = [(lane + size) % self.width for lane in range(self.width)]
            moved = self._shuffled(code, self.vector, (total, "poison"), lanes)
            total, size = self._add(code, total, moved), size // 2
        return code.let(f"extractelement {self.vector} {total}, i64 0")
