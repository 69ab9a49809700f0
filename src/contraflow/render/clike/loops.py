"""The bodies of maps, rows and columns: loops over points, passes, and folds within a group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace

from contraflow.compiler.kernel import BLOCK, KernelFold, Loops
from contraflow.expressions import expression as s
from contraflow.render.clike.source import THREADS, GroupArray, Syntax, is_cooperative
from contraflow.render.clike.writer import BoxWriter, ExprText, fold_name, simplified


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
        self.cooperative = is_cooperative(kernel)

    def write_points(self) -> None:
        """Write the loop over the outer axes: everything."""
        kernel = self.kernel
        outer = range(kernel.outer)
        self.index("points", self.extent(outer))
        start, step = "group * threads + thread", "groups * threads"
        elements = self.extent(range(kernel.outer, kernel.outer + kernel.inner))
        if self.cooperative:
            start, step = "group", "groups"
            if kernel.cut is None:
                self.index("elements", elements)
        with self.loop("point", start, "points", step):
            self.split("point", outer)
            if kernel.cut is not None:
                self.find_part(kernel.cut)
                if self.cooperative:
                    self.index("elements", elements)
            for reductions, stores in kernel.passes:
                self.write_pass(reductions, stores)
            last = [store for store in kernel.stores if not store.inner]
            if last:
                reductions, _ = kernel.passes[-1] if kernel.passes else ((0,), ())
                if self.cooperative and not reductions:
                    # The last sweep of other threads may still read what is written here.
                    self.line(self.syntax.barrier)
                alone = self.block("if (thread == 0)") if self.cooperative else nullcontext()
                with alone:
                    self.store(last)

    def write_pass(self, reductions: Sequence[int], stores: Sequence[int]) -> None:
        """Write one sweep of the inner axes, and the end of its reductions."""
        kernel, syntax = self.kernel, self.syntax
        values = [v for r in reductions for v in kernel.reductions[r].values]
        rounds = any(kernel.reductions[r].rounds for r in reductions)
        turns = f"turns{reductions[0]}" if rounds else ""
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
        with ExitStack() as stack:
            self.sweep(stack)
            # Every value is read before anything is written: an operand may be both.
            self.compute([*values, *(kernel.stores[i].value for i in stores)])
            for r in reductions:
                names = [f"{name}_block" if rounds else name for name in fold_names(kernel, r)]
                found = [value.text for value in self.compute(kernel.reductions[r].values)]
                for name, text in zip(names, self.combine(r, names, found)):
                    self.line(f"{name} = {text};")
            self.store([kernel.stores[i] for i in stores])
            if rounds:
                self.line(f"{turns} += 1;")
                with self.block(f"if ({turns} == {BLOCK})"):
                    self.end_block(reductions)
                    self.begin_block(reductions)
                    self.line(f"{turns} = 0;")
        if rounds:
            self.end_block(reductions)
        if self.cooperative and reductions:
            self.fold_threads(reductions)

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

    def sweep(self, stack: ExitStack) -> None:
        """Open the loops over the inner axes: each thread's share, or all of them."""
        inner = range(self.kernel.outer, self.kernel.outer + self.kernel.inner)
        if self.cooperative:
            stack.enter_context(self.loop("element", "thread", "elements", "threads"))
            self.split("element", inner)
            return
        stack.enter_context(self.scope())
        for k in inner:
            first, stop = ("start", "stop") if k == self.kernel.cut else ("0", f"size{k}")
            stack.enter_context(self.loop(f"i{k}", first, stop, "1"))

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
        for r in reductions:
            for lane, name in zip(lanes[r], fold_names(self.kernel, r)):
                self.line(f"{lane}[thread] = {name};")
        self.line(self.syntax.barrier)
        first = self.syntax.variable("reach", self.syntax.index, "threads / 2")
        with self.block(f"for ({first}; reach > 0; reach = reach / 2)"):
            with self.block("if (thread < reach)"):
                for r in reductions:
                    dtypes = [e.dtype for e in self.kernel.reductions[r].combine]
                    pairs = list(zip(lanes[r], dtypes))
                    left = [self.define(dtype, f"{lane}[thread]") for lane, dtype in pairs]
                    right = [self.define(dtype, f"{lane}[thread + reach]") for lane, dtype in pairs]
                    for lane, text in zip(lanes[r], self.combine(r, left, right)):
                        self.line(f"{lane}[thread] = {text};")
            self.line(self.syntax.barrier)
        for r in reductions:
            for lane, name in zip(lanes[r], fold_names(self.kernel, r)):
                self.line(f"{name} = {lane}[0];")
        # The next pass or point writes the lanes again.
        self.line(self.syntax.barrier)

    def lanes(self, reductions: Sequence[int]) -> dict[int, list[str]]:
        """Shared arrays for the components of reductions; passes use the same ones in turn."""
        used: Counter[str] = Counter()
        names: dict[int, list[str]] = {}
        for r in reductions:
            names[r] = []
            for e in self.kernel.reductions[r].combine:
                name = f"lanes_{e.dtype}_{used[e.dtype.name]}"
                used[e.dtype.name] += 1
                names[r].append(name)
                array = GroupArray(name, e.dtype, THREADS)
                if array not in self.shared:
                    self.shared.append(array)
        return names


def fold_names(kernel: Loops, reduction: int) -> list[str]:
    """The variables of a reduction."""
    return [fold_name(reduction, c) for c in range(len(kernel.reductions[reduction].combine))]
