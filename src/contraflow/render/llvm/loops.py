"""Maps, row and column kernels as LLVM IR.

Reductions with small bodies fold several vectors at once, to hide the latency of the addition.
Sums are those of blocks: every loop over an inner axis starts at zero, and so does each of its
blocks of turns, whose result is added to that of the loop.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from contraflow.compiler.kernel import BLOCK, KernelFold, Loops, Store
from contraflow.expressions import expression as s
from contraflow.expressions.expression import Expr
from contraflow.render.llvm.box import (
    NO_LANE,
    SMALL_BODY,
    UNROLL,
    BoxRenderer,
    Scope,
    Turn,
    Visitor,
    lowered,
)
from contraflow.render.llvm.text import CodeStretch, register, wide


class LoopsRenderer(BoxRenderer):
    """Writes the passes over the inner axes at each outer point."""

    kernel: Loops

    def __init__(self, kernel: Loops, name: str, vector_bytes: int) -> None:
        self.reductions = [
            KernelFold(*(lowered(kernel, e) for e in (r.values, r.combine, r.identity)))
            for r in kernel.reductions
        ]
        self.stores = [
            Store(st.operand, lowered(kernel, [st.value])[0], st.inner) for st in kernel.stores
        ]
        passes = enumerate(kernel.passes)
        self.finished = {r: p + 1 for p, (reductions, _) in passes for r in reductions}
        roots = [v for r in self.reductions for v in (*r.values, *r.identity)]
        if kernel.cut is not None:
            roots.append(s.axis(kernel.outer - 1))
        self.folding: tuple[int, ...] = ()  # the reductions of the pass being written
        self.neutral: list[tuple[str, str]] = []  # what they start with, if they round
        super().__init__(kernel, [*roots, *(st.value for st in self.stores)], name, vector_bytes)
        self.lane_is_inner = self.lane >= kernel.outer
        self.lane_is_outer = 0 <= self.lane < kernel.outer
        inner = frozenset(range(kernel.outer, self.axis_count))
        body = sum(not inner.isdisjoint(axes) for axes in self.axes_of.values())
        if self.lane != NO_LANE and kernel.reductions and body <= SMALL_BODY:
            self.unroll = UNROLL

    def _carried(self, e: Expr) -> tuple[frozenset[int], int]:
        return frozenset(range(self.kernel.outer)), self.finished[e.data[0]]

    def _body(self) -> None:
        def visit(scope: Scope, carried: list[str]) -> list[str]:
            self._row(scope)
            return carried

        outer = range(self.kernel.outer)
        if outer:
            self._sweep(outer, self.top, (), visit)
        else:  # one point: the thread of part 0 does it, the others find an empty range
            with self.function.loop("%first", "1", 1):
                visit(Scope(self.function.code(), self.top, frozenset(), 0), [])

    def _row(self, scope: Scope) -> None:
        """The passes over the inner axes at one outer point (or vector of points)."""
        inner = range(self.kernel.outer, self.axis_count)
        if self.kernel.cut is not None:
            self.bounds[self.kernel.cut] = self._part(scope, self.kernel.cut)
        for reductions, stores in self.kernel.passes:
            carried = self._identities(scope, reductions)
            self.folding = reductions
            rounds = any(self.kernel.reductions[r].rounds for r in reductions)
            self.neutral = carried if rounds else []
            visit = functools.partial(self._visit, reductions, stores)
            finals = self._sweep(inner, scope, carried, visit)
            self.neutral = []
            scope = Scope(
                self.function.code(), scope, scope.axes, scope.level + 1,
                points=scope.points, mask=scope.mask,
            )  # fmt: skip
            self._finish(scope, reductions, finals)
        self._store(scope, [st for st in self.stores if not st.inner])

    def _visit(
        self, reductions: Sequence[int], stores: Sequence[int], scope: Scope, sums: list[str]
    ) -> list[str]:
        """The work of one pass at one inner point (or vectors of points)."""
        result = self._fold(scope, reductions, sums)
        self._store(scope, [self.stores[i] for i in stores])
        return result

    def _part(self, scope: Scope, axis: int) -> tuple[str, str]:
        """The range of a cut axis in the part that an outer point stands for."""
        code, size, parts = scope.code, self.sizes[axis], self.sizes[self.kernel.outer - 1]
        number = self._value(s.axis(self.kernel.outer - 1), scope, 0, 1)
        block = code.integer("mul", parts, str(BLOCK))
        padded = code.integer("add", size, code.integer("sub", block, "1"))
        blocks = code.let(f"sdiv i64 {padded}, {block}")
        length = code.integer("mul", blocks, str(BLOCK))
        start = code.integer("mul", number, length)
        start = code.let(f"call i64 @llvm.smin.i64(i64 {start}, i64 {size})", "start")
        stop = code.integer("add", start, length)
        return start, code.let(f"call i64 @llvm.smin.i64(i64 {stop}, i64 {size})", "stop")

    # --- reductions ----------------------------------------------------------------------------

    def _sweep_rest(
        self, axes: Sequence[int], scope: Scope, carried: Sequence[tuple[str, str]], visit: Visitor
    ) -> list[str]:
        if not (self.neutral and axes):
            return super()._sweep_rest(axes, scope, carried, visit)
        found = self._sweep(axes, scope, self.neutral, visit)
        return self._add(self.function.code(), [value for _, value in carried], found)

    def _long_loop(
        self, start: str, stop: str, step: int, carried: Sequence[tuple[str, str]], turn: Turn
    ) -> list[str]:
        if not self.neutral:
            return self._loop(start, stop, step, carried, turn)
        with self.function.loop(start, stop, BLOCK * step, carried) as blocks:
            code = self.function.code()
            end = code.integer("add", blocks.index, str(BLOCK * step))
            end = code.let(f"call i64 @llvm.smin.i64(i64 {end}, i64 {stop})")
            found = self._loop(blocks.index, end, step, self.neutral, turn)
            blocks.following = self._add(self.function.code(), blocks.carried, found)
        return blocks.carried

    def _add(self, code: CodeStretch, totals: Sequence[str], found: Sequence[str]) -> list[str]:
        """Fold the results of a block into those of what it is part of."""
        result: list[str] = []
        while len(result) < len(totals):
            for r in self.folding:
                reduction = self.reductions[r]
                part = slice(len(result), len(result) + len(reduction.values))
                result += self._combine(
                    code, reduction.combine, totals[part], found[part], self.width
                )
        return result

    def _identities(self, scope: Scope, reductions: Sequence[int]) -> list[tuple[str, str]]:
        copies = self.unroll if self.lane_is_inner else max(1, len(scope.points))
        return [
            (register(e.dtype, self.width), self._value(e, scope, 0, self.width))
            for _ in range(copies)
            for r in reductions
            for e in self.reductions[r].identity
        ]

    def _fold(self, scope: Scope, reductions: Sequence[int], accumulators: list[str]) -> list[str]:
        result: list[str] = []
        for point in range(max(1, len(scope.points))):
            for r in reductions:
                values, combine = self.reductions[r].values, self.reductions[r].combine
                right = [self._value(e, scope, point, self.width) for e in values]
                left = accumulators[len(result) : len(result) + len(right)]
                combined = self._combine(scope.code, combine, left, right, self.width)
                if scope.mask and self.lane_is_inner:
                    mask = f"{wide('i1', self.width)} {scope.mask}"
                    kinds = [register(e.dtype, self.width) for e in values]
                    combined = [
                        scope.code.let(f"select {mask}, {kind} {new}, {kind} {old}")
                        for kind, new, old in zip(kinds, combined, left)
                    ]
                result += combined
        return result + accumulators[len(result) :]

    def _finish(self, scope: Scope, reductions: Sequence[int], finals: list[str]) -> None:
        """Make the accumulators of a pass the values of its `reduced` leaves."""
        per_copy = sum(len(self.reductions[r].values) for r in reductions)
        copies = [finals[i : i + per_copy] for i in range(0, len(finals), per_copy or 1)]
        position = 0
        for r in reductions:
            values = self.reductions[r].values
            parts = [copy[position : position + len(values)] for copy in copies]
            position += len(values)
            if self.lane_is_inner:
                parts = [self._fold_lanes(scope.code, r, parts)]
            for point, part in enumerate(parts):
                for component, (e, name) in enumerate(zip(values, part)):
                    leaf = s.leaf("reduced", e.dtype, (r, component))
                    scope.values[leaf, point if self.lane_is_outer else 0] = name

    def _fold_lanes(self, code: CodeStretch, r: int, parts: list[list[str]]) -> list[str]:
        """Combine vectors pairwise, then the halves of the last one until one lane is left."""
        combine = self.reductions[r].combine
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2])
            parts = [self._combine(code, combine, a, b, self.width) for a, b in pairs]
        (part,) = parts
        width = self.width
        while width > 1:
            low, high = (self._half(code, r, part, width, side) for side in range(2))
            width //= 2
            part = self._combine(code, combine, low, high, width)
        return part

    def _half(self, code: CodeStretch, r: int, part: list[str], width: int, side: int) -> list[str]:
        half = width // 2
        picks = ", ".join(f"i32 {lane}" for lane in range(side * half, (side + 1) * half))
        result = []
        for name, e in zip(part, self.reductions[r].values):
            kind = register(e.dtype, width)
            if half == 1:
                result.append(code.let(f"extractelement {kind} {name}, i64 {side}"))
            else:
                lanes = f"<{half} x i32> <{picks}>"
                result.append(code.let(f"shufflevector {kind} {name}, {kind} poison, {lanes}"))
        return result
