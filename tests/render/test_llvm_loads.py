"""Guarded and checked loads as machine code: nothing outside is read."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers.loops import embedding, guarded, load, sample
from tests.helpers.native import WIDTHS, check, run_native

from contraflow.compiler.kernel import (
    STRIDED,
    KernelCall,
    Loops,
    Operand,
    Store,
)
from contraflow.dtypes import (
    bool_,
    float16,
    float32,
    float64,
    int32,
    int64,
    uint8,
)  # fmt: skip
from contraflow.expressions import expression as s


@pytest.mark.parametrize("lane", [0, None])
@pytest.mark.parametrize("dtype", [float32, uint8, float64, bool_], ids=str)
def test_padding_reads_nothing_outside(dtype, lane):
    """x padded by three on both sides: a vector load under a mask."""
    i = s.axis(0)
    valid = (i >= 3) & (i < 20)
    value = load(0, dtype, s.const(0, int64), valid)
    operands = (Operand(dtype, "in", (1,)), Operand(dtype, "out", (1,)))
    kernel = Loops(1, 0, lane, operands, (), (Store(1, value, False),))
    check(KernelCall(kernel, (23,), ((1,), (1,))), [(sample(dtype, 17), -3), guarded(dtype, 23)])


@pytest.mark.parametrize("lane", [0, None])
def test_a_load_that_is_never_valid_touches_nothing(lane):
    """The address is far outside of everything: only a mask keeps this from crashing."""
    never = load(1, bool_)
    value = load(0, float32, s.const(1 << 40, int64), never)
    uniform = load(0, float32, s.axis(0) * (1 << 40), never)
    operands = (
        Operand(float32, "in", (1,)), Operand(bool_, "in", (1,)), Operand(float32, "out", (1,)),
    )  # fmt: skip
    kernel = Loops(1, 0, lane, operands, (), (Store(2, value + uniform, False),))
    arrays = [(sample(float32, 30), 0), (np.zeros(30, bool), 0), guarded(float32, 30)]
    check(KernelCall(kernel, (30,), ((1,),) * 3), arrays)


@pytest.mark.parametrize("dtype", [float32, float64, float16, int64, bool_, uint8], ids=str)
@pytest.mark.parametrize("columns", [1, 9, 16, 37])
def test_rows_that_are_read_backwards(dtype, columns):
    """x[i, columns - 1 - j], with zeros for the last column where a mask is asked for."""
    i, j = s.axis(0), s.axis(1)
    at = i * columns + (s.const(columns - 1, int64) - j)
    operands = (Operand(dtype, "in", (0, 0)), Operand(dtype, "out", (STRIDED, 1)))
    for more in ((), (j < columns - 1,)):
        kernel = Loops(2, 0, 1, operands, (), (Store(1, load(0, dtype, at, *more), False),))
        call = KernelCall(kernel, (3, columns), ((0, 0), (columns, 1)))
        check(call, [(sample(dtype, 3 * columns), 0), guarded(dtype, 3 * columns)])


@pytest.mark.parametrize("dtype", [float32, float64, float16, int64, bool_, uint8], ids=str)
@pytest.mark.parametrize("times", [2, 4, 32])
def test_neighbouring_lanes_that_share_an_element(dtype, times):
    """x[i - 1, j // times], with zeros for the first row and the last column."""
    rows, columns = 3, 37
    width = -(-columns // times)
    row, column = s.axis(0) - 1, s.axis(1) // times
    place = row * load(2, int64) + column - load(3, int64)
    kernel = Loops(
        2, 0, 1,
        (Operand(dtype, "in", (0, 0)), Operand(dtype, "out", (STRIDED, 1)),
         Operand(int64, "scalar"), Operand(int64, "scalar")),
        (), (Store(1, load(0, dtype, place, (row >= 0) & (s.axis(1) < columns - 1)), False),),
    )  # fmt: skip
    call = KernelCall(kernel, (rows, columns), ((0, 0), (columns, 1), (), ()))
    source = sample(dtype, (rows - 1) * width)
    arrays = [(source, 5), guarded(dtype, rows * columns), (None, 0), (None, 1)]
    check(call, arrays, [width, 5])


@pytest.mark.parametrize("index_dtype", [int64, int32, uint8], ids=str)
@pytest.mark.parametrize("lane", [1, 0, None])
def test_embedding(lane, index_dtype):
    table = sample(float32, 50 * 13)
    index = np.random.default_rng(0).integers(0, 50, 21).astype(index_dtype.numpy)
    call = KernelCall(embedding(lane, index_dtype), (21, 13), ((0, 1), (1, 0), (13, 1), (), ()))
    check(call, [(table, 0), (index, 0), guarded(float32, 21 * 13), (None, 0), (None, 1)], [50, 13])


@pytest.mark.parametrize("shares", [1, 2, 5])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("lane", [1, 0, None])
@pytest.mark.parametrize("bad", [-1, 50, 1 << 62, -(1 << 63)])
def test_an_index_out_of_range_is_recorded_and_touches_nothing(bad, lane, width, shares):
    table = sample(float32, 50 * 13)
    index = np.random.default_rng(0).integers(0, 50, 21)
    index[17] = bad
    out, expected = np.zeros((21, 13), np.float32), table.reshape(50, 13)[index % 50]
    expected[17] = 0
    call = KernelCall(embedding(lane), (21, 13), ((0, 1), (1, 0), (13, 1), (), ()))
    bound = [(table, 0), (index, 0), (out, 0), (None, 0), (None, 1)]
    errors = run_native(call, bound, [50, 13], width=width, edges=range(shares + 1), line=6)
    np.testing.assert_array_equal(out, expected)
    assert {record for record in errors if record[0]} == {(7, bad)}


@pytest.mark.parametrize("lane", [1, 0, None])
def test_checked_index_of_an_empty_table(lane):
    call = KernelCall(embedding(lane), (9, 5), ((0, 1), (1, 0), (5, 1), (), ()))
    out = np.ones(45, np.float32)
    # An address that must not be read: the table has no elements.
    bound = [
        (np.zeros(0, np.float32), 1 << 40),
        (np.zeros(9, np.int64), 0),
        (out, 0),
        (None, 0),
        (None, 1),
    ]
    assert run_native(call, bound, [0, 5], line=2) == [(3, 0)]
    assert not out.any()


def test_gather_with_an_index_per_element():
    """out[i] = x[index[i]] where i is the lane: a gather under the check's mask."""
    at = s.checked(load(1, int64), load(3, int64))
    operands = (
        Operand(float32, "in", (0,)), Operand(int64, "in", (1,)), Operand(float32, "out", (1,)),
        Operand(int64, "scalar"),
    )  # fmt: skip
    kernel = Loops(1, 0, 0, operands, (), (Store(2, load(0, float32, at), False),))
    index = np.random.default_rng(0).integers(0, 30, 45)
    call = KernelCall(kernel, (45,), ((0,), (1,), (1,), ()))
    check(call, [(sample(float32, 30), 0), (index, 0), guarded(float32, 45), (None, 0)], [30])
    index[[3, 44]] = 30, 77
    out = np.zeros(45, np.float32)
    errors = run_native(call, [(sample(float32, 30), 0), (index, 0), (out, 0), (None, 0)], [30])
    assert errors == [(1, 30)]
    assert out[3] == out[44] == 0.0
