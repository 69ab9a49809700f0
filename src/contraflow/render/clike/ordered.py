"""The bodies of kernels that visit points in order: scans and scatters.

A thread has one outer point, and walks along its inner points alone: states and elements are
folded in the order of the points, so results do not depend on the launch.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from contraflow.compiler.kernel import Scan, Scatter
from contraflow.dtypes import int64
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
        self.cut = kernel.cut
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
            ends = ("0", f"size{kernel.outer}")
            if kernel.cut is not None:
                self.find_part(kernel.cut)
                ends = ("start", "stop")
            with self.loop(f"i{kernel.outer}", *ends, "1"):
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
        """Write the loop over the outer axes, or over all points: everything."""
        kernel = self.kernel
        outer = range(kernel.outer)
        if kernel.order is not None:
            self.write_runs(kernel.order)
            return
        self.index("points", self.extent(outer))
        with self.loop("point", "group * threads + thread", "points", "groups * threads"):
            self.split("point", outer)
            self.hoist((self.at, self.folded))
            with ExitStack() as stack:
                stack.enter_context(self.scope())
                for k in self.inner:
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

    def write_runs(self, order: int) -> None:
        """Write the loop over all points in the order of their targets: the first of those that go
        to one element folds them all."""
        outer, target, syntax = self.kernel.outer, self.kernel.target, self.syntax
        dtype = self.operands[target].dtype
        self.index("rows", self.extent(range(outer)))
        self.index("walked", self.extent(self.inner))
        self.index("points", "rows * walked")
        with self.loop("point", "group * threads + thread", "points", "groups * threads"):
            # Neighbours have neighbouring rows, which may lie side by side, and the same number.
            self.index("row", "point % rows")
            self.index("number", "point / rows")
            self.split("row", range(outer))
            self.find_place("own", order, "number")
            with self.block("if (number > 0)"):
                self.find_place("before", order, "number - 1")
                self.line("if (before == own) { own = -1; }")
            with self.block("if (own >= 0)"):
                element = f"{self.address(target, range(outer))} + own"
                start = syntax.literal(0, dtype)
                if _reads_old(self.combine):
                    start = syntax.load(target, dtype, element)
                self.line(syntax.variable("fold", syntax.type_of(dtype), start) + ";")
                with self.loop("turn", "number", "walked", "1"):
                    self.fold_next(order)
                self.line(syntax.store(target, dtype, element, "fold"))

    def find_place(self, name: str, order: int, number: str) -> None:
        """Write a variable for where a point goes within its row; -1 if an index is wrong."""
        # A place may be far away even where coordinates and strides are small.
        self.line(self.syntax.variable(name, self.syntax.type_of(int64), "-1") + ";")
        with self.elsewhere(self.coordinates(name, order, number)):
            place, valid = self.place()
            text = f"{name} = {place};"
            self.line(f"if ({valid}) {{ {text} }}" if valid else text)

    def fold_next(self, order: int) -> None:
        """Write the fold of one more point, or the end of the loop if it goes somewhere else."""
        with self.elsewhere(self.coordinates("next", order, "turn")):
            place, valid = self.place()
            other = f"{place} != own"
            self.line(f"if ({f'!({valid}) || ' if valid else ''}{other}) {{ break; }}")
            (value,) = self.compute((self.folded,))
            self.values[s.leaf("left", self.folded.dtype, 0)] = ExprText("fold")
            self.values[s.leaf("right", self.folded.dtype, 0)] = value
            (new,) = self.compute((self.combine,))
            self.line(f"fold = {new.text};")

    @property
    def inner(self) -> range:
        """The axes along which points may meet."""
        return range(self.kernel.outer, self.kernel.outer + self.kernel.inner)

    def coordinates(self, name: str, order: int, number: str) -> dict[int, str]:
        """The coordinates of the inner point that has a number in the order of targets."""
        address = f"{self.address(order)} + {number}"
        dtype = self.operands[order].dtype
        self.index(f"{name}_point", self.syntax.load(order, dtype, address))
        position, found = f"{name}_point", {}
        for k in reversed(self.inner):
            found[k] = position if k == self.kernel.outer else f"{position} % size{k}"
            position = f"{position} / size{k}"
        return found

    def place(self) -> tuple[str, str]:
        """Where the current point goes within its row, and the condition that it goes anywhere."""
        (at,) = self.compute((self.at,))
        terms = [at.text, *self.moves(self.kernel.target, self.inner)]
        return self.define(int64, " + ".join(terms)), " && ".join(at.checks)


def _reads_old(combine: Expr) -> bool:
    """Whether what an element becomes depends on what it was."""
    return any(e.fn == "left" for e in s.walk([combine]))
