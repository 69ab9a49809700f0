"""Matrices in scratch memory as LLVM IR: copied there and back, and multiplied.

Such a matrix has rows of vectors: it is as wide as its columns, rounded up to whole vectors. The
lanes beyond its last column may hold anything, and are never written to a result.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from contraflow.compiler.kernel import Attention
from contraflow.dtypes import DType
from contraflow.render.llvm.contraction import BLOCKS
from contraflow.render.llvm.panels import BLOCK_ARGUMENTS, DEPTH, PanelRenderer
from contraflow.render.llvm.text import CodeStretch, FunctionText, convert, memory, register


class Matrix(NamedTuple):
    """Where a matrix begins, and its strides along rows and columns, as names."""

    start: str
    row: str
    column: str = "1"

    @property
    def turned(self) -> Matrix:
        """Its transpose."""
        return Matrix(self.start, self.column, self.row)


class MatrixRenderer(PanelRenderer):
    """Writes the functions that copy and multiply the matrices of an attention kernel."""

    fetching = False  # scratch memory is in a cache

    def __init__(self, kernel: Attention, name: str, vector_bytes: int) -> None:
        self.heights = BLOCKS[vector_bytes]
        super().__init__(kernel, name, vector_bytes, self.heights[-1], len(self.heights))

    def matrix_functions(self) -> list[str]:
        """The functions that the loops of a kernel call."""
        blocks = [(rows, vectors) for vectors, rows in enumerate(self.heights, 1)]
        names = ", ".join(f"ptr @{self._block_name(*shape)}" for shape in blocks)
        heights = ", ".join(f"i64 {rows}" for rows in self.heights)
        count = len(blocks)
        texts = [
            f"@{self.name}_blocks = internal constant [{count} x ptr] [{names}]",
            f"@{self.name}_heights = internal constant [{count} x i64] [{heights}]",
            f"@{self.name}_zeros = internal constant [{self.columns} x {memory(self.sum)}] "
            "zeroinitializer, align 64",
            *(self._block(*shape) for shape in blocks),
            self._multiply(),
            self._copy("copy", self.dtype, self.sum),
        ]
        return [*texts, self._copy("write", self.sum, self.dtype)] if self.converts else texts

    def product(
        self, code: CodeStretch, a: Matrix, b: Matrix, c: Matrix, sizes: tuple[str, str, str],
        adds: str,
    ) -> None:  # fmt: skip
        """Multiply A and B, of `sizes` rows, steps of k and columns; add that to C, or set it."""
        rows, depth, columns = sizes
        code.do(
            f"call void @{self.name}_multiply(ptr {a.start}, i64 {a.row}, i64 {a.column}, "
            f"i64 {rows}, ptr {b.start}, i64 {b.row}, i64 {depth}, i64 {columns}, ptr {c.start}, "
            f"i64 {c.row}, i1 {adds})"
        )

    def read(
        self, code: CodeStretch, source: Matrix, target: Matrix, rows: str, columns: str,
        filled: str,
    ) -> None:  # fmt: skip
        """Copy a matrix to scratch memory, its rows filled up to so many columns."""
        self._call_copy(code, "copy", source, target, rows, columns, filled)

    def write(
        self, code: CodeStretch, source: Matrix, target: Matrix, rows: str, columns: str
    ) -> None:
        """Copy a matrix from scratch memory to where it belongs."""
        name = "write" if self.converts else "copy"
        self._call_copy(code, name, source, target, rows, columns, columns)

    def _call_copy(self, code: CodeStretch, name: str, *given: Matrix | str) -> None:
        typed = []
        for x in given:
            strides = f"ptr {x.start}, i64 {x.row}, i64 {x.column}" if isinstance(x, Matrix) else ""
            typed.append(strides or f"i64 {x}")
        code.do(f"call void @{self.name}_{name}({', '.join(typed)})")

    def _filled(self, code: CodeStretch, size: str) -> str:
        """So many columns, rounded up to whole vectors."""
        padded = code.let(f"add i64 {size}, {self.width - 1}")
        return code.let(f"and i64 {padded}, {-self.width}")

    def _quotient(self, code: CodeStretch, size: str, step: int | str) -> str:
        """How many steps of a size there are, the last one perhaps shorter."""
        padded = code.integer("add", size, code.let(f"sub i64 {step}, 1"))
        return code.let(f"sdiv i64 {padded}, {step}")

    def _multiply(self) -> str:
        """Write the products of rows of A and columns of B to C, or add them to it.

        A may lie anywhere. B and C have rows of vectors. The columns are shared evenly among as few
        panels as hold them. Sums of DEPTH products begin with zero.
        """
        function = FunctionText(
            f"define internal void @{self.name}_multiply(ptr %a, i64 %am, i64 %ak, i64 %rows, "
            "ptr %b, i64 %bk, i64 %depth, i64 %columns, ptr %c, i64 %pitch, i1 %adds) #0"
        )
        code, element = function.code(), memory(self.sum)
        panels = self._quotient(code, "%columns", self.columns)
        panels = code.let(f"call i64 @llvm.smax.i64(i64 {panels}, i64 1)")
        even = self._filled(code, self._quotient(code, "%columns", panels))
        with function.loop("0", "%depth", DEPTH) as k:
            code = function.code()
            later = code.let(f"icmp sgt i64 {k.index}, 0")
            adds = self._any(code, later, "%adds")
            length = self._least(code, code.let(f"sub i64 %depth, {k.index}"), DEPTH)
            a_depth = code.at("%a", element, code.let(f"mul i64 {k.index}, %ak"))
            b_depth = code.at("%b", element, code.let(f"mul i64 {k.index}, %bk"))
            apart = code.let(f"select i1 {adds}, i64 %pitch, i64 0")
            with function.loop("0", "%columns", even) as column:
                code = function.code()
                extent = self._least(code, code.let(f"sub i64 %columns, {column.index}"), even)
                number = code.let(f"sub i64 {self._quotient(code, extent, self.width)}, 1")
                block = code.let(f"load ptr, ptr {code.at(f'@{self.name}_blocks', 'ptr', number)}")
                place = code.at(f"@{self.name}_heights", "i64", number)
                height = code.let(f"load i64, ptr {place}")
                b, c = (code.at(x, element, column.index) for x in (b_depth, "%c"))
                with function.loop("0", "%rows", height) as row:
                    code = function.code()
                    count = self._least(code, code.let(f"sub i64 %rows, {row.index}"), height)
                    a = code.at(a_depth, element, code.let(f"mul i64 {row.index}, %am"))
                    target = self._row_apart(code, c, row.index, "%pitch")
                    zeros = f"@{self.name}_zeros"
                    before = code.let(f"select i1 {adds}, ptr {target}, ptr {zeros}")
                    values = (
                        a, "%am", "%ak", b, "%bk", length, before, apart, target, "%pitch",
                        zeros, "0", count,
                    )  # fmt: skip
                    kinds = re.findall(r"(\w+) %", BLOCK_ARGUMENTS)
                    given = ", ".join(f"{x} {y}" for x, y in zip(kinds, values, strict=True))
                    code.do(f"call void {block}({given})")
        return function.text()

    def _copy(self, name: str, source: DType, target: DType) -> str:
        """Copy a matrix of any strides to one of any strides, converted. Each row is filled up to
        `filled` columns with its last element."""
        function = FunctionText(
            f"define internal void @{self.name}_{name}(ptr %from, i64 %fr, i64 %fc, ptr %to, "
            "i64 %tr, i64 %tc, i64 %rows, i64 %columns, i64 %filled) #0"
        )
        code, width = function.code(), self.width
        last = code.let("sub i64 %columns, 1")
        beside = self._flag(code, "%fc, 1", "%tc, 1")
        turned = self._all(
            code, self._flag(code, "%fr, 1", "%tc, 1"), code.let(f"icmp sge i64 %rows, {width}"),
            code.let(f"xor i1 {beside}, true"),
        )  # fmt: skip
        along, across = (
            code.let(f"select i1 {flag}, i64 {code.let(f'and i64 {size}, {-width}')}, i64 0")
            for flag, size in ((beside, "%columns"), (turned, "%filled"))
        )
        final = code.let(f"sub i64 %rows, {width}")
        done = code.let(f"or i64 {along}, {across}")

        def element(body: CodeStretch, base: str, dtype: DType, *steps: str) -> str:
            for index, stride in zip(steps[::2], steps[1::2]):
                base = body.at(base, memory(dtype), body.integer("mul", index, stride))
            return base

        def load(body: CodeStretch, pointer: str, lanes: int) -> str:
            return convert(body, self._load(body, pointer, source, lanes), source, self.sum, lanes)

        def store(body: CodeStretch, value: str, pointer: str, lanes: int) -> None:
            value, kind = convert(body, value, self.sum, target, lanes), register(target, lanes)
            body.do(f"store {kind} {value}, ptr {pointer}, align {target.itemsize}")

        with function.loop("0", across, width) as column:
            code = function.code()
            starts = []
            for lane in range(width):
                number = code.integer("add", column.index, str(lane))
                starts.append(element(code, "%from", source, self._least(code, last, number),
                                      "%fc"))  # fmt: skip
            with function.loop("0", "%rows", width) as row:
                body = function.code()
                at = self._least(body, row.index, final)  # the last square overlaps another
                square = [load(body, element(body, x, source, at, "1"), width) for x in starts]
                start = element(body, "%to", target, at, "%tr", column.index, "1")
                for r, line in enumerate(self._transpose(body, square)):
                    store(body, line, element(body, start, target, str(r), "%tr"), width)
        with function.loop("0", "%rows", 1) as row:
            code = function.code()
            begin = element(code, "%from", source, row.index, "%fr")
            end = element(code, "%to", target, row.index, "%tr")
            with function.loop("0", along, width) as column:
                body = function.code()
                value = load(body, element(body, begin, source, column.index, "1"), width)
                store(body, value, element(body, end, target, column.index, "1"), width)
            with function.loop(done, "%filled", 1) as column:
                body = function.code()
                number = self._least(body, column.index, last)
                value = load(body, element(body, begin, source, number, "%fc"), 1)
                store(body, value, element(body, end, target, column.index, "%tc"), 1)
        return function.text()
