"""Rows too long for one kernel: they are sorted in parts, which are merged pair by pair.

Each merge is a kernel of its own, in which every point finds its place alone, so the whole device
shares even one row.
"""

from __future__ import annotations

from contraflow.compiler.folds import classes
from contraflow.compiler.kernel import Kernel, KernelCall, Operand, merge, part_length, sort
from contraflow.compiler.lower import KernelUse, OperandPlace
from contraflow.compiler.tape import Tape, Value
from contraflow.dtypes import DType, int32, int64
from contraflow.expressions import expression as s
from contraflow.expressions.expression import Expr, leaf
from contraflow.shapes import Shape, contiguous_strides, numel
from contraflow.spec import Spec


class RowSorter:
    """Writes the kernels that sort rows in parts and merge these, pair by pair.

    Sizes are those of the dims before, behind and along the rows of a value.
    """

    def __init__(self, tape: Tape, line: int, sizes: tuple[int, int, int], most: int) -> None:
        self.tape, self.line, self.sizes = tape, line, sizes
        self.parts = -(-sizes[-1] // most)
        before, behind, along = contiguous_strides(sizes)
        self.dense = (before, behind, along)  # rows lie side by side

    def sort(self, keys: Value, target: Value, wanted: int) -> list[KernelUse]:
        """The kernels that store the first positions along rows of keys, which lie side by side."""
        _, behind, along = self.sizes
        strides = (wanted * behind, 1, behind)
        if self.parts == 1:
            return [self._part(keys, target, strides, wanted, None)]
        sorted_keys, positions = self._temporaries(self.tape.specs[keys].dtype)
        uses = [self._part(keys, positions, self.dense, along, sorted_keys)]
        length = part_length(along, self.parts)
        while 2 * length < along:
            more_keys, more = self._temporaries(self.tape.specs[keys].dtype)
            uses.append(
                self._merge(sorted_keys, positions, length, more, self.dense, along, more_keys)
            )
            sorted_keys, positions, length = more_keys, more, 2 * length
        uses.append(self._merge(sorted_keys, positions, length, target, strides, wanted, None))
        return uses

    def _temporaries(self, dtype: DType) -> tuple[Value, Value]:
        """Memory for keys and positions; no row has more than 2 ** 31 points."""
        shape = (numel(self.sizes),)
        return self.tape.new(Spec(shape, dtype)), self.tape.new(Spec(shape, int32))

    def _part(
        self, keys: Value, target: Value, strides: Shape, wanted: int, kept: Value | None
    ) -> KernelUse:
        """The kernel that sorts rows, or their parts; these keep the keys."""
        made = _OperandList(self.tape)
        key = made.load(keys, self.dense)
        place = made.store(target, strides)
        stored = None if kept is None else made.store(kept, self.dense)
        count = made.number(wanted)
        *outer, along = self.sizes
        sizes, cut = (*outer, along), None
        if kept is not None:
            sizes, cut = (*outer, self.parts, along), len(outer) + 1
            made.insert_axis(len(outer))
        kernel = sort(
            len(sizes) - 1, 1, None, made.operands(), place, None, key, s.const(0, int64), count,
            stored, cut,
        )  # fmt: skip
        return made.use(kernel, sizes, self.line)

    def _merge(
        self,
        keys: Value,
        positions: Value,
        length: int,
        target: Value,
        strides: Shape,
        wanted: int,
        kept: Value | None,
    ) -> KernelUse:
        """The kernel that merges runs of so many points."""
        made = _OperandList(self.tape)
        pair = made.load(keys, self.dense), made.load(positions, self.dense)
        place = made.store(target, strides)
        stored = None if kept is None else made.store(kept, self.dense)
        numbers = made.number(length), made.number(wanted)
        kernel = merge(2, 1, 2, made.operands(), place, stored, *pair, *numbers)
        return made.use(kernel, self.sizes, self.line)


class _OperandList:
    """The operands of a kernel that is not made of a pattern, in order."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.found: list[tuple[DType, str, Shape, OperandPlace]] = []

    def _add(self, dtype: DType, mode: str, strides: Shape, place: OperandPlace) -> int:
        self.found.append((dtype, mode, strides, place))
        return len(self.found) - 1

    def load(self, v: Value, strides: Shape) -> Expr:
        """An element of a value that is read."""
        dtype = self.tape.specs[v].dtype
        return leaf("load", dtype, self._add(dtype, "in", strides, OperandPlace(v)))

    def store(self, v: Value, strides: Shape) -> int:
        """The number of a value that is written."""
        return self._add(self.tape.specs[v].dtype, "out", strides, OperandPlace(v))

    def number(self, n: int) -> Expr:
        """A number of points as an argument."""
        return leaf("load", int64, self._add(int64, "scalar", (), OperandPlace(n)))

    def insert_axis(self, at: int) -> None:
        """Add an axis along which no operand moves."""
        self.found = [
            (dtype, mode, (*strides[:at], 0, *strides[at:]) if strides else (), place)
            for dtype, mode, strides, place in self.found
        ]

    def operands(self) -> tuple[Operand, ...]:
        """The operands with the classes of their strides."""
        return tuple(Operand(dtype, mode, classes(st)) for dtype, mode, st, _ in self.found)

    def use(self, kernel: Kernel, sizes: Shape, line: int) -> KernelUse:
        """The kernel with its sizes and places."""
        strides = tuple(st for _, _, st, _ in self.found)
        places = tuple(place for *_, place in self.found)
        return KernelUse(KernelCall(kernel, sizes, strides), places, line)
