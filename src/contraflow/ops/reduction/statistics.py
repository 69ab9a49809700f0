"""Statistics: variances, counts and areas."""

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
from contraflow.ops.elementwise.basic import maximum, sqrt, to_dtype, where
from contraflow.ops.reduction.order import diff
from contraflow.ops.reduction.reduce import mean, moments, require_floating, spread, sum_
from contraflow.ops.shape.view import reshape, slice_
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
