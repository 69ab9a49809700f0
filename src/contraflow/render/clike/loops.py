"""The bodies of maps, rows and columns: loops over points, passes, and folds within a group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace

from contraflow.compiler.kernel import BLOCK, KernelFold, Loops, Store
from contraflow.dtypes import bool_, uint32
from contraflow.expressions import expression as s
from contraflow.render.clike.source import THREADS, GroupArray, Syntax, is_cooperative
from contraflow.render.clike.writer import BoxWriter, ExprText, fold_name, simplified

_JOINED = 4  # results that one thread folds between two barriers


def prepare(kernel: Loops, column: str) -> Loops:
    """The kernel in rows that the backend has."""
    groups = [g for r in kernel.reductions for g in (r.values, r.combine, r.identity)]
    roots = [e for g in groups for e in g] + [store.value for store in kernel.stores]
    rest = iter(simplified(roots, column))
    reductions = tuple(
        KernelFold(*(tuple(next(rest) for _ in group) for group in r)) for r in kernel.reductions
    )
    stores = tuple(store._replace(value=next(rest)) for store in kernel.stores)
    return replace(kernel, reductions=reductions, stores=stores)


class LoopsWriter(BoxWriter):
    """Writes the body of a map, row or column kernel."""

    def __init__(self, kernel: Loops, syntax: Syntax) -> None:
        super().__init__(kernel, syntax)
        self.kernel, self.cut = kernel, kernel.cut
        # Points that the threads of a group share: one, or those of a tile of columns or rows.
        self.width = syntax.tile if kernel.inner else 0
        if is_cooperative(kernel):
            self.width = syntax.tile or 1
        self.blocked: frozenset[int] = frozenset()  # reductions that are folded in blocks

    def write_points(self) -> None:
        """Write the loop over the outer axes: everything."""
        kernel = self.kernel
        outer = range(kernel.outer)
        self.index("points", self.extent(outer))
        start, step = "group * threads + thread", "groups * threads"
        elements = self.extent(range(kernel.outer, kernel.outer + kernel.inner))
        position = "point"
        if self.width == 1:
            start, step = "group", "groups"
        elif self.width:
            start, step, position = f"group * {self.width}", f"groups * {self.width}", "own"
            self.index("column", f"thread % {self.width}")
        if self.width and kernel.cut is None:
            self.index("elements", elements)
        with self.loop("point", start, "points", step):
            if self.width > 1:  # threads beyond the last column do the work of the last again
                self.line(self.syntax.constant("within", "bool", "point + column < points") + ";")
                self.index("own", "min(point + column, points - 1)")
                self.conditions = ("within",)
            self.split(position, outer)
            if kernel.cut is not None:
                self.find_part(kernel.cut)
                if self.width:
                    self.index("elements", elements)
            for reductions, stores in kernel.passes:
                self.write_pass(reductions, stores)
            last = [store for store in kernel.stores if not store.inner]
            if last:
                reductions, _ = kernel.passes[-1] if kernel.passes else ((0,), ())
                if self.width and not reductions:
                    # The last sweep of other threads may still read what is written here.
                    self.line(self.syntax.barrier)
                first = f"if (thread < {self.width})" if self.width > 1 else "if (thread == 0)"
                with self.block(first) if self.width else nullcontext():
                    self.store(last)

    def write_pass(self, reductions: Sequence[int], stores: Sequence[int]) -> None:
        """Write one sweep of the inner axes, and the end of its reductions."""
        kernel, syntax = self.kernel, self.syntax
        values = [v for r in reductions for v in kernel.reductions[r].values]
        # Of few turns there is no second block to begin.
        rounds = any(kernel.reductions[r].rounds for r in reductions) and not syntax.turns
        turns = f"turns{reductions[0]}" if rounds else ""
        self.blocked = frozenset(reductions) if rounds else frozenset()
        self.hoist([*values, *(kernel.stores[i].value for i in stores)])
        for r in reductions:
            identity = kernel.reductions[r].identity
            for component, start in enumerate(self.compute(identity)):
                type_name = syntax.type_of(identity[component].dtype)
                name = fold_name(r, component)
                self.line(syntax.variable(name, type_name, start.text) + ";")
                if rounds:
                    self.line(syntax.variable(f"{name}_block", type_name, start.text) + ";")
        if rounds:
            self.line(syntax.variable(turns, syntax.index, "0") + ";")
        self.write_sweep(reductions, [kernel.stores[i] for i in stores], turns)
        if rounds:
            self.end_block(reductions)
        if self.width and reductions:
            (self.fold_warps if self.syntax.shuffle else self.fold_threads)(reductions)

    def end_block(self, reductions: Sequence[int]) -> None:
        """Fold the result of a block into that of all blocks."""
        for r in reductions:
            names = fold_names(self.kernel, r)
            blocks = [f"{name}_block" for name in names]
            for name, text in zip(names, self.combine(r, names, blocks)):
                self.line(f"{name} = {text};")

    def begin_block(self, reductions: Sequence[int]) -> None:
        """Start anew."""
        for r in reductions:
            starts = self.compute(self.kernel.reductions[r].identity)
            for name, start in zip(fold_names(self.kernel, r), starts):
                self.line(f"{name}_block = {start.text};")

    def write_sweep(self, reductions: Sequence[int], stores: Sequence[Store], turns: str) -> None:
        """Write the sweep of one pass: each thread's share of the inner axes, or all of them."""
        inner = range(self.kernel.outer, self.kernel.outer + self.kernel.inner)
        with ExitStack() as stack:
            if self.width:
                start, step = self.shares()
                if self.syntax.turns:  # a known number, so that values stay in registers
                    self.line(self.syntax.unrolled)
                    stack.enter_context(self.loop("turn", "0", str(self.syntax.turns), "1"))
                    self.index("element", f"{start} + turn * {step}")
                else:
                    stack.enter_context(self.loop("element", start, "elements", step))
                self.split("element", inner)
            else:
                stack.enter_context(self.scope())
                for k in inner:
                    first, stop = ("start", "stop") if k == self.kernel.cut else ("0", f"size{k}")
                    stack.enter_context(self.loop(f"i{k}", first, stop, "1"))
            self.visit(reductions, stores)
            self.end_turn(reductions, turns, 1)

    def shares(self) -> tuple[str, str]:
        """The first inner point of a thread, and how far the next one is away."""
        if self.width == 1:
            return "thread", "threads"
        return f"thread / {self.width}", f"threads / {self.width}"

    def visit(self, reductions: Sequence[int], stores: Sequence[Store]) -> None:
        """Write what happens at one inner point."""
        # Every value is read before anything is written: an operand may be both.
        values = [v for r in reductions for v in self.kernel.reductions[r].values]
        self.compute([*values, *(store.value for store in stores)])
        for r in reductions:
            found = self.compute(self.kernel.reductions[r].values)
            self.fold(r, [value.text for value in found])
        self.store(stores)

    def fold(self, number: int, found: Sequence[str]) -> None:
        """Write the fold of values into the result of a reduction, or that of its block."""
        names = fold_names(self.kernel, number)
        if number in self.blocked:
            names = [f"{name}_block" for name in names]
        for name, text in zip(names, self.combine(number, names, found)):
            self.line(f"{name} = {text};")

    def end_turn(self, reductions: Sequence[int], turns: str, points: int) -> None:
        """Count the points of a block, and end it when it has all that it may have."""
        if not turns:
            return
        self.line(f"{turns} += {points};")
        with self.block(f"if ({turns} == {BLOCK})" if points == 1 else f"if ({turns} >= {BLOCK})"):
            self.end_block(reductions)
            self.begin_block(reductions)
            self.line(f"{turns} = 0;")

    def combine(self, number: int, left: Sequence[str], right: Sequence[str]) -> list[str]:
        """Write a reduction's combiner for two sides, and give the text of each component."""
        combine = self.kernel.reductions[number].combine
        with self.scope():
            for component, (a, b) in enumerate(zip(left, right, strict=True)):
                dtype = combine[component].dtype
                self.values[s.leaf("left", dtype, component)] = ExprText(a)
                self.values[s.leaf("right", dtype, component)] = ExprText(b)
            return [value.text for value in self.compute(combine)]

    def fold_threads(self, reductions: Sequence[int]) -> None:
        """Write the tree that folds the threads' results: always in the same order."""
        lanes = self.lanes(reductions)
        dtypes = {r: [e.dtype for e in self.kernel.reductions[r].combine] for r in reductions}

        def keep(r: int, texts: Sequence[str]) -> None:
            for lane, text, dtype in zip(lanes[r], texts, dtypes[r]):
                kept = self.syntax.convert(text, dtype, uint32) if dtype is bool_ else text
                self.line(f"{lane}[thread] = {kept};")

        def kept(r: int, at: str) -> list[str]:
            texts = [f"{lane}[{at}]" for lane in lanes[r]]
            return [
                self.syntax.convert(text, uint32, bool_) if dtype is bool_ else text
                for text, dtype in zip(texts, dtypes[r])
            ]

        for r in reductions:
            keep(r, fold_names(self.kernel, r))
        self.line(self.syntax.barrier)
        left = THREADS // self.width  # results of each point
        while left > 1:
            share = min(left, _JOINED)
            left //= share
            reach = left * self.width
            with self.block(f"if (thread < {reach})"):
                for r in reductions:
                    found = list(map(self.define, dtypes[r], kept(r, "thread")))
                    for other in range(1, share):
                        there = kept(r, f"thread + {other * reach}")
                        right = list(map(self.define, dtypes[r], there))
                        found = self.combine(r, found, right)
                    keep(r, found)
            self.line(self.syntax.barrier)
        column = "column" if self.width > 1 else "0"
        for r in reductions:
            for name, text in zip(fold_names(self.kernel, r), kept(r, column)):
                self.line(f"{name} = {text};")
        # The next pass or point writes the lanes again.
        self.line(self.syntax.barrier)

    def fold_warps(self, reductions: Sequence[int]) -> None:
        """Write the fold of the threads' results, first within warps: always in the same order."""
        lanes, width = self.lanes(reductions), self.width
        reach = self.syntax.variable("reach", self.syntax.index, "16")
        with self.block(f"for ({reach}; reach >= {width}; reach = reach / 2)"):
            self.fold_with(reductions, lambda name, lane: self.syntax.shuffle.format(name, "reach"))
        with self.block("if (threads > 32)"):
            with self.block(f"if (thread % 32 < {width})"):
                for r in reductions:
                    for lane, name in zip(lanes[r], fold_names(self.kernel, r)):
                        self.line(f"{lane}[thread / 32 * {width} + thread % 32] = {name};")
            self.line(self.syntax.barrier)
            column = "column" if width > 1 else "0"
            for r in reductions:
                for lane, name in zip(lanes[r], fold_names(self.kernel, r)):
                    self.line(f"{name} = {lane}[{column}];")
            with self.loop("warp", "1", "threads / 32", "1"):
                at = f"warp * {width} + {column}" if width > 1 else "warp"
                self.fold_with(reductions, lambda name, lane: f"{lane}[{at}]")
            # The next pass or point writes the lanes again.
            self.line(self.syntax.barrier)

    def fold_with(self, reductions: Sequence[int], other: Callable[[str, str], str]) -> None:
        """Write the fold of each thread's results with those of another thread."""
        lanes = self.lanes(reductions)
        for r in reductions:
            names = fold_names(self.kernel, r)
            dtypes = [e.dtype for e in self.kernel.reductions[r].combine]
            right = [
                self.define(dtype, other(name, lane))
                for name, lane, dtype in zip(names, lanes[r], dtypes)
            ]
            for name, text in zip(names, self.combine(r, names, right)):
                self.line(f"{name} = {text};")

    def lanes(self, reductions: Sequence[int]) -> dict[int, list[str]]:
        """Shared arrays for the components of reductions; passes use the same ones in turn.

        Without shuffles bools are shared as uint32: WGSL does not say what a bool is in memory, and
        through one driver of Vulkan (NVIDIA's, 580) `all` was always False.
        """
        used: Counter[str] = Counter()
        names: dict[int, list[str]] = {}
        for r in reductions:
            names[r] = []
            for e in self.kernel.reductions[r].combine:
                name = f"lanes_{e.dtype}_{used[e.dtype.name]}"
                used[e.dtype.name] += 1
                names[r].append(name)
                dtype = uint32 if e.dtype is bool_ and not self.syntax.shuffle else e.dtype
                array = GroupArray(name, dtype, THREADS)
                if array not in self.shared:
                    self.shared.append(array)
        return names


def fold_names(kernel: Loops, reduction: int) -> list[str]:
    """The variables of a reduction."""
    return [fold_name(reduction, c) for c in range(len(kernel.reductions[reduction].combine))]
