"""Scatters by tensors of indices, along one dim."""

from __future__ import annotations

from typing import Any

import numpy as np

from contraflow.dtypes import bool_
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
)
from contraflow.ops.shape.view import reshape, slice_
from contraflow.shapes import Shape, normalize_dim, numel
from contraflow.tensors.tensor import Tensor


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


def scatter_reduce_ref(
    x: np.ndarray, index: np.ndarray, src: np.ndarray, dim: int, reduce: str, include_self: bool
) -> np.ndarray:
    """`scatter_reduce` over NumPy."""
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
    ref=scatter_reduce_ref,
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
