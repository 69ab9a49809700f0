"""The bodies of sorts and merges.

A group sorts a row, or a part of one, in memory that its threads share, by a bitonic network over
pairs of key and position: no two pairs are equal, so the order is that of a stable sort. In a merge
a thread has one point, and finds its place by a binary search in the other run of the pair.
"""

from __future__ import annotations

from contraflow.compiler.kernel import Merge, Sort
from contraflow.dtypes import bool_, int32
from contraflow.render.clike.source import SORTED, GroupArray, Syntax
from contraflow.render.clike.writer import BoxWriter, simplified


class SortWriter(BoxWriter):
    """Writes the body of a sort."""

    def __init__(self, kernel: Sort, syntax: Syntax) -> None:
        assert kernel.scratch is None, "a group sorts in memory that its threads share"
        self.key, self.wanted = simplified([kernel.key, kernel.wanted], syntax.column)
        super().__init__(kernel, syntax)
        self.kernel, self.cut = kernel, kernel.cut
        self.shared = [
            GroupArray("keys", self.key.dtype, SORTED),
            GroupArray("positions", int32, SORTED),
        ]

    def write_points(self) -> None:
        """Write the loop over the outer axes: everything."""
        axis = self.kernel.outer
        self.index("points", self.extent(range(axis)))
        with self.loop("point", "group", "points", "groups"):
            self.split("point", range(axis))
            if self.cut is not None:
                self.find_part(self.cut)
            self.index("count", self.size(axis))
            self.line(self.syntax.variable("width", self.syntax.index, "1") + ";")
            with self.block("while (width < count)"):
                self.line("width = width * 2;")
            self.write_loads()
            self.line(self.syntax.barrier)
            self.write_network()
            with self.loop("element", "thread", "count", "threads"):
                self.index(f"i{axis}", self.place("element"))
                self.write_stores()
            # The next row is loaded into the same memory.
            self.line(self.syntax.barrier)

    def place(self, element: str) -> str:
        """The coordinate of an element of the row, or of the part of it."""
        return element if self.cut is None else f"start + {element}"

    def write_loads(self) -> None:
        """Write the copy of keys to shared memory, filled up with pairs that come last."""
        syntax, dtype = self.syntax, self.key.dtype
        most = (1 << (8 * dtype.itemsize - 1)) - 1
        with self.loop("element", "thread", "width", "threads"):
            largest = syntax.literal(most, dtype)
            self.line(syntax.variable("key", syntax.type_of(dtype), largest) + ";")
            with self.block("if (element < count)"):
                self.index(f"i{self.kernel.outer}", self.place("element"))
                (value,) = self.compute((self.key,))
                self.line(f"key = {value.text};")
            self.line("keys[element] = key;")
            self.line("positions[element] = element;")

    def write_network(self) -> None:
        """Write the bitonic network: runs twice as long at every turn, of pairs ever nearer."""
        syntax = self.syntax
        first = syntax.variable("run", syntax.index, "2")
        nearer = syntax.variable("reach", syntax.index, "run / 2")
        with (
            self.block(f"for ({first}; run <= width; run = run * 2)"),
            self.block(f"for ({nearer}; reach > 0; reach = reach / 2)"),
        ):
            with self.loop("pair", "thread", "width / 2", "threads"):
                self.index("low", "2 * pair - (pair & (reach - 1))")
                self.index("high", "low + reach")
                names = ("keys", self.key.dtype), ("positions", int32)
                (a, b), (p, q) = (
                    [self.define(dtype, f"{name}[{at}]") for at in ("low", "high")]
                    for name, dtype in names
                )
                behind = self.define(bool_, f"{a} > {b} || ({a} == {b} && {p} > {q})")
                rises = self.define(bool_, "(low & run) == 0")
                with self.block(f"if ({behind} == {rises})"):
                    for name, left, right in (("keys", a, b), ("positions", p, q)):
                        self.line(f"{name}[low] = {right};")
                        self.line(f"{name}[high] = {left};")
            self.line(syntax.barrier)

    def write_stores(self) -> None:
        """Write the stores of one position, and of its key."""
        syntax, kernel = self.syntax, self.kernel
        (wanted,) = self.compute((self.wanted,))
        target = self.operands[kernel.target].dtype
        position = self.define(int32, self.place("positions[element]"))
        value = self.define(target, syntax.convert(position, int32, target))
        text = syntax.store(kernel.target, target, self.address(kernel.target), value)
        self.line(f"if ({self.place('element')} < {wanted.text}) {{ {text} }}")
        if kernel.keys is not None:
            address = self.address(kernel.keys)
            self.line(syntax.store(kernel.keys, self.key.dtype, address, "keys[element]"))


class MergeWriter(BoxWriter):
    """Writes the body of a merge."""

    def __init__(self, kernel: Merge, syntax: Syntax) -> None:
        self.key, self.position, self.length, self.wanted = simplified(
            list(kernel.roots), syntax.column
        )
        super().__init__(kernel, syntax)
        self.kernel = kernel

    def write_points(self) -> None:
        """Write the loop over all points: everything."""
        kernel, syntax = self.kernel, self.syntax
        axis = kernel.outer
        axes = range(axis + 1)
        self.index("points", self.extent(axes))
        with self.loop("point", "group * threads + thread", "points", "groups * threads"):
            self.split("point", axes)
            own = f"i{axis}"
            length, wanted = (value.text for value in self.compute((self.length, self.wanted)))
            self.index("length", length)
            self.index("first", f"{own} / (2 * length) * (2 * length)")
            self.index("middle", f"min(first + length, size{axis})")
            key, position = (v.text for v in self.compute((self.key, self.position)))
            later = self.define(bool_, f"{own} >= middle")
            ends = ("low", "middle"), ("high", f"min(middle + length, size{axis})")
            for name, value in ends:
                self.line(syntax.variable(name, syntax.index, value) + ";")
            with self.block(f"if ({later})"):
                self.line("low = first;")
                self.line("high = middle;")
            with self.block("while (low < high)"):
                self.index("half", "low + (high - low) / 2")
                self.write_comparison(key, later)
            # As far from the start of its own run as before, and behind those of the other.
            self.index("rank", f"{own} + low - middle")
            with self.elsewhere({axis: "rank"}):
                self.write_stores(key, position, wanted)

    def write_comparison(self, key: str, later: str) -> None:
        """Write one turn of the search for those of the other run that come before a point."""
        with self.elsewhere({self.kernel.outer: "half"}):
            (other,) = self.compute((self.key,))
            before = f"{other.text} < {key} || ({other.text} == {key} && {later})"
            with self.block(f"if ({before})"):
                self.line("low = half + 1;")
            with self.block("else"):
                self.line("high = half;")

    def write_stores(self, key: str, position: str, wanted: str) -> None:
        """Write the stores of a position, and of its key."""
        syntax, kernel = self.syntax, self.kernel
        target = self.operands[kernel.target].dtype
        value = syntax.convert(position, self.position.dtype, target)
        text = syntax.store(kernel.target, target, self.address(kernel.target), value)
        self.line(f"if (rank < {wanted}) {{ {text} }}")
        if kernel.keys is not None:
            self.line(syntax.store(kernel.keys, self.key.dtype, self.address(kernel.keys), key))
