"""Kernels that the GPU renderers are tested on, each with arrays to run it over.

A case is built anew by every call of its function, from a seed of its own, so that a run may write
into its arrays. Cases marked golden have their texts in tests/render/golden.
"""

from __future__ import annotations

import math

import numpy as np
from tests.helpers.gpu_case import Case, bind, case, empty, fold, load, normal, reduced

from contraflow.compiler.interpret import BoundOperand
from contraflow.compiler.kernel import (
    STRIDED,
    Contraction,
    KernelCall,
    KernelFold,
    Loops,
    Operand,
    Store,
)
from contraflow.dtypes import (
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int32,
    int64,
    uint32,
)
from contraflow.expressions import expression as s


@case
def fused_map() -> Case:
    """tanh(a * b + c) and a > 0 for a transposed, b broadcast along rows and a host scalar c."""
    rows, columns = 37, 53
    a, b, c = load(0, float32), load(1, float32), load(2, float32)
    operands = (
        Operand(float32, "in", (1, STRIDED)),
        Operand(float32, "in", (0, 1)),
        Operand(float32, "scalar"),
        Operand(float32, "out", (STRIDED, 1)),
        Operand(bool_, "out", (STRIDED, 1)),
    )
    stores = (Store(3, s.tanh(a * b + c), True), Store(4, a > 0.0, True))
    kernel = Loops(2, 0, 1, operands, (), stores)
    strides = ((1, rows), (0, 1), (), (columns, 1), (columns, 1))
    arrays: list[BoundOperand] = [
        bind(normal(0, rows * columns)),
        bind(normal(1, columns)),
        (None, 0),
        empty(rows * columns),
        empty(rows * columns, np.bool_),
    ]
    return Case(KernelCall(kernel, (rows, columns), strides), arrays, (0.25,), golden=True)


def row_softmax(rows: int, columns: int, seed: int) -> Case:
    x = load(0, float32)
    top = fold("max", x, -math.inf)
    shifted = s.exp(x - reduced(0, float32))
    total = fold("add", shifted, 0.0)
    operands = tuple(Operand(float32, mode, (STRIDED, 1)) for mode in ("in", "out"))
    stores = (Store(1, shifted / reduced(1, float32), True),)
    kernel = Loops(1, 1, 1, operands, (top, total), stores)
    arrays = [bind(3 * normal(seed, rows, columns)), empty(rows * columns)]
    call = KernelCall(kernel, (rows, columns), ((columns, 1), (columns, 1)))
    return Case(call, arrays, relative=1e-5)


@case
def softmax() -> Case:
    """Three passes over rows longer than a group of threads."""
    found = row_softmax(5, 700, 2)
    found.golden = True
    return found


@case
def softmax_of_short_rows() -> Case:
    """Many rows, each shorter than any group of threads."""
    return row_softmax(300, 3, 3)


@case
def softmax_in_place() -> Case:
    """The same operand read and written."""
    found = row_softmax(4, 300, 4)
    kernel = found.call.kernel
    assert isinstance(kernel, Loops)
    stores = (Store(0, kernel.stores[0].value, True),)
    operands = (Operand(float32, "inout", (STRIDED, 1)),)
    kernel = Loops(1, 1, 1, operands, kernel.reductions, stores)
    return Case(KernelCall(kernel, (4, 300), ((300, 1),)), found.arrays[:1], relative=1e-5)


@case
def layer_norm() -> Case:
    """Mean, variance, the normalised row with weight and bias, and both statistics."""
    rows, columns = 6, 391
    x, weight, bias = (load(i, float32) for i in range(3))
    count, epsilon = load(3, float32), load(4, float32)
    mean = reduced(0, float32) / count
    centred = x - mean
    deviation = s.sqrt(reduced(1, float32) / count + epsilon)
    reductions = (fold("add", x, 0.0), fold("add", centred * centred, 0.0))
    scale = s.const(1.0, float32) / deviation
    operands = (
        Operand(float32, "in", (STRIDED, 1)),
        Operand(float32, "in", (0, 1)),
        Operand(float32, "in", (0, 1)),
        Operand(float32, "scalar"),
        Operand(float32, "scalar"),
        Operand(float32, "out", (STRIDED, 1)),
        Operand(float32, "out", (1, 0)),
        Operand(float32, "out", (1, 0)),
    )
    stores = (
        Store(5, centred * scale * weight + bias, True),
        Store(6, mean, False),
        Store(7, scale, False),
    )
    kernel = Loops(1, 1, 1, operands, reductions, stores)
    row, per_row, per_column = (columns, 1), (1, 0), (0, 1)
    strides = (row, per_column, per_column, (), (), row, per_row, per_row)
    arrays: list[BoundOperand] = [
        bind(normal(5, rows, columns)),
        bind(normal(6, columns)),
        bind(normal(7, columns)),
        (None, 0),
        (None, 1),
        empty(rows * columns),
        empty(rows),
        empty(rows),
    ]
    call = KernelCall(kernel, (rows, columns), strides)
    return Case(call, arrays, (float(columns), 1e-5), relative=1e-5, golden=True)


def argmax_kernel() -> Loops:
    value, index = (s.leaf("left", d, c) for c, d in enumerate((float32, int64)))
    other, other_index = (s.leaf("right", d, c) for c, d in enumerate((float32, int64)))
    wins = (value > other) | (s.eq(value, other) & (index < other_index))
    pair = KernelFold(
        (load(0, float32), s.axis(1)),
        (s.select(wins, value, other), s.select(wins, index, other_index)),
        (s.const(-math.inf, float32), s.const(2**63 - 1, int64)),
    )
    operands = (
        Operand(float32, "in", (STRIDED, 1)),
        Operand(float32, "out", (1, 0)),
        Operand(int64, "out", (1, 0)),
    )
    stores = (
        Store(1, reduced(0, float32), False),
        Store(2, reduced(0, int64, 1), False),
    )
    return Loops(1, 1, 1, operands, (pair,), stores)


@case
def argmax() -> Case:
    """The largest value and where it first stands, folded as a pair; rows have many ties."""
    rows, columns = 4, 600
    values = np.random.default_rng(8).integers(0, 40, (rows, columns)).astype(np.float32)
    arrays = [bind(values), empty(rows), empty(rows, np.int64)]
    call = KernelCall(argmax_kernel(), (rows, columns), ((columns, 1), (1, 0), (1, 0)))
    return Case(call, arrays, golden=True)


@case
def column_sum() -> Case:
    """A sum over rows and a batch: each thread has a column of its own."""
    batch, rows, columns = 3, 41, 300
    operands = (Operand(float32, "in", (1, STRIDED, STRIDED)), Operand(float32, "out", (1, 0, 0)))
    total = fold("add", load(0, float32), 0.0)
    kernel = Loops(1, 2, 0, operands, (total,), (Store(1, reduced(0, float32), False),))
    strides = ((1, rows * columns, columns), (1, 0, 0))
    arrays = [bind(normal(9, batch, rows, columns)), empty(columns)]
    call = KernelCall(kernel, (columns, batch, rows), strides)
    return Case(call, arrays, relative=1e-5, golden=True)


@case
def cut_rows() -> Case:
    """Partial sums and largest elements of rows; the last part is short."""
    rows, parts, columns = 3, 5, 500
    x = load(0, float32)
    operands = (
        Operand(float32, "in", (STRIDED, 0, 1)),
        Operand(float32, "out", (1, STRIDED, 0)),
        Operand(float32, "out", (1, STRIDED, 0)),
    )
    stores = (Store(1, reduced(0, float32), False), Store(2, reduced(1, float32), False))
    reductions = (fold("add", x, 0.0), fold("max", x, -math.inf))
    kernel = Loops(2, 1, 2, operands, reductions, stores, cut=2)
    strides = ((columns, 0, 1), (1, rows, 0), (1, rows, 0))
    arrays = [bind(normal(61, rows, columns)), empty(rows * parts), empty(rows * parts)]
    return Case(
        KernelCall(kernel, (rows, parts, columns), strides), arrays, relative=1e-5, golden=True
    )


@case
def cut_columns() -> Case:
    """Partial sums of columns; the last two of the parts have no points."""
    columns, parts, rows = 70, 6, 200
    operands = (Operand(float32, "in", (1, 0, STRIDED)), Operand(float32, "out", (1, STRIDED, 0)))
    total = fold("add", load(0, float32), 0.0)
    kernel = Loops(2, 1, 0, operands, (total,), (Store(1, reduced(0, float32), False),), cut=2)
    strides = ((1, 0, columns), (1, columns, 0))
    arrays = [bind(normal(62, rows, columns)), empty(columns * parts)]
    return Case(
        KernelCall(kernel, (columns, parts, rows), strides), arrays, relative=1e-5, golden=True
    )


@case
def column_norm() -> Case:
    """Batch normalisation: per column, over rows and a batch whose axis lies between."""
    batch, columns, rows = 2, 37, 90
    x = load(0, float32)
    count = s.const(float(batch * rows), float32)
    centred = x - reduced(0, float32) / count
    scale = s.const(1.0, float32) / s.sqrt(reduced(1, float32) / count)
    reductions = (fold("add", x, 0.0), fold("add", centred * centred, 0.0))
    operands = (
        Operand(float32, "in", (1, STRIDED, STRIDED)),
        Operand(float32, "out", (1, STRIDED, STRIDED)),
        Operand(float32, "out", (1, 0, 0)),
    )
    stores = (Store(1, centred * scale, True), Store(2, scale, False))
    kernel = Loops(1, 2, 0, operands, reductions, stores)
    strides = ((1, rows * columns, columns),) * 2 + ((1, 0, 0),)
    size = batch * columns * rows
    arrays = [bind(normal(31, size)), empty(size), empty(columns)]
    return Case(KernelCall(kernel, (columns, batch, rows), strides), arrays, relative=1e-5)


@case
def lane_before_others() -> Case:
    """A map whose neighbours in memory lie along its first axis."""
    sizes = (19, 5, 7)
    strides = ((1, 19 * 7, 19), (1, 19, 19 * 5))
    operands = tuple(Operand(float32, mode, (1, STRIDED, STRIDED)) for mode in ("in", "out"))
    value = load(0, float32) + s.cast(s.axis(1), float32)
    kernel = Loops(3, 0, 0, operands, (), (Store(1, value, True),))
    size = math.prod(sizes)
    return Case(KernelCall(kernel, sizes, strides), [bind(normal(32, size)), empty(size)])


@case
def cross_entropy() -> Case:
    """log(sum(exp(x))) - x[label] per row, the label checked once the row is reduced."""
    rows, columns = 6, 290
    top = fold("max", load(0, float32), -math.inf)
    total = fold("add", s.exp(load(0, float32) - reduced(0, float32)), 0.0)
    label = s.checked(load(2, int64), load(3, int64))
    chosen = load(1, float32, label)
    loss = s.log(reduced(1, float32)) + reduced(0, float32) - chosen
    operands = (
        Operand(float32, "in", (STRIDED, 1)),
        Operand(float32, "in", (STRIDED, 0)),
        Operand(int64, "in", (1, 0)),
        Operand(int64, "scalar"),
        Operand(float32, "out", (1, 0)),
    )
    kernel = Loops(1, 1, 1, operands, (top, total), (Store(4, loss, False),))
    labels = np.random.default_rng(33).integers(0, columns, rows)
    values = normal(34, rows, columns)
    logits = bind(values)
    arrays: list[BoundOperand] = [logits, logits, bind(labels), (None, 0), empty(rows)]
    strides = ((columns, 1), (columns, 0), (1, 0), (), (1, 0))
    found = Case(KernelCall(kernel, (rows, columns), strides), arrays, (columns,), relative=1e-5)
    # The interpreter gives a load at the outer level the extent of the inner axes, and stops.
    found.expected = np.log(np.exp(values).sum(1)) - values[np.arange(rows), labels]
    return found


@case
def no_points() -> Case:
    """A call without work writes nothing."""
    found = row_softmax(1, 5, 35)
    found.call = found.call._replace(sizes=(0, 5))
    return found


def gather_case(indices: list[int]) -> Case:
    rows, columns = 11, 30
    index = s.checked(load(1, int64), s.const(rows, int64))
    operands = (
        Operand(float32, "in", (0, 1)),
        Operand(int64, "in", (1, 0)),
        Operand(float32, "out", (STRIDED, 1)),
    )
    value = load(0, float32, index * columns)
    kernel = Loops(2, 0, 1, operands, (), (Store(2, value, True),))
    strides = ((0, 1), (1, 0), (columns, 1))
    arrays = [
        bind(normal(10, rows, columns)),
        bind(np.array(indices, np.int64)),
        empty(len(indices) * columns),
    ]
    return Case(KernelCall(kernel, (len(indices), columns), strides), arrays)


@case
def gather() -> Case:
    """Rows of a table by index, each index checked."""
    found = gather_case([3, 0, 10, 10, 7])
    found.golden = True
    return found


@case
def random_words() -> Case:
    """Two rounds of Philox on the counters that a position gives, and a uniform number."""
    count = 1000
    word = s.cast(load(0, int64), uint32)
    key = s.cast(load(1, int64), uint32)
    other = word ^ key
    for _ in range(2):
        high, low = s.mulhi(word, 0xD2511F53), word * 0xD2511F53
        word, other, key = high ^ other ^ key, low, key + 0x9E3779B9
    uniform = s.cast(word >> 8, float32) * 2.0**-24
    operands = (
        Operand(int64, "position", (1,)),
        Operand(int64, "scalar"),
        Operand(int32, "out", (1,)),
        Operand(float32, "out", (1,)),
    )
    stores = (Store(2, s.bitcast(word ^ other, int32), True), Store(3, uniform, True))
    kernel = Loops(1, 0, 0, operands, (), stores)
    arrays: list[BoundOperand] = [(None, 12345), (None, 0), empty(count, np.int32), empty(count)]
    call = KernelCall(kernel, (count,), ((1,), (), (1,), (1,)))
    return Case(call, arrays, (987654321,), relative=0.0, golden=True)


def product(dtype: DType, accumulate: DType, seed: int) -> Case:
    g, b, m, n, k = 2, 3, 70, 65, 33
    kernel = Contraction(dtype, accumulate)
    # A is stored transposed, B is the same along the second axis of the batch, and that axis lies
    # within the rows of C.
    strides = ((b * m * k, m * k, 1, m), (k * n, 0, n, 1), (b * m * n, n, b * n, 1))
    values = [normal(seed, g * b * m * k), normal(seed + 1, g * k * n)]
    if not dtype.is_floating_point:
        values = [np.rint(v * 10) for v in values]
    arrays = [bind(v.astype(dtype.numpy)) for v in values]
    arrays.append(empty(g * b * m * n, dtype.numpy))
    return Case(KernelCall(kernel, (g, b, m, n, k), strides), arrays, relative=1e-5)


@case
def contraction() -> Case:
    """A batched product with a transposed and a broadcast side and ragged edges."""
    found = product(float32, float32, 11)
    found.golden = True
    return found


@case
def contraction_of_integers() -> Case:
    """The same in int32."""
    return product(int32, int32, 13)


@case
def contraction_of_halves() -> Case:
    """bfloat16 operands, accumulated in float32."""
    found = product(bfloat16, float32, 15)
    found.webgpu, found.relative = False, 1e-2
    return found


@case
def contraction_of_float16() -> Case:
    """float16 operands, accumulated in float32."""
    found = product(float16, float32, 16)
    found.relative, found.golden = 1e-3, True
    return found


@case
def contraction_of_doubles() -> Case:
    """float64 throughout."""
    found = product(float64, float64, 17)
    found.webgpu = False
    return found


@case
def contraction_over_nothing() -> Case:
    """With k = 0 the result is zero."""
    found = product(float32, float32, 19)
    *sizes, _ = found.call.sizes
    found.call = found.call._replace(sizes=(*sizes, 0))
    return found


@case
def shifted_window() -> Case:
    """x[i - 1] - x[i + 1], zero beyond the ends: loads with an offset, under a guard."""
    size = 515
    i = s.axis(0)
    before = load(0, float32, s.const(-1, int64), i > 0)
    after = load(0, float32, s.const(1, int64), i < load(1, int64))
    operands = (
        Operand(float32, "in", (1,)),
        Operand(int64, "scalar"),
        Operand(float32, "out", (1,)),
    )
    kernel = Loops(1, 0, 0, operands, (), (Store(2, before - after, True),))
    # The array ends where its last element does: a load beyond it would be out of range.
    arrays: list[BoundOperand] = [bind(normal(20, size)), (None, 0), empty(size)]
    return Case(KernelCall(kernel, (size,), ((1,), (), (1,))), arrays, (size - 1,), golden=True)


@case
def empty_rows() -> Case:
    """Reductions over nothing give their identities."""
    x = load(0, float32)
    operands = (
        Operand(float32, "in", (STRIDED, 1)),
        Operand(float32, "out", (1, 0)),
        Operand(float32, "out", (1, 0)),
    )
    stores = (Store(1, reduced(0, float32), False), Store(2, reduced(1, float32), False))
    reductions = (fold("add", x, 0.0), fold("max", x, -math.inf))
    kernel = Loops(1, 1, 1, operands, reductions, stores)
    arrays = [bind(normal(21, 0)), empty(4), empty(4)]
    return Case(KernelCall(kernel, (4, 0), ((0, 1), (1, 0), (1, 0))), arrays)


@case
def empty_columns() -> Case:
    """The same, a thread per column."""
    operands = (Operand(float32, "in", (1, STRIDED)), Operand(float32, "out", (1, 0)))
    total = fold("add", load(0, float32), 0.0)
    kernel = Loops(1, 1, 0, operands, (total,), (Store(1, reduced(0, float32), False),))
    return Case(KernelCall(kernel, (4, 0), ((1, 4), (1, 0))), [bind(normal(22, 0)), empty(4)])


@case
def any_of_all() -> Case:
    """A reduction of truth values over two inner axes and no outer one."""
    x = load(0, float32)
    reductions = (fold("or", x > 2.5, False), fold("and", x > 2.5, True))
    operands = (
        Operand(float32, "in", (STRIDED, 1)),
        Operand(bool_, "out", (0, 0)),
        Operand(bool_, "out", (0, 0)),
    )
    stores = (Store(1, reduced(0, bool_), False), Store(2, reduced(1, bool_), False))
    kernel = Loops(0, 2, 1, operands, reductions, stores)
    arrays = [bind(normal(23, 40, 30)), empty(1, np.bool_), empty(1, np.bool_)]
    return Case(KernelCall(kernel, (40, 30), ((30, 1), (0, 0), (0, 0))), arrays)


@case
def momentum() -> Case:
    """An optimizer's step: two operands are read and written, each by the other's old value."""
    size = 1000
    parameter, velocity, gradient, rate = (load(i, float32) for i in range(4))
    operands = (
        Operand(float32, "inout", (1,)),
        Operand(float32, "inout", (1,)),
        Operand(float32, "in", (1,)),
        Operand(float64, "scalar"),
    )
    rate = s.cast(load(3, float64), float32)
    stores = (
        Store(0, parameter - rate * velocity, True),
        Store(1, velocity * 0.5 + gradient * parameter, True),
    )
    kernel = Loops(1, 0, 0, operands, (), stores)
    arrays: list[BoundOperand] = [bind(normal(24 + i, size)) for i in range(3)]
    return Case(KernelCall(kernel, (size,), ((1,), (1,), (1,), ())), [*arrays, (None, 0)], (0.1,))
