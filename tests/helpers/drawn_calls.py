"""Calls of ops that Hypothesis draws: shapes, layouts, dtypes, values and static arguments."""

from __future__ import annotations

import inspect
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.helpers.op_checks import (
    accepts,
    as_tuple,
    call,
    samples_of,
)

import contraflow as cf
from contraflow import dtypes
from contraflow.dtypes import DType
from contraflow.operation.kinds import Elementwise, Reduction
from contraflow.operation.op import REGISTRY, Op
from contraflow.operation.samples import Array
from contraflow.shapes import Shape, numel
from contraflow.tensors.tensor import Tensor
from contraflow.testing import make_inputs

OPS = [op for op in REGISTRY.values() if not op.internal]


def examples(count: int) -> Any:
    """The same `count` examples in every run: what fails here fails everywhere."""
    return settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.generate,),  # examples are small; shrinking one that hangs takes hours
        suppress_health_check=list(HealthCheck),
    )


def twice(few: int, many: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Parametrize a check by how many examples it draws: some for `make test`, more when slow."""

    def decorate(check: Callable[..., None]) -> Callable[..., None]:
        sizes = [few, pytest.param(many, marks=pytest.mark.slow)]

        def test(count: int, **fixed: Any) -> None:
            @examples(count)
            @given(st.data())
            def run(data: st.DataObject) -> None:
                with within(5.0):
                    check(data.draw, **fixed)

            run()

        test.__doc__ = check.__doc__
        parameters = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY)
            for name in ("count", *list(inspect.signature(check).parameters)[1:])
        ]
        test.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return pytest.mark.parametrize("count", sizes)(test)

    return decorate


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail rather than compute on and on, where the platform has a timer.

    Processor time is counted, so that other processes may be busy meanwhile. An example that waits
    for ever is ended by pytest's own limit.
    """
    if not hasattr(signal, "setitimer"):
        yield
        return

    def late(*_: Any) -> None:
        raise AssertionError(f"still running after {seconds} s of processor time")

    previous = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, previous)


SHAPES = st.lists(st.sampled_from((0, 1, 1, 2, 2, 3, 3, 4)), max_size=4).map(tuple)
DTYPES = st.sampled_from(dtypes.ALL)

# What no argument expects, or few do.
HOSTILE: tuple[Any, ...] = (
    None, "a", b"x", "", 1.5, float("nan"), float("inf"), True, False, -1, 0, 1, 7, -9, 40,
    2**62, -(2**62), 2**70, (), (0, 0), (9,), (-1, -1), ("a",), (1.5,), (None,), (2**62, 2**62), [],
    [[1], [2, 3]], {}, 1j, object(), print, np.int64(1), np.float32(2), np.array([1, 2]),
    np.zeros((0, 2)), np.array("a"), slice(None), Ellipsis, cf.float32, cf.bool, "float32", "sum",
)  # fmt: skip


def hostile_value(draw: Any) -> Any:
    if draw(st.booleans()):
        return draw(st.sampled_from(HOSTILE))
    shape, dtype = draw(SHAPES), draw(DTYPES)
    # One number may be taken for a size, and 32767 rows and columns are gigabytes.
    special = draw(st.booleans()) and (numel(shape) != 1 or dtype.is_floating_point)
    return laid_out(draw, draw_array(draw, shape, dtype, special=special))


def draw_array(draw: Any, shape: Shape, dtype: DType, *, special: bool = False) -> np.ndarray:
    """Small numbers, with the ends of the dtype's range and what is not a number among them."""
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    if dtype is cf.bool:
        return np.asarray(rng.random(shape) < 0.5)
    if dtype.is_floating_point:
        values = np.asarray(rng.uniform(-3.0, 3.0, shape)).astype(dtype.numpy)
        extremes = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40, 1e4, -1e4]
    else:
        low = -3 if dtype.is_signed else 0
        values = np.asarray(rng.integers(low, 4, shape)).astype(dtype.numpy)
        info = np.iinfo(dtype.numpy)
        extremes = [info.min, info.max, info.max - 1, 0]
    if special and values.size:
        chosen = rng.random(shape) < 0.4
        values = np.where(chosen, rng.choice(extremes, shape).astype(dtype.numpy), values)
    return np.asarray(values, dtype.numpy)


def laid_out(draw: Any, array: np.ndarray) -> Tensor:
    """A tensor of these elements that need not be contiguous."""
    layout = draw(st.sampled_from(("contiguous", "transposed", "stepped", "expanded")))
    if layout == "transposed" and array.ndim > 1:
        order = tuple(draw(st.permutations(range(array.ndim))))
        stored = cf.tensor(np.ascontiguousarray(np.transpose(array, order)))
        return stored.permute(tuple(int(d) for d in np.argsort(order)))
    if layout == "stepped" and array.ndim:
        step = draw(st.integers(2, 3))
        wide = np.ones([step * n + 1 for n in array.shape], array.dtype)
        part = (slice(1, None, step),) * array.ndim
        wide[part] = array
        return cf.tensor(wide)[part]
    if layout == "expanded" and array.ndim and array.shape[0] > 1 and (array == array[:1]).all():
        return cf.tensor(array[:1]).expand(array.shape)
    return cf.tensor(array)


class Call(NamedTuple):
    """An op and what it is called with: tensors of any layout, and the same as arrays."""

    op: Op
    tensors: tuple[Any, ...]
    arrays: tuple[Any, ...]
    params: dict[str, Any]
    special: bool

    def again(self) -> Any:
        return invoke(self.op, self.tensors, self.params)

    def contiguous(self) -> tuple[Any, ...]:
        return tuple(cf.tensor(a) if isinstance(a, np.ndarray) else a for a in self.arrays)


def takes(op: Op, params: Any) -> bool:
    """Whether the public signature takes these parameters: arange's has none for the shape."""
    if not op.variadic:
        return accepts(op, params)
    try:
        inspect.signature(op.call).bind((), **params)
    except TypeError:
        return False
    return True


def invoke(op: Op, inputs: Any, params: Any) -> tuple[Any, ...]:
    return as_tuple(call(op, inputs, params))


def draw_call(draw: Any, op: Op) -> Call:
    """A call that the op may well take: a sample's, with other shapes, dtypes and values."""
    sample = draw(st.sampled_from(samples_of(op)))
    params = dict(sample.params)
    special = draw(st.booleans())
    arrays: list[Any] = list(make_inputs(sample, seed=draw(st.integers(0, 99))))
    free = [i for i, x in enumerate(sample.inputs) if isinstance(x, Array)]
    if isinstance(op.kind, Elementwise):
        shape = draw(SHAPES)
        common = draw(DTYPES)
        for i in free:
            own = tuple(n if draw(st.integers(0, 3)) else 1 for n in shape)
            own = own[draw(st.integers(0, len(own))) :] if i else own
            dtype = draw(DTYPES) if draw(st.integers(0, 3)) == 0 else common
            arrays[i] = draw_array(draw, own, dtype, special=special)
    elif isinstance(op.kind, Reduction):
        shape = draw(SHAPES)
        arrays[0] = draw_array(draw, shape, draw(DTYPES), special=special)
        params.update(dim=draw_dims(draw, len(shape)), keepdim=draw(st.booleans()))
    elif free:
        mutate = draw(st.sampled_from(("values", "dtype", "dtypes", "shape")))
        common = draw(DTYPES)
        for i in free:
            shape, dtype = arrays[i].shape, dtypes.from_numpy(arrays[i].dtype)
            if dtype is not cf.float64:
                continue  # indices and masks, whose values mean something
            if mutate == "shape" and draw(st.booleans()):
                shape = draw(SHAPES)
            if mutate in ("dtype", "dtypes"):
                dtype = common if mutate == "dtype" else draw(DTYPES)
            # Of truth values NumPy makes numbers of its own choice.
            special = special or dtype is cf.bool
            if mutate != "values":
                arrays[i] = draw_array(draw, shape, dtype, special=special)
        # References were written for the shapes of samples.
        special = (special and mutate != "values") or mutate == "shape"
    tensors = tuple(laid_out(draw, a) if isinstance(a, np.ndarray) else a for a in arrays)
    return Call(op, tensors, tuple(arrays), params, special)


def draw_dims(draw: Any, rank: int) -> Any:
    dim = st.integers(-rank - 1, rank)
    return draw(st.none() | dim | st.lists(dim, max_size=3).map(tuple))
