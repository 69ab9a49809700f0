"""Lowering of scatters, scans and sorts: lines made into kernels with their operands.

`ordered.py` makes a kernel of what is left of a line when its operands are numbered.
"""

from __future__ import annotations

from typing import NamedTuple

from contraflow import thresholds
from contraflow.compiler.kernel import Limits
from contraflow.compiler.lower import KernelUse, Naming, TapeScope, is_access
from contraflow.compiler.ordered import (
    KeysPattern,
    PlacesPattern,
    ScanPattern,
    ScatterPattern,
    SortPattern,
    lower_keys,
    lower_places,
    lower_scan,
    lower_scatter,
    lower_sort,
)
from contraflow.compiler.pattern import PatternLine, StoredResult
from contraflow.compiler.sorted_rows import RowSorter
from contraflow.compiler.tape import TapeLine, Value
from contraflow.dtypes import DType, int32, int64
from contraflow.expressions.expression import leaf
from contraflow.operation.kinds import Scattering, Sorting
from contraflow.shapes import Shape, View, contiguous, contiguous_strides, numel
from contraflow.spec import Spec


class PointOrder(NamedTuple):
    """The points of a scattering line in the order of their targets, with the strides of rows."""

    value: Value
    strides: Shape


def lower_scattering(
    scope: TapeScope,
    number: int,
    line: TapeLine,
    target: Value,
    rest: Value,
    sweep: int,
    order: PointOrder | None,
) -> KernelUse:
    """The kernel for a sweep of a line that scatters values into a copy of `rest`."""
    naming = Naming(scope)
    described = _scattered(scope, naming, line)
    argument, shape = naming.target(target, 0), scope.tape.specs[target].shape
    listed = None if order is None else (naming.target(order.value, 0), order.strides)
    dtypes = tuple(naming.dtypes)
    trusted = number in scope.trusted
    lowered = lower_scatter(
        ScatterPattern(
            described, dtypes, argument, shape, sweep, listed, trusted, scope.narrow, scope.costs
        )
    )
    return naming.use(lowered, number, rest)


def lower_order(
    scope: TapeScope, number: int, line: TapeLine, limits: Limits
) -> tuple[list[KernelUse], PointOrder | None]:
    """The kernels that put the points of a scattering line in the order of their targets, for a
    device that folds the points of different targets at the same time; none where few may meet."""
    naming, tape = Naming(scope), scope.tape
    described = _scattered(scope, naming, line)
    assert isinstance(line.op.kind, Scattering)
    walked = line.op.kind.walked(line.op, described.given, line.params)
    meeting = numel(described.shape[d] for d in walked)
    few = meeting <= thresholds.walked_points or not numel(described.shape)
    if not limits.many_threads or few:
        return [], None
    shape = tape.specs[line.outs[0]].shape
    trusted = number in scope.trusted
    found = lower_places(
        PlacesPattern(described, tuple(naming.dtypes), shape, trusted, scope.costs)
    )
    rows = numel(found.rows)
    places = tape.new(Spec((rows * meeting,), found.dtype))
    order = tape.new(Spec((rows * meeting,), int32))
    naming.target(places, 0)
    sorter = RowSorter(tape, number, (rows, 1, meeting), limits.sorted_points)
    uses = [naming.use(found.lowered, number), *sorter.sort(places, order, meeting)]
    return uses, PointOrder(order, found.strides)


def _scattered(scope: TapeScope, naming: Naming, line: TapeLine) -> PatternLine:
    """A scattering line with its operands numbered; its shape is that of the points."""
    operands = tuple(map(naming.operand, line.inputs))
    given = tuple(scope.tape.given(line.inputs))
    assert isinstance(line.op.kind, Scattering)
    points = line.op.kind.domain(line.op, given)
    return PatternLine(line.op, tuple(line.params.items()), operands, given, points, ())


def lower_scanning(
    scope: TapeScope, number: int, line: TapeLine, carried: DType | None, limits: Limits
) -> list[KernelUse]:
    """The kernels for a scan; a reversed one walks over all operands backwards."""
    walk = _Walk(scope, line, line.params.get("reverse", False))
    results = tuple(StoredResult(i, *walk.target(v)) for i, v in enumerate(line.outs))
    dtypes = tuple(walk.naming.dtypes)
    kernels, partials = lower_scan(
        ScanPattern(
            walk.line, dtypes, line.params["dim"], results, carried, limits.many_threads,
            scope.narrow, scope.costs,
        )
    )  # fmt: skip
    for elements, dtype in partials:
        walk.naming.target(scope.tape.new(Spec((elements,), dtype)), 0)
    return [walk.naming.use(lowered, number) for lowered in kernels]


def lower_sorting(scope: TapeScope, number: int, line: TapeLine, limits: Limits) -> list[KernelUse]:
    """The kernels for the positions in order: one, or several where rows are too long for it.

    Every area of its scratch serves one share; a device that sorts short rows only needs none.
    """
    walk, dim = _Walk(scope, line, False), line.params["dim"]
    shape, (given,) = walk.line.shape, walk.line.given
    assert isinstance(line.op.kind, Sorting) and isinstance(given, Spec)
    rows = shape[:dim] + shape[dim + 1 :]
    key = line.op.kind.key(line.op, leaf("input", given.dtype.compute, 0), line.params)
    wanted = (scope.tape.specs[line.outs[0]].shape or (1,))[dim]
    if limits.sorted_points and shape[dim] > limits.sorted_points:
        keys = scope.tape.new(Spec((numel(shape),), key.dtype))
        *others, along = contiguous_strides((*rows, shape[dim]))  # rows lie side by side
        strides = (*others[:dim], along, *others[dim:])
        argument, dtypes = walk.naming.target(keys, 0), tuple(walk.naming.dtypes)
        made = walk.naming.use(
            lower_keys(KeysPattern(walk.line, dtypes, argument, strides, scope.costs)), number
        )
        sizes = (numel(shape[:dim]), numel(shape[dim + 1 :]), shape[dim])
        sorter = RowSorter(scope.tape, number, sizes, limits.sorted_points)
        return [made, *sorter.sort(keys, line.outs[0], wanted)]
    argument, strides = walk.target(line.outs[0])
    scratch, areas = None, 0
    if not limits.sorted_points:
        areas = max(1, min(numel(rows), thresholds.sort_areas))
        words = 4 * key.dtype.itemsize // int64.itemsize  # two keys and two positions
        scratch = walk.naming.target(scope.tape.new(Spec((areas * words * shape[dim],), int64)), 0)
    dtypes = tuple(walk.naming.dtypes)
    pattern = SortPattern(walk.line, dtypes, dim, argument, strides, scratch, areas, wanted)
    return [walk.naming.use(lower_sort(pattern), number)]


class _Walk:
    """A line whose operands are walked along one dim, from its end if `reverse`."""

    def __init__(self, scope: TapeScope, line: TapeLine, reverse: bool) -> None:
        self.naming, self.specs = Naming(scope), scope.tape.specs
        self.dim, self.reverse = line.params["dim"], reverse
        operands = []
        for x in line.inputs:
            found = scope.access(x)
            if is_access(found):
                found = (found[0], self._seen(found[1]))
            operands.append(self.naming.found(found))
        given, params = tuple(scope.tape.given(line.inputs)), tuple(line.params.items())
        assert isinstance(given[0], Spec)
        self.line = PatternLine(line.op, params, tuple(operands), given, given[0].shape or (1,), ())

    def _seen(self, view: View) -> View:
        if not view.shape:  # a number is a line of one
            view = View((1,), (1,), view.offset)
        return _reversed(view, self.dim) if self.reverse else view

    def target(self, v: Value) -> tuple[int, Shape]:
        """The argument for a result, and its strides."""
        view = self._seen(contiguous(self.specs[v].shape))
        return self.naming.target(v, view.offset), view.strides


def _reversed(view: View, dim: int) -> View:
    """The same elements with a dim from its end."""
    stride, strides = view.strides[dim], list(view.strides)
    strides[dim] = -stride
    return View(view.shape, tuple(strides), view.offset + max(view.shape[dim] - 1, 0) * stride)
