"""What tapes and kernels mean, over NumPy.

`run_tape` runs a program line by line through the ops' references; `run_call` is what every
renderer's kernels are tested against.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from contraflow import scalar as s
from contraflow.kernel import Call, Contraction, Loops
from contraflow.reference import run_reference
from contraflow.scalar import Expr
from contraflow.shapes import View
from contraflow.tape import Tape, TapeLine, Value

Bound = tuple[np.ndarray | None, int]


def run_call(call: Call, arrays: Sequence[Bound], scalars: Sequence[float | int] = ()) -> None:
    """Run a kernel call over flat arrays, writing into those of its out operands.

    `arrays` holds a pair per operand: a flat array and an element offset; for a scalar operand
    None and a position in `scalars`; for a position operand None and its offset.
    """
    with np.errstate(all="ignore"):
        if isinstance(call.kernel, Contraction):
            _run_contraction(call, call.kernel, arrays)
        else:
            _LoopsRun(call, call.kernel, arrays, scalars).run()


def _run_contraction(call: Call, kernel: Contraction, arrays: Sequence[Bound]) -> None:
    if kernel.digits:
        (b, m, o), depths = call.sizes[:3], call.sizes[3 : 3 + kernel.digits[0]]
        places = call.sizes[3 + kernel.digits[0] :]
        k, n = math.prod(depths), math.prod(places)
        shapes: Any = ((b, m, o, k), (b, o, *depths, *places), (b, m, n))
        k *= o
    else:
        b, m, n, k = call.sizes
        shapes = ((b, m, k), (b, k, n), (b, m, n))
    at = [
        offset + _addresses(np.indices(shape, sparse=True), steps, shape)
        for shape, steps, (_, offset) in zip(shapes, call.strides, arrays)
    ]
    (left, _), (right, _), (out, _) = arrays
    assert left is not None and right is not None and out is not None
    wide = kernel.accumulate.numpy
    product = np.matmul(
        left[at[0]].reshape(b, m, k).astype(wide), right[at[1]].reshape(b, k, n).astype(wide)
    )
    out[at[2]] = s.saturating_cast(product, kernel.dtype)


def _addresses(grid: Sequence[np.ndarray], strides: Sequence[int], shape: tuple[int, ...]) -> Any:
    total = sum((c * stride for c, stride in zip(grid, strides)), np.zeros((), np.int64))
    return np.broadcast_to(total, shape)


class _LoopsRun:
    """One run of a Loops kernel: every value is an array over the whole box of axes."""

    def __init__(
        self, call: Call, kernel: Loops, arrays: Sequence[Bound], scalars: Sequence[float | int]
    ) -> None:
        self.call, self.kernel, self.arrays, self.scalars = call, kernel, arrays, scalars
        self.grid = np.indices(call.sizes, np.int64, sparse=True)
        # Values at the outer level keep the inner axes with size one.
        self.outer_shape = call.sizes[: kernel.outer] + (1,) * kernel.inner
        self.reduced: dict[tuple[int, int], np.ndarray] = {}

    def run(self) -> None:
        """Do the passes in order, then the stores of the outer level."""
        for reductions, stores in self.kernel.passes:
            roots = [e for r in reductions for e in self.kernel.reductions[r].values]
            values = self._evaluate([*roots, *(self.kernel.stores[i].value for i in stores)])
            for r in reductions:
                count = len(self.kernel.reductions[r].values)
                self._fold(r, values[:count])
                values = values[count:]
            for i, value in zip(stores, values):
                self._write(self.kernel.stores[i].operand, value, self.call.sizes)
        last = [store for store in self.kernel.stores if not store.inner]
        for store, value in zip(last, self._evaluate([store.value for store in last])):
            self._write(store.operand, value, self.outer_shape)

    def _evaluate(self, roots: Sequence[Expr]) -> list[Any]:
        return s.evaluate(roots, self._leaf)

    def _leaf(self, e: Expr, args: list[Any]) -> Any:
        if e.fn == "axis":
            return self.grid[e.data]
        if e.fn == "reduced":
            return self.reduced[e.data]
        operand, (array, offset) = self.kernel.operands[e.data], self.arrays[e.data]
        if operand.mode == "scalar":
            return s.saturating_cast(np.asarray(self.scalars[offset]), operand.dtype)
        # Axes of stride 0 are left out: at the outer level a load must not spread over inner ones.
        at = offset + sum(
            (c * stride for c, stride in zip(self.grid, self.call.strides[e.data]) if stride),
            np.zeros((), np.int64),
        )
        if operand.mode == "position":
            return at
        assert array is not None
        return s.read_array(array, [at + args[0], *args[1:]] if args else [at], len(args) == 2)

    def _fold(self, r: int, values: Sequence[Any]) -> None:
        """Fold whole slices, one inner point after the other."""
        reduction = self.kernel.reductions[r]
        outer = self.call.sizes[: self.kernel.outer]
        points = math.prod(self.call.sizes[self.kernel.outer :])
        flat = [np.broadcast_to(v, self.call.sizes).reshape((*outer, points)) for v in values]
        total = [np.broadcast_to(v, outer) for v in self._evaluate(reduction.identity)]
        for i in range(points):
            sides = {"left": total, "right": [v[..., i] for v in flat]}

            def side(e: Expr, _: list[Any], sides: dict[str, list[Any]] = sides) -> Any:
                return sides[e.fn][e.data]

            total = s.evaluate(reduction.combine, side)
        for component, value in enumerate(total):
            self.reduced[r, component] = np.reshape(value, self.outer_shape)

    def _write(self, k: int, value: Any, shape: tuple[int, ...]) -> None:
        array, offset = self.arrays[k]
        assert array is not None
        grid = np.indices(shape, np.int64, sparse=True)
        array[offset + _addresses(grid, self.call.strides[k], shape)] = np.broadcast_to(
            value, shape
        )


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
        if line.op.name == "strided":
            values[line.outs[0]] = strided(inputs[0], View(**line.params))
            continue
        try:
            outs = run_reference(line.op, inputs, tape.given(line.inputs), line.params)
        except IndexError as error:
            raise IndexError(f"{str(error).rstrip('.')}, at {line.line}.") from error
        values.update(zip(line.outs, outs))
    return values if lines is not None else {v: values[v] for v in tape.roots}


def strided(array: np.ndarray, view: View) -> np.ndarray:
    """A view of a contiguous array, as a `strided` line gives it."""
    if 0 in view.shape:  # such a view may start beyond the end
        return np.empty(view.shape, array.dtype)
    flat = np.ascontiguousarray(array).reshape(-1)
    size = flat.itemsize
    strides = tuple(st * size for st in view.strides)
    return np.ndarray(view.shape, flat.dtype, flat, view.offset * size, strides)
