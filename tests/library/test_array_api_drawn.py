"""The array API standard with drawn arguments: where the strict implementation answers, so do we.

Each function of the standard is called with drawn shapes (empty and 0-d ones too), dtypes, axes and
options, and with the numbers that floating-point arithmetic is odd at; so are the operators,
attributes and indices of arrays. Results have the same shape, dtype and elements.
"""

from __future__ import annotations

import inspect
import operator
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as drawn
from tests.helpers.array_api_calls import (
    ANY,
    BINARY,
    FLOATS,
    INTEGERS,
    NUMBERS,
    ODD,
    RECIPES,
    UNARY,
    Drawn,
    array,
    two,
)
from tests.library.test_array_api import ABSENT, SHAPES_ONLY, compare, listed

import contraflow as cf
from contraflow import array_api as ours

strict = pytest.importorskip("array_api_strict", reason="`make test` installs it")


@pytest.fixture(autouse=True)
def _numbers_are_float64():
    """As they are in the strict implementation; the default of contraflow is float32."""
    before = cf.get_default_dtype()
    cf.set_default_dtype(cf.float64)
    yield
    cf.set_default_dtype(before)


# --- both namespaces, with the same arguments ---------------------------------------------------


def given_to(namespace: Any, value: Any) -> Any:
    """An argument of a namespace: its arrays for NumPy's, its dtypes for their names."""
    if isinstance(value, np.ndarray):
        return cf.tensor(value) if namespace is ours else namespace.asarray(value)
    if isinstance(value, str) and value in ANY:
        return getattr(namespace, value)
    if isinstance(value, list):
        return [given_to(namespace, part) for part in value]
    if isinstance(value, tuple):
        return tuple(given_to(namespace, part) for part in value)
    return value


def call(namespace: Any, name: str, call_of: Drawn) -> Any:
    function = namespace
    for part in name.split("."):
        function = getattr(function, part)
    positional, named = call_of
    if name == "isdtype":  # "bool" is a kind here, not a dtype
        dtype, kind = positional
        kinds = tuple(
            k if k == "bool" else given_to(namespace, k) for k in np.atleast_1d(kind).tolist()
        )
        return function(given_to(namespace, dtype), kinds if isinstance(kind, tuple) else kinds[0])
    return function(
        *(given_to(namespace, x) for x in positional),
        **{key: given_to(namespace, x) for key, x in named.items()},
    )


def loose(*found: Any) -> bool:
    """Whether some of it is float32, of which results are compared as its digits allow."""
    return any("float32" in str(getattr(x, "dtype", "")) for x in found)


def same(found: Any, expected: Any, values: bool = True) -> None:
    """Compared as `test_array_api.py` does, with the digits of float32 and the signs of zeros."""
    if isinstance(expected, (tuple, list)) and not hasattr(expected, "shape"):
        assert len(found) == len(expected)
        if hasattr(expected, "_fields"):
            assert found._fields == expected._fields
        for one, other in zip(found, expected):
            same(one, other, values)
    elif loose(expected):
        compare(found, expected, values=False)
        if values:
            array = np.asarray(expected.__array__())
            np.testing.assert_allclose(found.numpy(), array, rtol=2e-5, atol=1e-6)
    else:
        compare(found, expected, values)


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_drawn_calls_agree(name: str) -> None:
    answered = 0

    @settings(max_examples=60, deadline=None, derandomize=True, database=None,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(st.data())
    def agree(data: st.DataObject) -> None:
        nonlocal answered
        drawn_call = RECIPES[name](data.draw)
        with np.errstate(all="ignore"), warnings.catch_warnings():  # NumPy warns of infinities
            warnings.simplefilter("ignore")  # and the strict one, of its own comparison of dtypes
            expected = call(strict, name, drawn_call)
        same(call(ours, name, drawn_call), expected, name not in SHAPES_ONLY)
        answered += 1

    agree()
    assert answered >= 10


def test_every_function_is_drawn() -> None:
    dtypes = set(ours.__array_namespace_info__().dtypes())
    others = {"e", "inf", "nan", "newaxis", "pi", "finfo", "iinfo", "broadcast_shapes"}
    assert set(RECIPES) == listed() - ABSENT - others - dtypes


# --- numbers that floating-point arithmetic is odd at -------------------------------------------

ODD_UNARY = [
    name for names, dtypes in UNARY.items() if "float64" in dtypes and "like" not in names
    for name in names.split()
]  # fmt: skip
ODD_BINARY = [
    name for names, dtypes in BINARY.items() if "float64" in dtypes for name in names.split()
] + ["pow"]
# By NumPy's C library, one unit in the last place or the sign of nan; not the standard's concern.
EXACT = "abs negative positive sign ceil floor round trunc maximum minimum copysign add subtract"


def signs_agree(found: np.ndarray, expected: np.ndarray) -> bool:
    zeros = expected == 0
    return np.array_equal(np.signbit(found[zeros]), np.signbit(expected[zeros]))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ODD_UNARY)
def test_odd_numbers(name: str, dtype: str) -> None:
    x = np.array([*ODD, np.finfo(dtype).max, np.finfo(dtype).tiny, -np.finfo(dtype).tiny], dtype)
    with np.errstate(all="ignore"):
        expected = call(strict, name, ((x,), {}))
    found = call(ours, name, ((x,), {}))
    same(found, expected)
    if str(expected.dtype).endswith(dtype):
        assert signs_agree(found.numpy(), np.asarray(expected.__array__()))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ODD_BINARY)
def test_pairs_of_odd_numbers(name: str, dtype: str) -> None:
    x, y = (g.reshape(-1) for g in np.meshgrid(np.array(ODD, dtype), np.array(ODD, dtype)))
    with np.errstate(all="ignore"):
        expected = call(strict, name, ((x, y), {}))
    found = call(ours, name, ((x, y), {}))
    same(found, expected)
    if name in EXACT.split() or name in ("multiply", "divide", "pow"):
        assert signs_agree(found.numpy(), np.asarray(expected.__array__()))


# --- arrays: operators, attributes, indices -----------------------------------------------------

OPERATORS = {
    "add sub mul": NUMBERS, "truediv": FLOATS, "floordiv mod": NUMBERS, "pow": FLOATS,
    "and_ or_ xor": ("bool", *INTEGERS), "lshift rshift": INTEGERS,
    "lt le gt ge": NUMBERS, "eq ne": ANY,
}  # fmt: skip
BY_NAME = {name: dtypes for names, dtypes in OPERATORS.items() for name in names.split()}


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_operators_agree(name: str) -> None:
    function = getattr(operator, name)

    @settings(max_examples=60, deadline=None, derandomize=True, database=None,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(st.data())
    def agree(data: st.DataObject) -> None:
        x, y = two(data.draw, BY_NAME[name], tame=True)
        if (x.ndim == 0) != (y.ndim == 0):  # one without axes gives way, as in PyTorch
            y = y.astype(x.dtype)
        if name in ("floordiv", "mod"):
            y = np.where(y == 0, np.ones_like(y), y)
        if name in ("lshift", "rshift"):
            y = np.asarray(y % y.dtype.type(7))
        side = data.draw(st.sampled_from(["arrays", "number right", "number left"]))
        number = {"b": True, "i": 2, "u": 2, "f": 1.5}[x.dtype.kind]
        event(side)

        def result(namespace: Any) -> Any:
            one, other = given_to(namespace, x), given_to(namespace, y)
            if side == "arrays":
                return function(one, other)
            return function(one, number) if side == "number right" else function(number, other)

        if side == "number left" and x.dtype.kind != y.dtype.kind:
            return
        with np.errstate(all="ignore"):
            expected = result(strict)
        same(result(ours), expected)

    agree()


@pytest.mark.parametrize("name", ["iadd", "isub", "imul", "itruediv", "iand", "ior", "ixor"])
def test_operators_in_place_agree(name: str) -> None:
    dtypes = {"t": FLOATS, "a": ("bool",) if name == "iand" else NUMBERS}.get(name[1], NUMBERS)
    if name in ("iand", "ior", "ixor"):
        dtypes = ("bool", *INTEGERS)
    for dtype in dtypes:
        x = np.array([[1, 0, 3], [2, 5, 1]]).astype(dtype)
        y = np.array([1, 1, 2]).astype(dtype)
        found = getattr(operator, name)(given_to(ours, x), given_to(ours, y))
        same(found, getattr(operator, name)(given_to(strict, x), given_to(strict, y)))


def test_signs_and_conversions_of_arrays() -> None:
    for dtype in NUMBERS:
        x = np.array([1, 2, 3]).astype(dtype)
        for function in (operator.pos, operator.neg, operator.abs):
            same(function(given_to(ours, x)), function(given_to(strict, x)))
    same(~given_to(ours, np.array([1, 2])), ~given_to(strict, np.array([1, 2])))
    one = given_to(ours, np.array(3))
    assert (int(one), float(one), bool(one), operator.index(one)) == (3, 3.0, True, 3)
    x = given_to(ours, np.ones((2, 3)))
    assert (x.ndim, tuple(x.shape), x.T.shape, x.mT.shape) == (2, (2, 3), (3, 2), (3, 2))
    assert x.dtype == ours.float64
    assert x.device == given_to(ours, np.ones(1)).device


def index_of(draw: Any, x: np.ndarray) -> Any:
    """An index of the standard: numbers, slices, new axes, a mask, arrays of integers."""
    form = draw(st.sampled_from(["basic", "mask", "integers"]))
    if form == "mask":
        return array(draw, ("bool",), x.shape)
    if form == "integers" and all(x.shape):
        return tuple(
            draw(drawn.arrays("int64", 2, elements=st.integers(-size, size - 1)))
            for size in x.shape
        )
    parts: list[Any] = []
    for size in x.shape:
        whole = st.integers(-size, size - 1) if size else st.nothing()
        ends = st.none() | st.integers(0, size)
        parts.append(draw(whole | st.builds(slice, ends, ends, st.sampled_from([None, 1, 2]))))
    if draw(st.booleans()):
        parts.insert(draw(st.integers(0, len(parts))), None)
    return tuple(parts) if draw(st.booleans()) or len(parts) != 1 else parts[0]


@settings(max_examples=200, deadline=None, derandomize=True, database=None,
          suppress_health_check=list(HealthCheck))  # fmt: skip
@given(st.data())
def test_indices_agree(data: st.DataObject) -> None:
    x = array(data.draw, ANY)
    index = index_of(data.draw, x)
    expected = given_to(strict, x)[given_to(strict, index)]
    same(given_to(ours, x)[given_to(ours, index)], expected)
    parts = index if isinstance(index, tuple) else (index,)
    if any(part is None or getattr(part, "dtype", None) == np.int64 for part in parts):
        return  # the standard reads there and does not write
    one, other = given_to(ours, x.copy()), given_to(strict, x.copy())
    value = {"b": True, "i": 3, "u": 3, "f": 2.5}[x.dtype.kind]
    one[given_to(ours, index)] = value
    other[given_to(strict, index)] = value
    same(one, other)


# --- signatures ---------------------------------------------------------------------------------

# PyTorch's own names of options stay beside the standard's, and the default dtype is a setting.
Kind = inspect.Parameter


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_parameters_are_the_standards(name: str) -> None:
    """Names that may be given by keyword are the standard's; so are the positions of the others."""

    def parameters(namespace: Any) -> list[inspect.Parameter]:
        function = namespace
        for part in name.split("."):
            function = getattr(function, part)
        return list(inspect.signature(function).parameters.values())

    own = parameters(ours)
    by_position = [p for p in own if p.kind in (Kind.POSITIONAL_ONLY, Kind.POSITIONAL_OR_KEYWORD)]
    for at, wanted in enumerate(parameters(strict)):
        if wanted.kind in (Kind.POSITIONAL_ONLY, Kind.POSITIONAL_OR_KEYWORD):
            assert at < len(by_position) or any(p.kind == Kind.VAR_POSITIONAL for p in own), wanted
        elif wanted.kind == Kind.VAR_POSITIONAL:
            assert any(p.kind == Kind.VAR_POSITIONAL for p in own), wanted
        if wanted.kind in (Kind.KEYWORD_ONLY, Kind.POSITIONAL_OR_KEYWORD):
            named = {p.name for p in own if p.kind != Kind.POSITIONAL_ONLY}
            assert wanted.name in named or any(p.kind == Kind.VAR_KEYWORD for p in own), wanted
