"""Statistics: variances, medians and quantiles, counts."""

from __future__ import annotations

from functools import reduce
from operator import index as index_of
from operator import mul
from typing import Any

import numpy as np

from contraflow.dtypes import HALVES, INT, bool_, float32, float64, get_default_dtype, int64
from contraflow.errors import describe
from contraflow.operation.context import apply
from contraflow.operation.kinds import composite, host, opaque
from contraflow.operation.op import Op
from contraflow.operation.samples import Array, Failure, Sample
from contraflow.ops.creation.create import full, full_like
from contraflow.ops.elementwise.basic import maximum, sqrt, to_dtype, where
from contraflow.ops.index.gather import gather, put_along_dim
from contraflow.ops.reduction.order import argsort, diff
from contraflow.ops.reduction.reduce import mean, moments, require_floating, spread, sum_
from contraflow.ops.shape.view import contiguous, movedim, reshape, slice_
from contraflow.shapes import normalize_dim, normalize_dims, numel, reduced_shape
from contraflow.spec import Spec
from contraflow.tensors.tensor import Tensor

# --- variances -----------------------------------------------------------------------------------


def _var_vjp(g: Tensor, x: Tensor, dim: Any, correction: float, keepdim: bool) -> Tensor:
    scaled = spread(g, x.spec, dim, keepdim) * (x - mean(x, dim=dim, keepdim=True))
    return 2.0 * scaled / float(numel(x.shape[d] for d in dim) - correction)


# PyTorch's convention: constant data has a deviation of 0 with gradient 0.
def _std_vjp(g: Tensor, x: Tensor, out: Tensor, dim: Any, correction: float, keepdim: bool) -> Any:
    flat = out == 0
    g = where(flat, 0.0, g / (2.0 * where(flat, 1.0, out)))
    return _var_vjp(g, x, dim, correction, keepdim)


def _spread_samples() -> Any:
    yield Sample((Array((3, 4)),), {"dim": (1,), "correction": 1, "keepdim": False})
    yield Sample((Array((3, 4)),), {"dim": (0, 1), "correction": 0, "keepdim": True})
    yield Sample((Array((2, 3, 2)),), {"dim": (0, 2), "correction": 0.5, "keepdim": False})


def _bad_dim(name: str) -> Any:
    params = {"dim": (3,), "correction": 1, "keepdim": False}
    return lambda: (
        Failure((Array((2, 3)),), params, IndexError, f"{name}: dim 3 is out of range"),
    )


def _np_var(x: np.ndarray, dim: Any, correction: float, keepdim: bool) -> Any:
    return np.var(x, axis=dim, ddof=correction, keepdims=keepdim)


@composite(
    ref=_np_var,
    vjp={"x": _var_vjp},
    samples=_spread_samples,
    failures=_bad_dim("var"),
    floating=True,
)
def var(x, *, dim=None, correction=1, keepdim=False):
    """Variance over dims; `correction` is subtracted from the count."""
    require_floating("var", x)
    wide = to_dtype(x, dtype=float32) if x.dtype in HALVES else x
    _, _, variance = moments(wide, dim)
    n = numel(x.shape[d] for d in dim)
    # Where nothing is left to divide by, the result is NaN or infinite.
    out = (variance * float(n) / max(0.0, n - correction)).to(x.dtype)
    return out if keepdim else reshape(out, reduced_shape(x.shape, dim, False))


@composite(
    ref=lambda x, **params: np.sqrt(_np_var(x, **params)),
    vjp={"x": _std_vjp},
    samples=_spread_samples,
    failures=_bad_dim("std"),
    floating=True,
)
def std(x, *, dim=None, correction=1, keepdim=False):
    """Standard deviation over dims; `correction` is subtracted from the count."""
    return sqrt(var(x, dim=dim, correction=correction, keepdim=keepdim))


@composite(
    ref=lambda x, dim, correction, keepdim: (
        _np_var(x, dim, correction, keepdim), np.mean(x, axis=dim, keepdims=keepdim)
    ),
    outs=("var", "mean"),
    samples=_spread_samples,
    failures=_bad_dim("var_mean"),
    method=False,
    floating=True,
)  # fmt: skip
def var_mean(x, *, dim=None, correction=1, keepdim=False):
    """Variance and mean over dims."""
    spread_of = var(x, dim=dim, correction=correction, keepdim=keepdim)
    return spread_of, mean(x, dim=dim, keepdim=keepdim)


@composite(
    ref=lambda x, dim, correction, keepdim: (
        np.sqrt(_np_var(x, dim, correction, keepdim)), np.mean(x, axis=dim, keepdims=keepdim)
    ),
    outs=("std", "mean"),
    samples=_spread_samples,
    failures=_bad_dim("std_mean"),
    method=False,
    floating=True,
)  # fmt: skip
def std_mean(x, *, dim=None, correction=1, keepdim=False):
    """Standard deviation and mean over dims."""
    spread_of = std(x, dim=dim, correction=correction, keepdim=keepdim)
    return spread_of, mean(x, dim=dim, keepdim=keepdim)


def _variance_signature(op: Op) -> None:
    """PyTorch's forms: `correction` by name, or the older `unbiased`, with or without dims."""

    @op.signature
    def call(
        x: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False,
        *, correction: float | None = None,
    ) -> Any:  # fmt: skip
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        if unbiased is not None and correction is not None:
            raise TypeError(f"{op.name}: give unbiased or correction, not both.")
        if correction is None:
            correction = 1 if unbiased is None else int(unbiased)
        dims = normalize_dims(op.name, dim, x.ndim)
        params = {"dim": dims, "correction": correction, "keepdim": bool(keepdim)}
        return apply(op, (x,), params)


for _op in (var, std, var_mean, std_mean):
    _variance_signature(_op)


@composite(
    ref=lambda x, fweights, aweights, correction: np.cov(
        x, ddof=correction, fweights=fweights, aweights=aweights
    ),
    samples=lambda: (
        Sample((Array((3, 4)), None, None), {"correction": 1}),
        Sample((Array((5,)), None, None), {"correction": 0}),
        Sample((Array((3, 4)), np.array([1, 2, 0, 1]), None), {"correction": 1}),
        Sample((Array((3, 4)), np.array([1, 2, 0, 1]), Array((4,), 0.5, 1.0)), {"correction": 1}),
    ),
    failures=lambda: (
        Failure(
            (Array((2, 2, 2)), None, None), {"correction": 1}, ValueError,
            "cov: float64[2, 2, 2] has more than two dims.",
        ),
        Failure(
            (Array((2, 3)), Array((3,)), None), {"correction": 1}, TypeError,
            "cov: fweights is float64[3]; it must hold integers.",
        ),
        Failure(
            (Array((2, 3)), None, Array((2,))), {"correction": 1}, ValueError,
            "cov: the weights float64[2] must be a vector of 3, one per observation.",
        ),
    ),
)  # fmt: skip
def cov(x, fweights=None, aweights=None, *, correction=1):
    """The covariances of the rows of a matrix, whose columns are observations.

    `fweights` says how often each observation was made, `aweights` how much it counts.
    """
    if x.ndim > 2:
        raise ValueError(f"cov: {describe(x)} has more than two dims.")
    n = x.shape[-1] if x.ndim else 1
    if fweights is not None and fweights.dtype.category != INT:
        raise TypeError(f"cov: fweights is {describe(fweights)}; it must hold integers.")
    weights = [given for given in (fweights, aweights) if given is not None]
    for given in weights:
        if given.shape != (n,):
            raise ValueError(
                f"cov: the weights {describe(given)} must be a vector of {n}, one per observation."
            )
    if not x.dtype.is_floating_point:
        x = x.to(get_default_dtype())
    rows = reshape(x, (x.shape[0] if x.ndim == 2 else 1, n))
    if not weights:
        centred = moments(rows, (1,))[0]
        return (centred @ centred.mT / max(0, n - correction)).squeeze()
    weight = reduce(mul, weights)
    total = sum_(weight)
    centred = rows - sum_(rows * weight, dim=1, keepdim=True) / total
    lost = correction if aweights is None else correction * sum_(weight * aweights) / total
    return ((centred * weight) @ centred.mT / maximum(total - lost, 0)).squeeze()


# PyTorch puts the correction before the weights.
@cov.signature
def _cov(x: Tensor, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Tensor:
    return apply(cov, (x, fweights, aweights), {"correction": correction})


@composite(
    ref=np.corrcoef,
    samples=lambda: (Sample((Array((3, 5)),)), Sample((Array((4,)),))),
)
def corrcoef(x):
    """The correlation coefficients of the rows of a matrix."""
    c = cov(x)
    if not c.ndim:
        return c / c
    deviation = sqrt(c.diagonal())
    return c / reshape(deviation, (c.shape[0], 1)) / deviation


# --- medians and quantiles -----------------------------------------------------------------------


def _at_rank(x: Tensor, rank: Tensor, dim: int, keepdim: bool) -> Any:
    """The elements whose rank along a dim is given, and their indices."""
    index = gather(argsort(x, dim), dim, rank)
    values = gather(x, dim, index)
    if keepdim:
        return values, index
    shape = x.shape[:dim] + x.shape[dim + 1 :]
    return reshape(values, shape), reshape(index, shape)


def _median(name: str, x: Tensor, dim: int, keepdim: bool, skip_nan: bool) -> Any:
    if not x.ndim:
        return x.clone(), full_like(x, 0, dtype=int64)
    at = normalize_dim(name, dim, x.ndim)
    n = x.shape[at]
    if not n:
        raise ValueError(f"{name}: {describe(x)} has no elements along dim {dim}.")
    valid = sum_(x == x, dim=at, keepdim=True)
    middle = to_dtype((valid - 1) * 0.5, dtype=int64)  # the lower of two
    # NaN is sorted behind everything else: a row that has one has it at rank `valid`.
    rank = middle if skip_nan else where(valid < n, valid, middle)
    return _at_rank(x, rank, at, keepdim)


def _np_median(skip_nan: bool) -> Any:
    def ref(x: np.ndarray, dim: int, keepdim: bool) -> Any:
        order = np.argsort(x, axis=dim, kind="stable")
        valid = np.sum(x == x, axis=dim, keepdims=True)
        middle = np.maximum(valid - 1, 0) // 2
        rank = middle if skip_nan else np.where(valid < x.shape[dim], valid, middle)
        at = np.take_along_axis(order, rank, dim)
        values = np.take_along_axis(x, at, dim)
        return (values, at) if keepdim else (values.squeeze(dim), at.squeeze(dim))

    return ref


def _median_samples() -> Any:
    yield Sample((Array((3, 5)),), {"dim": 1, "keepdim": False})
    yield Sample((Array((4, 3)),), {"dim": 0, "keepdim": True})


_HOLED = np.array([[1.0, np.nan, 3.0, 2.0], [4.0, 0.5, 1.5, -1.0]])


def _median_signature(op: Op) -> None:
    @op.signature
    def call(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
        if dim is not None:
            return op.bind(x, dim, keepdim)
        if not numel(x.shape):
            return x.sum() * float("nan")
        return apply(median_of_all, (x,), {"skip_nan": op is nanmedian})


@composite(
    ref=_np_median(False),
    outs=("values", "indices"),
    samples=_median_samples,
    failures=lambda: (
        Failure(
            (Array((2, 0)),), {"dim": 1, "keepdim": False}, ValueError,
            "median: float64[2, 0] has no elements along dim 1.",
        ),
    ),
)  # fmt: skip
def median(x, *, dim=None, keepdim=False):
    """The median along a dim, the lower of two, and its index; NaN if an element is NaN."""
    return _median("median", x, dim, keepdim, skip_nan=False)


@composite(
    ref=_np_median(True),
    outs=("values", "indices"),
    samples=lambda: (*_median_samples(), Sample((_HOLED,), {"dim": 1, "keepdim": False})),
)
def nanmedian(x, *, dim=None, keepdim=False):
    """The median of the elements along a dim that are not NaN, and its index."""
    return _median("nanmedian", x, dim, keepdim, skip_nan=True)


def _among_equals(g: Tensor, x: Tensor, out: Tensor) -> Tensor:
    """A gradient in equal parts for all elements that are the result, NaN too."""
    equal = (x == out) | ((x != x) & (out != out))
    return where(equal, g / sum_(to_dtype(equal, dtype=g.dtype)), 0.0)


@composite(
    ref=lambda x, skip_nan: _np_median(skip_nan)(x.reshape(-1), 0, False)[0],
    vjp={"x": _among_equals},
    samples=lambda: (
        Sample((Array((3, 5)),), {"skip_nan": False}),
        Sample((_HOLED,), {"skip_nan": True}),
        Sample((Array(()),), {"skip_nan": False}),
    ),
    method=False,
    internal=True,
)
def median_of_all(x, *, skip_nan):
    """The middle of all elements."""
    name = "nanmedian" if skip_nan else "median"
    return _median(name, reshape(x, (numel(x.shape),)), 0, False, skip_nan)[0]


_median_signature(median)
_median_signature(nanmedian)


_INTERPOLATIONS = ("linear", "lower", "higher", "nearest", "midpoint")


def _quantile(
    name: str, x: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str,
    skip_nan: bool,
) -> Tensor:  # fmt: skip
    require_floating(name, x)
    if interpolation not in _INTERPOLATIONS:
        listed = ", ".join(_INTERPOLATIONS)
        raise ValueError(f"{name}: interpolation is {interpolation!r}; it must be one of {listed}.")
    if isinstance(q, Tensor):
        if q.ndim > 1:
            raise ValueError(f"{name}: q is {describe(q)}; it must be a number or 1-d.")
        levels = reshape(q, (numel(q.shape),))
    else:
        if not 0 <= q <= 1:
            raise ValueError(f"{name}: q is {q}; it must be in [0, 1].")
        levels = full((1,), float(q), dtype=x.dtype)
    if dim is None or not x.ndim:
        rows = reshape(x, (numel(x.shape),))
    else:
        rows = movedim(x, normalize_dim(name, dim, x.ndim), -1)
    n = rows.shape[-1]
    if not n:
        raise ValueError(f"{name}: {describe(x)} has no elements to take a quantile of.")
    values = _between(rows, levels, interpolation, skip_nan)
    if keepdim and x.ndim:
        at = 0 if dim is None else normalize_dim(name, dim, x.ndim)
        kept = (1,) * x.ndim if dim is None else (*x.shape[:at], 1, *x.shape[at + 1 :])
    else:
        kept = rows.shape[:-1]
    moved = contiguous(movedim(values, -1, 0))
    return reshape(moved, (*levels.shape, *kept) if isinstance(q, Tensor) and q.ndim else kept)


def _between(rows: Tensor, levels: Tensor, interpolation: str, skip_nan: bool) -> Tensor:
    """The quantiles of the last dim, one for each level."""
    n = rows.shape[-1]
    valid = sum_(rows == rows, dim=-1, keepdim=True)
    last = maximum(valid - 1, 0)
    # NaN is sorted last, so the last rank finds it.
    rank = levels * last if skip_nan else where(valid < n, float(n - 1), levels * float(n - 1))
    order = argsort(rows, -1)
    below = to_dtype(rank.detach(), dtype=int64)
    part = rank - below
    above = where(part > 0, below + 1, below)
    if interpolation == "nearest":  # ties to even, as everywhere
        odd = below != 2 * to_dtype(below * 0.5, dtype=int64)
        below = where((part > 0.5) | ((part == 0.5) & odd), above, below)
    low, high = (gather(rows, -1, gather(order, -1, k)) for k in (below, above))
    if interpolation in ("lower", "nearest"):
        return low
    if interpolation == "higher":
        return high
    weight = 0.5 if interpolation == "midpoint" else part
    return low + weight * (high - low)


def _np_quantile(function: Any) -> Any:
    def ref(x: Any, q: Any, dim: Any, keepdim: bool, interpolation: str) -> Any:
        if not x.ndim:
            return x.copy()
        out = function(x, q, axis=dim, keepdims=keepdim, method=interpolation)
        return np.asarray(out, x.dtype)

    return ref


def _quantile_samples() -> Any:
    def params(dim: Any, keepdim: bool, interpolation: str) -> dict[str, Any]:
        return {"dim": dim, "keepdim": keepdim, "interpolation": interpolation}

    levels = np.array([0.1, 0.52, 0.87])
    yield Sample((Array((3, 5)), 0.3), params(1, False, "linear"))
    yield Sample((Array((4, 3)), levels), params(0, True, "linear"))
    yield Sample((Array((3, 4)), 0.45), params(None, False, "midpoint"))
    yield Sample((Array((5,)), 0.6), params(0, False, "lower"))
    yield Sample((Array(()), 0.6), params(0, True, "linear"))


@composite(
    ref=_np_quantile(np.quantile),
    samples=_quantile_samples,
    failures=lambda: (
        Failure(
            (Array((3,)), 1.5), {"dim": None, "keepdim": False, "interpolation": "linear"},
            ValueError, "quantile: q is 1.5; it must be in [0, 1].",
        ),
        Failure(
            (Array((3,)), 0.5), {"dim": None, "keepdim": False, "interpolation": "cubic"},
            ValueError, "quantile: interpolation is 'cubic'",
        ),
    ),
    floating=True,
)  # fmt: skip
def quantile(x, q, *, dim=None, keepdim=False, interpolation="linear"):
    """The q-quantile along a dim, interpolated; a 1-d q adds a first dim."""
    return _quantile("quantile", x, q, dim, keepdim, interpolation, skip_nan=False)


@composite(ref=_np_quantile(np.nanquantile), samples=_quantile_samples, floating=True)
def nanquantile(x, q, *, dim=None, keepdim=False, interpolation="linear"):
    """The quantiles of the elements that are not NaN."""
    return _quantile("nanquantile", x, q, dim, keepdim, interpolation, skip_nan=True)


def _mode_ref(x: np.ndarray, dim: int, keepdim: bool) -> Any:
    if not x.ndim:
        return x.copy(), np.zeros((), np.int64)

    def last_of_most(row: np.ndarray) -> int:
        values, counts = np.unique(row, return_counts=True)
        return int(np.flatnonzero(row == values[np.argmax(counts)])[-1])

    at = np.apply_along_axis(last_of_most, dim, x)
    at = np.expand_dims(at.astype(np.int64), dim)
    values = np.take_along_axis(x, at, dim)
    return (values, at) if keepdim else (values.squeeze(dim), at.squeeze(dim))


def _mode_shape(x: Any, dim: int, keepdim: bool) -> Any:
    at = normalize_dim("mode", dim, len(x.shape))
    if x.shape and not x.shape[at]:
        raise ValueError(f"mode: {x} has no elements along dim {dim}.")
    shape = x.shape[:at] + ((1,) if keepdim and x.shape else ()) + x.shape[at + 1 :]
    return shape, shape


def _mode_vjp(g_values: Any, indices: Tensor, x_spec: Any, dim: int) -> Any:
    if g_values is None or not x_spec.shape:
        return g_values
    kept = (*x_spec.shape[:dim], 1, *x_spec.shape[dim + 1 :])
    g, at = reshape(g_values, kept), reshape(indices, kept)
    return put_along_dim(g, at, dim=dim, size=x_spec.shape[dim])


@opaque(
    ref=_mode_ref,
    dtype="value_index",
    outs=("values", "indices"),
    shape=_mode_shape,
    vjp={"x": _mode_vjp},
    samples=lambda: (
        Sample((Array((3, 4)),), {"dim": 1, "keepdim": False}),
        Sample((Array((4, 3), 0, 3, int64),), {"dim": 0, "keepdim": True}),
    ),
    failures=lambda: (
        Failure((Array((2,)),), {"dim": 1, "keepdim": False}, IndexError, "mode: dim 1 is out of"),
    ),
    normalize=lambda x, dim, keepdim: {"dim": normalize_dim("mode", dim, x.ndim)},
)
def mode(x, *, dim=-1, keepdim=False):
    """The most frequent element along a dim, the smallest of several, and its last index."""


# --- counts --------------------------------------------------------------------------------------


def _histc_ref(x: np.ndarray, bins: int, min: float, max: float) -> np.ndarray:
    low, high = (x.min(), x.max()) if min == max and x.size else (min, max)
    if low == high:
        low, high = low - 1, high + 1
    return np.histogram(x, bins, (low, high))[0]


@opaque(
    ref=_histc_ref,
    dtype="same",
    shape=lambda x, bins, min, max: (bins,),
    samples=lambda: (
        Sample((Array((3, 4)),), {"bins": 5, "min": -1.0, "max": 1.5}),
        Sample((Array((7,)),), {"bins": 3, "min": 0, "max": 0}),
    ),
    failures=lambda: (
        Failure((Array((3,)),), {"bins": 0, "min": 0, "max": 0}, ValueError, "histc: bins is 0"),
        Failure((Array((3,)),), {"bins": 2, "min": 1, "max": 0}, ValueError, "max 0 is below min"),
        Failure((np.ones(3, bool),), {}, TypeError, "histc: bool[3] is bool; it takes numbers."),
    ),
    normalize=lambda x, bins, min, max: _histc_params(x, bins, min, max),
)
def histc(x, *, bins=100, min=0, max=0):
    """A histogram of `bins` equal intervals in [min, max], or in the data's range if min = max."""


def _histc_params(x: Tensor, bins: int, low: float, high: float) -> dict[str, Any]:
    if x.dtype is bool_:
        raise TypeError(f"histc: {describe(x)} is bool; it takes numbers. Use x.int().")
    bins = index_of(bins)
    if bins < 1:
        raise ValueError(f"histc: bins is {bins}; it must be positive.")
    if high < low:
        raise ValueError(f"histc: max {high} is below min {low}.")
    return {"bins": bins}


def _bincount_ref(x: np.ndarray, weights: Any, minlength: int) -> np.ndarray:
    if x.size and x.min() < 0:
        raise ValueError(f"bincount: got {x.min()}; it takes no negative numbers.")
    return np.bincount(x, None if isinstance(weights, int) else weights, minlength)


def _bincount_shape(x: Spec, weights: Any, minlength: int) -> Any:
    if len(x.shape) != 1 or x.dtype.category != INT:
        raise ValueError(f"bincount: got {x}; it takes 1-d tensors of integers.")
    return (minlength,)


def _bincount_types(inputs: Any, params: Any) -> Any:
    weights = inputs[1]
    if isinstance(weights, int):
        return (None, None), (int64,)
    return (None, None), (float32 if weights.dtype is float32 else float64,)


@host(
    ref=_bincount_ref,
    dtype=_bincount_types,
    shape=_bincount_shape,
    samples=lambda: (
        Sample((Array((7,), 0, 5, int64), 1), {"minlength": 0}),
        Sample((Array((7,), 0, 5, int64), np.linspace(-1.0, 2.0, 7)), {"minlength": 9}),
    ),
    failures=lambda: (
        Failure((Array((2,)), None), {"minlength": 0}, ValueError, "bincount: got float64[2]; it"),
        Failure((np.array([1, -1]), None), {"minlength": 0}, ValueError, "bincount: got -1; it"),
    ),
    dynamic=True,
)
def bincount(x, weights, *, minlength):
    """How often each number 0, 1, ... occurs, or the sum of its weights."""


@bincount.signature
def _bincount(x: Tensor, weights: Any = None, minlength: int = 0) -> Tensor:
    out: Tensor = apply(bincount, (x, 1 if weights is None else weights), {"minlength": minlength})
    return out


# --- areas ---------------------------------------------------------------------------------------


def _areas(y: Tensor, x: Tensor | None, dx: float, dim: int) -> Tensor:
    n = y.shape[dim]
    left = slice_(y, dim=dim, start=0, stop=max(n - 1, 0), step=1)
    right = slice_(y, dim=dim, start=min(1, n), stop=n, step=1)
    if x is None:
        return (left + right) * (0.5 * dx)
    if x.ndim == 1 and y.ndim > 1:
        x = reshape(x, (x.shape[0], *(1,) * (y.ndim - 1 - dim)))
        return (left + right) * diff(x, dim=0) * 0.5
    return (left + right) * diff(x, dim=dim - y.ndim) * 0.5


def _area_samples() -> Any:
    yield Sample((Array((3, 4)), None), {"dx": 0.5, "dim": -1})
    yield Sample((Array((4, 3)), Array((4,))), {"dx": 1.0, "dim": 0})


def _np_areas(y: np.ndarray, x: Any, dx: float, dim: int) -> np.ndarray:
    y = np.moveaxis(y, dim, -1)
    return np.moveaxis((y[..., 1:] + y[..., :-1]) / 2 * (dx if x is None else np.diff(x)), -1, dim)


@composite(
    ref=lambda y, x, dx, dim: np.sum(_np_areas(y, x, dx, dim), dim),
    samples=_area_samples,
    method=False,
    aliases=("trapz",),
)
def trapezoid(y, x=None, *, dx=1.0, dim=-1):
    """The area under y along a dim by the trapezoidal rule."""
    dim = normalize_dim("trapezoid", dim, y.ndim)
    return sum_(_areas(y, x, dx, dim), dim=dim)


@composite(
    ref=lambda y, x, dx, dim: np.cumsum(_np_areas(y, x, dx, dim), dim),
    samples=_area_samples,
    method=False,
)
def cumulative_trapezoid(y, x=None, *, dx=1.0, dim=-1):
    """The running area under y along a dim by the trapezoidal rule."""
    dim = normalize_dim("cumulative_trapezoid", dim, y.ndim)
    return _areas(y, x, dx, dim).cumsum(dim)
