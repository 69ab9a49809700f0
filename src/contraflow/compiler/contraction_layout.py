"""Contractions: how a labelled product is laid out as products of matrices, and what is copied.

`fuse.py` asks for the kernel of one line, and which other order of its result would do as well.
How a product is laid out follows from its form, which the layers of a network have in common: it
is worked out once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from contraflow import thresholds
from contraflow.compiler.folds import settle_pruned
from contraflow.compiler.kernel import KernelCall, Operand, Store, contraction
from contraflow.compiler.lower import KernelUse, OperandPlace, TapeScope, is_access
from contraflow.compiler.narrow_integers import product_sum
from contraflow.compiler.tape import Tape, TapeLine, Value
from contraflow.dtypes import DType, int64
from contraflow.expressions import expression as s
from contraflow.operation.kinds import Contracting
from contraflow.operation.op import Op
from contraflow.shapes import Shape, contiguous_strides, numel
from contraflow.spec import Given

Labels = tuple[str, str, str]  # one letter per dim of a, b and the result
Groups = tuple[list[str], list[str], list[str], list[str]]  # labels of g, b, m and n
Dims = tuple[tuple[int, int], ...]  # of a copy: number, or -1 where it is repeated, and size


class Target(NamedTuple):
    """The memory that a product is written to: its start, its strides, and the value around it."""

    place: OperandPlace
    strides: Shape
    rest: Value | None = None


class ContractionOperand(NamedTuple):
    """A or B: a letter per dim, and how its elements lie in memory."""

    labels: str
    shape: Shape
    strides: Shape | None  # None for a number that stands for a tensor
    in_place: bool  # whether the kernel may read it there: it has the dtype of the product


class ContractionForm(NamedTuple):
    """All that decides how a product is laid out, but for where its result goes."""

    operands: tuple[ContractionOperand, ContractionOperand]
    out: str  # a letter per dim of the result
    dtype: DType
    windows: bool  # whether kernels may read B through several strides


class LaidOutContraction(NamedTuple):
    """The kernel of a product, and its operands in the kernel's order: which of the line's inputs
    each is, and the dims of the copy that it must be read from, if it must."""

    call: KernelCall
    operands: tuple[tuple[int, Dims | None], ...]


class _ProductSides(NamedTuple):
    """Which inputs are A and B, the ways to group the dims of C, and its strides by label."""

    order: tuple[int, int]
    groups: list[Groups]
    strides: dict[str, int]


class ContractionLayout:
    """A labelled contraction laid out as C[g, b, m, n] = sum over k of A[g, b, m, k] B[g, b, k, n].

    `copy(x, dtype, dims)` gives a contiguous copy of an operand with dims (number, size), -1 for
    one that repeats it; it is asked for where the dims of a group do not lie evenly. With `windows`
    the kernel reads B through more strides instead, as overlapping windows need it.
    """

    def __init__(
        self, scope: TapeScope, line: TapeLine, copy: Callable[..., Value], windows: bool
    ) -> None:
        self.scope, self.line, self.copy, self.windows = scope, line, copy, windows
        self.labels = labels_of(scope.tape, line)
        (result,) = line.outs
        self.dtype = scope.tape.specs[result].dtype
        self.plain = Target(OperandPlace(result), scope.layout(result).strides)

    def suits(self, strides: Shape) -> bool:
        """Whether the product may as well be written with these strides along its dims: by products
        of the same matrices, or their transposes, whose rows are dense."""
        left, right, out = self.labels
        a, b = (self.scope.tape.specs[x].shape for x in self.line.inputs)  # type: ignore[index]
        return _suits((left, a), (right, b), out, strides, self.plain.strides)

    def lower(self, number: int, target: Target | None = None) -> KernelUse:
        """The kernel, which writes to the result or to a target that suits."""
        target = target or self.plain
        if self.scope.narrow and self.dtype is int64:
            return self._lower_checked(number, target)
        found, inputs = _laid_out(self._form(), target.strides), self.line.inputs
        places = [self._place(inputs[i], dims) for i, dims in found.operands]
        return KernelUse(found.call, (*places, target.place), number, target.rest)

    def _lower_checked(self, number: int, target: Target) -> KernelUse:
        """A kernel of rows that checks its products and sums: int64 has 32 bits."""
        left, right, out = self.labels
        summed = [c for c in left if c in right and c not in out]
        axes = [*out, *summed] if summed else [*out, "_"]
        sizes: dict[str, int] = {"_": 1}
        places, strides = [], []
        for x, labels in zip(self.line.inputs, (left, right)):
            found = self._operand(x, labels)
            sizes.update(zip(labels, found.shape))
            steps = found.strides if found.in_place else contiguous_strides(found.shape)
            assert steps is not None
            dims = None if found.in_place else tuple(enumerate(found.shape))
            places.append(self._place(x, dims))
            strides.append(tuple(dict(zip(labels, steps)).get(c, 0) for c in axes))
        strides.append(tuple(dict(zip(out, target.strides)).get(c, 0) for c in axes))
        fold, result = product_sum(*(s.leaf("load", int64, i) for i in range(2)))
        operands = [Operand(int64, mode) for mode in ("in", "in", "out")]
        settled = settle_pruned(
            [fold], [Store(2, result, False)], len(out), tuple(sizes[c] for c in axes), operands,
            strides, range(3),
        )  # fmt: skip
        call = KernelCall(settled.kernel(self.scope.costs), settled.sizes, settled.strides)
        return KernelUse(call, (*places, target.place), number, target.rest)

    def _form(self) -> ContractionForm:
        left, right, out = self.labels
        a, b = self.line.inputs
        operands = self._operand(a, left), self._operand(b, right)
        return ContractionForm(operands, out, self.dtype, self.windows)

    def _operand(self, x: Any, labels: str) -> ContractionOperand:
        shape, dtype = self.scope.tape.specs[x]
        found = self.scope.access(x)
        if not is_access(found):
            return ContractionOperand(labels, shape, None, False)
        return ContractionOperand(labels, shape, found[1].strides, dtype is self.dtype)

    def _place(self, x: Any, dims: Dims | None) -> OperandPlace:
        """Where the kernel reads an operand: where it lies, or in a copy with these dims."""
        if dims is not None:
            return OperandPlace(self.copy(x, self.dtype, dims))
        value, view = self.scope.access(x)
        return OperandPlace(value, view.offset)


def labels_of(tape: Tape, line: TapeLine) -> Labels:
    """The labels of a line that is a contraction."""
    return _labels(line.op, tuple(line.params.items()), *tape.given(line.inputs))


@lru_cache(maxsize=4096)
def _labels(op: Op, params: tuple[tuple[str, Any], ...], *given: Given) -> Labels:
    assert isinstance(op.kind, Contracting)
    return op.kind.labels(op, given, dict(params))


@lru_cache(maxsize=4096)
def _suits(
    a: tuple[str, Shape], b: tuple[str, Shape], out: str, strides: Shape, plain: Shape
) -> bool:
    dims = _ProductDims(a, b, out)
    sides, usual = dims.sides(strides), dims.sides(plain)
    if not sides.groups:
        return False
    found, wanted = sides.groups[0][2:], usual.groups[0][2:]
    alike = found in (wanted, wanted[::-1])
    return alike and dims.even(found[1:], sides.strides) in ((0,), (1,))


class _ProductDims:
    """The dims of a product by their labels."""

    def __init__(self, a: tuple[str, Shape], b: tuple[str, Shape], out: str) -> None:
        self.labels, self.out = (a[0], b[0]), out
        self.sizes: dict[str, int] = dict(zip(*a)) | dict(zip(*b))

    def sides(self, steps: Shape) -> _ProductSides:
        """A and B for a C with these strides: the dim along which it is dense is one of B's."""
        (left, right), out, order = self.labels, self.out, (0, 1)
        strides = dict(zip(out, steps))
        out = "".join(sorted(out, key=lambda c: -strides[c]))
        if out and out[-1] in left and out[-1] not in right:
            left, right, order = right, left, (1, 0)
        return _ProductSides(order, self._groups(left, right, out, strides), strides)

    def count(self, labels: Sequence[str]) -> int:
        """The product of the sizes of dims."""
        return numel(self.sizes[c] for c in labels)

    def even(
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
            even = [groups for groups in ways if self.even(groups, strides) is not None]
            if even:
                return even
        return []


@lru_cache(maxsize=4096)
def _laid_out(form: ContractionForm, steps: Shape) -> LaidOutContraction:
    return _Arrangement(form).laid_out(steps)


thresholds.on_change(_laid_out.cache_clear)


class _Arrangement(_ProductDims):
    """How the operands of a product are read."""

    def __init__(self, form: ContractionForm) -> None:
        a, b = form.operands
        super().__init__((a.labels, a.shape), (b.labels, b.shape), form.out)
        self.form = form

    def laid_out(self, steps: Shape) -> LaidOutContraction:
        """The kernel for a C with these strides."""
        order, groups, strides = self.sides(steps)
        a, b = (self.form.operands[i] for i in order)
        *batch, rows, columns = min(groups, key=lambda found: self._copies(found[:2]))
        depth = [c for c in a.labels if c in b.labels and c not in strides and c != "_"]
        outer, inner = self._halves(a, (*batch, rows, depth))
        window = self._window(b, (*batch, outer, inner, columns)) if self.form.windows else None
        if window is not None:
            copy_a, strides_a = self._read(a, (*batch, rows, outer, inner))
            copy_b, (strides_b, sizes, digits) = None, window
            sizes = (*map(self.count, (*batch, rows)), *sizes)
        else:
            copy_a, strides_a = self._read(a, (*batch, rows, depth))
            copy_b, strides_b = self._read(b, (*batch, depth, columns))
            sizes, digits = tuple(map(self.count, (*batch, rows, columns, depth))), None
        kernel = contraction(self.form.dtype, self.form.dtype.compute, digits)
        strides_c = self.even((*batch, rows, columns), strides)
        assert strides_c is not None
        call = KernelCall(kernel, sizes, (strides_a, strides_b, strides_c))
        return LaidOutContraction(call, tuple(zip(order, (copy_a, copy_b))))

    def _copies(self, batch: Sequence[Sequence[str]]) -> int:
        """How many of the operands have to be copied for the way in which a batch is grouped."""
        return sum(self.even(batch, _steps(x)) is None for x in self.form.operands)

    def _halves(
        self, x: ContractionOperand, groups: Sequence[list[str]]
    ) -> tuple[list[str], list[str]]:
        """The dims of k that A needs a stride of their own for, and those that lie evenly there.

        Where the latter are few it is cheaper to copy A than to cut the sum into many short ones,
        unless A has a single row, whose kernel adds up such sums.
        """
        *lead, depth = groups
        strides = _steps(x)
        for split in range(len(depth) if x.in_place else 0):
            outer, inner = depth[:split], depth[split:]
            if self.even((*lead, outer, inner), strides) is not None:
                long = self.count(inner) >= thresholds.long_inner_sum or self.count(lead[-1]) == 1
                return (outer, inner) if long else ([], depth)
        return [], depth

    def _window(
        self, x: ContractionOperand, groups: Sequence[list[str]]
    ) -> tuple[Shape, Shape, tuple[int, int]] | None:
        """The strides of B, the sizes of o, k and n, and the digits, for a read through several
        strides; None where one per group will do, or B must be copied for its other dims."""
        *batch, outer, inner, columns = groups
        if not x.in_place:
            return None
        strides = _steps(x)
        lead = self.even((*batch, outer), strides)
        if lead is None or (not outer and self.even((inner, columns), strides) is not None):
            return None
        depths, places = self._digits(inner, strides), self._digits(columns, strides)
        sizes, steps = zip(*depths, *places)
        return (*lead, *steps), (self.count(outer), *sizes), (len(depths), len(places))

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

    def _read(
        self, x: ContractionOperand, groups: Sequence[Sequence[str]]
    ) -> tuple[Dims | None, tuple[int, ...]]:
        """The dims of the copy of an operand, None where it is read in place, and its strides."""
        if x.in_place:
            strides = self.even(groups, _steps(x))
            if strides is not None:
                return None, strides
        # Dims of a batch that repeat the operand are copied beside some that walk over it.
        batch = [c for g in groups[:2] if not set(x.labels).isdisjoint(g) for c in g]
        order = self._nearest_last(x, groups[2:])
        wanted = batch + [c for g in order for c in g if c in x.labels]
        dims = tuple((x.labels.find(c), self.sizes[c]) for c in wanted)
        shape = tuple(size for _, size in dims)
        strides = self.even(groups, dict(zip(wanted, contiguous_strides(shape))))
        assert strides is not None
        return dims, strides

    def _nearest_last(
        self, x: ContractionOperand, groups: Sequence[Sequence[str]]
    ) -> list[Sequence[str]]:
        """Groups in the order in which a copy reads longest runs: windows lie side by side along
        their taps and along their places, and there are more places."""
        if x.strides is None:
            return list(groups)
        strides = dict(zip(x.labels, x.strides))

        def distance(group: Sequence[str]) -> tuple[float, int]:
            inner = [c for c in group if self.sizes[c] != 1 and c in x.labels][-1:]
            return (strides[inner[0]], -self.sizes[inner[0]]) if inner else (math.inf, 0)

        return sorted(groups, key=distance, reverse=True)


def _steps(x: ContractionOperand) -> dict[str, int]:
    """The strides of an operand by label, or those of a copy of it that has its dims."""
    if x.in_place and x.strides is not None:
        return dict(zip(x.labels, x.strides))
    return dict(zip(x.labels, contiguous_strides(x.shape)))
