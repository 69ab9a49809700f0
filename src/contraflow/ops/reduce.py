"""Reductions: a combiner with its identity, folded over any dims.

float16 and bfloat16 accumulate in float32. amax and amin share the gradient among ties; max and
min with a dim give it to the index they return.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from contraflow import scalar as s
from contraflow.dtypes import HALVES, DType, bool_, float32
from contraflow.op import REDUCED, Array, Failure, Sample, apply, composite, reduction
from contraflow.ops.elementwise import maximum, minimum, to_dtype
from contraflow.ops.index import put_along_dim
from contraflow.ops.view import expand, reshape
from contraflow.shapes import normalize_dim, normalize_dims, reduced_shape
from contraflow.tensor import Tensor


def _dims(name: str) -> Any:
    def normalize(x: Tensor, dim: Any, keepdim: bool) -> dict[str, Any]:
        return {"dim": normalize_dims(name, dim, x.ndim), "keepdim": bool(keepdim)}

    return normalize


def _bad_dim(name: str) -> Any:
    def failures() -> Any:
        params = {"dim": (3,), "keepdim": False}
        yield Failure((Array((2, 3)),), params, IndexError, f"{name}: dim 3 is out of range")

    return failures


def _spread(g: Tensor, x_spec: Any, dim: tuple[int, ...], keepdim: bool) -> Tensor:
    """A reduced tensor laid out against the input again."""
    if not keepdim:
        g = reshape(g, reduced_shape(x_spec.shape, dim, True))
    return expand(g, x_spec.shape)


@reduction(
    ref=lambda x, dim, keepdim: np.sum(x, axis=dim, keepdims=keepdim),
    dtype="sum",
    combine=lambda a, b: a + b,
    identity=0,
    vjp={"x": _spread},
    normalize=_dims("sum"),
    failures=_bad_dim("sum"),
    linear=True,
)
def sum_(x, *, dim=None, keepdim=False):
    """Sum over dims, all of them by default."""
    return x


def _shared_ties(g: Tensor, x: Tensor, out: Tensor, dim: Any, keepdim: bool) -> Tensor:
    mask = to_dtype(x == _spread(out, x.spec, dim, keepdim), dtype=g.dtype)
    count = sum_(mask, dim=dim, keepdim=True)
    return mask * (_spread(g, x.spec, dim, keepdim) / count)


def lowest(dtype: DType) -> Any:
    """The value that maximum never prefers."""
    if dtype is bool_:
        return False
    return -np.inf if dtype.is_floating_point else int(np.iinfo(dtype.numpy).min)  # type: ignore[type-var]


def highest(dtype: DType) -> Any:
    """The value that minimum never prefers."""
    if dtype is bool_:
        return True
    return np.inf if dtype.is_floating_point else int(np.iinfo(dtype.numpy).max)  # type: ignore[type-var]


def _extreme_samples() -> Any:
    yield Sample((Array((3, 4, 2)),), {"dim": (1,), "keepdim": False})
    yield Sample((Array((3, 4)),), {"dim": (0, 1), "keepdim": True})
    yield Sample((Array(()),), {"dim": (), "keepdim": False})


@reduction(
    ref=lambda x, dim, keepdim: np.max(x, axis=dim, keepdims=keepdim),
    dtype="same",
    combine=s.maximum,
    start=lowest,
    vjp={"x": _shared_ties},
    normalize=_dims("amax"),
    samples=_extreme_samples,
    failures=_bad_dim("amax"),
)
def amax(x, *, dim=None, keepdim=False):
    """The largest element over dims; ties share the gradient."""
    return x


@reduction(
    ref=lambda x, dim, keepdim: np.min(x, axis=dim, keepdims=keepdim),
    dtype="same",
    combine=s.minimum,
    start=highest,
    vjp={"x": _shared_ties},
    normalize=_dims("amin"),
    samples=_extreme_samples,
    failures=_bad_dim("amin"),
)
def amin(x, *, dim=None, keepdim=False):
    """The smallest element over dims; ties share the gradient."""
    return x


def _first_extreme(better: Any) -> Any:
    """Fold (value, index) pairs: the better value, NaN best of all, then the lower index."""

    def combine(a: Any, i: Any, b: Any, j: Any) -> Any:
        wins, ties = better(b, a), s.eq(b, a)
        if a.dtype.is_floating_point:
            wins = (wins & ~s.isnan(a)) | (s.isnan(b) & ~s.isnan(a))
            ties = ties | (s.isnan(a) & s.isnan(b))
        take = wins | (ties & (j < i))
        return s.select(take, b, a), s.select(take, j, i)

    return combine


def _pair_ref(choose: Any) -> Any:
    def ref(x: np.ndarray, dim: tuple[int, ...], keepdim: bool) -> Any:
        if x.ndim == 0:
            return x.copy(), np.zeros((), np.int64)
        at = np.expand_dims(choose(x, axis=dim[0]), dim[0])
        values = np.take_along_axis(x, at, dim[0])
        return (values, at) if keepdim else (values.squeeze(dim[0]), at.squeeze(dim[0]))

    return ref


def _to_index(
    g_values: Tensor | None, indices: Tensor, x_spec: Any, dim: Any, keepdim: bool
) -> Any:
    if g_values is None:
        return None
    if not x_spec.shape:
        return g_values
    kept = reduced_shape(x_spec.shape, dim, True)
    return put_along_dim(
        reshape(g_values, kept), reshape(indices, kept), dim=dim[0], size=x_spec.shape[dim[0]]
    )


def _one_dim_samples() -> Any:
    yield Sample((Array((3, 4, 2)),), {"dim": (1,), "keepdim": False})
    yield Sample((Array((3, 4)),), {"dim": (1,), "keepdim": True})
    yield Sample((Array((5,)),), {"dim": (0,), "keepdim": False})
    yield Sample((Array(()),), {"dim": (0,), "keepdim": False})


_HUGE = int(np.iinfo(np.int64).max)


@reduction(
    ref=_pair_ref(np.argmax),
    dtype="value_index",
    outs=("values", "indices"),
    combine=_first_extreme(lambda b, a: b > a),
    start=lambda dtype: (lowest(dtype), _HUGE),
    vjp={"x": _to_index},
    samples=_one_dim_samples,
    failures=_bad_dim("max"),
)
def max_(x, *, dim=None, keepdim=False):
    """The largest element and its index along a dim; without a dim the largest of all."""
    return x, REDUCED


@reduction(
    ref=_pair_ref(np.argmin),
    dtype="value_index",
    outs=("values", "indices"),
    combine=_first_extreme(lambda b, a: b < a),
    start=lambda dtype: (highest(dtype), _HUGE),
    vjp={"x": _to_index},
    samples=_one_dim_samples,
    failures=_bad_dim("min"),
)
def min_(x, *, dim=None, keepdim=False):
    """The smallest element and its index along a dim; without a dim the smallest of all."""
    return x, REDUCED


def _extreme_signature(op: Any, whole: Any, pairwise: Any) -> None:
    @op.signature
    def call(x: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
        if isinstance(dim, Tensor):
            return pairwise(x, dim)
        if dim is None:
            return whole(x)
        dim = dim[0] if isinstance(dim, tuple) else dim
        params = {"dim": (normalize_dim(op.name, dim, x.ndim),), "keepdim": bool(keepdim)}
        return apply(op, (x,), params)


_extreme_signature(max_, amax, maximum)
_extreme_signature(min_, amin, minimum)


def _count(x: Tensor, dim: tuple[int, ...]) -> int:
    n = 1
    for d in dim:
        n *= x.shape[d]
    return n


@composite(
    ref=lambda x, dim, keepdim: np.mean(x, axis=dim, keepdims=keepdim),
    normalize=_dims("mean"),
    samples=lambda: REDUCTION_SAMPLES,
    failures=_bad_dim("mean"),
)
def mean(x, *, dim=None, keepdim=False):
    """Mean over dims, all of them by default."""
    n = _count(x, dim)
    if x.dtype in HALVES:  # a sum may overflow where the mean does not
        return to_dtype(mean(to_dtype(x, dtype=float32), dim=dim, keepdim=keepdim), dtype=x.dtype)
    return sum_(x, dim=dim, keepdim=keepdim) * (1.0 / n if n else float("nan"))


@composite(
    ref=lambda x, dim, correction, keepdim: np.var(x, axis=dim, ddof=correction, keepdims=keepdim),
    normalize=lambda x, dim, correction, keepdim: {"dim": normalize_dims("var", dim, x.ndim)},
    samples=lambda: (
        Sample((Array((3, 4)),), {"dim": (1,), "correction": 1, "keepdim": False}),
        Sample((Array((3, 4)),), {"dim": (0, 1), "correction": 0, "keepdim": True}),
    ),
)
def var(x, *, dim=None, correction=1, keepdim=False):
    """Variance over dims; `correction` is subtracted from the count."""
    n = _count(x, dim) - correction
    centred = x - mean(x, dim=dim, keepdim=True)
    return sum_(centred * centred, dim=dim, keepdim=keepdim) * (1.0 / n if n > 0 else float("nan"))


REDUCTION_SAMPLES = (
    Sample((Array((3, 4, 2)),), {"dim": (1,), "keepdim": False}),
    Sample((Array((3, 4)),), {"dim": (0, 1), "keepdim": True}),
    Sample((Array(()),), {"dim": (), "keepdim": False}),
)
