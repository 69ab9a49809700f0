"""Generated machine code against the meaning of kernels, at awkward sizes and all widths.

The golden texts show what changes in generated code; after a deliberate change, write them anew:

    PYTHONPATH=src python -m tests.render.test_llvm
"""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest
from tests.helpers.loops import embedding, guarded, load, sample
from tests.helpers.native import check, run_native

from contraflow import dtypes
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
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint32,
)  # fmt: skip
from contraflow.expressions import expression as s
from contraflow.expressions import trigonometry
from contraflow.expressions.expression import Expr
from contraflow.render.llvm.kept import keep_values
from contraflow.render.llvm.kernels import render

SIZES = (0, 1, 3, 4, 7, 8, 9, 15, 16, 17, 33, 1000)
EVERY_DTYPE = (*dtypes.ALL, uint32)
GOLDEN = Path(__file__).parent / "golden"


def fold(values, combine, identity) -> KernelFold:
    left = [s.leaf("left", v.dtype, i) for i, v in enumerate(values)]
    right = [s.leaf("right", v.dtype, i) for i, v in enumerate(values)]
    start = [s.const(i, v.dtype) for i, v in zip(identity, values)]
    return KernelFold(tuple(values), tuple(combine(left, right)), tuple(start))


def total(x: Expr) -> KernelFold:
    return fold((x,), lambda a, b: (a[0] + b[0],), (0,))


def largest(x: Expr) -> KernelFold:
    lowest = -math.inf if x.dtype.is_floating_point else np.iinfo(x.dtype.numpy).min
    return fold((x,), lambda a, b: (s.maximum(a[0], b[0]),), (lowest,))


def argmax(x: Expr, index: Expr) -> KernelFold:
    """(value, index): the first NaN wins, else the largest value, else the lowest index."""

    def combine(a, b):
        tie = s.eq(a[0], b[0]) | (s.isnan(a[0]) & s.isnan(b[0]))
        left = s.isnan(a[0]) | (a[0] > b[0])
        take = s.select(tie, a[1] < b[1], left & ~(s.isnan(b[0]) & ~s.isnan(a[0])))
        return s.select(take, a[0], b[0]), s.select(take, a[1], b[1])

    return fold((x, index), combine, (-math.inf, np.iinfo(np.int64).max))


def reduced(r: int, dtype: DType = float32, component: int = 0) -> Expr:
    return s.leaf("reduced", dtype, (r, component))


def unary_map(body, source: DType, strides=(1,), out_strides=(1,), lane=0) -> Loops:
    value = body(load(0, source))
    operands = (Operand(source, "in", strides), Operand(value.dtype, "out", out_strides))
    return Loops(len(strides), 0, lane, operands, (), (Store(1, value, False),))


# --- maps --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", SIZES)
def test_map_at_every_size(n):
    kernel = unary_map(lambda x: s.maximum(x * 2.0 + 1.0, 0.5), float32)
    check(
        KernelCall(kernel, (n,), ((1,), (1,))), [(sample(float32, n + 5), 3), guarded(float32, n)]
    )


@pytest.mark.parametrize("dtype", EVERY_DTYPE, ids=str)
def test_copy_of_every_dtype(dtype):
    kernel = unary_map(lambda x: x, dtype)
    check(KernelCall(kernel, (37,), ((1,), (1,))), [(sample(dtype, 40), 1), guarded(dtype, 37)])


@pytest.mark.parametrize("target", EVERY_DTYPE, ids=str)
@pytest.mark.parametrize("source", EVERY_DTYPE, ids=str)
def test_casts(source, target):
    values = sample(source, 50)
    if source.is_floating_point:
        with np.errstate(over="ignore"):
            special = np.array(
                [0.0, -0.0, math.nan, math.inf, -math.inf, 0.5, -0.5, 1.5, 2.5, 255.5, 256, -1, 1e5,
                 3e9, -3e9, 1e19, -1e19, 1e300, 65519, 65520, 1 + 2**-11, 1 + 2**-11 + 2**-40,
                 1 + 2**-8, 1 + 2**-8 + 2**-35, 1 + 3 * 2**-9, 6e-8, 1e-40, 2**-25, 2**-25 + 2**-50]
            ).astype(source.numpy)  # fmt: skip
        values[: len(special)] = special
    elif source is not bool_:
        info = np.iinfo(source.numpy)
        values[:4] = info.min, info.max, info.max - 1, 0
        if source.itemsize >= 4:
            values[4:7] = 16777217, 65520, 65519
    kernel = unary_map(lambda x: s.cast(x, target), source)
    check(KernelCall(kernel, (50,), ((1,), (1,))), [(values, 0), guarded(target, 50)])


@pytest.mark.parametrize("lane", [None, 0, 1])
@pytest.mark.parametrize("classes", list(itertools.product((0, 1, STRIDED), repeat=2)))
@pytest.mark.parametrize("dtype", [float32, float64, uint8, bool_], ids=str)
def test_every_stride_class(dtype, classes, lane):
    sizes, numbers = (5, 19), {0: 0, 1: 1, STRIDED: 3}
    strides = tuple(numbers[c] for c in classes)
    kernel = unary_map(lambda x: x, dtype, classes, (STRIDED, 1), lane)
    call = KernelCall(kernel, sizes, (strides, (19, 1)))
    check(call, [(sample(dtype, 80), 2), guarded(dtype, 95)])
    back = unary_map(lambda x: x, dtype, (STRIDED, 1), (1, STRIDED), lane)
    check(KernelCall(back, sizes, ((19, 1), (1, 5))), [(sample(dtype, 95), 0), guarded(dtype, 95)])


@pytest.mark.parametrize(
    "sizes", [(2, 3, 4, 5, 9), (1, 1, 1, 1, 40), (7, 0, 2, 2, 8), (40, 1, 1, 1, 1)]
)
def test_many_axes(sizes):
    strides = [math.prod(sizes[i + 1 :]) for i in range(5)]
    coordinates = sum((s.axis(i) * (10**i) for i in range(1, 5)), s.axis(0))
    kernel = unary_map(
        lambda x: x + s.cast(coordinates, float32), float32, (STRIDED,) * 4 + (1,),
        (STRIDED,) * 4 + (1,), 4,
    )  # fmt: skip
    n = math.prod(sizes)
    check(
        KernelCall(kernel, sizes, (strides, strides)),
        [(sample(float32, n + 1), 0), guarded(float32, n)],
    )


def test_map_without_axes():
    kernel = unary_map(lambda x: -x, float32, (), (), None)
    check(KernelCall(kernel, (), ((), ())), [(sample(float32, 3), 1), guarded(float32, 1)])


@pytest.mark.parametrize("dtype", [float32, float64, int64, int32, bool_, float16], ids=str)
def test_scalars_and_positions(dtype):
    value = s.cast(load(0, dtype), float64) + s.cast(load(1, int64), float64)
    operands = (
        Operand(dtype, "scalar"), Operand(int64, "position", (STRIDED, 1)),
        Operand(float64, "out", (STRIDED, 1)),
    )  # fmt: skip
    kernel = Loops(2, 0, 1, operands, (), (Store(2, value, False),))
    number = 2.7182818284590452 if dtype.is_floating_point else 3
    call = KernelCall(kernel, (3, 11), ((), (100, 1), (11, 1)))
    check(call, [(None, 1), (None, 7), guarded(float64, 33)], [0.0, number])


def test_several_stores_are_computed_before_any_is_written():
    x, y = load(0, float32), load(1, float32)
    operands = (Operand(float32, "inout", (1,)), Operand(float32, "inout", (1,)))
    kernel = Loops(1, 0, 0, operands, (), (Store(0, y, False), Store(1, x, False)))
    check(
        KernelCall(kernel, (21,), ((1,), (1,))),
        [(sample(float32, 21), 0), (sample(float32, 21, 1), 0)],
    )


INTEGER_FUNCTIONS = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b, "mod": lambda a, b: a % b, "neg": lambda a, b: -a,
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << (b & 7), "shr": lambda a, b: a >> (b & 7),
    "max": s.maximum, "min": s.minimum, "lt": lambda a, b: a < b, "ge": lambda a, b: a >= b,
    "eq": s.eq, "ne": s.ne, "select": lambda a, b: s.select(a > b, a, b),
    "floordiv by 4": lambda a, b: a // 4, "mod by 4": lambda a, b: a % 4,
    "floordiv by 3": lambda a, b: a // 3, "mod by 3": lambda a, b: a % 3,
}  # fmt: skip


@pytest.mark.parametrize("lane", [0, None])
@pytest.mark.parametrize("dtype", [uint8, int8, int16, int32, uint32, int64], ids=str)
@pytest.mark.parametrize("name", INTEGER_FUNCTIONS)
def test_integer_functions(name, dtype, lane):
    info = np.iinfo(dtype.numpy)
    a, b = sample(dtype, 60), sample(dtype, 60, 1)
    a[:4], b[:4] = (info.min, info.max, info.min, 0), (-1 if dtype.is_signed else 1, 2, 3, 0)
    value = INTEGER_FUNCTIONS[name](load(0, dtype), load(1, dtype))
    operands = (*(Operand(dtype, "in", (1,)),) * 2, Operand(value.dtype, "out", (1,)))
    kernel = Loops(1, 0, lane, operands, (), (Store(2, value, False),))
    check(KernelCall(kernel, (60,), ((1,),) * 3), [(a, 0), (b, 0), guarded(value.dtype, 60)])


FLOAT_FUNCTIONS = {
    "add": lambda a, b: a + b, "div": lambda a, b: a / b,
    "neg": lambda a, b: -a, "max": s.maximum, "min": s.minimum, "abs": lambda a, b: s.abs_(a),
    "sqrt": lambda a, b: s.sqrt(a), "floor": lambda a, b: s.floor(a),
    "rint": lambda a, b: s.rint(a), "ceil": lambda a, b: s.ceil(a),
    "trunc": lambda a, b: s.trunc(a), "isnan": lambda a, b: s.isnan(a),
    "lt": lambda a, b: a < b, "ne": s.ne, "eq": s.eq, "not": lambda a, b: ~(a < b),
    "logic": lambda a, b: ((a < b) & s.isnan(a)) ^ (a > 0.0),
}  # fmt: skip


@pytest.mark.parametrize("lane", [0, None])
@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
@pytest.mark.parametrize("name", FLOAT_FUNCTIONS)
def test_float_functions_keep_nan_and_infinity(name, dtype, lane):
    special = [0.0, -0.0, math.nan, math.inf, -math.inf, 0.5, 1.5, -2.5, 3.0]
    pairs = np.array(list(itertools.product(special, special)), dtype.numpy)
    a, b = pairs[:, 0].copy(), pairs[:, 1].copy()
    value = FLOAT_FUNCTIONS[name](load(0, dtype), load(1, dtype))
    operands = (*(Operand(dtype, "in", (1,)),) * 2, Operand(value.dtype, "out", (1,)))
    kernel = Loops(1, 0, lane, operands, (), (Store(2, value, False),))
    check(
        KernelCall(kernel, (len(a),), ((1,),) * 3), [(a, 0), (b, 0), guarded(value.dtype, len(a))]
    )


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
@pytest.mark.parametrize(
    "function", [s.exp, s.log, s.tanh, s.sin, s.cos, s.erf], ids=lambda f: f.__name__
)
def test_transcendental_functions(function, dtype):
    x = np.concatenate([sample(dtype, 200) * 3, np.array([0, 1, math.inf, -math.inf, math.nan])])
    x = x.astype(dtype.numpy)
    kernel = unary_map(function, dtype)
    check(KernelCall(kernel, (205,), ((1,), (1,))), [(x, 0), guarded(dtype, 205)], ulps=4)


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
@pytest.mark.parametrize("function", [s.sin, s.cos, trigonometry.tan], ids=lambda f: f.__name__)
def test_large_angles_in_some_lanes(function, dtype):
    x = (sample(dtype, 205) * 3).astype(dtype.numpy)
    x[[3, 70, 71, 140, 204]] = [1e6, -3e9, math.inf, 7e30, 2.0**127]
    kernel = unary_map(lambda x: function(x) * x, dtype)
    check(KernelCall(kernel, (205,), ((1,), (1,))), [(x, 0), guarded(dtype, 205)], ulps=4)


def test_high_word_of_a_product():
    words = np.random.default_rng(0).integers(0, 2**32, 40, np.uint32)
    kernel = unary_map(lambda x: s.mulhi(x, 0xD2511F53), uint32)
    check(KernelCall(kernel, (40,), ((1,), (1,))), [(words, 0), guarded(uint32, 40)])


def test_bits_of_floats():
    kernel = unary_map(lambda x: s.bitcast(x, int32) >> 23, float32)
    check(KernelCall(kernel, (40,), ((1,), (1,))), [(sample(float32, 40), 0), guarded(int32, 40)])


def test_half_precision_arithmetic_in_float32():
    for dtype in (float16, bfloat16):
        kernel = unary_map(lambda x: s.cast(s.cast(x, float32) * 1.1, dtype), dtype)  # noqa: B023
        check(KernelCall(kernel, (40,), ((1,), (1,))), [(sample(dtype, 40), 0), guarded(dtype, 40)])


def test_a_deep_expression_needs_no_deep_stack():
    def body(x):
        for _ in range(3000):
            x = x + 1.0
        return x

    kernel = unary_map(body, float32)
    check(
        KernelCall(kernel, (9,), ((1,), (1,))),
        [(sample(float32, 9), 0), guarded(float32, 9)],
        widths=(32,),
        ulps=1,
    )


# --- reductions --------------------------------------------------------------------------------


def row_kernel(reductions, stores, dtype=float32, lane: int | None = 1) -> Loops:
    """Rows of operand 0; outputs are operand 1 (per element) or 2 (per row)."""
    operands = (
        Operand(dtype, "in", (STRIDED, 1)), Operand(dtype, "out", (STRIDED, 1)),
        Operand(stores[-1].value.dtype, "out", (1, 0)),
    )  # fmt: skip
    return Loops(1, 1, lane, operands, tuple(reductions), tuple(stores))


def check_rows(kernel: Loops, rows: int, columns: int, x: np.ndarray, ulps: float) -> None:
    call = KernelCall(kernel, (rows, columns), ((columns, 1), (columns, 1), (1, 0)))
    last = kernel.operands[2].dtype
    outputs = [guarded(kernel.operands[1].dtype, rows * columns), guarded(last, rows)]
    check(call, [(x, 0), *outputs], ulps=ulps)


@pytest.mark.parametrize("lane", [1, 0, None])
@pytest.mark.parametrize("columns", SIZES)
def test_sum_at_every_size(columns, lane):
    kernel = row_kernel([total(load(0, float32))], [Store(2, reduced(0), False)], lane=lane)
    for rows in (1, 3, 35):
        check_rows(kernel, rows, columns, sample(float32, rows * columns + 1), ulps=40)


@pytest.mark.parametrize("lane", [1, 0, None])
@pytest.mark.parametrize("dtype", [float64, int64, int32, uint8, int16], ids=str)
def test_sum_and_maximum_of_every_dtype(dtype, lane):
    x = load(0, dtype)
    kernel = row_kernel(
        [total(x), largest(x)],
        [Store(2, reduced(0, dtype) * 2 + reduced(1, dtype), False)], dtype, lane,
    )  # fmt: skip
    check_rows(kernel, 5, 77, sample(dtype, 5 * 77), ulps=40)


@pytest.mark.parametrize("lane", [1, 0, None])
@pytest.mark.parametrize("columns", [1, 8, 13, 200])
def test_any_and_all(columns, lane):
    x = load(0, bool_)
    either = fold((x,), lambda a, b: (a[0] | b[0],), (False,))
    both = fold((x,), lambda a, b: (a[0] & b[0],), (True,))
    value = s.cast(reduced(0, bool_), int32) * 2 + s.cast(reduced(1, bool_), int32)
    kernel = row_kernel([either, both], [Store(2, value, False)], bool_, lane)
    flags = np.zeros((40, columns), bool)
    flags[1:20] = sample(bool_, 19 * columns).reshape(19, columns)
    flags[20:] = True
    check_rows(kernel, 40, columns, flags.ravel(), ulps=0)


@pytest.mark.parametrize("lane", [1, 0, None])
@pytest.mark.parametrize("columns", [1, 7, 8, 10, 65, 300])
def test_softmax(columns, lane):
    x = load(0, float32)
    e = s.exp(x - reduced(0))
    kernel = row_kernel(
        [largest(x), total(e)],
        [Store(1, e / reduced(1), True), Store(2, s.log(reduced(1)) + reduced(0), False)],
        lane=lane,
    )  # fmt: skip
    check_rows(kernel, 5, columns, sample(float32, 5 * columns) * 10, ulps=8)


def test_exponentials_that_were_summed_are_kept_where_the_result_will_lie():
    x = load(0, float32)
    e = s.exp(x - reduced(0))
    folds = [largest(x), total(e)]
    shifted = Store(1, e / reduced(1), True)
    kept = keep_values(row_kernel(folds, [shifted, Store(2, reduced(1), False)]))
    assert kept.stores == (
        Store(1, load(1, float32) / reduced(1), True), Store(2, reduced(1), False),
        Store(1, e, True),
    )  # fmt: skip
    assert [stores for _, stores in kept.passes] == [(), (2,), (0,)]
    # What is rounded on the way to memory, cheap, or needed before it is finished is not kept.
    others = [
        row_kernel(folds, [Store(1, s.cast(e / reduced(1), float16), True)], float16),
        row_kernel([largest(x), total(x - reduced(0))], [Store(1, x - reduced(0), True)]),
        row_kernel([total(s.exp(x))], [Store(1, s.exp(x) + 1.0, True)]),
    ]
    assert [keep_values(kernel) for kernel in others] == others


@pytest.mark.parametrize("lane", [1, 0, None])
@pytest.mark.parametrize("columns", [1, 9, 64, 100])
def test_layer_norm(columns, lane):
    x = load(0, float32)
    mean = reduced(0) / float(columns)
    centred = x - mean
    scale = 1.0 / s.sqrt(reduced(1) / float(columns) + 1e-5)
    kernel = row_kernel(
        [total(x), total(centred * centred)],
        [Store(1, centred * scale, True), Store(2, mean, False)],
        lane=lane,
    )  # fmt: skip
    check_rows(kernel, 19, columns, sample(float32, 19 * columns), ulps=30)


@pytest.mark.parametrize("lane", [1, 0, None])
@pytest.mark.parametrize("columns", [1, 5, 8, 31, 32, 33, 100])
def test_argmax_with_nan_and_ties(columns, lane):
    x = np.random.default_rng(0).integers(0, 6, 23 * columns).astype(np.float32)
    x[x == 5] = np.random.default_rng(1).choice([5, math.nan, -math.inf], (x == 5).sum())
    kernel = row_kernel(
        [argmax(load(0, float32), s.axis(1))],
        [Store(2, reduced(0, int64, 1), False)], lane=lane,
    )  # fmt: skip
    check_rows(kernel, 23, columns, x, ulps=0)
    call = KernelCall(kernel, (23, columns), ((columns, 1), (columns, 1), (1, 0)))
    out = np.zeros(23, np.int64)
    run_native(call, [(x, 0), (np.zeros_like(x), 0), (out, 0)])
    np.testing.assert_array_equal(out, np.argmax(x.reshape(23, columns), axis=1))


@pytest.mark.parametrize("lane", [0, 1, 2, 3, None])
@pytest.mark.parametrize(
    "sizes", [(3, 4, 5, 17), (9, 1, 1, 3), (2, 17, 0, 5), (1, 40, 3, 2), (0, 2, 3, 4)]
)
def test_several_outer_and_inner_axes(sizes, lane):
    strides = [math.prod(sizes[i + 1 :]) for i in range(4)]
    x = load(0, float32) * load(1, float32)
    operands = (
        Operand(float32, "in", (STRIDED, STRIDED, STRIDED, 1)),
        Operand(float32, "in", (1, 0, STRIDED, 0)),
        Operand(float32, "out", (STRIDED, 1, 0, 0)),
        Operand(float32, "out", (STRIDED, STRIDED, STRIDED, 1)),
    )  # fmt: skip
    stores = (Store(3, x - reduced(0), True), Store(2, reduced(0), False))
    kernel = Loops(2, 2, lane, operands, (total(x),), stores)
    n = math.prod(sizes)
    call = KernelCall(kernel, sizes, (strides, (1, 0, 2, 0), (sizes[1], 1, 0, 0), strides))
    arrays = [(sample(float32, n + 1), 0), (sample(float32, 50), 0)]
    outputs = [guarded(float32, sizes[0] * sizes[1]), guarded(float32, n)]
    check(call, [*arrays, *outputs], ulps=40)


def test_full_reduction_runs_in_share_zero_only():
    operands = (Operand(float32, "in", (1,)), Operand(float32, "out", (0,)))
    kernel = Loops(0, 1, 0, operands, (total(load(0, float32)),), (Store(1, reduced(0), False),))
    for n in SIZES:
        check(
            KernelCall(kernel, (n,), ((1,), (0,))),
            [(sample(float32, n + 1), 0), guarded(float32, 1)],
            ulps=40,
        )


@pytest.mark.parametrize("lane", [2, 0, None])
@pytest.mark.parametrize(("parts", "columns"), [(1, 5), (2, 65), (3, 130), (5, 500), (4, 64)])
def test_parts_of_a_cut_axis(parts, columns, lane):
    # Parts have a multiple of 64 points; some of the last may have none.
    x, rows = load(0, float32), 9
    operands = (
        Operand(float32, "in", (STRIDED, 0, 1)), Operand(float32, "out", (STRIDED, 0, 1)),
        Operand(float32, "out", (1, STRIDED, 0)), Operand(float32, "out", (1, STRIDED, 0)),
    )  # fmt: skip
    stores = (Store(1, x * 2.0, True), Store(2, reduced(0), False), Store(3, reduced(1), False))
    kernel = Loops(2, 1, lane, operands, (total(x), largest(x)), stores, cut=2)
    strides = ((columns, 0, 1), (columns, 0, 1), (1, rows, 0), (1, rows, 0))
    call = KernelCall(kernel, (rows, parts, columns), strides)
    outputs = [guarded(float32, rows * n) for n in (columns, parts, parts)]
    check(call, [(sample(float32, rows * columns + 1), 0), *outputs], ulps=40)


@pytest.mark.parametrize("lane", [1, 0])
def test_a_sum_of_many_blocks(lane):
    # Three blocks of 64 turns and more, at every width.
    kernel = row_kernel([total(load(0, float32))], [Store(2, reduced(0), False)], lane=lane)
    for columns in (64 * 3, 64 * 64 + 5, 13001):
        check_rows(kernel, 3, columns, np.full(3 * columns + 1, 0.1, np.float32), ulps=40)


# --- text --------------------------------------------------------------------------------------


def golden_kernels() -> dict[str, Loops]:
    x = load(0, float32)
    bias = load(1, float32)
    operands = (
        Operand(float32, "in", (STRIDED, 1)), Operand(float32, "in", (0, 1)),
        Operand(float32, "out", (STRIDED, 1)),
    )  # fmt: skip
    relu = Loops(2, 0, 1, operands, (), (Store(2, s.maximum(x + bias, 0.0), False),))
    centred = row_kernel([total(x)], [Store(1, x - reduced(0), True), Store(2, reduced(0), False)])
    return {"bias_relu": relu, "centred_rows": centred}


@pytest.mark.parametrize("name", golden_kernels())
def test_golden_text(name):
    text = render(golden_kernels()[name], vector_bytes=32)
    assert text == (GOLDEN / f"{name}.ll").read_text(), "see the top of this file for how to update"


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
def test_text_parses_at_every_width(vector_bytes):
    kernels = [
        *golden_kernels().values(),
        embedding(1),
        embedding(0),
        Contraction(float16, float32),
        Contraction(float16, float32, (3, 2)),
    ]
    for kernel in kernels:
        text = render(kernel, vector_bytes=vector_bytes)
        llvm.parse_assembly(text).verify()
        assert text == render(kernel, vector_bytes=vector_bytes)


def test_only_contraction_loosens_arithmetic():
    contractions = (Contraction(float32, float32), Contraction(float32, float32, (3, 2)))
    for kernel in [*golden_kernels().values(), *contractions]:
        text = render(kernel, vector_bytes=32)
        assert not any(flag in text for flag in ("fast", "reassoc", "nnan", "ninf", "nsz"))


if __name__ == "__main__":
    for key, golden in golden_kernels().items():
        (GOLDEN / f"{key}.ll").write_text(render(golden, vector_bytes=32))
