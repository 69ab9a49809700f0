"""Weights of blocks of attention as LLVM IR: scores that become weights, lane by lane.

A block has QUERIES queries and at most KEYS keys, and lies in scratch memory with queries side by
side: the lanes of vectors are queries, so the largest score and the sum of weights of a query are
taken lane by lane.
"""

from __future__ import annotations

from contraflow.compiler.kernel import Attention
from contraflow.dtypes import int32
from contraflow.expressions import expression as s
from contraflow.expressions.expression import Expr
from contraflow.render.llvm.lowering import lower
from contraflow.render.llvm.matrices import MatrixRenderer
from contraflow.render.llvm.text import (
    CodeStretch,
    FunctionText,
    expressions,
    memory,
    register,
    wide,
)

QUERIES = 48  # of a block: the columns of panels of any width divide it
KEYS = 96  # of a block, whose weights are summed from zero on
FAR = 1 << 20  # more than any distance within a block


class WeightRenderer(MatrixRenderer):
    """Writes the functions of an attention kernel that go over the elements of a block."""

    def __init__(self, kernel: Attention, name: str, vector_bytes: int) -> None:
        super().__init__(kernel, name, vector_bytes)
        assert QUERIES % self.columns == 0, "a block of queries is whole panels"
        self.kernel = kernel
        self.element = memory(self.sum)

    def weight_functions(self) -> list[str]:
        """The functions that the loops of a kernel call."""
        averages = self.kernel.part == "out"
        return [self._scale(), *([self._soften(), self._finish()] if averages else [self._weigh()])]

    def _read_lanes(self, code: CodeStretch, base: str, group: str) -> str:
        """A vector of one number for each query."""
        return self._load(code, self._lane(code, base, group), self.sum, self.width)

    def _write_lanes(self, code: CodeStretch, base: str, group: str, value: str) -> None:
        pointer = self._lane(code, base, group)
        code.do(f"store {self.vector} {value}, ptr {pointer}, align {self.align}")

    def _lane(self, code: CodeStretch, base: str, group: str) -> str:
        return code.at(base, f"[{self.width} x {self.element}]", group)

    def _line(self, code: CodeStretch, base: str, row: str) -> str:
        """Where a row of a matrix begins that has a column for each query."""
        return code.at(base, f"[{QUERIES} x {self.element}]", row)

    def _computed(self, code: CodeStretch, expression: Expr, *values: str) -> str:
        """An expression over leaves 0, 1 ... in all lanes."""
        leaves = {s.leaf("input", self.sum, i): value for i, value in enumerate(values)}
        return expressions(code, lower([expression]), leaves, self.width)[0]

    def _x(self, number: int) -> Expr:
        return s.leaf("input", self.sum, number)

    def _last_key(self, code: CodeStretch, group: str) -> str:
        """The last key that each query of a vector may see, counted from the first of the block;
        `%ahead` is how far the first query lies behind the first key."""
        lanes = f"<{', '.join(f'i32 {lane}' for lane in range(self.width))}>"
        far = code.let(f"add i64 %ahead, {code.let(f'mul i64 {group}, {self.width}')}")
        near = code.let(f"call i64 @llvm.smin.i64(i64 {far}, i64 {FAR})")
        first = code.splat(code.let(f"trunc i64 {near} to i32"), "i32", self.width)
        return code.let(f"add {register(int32, self.width)} {first}, {lanes}")

    def _seen(self, code: CodeStretch, value: str, other: str, row: str, last: str) -> str:
        """A value where a query may see a key, elsewhere another."""
        if not self.kernel.causal:
            return value
        number = code.splat(code.let(f"trunc i64 {row} to i32"), "i32", self.width)
        flags = code.let(f"icmp sle {register(int32, self.width)} {number}, {last}")
        kinds = f"{self.vector} {value}, {self.vector} {other}"
        return code.let(f"select {wide('i1', self.width)} {flags}, {kinds}")

    def _scale(self) -> str:
        """Multiply the rows of a matrix, lane by lane, by a factor for each query."""
        function = FunctionText(
            f"define internal void @{self.name}_scale"
            "(ptr %matrix, i64 %rows, i64 %groups, ptr %factors) #0"
        )
        with function.loop("0", "%groups", 1) as group:
            factor = self._read_lanes(function.code(), "%factors", group.index)
            with function.loop("0", "%rows", 1) as row:
                code = function.code()
                line = self._line(code, "%matrix", row.index)
                value = self._read_lanes(code, line, group.index)
                value = code.let(f"fmul {self.vector} {value}, {factor}")
                self._write_lanes(code, line, group.index, value)
        return function.text()

    def _soften(self) -> str:
        """Turn a block of scores into weights, relative to the largest score so far; note that and
        the sum of weights, and by how much what was summed before is to be scaled."""
        function = FunctionText(
            f"define internal void @{self.name}_soften(ptr %scores, ptr %peaks, ptr %totals, "
            "ptr %changes, i64 %keys, i64 %groups, i64 %ahead) #0"
        )
        with function.loop("0", "%groups", 1) as group:
            code = function.code()
            last = self._last_key(code, group.index)
            before = self._read_lanes(code, "%peaks", group.index)
            with function.loop("0", "%keys", 1, [(self.vector, before)]) as row:
                code, (peak,) = function.code(), row.carried
                score = self._read_lanes(code, self._line(code, "%scores", row.index), group.index)
                score = self._seen(code, score, peak, row.index, last)
                more = code.let(f"fcmp ogt {self.vector} {score}, {peak}")
                row.following = [
                    code.let(
                        f"select {wide('i1', self.width)} {more}, {self.vector} {score}, "
                        f"{self.vector} {peak}"
                    )
                ]
            (peak,) = row.carried
            with function.loop("0", "%keys", 1, [(self.vector, "zeroinitializer")]) as row:
                code, (total,) = function.code(), row.carried
                line = self._line(code, "%scores", row.index)
                score = self._read_lanes(code, line, group.index)
                weight = self._computed(code, s.exp(self._x(0) - self._x(1)), score, peak)
                weight = self._seen(code, weight, "zeroinitializer", row.index, last)
                self._write_lanes(code, line, group.index, weight)
                row.following = [self._add(code, total, weight)]
            code, (added,) = function.code(), row.carried
            change = self._computed(code, s.exp(self._x(0) - self._x(1)), before, peak)
            total = self._read_lanes(code, "%totals", group.index)
            total = self._computed(code, self._x(0) * self._x(1) + self._x(2), total, change, added)
            for base, value in (("%peaks", peak), ("%totals", total), ("%changes", change)):
                self._write_lanes(code, base, group.index, value)
        return function.text()

    def _finish(self) -> str:
        """Turn sums of weights into their inverses, and peaks into the logarithms of sums."""
        function = FunctionText(
            f"define internal void @{self.name}_finish(ptr %peaks, ptr %totals, i64 %groups) #0"
        )
        with function.loop("0", "%groups", 1) as group:
            code = function.code()
            values = [self._read_lanes(code, base, group.index) for base in ("%peaks", "%totals")]
            one = s.const(1, self.sum)
            for base, found in (
                ("%peaks", self._x(0) + s.log(self._x(1))), ("%totals", one / self._x(1))
            ):  # fmt: skip
                value = self._computed(code, found, *values)
                self._write_lanes(code, base, group.index, value)
        return function.text()

    def _weigh(self) -> str:
        """Turn a block of scores into weights, and one of pulls into the gradients of scores."""
        scalar = register(self.sum)
        function = FunctionText(
            f"define internal void @{self.name}_weigh(ptr %scores, ptr %pulls, ptr %normalizers, "
            f"ptr %products, i64 %keys, i64 %groups, i64 %ahead, {scalar} %scale) #0"
        )
        scale = function.code().splat("%scale", scalar, self.width)
        with function.loop("0", "%groups", 1) as group:
            code = function.code()
            last = self._last_key(code, group.index)
            normalizer, product = (
                self._read_lanes(code, base, group.index) for base in ("%normalizers", "%products")
            )
            with function.loop("0", "%keys", 1) as row:
                code = function.code()
                scores, pulls = (self._line(code, x, row.index) for x in ("%scores", "%pulls"))
                score, pull = (self._read_lanes(code, x, group.index) for x in (scores, pulls))
                weight = self._computed(code, s.exp(self._x(0) - self._x(1)), score, normalizer)
                weight = self._seen(code, weight, "zeroinitializer", row.index, last)
                change = self._computed(
                    code, self._x(0) * (self._x(1) - self._x(2)) * self._x(3),
                    weight, pull, product, scale,
                )  # fmt: skip
                change = self._seen(code, change, "zeroinitializer", row.index, last)
                self._write_lanes(code, scores, group.index, weight)
                self._write_lanes(code, pulls, group.index, change)
        return function.text()
