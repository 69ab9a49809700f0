"""Python numbers as arguments: host scalars where the function only computes with them."""

from __future__ import annotations

import enum
import math
import operator
import traceback
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import contraflow as cf
from contraflow.operation.op import REGISTRY
from contraflow.testing import assert_close, make_inputs

F = cf.nn.functional


pytestmark = pytest.mark.usefixtures("mode")


COMPUTED: dict[str, Callable[..., Any]] = {
    "mul": lambda x, n: x * n,
    "reversed": lambda x, n: n / (x + 5) - n,
    "arithmetic": lambda x, n: x * (n * 2 - 1) / (abs(n) + 0.5) + (-n) * 3,
    "power": lambda x, n: x * (1 - 0.9 ** (n + 0.5)),
    "an exponent of a tensor": lambda x, n: x.exp() ** (n * 0.01),
    "softmax": lambda x, n: F.softmax(x / (n + 10), 0),
    "add_": lambda x, n: x.clone().add_(n).mul_(n),
    "where": lambda x, n: cf.where(x > n, x, n),
    "clamp": lambda x, n: x.clamp(-n - 10, n + 10),
    "full": lambda x, n: cf.full((2,), n * 1.0) + x[0],
    "0-d": lambda x, n: x.sum() * n,
    "integers": lambda x, n: x.to(cf.int32) * n,
    "0-d integers": lambda x, n: x.sum().to(cf.int32) * n,
    "truth values": lambda x, n: (x > 0) * n,
    "half": lambda x, n: x.to(cf.bfloat16) * n,
    "isinstance": lambda x, n: x * n if isinstance(n, (int, float)) else x,
    "nested": lambda x, n: (lambda d: d["a"][0] * d["b"])({"a": [x], "b": n}),
    "comparison with a tensor": lambda x, n: (x < n, n >= x),
    "remainders": lambda x, n: x * (n % 3) + n // 2 - 7 % (n + 0.5),
    "whole powers": lambda x, n: x * n**2 + (n + 1) ** 3,
    "math": lambda x, n: x * math.sqrt(abs(n)) + math.floor(n) * math.exp(-abs(n)),
    "math of two": lambda x, n: x * math.hypot(n, 2) + math.atan2(1.0, n),
    "math by way of map": lambda x, n: x * sum(map(math.cos, [n, 0.5])),
    "returned": lambda x, n: (x * 1, n, n + 1),
}  # fmt: skip


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Rate(float):
    """A number whose text is no number."""

    def __repr__(self) -> str:
        return "a rate"

    __str__ = __repr__


def test_numbers_of_classes_of_the_user_s() -> None:
    function = cf.compile(lambda x, n: x * n + n)
    chosen = cf.compile(lambda x, n: x * Level(n % 2 + 1))
    x = cf.tensor([1.0, -2.0])
    for n in (Level.LOW, Level.HIGH, 2, 2.0, Rate(2.0), Rate("inf"), Rate("nan")):
        assert_close(function(x, n), x * float(n) + float(n))
    for n in range(5):
        assert_close(chosen(x, n), x * (n % 2 + 1))


@pytest.mark.parametrize("kind", [float, int])
@pytest.mark.parametrize("name", COMPUTED)
def test_numbers_that_are_computed_with(name: str, kind: type) -> None:
    function = COMPUTED[name]
    f = cf.compile(function)
    x = cf.randn(5)
    for value in (2.5, -1.25, 7.0, 0.0, 123.0):
        n = kind(value)
        got, want = f(x, n), function(x, n)
        for a, b in zip(*((t if isinstance(t, tuple) else (t,)) for t in (got, want))):
            assert_close(a, b)
    assert f.captures == 1


NEEDED: dict[str, Callable[..., Any]] = {
    "range": lambda x, n: sum((x * i for i in range(n)), x),
    "shape": lambda x, n: cf.zeros(n) + x.sum(),
    "slice": lambda x, n: x[:n] * 1,
    "index": lambda x, n: [x, x * 2, x * 3, x * 4][n] * 1,
    "index beside a vector": lambda x, n: x.expand(4, 5)[n, [0, 2]] * 1,
    "math": lambda x, n: x * math.modf(n)[1],
    "float": lambda x, n: x * float(n),
    "text": lambda x, n: (x * 1, f"{n:.1f}"),
    "numpy": lambda x, n: x * np.sqrt(n).item(),
    "hash": lambda x, n: x * {0: 1, 1: 2, 2: 4, 3: 8}[n],
    "caught": lambda x, n: x * _caught(n),
    "a parameter": lambda x, n: x.reshape(5, 1).expand(5, n + 1).sum(1) * F.dropout(x, n * 0.0),
    "a tensor": lambda x, n: x * cf.tensor([n, n + 1]).sum(),
}  # fmt: skip


def _caught(n: int) -> int:
    try:
        return operator.index(n)
    except Exception:
        return 100


@pytest.mark.parametrize("name", NEEDED)
def test_numbers_whose_value_is_needed_are_part_of_the_key(name: str) -> None:
    function = NEEDED[name]
    f = cf.compile(function)
    x = cf.randn(5)
    for n in (1, 2, 3, 2, 1):
        got, want = f(x, n), function(x, n)
        if isinstance(want, tuple):
            assert got[1] == want[1]
            assert type(got[1]) is type(want[1])
            got, want = got[0], want[0]
        assert_close(got, want)
    assert f.captures == 3


@pytest.mark.parametrize("dtype", [cf.float64, cf.float32, cf.float16, cf.int64, cf.bool])
def test_a_fill_has_all_digits_of_a_number(dtype: cf.dtype) -> None:
    f = cf.compile(lambda n: cf.full((2,), n, dtype=dtype))
    for n in (0.1, 1 / 3, -2.7, 2**53 + 1 if dtype is cf.int64 else 5):
        assert f(n).tolist() == cf.full((2,), n, dtype=dtype).tolist()


def test_some_are_needed_and_some_are_not() -> None:
    def function(x: Any, temperature: float, times: int, scale: float = 1.0) -> Any:
        for _ in range(times):
            x = x / temperature
        return x * scale

    f = cf.compile(function)
    x = cf.ones(3)
    for temperature in (2.0, 3.0, 4.0):
        for times in (1, 2):
            for scale in (1.0, 0.5):
                got = f(x, temperature, times, scale=scale)
                assert_close(got, function(x, temperature, times, scale))
    assert f.captures == 2


def test_a_step_count_does_not_record_again() -> None:
    w = cf.ones(3, requires_grad=True)

    @cf.compile
    def step(x: Any, count: int, rate: float) -> Any:
        w.grad = None
        loss = (w * x).square().sum()
        loss.backward()
        with cf.no_grad():
            w.sub_(w.grad * rate / (1 + 0.1 * count))
        return loss.detach()

    twin = cf.ones(3, requires_grad=True)
    x = cf.randn(3)
    for count in range(12):
        rate = 0.1 / (count + 1)
        step(x, count, rate)
        (g,) = cf.autograd.grad((twin * x).square().sum(), twin)
        with cf.no_grad():
            twin.sub_(g * rate / (1 + 0.1 * count))
        assert_close(w.detach(), twin.detach())
    assert step.captures == 1


def test_gradients_with_the_number_of_the_call() -> None:
    f = cf.compile(lambda x, t: (x / t).exp() * t)
    x = cf.randn(3, dtype=cf.float64, requires_grad=True)
    calls = [(t, f(x, t)) for t in (1.5, 2.5, 0.5)]
    for t, out in calls:
        (got,) = cf.autograd.grad(out.sum(), x, create_graph=True)
        assert_close(got.detach(), (x / t).exp().detach())
        (second,) = cf.autograd.grad(got.sum(), x)
        assert_close(second, ((x / t).exp() / t).detach())
    assert f.captures == 1


def test_numbers_that_are_kept_are_numbers_again() -> None:
    seen: list[Any] = []

    @cf.compile
    def f(x: Any, n: float) -> Any:
        seen.append(n * 2)
        return x * n

    f(cf.ones(2), 3.0)
    assert seen[0] + 1 == 7.0
    assert f"{seen[0]}" == "6.0"
    assert math.sqrt(seen[0]) == math.sqrt(6.0)
    assert seen[0] > 5


def test_errors_are_those_of_the_function() -> None:
    @cf.compile
    def f(x: Any, n: int) -> Any:
        raise KeyError(n)

    with pytest.raises(KeyError, match="3"):
        f(cf.ones(2), 3)
    with pytest.raises(cf.CaptureError, match="needs the value of float32"):
        cf.compile(lambda x, n: x * float(x.sum()) * n)(cf.ones(2), 3)


@pytest.mark.parametrize("dtype", [cf.float32, cf.float64])
@pytest.mark.parametrize("number", [0, -3, 1 << 24, (1 << 24) + 1, (1 << 53) + 1, -(1 << 62) - 1])
def test_a_whole_number_beside_a_float_is_rounded_once(number: int, dtype: cf.dtype) -> None:
    x = cf.tensor([1.5, -2.0], dtype=dtype)
    for out, wanted in ((x * number, np.multiply), (number - x, lambda a, b: b - a)):
        assert out.dtype is dtype
        assert np.array_equal(out.numpy(), wanted(x.numpy(), dtype.numpy.type(number)))


def test_the_type_of_a_number_decides_and_not_the_number_before_it() -> None:
    mask, whole = cf.tensor([True, False]), cf.tensor([5, 6])
    for number in (1, 2.5, True, 7, 0.25):
        out = cf.where(mask, number, whole)
        assert out.dtype is (cf.float32 if type(number) is float else cf.int64)
        assert out.tolist() == [number, 6]


# --- what goes wrong in Python goes wrong compiled ----------------------------------------------

EXPRESSIONS: dict[str, Callable[[Any], Any]] = {
    "a quotient": lambda n: 5 / n,
    "of floats": lambda n: 1.5 / (n - 1),
    "of wholes": lambda n: 7 // n,
    "a remainder": lambda n: 7 % n,
    "a root": lambda n: n**0.5,
    "a reciprocal": lambda n: n**-1,
    "a power of wholes": lambda n: n**3,
    "an exponent": lambda n: 10.0**n,
    "a product": lambda n: n * 1e308,
    "large wholes": lambda n: n * 2**60,
    "a difference": lambda n: n - 2**62 - 2**62 - 2**62,
    "a sum with a float": lambda n: n * 10**300 + 0.5,
    "a large quotient": lambda n: n * 10**320 / 3,
    "signs": lambda n: abs(-n) * +n,
    "a root of the library": math.sqrt,
    "a logarithm": math.log,
    "a logarithm to a base": lambda n: math.log(n, 3),
    "the whole part": math.floor,
    "the next whole": lambda n: math.ceil(n) + math.trunc(n),
    "an exponential": lambda n: math.exp(n) + math.expm1(n),
    "a float's power": lambda n: math.pow(n, 0.5),
    "a cosine": lambda n: math.cos(n) + math.atan2(n, 3) + math.tanh(n),
    "a common divisor": lambda n: math.gcd(n, 12),
    "pairs": lambda n: math.comb(n, 2),
    "whether it is a number": lambda n: 2 if math.isnan(n) or math.isinf(n) else 3,
    "nearly": lambda n: 2 if math.isclose(n, 1.5) else 3,
    "parts of a number": lambda n: math.frexp(n)[0] + math.modf(n)[0],
    "a rounded number": round,
    "a whole number": int,
    "what nobody uses": lambda n: (5 / n, n)[1],
    "what is caught": lambda n: _or_zero(lambda: 5 / n) + n,
    "an error of another kind": lambda n: _or_zero(lambda: (n / 0.0, n + "text")) + n,
}
HOSTILE = (
    1, 2, 0, -7, 3, 1.5, 0.0, -7.0, 2.5, -0.0, math.inf, math.nan, 1e308, -1e-320, 2**53 + 1, 2**62,
    -(2**63), 2**63, 10**400, 4, 0, 0.5,
)  # fmt: skip


def _or_zero(compute: Callable[[], Any]) -> Any:
    try:
        return compute()
    except ArithmeticError:
        return 0


def outcome(function: Callable[..., Any], *given: Any) -> Any:
    """The elements, or the error and its text."""
    try:
        found = function(*given)
    except Exception as error:
        return type(error), str(error)
    return found.dtype, found.array.tobytes() if not np.isnan(found.array).all() else "nan"


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_errors_of_arithmetic_are_those_of_python(name: str) -> None:
    """Recorded with a number, or with another one and replayed."""
    expression = EXPRESSIONS[name]

    def function(x: Any, n: Any) -> Any:
        return x * expression(n)

    x = cf.tensor([1.0, 2.0])
    replayed = cf.compile(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numbers that are needed record often
        for n in HOSTILE:
            want = outcome(function, x, n)
            assert outcome(cf.compile(function), x, n) == want, n
            assert outcome(replayed, x, n) == want, n
            assert outcome(replayed, x, n) == want, n


def test_an_error_comes_before_anything_is_changed() -> None:
    w = cf.ones(2)

    @cf.compile
    def step(x: Any, n: float) -> Any:
        w.add_(x)
        return w / (1 / n)

    x = cf.ones(2)
    for n in (1.0, 2.0):
        step(x, n)
    for _ in range(2):
        before, version = w.tolist(), w._version
        with pytest.raises(ZeroDivisionError, match="division by zero") as caught:
            step(x, 0.0)
        shown = [frame.line for frame in traceback.extract_tb(caught.tb)]
        assert "return w / (1 / n)" in shown
        assert (w.tolist(), w._version) == (before, version)
    step(x, 4.0)
    assert step.captures == 1


def test_both_ways_around_an_error_are_recorded_once() -> None:
    @cf.compile
    def f(x: Any, n: float) -> Any:
        try:
            return x * (1 / n)
        except ZeroDivisionError:
            return x - n

    x = cf.ones(2)
    for n in (2.0, 0.0, 4.0, 0.0, 8.0, 0.0):
        assert f(x, n).tolist() == ([1 / n] * 2 if n else [1.0, 1.0])
    assert f.captures == 2


def test_numbers_in_backward_are_those_of_the_call() -> None:
    """A composite whose parts compute with a number again when they are differentiated."""
    f = cf.compile(lambda x, n: F.softplus(x, n).sum())
    for n in (1.5, 2.5, 0.5):
        x = cf.randn(400, dtype=cf.float64, requires_grad=True)
        (got,) = cf.autograd.grad(f(x, n), x)
        (want,) = cf.autograd.grad(F.softplus(x, n).sum(), x)
        assert_close(got, want)


# --- numbers of every op ---------------------------------------------------------------------


def numbers_of_ops() -> Iterator[Any]:
    """Each place of a number in the first sample of every op that users call."""
    for op in REGISTRY.values():
        sample = next(iter(op.samples()), None)
        if sample is None or op.internal or op.dynamic or op.kind.name == "random":
            continue
        inputs, params = make_inputs(sample), dict(sample.params)
        places = [i for i, x in enumerate(inputs) if type(x) in (int, float)]
        if op.kind.name == "elementwise" and len(inputs) > 1:  # which take numbers for tensors
            places = list(range(len(inputs)))
        names = [name for name, x in params.items() if type(x) in (int, float)]
        for place in (*places, *names):
            yield pytest.param(op, inputs, params, place, id=f"{op.name}-{place}")


@pytest.mark.parametrize(("op", "inputs", "params", "place"), list(numbers_of_ops()))
def test_every_number_of_every_op(op: Any, inputs: Any, params: Any, place: int | str) -> None:
    """A whole number, a truth value or NumPy's where an op takes a number, as in eager."""
    given = [_as_tensor(x) for x in inputs]

    def function(tensors: list[Any], number: Any) -> Any:
        tensors, named = list(tensors), dict(params)
        if isinstance(place, int):
            tensors[place] = number
        else:
            named[place] = number
        return op(tensors, **named) if op.variadic else op(*tensors, **named)

    compiled = cf.compile(function)
    for number in (1, 2, 0, 1.5, True, np.float32(0.5), np.int64(2)):
        cf.manual_seed(0)
        want = _results(function, given, number)
        cf.manual_seed(0)
        got = _results(compiled, given, number)
        if not isinstance(got, list) or not isinstance(want, list):
            assert type(got) is type(want), number
            if isinstance(got, Exception):
                assert str(got).partition(", at")[0] in str(want), number
            continue
        for a, b in zip(got, want, strict=True):
            assert a.dtype is b.dtype, number
            assert_close(a.detach(), b.detach())


def _as_tensor(x: Any) -> Any:
    if not isinstance(x, np.ndarray):
        return x
    return cf.tensor(x.astype(np.float32) if x.dtype == np.float64 else x)


def _results(function: Callable[..., Any], *given: Any) -> Any:
    try:
        found = function(*given)
    except Exception as error:
        return error
    return list(found) if isinstance(found, (tuple, list)) else [found]


def test_numbers_that_are_returned_or_kept_are_of_any_size() -> None:
    """They are Python's, and do not go through a program, which has 64 bits for them."""

    counter = types.SimpleNamespace(total=1)

    @cf.compile
    def step(x: Any, n: Any) -> Any:
        counter.total *= 2**30
        return x * 1.0, n * 2**70, -n

    total = 1
    for n in (1, 3, 2**63, 5, 2**80):
        _, large, negative = step(cf.ones(2), n)
        total *= 2**30
        assert (large, negative, counter.total) == (n * 2**70, -n, total)
    assert step.captures == 1
    double = cf.compile(lambda n: n * 2 + 1)  # of numbers alone
    assert [double(n) for n in (1, 2, 2**70)] == [3, 5, 2**71 + 1]
    assert double.captures == 1


def test_a_remainder_whose_value_is_needed_has_a_recording_for_each() -> None:
    @cf.compile
    def f(x: cf.Tensor, i: int) -> cf.Tensor:
        return [x, x + 1][i % 2] * i

    x = cf.tensor([2.0])
    for i in range(-4, 8):
        assert f(x, i).item() == [2.0, 3.0][i % 2] * i
    assert f.captures == 2
