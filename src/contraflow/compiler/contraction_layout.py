"""Contractions: how a labelled product is laid out as products of matrices, and what is copied.

`fuse.py` asks for the kernel of one line, and which other order of its result would do as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from contraflow import thresholds
from contraflow.compiler.kernel import KernelCall, contraction
from contraflow.compiler.lower import Access, KernelUse, OperandPlace, TapeScope, is_access
from contraflow.compiler.tape import TapeLine, Value
from contraflow.shapes import Shape, contiguous_strides, numel

Groups = tuple[list[str], list[str], list[str], list[str]]  # labels of g, b, m and n


class Target(NamedTuple):
    """Where a product is written: from a place on, with a stride per dim, beside the rest."""

    place: OperandPlace
    strides: Shape
    rest: Value | None = None


class _ProductSides(NamedTuple):
    """A and B with their labels, the ways to group the dims of C, and its strides by label."""

    a: tuple[Any, str]
    b: tuple[Any, str]
    groups: list[Groups]
    strides: dict[str, int]


class ContractionLayout:
    """A labelled contraction laid out as C[g, b, m, n] = sum over k of A[g, b, m, k] B[g, b, k, n].

    `labels` are those of a, b and the result. `copy(x, dtype, dims)` gives a contiguous copy of an
    operand with dims (number, size), -1 for one that repeats it; it is asked for where the dims of
    a group do not lie evenly. With `windows` the kernel reads B through several strides instead, as
    overlapping windows need it.
    """

    def __init__(
        self,
        scope: TapeScope,
        line: TapeLine,
        labels: tuple[str, str, str],
        copy: Callable[..., Value],
        windows: bool,
    ) -> None:
        self.scope, self.line, self.labels = scope, line, labels
        self.copy, self.windows = copy, windows
        (result,), specs = line.outs, scope.tape.specs
        self.dtype = specs[result].dtype
        self.plain = Target(OperandPlace(result), scope.layout(result).strides)
        self.sizes: dict[str, int] = {}
        for letters, x in zip(labels, line.inputs):
            assert isinstance(x, Value)
            self.sizes.update(zip(letters, specs[x].shape))

    def suits(self, strides: Shape) -> bool:
        """Whether the product may as well be written with these strides along its dims: by products
        of the same matrices, or their transposes, whose rows are dense."""
        sides, plain = self._sides(strides), self._sides(self.plain.strides)
        if not sides.groups:
            return False
        found, wanted = sides.groups[0][2:], plain.groups[0][2:]
        alike = found in (wanted, wanted[::-1])
        return alike and self._even(found[1:], sides.strides) in ((0,), (1,))

    def lower(self, number: int, target: Target | None = None) -> KernelUse:
        """The kernel, which writes to the result or to a target that suits."""
        target = target or self.plain
        (a, left), (b, right), groups, strides = self._sides(target.strides)
        *batch, rows, columns = min(groups, key=lambda found: self._copies(found[:2]))
        depth = [c for c in left if c in right and c not in strides and c != "_"]
        outer, inner = self._halves(a, left, (*batch, rows, depth))
        window = self._window(b, right, (*batch, outer, inner, columns)) if self.windows else None
        if window is not None:
            place_a, strides_a = self._operand(a, left, (*batch, rows, outer, inner))
            place_b, strides_b, sizes, digits = window
            sizes = (*map(self._count, (*batch, rows)), *sizes)
        else:
            place_a, strides_a = self._operand(a, left, (*batch, rows, depth))
            place_b, strides_b = self._operand(b, right, (*batch, depth, columns))
            sizes, digits = tuple(map(self._count, (*batch, rows, columns, depth))), None
        kernel = contraction(self.dtype, self.dtype.compute, digits)
        strides_c = self._even((*batch, rows, columns), strides)
        assert strides_c is not None
        call = KernelCall(kernel, sizes, (strides_a, strides_b, strides_c))
        return KernelUse(call, (place_a, place_b, target.place), number, target.rest)

    def _sides(self, steps: Shape) -> _ProductSides:
        """A and B for a C with these strides: the dim along which it is dense is one of B's."""
        (left, right, out), (a, b) = self.labels, self.line.inputs
        strides = dict(zip(out, steps))
        out = "".join(sorted(out, key=lambda c: -strides[c]))
        if out and out[-1] in left and out[-1] not in right:
            a, b, left, right = b, a, right, left
        return _ProductSides(
            (a, left), (b, right), self._groups(left, right, out, strides), strides
        )

    def _copies(self, batch: Sequence[Sequence[str]]) -> int:
        """How many of the operands have to be copied for the way in which a batch is grouped."""
        found = (self._steps(x, labels) for x, labels in zip(self.line.inputs, self.labels))
        return sum(self._even(batch, strides) is None for strides in found)

    def _steps(self, x: Any, labels: str) -> dict[str, int]:
        """The strides of an operand, or those of a copy of it that has its dims."""
        found = self._in_place(x)
        shape = self.scope.tape.specs[x].shape
        return dict(zip(labels, found[1].strides if found else contiguous_strides(shape)))

    def _count(self, labels: Sequence[str]) -> int:
        return numel(self.sizes[c] for c in labels)

    def _halves(
        self, x: Any, labels: str, groups: Sequence[list[str]]
    ) -> tuple[list[str], list[str]]:
        """The dims of k that A needs a stride of their own for, and those that lie evenly there.

        Where the latter are few it is cheaper to copy A than to cut the sum into many short ones.
        """
        *lead, depth = groups
        found = self._in_place(x)
        strides = dict(zip(labels, found[1].strides)) if found else {}
        for split in range(len(depth) if found else 0):
            outer, inner = depth[:split], depth[split:]
            if self._even((*lead, outer, inner), strides) is not None:
                long = self._count(inner) >= thresholds.long_inner_sum
                return (outer, inner) if long else ([], depth)
        return [], depth

    def _window(
        self, x: Any, labels: str, groups: Sequence[list[str]]
    ) -> tuple[OperandPlace, Shape, Shape, tuple[int, int]] | None:
        """B, its strides, the sizes of o, k and n, and the digits, for a read through several
        strides; None where one per group will do, or B must be copied for its other dims."""
        *batch, outer, inner, columns = groups
        found = self._in_place(x)
        if found is None:
            return None
        value, view = found
        strides = dict(zip(labels, view.strides))
        lead = self._even((*batch, outer), strides)
        if lead is None or (not outer and self._even((inner, columns), strides) is not None):
            return None
        depths, places = self._digits(inner, strides), self._digits(columns, strides)
        sizes, steps = zip(*depths, *places)
        digits = (len(depths), len(places))
        return (
            OperandPlace(value, view.offset),
            (*lead, *steps),
            (self._count(outer), *sizes),
            digits,
        )

    def _digits(self, labels: Sequence[str], strides: dict[str, int]) -> list[tuple[int, int]]:
        """Dims as (size, stride), even neighbours merged; at least one."""
        result: list[tuple[int, int]] = []
        for c in labels:
            size, stride = self.sizes[c], strides.get(c, 0)
            if size == 1:
                continue
            if result and result[-1][1] == stride * size:
                size *= result.pop()[0]
            result.append((size, stride))
        return result or [(1, 0)]

    def _groups(self, left: str, right: str, out: str, strides: dict[str, int]) -> list[Groups]:
        """The ways to make groups g, b, m and n of the dims of C, which come in memory's order.

        Leading dims act as a batch until what follows is all of m, then all of n, evenly.
        """
        both = {c for c in out if c in left and c in right}
        order = [c for c in out if c not in both]
        for lead in range(len(order) + 1):
            batch = [c for c in out if c in both or c in order[:lead]]
            rows = [c for c in order[lead:] if c in left]
            columns = [c for c in order[lead:] if c in right]
            if order[lead:] != rows + columns:
                continue
            ways = [(batch[:i], batch[i:], rows, columns) for i in range(len(batch) + 1)]
            even = [groups for groups in ways if self._even(groups, strides) is not None]
            if even:
                return even
        return []

    def _even(
        self, groups: Sequence[Sequence[str]], strides: dict[str, int]
    ) -> tuple[int, ...] | None:
        """One stride per group that walks over its dims in order, None if a group has none."""
        result = []
        for labels in groups:
            merged, extent = 0, 1
            for c in reversed(labels):
                if self.sizes[c] == 1:
                    continue
                stride = strides.get(c, 0)
                if extent == 1:
                    merged = stride
                elif extent and stride != merged * extent:  # over no elements any stride walks
                    return None
                extent *= self.sizes[c]
            result.append(merged)
        return tuple(result)

    def _in_place(self, x: Any) -> Access | None:
        """The memory an operand lies in, None where it has to be made."""
        found = self.scope.access(x)
        here = is_access(found) and self.scope.tape.specs[x].dtype is self.dtype
        return found if here else None

    def _nearest_last(
        self, found: Any, labels: str, groups: Sequence[Sequence[str]]
    ) -> list[Sequence[str]]:
        """Groups in the order in which a copy reads longest runs: windows lie side by side along
        their taps and along their places, and there are more places."""
        if not is_access(found):
            return list(groups)
        strides = dict(zip(labels, found[1].strides))

        def distance(group: Sequence[str]) -> tuple[float, int]:
            inner = [c for c in group if self.sizes[c] != 1 and c in labels][-1:]
            return (strides[inner[0]], -self.sizes[inner[0]]) if inner else (math.inf, 0)

        return sorted(groups, key=distance, reverse=True)

    def _operand(
        self, x: Any, labels: str, groups: Sequence[Sequence[str]]
    ) -> tuple[OperandPlace, tuple[int, ...]]:
        in_place = self._in_place(x)
        if in_place is not None:
            value, view = in_place
            strides = self._even(groups, dict(zip(labels, view.strides)))
            if strides is not None:
                return OperandPlace(value, view.offset), strides
        # Dims of a batch that repeat the operand are copied beside some that walk over it.
        batch = [c for g in groups[:2] if not set(labels).isdisjoint(g) for c in g]
        order = self._nearest_last(self.scope.access(x), labels, groups[2:])
        wanted = batch + [c for g in order for c in g if c in labels]
        copy = self.copy(x, self.dtype, [(labels.find(c), self.sizes[c]) for c in wanted])
        shape = self.scope.tape.specs[copy].shape
        strides = self._even(groups, dict(zip(wanted, contiguous_strides(shape))))
        assert strides is not None
        return OperandPlace(copy), strides
