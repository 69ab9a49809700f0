"""Split-k products: a long summed dim is cut into spans, whose partial products are added.

A product keeps one running sum of its panels for each element, whose error grows with their number.
So where k is longer than a span the spans are a batch, and one more sum adds up what each gives.
Where it is cut follows from the sizes alone, so results have the same bits for any number of
threads; and these find work in a product of few rows and columns too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from contraflow import thresholds
from contraflow.compiler.tape import Tape, TapeLine, TapeOperand, Value
from contraflow.dtypes import HALVES, float32
from contraflow.operation import core
from contraflow.operation.kinds import Contracting
from contraflow.operation.op import Op
from contraflow.shapes import LETTERS, View, contiguous, numel


class Cut(NamedTuple):
    """The labels of a product, the one that is cut, its size, and into how many parts."""

    labels: tuple[str, str, str]
    along: str
    size: int
    parts: int


def cut_products(tape: Tape) -> Tape:
    """Cut long products into shorter ones, which are summed."""
    products = (line for line in tape.lines if line.op.kind.lowering == "contract")
    cuts = {line.outs: cut for line in products if (cut := _cut(tape, line)) is not None}
    if not cuts:
        return tape
    shown: dict[Value, tuple[Value, View]] = {}  # what the values that are views show
    result = tape.replaced([])
    for line in tape.lines:
        if line.op.is_view:
            (x,) = line.inputs
            assert isinstance(x, Value)
            shown[line.outs[0]] = (x, View(**line.params))
        if line.outs in cuts:
            _Product(result, line, shown, cuts[line.outs]).write()
        else:
            result.lines.append(line)
    return result


def _cut(tape: Tape, line: TapeLine) -> Cut | None:
    """How a contraction is cut, None if it is short."""
    sizes = [numel(tape.specs[v].shape) for v in (*line.inputs, *line.outs)]  # type: ignore[index]
    most = thresholds.long_product
    if sizes[0] * sizes[1] <= most * most * sizes[2]:  # it is the square of the length, or more
        return None
    if not tape.specs[line.outs[0]].dtype.is_floating_point:  # sums of integers are exact
        return None
    assert isinstance(line.op.kind, Contracting)
    labels = line.op.kind.labels(line.op, tape.given(line.inputs), line.params)
    shape = tape.specs[line.inputs[0]].shape  # type: ignore[index]
    summed = [(c, n) for c, n in zip(labels[0], shape) if c in labels[1] and c not in labels[2]]
    length = numel(n for _, n in summed)
    if length <= most:
        return None
    wanted = -(-length // most)
    # The first label with as many coordinates as there are to be parts, or the one with most.
    enough = ((c, n) for c, n in summed if n >= wanted)
    along, size = next(enough, max(summed, key=lambda pair: pair[1]))
    parts = min(wanted, size)
    # Up to twice as many if nothing is left over then.
    parts = next((n for n in range(parts, 2 * parts) if size % n == 0), parts)
    return Cut(labels, along, size, parts)


class _Product:
    """The lines of one product that is cut."""

    def __init__(
        self, tape: Tape, line: TapeLine, shown: Mapping[Value, tuple[Value, View]], cut: Cut
    ) -> None:
        self.tape, self.line, self.shown, self.cut = tape, line, shown, cut
        self.spec = tape.specs[line.outs[0]]
        self.batch = next(c for c in LETTERS if c not in "".join(cut.labels))

    def write(self) -> None:
        """Append the lines; the last of them gives the product."""
        total = self._inner() if numel(self.spec.shape) == 1 else self._outer()
        if self.spec.dtype in HALVES:
            self._add(core.to_dtype, total, dtype=self.spec.dtype)
        self.tape.lines[-1] = self.tape.lines[-1]._replace(outs=self.line.outs)

    def _add(self, op: Op, *inputs: TapeOperand, **params: Any) -> Value:
        line = self.line
        (out,) = self.tape.add(op, inputs, params, line.line, line.region)
        return out

    def _outer(self) -> Value:
        """The sum of the products of spans."""
        whole = self.cut.size - self.cut.size % self.cut.parts
        total = self._spans(0, whole, self.cut.parts)
        if whole < self.cut.size:
            total = self._add(core.add, total, self._spans(whole, self.cut.size, 1))
        return total

    def _spans(self, start: int, stop: int, parts: int) -> Value:
        """The sum of the products of as many spans between two coordinates."""
        *sides, out = self.cut.labels
        (a, left), (b, right) = (
            (self._read(value, view), split)
            for value, view, split in (
                self._view(x, labels, start, stop, parts)
                for x, labels in zip(self.line.inputs, sides)
            )
        )
        spans = self._add(core.contract, a, b, spec=f"{left},{right}->{self.batch}{out}")
        return self._add(core.sum, spans, dim=(0,), keepdim=False)

    def _inner(self) -> Value:
        """A product with one row and one column, which fill no vectors: the sum of a row."""
        *sides, out = self.cut.labels
        seen = [
            self._view(x, labels, 0, self.cut.size, 1) for x, labels in zip(self.line.inputs, sides)
        ]
        summed = [c for c in seen[0][2] if c not in out]
        operands = []
        for value, view, labels in seen:
            at = [labels.find(c) for c in (*out, *summed)]
            shape = tuple(1 if d < 0 else view.shape[d] for d in at)
            strides = tuple(0 if d < 0 else view.strides[d] for d in at)
            operands.append(self._read(value, View(shape, strides, view.offset)))
        dims = tuple(range(len(out), len(out) + len(summed)))
        return self._add(core.sum, self._add(core.mul, *operands), dim=dims, keepdim=False)

    def _read(self, x: Value, view: View) -> Value:
        """A view as a value; half precision is made float32, since its sums must not be rounded."""
        x = self._add(core.strided, x, **view._asdict())
        return self._add(core.to_dtype, x, dtype=float32) if self.spec.dtype in HALVES else x

    def _view(
        self, x: TapeOperand, labels: str, start: int, stop: int, parts: int
    ) -> tuple[Value, View, str]:
        """The part of an operand between two coordinates, in pieces, and the labels of its dims."""
        assert isinstance(x, Value)
        value, view = self.shown.get(x) or (x, contiguous(self.tape.specs[x].shape))
        for d in reversed(range(len(labels))):
            if labels[d] == "_":  # one that broadcasts
                labels, view = labels[:d] + labels[d + 1 :], view.select(d, 0)
        d = labels.index(self.cut.along)
        view = view.slice(d, start, stop, 1)
        length, stride = (stop - start) // parts, view.strides[d]
        shape = (*view.shape[:d], parts, length, *view.shape[d + 1 :])
        strides = (*view.strides[:d], length * stride, stride, *view.strides[d + 1 :])
        split = labels[:d] + self.batch + labels[d:]
        return value, View(shape, strides, view.offset), split
