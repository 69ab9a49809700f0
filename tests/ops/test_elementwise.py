"""Elementwise ops and activations: what the matrix cannot see.

PyTorch's signatures, values and gradients at kinks, zeros, infinities and NaN (each number below is
what torch 2.13 gives), integer and bool rules, in-place forms, and numbers as kernel arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import contraflow as cf
import contraflow.nn.functional as F
from contraflow import config
from contraflow.autograd import grad
from contraflow.compiler.fuse import fuse
from contraflow.compiler.kernel import Limits
from contraflow.compiler.passes import optimize
from contraflow.compiler.tape import Tape
from contraflow.tensors.tensor import Tensor

inf, nan = math.inf, math.nan


def values(x: Any) -> list[Any]:
    return x.detach().tolist()  # type: ignore[no-any-return]


def slopes(function: Callable[..., Tensor], *points: list[float]) -> list[list[float]]:
    """The gradients of a function of tensors at some points."""
    leaves = [cf.tensor(p, dtype=cf.float64, requires_grad=True) for p in points]
    return [values(g) for g in grad(function(*leaves).sum(), leaves)]


def same(found: list[Any], expected: list[Any]) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-12, equal_nan=True)


# --- gradients at special points -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "points", "expected"),
    [
        (F.hardtanh, [-1.0, 0.0, 1.0, nan], [0, 1, 0, 1]),
        (F.relu6, [0.0, 1.0, 6.0], [0, 1, 0]),
        (F.relu, [0.0, 1.0, nan], [0, 1, 1]),
        (F.hardswish, [-3.0, 0.0, 3.0, nan], [0, 0.5, 1, 1]),
        (F.hardsigmoid, [-3.0, 0.0, 3.0, nan], [0, 1 / 6, 0, 0]),
        (F.hardshrink, [-0.5, 0.0, 0.5, 0.6], [0, 0, 0, 1]),
        (F.softshrink, [-0.5, 0.0, 0.5, 0.6], [0, 0, 0, 1]),
        (F.leaky_relu, [-1.0, 0.0, 1.0], [0.01, 0.01, 1]),
        (F.elu, [-1000.0, 0.0, 1000.0, inf], [0, 1, 1, 1]),
        (F.celu, [-1000.0, 0.0, 1000.0, inf], [0, 1, 1, 1]),
        (F.softplus, [-1000.0, 0.0, 25.0, inf], [0, 0.5, 1, 1]),
        (F.logsigmoid, [-1000.0, 0.0, 1000.0, -inf], [1, 0.5, 0, 1]),
        (F.silu, [-1000.0, 0.0, 1000.0], [0, 0.5, 1]),
        (F.mish, [-1000.0, 0.0, 1000.0], [0, 0.6, 1]),
        (cf.sigmoid, [-1000.0, 0.0, 1000.0, -inf], [0, 0.25, 0, 0]),
        (cf.sinc, [-1.0, 0.0, 1.0], [1, 0, -1]),
        (cf.abs, [-1.0, 0.0, nan], [-1, 0, 0]),
        (cf.sqrt, [0.0, inf], [inf, 0]),
        (cf.round, [0.5, inf], [0, 0]),
        (cf.nan_to_num, [nan, inf, -inf, 1.0], [0, 0, 0, 1]),
        (cf.logit, [-0.5, 0.5, 1.5], [nan, 4, nan]),
        (lambda x: cf.logit(x, 0.1), [0.0, 0.5, 1.0], [0, 4, 0]),
        (lambda x: cf.clamp(x, -1, 1), [-2.0, -1.0, 0.0, 1.0, 2.0], [0, 1, 1, 1, 0]),
        (lambda x: F.threshold(x, 0.5, 7.0), [0.5, 0.6], [0, 1]),
    ],
)
def test_gradients_of_one_tensor(function: Any, points: list[float], expected: list[float]) -> None:
    same(slopes(function, points)[0], expected)


@pytest.mark.parametrize(
    ("function", "a", "b", "expected"),
    [
        (cf.maximum, [1.0, nan, 2.0], [1.0, 1.0, 1.0], [[0.5, 1, 1], [0.5, 1, 0]]),
        (cf.fmax, [1.0, nan, 2.0], [1.0, 1.0, nan], [[1, 0, 1], [0, 1, 0]]),
        (cf.fmin, [1.0, nan, 2.0], [1.0, 1.0, nan], [[1, 0, 1], [0, 1, 0]]),
        (cf.atan2, [0.0, 1.0], [0.0, 0.0], [[0, 0], [0, -1]]),
        (cf.hypot, [0.0, 3.0], [0.0, 4.0], [[nan, 0.6], [nan, 0.8]]),
        (cf.xlogy, [0.0, 1.0], [-1.0, 2.0], [[0, math.log(2)], [0, 0.5]]),
        (cf.copysign, [0.0, -2.0], [1.0, 1.0], [[0, -1], [0, 0]]),
        (cf.fmod, [7.0, -7.0], [3.0, 3.0], [[1, 1], [-2, 2]]),
        (cf.remainder, [7.0, -7.0], [3.0, 3.0], [[1, 1], [-2, 3]]),
        (cf.pow, [0.0, 0.0, 2.0], [0.0, 2.0, 0.0], [[0, 0, 0], [0, 0, math.log(2)]]),
        (cf.clamp_min, [1.0, 2.0], [1.0, 3.0], [[1, 0], [0, 1]]),
        (cf.dist, [1.0, 2.0], [1.0, 2.0], [[0, 0], [0, 0]]),
    ],
)
def test_gradients_of_two_tensors(function: Any, a: Any, b: Any, expected: Any) -> None:
    for found, wanted in zip(slopes(function, a, b), expected, strict=True):
        same(found, wanted)


@pytest.mark.parametrize(
    "function", [F.elu, F.celu, F.selu, F.softplus, F.silu, F.mish, F.logsigmoid]
)
def test_second_order_has_no_nan_where_exp_overflows(function: Any) -> None:
    x = cf.tensor([-1e4, -1.0, 0.0, 1e4], dtype=cf.float64, requires_grad=True)
    (first,) = grad(function(x).sum(), x, create_graph=True)
    (second,) = grad(first.sum(), x)
    assert np.isfinite(second.numpy()).all()
    assert second.tolist()[0] == second.tolist()[-1] == 0.0


def test_sigmoid_keeps_the_digits_of_small_results() -> None:
    x = cf.tensor([-87.0, -100.0, -1000.0, 1000.0])
    out = cf.sigmoid(x)
    np.testing.assert_allclose(out.numpy()[0], math.exp(-87), rtol=1e-6)
    assert out.numpy()[1] > 0
    assert values(out)[2:] == [0.0, 1.0]


# --- values --------------------------------------------------------------------------------------


def test_values_at_special_points() -> None:
    x = cf.tensor([nan, inf, -inf, -0.0])
    same(values(x.nan_to_num(1.0)), [1.0, 3.4028234663852886e38, -3.4028234663852886e38, 0.0])
    assert values(x.to(cf.float16).nan_to_num())[1] == 65504.0
    assert values(x.signbit()) == [bool(v) for v in np.signbit(x.numpy())]
    same(values(x.sign()), [0, 1, -1, 0])
    same(values(cf.heaviside(x, cf.tensor(0.5))), [0, 1, 0, 0.5])
    same(values(cf.logaddexp(cf.tensor([inf, -inf, 1e4]), cf.tensor([inf, -inf, 1e4]))),
         [inf, -inf, 1e4 + math.log(2)])  # fmt: skip
    same(values(cf.xlogy(cf.tensor([0.0, 0.0]), cf.tensor([0.0, nan]))), [0, nan])
    same(values(cf.clamp(cf.tensor([nan, 1.0]), 3, 2)), [nan, 2])
    same(values(cf.fmax(cf.tensor([nan, 1.0]), cf.tensor([1.0, nan]))), [1, 1])
    same(values(cf.tensor([0.5, 1.5, 2.5, -0.5]).round()), [0, 2, 2, 0])
    same(values(cf.tensor([1.2345, 25.0]).round(decimals=2)), [1.23, 25.0])
    same(values(cf.tensor([15.0, 25.0]).round(decimals=-1)), [20, 20])
    same(values(cf.hypot(cf.tensor([1e30, inf]), cf.tensor([1e30, nan]))), [1.4142135e30, inf])


@pytest.mark.parametrize(
    ("function", "numpy"),
    [
        (lambda a, b: a // b, np.floor_divide),
        (lambda a, b: a % b, np.remainder),
        (cf.fmod, np.fmod),
        (lambda a, b: cf.div(a, b, rounding_mode="trunc"), lambda a, b: np.trunc(a / b)),
        (lambda a, b: cf.div(a, b, rounding_mode="floor"), np.floor_divide),
    ],
)
@pytest.mark.parametrize("dtype", [cf.int64, cf.int32, cf.int8, cf.float32, cf.float64], ids=str)
@pytest.mark.parametrize("mode", ["off", "native"])
def test_division_in_every_quadrant(
    function: Any, numpy: Any, dtype: Any, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "compile_mode", mode)
    a, b = (v.ravel() for v in np.meshgrid([7, -7, 6, -6, 0, 1, -128], [1, -1, 2, -3, 7]))
    out = cf.compile(function)(cf.tensor(a, dtype=dtype), cf.tensor(b, dtype=dtype))
    assert out.dtype is dtype
    expected = np.asarray(numpy(a, b))
    wrapped = expected.astype(dtype.numpy) if dtype is cf.int8 else expected
    assert np.array_equal(out.numpy(), wrapped)


@pytest.mark.parametrize("mode", ["off", "native"])
@pytest.mark.parametrize("n", [1, 10_000])
def test_a_remainder_of_zero_has_the_sign_of_the_divisor(
    n: int, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in Python, in eager mode, whose small tensors NumPy computes, and in programs."""
    monkeypatch.setattr(config, "compile_mode", mode)
    a = np.tile(np.float32([-1, 1, -0.0, 0.0, 6, -6]), n)
    b = np.tile(np.float32([1, -1, 1, -1, -3, 3]), n)
    for function in (cf.remainder, cf.compile(cf.remainder)):
        out = function(cf.tensor(a), cf.tensor(b)).numpy()
        assert not out.any()
        np.testing.assert_array_equal(np.signbit(out), np.signbit(b))


@pytest.mark.parametrize("mode", ["off", "native"])
def test_fmod_of_a_huge_quotient_is_exact(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile_mode", mode)
    out = cf.compile(cf.fmod)(cf.tensor([1e20, -1e30]), cf.tensor([3.0, 7.0]))
    assert values(out) == [math.fmod(np.float32(1e20), 3), math.fmod(np.float32(-1e30), 7)]


@pytest.mark.parametrize("mode", ["off", "native"])
def test_shifts_by_too_many_bits(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile_mode", mode)
    x, n = cf.tensor([5, -5, 5, -5]), cf.tensor([64, 64, -1, -1])
    assert values(cf.compile(lambda a, b: a << b)(x, n)) == [0, 0, 0, 0]
    assert values(cf.compile(lambda a, b: a >> b)(x, n)) == [0, -1, 0, -1]


# --- dtypes --------------------------------------------------------------------------------------


def test_integer_and_bool_rules() -> None:
    i, b, f = cf.tensor([7, -7]), cf.tensor([True, False]), cf.tensor([1.5, 2.5])
    assert (i // 2).dtype is cf.int64
    assert (i // 2.0).dtype is cf.float32
    assert (i / 2).dtype is cf.float32
    assert cf.clamp(i, 0.5).dtype is cf.float32
    assert cf.clamp(i, max=3).dtype is cf.int64
    assert cf.floor(i).dtype is cf.int64
    assert cf.square(b).dtype is cf.int64
    assert cf.float_power(f, 2).dtype is cf.float64
    assert cf.copysign(i, -1).dtype is cf.float32
    assert (b & i).dtype is cf.int64
    assert (b << 1).dtype is cf.int64
    assert values(~i) == [-8, 6]
    assert values(~b) == [False, True]
    assert values(i ** cf.tensor([-1, 2])) == [0, 49]
    assert values(2 ** i.abs()) == [128, 128]
    assert F.relu6(i).dtype is cf.int64
    assert F.hardtanh(i).dtype is cf.int64
    assert F.threshold(i, 1, 5).dtype is cf.int64
    assert cf.atan2(i, i).dtype is cf.float32
    assert cf.isclose(i, i).tolist() == [True, True]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda i, b, f: 1 - b, TypeError, "sub: bool[2] is bool; it takes integer and floating"),
        (lambda i, b, f: b - b, TypeError, "sub: bool[2] is bool"),
        (lambda i, b, f: -b, TypeError, "neg: bool[2] is bool"),
        (lambda i, b, f: +b, TypeError, "positive: bool[2] is bool"),
        (lambda i, b, f: F.relu(b), TypeError, "relu: bool[2] is bool"),
        (lambda i, b, f: f & f, TypeError, "bitwise_and: float32[2] is float32; it takes bool and"),
        (lambda i, b, f: i & 1.5, TypeError, "bitwise_and: 1.5 is float32; it takes bool and"),
        (lambda i, b, f: f << 1, TypeError, "bitwise_left_shift: float32[2] is float32"),
        (lambda i, b, f: i**-1, ValueError, "pow: integers to the negative power -1 are"),
        (lambda i, b, f: i // 0, ZeroDivisionError, "floor_divide: integers cannot be divided"),
        (lambda i, b, f: i % 0, ZeroDivisionError, "remainder: integers cannot be divided by zero"),
        (lambda i, b, f: cf.clamp(i), ValueError, "clamp: min and max are both None"),
        (lambda i, b, f: cf.div(f, 2, rounding_mode="up"), ValueError, "rounding_mode is 'up'"),
        (lambda i, b, f: cf.add(i, i, alpha=0.5), TypeError, "add: alpha is 0.5, but no operand"),
        (lambda i, b, f: cf.round(i, decimals=1), TypeError, "round: int64[2] has no digits after"),
        (lambda i, b, f: i.sqrt_(), TypeError, "sqrt_: the result is float32 and cannot be"),
        (lambda i, b, f: F.leaky_relu(f, "0.1"), TypeError, "leaky_relu: expected a tensor or a"),
        (lambda i, b, f: cf.logit(f, epsilon=1), TypeError, "epsilon"),
    ],
)  # fmt: skip
def test_refusals(call: Any, error: type[Exception], text: str) -> None:
    i, b, f = cf.tensor([7, -7]), cf.tensor([True, False]), cf.tensor([1.5, 2.5])
    with pytest.raises(error) as caught:
        call(i, b, f)
    assert text in str(caught.value)


# --- signatures ----------------------------------------------------------------------------------


def test_pytorch_signatures() -> None:
    x, y = cf.tensor([1.0, -2.0, 3.0]), cf.tensor([2.0, 2.0, 2.0])
    assert values(cf.add(input=x, other=y, alpha=2)) == [5, 2, 7]
    assert values(x.sub(y, alpha=2)) == [-3, -6, -1]
    assert values(cf.rsub(x, y, alpha=2)) == [0, 6, -4]
    assert values(x.clamp(max=2)) == values(x.clip(None, 2)) == [1, -2, 2]
    assert values(x.clamp(min=y)) == values(x.clamp_min(y)) == [2, 2, 3]
    assert values(x.lerp(end=y, weight=0.5)) == [1.5, 0.0, 2.5]
    assert values(cf.addcmul(x, y, y, value=0.5)) == [3, 0, 5]
    assert values(cf.addcdiv(x, tensor1=y, tensor2=y, value=2)) == [3, 0, 5]
    assert values(cf.true_divide(x, 2)) == values(cf.divide(x, y)) == [0.5, -1, 1.5]
    assert values(x.greater(y)) == values(cf.gt(x, y)) == [False, False, True]
    assert values(cf.where(x > 0, x, 0.0)) == values(x.where(x > 0, 0.0)) == [1, 0, 3]
    assert cf.equal(x, x)
    assert not cf.equal(x, y)
    assert not cf.equal(x, cf.tensor([1.0]))
    assert cf.allclose(x, x * (1 + 1e-6))
    assert not x.allclose(y)
    same([cf.dist(x, y, p=p).item() for p in (0, 1, 2, inf)], [3, 6, math.sqrt(18), 4])
    same(values(F.softplus(x, beta=2, threshold=1)), [1.0, 0.00907496, 3.0])
    same(values(F.leaky_relu(x, negative_slope=0.5)), [1, -1, 3])
    same(values(F.hardtanh(x, -1.5, 2)), [1, -1.5, 2])
    same(values(F.rrelu(x, 0.2, 0.4)), [1, -0.6, 3])
    same(values(cf.polygamma(1, cf.tensor([1.0]))), [math.pi**2 / 6])


@pytest.mark.parametrize(
    "name", ["elu", "celu", "selu", "leaky_relu", "hardtanh", "silu", "mish", "hardswish", "relu6"]
)
def test_in_place_activations_keep_what_their_gradients_need(name: str) -> None:
    function = getattr(F, name)
    x = cf.tensor([-1.5, -0.5, 0.5, 1.5], requires_grad=True)
    y = x * 2.0
    assert function(y, inplace=True) is y
    same(values(y), values(function(x * 2.0)))
    (found,) = grad(y.sum(), x)
    (expected,) = grad(function(x * 2.0).sum(), x)
    same(values(found), values(expected))


@pytest.mark.parametrize("name", ["sin", "cos", "log", "square", "erf", "atan", "sinh", "logit"])
def test_in_place_functions_keep_what_their_gradients_need(name: str) -> None:
    x = cf.tensor([0.2, 0.5, 0.7], requires_grad=True)
    y = x * 1.0
    getattr(y, f"{name}_")()
    same(values(grad(y.sum(), x)[0]), values(grad(getattr(x, name)().sum(), x)[0]))


def test_in_place_operators() -> None:
    x = y = cf.tensor([7, 9])
    x //= 2
    x %= 3
    x <<= 4
    x |= 1
    x ^= 3
    x &= 0xFF
    x >>= 1
    assert x is y
    assert values(x) == [(((7 // 2 % 3) << 4 | 1) ^ 3) >> 1, (((9 // 2 % 3) << 4 | 1) ^ 3) >> 1]


# --- random ones ---------------------------------------------------------------------------------


def test_rrelu_draws_a_slope_for_each_element() -> None:
    cf.manual_seed(0)
    x = cf.full((1000,), -1.0).requires_grad_()
    out = F.rrelu(x, 0.1, 0.3, training=True)
    drawn = -out.detach().numpy()
    assert 0.1 <= drawn.min() < 0.11
    assert 0.29 < drawn.max() < 0.3
    same(values(grad(out.sum(), x)[0]), drawn.tolist())


def test_gumbel_softmax() -> None:
    cf.manual_seed(0)
    logits = cf.tensor([[0.0, 1.0, 2.0]], requires_grad=True).expand(20_000, 3)
    soft = F.gumbel_softmax(logits, tau=0.5)
    np.testing.assert_allclose(soft.detach().numpy().sum(1), 1.0, rtol=1e-5)
    hard = F.gumbel_softmax(logits, hard=True)
    drawn = hard.detach().numpy()
    assert set(np.unique(np.round(drawn, 5))) == {0.0, 1.0}
    expected = np.exp([0.0, 1.0, 2.0]) / np.exp([0.0, 1.0, 2.0]).sum()
    np.testing.assert_allclose(drawn.mean(0), expected, atol=0.01)
    assert hard.requires_grad


# --- compiled ------------------------------------------------------------------------------------


def test_numbers_are_arguments_of_kernels() -> None:
    """One kernel serves every slope, and every bound."""

    def kernel(call: str) -> Any:
        text = f"""
        tape t
          input %0 : float32[3, 4]  arg
          %1 = {call} : float32[3, 4]
          return %1
        """
        (use,) = fuse(optimize(Tape.parse(text).verify()), set(), Limits())
        return use.call.kernel

    for call in (
        "leaky_relu(%0, {})",
        "clamp(%0, {}, 9.0)",
        "softplus(%0, 2.0, {})",
        "pow(%0, {})",
    ):
        assert kernel(call.format(0.125)) == kernel(call.format(0.375))
    assert kernel("leaky_relu(%0, 0.125)") != kernel("elu(%0, 0.125)")


MIXED: list[tuple[Any, Any, Any, Any]] = [
    # what is called, its inputs, and the dtype to which they are promoted
    (cf.hypot, cf.tensor([3, 3]), cf.tensor([4.0, 4.0]), cf.float32),
    (cf.hypot, cf.tensor([3.0, 3.0], dtype=cf.float16), cf.tensor([4, 4]), cf.float16),
    (cf.logaddexp, cf.tensor([True, False]), cf.tensor([4.0, 4.0]), cf.float32),
    (cf.logaddexp2, cf.tensor([1, 2]), cf.tensor([4.0, 4.0]), cf.float32),
    (cf.remainder, cf.tensor([3.5, 4.5]), cf.tensor([True, True]), cf.float32),
    (cf.remainder, cf.tensor([True, False]), 3, cf.int64),
    (cf.floor_divide, cf.tensor([7, -7], dtype=cf.int8), cf.tensor([True, True]), cf.int8),
    (cf.fmod, cf.tensor([True, False]), cf.tensor([2.0, 3.0]), cf.float32),
    (cf.gcd, cf.tensor([4, 6], dtype=cf.int16), cf.tensor([True, False]), cf.int16),
    (cf.lcm, cf.tensor([True, True]), cf.tensor([4, 6]), cf.int64),
]


@pytest.mark.parametrize(("call", "a", "b", "dtype"), MIXED)
def test_inputs_are_promoted_before_their_dtype_is_judged(
    call: Any, a: Any, b: Any, dtype: Any
) -> None:
    cast = [x.to(dtype) if isinstance(x, cf.Tensor) else x for x in (a, b)]
    expected = call(*cast)
    for got in (call(a, b), cf.compile(lambda a, b: call(a, b))(a, b)):
        assert got.dtype is dtype
        np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-3)


@pytest.mark.parametrize("count", [1, 70000])
@pytest.mark.parametrize(("half", "n"), [(cf.float16, 2049), (cf.bfloat16, 257)])
def test_integers_beside_halves_are_not_rounded_first(half: Any, n: int, count: int) -> None:
    # n is no number of the half dtype: PyTorch rounds it to n - 1 before it computes.
    x = cf.full((count,), float(n - 1), dtype=half)
    integers = cf.full((count,), n)
    for other in (integers, n, cf.tensor(n), integers.to(cf.int16)):
        for wrap in (lambda f: f, cf.compile):
            assert wrap(lambda x, n: x - n)(x, other)[0].item() == -1.0
            assert wrap(lambda x, n: x % n)(x, other)[0].item() == n - 1
            assert wrap(lambda x, n: (x == n).any())(x, other).item() is False
            assert wrap(lambda x, n: x < n)(x, other)[0].item() is True
    assert (x - integers).dtype is half
    assert (x - integers.to(half))[0].item() == 0.0  # what PyTorch computes
    assert cf.maximum(x, integers)[0].item() == n - 1  # the result is rounded


LDEXP = [
    (0.0, 200, 0.0), (math.inf, -200, math.inf), (-math.inf, -(10**6), -math.inf),
    (1e-30, 150, np.ldexp(np.float32(1e-30), 150)), (1e30, -150, np.ldexp(np.float32(1e30), -150)),
    (1.0, 127, 2.0**127), (1.0, -149, 2.0**-149), (1.0, 128, math.inf), (-1.0, -151, -0.0),
    (2.0**-149, 276, 2.0**127), (1.0, 10**12, math.inf), (1.5, -149, 2.0**-148),
]  # fmt: skip


@pytest.mark.parametrize("exponents", [cf.int64, cf.float32])
def test_ldexp_is_exact_where_the_power_alone_is_not_finite(exponents: Any) -> None:
    x, n, expected = zip(*LDEXP)
    a, b = cf.tensor(x), cf.tensor(n).to(exponents)
    for call in (cf.ldexp, cf.compile(lambda a, b: cf.ldexp(a, b))):
        got = call(a, b).numpy()
        np.testing.assert_array_equal(got, np.array(expected, np.float32))
        np.testing.assert_array_equal(np.signbit(got), np.signbit(expected))
        single = [call(cf.tensor(v), int(m)).item() for v, m in zip(x, n)]
        np.testing.assert_array_equal(single, np.array(expected, np.float32))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_ldexp_rounds_once(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    reach = {np.float16: 60, np.float32: 330, np.float64: 2300}[dtype]
    bits = rng.integers(0, 2 ** (8 * dtype().itemsize - 1), 4000)
    bits[::2] >>= rng.integers(0, 40 if dtype is np.float64 else 8, 2000)  # subnormal ones too
    x = bits.astype(f"u{dtype().itemsize}").view(dtype)
    x[::3] = -x[::3]
    n = rng.integers(-reach, reach, 4000)
    a, b = cf.tensor(x), cf.tensor(n)
    with np.errstate(all="ignore"):
        expected = np.ldexp(x, n.astype(np.int32))
    for call in (cf.ldexp, cf.compile(lambda a, b: cf.ldexp(a, b))):
        np.testing.assert_array_equal(call(a, b).numpy(), expected)
        np.testing.assert_array_equal(call(a[:50], b[:50]).numpy(), expected[:50])


def test_ldexp_of_float64_takes_every_exponent() -> None:
    a = cf.tensor([1.0, 1e-300, 0.0, 3.0], dtype=cf.float64, requires_grad=True)
    n = cf.tensor([1023, 1500, 5000, -1074])
    for call in (cf.ldexp, cf.compile(lambda a, n: cf.ldexp(a, n))):
        out = call(a, n)
        assert out.tolist() == [2.0**1023, math.ldexp(1e-300, 1500), 0.0, 3 * 2.0**-1074]
        (found,) = grad(out[:1].sum(), a)
        assert found.tolist() == [2.0**1023, 0.0, 0.0, 0.0]


def test_ldexp_of_fractions_and_of_infinite_exponents() -> None:
    a = cf.tensor([1.0, 2.0, 0.0, 1.0, 3.0])
    b = cf.tensor([math.inf, -math.inf, math.inf, math.nan, -1.5])
    for call in (cf.ldexp, cf.compile(lambda a, b: cf.ldexp(a, b))):
        got = call(a, b).numpy()
        np.testing.assert_allclose(got, [math.inf, 0.0, math.nan, math.nan, 3 * 2**-1.5], rtol=1e-6)


def test_ldexp_keeps_the_dtype_of_a_half() -> None:
    x, n = cf.tensor([2.0**-12, 1.0], dtype=cf.float16), cf.tensor([20, 3])
    for call in (cf.ldexp, cf.compile(lambda x, n: cf.ldexp(x, n))):
        out = call(x, n)
        assert out.dtype is cf.float16
        assert out.tolist() == [256.0, 8.0]  # though 2**20 is no float16
    assert cf.ldexp(cf.tensor([1, 2]), n).dtype is cf.float32


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_frexp_takes_every_number_apart(dtype: Any) -> None:
    info = np.finfo(dtype)
    powers = np.arange(info.minexp - info.nmant, info.maxexp)
    x = np.concatenate([[0.0, -0.0, info.max], np.ldexp(dtype(1.0), powers)])
    for call in (cf.frexp, cf.compile(lambda x: cf.frexp(x))):
        for got, expected in zip(call(cf.tensor(x.astype(dtype))), np.frexp(x.astype(dtype))):
            np.testing.assert_array_equal(got.numpy(), expected)


@pytest.mark.parametrize("dtype", [cf.float32, cf.float64, cf.float16])
@pytest.mark.parametrize("name", ["i1", "i1e"])
def test_gradients_of_bessel_functions_beside_zero(name: str, dtype: Any) -> None:
    def gradient(x: Any) -> Any:
        return cf.autograd.grad(getattr(cf.special, name)(x).sum(), x)[0]

    # Subnormal numbers: 1 / x is infinite, and I1(x) may be 0.
    x = cf.tensor([5e-324, 1e-45, -1e-40, 1e-20, 0.0], dtype=dtype, requires_grad=True)
    assert gradient(x).tolist() == cf.compile(gradient)(x).tolist() == [0.5] * 5


def test_powers_of_masks() -> None:
    a, b = cf.tensor([True, True, False, False]), cf.tensor([True, False, True, False])
    for call in (cf.pow, cf.compile(lambda a, b: cf.pow(a, b))):
        assert call(a, b).tolist() == [True, True, False, True]
    assert cf.compile(lambda a: a**True)(a).tolist() == (a**True).tolist() == a.tolist()


# --- numbers that a dtype does not hold ----------------------------------------------------------

BOUNDS = [(-2, 5), (3, 300), (-300, 300), (-300, None), (None, 300)]


@pytest.mark.parametrize("dtype", [cf.uint8, cf.int8, cf.int16])
@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_bounds_beyond_the_range_of_integers_bound_nothing(low: Any, high: Any, dtype: Any) -> None:
    x = cf.tensor([0, 3, 100, 127], dtype=dtype)
    expected = np.clip(x.numpy().astype(np.float64), low, high).tolist()

    def clamps(x: Any, low: Any, high: Any) -> list[Any]:
        found = [x.clamp(low, high), x.clone().clamp_(low, high)]
        if low is not None and high is not None and type(low) is type(high):
            found += [cf.nn.functional.hardtanh(x, low, high), x.clamp_min(low).clamp_max(high)]
        return found

    for run in (clamps, cf.compile(clamps), cf.compile(lambda x, a, b: clamps(x, low, high))):
        for found in run(x, low, high):
            assert found.tolist() == expected


def test_bounds_that_no_integer_of_the_dtype_meets() -> None:
    x = cf.tensor([0, 3], dtype=cf.uint8)
    with pytest.raises(ValueError, match=r"clamp: min is 300, and uint8 ends at 255\."):
        x.clamp(300)
    with pytest.raises(ValueError, match=r"clamp_max: max is -1, and uint8 begins at 0\."):
        x.clamp_max(-1)
    assert cf.tensor([1, 2]).clamp(max=2**70).tolist() == [1, 2]


def test_a_mask_that_is_added_in_parts_counts_in_the_dtype_of_the_other() -> None:
    mask, one = cf.tensor([True, False]), cf.tensor(True)
    for run in (cf.add, cf.compile(cf.add)):
        assert repr(run(mask, mask, alpha=2)) == repr(mask)
        assert repr(run(~mask, mask, alpha=0)) == repr(~mask)
        found = run(cf.tensor([1, 2], dtype=cf.int32), one, alpha=2)
        assert found.tolist() == [3, 4]
        assert found.dtype is cf.int32


@pytest.mark.parametrize("number", [2.1, np.float64(2.1)])
def test_a_number_that_is_scaled_is_not_rounded_to_float32(number: float) -> None:
    x = cf.zeros(1, dtype=cf.float64)
    for add, sub in ((cf.add, cf.sub), (cf.compile(cf.add), cf.compile(cf.sub))):
        assert add(x, number, alpha=3).tolist() == [2.1 * 3]
        assert sub(x, number, alpha=3).tolist() == [-2.1 * 3]
