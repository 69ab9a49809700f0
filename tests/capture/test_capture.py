"""What a compiled call leaves behind is what the eager call would have left behind.

Each test runs with the tape interpreted and with native programs. Where a test compares with
eager, `both` builds the same things twice from the same seed and runs one of them compiled.
"""

from __future__ import annotations

import dataclasses
import queue
from collections import OrderedDict, namedtuple
from typing import Any

import numpy as np
import pytest
from tests.helpers.side_by_side import Setting, same

import contraflow as cf
from contraflow.testing import assert_close

F = cf.nn.functional


pytestmark = pytest.mark.usefixtures("mode")


# --- inputs and outputs ------------------------------------------------------------------------


@dataclasses.dataclass
class Batch:
    x: Any
    extra: dict[str, Any]
    label: str = "batch"


Pair = namedtuple("Pair", "first second")


def test_structures() -> None:
    def build() -> Setting:
        def step(batch: Any, pair: Any, *rest: Any, scale: Any = None, **named: Any) -> Any:
            y = batch.x * pair.first + batch.extra["y"]
            if scale is not None:
                y = y * scale
            for t in rest:
                y = y + t
            out = OrderedDict(b=y, a=[y * 2, None, "text", 3])
            return out, Pair(y, (batch.label, batch.x)), Batch(y, {"z": y[0]})

        def arguments(_: int) -> Any:
            batch = Batch(cf.randn(3), {"y": cf.randn(3)})
            return batch, Pair(cf.randn(3), None), cf.randn(3), cf.randn(1)

        return Setting(step, arguments, [])

    def compare(got: Any, want: Any) -> None:
        (out, pair, batch), (out2, pair2, batch2) = got, want
        assert type(out) is OrderedDict
        assert type(pair) is Pair
        assert type(batch) is Batch
        same(out, out2, "dict")
        same(tuple(pair), tuple(pair2), "pair")
        same(batch.x, batch2.x, "dataclass")
        assert batch.x.storage is out["b"].storage

    setting = build()
    compiled = cf.compile(setting.function)
    for _ in range(2):
        given = setting.arguments(0)
        compare(compiled(*given), setting.function(*given))
    compare(compiled(*given, scale=cf.ones(1)), setting.function(*given, scale=cf.ones(1)))
    assert compiled.captures == 2


def test_numpy_arrays_as_arguments() -> None:
    step = cf.compile(lambda x, y: x * y)
    for value in (1.0, 2.0):
        out = step(cf.ones(3), np.full(3, value, np.float32))
        assert_close(out, np.full(3, value, np.float32))
    assert step.captures == 1
    assert step(cf.ones(2), np.float32(3).reshape(())).shape == (2,)
    assert step(cf.ones(()), np.ones((3, 2), np.float32).T).shape == (2, 3)
    with pytest.raises(TypeError, match="complex64 is not supported"):
        step(cf.ones(2), np.ones(2, np.complex64))


def test_a_leaf_around_a_tensor_from_outside_that_a_result_needs_is_made_outside() -> None:
    base = cf.ones(3)

    @cf.compile
    def f(x: cf.Tensor) -> cf.Tensor:
        w = cf.nn.Parameter(base)
        y = x * w
        return y.sum()

    with pytest.raises(cf.CaptureError, match=r"`return y.sum\(\)` at .* Make the leaf outside"):
        f(cf.ones(3))


def test_the_text_of_a_tensor_is_that_of_the_recording() -> None:
    texts: list[str] = []

    @cf.compile
    def f(x: cf.Tensor) -> cf.Tensor:
        texts.append(f"{x} {x.sum()}")
        return x * 2

    for k in (1.0, 2.0):
        f(cf.full((1,), k))
    assert texts == ["tensor([1.]) <recorded float32[]>"] * 2


# Functions of a tensor and a NumPy array, and whether another array records again.
OF_ARRAYS: dict[str, tuple[Any, bool]] = {
    "tensor": (lambda x, a: x * cf.tensor(a), False),
    "as_tensor": (lambda x, a: x * cf.as_tensor(a), False),
    "from_numpy": (lambda x, a: x * cf.from_numpy(a), False),
    "new_tensor": (lambda x, a: x * x.new_tensor(a), False),
    "a tensor first": (lambda x, a: x - a, False),
    "an array first": (lambda x, a: a / x, False),
    "class": (lambda x, a: x * 2 if isinstance(a, np.ndarray) else x, False),
    "dtype": (lambda x, a: x * (2 if a.dtype == np.float32 else 3), False),
    "shape": (lambda x, a: x * a.shape[0] + len(a) + a.ndim, False),
    "element": (lambda x, a: x * float(a[1]), True),
    "iteration": (lambda x, a: sum(x * float(v) for v in a), True),
    "statistics": (lambda x, a: x * float(a.std()), True),
    "promotion": (lambda x, a: x * (a.astype(np.int64) * 0.5), True),
    "function": (lambda x, a: x * cf.tensor(np.sqrt(a)), True),
    "part": (lambda x, a: x * cf.tensor(a[:1]), True),
}


@pytest.mark.parametrize("name", OF_ARRAYS)
def test_a_numpy_array_is_one_inside(name: str) -> None:
    f, again = OF_ARRAYS[name]
    compiled = cf.compile(f)
    x = cf.tensor([1.0, 2.0, 4.0])
    for k in range(1, 5):
        a = np.array([1.0, 2.0, 3.0], np.float32) * k + k
        found, expected = compiled(x, a), f(x, a)
        assert found.dtype is expected.dtype
        assert_close(found, expected)
    assert compiled.captures == (4 if again else 1)


# Tensors of tensors, of an argument and of state: their values are those of each call.
OF_TENSORS: dict[str, Any] = {
    "list": lambda x, w: cf.tensor([1.0, x[0], w[1]]),
    "tuple": lambda x, w: cf.tensor((x[0], x[1])) * w[:2],
    "nested": lambda x, w: cf.tensor([[w[0], 2], [x[0], True]]),
    "rows": lambda x, w: cf.tensor([x, w, [1, 2, 3]]),
    "computed": lambda x, w: cf.tensor([x.sum(), w.mean(), 1.0]),
    "integers": lambda x, w: cf.tensor([x[0].to(cf.int64), 2]),
    "dtype": lambda x, w: cf.tensor([x[0], w[0]], dtype=cf.float64),
    "one": lambda x, w: cf.tensor(x) * cf.tensor(w[0]),
    "as_tensor": lambda x, w: cf.as_tensor([x[0], 1.0]),
    "new_tensor": lambda x, w: x.new_tensor([w[1], 3.0]),
}


@pytest.mark.parametrize("name", OF_TENSORS)
def test_a_tensor_of_tensors_has_the_values_of_the_call(name: str) -> None:
    f, w = OF_TENSORS[name], cf.ones(3)
    compiled = cf.compile(lambda x: f(x, w))
    for k in range(1, 5):
        x = cf.tensor([1.0, 2.0, 4.0]) * k
        w.fill_(k + 0.5)
        found, expected = compiled(x), f(x, w)
        assert (found.dtype, found.requires_grad) == (expected.dtype, False)
        assert_close(found, expected)
        assert compiled(x.requires_grad_()).requires_grad is False
    assert compiled.captures == 2  # one of them for an argument that requires grad


def test_a_large_numpy_array_is_not_computed_with_in_numpy() -> None:
    f = cf.compile(lambda x, a: x * float(a.mean()), name="f")
    with pytest.raises(cf.CaptureError, match=r"of 1001 elements, is .* Make it a tensor first\.$"):
        f(cf.ones(1), np.zeros(1001))


def test_a_generator_is_not_returned() -> None:
    f = cf.compile(lambda x: (x * i for i in range(3)), name="f")
    with pytest.raises(cf.CaptureError) as raised:
        f(cf.ones(1))
    line = test_a_generator_is_not_returned.__code__.co_firstlineno + 1
    assert str(raised.value) == (
        'compile(f): `f = cf.compile(lambda x: (x * i for i in range(3)), name="f")` at '
        f"test_capture.py:{line}: a generator that the function makes is returned, and every "
        "replay would give the same one. Make it outside."
    )


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_a_coroutine_is_not_returned() -> None:
    async def later(x: cf.Tensor) -> cf.Tensor:
        return x * 2

    f, kept = cf.compile(later), []
    with pytest.raises(cf.CaptureError, match="a coroutine that the function makes is returned"):
        f(cf.ones(1))
    g = cf.compile(lambda x: kept.append(later(x)))
    with pytest.raises(cf.CaptureError, match="a coroutine that the function makes is kept, and"):
        g(cf.ones(1))
    assert kept == []


@pytest.mark.parametrize("size", [0, -1, 2.5])
def test_a_cache_of_no_programs_is_refused(size: Any) -> None:
    with pytest.raises(ValueError, match=r"cache_size is .*; it must be a number of programs"):
        cf.compile(lambda x: x, cache_size=size)


def test_unhashable_arguments_are_refused() -> None:
    class Plain:
        __slots__ = ()
        __hash__ = None  # type: ignore[assignment]

    cycle: list[Any] = []
    cycle.append(cycle)
    compiled = cf.compile(lambda x, n=1: x, name="f")
    line = test_unhashable_arguments_are_refused.__code__.co_firstlineno + 20
    for given, said in (
        ({1, 2}, "a set, which can change and cannot be part of the key of a call. Pass a "
                 "frozenset, or a sorted list."),
        (bytearray(2), "a bytearray, which can change and cannot be part of the key of a call. "
                       "Pass bytes, or a tensor."),
        (Plain(), "a Plain, which is neither a tensor, an array, a container of these, nor "
                  "hashable. Pass what is needed of it."),
        (cycle, "a container that contains itself. Pass what is needed of it."),
    ):  # fmt: skip
        for name, args, kwargs in (("x", (given,), {}), ("n", (cf.ones(2),), {"n": [given]})):
            with pytest.raises(cf.CaptureError) as raised:
                compiled(*args, **kwargs)
            assert str(raised.value) == (
                f"compile(f): `compiled(*args, **kwargs)` at test_capture.py:{line}: {name} is or "
                f"holds {said}"
            )


def test_methods() -> None:
    class Model:
        def __init__(self, value: float) -> None:
            self.w = cf.full((3,), value)

        @cf.compile
        def scale(self, x: Any) -> Any:
            """Multiply."""
            return x * self.w

    two, three = Model(2.0), Model(3.0)
    for _ in range(2):
        assert_close(two.scale(cf.ones(3)), np.full(3, 2.0, np.float32))
        assert_close(three.scale(cf.ones(3)), np.full(3, 3.0, np.float32))
    assert Model.scale.captures == 2
    assert Model.scale.__doc__ == "Multiply."


def test_a_tensor_that_never_had_a_value_is_refused() -> None:
    queued: queue.SimpleQueue[Any] = queue.SimpleQueue()

    @cf.compile
    def failing(x: Any) -> Any:
        queued.put(x * 2)
        raise KeyError

    with pytest.raises(KeyError):
        failing(cf.ones(3))
    kept = [queued.get()]
    with pytest.raises(cf.CaptureError, match=r"argument float32\[3\] was recorded by another"):
        cf.compile(lambda x: x)(kept[0])
    with pytest.raises(cf.CaptureError, match="was recorded by another compiled call and never"):
        cf.compile(lambda: kept[0] + 1)()
