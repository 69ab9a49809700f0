"""The bodies of maps in which a thread takes four points side by side: memory is read and written
by up to 16 bytes at a time.

Whether operands lie so that this can be done is found out where the kernel runs: their addresses
must be multiples of four elements, and so must strides, and the length of the lane where there are
other axes. Elsewhere, and for the last points of one axis, each thread takes one point.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from contraflow.compiler.kernel import STRIDED, Loops
from contraflow.dtypes import DType
from contraflow.expressions import expression as s
from contraflow.expressions.expression import Expr
from contraflow.render.clike.loops import LoopsWriter, prepare
from contraflow.render.clike.source import Body, Syntax, in_memory
from contraflow.render.clike.writer import ExprText

FOUR = 4


class FourSyntax(Syntax, Protocol):
    """The syntax of a language that has fours."""

    def four(self, dtype: DType) -> str:
        """The type of four elements side by side in memory, which are `.at[0]` and so on."""

    def element_of(self, text: str, dtype: DType) -> str:
        """The value of what memory holds."""

    def as_element(self, value: str, dtype: DType) -> str:
        """A value as it lies in memory."""


def write(kernel: Loops, syntax: FourSyntax) -> Body:
    """The body of a map."""
    writer = FourWriter(prepare(kernel, syntax.column), syntax)
    writer.write_points()
    return Body(writer.lines, writer.shared)


def may_have_fours(kernel: Loops) -> bool:
    """Whether the elements that a map stores lie side by side along its lane."""
    if kernel.inner or kernel.checks_indices or kernel.lane is None:
        return False
    return all(kernel.operands[store.operand].strides[kernel.lane] == 1 for store in kernel.stores)


class FourWriter(LoopsWriter):
    """Writes the body of such a map."""

    def __init__(self, kernel: Loops, syntax: FourSyntax) -> None:
        super().__init__(kernel, syntax)
        self._language = syntax

    def write_points(self) -> None:
        """Write the loop over points by fours, and that over the rest."""
        kernel, lane = self.kernel, self.kernel.lane
        assert lane is not None
        outer = range(kernel.outer)
        beside = [i for i in in_memory(kernel) if self._is_beside(i)]
        self.index("points", self.extent(outer))
        self.line(f"const bool by_fours = {' && '.join(self._conditions(beside))};")
        self.index("fours", f"by_fours ? points / {FOUR} : 0")
        with self.loop("four", "group * threads + thread", "fours", "groups * threads"):
            self.split(f"(four * {FOUR})", outer)
            self.index("lane", f"i{lane}")
            loads = self._loads()
            for number in dict.fromkeys(e.data for e in loads):
                four = self._four(number)
                self.line(
                    f"const {four} given{number}s = *(const {four}*)({self._pointer(number)});"
                )
            for i, store in enumerate(kernel.stores):
                self.line(f"{self._four(store.operand)} stored{i};")
            for part in range(FOUR):
                with self._at(part, lane):
                    for e in loads:
                        text = self._language.element_of(f"given{e.data}s.at[{part}]", e.dtype)
                        self.values[e] = ExprText(self.define(e.dtype, text))
                    found = self.compute([store.value for store in kernel.stores])
                    for i, (store, value) in enumerate(zip(kernel.stores, found)):
                        dtype = self.operands[store.operand].dtype
                        text = self._language.as_element(value.text, dtype)
                        self.line(f"stored{i}.at[{part}] = {text};")
            for i, store in enumerate(kernel.stores):
                four = self._four(store.operand)
                self.line(f"*({four}*)({self._pointer(store.operand)}) = stored{i};")
        first = f"fours * {FOUR} + group * threads + thread"
        with self.loop("point", first, "points", "groups * threads"):
            self.split("point", outer)
            self.store(kernel.stores)

    def _is_beside(self, number: int) -> bool:
        """Whether four neighbours of an operand are read or written as one."""
        assert self.kernel.lane is not None
        operand = self.operands[number]
        if operand.strides[self.kernel.lane] != 1:
            return False
        return operand.mode != "in" or any(e.data == number for e in self._loads())

    def _loads(self) -> list[Expr]:
        """The loads of elements at the point itself that lie side by side along the lane."""
        lane = self.kernel.lane
        assert lane is not None
        return [
            e
            for e in s.walk([store.value for store in self.kernel.stores])
            if e.fn == "load"
            and not e.args
            and self.operands[e.data].mode in ("in", "inout")
            and self.operands[e.data].strides[lane] == 1
        ]

    def _conditions(self, beside: list[int]) -> list[str]:
        kernel = self.kernel
        found = [f"size{kernel.lane} % {FOUR} == 0"] if kernel.outer > 1 else []
        for number in beside:
            operand = self.operands[number]
            bytes_ = min(16, FOUR * operand.dtype.itemsize)
            found.append(f"(long long)(operand{number} + offset{number}) % {bytes_} == 0")
            found += [
                f"stride{number}_{k} % {FOUR} == 0"
                for k, kind in enumerate(operand.strides)
                if kind == STRIDED
            ]
        return found

    def _four(self, number: int) -> str:
        """The type of four elements of an operand."""
        return self._language.four(self.operands[number].dtype)

    def _pointer(self, number: int) -> str:
        return f"operand{number} + {self.address(number)}"

    @contextmanager
    def _at(self, part: int, lane: int) -> Iterator[None]:
        """Write a block about one of the four."""
        with self.block(""):
            self.index(f"i{lane}", f"lane + {part}")
            yield
