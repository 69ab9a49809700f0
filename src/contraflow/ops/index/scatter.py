"""Gathers and scatters by tensors of indices, along one dim or anywhere."""

from __future__ import annotations

from typing import Any

import numpy as np

from contraflow.dtypes import bool_, int64
from contraflow.errors import describe
from contraflow.expressions import expression as s
from contraflow.operation.context import apply
from contraflow.operation.kinds import composite, scattering
from contraflow.operation.op import Op
from contraflow.operation.samples import Array, Failure, Sample
from contraflow.ops.creation.create import full
from contraflow.ops.elementwise.basic import to_dtype, where
from contraflow.ops.index.gather import (
    added,
    along_dim,
    check_integers,
    check_range,
    gather,
    put_at,
    take_at,
)
from contraflow.ops.shape.view import expand, reshape, slice_
from contraflow.shapes import Shape, broadcast_shapes, normalize_dim, numel
from contraflow.tensors.tensor import Tensor

# --- along one dim -----------------------------------------------------------------------------


def _line(name: str, x: Tensor, dim: int, index: Tensor) -> tuple[int, Tensor]:
    """The dim, and a vector of indices into it as `at`."""
    if not isinstance(index, Tensor):
        raise TypeError(f"{name}: the index must be a tensor, not {type(index).__name__}.")
    check_integers(name, index.spec)
    if index.ndim > 1:
        raise IndexError(f"{name}: the index is {describe(index)}; it must be a vector.")
    return normalize_dim(name, dim, x.ndim), reshape(index, (1, index.numel()))


_VECTOR = Array((3,), 0, 4, int64)
_DISTINCT = np.array([2, 0, 3])


@composite(
    ref=lambda x, index, dim: np.take(x, index, dim),
    samples=lambda: (
        Sample((Array((4, 3)), _VECTOR), {"dim": 0}),
        Sample((Array((2, 4)), _VECTOR), {"dim": -1}),
    ),
    failures=lambda: (
        Failure(
            (Array((2, 3)), np.array([[0]])), {"dim": 0}, IndexError,
            "index_select: the index is int64[1, 1]; it must be a vector.",
        ),
        Failure(
            (Array((2, 3)), np.array([-1])), {"dim": 0}, IndexError,
            "index -1 is out of range for dim 0 with size 2.",
        ),
        Failure((Array((2,)), Array((1,))), {"dim": 0}, TypeError, "index_select: the index is"),
    ),
)  # fmt: skip
def index_select(x, index, *, dim):
    """The slices of a dim at the indices in a vector, in the order of the vector."""
    dim, at = _line("index_select", x, dim, index)
    if not x.ndim:
        return reshape(take_at(reshape(x, (1,)), at, dims=(0,), wrap=False), ())
    return take_at(x, at, dims=(dim,), wrap=False)


@index_select.signature
def _index_select(x: Tensor, dim: int, index: Tensor) -> Tensor:
    return apply(index_select, (x, index), {"dim": dim})


@composite(
    ref=lambda x, index: np.take(x, index),
    samples=lambda: (
        Sample((Array((2, 3)), Array((2, 2), -6, 6, int64))),
        Sample((Array(()), np.array(0))),
    ),
    failures=lambda: (
        Failure((Array((2, 3)), np.array([6])), {}, IndexError, "index 6 is out of range"),
    ),
)
def take(x, index):
    """Elements of the flattened tensor at given indices, in the shape of the index."""
    check_integers("take", index.spec)
    taken = take_at(reshape(x, (-1,)), reshape(index, (1, index.numel())), dims=(0,), wrap=True)
    return reshape(taken, index.shape)


@composite(
    ref=lambda x, indices, dim: np.take_along_axis(x, indices, dim),
    samples=lambda: (
        Sample((Array((3, 4)), np.array([[0, -1], [3, 1], [1, -4]])), {"dim": 1}),
        Sample((Array((2, 3)), Array((4,), 0, 6, int64)), {"dim": None}),
        Sample((Array((3, 1)), Array((1, 4), 0, 1, int64)), {"dim": 1}),
    ),
    failures=lambda: (
        Failure(
            (Array((3, 4)), Array((3,), 0, 3, int64)), {"dim": 1}, ValueError,
            "take_along_dim: float64[3, 4] and the indices int64[3] must have equally many dims.",
        ),
    ),
)  # fmt: skip
def take_along_dim(x, indices, *, dim=None):
    """Elements picked along a dim; the other dims of tensor and indices broadcast."""
    if dim is None:
        return gather(reshape(x, (-1,)), 0, reshape(indices, (-1,)))
    if x.ndim != indices.ndim:
        raise ValueError(
            f"take_along_dim: {describe(x)} and the indices {describe(indices)} must have "
            f"equally many dims."
        )
    dim = normalize_dim("take_along_dim", dim, x.ndim)
    others = [(*t.shape[:dim], *t.shape[dim + 1 :]) for t in (x, indices)]
    common = broadcast_shapes("take_along_dim", others)
    x, indices = (expand(t, (*common[:dim], t.shape[dim], *common[dim:])) for t in (x, indices))
    indices = indices.long()
    return gather(x, dim, where(indices < 0, indices + x.shape[dim], indices))


def _along_ref(write: Any) -> Any:
    def ref(x: np.ndarray, index: np.ndarray, source: Any, dim: int, **params: Any) -> np.ndarray:
        out = x.copy()
        key = (slice(None),) * (dim % x.ndim) + (index,)
        write(out, key, source, **params)
        return out

    return ref


def _put_along(name: str, x: Tensor, dim: int, index: Tensor, source: Tensor, **how: Any) -> Tensor:
    """put_at along one dim, for a source of exactly the shape that `index` selects."""
    dim, at = _line(name, x, dim, index)
    if source.dtype is not x.dtype:
        raise TypeError(f"{name}: {describe(source)} and {describe(x)} must have the same dtype.")
    if not x.ndim:
        return reshape(
            _put_along(name, reshape(x, (1,)), 0, index, reshape(source, (1,)), **how), ()
        )
    wanted = (*x.shape[:dim], at.shape[1], *x.shape[dim + 1 :])
    if source.shape != wanted:
        raise ValueError(
            f"{name}: {describe(source)} does not fit {describe(x)}; {at.shape[1]} indices along "
            f"dim {dim} need {list(wanted)}."
        )
    return put_at(x, at, source, dims=(dim,), **how)


@composite(
    ref=_along_ref(lambda out, key, source, alpha: np.add.at(out, key, source * alpha)),
    samples=lambda: (
        Sample((Array((4, 2)), _VECTOR, Array((3, 2))), {"dim": 0, "alpha": 1}),
        Sample((Array((2, 4)), _VECTOR, Array((2, 3))), {"dim": 1, "alpha": 2}),
    ),
    failures=lambda: (
        Failure(
            (Array((4, 2)), _VECTOR, Array((2, 2))), {"dim": 0, "alpha": 1}, ValueError,
            "index_add: float64[2, 2] does not fit float64[4, 2]; 3 indices along dim 0 need [3",
        ),
    ),
    inplace=True,
)  # fmt: skip
def index_add(x, index, source, *, dim, alpha=1):
    """`x` with `alpha` times slices of the source added to the slices at the indices of a dim."""
    if alpha != 1:
        source = source * alpha
    return _put_along("index_add", x, dim, index, source, accumulate=True, wrap=False)


@index_add.signature
def _index_add(x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    return apply(index_add, (x, index, source), {"dim": dim, "alpha": alpha})


@composite(
    ref=_along_ref(lambda out, key, source: out.__setitem__(key, source)),
    samples=lambda: (
        Sample((Array((4, 2)), _DISTINCT, Array((3, 2))), {"dim": 0}),
        Sample((Array((2, 4)), _DISTINCT, Array((2, 3))), {"dim": -1}),
    ),
    inplace=True,
)
def index_copy(x, index, source, *, dim):
    """`x` with the slices at the indices of a dim replaced by slices of the source."""
    return _put_along("index_copy", x, dim, index, source, accumulate=False, wrap=False)


@index_copy.signature
def _index_copy(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    return apply(index_copy, (x, index, source), {"dim": dim})


@composite(
    ref=_along_ref(lambda out, key, value: out.__setitem__(key, value)),
    samples=lambda: (
        Sample((Array((4, 2)), _DISTINCT, Array(())), {"dim": 0}),
        Sample((Array((2, 4)), np.array([-1, 0]), 1.5), {"dim": 1}),
        Sample((Array((2, 4)), np.array([3, 0, 3]), Array(())), {"dim": 1}),
    ),
    failures=lambda: (
        Failure(
            (Array((2,)), np.array([0]), Array((1,))), {"dim": 0}, ValueError,
            "index_fill: the value is float64[1]; it must be a number or a 0-d tensor.",
        ),
    ),
    inplace=True,
)  # fmt: skip
def index_fill(x, index, value, *, dim):
    """`x` with the slices at the indices of a dim filled with one value."""
    if isinstance(value, Tensor) and value.ndim:
        raise ValueError(
            f"index_fill: the value is {describe(value)}; it must be a number or a 0-d tensor."
        )
    dim, at = _line("index_fill", x, dim, index)
    if isinstance(value, Tensor):
        filling = to_dtype(value, dtype=x.dtype)
    else:
        filling = full((), value, x.dtype)
    # By a mask, since the value counts once where an index is named twice.
    size = x.shape[dim] if x.ndim else 1
    none, named = full((size,), False), full(at.shape[1:], True)
    mask = put_at(none, at, named, dims=(0,), accumulate=False, wrap=True)
    return where(reshape(mask, (size, *(1,) * (x.ndim - dim - 1)) if x.ndim else ()), filling, x)


@index_fill.signature
def _index_fill(x: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    return apply(index_fill, (x, index, value), {"dim": dim})


def _put_ref_flat(
    x: np.ndarray, index: np.ndarray, source: np.ndarray, accumulate: bool
) -> np.ndarray:
    out = x.copy()
    flat = out.reshape(-1)
    if accumulate:
        np.add.at(flat, index.reshape(-1), source.reshape(-1))
    else:
        flat[index.reshape(-1)] = source.reshape(-1)
    return out


@composite(
    ref=_put_ref_flat,
    samples=lambda: (
        Sample((Array((2, 3)), np.array([[0, -1]]), Array((2,))), {"accumulate": False}),
        Sample((Array((2, 3)), np.array([1, 1]), Array((1, 2))), {"accumulate": True}),
    ),
    failures=lambda: (
        Failure(
            (Array((2, 3)), np.array([1, 1]), Array((3,))), {"accumulate": False}, IndexError,
            "put: the index int64[2] and the source float64[3] must have equally many elements.",
        ),
    ),
    inplace=True,
)  # fmt: skip
def put(x, index, source, *, accumulate=False):
    """The tensor with the elements at flat indices replaced by those of the source, or added to."""
    check_integers("put", index.spec)
    if index.numel() != source.numel():
        raise IndexError(
            f"put: the index {describe(index)} and the source {describe(source)} must have "
            f"equally many elements."
        )
    flat = put_at(
        reshape(x, (-1,)), reshape(index, (1, -1)), reshape(source, (-1,)),
        dims=(0,), accumulate=accumulate, wrap=True,
    )  # fmt: skip
    return reshape(flat, x.shape)


# --- scatter -----------------------------------------------------------------------------------


def _scatter_shape(name: str) -> Any:
    def shape(x: Any, index: Any, src: Any, dim: int, **params: Any) -> Shape:
        check_integers(name, index)
        fits = len(x.shape) == len(index.shape) == len(src.shape) and all(
            i <= m and (d == dim or i <= n)
            for d, (i, n, m) in enumerate(zip(index.shape, x.shape, src.shape))
        )
        if not fits and numel(index.shape):
            raise ValueError(
                f"{name}: index {index} does not fit {src} and {x} along dim {dim}; it may be "
                f"larger than {x} along that dim only."
            )
        found: Shape = x.shape
        return found

    return shape


def _scatter_key(name: str, x: np.ndarray, index: np.ndarray, dim: int) -> tuple[Any, ...]:
    at: list[Any] = list(np.indices(index.shape, sparse=True))
    if at:
        at[dim] = check_range(name, np.ascontiguousarray(index, np.int64), x.shape[dim])
    return tuple(at)


def _scatter_ref(x: np.ndarray, index: np.ndarray, src: np.ndarray, dim: int) -> np.ndarray:
    out = x.copy()
    if index.size:
        out[_scatter_key("scatter", x, index, dim)] = src
    return out


def _scatter_add_ref(x: np.ndarray, index: np.ndarray, src: np.ndarray, dim: int) -> np.ndarray:
    out = x.copy()
    if index.size:
        np.add.at(out, _scatter_key("scatter_add", x, index, dim), src)
    return out


def _scatter_target(at: Any, x: Any, index: Any, src: Any, dim: int, **_: Any) -> Any:
    return along_dim(at, dim, index[at], x.shape[dim])


_PLACES = np.array([[1, 0], [3, 2], [0, 1]])  # along dim 0 distinct in each column


@scattering(
    ref=_scatter_ref,
    dtype="same",
    shape=_scatter_shape("scatter"),
    target=_scatter_target,
    base="x",
    values="src",
    combine=lambda old, new, dim: new,
    vjp={
        "x": lambda g, index, dim: scatter(g, dim, index, value=0),
        "src": lambda g, index, dim: gather(g, dim, index),
    },
    samples=lambda: (
        Sample((Array((4, 3)), _PLACES, Array((3, 2))), {"dim": 0}),
        Sample((Array((2, 4)), np.array([[3, 0, 1]]), Array((1, 3))), {"dim": 1}),
    ),
    failures=lambda: (
        Failure(
            (Array((2, 3)), np.array([[0, 2]]), Array((1, 2))), {"dim": 0}, IndexError,
            "scatter: index 2 is out of range for size 2.",
        ),
        Failure(
            (Array((2, 3)), np.array([[0, 1]]), Array((1, 1))), {"dim": 0}, ValueError,
            "scatter: index int64[1, 2] does not fit float64[1, 1] and float64[2, 3]",
        ),
        Failure((Array((2,)), Array((1,)), Array((1,))), {"dim": 0}, TypeError, "scatter: the in"),
    ),
    inplace=True,
)  # fmt: skip
def scatter(x, index, src, *, dim):
    """`x` with out[index[i][j]][j] = src[i][j] for dim 0; the last of repeated indices wins."""


@scattering(
    ref=_scatter_add_ref,
    dtype="same",
    shape=_scatter_shape("scatter_add"),
    target=_scatter_target,
    base="x",
    values="src",
    combine=added,
    vjp={"x": lambda g: g, "src": lambda g, index, dim: gather(g, dim, index)},
    samples=lambda: (
        Sample((Array((4, 3)), np.array([[1, 1], [3, 1], [1, 0]]), Array((3, 2))), {"dim": 0}),
        Sample((Array((2, 4)), np.array([[3, 3, 1]]), Array((1, 3))), {"dim": 1}),
    ),
    inplace=True,
    linear=True,
)
def scatter_add(x, index, src, *, dim):
    """`x` with src[i][j] added at [index[i][j]][j] for dim 0, in the order of the positions."""


@scatter.signature
def _scatter(
    x: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None, reduce: Any = None
) -> Tensor:
    source = value if src is None else src
    if source is None:
        raise TypeError("scatter: missing src or value.")
    if reduce == "multiply":
        if not isinstance(source, Tensor):
            source = full(index.shape, source, x.dtype)
        return scatter_reduce(x, dim, index, source, "prod")
    if reduce not in (None, "add"):
        raise ValueError(f"scatter: reduce is {reduce!r}; it must be 'add' or 'multiply'.")
    return _scattered(scatter if reduce is None else scatter_add, x, dim, index, source)


@scatter_add.signature
def _scatter_add(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    return _scattered(scatter_add, x, dim, index, src)


def _scattered(op: Op, x: Tensor, dim: int, index: Tensor, source: Any, **params: Any) -> Tensor:
    """Apply a scattering op to a source that is a number, or larger than the index."""
    dim = normalize_dim(op.name, dim, x.ndim)
    if not isinstance(source, Tensor):
        source = full(index.shape, source, x.dtype)
    elif source.dtype is not x.dtype:
        raise TypeError(
            f"{op.name}: {describe(source)} and {describe(x)} must have the same dtype."
        )
    if not x.ndim and index.ndim <= 1:  # PyTorch lets a number have one dim
        parts = (reshape(t, (t.numel(),)) for t in (x, index, source))
        return reshape(apply(op, tuple(parts), {"dim": 0, **params}), ())
    op.infer([x.spec, index.spec, source.spec], {"dim": dim, **params})
    for d, n in enumerate(index.shape):  # of a larger source only the first elements count
        if n < source.shape[d]:
            source = slice_(source, dim=d, start=0, stop=n, step=1)
    return apply(op, (x, index, source), {"dim": dim, **params})


_FOLDS = {"prod": np.multiply, "amax": np.maximum, "amin": np.minimum}


def _scatter_fold_ref(
    x: np.ndarray, index: np.ndarray, src: np.ndarray, dim: int, reduce: str, include_self: bool
) -> np.ndarray:
    out = x.copy()
    if not index.size:
        return out
    key = _scatter_key("scatter_reduce", x, index, dim)
    if not include_self:
        # Of what is folded into a place the last is there already: start from a neutral element.
        if reduce == "prod":
            out[key] = 1
        else:
            out[key] = src
    _FOLDS[reduce].at(out, key, src)
    return out


def _folded(old: s.Expr, new: s.Expr, dim: int, reduce: str, include_self: bool) -> Any:
    """The new value of an element; in the first of two sweeps the old one does not count."""
    if reduce == "prod":
        start = s.const(1, new.dtype)
        result = old & new if new.dtype is bool_ else old * new
    else:
        start, result = new, (s.maximum if reduce == "amax" else s.minimum)(old, new)
    return result if include_self else (start, result)


def _fold_vjp(
    g: Tensor, x: Tensor, index: Tensor, src: Tensor, out: Tensor, dim: int, reduce: str,
    include_self: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """PyTorch's: ties for an extreme share the gradient, a product leaves each factor out."""
    if reduce == "prod":
        to_x, to_src = _product_vjp(g, x, index, src, out, dim, include_self)
    else:
        best = to_dtype(x == out, dtype=g.dtype)
        if not include_self:
            best = scatter(best, dim, index, value=0.0)
        ties = to_dtype(src == gather(out, dim, index), dtype=g.dtype)
        count = scatter_add(best, dim, index, ties)
        shared = g / where(count == 0, 1.0, count)
        to_x, to_src = shared * to_dtype(x == out, dtype=g.dtype), ties * gather(shared, dim, index)
    return to_x if include_self else scatter(to_x, dim, index, value=0.0), to_src


def _product_vjp(
    g: Tensor, x: Tensor, index: Tensor, src: Tensor, out: Tensor, dim: int, include_self: bool
) -> tuple[Tensor, Tensor]:
    """The product of the others: divide, or where the factor is the one zero, multiply anew."""

    def product(x: Tensor, src: Tensor) -> Tensor:
        made: Tensor = scatter_reduce(x, dim, index, src, "prod", include_self=include_self)
        return made

    safe_x = where(x == 0, 1.0, x)
    zero = src == 0
    zeros_here = scatter_add(full(x.shape, 0, g.dtype), dim, index, to_dtype(zero, dtype=g.dtype))
    only = zero & (gather(zeros_here, dim, index) == 1)
    without = product(x, where(only, 1.0, src))
    divided = gather(g * out, dim, index) / where(zero, 1.0, src)
    to_src = where(only, gather(g * without, dim, index), divided)
    return g * product(safe_x, src) / safe_x, to_src


_SPOTS, _LINE = np.array([1, 3, 1]), np.array([0.5, -1.0, 2.0, 3.5])


def _fold_sample(reduce: str, include_self: bool) -> Sample:
    places = np.array([[1, 1], [3, 1], [1, 0]])
    params = {"dim": 0, "reduce": reduce, "include_self": include_self}
    return Sample((Array((4, 3)), places, Array((3, 2))), params)


@scattering(
    ref=_scatter_fold_ref,
    dtype="same",
    shape=_scatter_shape("scatter_reduce"),
    target=_scatter_target,
    base="x",
    values="src",
    combine=_folded,
    vjp={"x, src": _fold_vjp},
    samples=lambda: (
        _fold_sample("prod", True),
        _fold_sample("amax", True),
        _fold_sample("amin", False),
    ),
    method=False,
    internal=True,
)
def scatter_fold(x, index, src, *, dim, reduce, include_self):
    """The source folded into `x` by a product, a maximum or a minimum."""


def _scatter_reduce_ref(
    x: np.ndarray, index: np.ndarray, src: np.ndarray, dim: int, reduce: str, include_self: bool
) -> np.ndarray:
    if reduce in _FOLDS:
        return _scatter_fold_ref(x, index, src, dim, reduce, include_self)
    start = x if include_self else _scatter_ref(x, index, np.zeros_like(src), dim)
    total = _scatter_add_ref(start, index, src, dim)
    if reduce == "sum":
        return total
    one = np.ones_like(x)
    start = one if include_self else _scatter_ref(one, index, np.zeros_like(src), dim)
    return total / np.maximum(_scatter_add_ref(start, index, np.ones_like(src), dim), 1)


@composite(
    ref=_scatter_reduce_ref,
    samples=lambda: (
        _fold_sample("sum", False),
        Sample((_LINE, _SPOTS, _LINE[:3]), {"dim": 0, "reduce": "mean", "include_self": True}),
        _fold_sample("amax", False),
        _fold_sample("prod", False),
    ),
    failures=lambda: (
        Failure(
            (Array((2,)), np.array([0]), Array((1,))),
            {"dim": 0, "reduce": "max", "include_self": True}, ValueError,
            "scatter_reduce: reduce is 'max'; it must be one of sum, prod, mean, amax, amin.",
        ),
    ),
    inplace=True,
)  # fmt: skip
def scatter_reduce(x, index, src, *, dim, reduce, include_self=True):
    """`x` with the source reduced into it where scatter would write; `include_self` counts x in."""
    if reduce not in ("sum", "mean", *_FOLDS):
        raise ValueError(
            f"scatter_reduce: reduce is {reduce!r}; it must be one of sum, prod, mean, amax, amin."
        )
    if reduce in _FOLDS:
        how = {"reduce": reduce, "include_self": include_self}
        return _scattered(scatter_fold, x, dim, index, src, **how)
    start = x if include_self else scatter(x, dim, index, value=0)
    total = scatter_add(start, dim, index, src)
    if reduce == "sum":
        return total
    one = full(x.shape, 1, x.dtype)
    start = one if include_self else scatter(one, dim, index, value=0)
    count = scatter_add(start, dim, index, full(index.shape, 1, x.dtype))
    count = where(count == 0, full((), 1, x.dtype), count)
    quotient = total / count
    return quotient if x.dtype.is_floating_point else to_dtype(quotient.floor(), dtype=x.dtype)


@scatter_reduce.signature
def _scatter_reduce(
    x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    params = {"dim": dim, "reduce": reduce, "include_self": include_self}
    return apply(scatter_reduce, (x, index, src), params)


def _index_reduce_ref(
    x: np.ndarray, index: np.ndarray, source: np.ndarray, dim: int, reduce: str, include_self: bool
) -> np.ndarray:
    if not x.ndim:
        row = _index_reduce_ref(x[None], index, source[None], 0, reduce, include_self)
        return row.reshape(())
    shape = [1] * x.ndim
    shape[dim] = -1
    spread = np.broadcast_to(index.reshape(shape), source.shape)
    return _scatter_reduce_ref(x, spread, source, dim, reduce, include_self)


@composite(
    ref=_index_reduce_ref,
    samples=lambda: (
        Sample((Array((4, 2)), _SPOTS, Array((3, 2))),
               {"dim": 0, "reduce": "amax", "include_self": True}),
        Sample((_LINE, _SPOTS, _LINE[1:]), {"dim": 0, "reduce": "mean", "include_self": False}),
        Sample((Array(()), np.array([0]), Array(())),
               {"dim": 0, "reduce": "prod", "include_self": True}),
    ),
    inplace=True,
)  # fmt: skip
def index_reduce(x, index, source, *, dim, reduce, include_self=True):
    """`x` with slices of the source reduced into the slices at the indices of a dim."""
    dim, at = _line("index_reduce", x, dim, index)
    if not x.ndim:
        row = index_reduce(
            reshape(x, (1,)), 0, index, reshape(source, (1,)), reduce, include_self=include_self
        )
        return reshape(row, ())
    shape = [1] * x.ndim
    shape[dim] = at.shape[1]
    spread = expand(reshape(at, tuple(shape)), source.shape)
    return scatter_reduce(x, dim, spread, source, reduce, include_self=include_self)


@index_reduce.signature
def _index_reduce(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    params = {"dim": dim, "reduce": reduce, "include_self": include_self}
    return apply(index_reduce, (x, index, source), params)
