"""Column-major layouts for tall, narrow temporaries such as logits.

Logits are tall and narrow: many rows of a few columns. Vectors run down such columns, since a row
does not fill one, so these lie side by side in memory. That is decided for all values together
that are computed from each other element by element; inputs and results of a tape stay as they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from contraflow import thresholds
from contraflow.compiler.pattern import reduced_dims
from contraflow.compiler.tape import Tape, TapeLine, Value
from contraflow.shapes import Shape, View, contiguous_strides, numel


def columnwise(shape: Shape) -> View:
    """A column-major layout: the elements of a column of the last dim are neighbours."""
    rows = shape[:-1]
    return View(shape, (*contiguous_strides(rows), numel(rows)))


def rearranged_view(view: View, shape: Shape, layout: View) -> View | None:
    """A view of a row-major value, for one whose elements lie in another order; None unless it
    shows whole dims, each once and in any order, or repeats what it shows."""
    strides, places = [], dict(zip(zip(shape, contiguous_strides(shape)), layout.strides))
    for size, stride in zip(view.shape, view.strides):
        if size == 1 or stride == 0:
            strides.append(0)
        elif (size, stride) in places:
            strides.append(places.pop((size, stride)))
        else:
            return None
    return None if view.offset else View(view.shape, tuple(strides))


def narrow_layouts(tape: Tape, host: set[Value], most: int) -> dict[Value, View]:
    """Column-major layouts for the values of at most `most` columns that gain by them."""
    shapes = {shape for shape, _ in tape.specs.values()}
    narrow = {shape for shape in shapes if _is_narrow(shape, most)}
    return _Narrow(tape, host, narrow).layouts() if narrow else {}


def _is_narrow(shape: Shape, most: int) -> bool:
    """Whether a value of this shape has at most so many columns, and enough rows."""
    narrow = len(shape) > 1 and 1 < shape[-1] <= most
    return narrow and numel(shape[:-1]) >= thresholds.narrow_rows


class _Narrow:
    def __init__(self, tape: Tape, host: set[Value], shapes: set[Shape]) -> None:
        self.tape = tape
        self.narrow = {v for v, (shape, _) in tape.specs.items() if shape in shapes}
        self.leader: dict[Value, Value] = {}  # of all that have one layout, towards the first
        self.fixed: set[Value] = {*tape.inputs, *tape.roots, *host}
        self.reduced: set[Value] = set()  # row by row
        self.spread: set[Value] = set()  # views that repeat elements, or do not show rows of them

    def layouts(self) -> dict[Value, View]:
        """Column-major layouts for all groups that gain by it and allow it."""
        for line in self.tape.lines:
            self._look_at(line)
        groups: defaultdict[Value, list[Value]] = defaultdict(list)
        for v in self.leader:
            groups[self._first(v)].append(v)
        return {
            v: columnwise(self.tape.specs[v].shape)
            for group in groups.values()
            if self.fixed.isdisjoint(group) and not self.reduced.isdisjoint(group)
            for v in group
        }

    def _look_at(self, line: TapeLine) -> None:
        narrow = self.narrow
        if narrow.isdisjoint(line.outs) and narrow.isdisjoint(line.inputs):
            return
        lowering, specs = line.op.kind.lowering, self.tape.specs
        read = [x for x in line.inputs if type(x) is Value and x in narrow]
        made = [v for v in line.outs if v in narrow]
        if lowering == "map":
            for shape in {specs[v].shape for v in line.outs}:
                alike = (v for v in (*read, *made) if specs[v].shape == shape)
                self._join(v for v in alike if v not in self.spread)
        elif lowering == "contract":
            self._join(made)
        elif lowering == "reduce":
            for v in read:
                rank = len(specs[v].shape)
                if reduced_dims(line.op, line.params, rank) == {rank - 1}:
                    self.reduced.add(v)
            self.fixed.update(made)
        else:
            rows = lowering != "view" or line.params["strides"][-1:] == (1,)
            (self.fixed if rows else self.spread).update(made)
            self.fixed.update(v for v in read if not self._shows(line, specs[v].shape))

    def _shows(self, line: TapeLine, shape: Shape) -> bool:
        """Whether a line is a view that a value of this shape may have in either order."""
        if not line.op.is_view:
            return False
        return rearranged_view(View(**line.params), shape, columnwise(shape)) is not None

    def _join(self, values: Iterable[Value]) -> None:
        first = None
        for v in values:
            leader = self._first(v)
            first = first or leader
            self.leader[leader] = first

    def _first(self, v: Value) -> Value:
        while (leader := self.leader.setdefault(v, v)) != v:
            v = leader
        return v
