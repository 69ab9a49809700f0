"""A product and the map over its result behind it as one kernel: biases, activations, residuals,
and optimizers, whose gradient is the product.

The kernel is a contraction with more operands. The map is computed for each element of the result
where its sum is complete; its operands are read and written at strides of the product's axes. The
coordinates that it computes with, of random masks say, are operands without memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from contraflow.compiler.kernel import STRIDED, Contraction, KernelCall, Loops, Operand
from contraflow.dtypes import int64
from contraflow.expressions import expression as s
from contraflow.expressions.expression import Expr
from contraflow.render.clike.loops import prepare
from contraflow.render.clike.source import Syntax
from contraflow.render.clike.wide import PANEL, ProductWriter, Tiling
from contraflow.render.clike.writer import ExprText


@dataclass(eq=False, repr=False)
class FusedProduct(Contraction):
    """A contraction whose operands 0, 1, 2 are followed by those of a map, but for the one that
    reads the result, and by one for each axis of the map whose coordinate it computes with."""

    following: Loops | None = None
    result: int = 0  # the number of the operand of the map that is the product's result
    keeps: bool = True  # the result itself is stored too
    panels: bool = False  # the sum has several, and the result holds that of those before the last

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
    def axes(self) -> dict[int, int]:
        """The number here of the operand that is the coordinate along each axis of the map."""
        read = sorted({e.data for e in s.walk(self.map.roots) if e.fn == "axis"})
        return {axis: 2 + len(self.map.operands) + n for n, axis in enumerate(read)}

    @cached_property
    def operands(self) -> tuple[Operand, ...]:
        """A, B and C, those of the map, and coordinates."""
        own = Contraction(self.dtype, self.accumulate).operands
        others = [o for i, o in enumerate(self.map.operands) if i != self.result]
        others += [Operand(int64, "position")] * len(self.axes)
        strides = (STRIDED,) * 4
        return (*own, *(o if o.mode == "scalar" else o._replace(strides=strides) for o in others))

    @cached_property
    def name(self) -> str:
        """A stable name."""
        flags = (self.keeps, self.panels)
        parts = (self.dtype, self.accumulate, self.map.identity, self.result, *flags)
        return f"product_{hashlib.sha256(' '.join(map(str, parts)).encode()).hexdigest()[:12]}"


def may_follow(product: KernelCall, call: KernelCall, result: int) -> bool:
    """Whether a call of a map visits the elements of a product's result, which its operand number
    `result` reads, and reads and writes other operands at the same point only."""
    kernel = call.kernel
    if not isinstance(kernel, Loops) or kernel.inner or kernel.checks_indices or kernel.gathered:
        return False
    modes = {operand.mode for operand in kernel.operands}
    known = {"in", "out", "inout", "scalar", "position"}
    if kernel.operands[result].mode != "in" or not modes <= known:
        return False
    return _places(_with_batch_of(product, call, result), call, result) is not None


def _with_batch_of(product: KernelCall, call: KernelCall, result: int) -> KernelCall:
    """A product whose batch has two axes where it was one of two axes of a map."""
    g, b, *rest = product.sizes
    far = product.strides[2][1]
    beside = zip(call.sizes, call.strides[result])
    size = next((n for n, stride in beside if stride == far and 1 < n < b), b)
    if g != 1 or b % size:
        return product
    strides = [(size * own[1], *own[1:]) for own in product.strides]
    return KernelCall(product.kernel, (b // size, size, *rest), tuple(strides))


class _AxisStep(NamedTuple):
    """A step along an axis of a product's result as one of a map: so many points along an axis."""

    axis: int
    points: int


def _places(product: KernelCall, call: KernelCall, result: int) -> dict[int, _AxisStep] | None:
    """The places of the axes of a product's result, but for those of one point; None if the points
    of the map are not the elements of the result.

    Axes are compared by how far apart their elements lie in the result, which the map may visit in
    any order, several axes of the product as one.
    """
    own = _by_stride(product.sizes, product.strides[2])
    visited = iter(_by_stride(call.sizes, call.strides[result]))
    found: dict[int, _AxisStep] = {}
    axis = stride = points = 0
    left = 1  # of the points of `axis`, which those of several axes make up
    for far, size, k in own:
        if left == 1:
            stride, left, axis = next(visited, (0, 1, 0))
            points = 1
        if stride * points != far or left % size:
            return None
        found[k] = _AxisStep(axis, points)
        points *= size
        left //= size
    return found if left == 1 and next(visited, None) is None else None


def _by_stride(sizes: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int, int]]:
    """(stride, size, axis) of the axes of several points, neighbours in memory first."""
    axes = zip(strides, sizes, range(len(strides)))
    return sorted((stride, size, k) for stride, size, k in axes if size != 1)


def fused(product: KernelCall, call: KernelCall, result: int, keeps: bool) -> KernelCall:
    """A product and a map that may follow it as one call."""
    own, kernel = product.kernel, call.kernel
    assert isinstance(own, Contraction)
    assert isinstance(kernel, Loops)
    panels = own.dtype is own.accumulate and product.sizes[4] > PANEL
    both = FusedProduct(own.dtype, own.accumulate, None, kernel, result, keeps, panels)
    product = _with_batch_of(product, call, result)
    places = _places(product, call, result)
    assert places is not None
    axes = [places.get(k, _AxisStep(0, 0)) for k in range(4)]

    def over(strides: Sequence[int]) -> tuple[int, ...]:
        """Strides over the points of the map, over the axes of the result."""
        return tuple(points and points * strides[axis] for axis, points in axes)

    operands = enumerate(zip(kernel.operands, call.strides))
    others = [over(t) if o.mode != "scalar" else () for i, (o, t) in operands if i != result]
    others += [over([int(k == axis) for k in range(kernel.outer)]) for axis in both.axes]
    return KernelCall(both, product.sizes, (*product.strides, *others))


class FusedProductWriter(ProductWriter):
    """Writes the body of such a kernel."""

    kernel: FusedProduct

    def __init__(self, kernel: FusedProduct, syntax: Syntax, tiling: Tiling) -> None:
        super().__init__(kernel, syntax, tiling)
        self.stores = prepare(kernel.map, syntax.column).stores
        self.is_last = True  # what is written is about the last panel

    def write_results(self) -> None:
        """Write what becomes of the sums over a panel. Those of the last one pass through shared
        memory, whatever the tile: the map is written in a loop over them, and not for each."""
        if self.kernel.panels:
            self.is_last = False
            with self.block(f"if (panel + {PANEL} < size4)"):
                super().write_results()
            self.is_last = True
        with self.block("else" if self.kernel.panels else ""):
            self.write_sums_of_slices()

    def write_store(self, column: str, vector: str) -> None:
        """Write what becomes of four columns."""
        kernel, syntax = self.kernel, self.syntax
        if not self.is_last:
            super().write_store(column, vector)
            return
        with self.loop("part", "0", "4", "1"):
            self.index("own_place", f"{column} + part")
            with self.block("if (own_place < size3)"):
                self.index("to", "row_at + own_place * stride2_3")
                complete = self.define(kernel.accumulate, f"{vector}[part]")
                if kernel.panels:
                    complete = self.add_panels(complete, "to")
                elif kernel.dtype is not kernel.accumulate:
                    value = syntax.convert(complete, kernel.accumulate, kernel.dtype)
                    complete = self.define(kernel.dtype, value)
                if kernel.keeps:
                    self.line(syntax.store(2, kernel.dtype, "to", complete))
                self.complete = complete
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
        at = zip(("batch0", "batch1", "to_row", "own_place"), range(4))
        return " + ".join([f"offset{number}", *(f"{i} * stride{number}_{k}" for i, k in at)])

    def value(self, e: Expr) -> ExprText:
        """Write an expression; a coordinate of the map is that of an operand."""
        if e.fn == "axis":
            return ExprText(self.define(e.dtype, self.place(self.kernel.axes[e.data])))
        return super().value(e)

    def load(self, e: Expr, args: Sequence[str], checks: tuple[str, ...]) -> ExprText:
        """Write the load of an element; that of the result is there."""
        number = self.kernel.numbers[e.data]
        mode = self.operands[number].mode
        if number == 2:
            return ExprText(self.complete)
        if mode == "scalar":
            return ExprText(f"scalar{number}")
        return ExprText(self.element(number, self.place(number), (), mode != "position"))
