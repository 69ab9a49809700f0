"""Scans as LLVM IR: a state carried along the inner axis, and stored at every point of it.

Vectors run across the scans, along an outer axis, so that each is folded in its own order. Where a
step is short, several vectors take it together, so that cache lines are used whole; or several
single elements, where they do not lie side by side: to gather them would take longer than the step.
"""

from __future__ import annotations

from contraflow.compiler.kernel import STRIDED, Scan, Store
from contraflow.expressions import expression as s
from contraflow.expressions.expression import Expr
from contraflow.render.llvm.box import (
    NO_LANE,
    SMALL_BODY,
    UNROLL,
    BoxRenderer,
    Scope,
    lowered,
)
from contraflow.render.llvm.text import register


class ScanRenderer(BoxRenderer):
    """Writes the walk along the inner axis at each outer point."""

    kernel: Scan

    def __init__(self, kernel: Scan, name: str, vector_bytes: int) -> None:
        self.start, self.step = lowered(kernel, kernel.start), lowered(kernel, kernel.step)
        values = lowered(kernel, [store.value for store in kernel.stores])
        self.stores = [Store(st.operand, e, True) for st, e in zip(kernel.stores, values)]
        super().__init__(kernel, (*self.start, *self.step, *values), name, vector_bytes)
        if self.lane != NO_LANE and self.size <= SMALL_BODY:
            self.unroll = UNROLL
            apart = (o.strides[self.lane] == STRIDED for o in kernel.operands if o.strides)
            if any(apart):
                self.width = 1

    def _carried(self, e: Expr) -> tuple[frozenset[int], int]:
        return frozenset(range(self.axis_count)), 0

    def _body(self) -> None:
        outer = range(self.kernel.outer)
        if outer:
            self._sweep(outer, self.top, (), self._scan)
        else:  # the thread of part 0 does it, the others find an empty range
            with self.function.loop("%first", "1", 1):
                self._scan(Scope(self.function.code(), self.top, frozenset(), 0), [])

    def _scan(self, scope: Scope, carried: list[str]) -> list[str]:
        """The scan at one outer point, or vectors of points."""
        start = [
            (register(e.dtype, self.width), self._value(e, scope, 0, self.width))
            for e in self.start
        ]
        vectors = max(1, len(scope.points))
        self._sweep((self.kernel.outer,), scope, start * vectors, self._step)
        return carried

    def _step(self, scope: Scope, states: list[str]) -> list[str]:
        """The next states, stored."""
        following: list[str] = []
        for point in range(max(1, len(scope.points))):
            first = len(following)
            for i, (e, name) in enumerate(zip(self.step, states[first:])):
                scope.values[s.leaf("left", e.dtype, i), point] = name
            following += (self._value(e, scope, point, self.width) for e in self.step)
            for i, (e, name) in enumerate(zip(self.step, following[first:])):
                scope.values[s.leaf("reduced", e.dtype, (0, i)), point] = name
        self._store(scope, self.stores)
        return following
