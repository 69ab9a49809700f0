"""Interpreters of tapes and kernels over NumPy, which define their meaning.

`run_tape` runs a program line by line through the ops' references; `run_call` is what every
renderer's kernels are tested against.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from contraflow import dtypes
from contraflow.compiler.kernel import (
    BLOCK,
    Attention,
    Box,
    Contraction,
    KernelCall,
    Loops,
    Merge,
    Scan,
    Scatter,
    Sort,
    part_length,
)
from contraflow.compiler.tape import Tape, TapeLine, Value
from contraflow.dtypes import INT
from contraflow.expressions.evaluate import (
    contracted,
    evaluate,
    read_array,
    saturating_cast,
    wrapped,
)
from contraflow.expressions.expression import Expr
from contraflow.operation.reference import run_reference, strided
from contraflow.shapes import View
from contraflow.spec import Spec

BoundOperand = tuple[np.ndarray | None, int]


class _Arithmetic(NamedTuple):
    """How a device computes, as far as it may differ: the options of `run_call`."""

    contracts: int | None
    narrow: bool  # whether int64 has 32 bits


def run_call(
    call: KernelCall,
    arrays: Sequence[BoundOperand],
    scalars: Sequence[float | int] = (),
    contracts: int | None = None,
    int64_bits: int = 64,
) -> None:
    """Run a kernel call over flat arrays, writing into those of its out operands.

    `arrays` holds a pair per operand: a flat array and an element offset; for a scalar operand
    None and a position in `scalars`; for a position operand None and its offset. `contracts`
    is for a device whose arithmetic is not exact (`Limits.exact`): products and sums become one
    operation in some kernels and in some sweeps over their points, and others for each number.
    `int64_bits` is as in `Limits`: with 32 of them, integers wrap around there.
    """
    arithmetic = _Arithmetic(contracts, int64_bits < 64)
    with np.errstate(all="ignore"):
        if isinstance(call.kernel, Contraction):
            _run_contraction(call, call.kernel, arrays)
        elif isinstance(call.kernel, Attention):
            _run_attention(call, call.kernel, arrays, scalars)
        elif isinstance(call.kernel, Scatter):
            _run_scatter(_BoxRun(call, call.kernel, arrays, scalars, arithmetic))
        elif isinstance(call.kernel, Sort):
            _run_sort(_BoxRun(call, call.kernel, arrays, scalars, arithmetic))
        elif isinstance(call.kernel, Merge):
            _run_merge(_BoxRun(call, call.kernel, arrays, scalars, arithmetic))
        elif isinstance(call.kernel, Scan):
            _run_parts(call, call.kernel, _ScanRun, arrays, scalars, arithmetic)
        else:
            _run_parts(call, call.kernel, _LoopsRun, arrays, scalars, arithmetic)


def range_problem(tape: Tape, line: TapeLine, index: int) -> str:
    """The problem of a line with an index that a kernel has found out of range.

    Its reference says it, of inputs that hold nothing but that index. Of several dims for which the
    index is too large, it is not known which one it was for.
    """
    first = tape.specs[line.inputs[0]].shape if isinstance(line.inputs[0], Value) else ()
    sizes = [first[d] for d in line.params.get("dims", ())]
    if index < 0 and sizes and line.params.get("wrap"):
        index -= sizes[0]  # it was counted from the end
    if sum(not -n <= index < n for n in sizes) <= 1:
        inputs = [_filled(tape.specs[x], index) if isinstance(x, Value) else x for x in line.inputs]
        try:
            run_reference(line.op, inputs, tape.given(line.inputs), line.params)
        except IndexError as error:
            return str(error)
    return f"index {index} is out of range"


def _filled(spec: Spec, index: int) -> np.ndarray:
    """An array that costs no memory: an index everywhere, or zero if it does not hold indices."""
    number = index if spec.dtype.category == INT else 0
    return np.broadcast_to(np.array(number).astype(spec.dtype.numpy), spec.shape)


def _run_contraction(call: KernelCall, kernel: Contraction, arrays: Sequence[BoundOperand]) -> None:
    if kernel.digits:
        (*batch, m, o), depths = call.sizes[:4], call.sizes[4 : 4 + kernel.digits[0]]
        places = call.sizes[4 + kernel.digits[0] :]
        k, n = math.prod(depths), math.prod(places)
        shapes: Any = ((*batch, m, o, k), (*batch, o, *depths, *places), (*batch, m, n))
        k *= o
    else:
        *batch, m, n, k = call.sizes
        shapes = ((*batch, m, k), (*batch, k, n), (*batch, m, n))
    at = [
        offset + _addresses(np.indices(shape, sparse=True), steps, shape)
        for shape, steps, (_, offset) in zip(shapes, call.strides, arrays)
    ]
    (left, _), (right, _), (out, _) = arrays
    assert left is not None and right is not None and out is not None
    wide = kernel.accumulate.numpy
    product = np.matmul(
        left[at[0]].reshape(*batch, m, k).astype(wide),
        right[at[1]].reshape(*batch, k, n).astype(wide),
    )
    out[at[2]] = saturating_cast(product, kernel.dtype)


def _run_attention(
    call: KernelCall,
    kernel: Attention,
    arrays: Sequence[BoundOperand],
    scalars: Sequence[float | int],
) -> None:
    *batch, queries, keys, e, v = call.sizes
    rows, depth = (*batch, queries), (*batch, keys, e)
    of_part = {
        "out": ((*rows, v), rows),
        "query": ((*rows, v), rows, rows, (*rows, e)),
        "key": ((*rows, v), rows, rows, depth, (*batch, keys, v)),
        "all": ((*rows, v), rows, rows, (*rows, e), depth, (*batch, keys, v)),
    }
    shapes = ((*rows, e), depth, (*batch, keys, v), *of_part[kernel.part])
    at = [
        offset + _addresses(np.indices(shape, sparse=True), steps, shape)
        for shape, steps, (_, offset) in zip(shapes, call.strides, arrays)
    ]
    wide = kernel.accumulate.numpy
    read = [
        array[place].astype(wide)
        for place, operand, (array, _) in zip(at, kernel.operands, arrays)
        if array is not None and operand.mode == "in"
    ]
    query, key, value = read[:3]
    scale = wide.type(scalars[arrays[-1][1]])
    scores = query @ key.swapaxes(-1, -2) * scale
    seen = (
        np.tri(queries, keys, dtype=np.bool_)
        if kernel.causal
        else np.ones((queries, keys), np.bool_)
    )
    results: list[Any]
    if kernel.part == "out":
        peak = np.where(seen, scores, -np.inf).max(-1, keepdims=True, initial=-np.inf)
        weights = np.where(seen, np.exp(scores - peak), 0).astype(wide)
        total = weights.sum(-1, keepdims=True)
        results = [weights @ value / total, (peak + np.log(total))[..., 0]]
    else:
        g, normalizer, product = read[3:]
        weights = np.where(seen, np.exp(scores - normalizer[..., None]), 0).astype(wide)
        of_scores = weights * (g @ value.swapaxes(-1, -2) - product[..., None]) * scale
        results = [of_scores @ key] if kernel.part != "key" else []
        if kernel.part != "query":
            results += [of_scores.swapaxes(-1, -2) @ query, weights.swapaxes(-1, -2) @ g]
    for result, place, (array, _) in zip(results, at[len(read) :], arrays[len(read) :]):
        assert array is not None
        array[place] = saturating_cast(result, dtypes.from_numpy(array.dtype))


def _addresses(grid: Sequence[np.ndarray], strides: Sequence[int], shape: tuple[int, ...]) -> Any:
    total = sum((c * stride for c, stride in zip(grid, strides)), np.zeros((), np.int64))
    return np.broadcast_to(total, shape)


SomeBox = TypeVar("SomeBox", bound=Box)


class _BoxRun(Generic[SomeBox]):
    """One run of a kernel over a box of axes: every value is an array over the whole box."""

    def __init__(
        self,
        call: KernelCall,
        kernel: SomeBox,
        arrays: Sequence[BoundOperand],
        scalars: Sequence[float | int],
        arithmetic: _Arithmetic,
    ) -> None:
        self.call, self.kernel, self.operands = call, kernel, kernel.operands
        self.arrays, self.scalars = arrays, scalars
        # Odd where the next sweep contracts, and another number for the sweep behind it.
        self.choice = None
        if arithmetic.contracts is not None:
            self.choice = int(kernel.identity[arithmetic.contracts % 64], 16)
        self.narrow = arithmetic.narrow
        self.grid = np.indices(call.sizes, np.int64, sparse=True)
        self.sizes = list(call.sizes)
        self.reduced: dict[tuple[int, int], np.ndarray] = {}

    def take(self, axis: int, start: int, stop: int) -> None:
        """Visit a range of an axis only."""
        grid = list(self.grid)
        grid[axis] = grid[axis].take(range(start, stop), axis)
        self.grid, self.sizes[axis] = tuple(grid), stop - start

    def evaluate(self, roots: Sequence[Expr]) -> list[Any]:
        """The values of expressions, at one sweep over the points."""
        if self.choice is not None:
            if self.choice % 2:
                roots = contracted(tuple(roots), self.choice % 4 == 3)
            self.choice += 1
        return self.evaluate_once(roots)

    def evaluate_once(self, roots: Sequence[Expr]) -> list[Any]:
        """The values of expressions that no sweep computes again."""
        return evaluate(wrapped(tuple(roots)) if self.narrow else roots, self._leaf)

    def combine(
        self, roots: Sequence[Expr], left: Sequence[Any], right: Sequence[Any]
    ) -> list[Any]:
        """Expressions over the `left` and `right` leaves of a fold."""
        sides = {"left": left, "right": right}
        roots = wrapped(tuple(roots)) if self.narrow else roots
        return evaluate(roots, lambda e, _: sides[e.fn][e.data])

    def _leaf(self, e: Expr, args: list[Any]) -> Any:
        if e.fn == "axis":
            return self.grid[e.data]
        if e.fn == "reduced":
            return self.reduced[e.data]
        operand, (array, offset) = self.operands[e.data], self.arrays[e.data]
        if operand.mode == "scalar":
            return saturating_cast(np.asarray(self.scalars[offset]), operand.dtype)
        # Axes of stride 0 are left out: at the outer level a load must not spread over inner ones.
        at = offset + sum(
            (c * stride for c, stride in zip(self.grid, self.call.strides[e.data]) if stride),
            np.zeros((), np.int64),
        )
        if operand.mode == "position":
            return at
        assert array is not None
        if not array.size:  # at no point, then
            return np.zeros(np.shape(at), array.dtype)
        return read_array(array, [at + args[0], *args[1:]] if args else [at], len(args) == 2)

    def write(self, k: int, value: Any, grid: Sequence[np.ndarray]) -> None:
        """Store to operand k at the points of a grid."""
        array, offset = self.arrays[k]
        assert array is not None
        shape = np.broadcast_shapes(*(axis.shape for axis in grid))
        at = offset + _addresses(grid, self.call.strides[k], shape)
        array[at] = np.broadcast_to(value, shape)


def _run_scatter(run: _BoxRun[Scatter]) -> None:
    """Fold whole slices of the outer axes, one inner point after the other."""
    kernel = run.kernel
    sizes, (target, offset) = run.call.sizes, run.arrays[kernel.target]
    assert target is not None
    strides = run.call.strides[kernel.target]
    at, value = run.evaluate((kernel.at, kernel.value))
    places = offset + at + _addresses(run.grid, strides, sizes)
    flat = (*sizes[: kernel.outer], -1)
    places, value = (np.broadcast_to(x, sizes).reshape(flat) for x in (places, value))
    for i in range(places.shape[-1]):
        where = places[..., i]
        (target[where],) = run.combine((kernel.combine,), (target[where],), (value[..., i],))


def _run_sort(run: _BoxRun[Sort]) -> None:
    """Sort all rows, or all parts of them."""
    kernel = run.kernel
    sizes = run.call.sizes
    keys, wanted = run.evaluate((kernel.key, kernel.wanted))
    length = sizes[-1]
    if kernel.cut is not None:  # the axis that counts the parts has one point then
        length, run.grid = part_length(length, sizes[-2]), _without_parts(run.grid)
        sizes = (*sizes[:-2], 1, sizes[-1])
    keys = np.broadcast_to(keys, sizes)
    order = _sorted_runs(keys, length)
    _write_sorted(run, keys, order, order, wanted)


def _run_merge(run: _BoxRun[Merge]) -> None:
    """Sort all pairs of runs: the order of each run stays, since the sort is stable."""
    kernel = run.kernel
    keys, positions, length, wanted = run.evaluate(kernel.roots)
    keys = np.broadcast_to(keys, run.call.sizes)
    order = _sorted_runs(keys, 2 * int(length))
    positions = np.take_along_axis(np.broadcast_to(positions, keys.shape), order, -1)
    _write_sorted(run, keys, order, positions, wanted)


def _without_parts(grid: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """A grid with the axis that counts the parts at its first point."""
    *rest, parts, along = grid
    return (*rest, parts[..., :1, :], along)


def _sorted_runs(keys: np.ndarray, length: int) -> np.ndarray:
    """The positions in the order of keys within each run of so many of them."""
    runs = np.arange(keys.shape[-1]) // max(length, 1)
    return np.lexsort((keys, np.broadcast_to(runs, keys.shape)), axis=-1)


def _write_sorted(
    run: _BoxRun[Sort] | _BoxRun[Merge],
    keys: np.ndarray,
    order: np.ndarray,
    positions: np.ndarray,
    wanted: Any,
) -> None:
    """Store positions, and the keys in order if they are asked for."""
    kernel = run.kernel
    *rest, along = run.grid
    run.write(kernel.target, positions[..., :wanted], (*rest, along[..., :wanted]))
    if kernel.keys is not None:
        run.write(kernel.keys, np.take_along_axis(keys, order, -1), run.grid)


class _ScanRun(_BoxRun[Scan]):
    """One run of a Scan kernel: whole slices of the outer axes, one inner point after the other."""

    def run(self) -> None:
        """Carry the state along."""
        *outer, points = self.sizes
        state = [np.broadcast_to(v, (*outer, 1)) for v in self.evaluate(self.kernel.start)]
        self.state: list[Any] = state
        *rest, along = self.grid
        for i in range(points):
            self.grid = (*rest, along[..., i : i + 1])
            self.state = self.evaluate(self.kernel.step)
            for component, value in enumerate(self.state):
                self.reduced[0, component] = value
            for store in self.kernel.stores:
                (value,) = self.evaluate((store.value,))
                self.write(store.operand, value, self.grid)

    def _leaf(self, e: Expr, args: list[Any]) -> Any:
        return self.state[e.data] if e.fn == "left" else super()._leaf(e, args)


def _run_parts(
    call: KernelCall,
    kernel: Loops | Scan,
    make: Callable[..., _LoopsRun | _ScanRun],
    arrays: Sequence[BoundOperand],
    scalars: Sequence[float | int],
    arithmetic: _Arithmetic,
) -> None:
    """Run a kernel; one whose last outer axis counts the parts of an inner one part by part."""
    cut, counter = kernel.cut, kernel.outer - 1
    if cut is None:
        make(call, kernel, arrays, scalars, arithmetic).run()
        return
    size, parts = call.sizes[cut], call.sizes[counter]
    length = part_length(size, parts)
    for number in range(parts):
        run = make(call, kernel, arrays, scalars, arithmetic)
        start = min(number * length, size)
        run.take(counter, number, number + 1)
        run.take(cut, start, min(start + length, size))
        run.run()


class _LoopsRun(_BoxRun[Loops]):
    """One run of a Loops kernel."""

    def run(self) -> None:
        """Do the passes in order, then the stores of the outer level."""
        for reductions, stores in self.kernel.passes:
            roots = [e for r in reductions for e in self.kernel.reductions[r].values]
            values = self.evaluate([*roots, *(self.kernel.stores[i].value for i in stores)])
            for r in reductions:
                count = len(self.kernel.reductions[r].values)
                self._fold(r, values[:count])
                values = values[count:]
            for i, value in zip(stores, values):
                self.write(self.kernel.stores[i].operand, value, self.grid)
        last = [store for store in self.kernel.stores if not store.inner]
        for store, value in zip(last, self.evaluate([store.value for store in last])):
            outer = self.grid[: self.kernel.outer]
            single = np.zeros((1,) * len(self.sizes), np.int64)  # inner axes have one point there
            self.write(store.operand, value, (*outer, *(single,) * self.kernel.inner))

    def _fold(self, r: int, values: Sequence[Any]) -> None:
        """Fold whole slices, one inner point after the other, and then blocks of them."""
        reduction = self.kernel.reductions[r]
        outer = tuple(self.sizes[: self.kernel.outer])
        points = math.prod(self.sizes[self.kernel.outer :])
        flat = [np.broadcast_to(v, self.sizes).reshape((*outer, points)) for v in values]
        start = [np.broadcast_to(v, outer) for v in self.evaluate_once(reduction.identity)]
        total = start
        for first in range(0, points, BLOCK):
            block = start
            for i in range(first, min(first + BLOCK, points)):
                block = self.combine(reduction.combine, block, [v[..., i] for v in flat])
            total = self.combine(reduction.combine, total, block)
        for component, value in enumerate(total):
            # Values at the outer level keep the inner axes with size one.
            self.reduced[r, component] = np.reshape(value, outer + (1,) * self.kernel.inner)


# --- tapes -------------------------------------------------------------------------------------


def run_tape(
    tape: Tape, given: Mapping[Value, Any], lines: Iterable[TapeLine] | None = None
) -> dict[Value, Any]:
    """The values of a tape's results (or of all values that `lines` make) from its inputs.

    Inputs are C-contiguous arrays, and Python numbers for host scalars. Nothing is written to.
    """
    values: dict[Value, Any] = dict(given)
    for line in tape.lines if lines is None else lines:
        inputs: list[Any] = [values[x] if isinstance(x, Value) else x for x in line.inputs]
        if line.op.is_view:
            values[line.outs[0]] = strided(inputs[0], View(**line.params))
            continue
        try:
            outs = run_reference(line.op, inputs, tape.given(line.inputs), line.params)
        except IndexError as error:
            raise IndexError(line.blame(str(error))) from error
        values.update(zip(line.outs, outs))
    return values if lines is not None else {v: values[v] for v in tape.roots}
