"""Scatters as LLVM IR: values folded into elements that loaded indices choose.

Where the index is the same along all outer axes, whole rows are folded into rows: the inner axes
are walked outside, an index is looked up once per row, and a row whose index is wrong is left out.
Outer axes are cut into parts, so that every element is folded in the order of the points by one
thread; a scatter without outer axes is done in one part, since dealing out its points by where
they go costs more, in branches that nobody can predict, than folding them.
"""

from __future__ import annotations

from contraflow.compiler.kernel import Scatter
from contraflow.dtypes import bool_
from contraflow.expressions import expression as s
from contraflow.render.llvm.box import BoxRenderer, Scope, lowered
from contraflow.render.llvm.lowering import lower
from contraflow.render.llvm.text import memory


class ScatterRenderer(BoxRenderer):
    """Writes the walk over the points."""

    kernel: Scatter
    grain = 4  # with less, threads would write to one cache line again and again

    def __init__(self, kernel: Scatter, name: str, vector_bytes: int) -> None:
        self.at, self.value = lowered(kernel, kernel.roots)
        (self.combine,) = lower([kernel.combine])
        super().__init__(kernel, (self.at, self.value), name, vector_bytes)
        self.outer = range(kernel.outer)
        self.walked = range(kernel.outer, self.axis_count)
        self.by_rows = bool(self.outer) and self.axes_of[self.at].isdisjoint(self.outer)
        self.place = s.leaf("load", self.value.dtype, kernel.target, self.at)

    def _body(self) -> None:
        if self.by_rows:
            self._sweep(self.walked, self.top, (), self._row)
        elif self.outer:
            self._sweep([*self.outer, *self.walked], self.top, (), self._fold)
        else:  # the thread of part 0 does it, the others find an empty range
            with self.function.loop("%first", "1", 1):
                once = Scope(self.function.code(), self.top, frozenset(), 0)
                self._sweep(self.walked, once, (), self._fold)

    def _row(self, scope: Scope, carried: list[str]) -> list[str]:
        """Fold one row, if its index is in range."""
        self._value(self.at, scope, 0, 1)
        inside = self._validity(self.place, scope, 0, 1)
        axis = next((axis for axis in self.outer if axis != self.lane), self.lane)
        start, stop = whole = self.bounds[axis]
        if inside:
            stop = scope.code.let(f"select i1 {inside}, i64 {stop}, i64 {start}")
        self.bounds[axis] = start, stop
        self._sweep(self.outer, scope, (), self._fold)
        self.bounds[axis] = whole
        return carried

    def _fold(self, scope: Scope, carried: list[str]) -> list[str]:
        """Fold the values at one point, or vector of points."""
        width = self.width if self.lane in scope.axes else 1
        target, code = self.kernel.target, scope.code
        self._value(self.at, scope, 0, width if self._varies(self.at) else 1)
        value = self._value(self.value, scope, 0, width)
        valid = scope.mask if self.by_rows else self._validity(self.place, scope, 0, width)
        old = ""
        if any(e.fn == "left" for e in s.walk([self.combine])):
            old = self._fetch(target, (self.at,), scope, 0, width, valid)
            if self.value.dtype is bool_:
                old = code.let(f"icmp ne {memory(bool_, width)} {old}, zeroinitializer")
        (new,) = self._combine(code, (self.combine,), (old,), (value,), width)
        self._put(target, (self.at,), scope, 0, new, width, valid)
        return carried
