"""Functions of scalars as kernels that renderers for GPUs are tested with."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
from tests.helpers.gpu_case import SPECIAL, Case, bind, case, empty, load, normal

from contraflow.compiler.kernel import (
    KernelCall,
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
    int32,
    int64,
    uint32,
)
from contraflow.expressions import expression as s
from contraflow.expressions.expression import Expr


def elementwise(values: list[np.ndarray], results: list[Expr]) -> Case:
    """A map over arrays of one size; results are expressions of `load(i, dtype)`."""
    inputs = [Operand(v[1], "in", (1,)) for v in map(_with_dtype, values)]
    outputs = [Operand(e.dtype, "out", (1,)) for e in results]
    stores = tuple(Store(len(values) + i, e, True) for i, e in enumerate(results))
    operands = (*inputs, *outputs)
    kernel = Loops(1, 0, 0, operands, (), stores)
    size = values[0].size
    arrays = [*map(bind, values), *(empty(size, e.dtype.numpy) for e in results)]
    return Case(KernelCall(kernel, (size,), ((1,),) * len(operands)), arrays)


def _with_dtype(values: np.ndarray) -> tuple[np.ndarray, DType]:
    names = {d.numpy: d for d in (bool_, int8, int32, int64, float16, bfloat16, float32, float64)}
    return values, names[values.dtype]


@case
def special_values() -> Case:
    """NaN and infinities survive max, min, rounding and comparisons."""
    left, right = (v.reshape(-1) for v in np.meshgrid(SPECIAL, SPECIAL))
    a, b = load(0, float32), load(1, float32)
    results = [
        s.maximum(a, b),
        s.minimum(a, b),
        s.isnan(a) | (a < b),
        s.select(s.ne(a, b), s.abs_(a), s.const(math.nan, float32)),
        s.select(b > 0.0, s.floor(a), s.const(-math.inf, float32)),
        s.sqrt(a) + s.rint(b),
    ]
    return elementwise([left, right], results)


@case
def transcendental() -> Case:
    """exp, log, erf, tanh and pow, at special values too."""
    values = np.concatenate([SPECIAL, 8 * normal(27, 500)]).astype(np.float32)
    x = load(0, float32)
    results = [s.exp(x), s.log(x), s.erf(x), s.tanh(x), s.pow_(s.abs_(x), 1.5)]
    return elementwise([values], results)


@case
def angles() -> Case:
    """Sine and cosine of small numbers and of large ones, whose reduction is one of integers."""
    large = 2.0 ** np.arange(14, 128) * 1.6180339
    values = np.concatenate([SPECIAL, 8 * normal(28, 300), large, -large]).astype(np.float32)
    x = load(0, float32)
    return elementwise([values], [s.sin(x), s.cos(x)])


@case
def integer_arithmetic() -> Case:
    """Division rounds down, by zero gives zero; overflow wraps; shifts keep the sign."""
    edges = np.array([0, 1, -1, 2, -2, 7, -7, 31, 2**31 - 1, -(2**31)], np.int32)
    left, right = (v.reshape(-1) for v in np.meshgrid(edges, edges))
    a, b = load(0, int32), load(1, int32)
    results = [a // b, a % b, a + b, a * b, -a, (a << 3) ^ (a >> 5)]
    return elementwise([left, right], results)


@case
def conversions() -> Case:
    """Floats to integers saturate and NaN becomes zero; anything but zero is true."""
    edges = np.array([2.9, -2.9, 2147483520, 2147483648, -2147483648, -3e9, 0.3], np.float32)
    values = np.concatenate([SPECIAL, edges])
    x = load(0, float32)
    truth = s.cast(x, bool_)
    whole = s.cast(x, int32)
    results = [whole, truth, s.cast(truth, float32) + s.cast(whole, float32)]
    results.append(s.bitcast(s.bitcast(x, uint32) ^ 0x80000000, float32))
    return elementwise([values], results)


@case
def truth_values() -> Case:
    """Comparisons and logic of bool operands."""
    left, right = np.array([0, 0, 1, 1], np.bool_), np.array([0, 1, 0, 1], np.bool_)
    a, b = load(0, bool_), load(1, bool_)
    return elementwise([left, right], [a < b, a >= b, a ^ b, ~a | b, s.maximum(a, b)])


@case
def narrow_types() -> Case:
    """bfloat16, float16 and int8 in memory; arithmetic rounds once per operation."""
    count = 300
    low = (normal(28, count) * 20).astype(ml_dtypes.bfloat16)
    half = np.concatenate([SPECIAL, normal(29, count - len(SPECIAL))])
    with np.errstate(over="ignore"):
        half = half.astype(np.float16)
    small = np.random.default_rng(30).integers(-128, 128, count).astype(np.int8)
    a, b, c = load(0, bfloat16), load(1, float16), load(2, int8)
    results = [
        a + a * a,
        s.cast(s.cast(a, float32) * s.cast(b, float32), bfloat16),
        s.cast(a, float16),
        b * b,
        c * c - c,
        s.cast(a * 10.0, int8),
    ]
    found = elementwise([low, half, small], results)
    found.webgpu = False
    return found


@case
def wide_types() -> Case:
    """float64 and int64 arithmetic, conversions and bits."""
    values = np.concatenate([SPECIAL.astype(np.float64), [1e19, -1e19, 2.0**62, 1e300]])
    whole = np.arange(values.size, dtype=np.int64) * 0x123456789ABCDEF
    x, n = load(0, float64), load(1, int64)
    results = [
        s.cast(x, int64),
        s.maximum(s.exp(x), x / 3.0),
        s.bitcast(s.bitcast(x, int64) ^ n, float64),
        n * n + (n >> 40),
        n // s.const(-7, int64),
        s.cast(n, float64),
    ]
    found = elementwise([values, whole], results)
    found.webgpu = False
    return found
