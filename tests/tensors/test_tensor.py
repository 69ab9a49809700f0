"""Tensors by themselves: dtypes, NumPy, random numbers and how they print."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.helpers.engine_common import leaf, refused

import contraflow as cf
from contraflow.dtypes import bool_
from contraflow.tensors.tensor import Tensor
from contraflow.testing import assert_close

# --- dtypes --------------------------------------------------------------------------------------

# PyTorch's promotion of two tensors with dimensions, in the order of `dtypes.ALL`.
B, U, I8, I16, I32, I64 = bool_, cf.uint8, cf.int8, cf.int16, cf.int32, cf.int64
F16, BF, F32, F64 = cf.float16, cf.bfloat16, cf.float32, cf.float64
ORDER = (B, U, I8, I16, I32, I64, F16, BF, F32, F64)
PROMOTED = (
    (B,   U,   I8,  I16, I32, I64, F16, BF,  F32, F64),
    (U,   U,   I16, I16, I32, I64, F16, BF,  F32, F64),
    (I8,  I16, I8,  I16, I32, I64, F16, BF,  F32, F64),
    (I16, I16, I16, I16, I32, I64, F16, BF,  F32, F64),
    (I32, I32, I32, I32, I32, I64, F16, BF,  F32, F64),
    (I64, I64, I64, I64, I64, I64, F16, BF,  F32, F64),
    (F16, F16, F16, F16, F16, F16, F16, F32, F32, F64),
    (BF,  BF,  BF,  BF,  BF,  BF,  F32, BF,  F32, F64),
    (F32, F32, F32, F32, F32, F32, F32, F32, F32, F64),
    (F64, F64, F64, F64, F64, F64, F64, F64, F64, F64),
)  # fmt: skip


def test_promotion_of_two_tensors() -> None:
    for a, row in zip(ORDER, PROMOTED):
        for b, expected in zip(ORDER, row):
            assert (cf.ones(2, dtype=a) + cf.ones(2, dtype=b)).dtype is expected
            assert (cf.ones((), dtype=a) * cf.ones((), dtype=b)).dtype is expected


@pytest.mark.parametrize(
    ("full", "zero", "expected"),
    [
        (F32, F64, F32), (F16, F64, F16), (BF, F32, BF), (I8, I64, I8), (U, I64, U),
        (I64, F16, F16), (I64, F64, F64), (B, I8, I8), (B, F64, F64),
        (F64, I64, F64), (I32, B, I32),
    ],
)  # fmt: skip
def test_promotion_with_a_0d_tensor(full: cf.dtype, zero: cf.dtype, expected: cf.dtype) -> None:
    a, b = cf.ones(2, dtype=full), cf.ones((), dtype=zero)
    assert (a + b).dtype is expected
    assert (b + a).dtype is expected
    assert (a + b).shape == (2,)


@pytest.mark.parametrize("shape", [(2,), ()])
@pytest.mark.parametrize(
    ("dtype", "number", "expected"),
    [
        (F16, 2.0, F16), (BF, 2.0, BF), (F32, 2.0, F32), (F64, 2.0, F64), (F16, 2, F16),
        (I64, 2.0, F32), (I8, 2, I8), (U, 2, U), (I8, True, I8), (B, True, B), (B, 2, I64),
        (B, 2.0, F32), (F64, True, F64),
    ],
)  # fmt: skip
def test_promotion_with_a_number(
    shape: tuple[int, ...], dtype: cf.dtype, number: Any, expected: cf.dtype
) -> None:
    x = cf.ones(shape, dtype=dtype)
    assert (x * number).dtype is expected
    assert (number * x).dtype is expected
    assert cf.where(cf.ones(shape, dtype=B), x, number).dtype is expected


def test_promotion_follows_the_default_dtype() -> None:
    before = cf.get_default_dtype()
    try:
        cf.set_default_dtype(F64)
        assert (cf.ones(2, dtype=I64) * 2.0).dtype is F64
        assert cf.tensor([1.5]).dtype is F64
        assert cf.tensor([1, 2]).exp().dtype is F64
        assert (cf.ones(2, dtype=F32) * 2.0).dtype is F32
    finally:
        cf.set_default_dtype(before)
    assert (cf.ones(2, dtype=I64) * 2.0).dtype is F32
    with refused(TypeError, "set_default_dtype: int64 is not a floating-point dtype."):
        cf.set_default_dtype(I64)


def test_dtype_rules_of_other_ops() -> None:
    x = cf.tensor([3, 4], dtype=I32)
    assert (x / x).dtype is F32
    assert x.exp().dtype is F32
    assert x.sum().dtype is I64
    assert cf.ones(2, dtype=B).sum().dtype is I64
    assert cf.ones(2, dtype=F16).sum().dtype is F16
    assert (x == x).dtype is B
    assert x.amax().dtype is I32
    assert x.argsort().dtype is I64
    assert (x < 3.5).tolist() == [True, False]


def test_gradients_cross_dtypes() -> None:
    x = cf.ones(2, dtype=F16, requires_grad=True)
    y = cf.ones((), dtype=F64, requires_grad=True)
    (x * y * cf.ones(2, dtype=F32)).sum().backward()
    assert x.grad.dtype is F16
    assert y.grad.dtype is F64
    assert y.grad.item() == 2.0


def test_half_precision_overflows_without_a_warning() -> None:
    x = cf.tensor([60000.0], dtype=F16)
    assert (x * 2.0).item() == np.inf
    assert cf.tensor([1e6]).to(F16).item() == np.inf
    assert cf.ones(70000, dtype=F16).mean().item() == 1.0
    assert cf.ones(70000, dtype=F16).sum().item() == np.inf


def test_the_users_error_state_is_not_touched() -> None:
    before = np.geterr()
    (cf.zeros(2) / cf.zeros(2)).log()
    assert np.geterr() == before
    with np.errstate(all="raise"):
        assert np.isnan((cf.zeros(1) / 0.0).item())
        with pytest.raises(FloatingPointError):
            np.float64(1.0) / np.zeros(1)


# --- NumPy and Python ----------------------------------------------------------------------------


def test_numpy_on_either_side_of_an_operator() -> None:
    x = leaf(1.0, 2.0)
    array = np.array([3.0, 4.0])
    for y in (x * array, array * x, x * np.float64(3.0), np.float32(3.0) * x):
        assert isinstance(y, Tensor)
        assert y.requires_grad
        assert y.shape == (2,)
    assert_close(array - x, np.array([2.0, 2.0]))
    assert_close(x @ array, np.array(11.0))
    assert_close(np.eye(2) @ x, np.array([1.0, 2.0]))
    with pytest.raises(TypeError, match="dtype: complex128 is not supported"):
        x * np.array([1j, 1j])
    with pytest.raises(TypeError, match="unsupported operand"):
        x + "a"


def test_matmul_by_operator_takes_vectors_as_the_function_does() -> None:
    a, v = cf.ones(2, 3), cf.ones(3)
    assert (a @ v).shape == cf.matmul(a, v).shape == (2,)
    assert (v @ a.T).shape == (2,)
    assert (v @ v).item() == 3.0


def test_matmul_of_many_batch_dims() -> None:
    a, b = cf.rand(*(2, 1) * 5, 2, 3), cf.rand(*(1, 2) * 5, 3, 2)
    expected = a.numpy() @ b.numpy()
    assert_close(a @ b, expected)
    assert_close(cf.compile(lambda a, b: a @ b)(a, b), expected)


@pytest.mark.parametrize(
    "make",
    [
        lambda a: a, lambda a: a.T, lambda a: a[::2], lambda a: a[:, 1], lambda a: a[1:1],
        lambda a: np.asfortranarray(a), lambda a: a[1:, ::3],
    ],
)  # fmt: skip
def test_from_numpy_shares_memory(make: Callable[[np.ndarray], np.ndarray]) -> None:
    array = make(np.arange(24.0).reshape(4, 6))
    x = cf.from_numpy(array)
    assert_close(x, array, 0.0, 0.0)
    array += 1.0
    assert_close(x, array, 0.0, 0.0)
    x.mul_(2.0)
    assert_close(x, array, 0.0, 0.0)


def test_lists_and_arrays_select_along_the_first_dim() -> None:
    x = cf.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert x[[1, 0]].tolist() == [[3.0, 4.0], [1.0, 2.0]]
    assert x[np.array([1])].tolist() == [[3.0, 4.0]]
    assert cf.arange(200)[cf.tensor([-1], dtype=I8)].tolist() == [199]
    with refused(
        IndexError,
        "getitem: 1 indices are too many for float32[]. Use item() for the number in it.",
    ):
        cf.ones(())[cf.tensor(0)]


def test_wrong_arguments_are_refused_by_name() -> None:
    x = cf.ones(2, 3)
    with refused(TypeError, "reshape: argument 'dims' is unknown. It takes x, shape."):
        x.reshape(dims=6)
    assert x.reshape(shape=6).shape == x.reshape(6).shape == x.reshape((6,)).shape == (6,)
    assert cf.ones(()).transpose(0, -1).shape == ()
    with refused(TypeError, "matmul: expected a tensor, not float."):
        x @ 2.0
    with refused(TypeError, "reshape: shape (2.5, 2) must be integers."):
        cf.ones(5).reshape(2.5, 2)
    assert (x.size(-1), x.stride(0), x.stride()) == (3, 3, (3, 1))
    for name in ("size", "stride"):
        with pytest.raises(IndexError, match=f"{name}: dim 2 is out of range"):
            getattr(x, name)(2)
    with refused(TypeError, "setitem: expected a tensor or a number, not list. ",
                 "Make it one: contraflow.tensor(x)."):  # fmt: skip
        x[0] = [1.0, 2.0, 3.0]
    with refused(ValueError, "copy_: float32[2, 2, 3] does not fit into float32[2, 3]."):
        x.copy_(cf.ones(2, 2, 3))
    with refused(ValueError, "rand: size -1 in shape (-1,) is negative."):
        cf.rand(-1)


def test_empty_views_beyond_the_end() -> None:
    x = cf.ones(3, 2)
    assert x[3:].shape == (0, 2)
    assert x[3:, 1:].sum().item() == 0.0
    assert cf.ones(0, 2)[:, 1:].T.clone().shape == (1, 0)


# --- random numbers ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("draw", "blocks"),
    [
        (lambda: cf.rand(10), 3),
        (lambda: cf.randn(10), 3),
        (lambda: cf.rand(10, dtype=cf.float64), 5),
        (lambda: cf.randn(3, 3, dtype=cf.float64), 5),
        (lambda: cf.rand(0), 0),
        (lambda: cf.dropout(cf.ones(10), 0.5), 3),
        (lambda: cf.dropout(cf.ones(10), 0.5, False), 0),
    ],
)
def test_draws_repeat_after_manual_seed_and_advance(
    draw: Callable[[], Tensor], blocks: int
) -> None:
    cf.manual_seed(5)
    first = draw()
    assert cf.get_rng_state() == (5, blocks)
    second = draw()
    assert cf.get_rng_state() == (5, 2 * blocks)
    cf.manual_seed(5)
    assert_close(draw(), first, 0.0, 0.0)
    assert_close(draw(), second, 0.0, 0.0)
    if blocks:
        assert first.tolist() != second.tolist()
    saved = cf.get_rng_state()
    third = draw()
    cf.set_rng_state(saved)
    assert_close(draw(), third, 0.0, 0.0)


def test_generators_are_independent() -> None:
    cf.manual_seed(1)
    mine = cf.Generator(5)
    a = cf.rand(4, generator=mine)
    assert cf.get_rng_state() == (1, 0)
    cf.manual_seed(5)
    assert_close(cf.rand(4), a, 0.0, 0.0)
    cf.manual_seed(-1)
    assert cf.get_rng_state() == (-1, 0)
    cf.manual_seed(2**64 - 1)
    assert cf.get_rng_state() == (-1, 0)
    with refused(TypeError, "manual_seed: 1.5 is not an integer."):
        cf.manual_seed(1.5)


@pytest.mark.parametrize("dtype", [F16, BF, F32, F64])
def test_uniform_numbers_stay_below_one(dtype: cf.dtype) -> None:
    cf.manual_seed(0)
    drawn = cf.rand(20_000, dtype=dtype)
    assert drawn.amin().item() >= 0.0
    assert drawn.amax().item() < 1.0
    assert abs(drawn.double().mean().item() - 0.5) < 0.01


def test_dropout_scales_what_survives_and_its_gradient() -> None:
    cf.manual_seed(0)
    x = cf.ones(1000, requires_grad=True)
    y = cf.dropout(x, 0.25)
    y.sum().backward()
    assert_close(x.grad, y.array)
    assert set(np.unique(y.detach().array)) == {np.float32(0.0), np.float32(1 / 0.75)}
    assert abs((y.detach().array == 0).mean() - 0.25) < 0.05
