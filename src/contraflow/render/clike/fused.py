"""A product and the map over its result behind it as one kernel: biases, activations, residuals,
and optimizers, whose gradient is the product.

The kernel is a contraction with more operands. The map is computed for each element of the result
where its sum is complete; its operands are read and written at strides of the product's axes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property

from contraflow.compiler.kernel import STRIDED, Contraction, KernelCall, Loops, Operand
from contraflow.expressions import expression as s
from contraflow.expressions.expression import Expr
from contraflow.render.clike.loops import prepare
from contraflow.render.clike.source import Syntax
from contraflow.render.clike.wide import PANEL, ProductWriter, Tiling
from contraflow.render.clike.writer import ExprText


@dataclass(eq=False, repr=False)
class FusedProduct(Contraction):
    """A contraction whose operands 0, 1, 2 are followed by those of a map, but for the one that
    reads the result. `keeps` says that the result itself is stored too."""

    following: Loops | None = None
    result: int = 0  # the number of the operand of the map that is the product's result
    keeps: bool = True

    @property
    def map(self) -> Loops:
        """The map that follows."""
        assert self.following is not None
        return self.following

    @cached_property
    def numbers(self) -> dict[int, int]:
        """The number here of each operand of the map."""
        others = [i for i in range(len(self.map.operands)) if i != self.result]
        return {self.result: 2} | {i: 3 + n for n, i in enumerate(others)}

    @cached_property
    def operands(self) -> tuple[Operand, ...]:
        """A, B and C, and those of the map."""
        own = Contraction(self.dtype, self.accumulate).operands
        others = (o for i, o in enumerate(self.map.operands) if i != self.result)
        strides = (0, 0, STRIDED, STRIDED)
        return (*own, *(o if o.mode == "scalar" else o._replace(strides=strides) for o in others))

    @cached_property
    def name(self) -> str:
        """A stable name."""
        parts = (self.dtype, self.accumulate, self.map.identity, self.result, self.keeps)
        return f"product_{hashlib.sha256(' '.join(map(str, parts)).encode()).hexdigest()[:12]}"


def may_follow(product: KernelCall, call: KernelCall, result: int) -> bool:
    """Whether a call of a map visits the elements of a product's result, which its operand number
    `result` reads, and is about nothing but these elements."""
    kernel = call.kernel
    if not isinstance(kernel, Loops) or kernel.inner or kernel.checks_indices or kernel.gathered:
        return False
    modes = {operand.mode for operand in kernel.operands}
    if kernel.operands[result].mode != "in" or not modes <= {"in", "out", "inout", "scalar"}:
        return False
    if any(e.fn == "axis" for e in s.walk(kernel.roots)):
        return False
    return _rows_and_columns(product, call, call.strides[result]) == product.strides[2][2:]


def _rows_and_columns(
    product: KernelCall, call: KernelCall, strides: Sequence[int]
) -> tuple[int, int] | None:
    """Strides over the points of a map, over the rows and columns of a product's result; None if
    those are not its points."""
    g, b, m, n, _ = product.sizes
    if g * b != 1:
        return None
    if call.sizes == (m, n):
        return strides[0], strides[1]
    return (n * strides[0], strides[0]) if call.sizes == (m * n,) else None


def fused(product: KernelCall, call: KernelCall, result: int, keeps: bool) -> KernelCall:
    """A product and a map that may follow it as one call. A sum in several panels is kept."""
    own, kernel = product.kernel, call.kernel
    assert isinstance(own, Contraction)
    assert isinstance(kernel, Loops)
    keeps = keeps or (own.dtype is own.accumulate and product.sizes[4] > PANEL)
    strides = list(product.strides)
    for i, given in enumerate(call.strides):
        if i != result:
            over = _rows_and_columns(product, call, given) if given else None
            strides.append(() if over is None else (0, 0, *over))
    both = FusedProduct(own.dtype, own.accumulate, None, kernel, result, keeps)
    return KernelCall(both, product.sizes, tuple(strides))


class FusedProductWriter(ProductWriter):
    """Writes the body of such a kernel."""

    kernel: FusedProduct

    def __init__(self, kernel: FusedProduct, syntax: Syntax, tiling: Tiling) -> None:
        assert tiling.slices > 1, "each thread would have the text of the map for all of its sums"
        super().__init__(kernel, syntax, tiling)
        self.stores = prepare(kernel.map, syntax.column).stores

    def write_store(self, column: str, vector: str) -> None:
        """Write what becomes of four columns."""
        kernel, syntax = self.kernel, self.syntax
        rounded = kernel.dtype is not kernel.accumulate  # then there is one panel
        with self.loop("part", "0", "4", "1"), ExitStack() as inside:
            self.index("own_place", f"{column} + part")
            inside.enter_context(self.block("if (own_place < size3)"))
            self.complete = self.define(kernel.accumulate, f"{vector}[part]")
            if rounded:
                value = syntax.convert(self.complete, kernel.accumulate, kernel.dtype)
                self.complete = self.define(kernel.dtype, value)
            if kernel.keeps:
                self.index("to", "row_at + own_place * stride2_3")
                if not rounded:
                    self.complete = self.add_panels(self.complete, "to")
                self.line(syntax.store(2, kernel.dtype, "to", self.complete))
                if not rounded:
                    inside.enter_context(self.block(f"if (panel + {PANEL} >= size4)"))
            self.write_map()

    def write_map(self) -> None:
        """Write the map at one element of the result."""
        found = self.compute([store.value for store in self.stores])
        for store, value in zip(self.stores, found):
            number = self.kernel.numbers[store.operand]
            dtype = self.operands[number].dtype
            self.line(self.syntax.store(number, dtype, self.place(number), value.text))

    def place(self, number: int) -> str:
        """The address of an operand at the element."""
        return f"offset{number} + to_row * stride{number}_2 + own_place * stride{number}_3"

    def load(self, e: Expr, args: Sequence[str], checks: tuple[str, ...]) -> ExprText:
        """Write the load of an element; that of the result is there."""
        number = self.kernel.numbers[e.data]
        if number == 2:
            return ExprText(self.complete)
        if self.operands[number].mode == "scalar":
            return ExprText(f"scalar{number}")
        return ExprText(self.define(e.dtype, self.syntax.load(number, e.dtype, self.place(number))))
