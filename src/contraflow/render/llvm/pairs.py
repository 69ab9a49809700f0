"""Contractions of bfloat16 as LLVM IR for processors that multiply and add pairs of them.

Panels hold pairs of elements that follow each other along k, each pair as large as a sum, and a
block adds the products of a pair to a sum in one instruction. An odd element is paired with zero.
Elements that lie side by side along k are pairs already, and move as floats do.
"""

from __future__ import annotations

from collections.abc import Sequence

from contraflow.render.llvm.contraction import ContractionRenderer
from contraflow.render.llvm.panels import AHEAD, LINE
from contraflow.render.llvm.text import CodeStretch, FunctionText, memory, wide


class PairsRenderer(ContractionRenderer):
    """Writes the functions of a contraction of bfloat16 with float32 sums."""

    pair = 2

    def _multiply_add(self, code: CodeStretch, a: str, b: str, c: str) -> str:
        pairs = wide("bfloat", 2 * self.width)
        a, b = (code.let(f"bitcast {self.vector} {x} to {pairs}") for x in (a, b))
        bits = 8 * self.width * self.sum.itemsize
        return code.let(
            f"call {self.vector} @llvm.x86.avx512bf16.dpbf16ps.{bits}"
            f"({self.vector} {c}, {pairs} {a}, {pairs} {b})"
        )

    def _pairs(self, code: CodeStretch) -> tuple[str, str]:
        """How many whole pairs there are in `depth` steps of k, and whether one step is left."""
        odd = self._flag(code, f"{code.let('and i64 %depth, 1')}, 1")
        return code.let("lshr i64 %depth, 1"), odd

    def _rounded(self, code: CodeStretch, vector: str) -> str:
        bits = 8 * self.width * self.sum.itemsize
        kind = wide("bfloat", self.width)
        name = f"llvm.x86.avx512bf16.cvtneps2bf16.{bits}"
        value = code.let(f"call {kind} @{name}({self.vector} {vector})")
        return code.let(f"bitcast {kind} {value} to {wide('i16', self.width)}")

    def _side_by_side(self, code: CodeStretch, low: str, high: str, width: int) -> str:
        """Pairs of the elements of two vectors."""
        kind = wide("i16", width)
        lanes = [lane // 2 + lane % 2 * width for lane in range(2 * width)]
        return self._shuffled(code, kind, (low, high), lanes)

    def _paired(self, code: CodeStretch, low: str, high: str) -> str:
        """The same for vectors of as many elements as there are sums, as a vector."""
        pairs = self._side_by_side(code, low, high, self.width)
        return code.let(f"bitcast {wide('i16', 2 * self.width)} {pairs} to {self.vector}")

    def _runs(self, code: CodeStretch, starts: Sequence[str], at: str) -> list[str]:
        pointers = [code.at(start, "i32", at) for start in starts]
        return [code.let(f"load {self.vector}, ptr {p}, align 2") for p in pointers]

    # --- panels of A ---------------------------------------------------------------------------

    def _pack_rows(self) -> str:
        function = FunctionText(
            f"define internal void @{self.name}_pack_rows"
            "(ptr %a, i64 %am, i64 %ak, i64 %rows, i64 %depth, ptr %packed) #0"
        )
        code, block = function.code(), self.block
        whole, odd = self._pairs(code)
        last = code.let("sub i64 %rows, 1")
        starts = [self._ahead(code, "%a", self._least(code, last, r), "%am") for r in range(block)]
        long = code.let(f"icmp sge i64 {whole}, {self.width}")
        along = self._all(code, self._flag(code, "%ak, 1"), long)
        beside = self._flag(code, "%am, 1", f"%rows, {block}")
        squares, copied, single = self._one_of(code, whole, along, beside)
        final = code.let(f"sub i64 {whole}, {self.width}")
        row_type = f"[{block} x i32]"
        with function.loop("0", squares, self.width) as loop:
            body = function.code()
            at = self._least(body, loop.index, final)  # the last square overlaps another
            self._fetch_ahead(function, starts, at, squares)
            body = function.code()
            vectors = self._interleaved(body, self._runs(body, starts, at))
            self._write_row(body, body.at("%packed", row_type, at), vectors)
        with function.loop("0", copied, 1) as loop:
            body = function.code()
            source = self._ahead(body, "%a", body.let(f"shl i64 {loop.index}, 1"), "%ak")
            rows = [source, body.at(source, "i16", "%ak")]
            for row in rows:
                body.fetch(body.at(row, "i16", body.let(f"mul i64 %ak, {AHEAD}")))
            low, high = (self._load(body, row, self.dtype, block) for row in rows)
            pairs = self._side_by_side(body, low, high, block)
            target = body.at("%packed", row_type, loop.index)
            body.do(f"store {wide('i16', 2 * block)} {pairs}, ptr {target}, align 4")
        with function.loop("0", single, 1) as loop:
            self._pair_up(function, starts, "%ak", loop.index, "%packed", row_type, both=True)
        with function.when(odd):
            self._pair_up(function, starts, "%ak", whole, "%packed", row_type, both=False)
        return function.text()

    def _pair_up(
        self, function: FunctionText, starts: list[str], stride: str, pair: str, packed: str,
        row_type: str, both: bool,
    ) -> None:  # fmt: skip
        """Pack one pair from each start, element by element; the second one is zero if not both."""
        code = function.code()
        step = code.integer("mul", code.let(f"shl i64 {pair}, 1"), stride)
        target = code.at(packed, row_type, pair)
        for i, start in enumerate(starts):
            first = code.at(start, "i16", step)
            value = code.let(f"zext i16 {self._load(code, first, self.dtype, 1)} to i32")
            if both:
                second = self._load(code, code.at(first, "i16", stride), self.dtype, 1)
                high = code.let(f"shl i32 {code.let(f'zext i16 {second} to i32')}, 16")
                value = code.let(f"or i32 {value}, {high}")
            code.do(f"store i32 {value}, ptr {code.at(target, 'i32', str(i))}, align 4")

    # --- panels of B ---------------------------------------------------------------------------

    def _pack(self) -> str:
        function = FunctionText(
            f"define internal void @{self.name}_pack"
            "(ptr %b, i64 %bk, i64 %bn, i64 %depth, i64 %columns, ptr %panel) #0"
        )
        code = function.code()
        whole, odd = self._pairs(code)
        beside = self._flag(code, "%bn, 1")
        long = code.let(f"icmp sge i64 {whole}, {self.width}")
        along = self._all(code, self._flag(code, "%bk, 1"), long)
        copied, squares, single = self._one_of(code, whole, beside, along)
        masks = self._masks(code, "%columns")
        with function.loop("0", copied, 1) as loop:
            self._copy_pairs(function, loop.index, masks, both=True)
        self._transpose_columns(function, squares)
        with function.loop("0", single, 1) as loop:
            self._pair_columns(function, loop.index, both=True)
        with function.when(odd):
            code = function.code()
            with function.when(beside):
                self._copy_pairs(function, whole, masks, both=False)
            with function.when(code.let(f"xor i1 {beside}, true")):
                self._pair_columns(function, whole, both=False)
        self._fill_up(function)
        return function.text()

    def _fill_up(self, function: FunctionText) -> None:
        """Write what a block reads beyond the last pair."""

    def _copy_pairs(self, function: FunctionText, pair: str, masks: list[str], both: bool) -> None:
        """Pack two rows of B whose elements lie side by side, or one and zeros."""
        code = function.code()
        row = self._ahead(code, "%b", code.let(f"shl i64 {pair}, 1"), "%bk")
        rows = [row, code.at(row, "i16", "%bk")] if both else [row]
        far = code.let(f"mul i64 %bk, {AHEAD}")
        for start in rows:
            coming = code.at(start, "i16", far)
            for line in range(0, self.columns * self.dtype.itemsize, LINE):
                code.fetch(code.at(coming, "i8", str(line)))
        kind = wide("i16", self.width)
        vectors = []
        for v, mask in enumerate(masks):
            found = [
                code.let(
                    f"call {kind} @llvm.masked.load.v{self.width}i16.p0("
                    f"ptr {code.at(start, 'i16', str(v * self.width))}, i32 2, "
                    f"{wide('i1', self.width)} {mask}, {kind} zeroinitializer)"
                )
                for start in rows
            ]
            low, high = (*found, "zeroinitializer")[:2]
            vectors.append(self._paired(code, low, high))
        self._write_row(code, self._row(code, "%panel", pair), vectors)

    def _pair_columns(self, function: FunctionText, pair: str, both: bool) -> None:
        """Pack one pair of each column, whatever the strides."""
        with function.loop("0", "%columns", 1) as column:
            code = function.code()
            start = self._ahead(code, "%b", column.index, "%bn")
            packed = code.at("%panel", memory(self.sum), column.index)
            row_type = f"[{self.columns} x {memory(self.sum)}]"
            self._pair_up(function, [start], "%bk", pair, packed, row_type, both)
