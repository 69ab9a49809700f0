"""The array API standard: each function of its strict implementation, with the same arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import contraflow as cf
from contraflow import array_api as ours

strict = pytest.importorskip("array_api_strict", reason="`make test` installs it")

# What contraflow has nothing for: complex numbers, wide unsigned integers, Fourier transforms.
ABSENT = {"complex64", "complex128", "imag", "uint16", "uint32", "uint64", "fft"}
# Parts of the strict implementation itself.
ITS_OWN = {
    "ArrayAPIStrictFlags", "Device", "get_array_api_strict_flags", "reset_array_api_strict_flags",
    "set_array_api_strict_flags",
}  # fmt: skip

x = np.array([[0.5, -1.5, 2.0], [0.25, 3.0, -0.75]])
y = np.array([[1.5, -0.5, 2.0], [2.25, -3.0, 0.75]])
unit, positive = x / 4, np.abs(x) + 0.25
single = x.astype(np.float32)
i, j = np.array([[5, -3, 2], [7, 0, 4]]), np.array([[2, 4, -3], [1, 5, 3]])
small = np.array([[1, 2, 3], [0, 2, 1]], np.int32)
flags, others = np.array([True, False, True]), np.array([True, True, False])
square = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]])
volume = np.arange(24.0).reshape(2, 3, 4)

# The arguments of each function: arrays and others by position, and a dict of those by name.
CASES: dict[str, list[tuple[Any, ...]]] = {}


def add(names: str, *cases: tuple[Any, ...]) -> None:
    for name in names.split():
        CASES.setdefault(name, []).extend(cases)


add("abs negative positive sign square", (x,), (i,), (single,))
special = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0])
add("abs negative positive sign square floor ceil trunc round signbit isnan", (special,))
add("var std", (np.array(np.inf),), (np.array(2.0),), (special, {"axis": ()}))
add("ceil floor round trunc", (x,), (i,))
add("cos cosh exp expm1 sin sinh tan tanh asinh atan reciprocal isfinite isinf isnan signbit", (x,))
add("acos asin atanh", (unit,))
add("log log10 log1p log2 sqrt acosh", (positive + 1,))
add("conj real", (x,))
add("add subtract multiply maximum minimum", (x, y), (i, j), (x, 2.0), (single, single))
add("divide atan2 copysign hypot logaddexp nextafter", (x, y))
add("equal greater greater_equal less less_equal not_equal", (x, y), (i, j), (i, 2))
add("floor_divide remainder", (x, y), (i, j + 10))
add("pow", (positive, y), (np.abs(i), np.abs(j)))
add("bitwise_and bitwise_or bitwise_xor", (i, j), (flags, others))
add("bitwise_invert", (i,), (flags,))
add("bitwise_left_shift bitwise_right_shift", (i, np.abs(j)))
add("logical_and logical_or logical_xor", (flags, others))
add("logical_not", (flags,))
add("clip", (x, {"min": -0.5, "max": 1.0}), (i, 0, 4), (x,))
add("max min", (x,), (x, {"axis": 1}), (x, {"axis": (0, 1), "keepdims": True}), (i, {"axis": -1}))
add("sum prod", (x,), (i, {"axis": 1}), (small, {"axis": 0}), (x, {"axis": (0, 1)}))
add("mean std var", (x,), (x, {"axis": 1, "keepdims": True}), (single, {"axis": (0, 1)}))
add("std var", (x, {"correction": 1.0, "axis": 1}))
add("all any", (flags,), (i, {"axis": 0}), (i, {"axis": (0, 1), "keepdims": True}))
add("argmax argmin", (x,), (x, {"axis": 1}), (i, {"axis": 0, "keepdims": True}))
add("count_nonzero", (i,), (i, {"axis": 1, "keepdims": True}))
add("cumulative_sum cumulative_prod", (x, {"axis": 1}), (small, {"axis": 0}), (x[0],),
    (x, {"axis": 1, "include_initial": True}))  # fmt: skip
add("diff", (x,), (x, {"axis": 0}), (x, {"n": 2}))
add("sort argsort", (x,), (x, {"axis": 0}), (i, {"descending": True}))
add("nonzero", (i,))
add("searchsorted", (np.array([1.0, 2.0, 4.0]), np.array([0.5, 2.0, 5.0])),
    (np.array([1.0, 2.0]), np.array([2.0]), {"side": "right"}))  # fmt: skip
add("where", (flags, x, y))
add("isin", (i, j))
add("take", (x, np.array([2, 0]), {"axis": 1}))
add("take_along_axis", (x, np.array([[2, 0], [1, 1]]), {"axis": 1}))
add("unique_values unique_counts unique_inverse unique_all", (small,))
add("concat stack", ([x, y],), ([x, y], {"axis": 1}), ([small, i],))
add("concat", ([x, y], {"axis": None}))
add("unstack", (x,), (x, {"axis": 1}))
add("expand_dims", (x, {"axis": 1}), (x, {"axis": -1}))
add("squeeze", (x[None], 0), (x[None, :, None], (0, 2)))
add("permute_dims", (volume, (2, 0, 1)))
add("moveaxis", (volume, 0, 2), (volume, (0, 1), (1, 0)))
add("reshape", (x, (3, 2)), (x, (-1,), {"copy": True}))
add("flip", (x,), (x, {"axis": 1}), (volume, {"axis": (0, 2)}))
add("roll", (x, 1), (x, 1, {"axis": 1}), (volume, (1, 2), {"axis": (0, 1)}))
add("repeat", (x, 2), (x, 3, {"axis": 0}))
add("tile", (x, (2, 1)), (x, (2, 1, 2)))
add("broadcast_to", (x[0], (2, 3)))
add("broadcast_arrays", (x, x[0]))
add("matrix_transpose", (volume,))
add("matmul", (volume, volume.swapaxes(1, 2)), (x, y.T), (i, j.T))
add("tensordot", (x, y.T, {"axes": 1}), (volume, volume, {"axes": ((0, 2), (0, 2))}))
add("vecdot", (x, y), (x, y, {"axis": -2}))
add("tril triu", (square,), (square, {"k": 1}))
add("meshgrid", (x[0], y[1]), (x[0], y[1], {"indexing": "ij"}))
add("astype", (x, "float32"), (i, "float64"), (x, "int64"))
add("isdtype", ("float32", "real floating"), ("int8", ("bool", "integral")), ("bool", "numeric"))
add("result_type", ("int8", "int32"), ("float32", "float64"), (small, "uint8"), (single, 1.0))
add("can_cast", ("int8", "int32"), ("float64", "float32"))
add("arange", (5,), (1, 7, 2), (0.0, 1.0, 0.25), (5, 1), (3, {"dtype": "float32"}))
add("eye", (3,), (2, 4), (3, 3, {"k": -1}), (2, {"k": 5}))
add("linspace", (0.0, 1.0, 5), (0.0, 1.0, 4, {"endpoint": False}))
add("full", ((2, 3), 1.5), ((2,), 3), ((2,), True))
add("ones zeros empty", ((2, 3),), (4, {"dtype": "int32"}))
add("full_like", (x, 2.0))
add("ones_like zeros_like empty_like", (x,), (i,))
add("asarray", ([[1, 2], [3, 4]],), ([1.0, 2.0], {"dtype": "float32"}), (True,), (2.5,))
add("from_dlpack", (x,))
add(
    "linalg.cholesky linalg.eigvalsh linalg.inv linalg.det linalg.svdvals linalg.slogdet", (square,)
)
add("linalg.pinv linalg.matrix_norm linalg.matrix_rank linalg.trace linalg.diagonal", (square,))
add("linalg.matrix_norm", (square, {"ord": 1, "keepdims": True}), (volume, {"ord": "nuc"}))
add("linalg.matrix_power", (square, 3), (square, -1))
add("linalg.matrix_transpose", (volume,))
add("linalg.vector_norm", (x,), (volume, {"axis": (0, 1), "ord": 1}), (x, {"keepdims": True}))
add("linalg.solve", (square, x.T))
add("linalg.cross", (x, y))
add("linalg.outer", (x[0], y[1]))
add("linalg.matmul linalg.vecdot", (square, square))
add("linalg.tensordot", (square, square, {"axes": 1}))
add("linalg.trace linalg.diagonal", (volume, {"offset": 1}))
# Their factors have signs that LAPACK chooses: shapes and dtypes are compared.
add("linalg.eigh linalg.qr linalg.svd", (square,))
SHAPES_ONLY = {"linalg.eigh", "linalg.qr", "linalg.svd", "empty", "empty_like"}


@pytest.fixture(autouse=True)
def _numbers_are_float64():
    """As they are in the strict implementation; the default of contraflow is float32."""
    before = cf.get_default_dtype()
    cf.set_default_dtype(cf.float64)
    yield
    cf.set_default_dtype(before)


def given(namespace: Any, value: Any, name: str) -> Any:
    """An argument for a namespace: its arrays for NumPy's, and its dtypes for their names."""
    if isinstance(value, np.ndarray):
        return cf.tensor(value) if namespace is ours else namespace.asarray(value)
    if isinstance(value, str) and hasattr(namespace, value) and value not in CASES:
        return getattr(namespace, value)
    if isinstance(value, (list, tuple)):
        return type(value)(given(namespace, part, name) for part in value)
    if isinstance(value, dict):
        return {key: given(namespace, part, name) for key, part in value.items()}
    return value


def call(namespace: Any, name: str, case: tuple[Any, ...]) -> Any:
    function = namespace
    for part in name.split("."):
        function = getattr(function, part)
    *places, last = case
    named = last if isinstance(last, dict) else {}
    positional = places if isinstance(last, dict) else case
    return function(*(given(namespace, value, name) for value in positional),
                    **given(namespace, named, name))  # fmt: skip


def compare(found: Any, expected: Any, values: bool) -> None:
    if isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected):
            compare(one, other, values)
        if hasattr(expected, "_fields"):
            assert found._fields == expected._fields
    elif hasattr(expected, "shape"):
        assert isinstance(found, cf.Tensor)
        assert tuple(found.shape) == tuple(expected.shape)
        assert str(found.dtype).removeprefix("contraflow.") == str(expected.dtype).split(".")[-1]
        if values:
            array = np.asarray(expected.__array__())
            np.testing.assert_allclose(found.numpy(), array, rtol=1e-6, atol=1e-12)
    elif isinstance(found, bool):
        assert found == expected
    else:
        assert str(found).removeprefix("contraflow.") == str(expected).split(".")[-1]


@pytest.mark.parametrize(
    ("name", "case"),
    [
        pytest.param(name, c, id=f"{name}-{k}")
        for name, cs in CASES.items()
        for k, c in enumerate(cs)
    ],
)
def test_a_function_does_what_the_strict_one_does(name: str, case: tuple[Any, ...]) -> None:
    with np.errstate(all="ignore"):  # NumPy warns of infinities
        expected = call(strict, name, case)
    compare(call(ours, name, case), expected, name not in SHAPES_ONLY)


def listed() -> set[str]:
    """All names of the standard, as the strict implementation has them."""
    extension = {f"linalg.{name}" for name in strict.linalg.__all__}
    return {n for n in strict.__all__ if not n.startswith("_")} - ITS_OWN - {"linalg"} | extension


def test_the_share_of_names_that_are_there() -> None:
    names = listed()
    lacking = {n for n in names if not hasattr(ours.linalg if "." in n else ours, n.split(".")[-1])}
    assert lacking == ABSENT & names
    constants = {"e", "inf", "nan", "newaxis", "pi", "finfo", "iinfo", "broadcast_shapes"}
    dtypes = set(ours.__array_namespace_info__().dtypes())
    assert names - lacking - constants - dtypes == set(CASES)  # each is tried


def test_tensors_name_their_namespace() -> None:
    t = cf.ones(2)
    assert t.__array_namespace__() is ours
    assert t.__array_namespace__(api_version="2024.12") is ours
    with pytest.raises(ValueError, match=r"version '2020.01' is not there; 2024.12 is"):
        t.__array_namespace__(api_version="2020.01")
    assert t.to_device("cpu") is t
    with pytest.raises(ValueError, match="stream must be None"):
        t.to_device("cpu", stream=1)


def test_isin_can_be_inverted() -> None:  # which the strict implementation forgets
    assert ours.isin(cf.tensor([1, 2]), cf.tensor([2, 3]), invert=True).tolist() == [True, False]


def test_what_the_namespace_says_of_itself() -> None:
    info = ours.__array_namespace_info__()
    assert info.default_device() == "cpu"
    assert info.devices() == ["cpu"]
    assert info.default_dtypes() == {
        "real floating": cf.float64, "integral": cf.int64, "indexing": cf.int64
    }  # fmt: skip
    assert set(info.dtypes(kind="real floating")) == {"float32", "float64"}
    assert info.capabilities()["data-dependent shapes"]
    with pytest.raises(ValueError, match="'reals' is not one of bool, signed integer"):
        ours.isdtype(cf.int8, "reals")


def test_array_api_compat_finds_the_namespace() -> None:
    compat = pytest.importorskip("array_api_compat", reason="`make test` installs it")
    assert compat.is_array_api_obj(cf.ones(2))
    assert compat.array_namespace(cf.ones(2), cf.zeros(3)) is ours
