"""The bodies of kernels that visit points in order: scans and scatters.

A thread has one outer point, and walks along its inner points alone: states and elements are
folded in the order of the points, so results do not depend on the launch.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from contraflow.compiler.kernel import Scan, Scatter
from contraflow.expressions import expression as s
from contraflow.expressions.expression import Expr
from contraflow.render.clike.source import Syntax
from contraflow.render.clike.writer import BoxWriter, ExprText, fold_name, simplified


class ScanWriter(BoxWriter):
    """Writes the body of a scan."""

    carried = frozenset(("left", "reduced"))

    def __init__(self, kernel: Scan, syntax: Syntax) -> None:
        first, step = len(kernel.start), len(kernel.start) + len(kernel.step)
        roots = simplified(list(kernel.roots), syntax.column)
        stores = [st._replace(value=e) for st, e in zip(kernel.stores, roots[step:])]
        self.kernel = replace(
            kernel, start=tuple(roots[:first]), step=tuple(roots[first:step]), stores=tuple(stores)
        )
        super().__init__(self.kernel, syntax)
        self.states = [fold_name(0, component) for component in range(first)]

    def write_points(self) -> None:
        """Write the loop over the outer axes: everything."""
        kernel, syntax = self.kernel, self.syntax
        outer = range(kernel.outer)
        self.index("points", self.extent(outer))
        with self.loop("point", "group * threads + thread", "points", "groups * threads"):
            self.split("point", outer)
            self.hoist([*kernel.step, *(store.value for store in kernel.stores)])
            for name, e, start in zip(self.states, kernel.start, self.compute(kernel.start)):
                self.line(syntax.variable(name, syntax.type_of(e.dtype), start.text) + ";")
            with self.loop(f"i{kernel.outer}", "0", f"size{kernel.outer}", "1"):
                self.write_step()

    def write_step(self) -> None:
        """Write the next state, and the stores of it."""
        step = self.kernel.step
        for component, (e, name) in enumerate(zip(step, self.states)):
            self.values[s.leaf("left", e.dtype, component)] = ExprText(name)
        found = [value.text for value in self.compute(step)]
        # A component that becomes another one must be read before that changes.
        found = [
            self.define(e.dtype, text) if text in self.states else text
            for e, text in zip(step, found)
        ]
        for name, text in zip(self.states, found):
            self.line(f"{name} = {text};")
        self.store(self.kernel.stores)


class ScatterWriter(BoxWriter):
    """Writes the body of a scatter."""

    def __init__(self, kernel: Scatter, syntax: Syntax) -> None:
        self.at, self.folded, self.combine = simplified(
            [kernel.at, kernel.value, kernel.combine], syntax.column
        )
        super().__init__(kernel, syntax)
        self.kernel = kernel

    def write_points(self) -> None:
        """Write the loop over the outer axes: everything."""
        kernel = self.kernel
        outer = range(kernel.outer)
        self.index("points", self.extent(outer))
        with self.loop("point", "group * threads + thread", "points", "groups * threads"):
            self.split("point", outer)
            self.hoist((self.at, self.folded))
            with ExitStack() as stack:
                stack.enter_context(self.scope())
                for k in range(kernel.outer, kernel.outer + kernel.inner):
                    stack.enter_context(self.loop(f"i{k}", "0", f"size{k}", "1"))
                self.write_fold()

    def write_fold(self) -> None:
        """Write the fold of one value into the element that it goes to."""
        target, dtype = self.kernel.target, self.folded.dtype
        at, value = self.compute((self.at, self.folded))
        checks = tuple(dict.fromkeys((*at.checks, *value.checks)))
        address = f"{self.address(target)} + {at.text}"
        if _reads_old(self.combine):
            old = ExprText(self.element(target, address, checks))
            self.values[s.leaf("left", dtype, 0)] = old
        self.values[s.leaf("right", dtype, 0)] = value
        (new,) = self.compute((self.combine,))
        text = self.syntax.store(target, self.operands[target].dtype, address, new.text)
        self.line(f"if ({' && '.join(checks)}) {{ {text} }}" if checks else text)


def _reads_old(combine: Expr) -> bool:
    """Whether what an element becomes depends on what it was."""
    return any(e.fn == "left" for e in s.walk([combine]))
