"""Drawn arguments for each function of the array API standard, for `test_array_api_drawn.py`.

A recipe draws the arguments of a function: shapes (empty and 0-d ones too), dtypes, axes, options.
What the standard leaves open is not drawn: where nan is sorted to, division of integers by zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as drawn

FLOATS, INTEGERS = ("float32", "float64"), ("int8", "int16", "int32", "int64", "uint8")
NUMBERS, ANY = (*INTEGERS, *FLOATS), ("bool", *INTEGERS, *FLOATS)
ODD = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, -2.5, 3.0, 1e30, math.inf, -math.inf, math.nan]
Drawn = tuple[tuple[Any, ...], dict[str, Any]]
Recipe = Callable[[Any], Drawn]  # draws arguments: by position, and by name


shapes = drawn.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
filled = drawn.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=3)


def elements(dtype: str, tame: bool) -> st.SearchStrategy[Any]:
    if dtype == "bool":
        return st.booleans()
    if dtype in INTEGERS:
        least = 0 if dtype == "uint8" else -4
        return st.integers(least, 4) if tame else drawn.from_dtype(np.dtype(dtype))
    small = st.integers(-20, 20).map(lambda n: n / 4)
    return small if tame else small | st.sampled_from(ODD)


def array(
    draw: Any, dtypes: tuple[str, ...], shape: Any = shapes, tame: bool = False
) -> np.ndarray:
    dtype = draw(st.sampled_from(dtypes))
    made: np.ndarray = draw(drawn.arrays(dtype, shape, elements=elements(dtype, tame)))
    return made


def alike(dtype: str, dtypes: tuple[str, ...]) -> tuple[str, ...]:
    """The dtypes that the standard promotes together with one."""
    kind = next(k for k in (("bool",), INTEGERS, FLOATS) if dtype in k)
    return tuple(each for each in dtypes if each in kind)


def two(draw: Any, dtypes: tuple[str, ...], tame: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Arrays that broadcast, of dtypes that promote."""
    both = draw(drawn.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3))
    one = array(draw, dtypes, both.input_shapes[0], tame)
    return one, array(draw, alike(str(one.dtype), dtypes), both.input_shapes[1], tame)


def axis_of(draw: Any, x: np.ndarray) -> int:
    return draw(st.integers(-x.ndim, x.ndim - 1))


def axes_of(draw: Any, x: np.ndarray) -> Any:
    """None, an axis, or several."""
    if not x.ndim:
        return draw(st.sampled_from([None, ()]))
    several = drawn.valid_tuple_axes(x.ndim)
    return draw(st.none() | st.integers(-x.ndim, x.ndim - 1) | several)


# --- how the arguments of each function are drawn -----------------------------------------------

RECIPES: dict[str, Recipe] = {}


def drawn_by(names: str) -> Callable[[Recipe], Recipe]:
    def put(recipe: Recipe) -> Recipe:
        RECIPES.update(dict.fromkeys(names.split(), recipe))
        return recipe

    return put


UNARY = {
    "abs negative positive sign square ceil floor round trunc": NUMBERS,
    "acos acosh asin asinh atan atanh cos cosh exp expm1 log log10 log1p log2 reciprocal sin sinh "
    "sqrt tan tanh signbit conj real": FLOATS,
    "isfinite isinf isnan": NUMBERS,
    "bitwise_invert": ("bool", *INTEGERS),
    "logical_not": ("bool",),
    "zeros_like ones_like empty_like": ANY,
}
BINARY = {
    "add subtract multiply maximum minimum": NUMBERS,
    "divide atan2 copysign hypot logaddexp nextafter": FLOATS,
    "equal not_equal": ANY,
    "greater greater_equal less less_equal": NUMBERS,
    "bitwise_and bitwise_or bitwise_xor": ("bool", *INTEGERS),
    "logical_and logical_or logical_xor": ("bool",),
}
for _names, _dtypes in UNARY.items():
    drawn_by(_names)(lambda draw, dtypes=_dtypes: ((array(draw, dtypes),), {}))
for _names, _dtypes in BINARY.items():
    drawn_by(_names)(lambda draw, dtypes=_dtypes: (two(draw, dtypes), {}))


@drawn_by("pow")
def powers(draw: Any) -> Drawn:
    base, exponent = two(draw, NUMBERS, tame=True)
    return (base, np.asarray(np.abs(exponent)) if exponent.dtype.kind in "iu" else exponent), {}


@drawn_by("floor_divide remainder")
def quotients(draw: Any) -> Drawn:
    x, y = two(draw, NUMBERS, tame=True)
    return (x, np.where(y == 0, np.ones_like(y), y)), {}


@drawn_by("bitwise_left_shift bitwise_right_shift")
def shifts(draw: Any) -> Drawn:
    x, by = two(draw, INTEGERS)
    return (x, np.asarray(by % by.dtype.type(7))), {}


@drawn_by("clip")
def limits(draw: Any) -> Drawn:
    x = array(draw, NUMBERS)
    low, high = sorted(draw(st.lists(st.integers(0, 20), min_size=2, max_size=2)))
    given = {"min": low, "max": high}
    return (x,), {name: given[name] for name in draw(st.sets(st.sampled_from(sorted(given))))}


@drawn_by("max min")
def folds_of_some(draw: Any) -> Drawn:
    x = array(draw, NUMBERS, filled)
    return (x,), {"axis": axes_of(draw, x), "keepdims": draw(st.booleans())}


@drawn_by("all any count_nonzero")
def folds_of_any(draw: Any) -> Drawn:
    x = array(draw, ANY)
    return (x,), {"axis": axes_of(draw, x), "keepdims": draw(st.booleans())}


@drawn_by("sum prod")
def sums(draw: Any) -> Drawn:
    # uint8 adds up in uint64 by the standard, which is not here.
    x = array(draw, tuple(d for d in NUMBERS if d != "uint8"), tame=True)
    named = {"axis": axes_of(draw, x), "keepdims": draw(st.booleans())}
    if draw(st.booleans()):
        named["dtype"] = draw(st.sampled_from(alike(str(x.dtype), NUMBERS)))
    return (x,), named


@drawn_by("mean")
def means(draw: Any) -> Drawn:
    x = array(draw, FLOATS, filled)
    return (x,), {"axis": axes_of(draw, x), "keepdims": draw(st.booleans())}


@drawn_by("std var")
def variances(draw: Any) -> Drawn:
    x = array(draw, FLOATS, filled)
    named = {"axis": axes_of(draw, x), "keepdims": draw(st.booleans())}
    count = x.size if named["axis"] is None else math.prod(
        x.shape[a] for a in np.atleast_1d(np.array(named["axis"], int))
    )  # fmt: skip
    return (x,), {**named, "correction": draw(st.sampled_from([0, 0.5, 1] if count > 1 else [0]))}


@drawn_by("argmax argmin")
def places(draw: Any) -> Drawn:
    x = array(draw, NUMBERS, filled)
    axis = draw(st.none() | st.integers(-x.ndim, x.ndim - 1))
    return (x,), {"axis": axis, "keepdims": draw(st.booleans())}


@drawn_by("cumulative_sum cumulative_prod")
def running(draw: Any) -> Drawn:
    shape = drawn.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=3)
    x = array(draw, tuple(d for d in NUMBERS if d != "uint8"), shape, tame=True)
    named = {"axis": axis_of(draw, x), "include_initial": draw(st.booleans())}
    if x.ndim == 1 and draw(st.booleans()):
        named["axis"] = None
    if draw(st.booleans()):
        named["dtype"] = draw(st.sampled_from(alike(str(x.dtype), NUMBERS)))
    return (x,), named


@drawn_by("diff")
def differences(draw: Any) -> Drawn:
    x = array(draw, NUMBERS, filled)
    named: dict[str, Any] = {"axis": axis_of(draw, x), "n": draw(st.integers(1, 2))}
    for name in draw(st.sets(st.sampled_from(["prepend", "append"]))):
        named[name] = x
    return (x,), named


@drawn_by("sort argsort")
def orders(draw: Any) -> Drawn:
    x = array(draw, NUMBERS, filled)
    named = {"axis": axis_of(draw, x), "descending": draw(st.booleans())}
    return (np.nan_to_num(x) + x.dtype.type(0),), named  # where nan and -0 lie is left open


@drawn_by("nonzero")
def flags(draw: Any) -> Drawn:
    return (array(draw, ANY, drawn.array_shapes(max_dims=3, min_side=0, max_side=3)),), {}


@drawn_by("searchsorted")
def searches(draw: Any) -> Drawn:
    x = np.sort(array(draw, NUMBERS, drawn.array_shapes(max_dims=1, max_side=5), tame=True))
    y = array(draw, (str(x.dtype),), tame=True)
    side = draw(st.sampled_from(["left", "right"]))
    if draw(st.booleans()):
        return (x[::-1].copy(), y), {"side": side, "sorter": np.arange(len(x))[::-1].copy()}
    return (x, y), {"side": side}


@drawn_by("where")
def choices(draw: Any) -> Drawn:
    x, y = two(draw, ANY)
    return (array(draw, ("bool",), draw(st.sampled_from([x.shape, y.shape, ()]))), x, y), {}


@drawn_by("isin")
def members(draw: Any) -> Drawn:
    x = array(draw, INTEGERS, tame=True)
    return (x, array(draw, (str(x.dtype),), tame=True)), {}


@drawn_by("take")
def taken(draw: Any) -> Drawn:
    x = array(draw, ANY, filled)
    axis = axis_of(draw, x)
    inside = st.integers(-x.shape[axis], x.shape[axis] - 1)
    return (x, np.array(draw(st.lists(inside, max_size=4)), np.int64)), {"axis": axis}


@drawn_by("take_along_axis")
def taken_along(draw: Any) -> Drawn:
    x = array(draw, ANY, filled)
    axis = axis_of(draw, x)
    inside = st.integers(-x.shape[axis], x.shape[axis] - 1)
    return (x, draw(drawn.arrays("int64", x.shape, elements=inside))), {"axis": axis}


@drawn_by("unique_values unique_counts unique_inverse unique_all")
def some_with_doubles(draw: Any) -> Drawn:
    return (array(draw, ANY, tame=True),), {}


@drawn_by("concat")
def joined(draw: Any) -> Drawn:
    x = array(draw, ANY, drawn.array_shapes(max_dims=3, min_side=0, max_side=3))
    axis = draw(st.none() | st.integers(-x.ndim, x.ndim - 1))
    shape = list(x.shape)
    if axis is not None:
        shape[axis] = draw(st.integers(0, 3))
    return ([x, array(draw, alike(str(x.dtype), ANY), tuple(shape))],), {"axis": axis}


@drawn_by("stack")
def stacked(draw: Any) -> Drawn:
    x = array(draw, ANY)
    others = [
        array(draw, alike(str(x.dtype), ANY), x.shape) for _ in range(draw(st.integers(0, 2)))
    ]
    return ([x, *others],), {"axis": draw(st.integers(-x.ndim - 1, x.ndim))}


@drawn_by("unstack")
def unstacked(draw: Any) -> Drawn:
    x = array(draw, ANY, drawn.array_shapes(max_dims=3, min_side=0, max_side=3))
    return (x,), {"axis": axis_of(draw, x)}


@drawn_by("expand_dims")
def expanded(draw: Any) -> Drawn:
    x = array(draw, ANY)
    return (x,), {"axis": draw(st.integers(-x.ndim - 1, x.ndim))}


@drawn_by("squeeze")
def squeezed(draw: Any) -> Drawn:
    x = array(draw, ANY, drawn.array_shapes(max_dims=3, min_side=0, max_side=2))
    ones = [axis for axis, size in enumerate(x.shape) if size == 1]
    axes = tuple(draw(st.sets(st.sampled_from(ones)))) if ones else ()
    return (x, axes[0] if len(axes) == 1 and draw(st.booleans()) else axes), {}


@drawn_by("permute_dims")
def permuted(draw: Any) -> Drawn:
    x = array(draw, ANY)
    return (x, tuple(draw(st.permutations(range(x.ndim))))), {}


@drawn_by("moveaxis")
def moved(draw: Any) -> Drawn:
    x = array(draw, ANY, filled)
    if draw(st.booleans()):
        return (x, axis_of(draw, x), axis_of(draw, x)), {}
    count = draw(st.integers(1, x.ndim))
    order = st.permutations(range(x.ndim))
    return (x, tuple(draw(order)[:count]), tuple(draw(order)[:count])), {}


@drawn_by("reshape")
def reshaped(draw: Any) -> Drawn:
    x = array(draw, ANY)
    forms = [x.shape[::-1], (x.size,), (1, x.size)] + [(-1,)] * (x.size > 0)
    return (x, draw(st.sampled_from(forms))), {"copy": draw(st.sampled_from([None, True]))}


@drawn_by("flip")
def flipped(draw: Any) -> Drawn:
    x = array(draw, ANY)
    return (x,), {"axis": axes_of(draw, x)}


@drawn_by("roll")
def rolled(draw: Any) -> Drawn:
    x = array(draw, ANY, filled)
    axis = axes_of(draw, x)
    many = isinstance(axis, tuple) and len(axis) > 0
    if axis == ():
        axis = None
    shift = tuple(draw(st.integers(-4, 4)) for _ in axis) if many else draw(st.integers(-4, 4))
    return (x, shift), {"axis": axis}


@drawn_by("repeat")
def repeated(draw: Any) -> Drawn:
    x = array(draw, ANY, filled)
    axis = draw(st.none() | st.integers(-x.ndim, x.ndim - 1))
    length = x.size if axis is None else x.shape[axis]
    times = draw(st.integers(0, 3) | drawn.arrays("int64", length, elements=st.integers(0, 3)))
    return (x, times), {"axis": axis}


@drawn_by("tile")
def tiled(draw: Any) -> Drawn:
    counts = st.lists(st.integers(0, 2), max_size=4)
    return (array(draw, ANY), tuple(draw(counts))), {}


@drawn_by("broadcast_to")
def broadcast(draw: Any) -> Drawn:
    both = draw(drawn.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3))
    return (array(draw, ANY, both.input_shapes[0]), both.result_shape), {}


@drawn_by("broadcast_arrays")
def broadcast_together(draw: Any) -> Drawn:
    both = draw(drawn.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, max_side=3))
    return tuple(array(draw, ANY, shape) for shape in both.input_shapes), {}


@drawn_by("meshgrid")
def grids(draw: Any) -> Drawn:
    first = array(draw, NUMBERS, drawn.array_shapes(max_dims=1, max_side=3))
    count = draw(st.integers(0, 2))
    lines = [array(draw, (str(first.dtype),), draw(st.integers(0, 3))) for _ in range(count)]
    return (first, *lines), {"indexing": draw(st.sampled_from(["xy", "ij"]))}


matrices = drawn.array_shapes(min_dims=2, max_dims=4, min_side=0, max_side=3)


@drawn_by("matrix_transpose linalg.matrix_transpose")
def transposed(draw: Any) -> Drawn:
    return (array(draw, ANY, matrices),), {}


@drawn_by("tril triu")
def triangles(draw: Any) -> Drawn:
    return (array(draw, ANY, matrices),), {"k": draw(st.integers(-4, 4))}


@drawn_by("matmul linalg.matmul")
def products(draw: Any) -> Drawn:
    shapes_of_two = drawn.mutually_broadcastable_shapes(
        signature="(m?,k),(k,n?)->(m?,n?)", max_dims=2, min_side=0, max_side=3
    )
    sides = draw(shapes_of_two)
    x = array(draw, NUMBERS, sides.input_shapes[0], tame=True)
    return (x, array(draw, alike(str(x.dtype), NUMBERS), sides.input_shapes[1], tame=True)), {}


@drawn_by("tensordot linalg.tensordot")
def tensor_products(draw: Any) -> Drawn:
    x = array(draw, NUMBERS, tame=True)
    count = draw(st.integers(0, x.ndim))
    rest = draw(drawn.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3))
    shape = x.shape[x.ndim - count :] + rest
    y = array(draw, alike(str(x.dtype), NUMBERS), shape, tame=True)
    if draw(st.booleans()):
        return (x, y), {"axes": count}
    return (x, y), {"axes": (tuple(range(x.ndim - count, x.ndim)), tuple(range(count)))}


@drawn_by("vecdot linalg.vecdot")
def inner_products(draw: Any) -> Drawn:
    x = array(draw, NUMBERS, filled, tame=True)
    y = array(draw, alike(str(x.dtype), NUMBERS), x.shape, tame=True)
    return (x, y), {"axis": draw(st.integers(-x.ndim, -1))}


@drawn_by("astype")
def converted(draw: Any) -> Drawn:
    x = array(draw, ANY, tame=True)
    x = np.abs(x) if x.dtype.kind != "b" else x  # what becomes of -1 in uint8 is left open
    return (np.asarray(x), draw(st.sampled_from(ANY))), {"copy": draw(st.booleans())}


@drawn_by("isdtype")
def kinds(draw: Any) -> Drawn:
    named = st.sampled_from(
        ["bool", "signed integer", "unsigned integer", "integral", "real floating", "numeric", *ANY]
    )
    return (draw(st.sampled_from(ANY)), draw(named | st.tuples(named, named))), {}


@drawn_by("result_type")
def combined(draw: Any) -> Drawn:
    first = draw(st.sampled_from(ANY))
    others = st.sampled_from(alike(first, ANY))
    parts = [draw(others | others.map(lambda d: np.ones(2, d))) for _ in range(2)]
    numbers = {"bool": [True], "int": [2], "uin": [2], "flo": [2, 2.5]}
    return (
        first,
        *parts,
        *draw(st.sampled_from([[], numbers[first[:3] if first != "bool" else first]])),
    ), {}


@drawn_by("can_cast")
def casts(draw: Any) -> Drawn:
    one = draw(st.sampled_from(ANY))
    return (one, draw(st.sampled_from(alike(one, ANY)))), {}


@drawn_by("arange")
def ranges(draw: Any) -> Drawn:
    if draw(st.booleans()):
        return tuple(draw(st.lists(st.integers(-5, 5), min_size=1, max_size=2))), {}
    start, stop = draw(st.integers(-5, 5)), draw(st.integers(-5, 5))
    step = draw(st.sampled_from([-2, -0.5, 1, 0.25, 3]))
    return (start, stop, step), draw(st.sampled_from([{}, {"dtype": "float32"}]))


@drawn_by("eye")
def identities(draw: Any) -> Drawn:
    sizes = draw(st.lists(st.integers(0, 4), min_size=1, max_size=2))
    return tuple(sizes), {"k": draw(st.integers(-5, 5)), "dtype": draw(st.sampled_from(ANY))}


@drawn_by("linspace")
def spaced(draw: Any) -> Drawn:
    ends = draw(st.lists(st.integers(-5, 5), min_size=2, max_size=2))
    count = draw(st.integers(0, 6))
    return (*map(float, ends), count), {"endpoint": draw(st.booleans()) or count == 0}


@drawn_by("full")
def constants(draw: Any) -> Drawn:
    return (draw(shapes), draw(st.sampled_from([True, 3, -2, 2.5]))), {}


@drawn_by("ones zeros empty")
def made(draw: Any) -> Drawn:
    return (draw(shapes | st.integers(0, 3)),), draw(
        st.sampled_from([{}, *({"dtype": dtype} for dtype in ANY)])
    )


@drawn_by("full_like")
def constants_like(draw: Any) -> Drawn:
    x = array(draw, ANY)
    return (x, True if x.dtype.kind == "b" else 3), {}


@drawn_by("asarray")
def from_lists(draw: Any) -> Drawn:
    x = array(draw, ("bool", "int64", "float64"), drawn.array_shapes(min_dims=0, max_dims=3))
    dtype = draw(st.none() | st.sampled_from(alike(str(x.dtype), ("bool", "int64", *FLOATS))))
    return (x.tolist(),), {} if dtype is None else {"dtype": dtype}


@drawn_by("from_dlpack")
def exchanged(draw: Any) -> Drawn:
    return (array(draw, ANY),), {}


def squares(draw: Any, dtypes: tuple[str, ...] = FLOATS) -> np.ndarray:
    """Square matrices, well conditioned: the diagonal outweighs the rest."""
    n = draw(st.integers(1, 3))
    around = draw(drawn.array_shapes(min_dims=0, max_dims=1, max_side=2))
    x = array(draw, dtypes, (*around, n, n), tame=True)
    return (x / 10 + 2 * n * np.eye(n)).astype(x.dtype)


@drawn_by("linalg.inv linalg.det linalg.slogdet linalg.svdvals linalg.svd linalg.qr")
def square_matrices(draw: Any) -> Drawn:
    return (squares(draw),), {}


@drawn_by("linalg.cholesky linalg.eigh linalg.eigvalsh")
def symmetric_matrices(draw: Any) -> Drawn:
    x = squares(draw)
    return (x + np.swapaxes(x, -1, -2),), {}


@drawn_by("linalg.pinv linalg.matrix_rank")
def of_any_rank(draw: Any) -> Drawn:
    return (array(draw, FLOATS, drawn.array_shapes(min_dims=2, max_side=3), tame=True),), {}


@drawn_by("linalg.matrix_norm")
def norms_of_matrices(draw: Any) -> Drawn:
    x = array(draw, FLOATS, drawn.array_shapes(min_dims=2, max_dims=3, max_side=3), tame=True)
    order = draw(st.sampled_from(["fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf]))
    return (x,), {"ord": order, "keepdims": draw(st.booleans())}


@drawn_by("linalg.vector_norm")
def norms(draw: Any) -> Drawn:
    x = array(draw, FLOATS, filled, tame=True)
    order = draw(st.sampled_from([0, 1, 2, 3, -1, 2.5, math.inf, -math.inf]))
    axis = axes_of(draw, x)
    return (x,), {"axis": axis or None if axis == () else axis, "ord": order,
                  "keepdims": draw(st.booleans())}  # fmt: skip


@drawn_by("linalg.matrix_power")
def powers_of_matrices(draw: Any) -> Drawn:
    return (squares(draw), draw(st.integers(-2, 4))), {}


@drawn_by("linalg.trace linalg.diagonal")
def diagonals(draw: Any) -> Drawn:
    x = array(draw, tuple(d for d in NUMBERS if d != "uint8"), matrices, tame=True)
    return (x,), {"offset": draw(st.integers(-2, 2))}


@drawn_by("linalg.solve")
def systems(draw: Any) -> Drawn:
    x = squares(draw)
    columns = draw(st.none() | st.integers(1, 3))
    shape = x.shape[-1:] if columns is None else (*x.shape[:-1], columns)
    return (x, array(draw, (str(x.dtype),), shape, tame=True)), {}


@drawn_by("linalg.cross")
def cross_products(draw: Any) -> Drawn:
    around = draw(drawn.array_shapes(min_dims=0, max_dims=2, max_side=3))
    x = array(draw, NUMBERS, (*around, 3), tame=True)
    return (x, array(draw, (str(x.dtype),), x.shape, tame=True)), {}


@drawn_by("linalg.outer")
def outer_products(draw: Any) -> Drawn:
    line = drawn.array_shapes(min_dims=1, max_dims=1, min_side=0, max_side=3)
    x = array(draw, NUMBERS, line, tame=True)
    return (x, array(draw, alike(str(x.dtype), NUMBERS), line, tame=True)), {}
