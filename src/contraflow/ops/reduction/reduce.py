"""Reductions: a combiner with its identity, folded over any dims.

float16 and bfloat16 accumulate in float32. amax and amin share the gradient among ties; max and
min with a dim give it to the index they return. Variances are in `statistics.py`, order statistics
in `quantiles.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from contraflow.dtypes import HALVES, DType, bool_, float32, get_default_dtype, uint8
from contraflow.errors import describe
from contraflow.expressions import expression as s
from contraflow.operation.context import apply
from contraflow.operation.kinds import REDUCED, composite, reduction
from contraflow.operation.op import Op
from contraflow.operation.reference import UfuncFold, sums, take_along
from contraflow.operation.samples import Array, Failure, Sample
from contraflow.ops.creation.create import ones_like
from contraflow.ops.elementwise.basic import exp, log, maximum, minimum, to_dtype, where
from contraflow.ops.index.gather import constant_pad, put_along_dim
from contraflow.ops.shape.view import expand, permute, reshape
from contraflow.shapes import Shape, normalize_dim, normalize_dims, numel, reduced_shape
from contraflow.tensors.tensor import Tensor


def dims_of(name: str) -> Any:
    """A `normalize=` for ops that take dims: an int, several or None for all."""

    def normalize(x: Tensor, dim: Any, keepdim: bool) -> dict[str, Any]:
        return {
            "dim": normalize_dims(name, dim, len(x.layout.shape)),
            "keepdim": bool(keepdim),
        }

    return normalize


def bad_dim(name: str) -> Any:
    """The failure of a dim that is out of range."""

    def failures() -> Any:
        params = {"dim": (3,), "keepdim": False}
        yield Failure((Array((2, 3)),), params, IndexError, f"{name}: dim 3 is out of range")

    return failures


def add_dtype_parameter(op: Op) -> None:
    """Give a reduction PyTorch's `dtype=`: the input is cast before it is reduced."""

    @op.signature
    def call(x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
        out = op.bind(x if dtype is None else x.to(dtype), dim, keepdim)
        return out if dtype is None else out.to(dtype)


def require_floating(name: str, x: Tensor) -> None:
    """Refuse integers where a result of their dtype would be meaningless."""
    if not x.dtype.is_floating_point:
        raise TypeError(f"{name}: {describe(x)} is not floating-point. Use x.float().")


def spread(g: Tensor, x_spec: Any, dim: tuple[int, ...], keepdim: bool) -> Tensor:
    """A reduced tensor laid out against the input again."""
    if not keepdim:
        g = reshape(g, reduced_shape(x_spec.shape, dim, True))
    return expand(g, x_spec.shape)


@reduction(
    ref=sums,
    dtype="sum",
    combine=lambda a, b: a + b,
    identity=0,
    vjp={"x": spread},
    normalize=dims_of("sum"),
    failures=bad_dim("sum"),
    linear=True,
)
def sum_(x, *, dim=None, keepdim=False):
    """Sum over dims, all of them by default."""
    return x


add_dtype_parameter(sum_)


def _join(a: Tensor, b: Tensor) -> Tensor:
    """Two tensors side by side along the last dim."""
    n, m = a.shape[-1], b.shape[-1]
    none = ((0, 0),) * (a.ndim - 1)
    return constant_pad(a, 0.0, pads=(*none, (0, m))) + constant_pad(b, 0.0, pads=(*none, (n, 0)))


def other_products(x: Tensor) -> Tensor:
    """Along the last dim, the product of all other elements.

    It is formed by halves, never by division, so zeros do no harm in any order of the gradient.
    """
    n = x.shape[-1]
    if n < 2:
        return ones_like(x)
    half = n // 2
    a, b, odd = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    outside = other_products(_join(a * b, odd) if n % 2 else a * b)
    pairs = outside[..., :half]
    others = _join(b * pairs, a * pairs)
    return _join(others, outside[..., half:]) if n % 2 else others


def _prod_vjp(g: Tensor, x: Tensor, dim: tuple[int, ...], keepdim: bool) -> Tensor:
    kept = tuple(d for d in range(x.ndim) if d not in dim)
    order = kept + dim
    moved = permute(x, order)
    rows = reshape(moved, (*(x.shape[d] for d in kept), numel(x.shape[d] for d in dim)))
    others = permute(reshape(other_products(rows), moved.shape), tuple(np.argsort(order).tolist()))
    return spread(g, x.spec, dim, keepdim) * others


@reduction(
    ref=UfuncFold(np.multiply),
    dtype="sum",
    combine=lambda a, b: a * b,
    identity=1,
    vjp={"x": _prod_vjp},
    normalize=dims_of("prod"),
    failures=bad_dim("prod"),
)
def prod(x, *, dim=None, keepdim=False):
    """Product over dims, all of them by default."""
    return x


add_dtype_parameter(prod)


def _sum_to_size_ref(x: np.ndarray, size: Shape) -> np.ndarray:
    lead = x.ndim - len(size)
    summed = x.sum(tuple(range(lead)))
    return summed.sum(tuple(d for d, n in enumerate(size) if n == 1), keepdims=True)


@composite(
    ref=_sum_to_size_ref,
    samples=lambda: (
        Sample((Array((2, 3, 4)),), {"size": (3, 1)}),
        Sample((Array((2, 3)),), {"size": ()}),
        Sample((Array((2, 3)),), {"size": (2, 3)}),
    ),
    failures=lambda: (
        Failure((Array((2, 3)),), {"size": (2,)}, ValueError,
                "sum_to_size: [2] does not expand to the shape of float64[2, 3]."),
    ),
)  # fmt: skip
def sum_to_size(x, *, size):
    """The tensor summed down to shape `size`: the transpose of expand."""
    lead = x.ndim - len(size)
    if lead < 0 or any(n not in (1, m) for n, m in zip(size, x.shape[lead:])):
        raise ValueError(
            f"sum_to_size: {list(size)} does not expand to the shape of {describe(x)}."
        )
    repeated = [d for d, n in enumerate(size, lead) if n == 1 != x.shape[d]]
    dims = (*range(lead), *repeated)
    return reshape(sum_(x, dims), size) if dims or not size else x


@sum_to_size.signature
def _sum_to_size(x: Tensor, *sizes: Any, size: Any = None) -> Tensor:
    given = sizes if size is None else (size,)
    given = given[0] if len(given) == 1 and not isinstance(given[0], int) else given
    return apply(sum_to_size, (x,), {"size": tuple(given)})


# --- truth ---------------------------------------------------------------------------------------


# PyTorch's uint8 dates from before it had bool, and keeps its dtype here.
def _truth(inputs: Any, params: Any) -> Any:
    return (None,), (uint8 if inputs[0].dtype is uint8 else bool_,)


def _nonzero(x: Any) -> Any:
    flag = x if x.dtype is bool_ else s.ne(x, 0)
    return s.cast(flag, uint8) if x.dtype is uint8 else flag


# Unlike other reductions, these take an empty list of dims for no dims.
def _truth_signature(op: Op) -> None:
    @op.signature
    def call(x: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
        if x.ndim and dim in ((), []):
            return (x != 0).to(uint8 if x.dtype is uint8 else bool_)
        return op.bind(x, dim, keepdim)


def _truth_samples() -> Any:
    yield Sample((Array((3, 4), dtype=bool_),), {"dim": (1,), "keepdim": False})
    yield Sample((Array((2, 3, 2)),), {"dim": (0, 2), "keepdim": True})
    yield Sample((Array((2, 0)),), {"dim": (0, 1), "keepdim": False})


@reduction(
    ref=UfuncFold(np.logical_and),
    dtype=_truth,
    combine=lambda a, b: a & b,
    identity=True,
    normalize=dims_of("all"),
    samples=_truth_samples,
    failures=bad_dim("all"),
)
def all_(x, *, dim=None, keepdim=False):
    """Whether all elements along dims are true."""
    return _nonzero(x)


@reduction(
    ref=UfuncFold(np.logical_or),
    dtype=_truth,
    combine=lambda a, b: a | b,
    identity=False,
    normalize=dims_of("any"),
    samples=_truth_samples,
    failures=bad_dim("any"),
)
def any_(x, *, dim=None, keepdim=False):
    """Whether any element along dims is true."""
    return _nonzero(x)


_truth_signature(all_)
_truth_signature(any_)


# --- extremes ------------------------------------------------------------------------------------


def _shared_ties(g: Tensor, x: Tensor, out: Tensor, dim: Any, keepdim: bool) -> Tensor:
    chosen = (x == spread(out, x.spec, dim, keepdim)) | (x != x)  # NaN is both largest and smallest
    mask = to_dtype(chosen, dtype=g.dtype)
    count = sum_(mask, dim=dim, keepdim=True)
    return mask * (spread(g, x.spec, dim, keepdim) / count)


def lowest(dtype: DType) -> Any:
    """The value that maximum never prefers."""
    if dtype is bool_:
        return False
    return -np.inf if dtype.is_floating_point else int(np.iinfo(dtype.numpy).min)


def highest(dtype: DType) -> Any:
    """The value that minimum never prefers."""
    if dtype is bool_:
        return True
    return np.inf if dtype.is_floating_point else int(np.iinfo(dtype.numpy).max)


def _extreme_samples() -> Any:
    yield Sample((Array((3, 4, 2)),), {"dim": (1,), "keepdim": False})
    yield Sample((Array((3, 4)),), {"dim": (0, 1), "keepdim": True})
    yield Sample((Array(()),), {"dim": (), "keepdim": False})


@reduction(
    ref=UfuncFold(np.maximum),
    dtype="same",
    combine=s.maximum,
    start=lowest,
    vjp={"x": _shared_ties},
    normalize=dims_of("amax"),
    samples=_extreme_samples,
    failures=bad_dim("amax"),
)
def amax(x, *, dim=None, keepdim=False):
    """The largest element over dims; ties share the gradient."""
    return x


@reduction(
    ref=UfuncFold(np.minimum),
    dtype="same",
    combine=s.minimum,
    start=highest,
    vjp={"x": _shared_ties},
    normalize=dims_of("amin"),
    samples=_extreme_samples,
    failures=bad_dim("amin"),
)
def amin(x, *, dim=None, keepdim=False):
    """The smallest element over dims; ties share the gradient."""
    return x


def _first_extreme(better: Any) -> Any:
    """UfuncFold (value, index) pairs: the better value, NaN best of all, then the lower index."""

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
        at = choose(x, dim[0], keepdims=True)
        values = take_along(x, at, dim[0])
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
    ref=_pair_ref(np.ndarray.argmax),
    dtype="value_index",
    outs=("values", "indices"),
    combine=_first_extreme(lambda b, a: b > a),
    start=lambda dtype: (lowest(dtype), _HUGE),
    vjp={"x": _to_index},
    samples=_one_dim_samples,
    failures=bad_dim("max"),
)
def max_(x, *, dim=None, keepdim=False):
    """The largest element and its index along a dim; without a dim the largest of all."""
    return x, REDUCED


@reduction(
    ref=_pair_ref(np.ndarray.argmin),
    dtype="value_index",
    outs=("values", "indices"),
    combine=_first_extreme(lambda b, a: b < a),
    start=lambda dtype: (highest(dtype), _HUGE),
    vjp={"x": _to_index},
    samples=_one_dim_samples,
    failures=bad_dim("min"),
)
def min_(x, *, dim=None, keepdim=False):
    """The smallest element and its index along a dim; without a dim the smallest of all."""
    return x, REDUCED


def _extreme_signature(op: Op, whole: Op, pairwise: Op) -> None:
    @op.signature
    def call(x: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
        other = dim if isinstance(dim, Tensor) else other
        if other is not None:
            return pairwise(x, other)
        if dim is None:
            return whole(x)
        dim = dim[0] if isinstance(dim, tuple) else dim
        params = {"dim": (normalize_dim(op.name, dim, x.ndim),), "keepdim": bool(keepdim)}
        return apply(op, (x,), params)


_extreme_signature(max_, amax, maximum)
_extreme_signature(min_, amin, minimum)


def _index_of(op: Op, name: str, x: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    if not numel(x.shape) and (dim is None or not x.shape[normalize_dim(name, dim, x.ndim)]):
        raise ValueError(f"{name}: {describe(x)} has no elements to choose from.")
    x = x.detach()
    if dim is not None:
        found: Tensor = op(x, dim, keepdim)[1]
        return found
    found = op(reshape(x, (numel(x.shape),)), 0)[1]
    return reshape(found, (1,) * x.ndim) if keepdim else found


def _index_samples() -> Any:
    yield Sample((Array((3, 4)),), {"dim": 1, "keepdim": False})
    yield Sample((Array((2, 3, 2)),), {"dim": 0, "keepdim": True})
    yield Sample((Array((3, 4)),), {"dim": None, "keepdim": False})
    yield Sample((Array(()),), {"dim": None, "keepdim": True})


def _no_elements(name: str) -> Any:
    def failures() -> Any:
        at, none = {"dim": 2, "keepdim": False}, {"dim": None, "keepdim": False}
        yield Failure((Array((0,)),), none, ValueError, f"{name}: float64[0] has no elements")
        yield Failure((Array((2, 3)),), at, IndexError, "dim 2 is out of range")

    return failures


@composite(
    ref=lambda x, dim, keepdim: np.argmax(x, axis=dim, keepdims=keepdim),
    samples=_index_samples,
    failures=_no_elements("argmax"),
)
def argmax(x, *, dim=None, keepdim=False):
    """The index of the first largest element along a dim; without a dim, its flat index."""
    return _index_of(max_, "argmax", x, dim, keepdim)


@composite(
    ref=lambda x, dim, keepdim: np.argmin(x, axis=dim, keepdims=keepdim),
    samples=_index_samples,
    failures=_no_elements("argmin"),
)
def argmin(x, *, dim=None, keepdim=False):
    """The index of the first smallest element along a dim; without a dim, its flat index."""
    return _index_of(min_, "argmin", x, dim, keepdim)


@composite(
    ref=lambda x, dim, keepdim: (
        np.minimum.reduce(x, dim, keepdims=keepdim), np.maximum.reduce(x, dim, keepdims=keepdim)
    ),
    outs=("min", "max"),
    samples=_index_samples,
    failures=lambda: (
        Failure((Array((2,)),), {"dim": 1, "keepdim": False}, IndexError, "dim 1 is out of range"),
    ),
)  # fmt: skip
def aminmax(x, *, dim=None, keepdim=False):
    """The smallest and the largest element; ties share the gradient."""
    return amin(x, dim=dim, keepdim=keepdim), amax(x, dim=dim, keepdim=keepdim)


# --- means ---------------------------------------------------------------------------------------


REDUCTION_SAMPLES = (
    Sample((Array((3, 4, 2)),), {"dim": (1,), "keepdim": False}),
    Sample((Array((3, 4)),), {"dim": (0, 1), "keepdim": True}),
    Sample((Array(()),), {"dim": (), "keepdim": False}),
)


@composite(
    ref=lambda x, dim, keepdim: np.mean(x, axis=dim, keepdims=keepdim),
    normalize=dims_of("mean"),
    samples=lambda: REDUCTION_SAMPLES,
    failures=bad_dim("mean"),
    floating=True,
)
def mean(x, *, dim=None, keepdim=False):
    """Mean over dims, all of them by default."""
    require_floating("mean", x)
    if x.dtype in HALVES:  # a sum may overflow where the mean does not
        return to_dtype(mean(to_dtype(x, dtype=float32), dim=dim, keepdim=keepdim), dtype=x.dtype)
    return sum_(x, dim=dim, keepdim=keepdim) / numel(x.shape[d] for d in dim)


add_dtype_parameter(mean)


def moments(x: Tensor, dim: Any) -> tuple[Tensor, Tensor, Tensor]:
    """(deviations from the mean, mean, variance) over dims, which are kept.

    The mean is rounded, so the deviations from it have a mean of their own: with rest = x - c the
    variance is mean(rest**2) - mean(rest)**2, whatever c is. One pass forms both means.
    """
    centre = mean(x, dim=dim, keepdim=True)
    rest = x - centre
    off = mean(rest, dim=dim, keepdim=True)
    variance = maximum(mean(rest * rest, dim=dim, keepdim=True) - off * off, 0.0)
    return rest - off, centre + off, variance


_WITH_NANS = (
    Sample((np.array([[1.0, np.nan, 3.0], [-2.0, 0.5, 1.5]]),), {"dim": (1,), "keepdim": False}),
    Sample((Array((2, 3, 2)),), {"dim": (0, 2), "keepdim": True}),
)


@composite(
    ref=lambda x, dim, keepdim: np.nansum(x, axis=dim, keepdims=keepdim),
    normalize=dims_of("nansum"),
    samples=lambda: _WITH_NANS,
    failures=bad_dim("nansum"),
)
def nansum(x, *, dim=None, keepdim=False):
    """Sum over dims of the elements that are not NaN."""
    return sum_(where(x != x, 0, x), dim=dim, keepdim=keepdim)


add_dtype_parameter(nansum)


@composite(
    ref=lambda x, dim, keepdim: np.nanmean(x, axis=dim, keepdims=keepdim),
    normalize=dims_of("nanmean"),
    samples=lambda: _WITH_NANS,
    failures=bad_dim("nanmean"),
    floating=True,
)
def nanmean(x, *, dim=None, keepdim=False):
    """Mean over dims of the elements that are not NaN."""
    require_floating("nanmean", x)
    count = sum_(x == x, dim=dim, keepdim=keepdim)
    return nansum(x, dim=dim, keepdim=keepdim) / count


add_dtype_parameter(nanmean)


@composite(
    ref=lambda x, dim, keepdim: np.log(np.sum(np.exp(x), axis=dim, keepdims=keepdim)),
    vjp={"x": lambda g, x, out, dim, keepdim: spread(g, x.spec, dim, keepdim)
         * exp(x - spread(out, x.spec, dim, keepdim))},
    normalize=dims_of("logsumexp"),
    samples=lambda: (
        *REDUCTION_SAMPLES,
        Sample((np.array([[-np.inf, 2.0], [1.0, 3.0]]),), {"dim": (0,), "keepdim": False}),
    ),
    failures=bad_dim("logsumexp"),
)  # fmt: skip
def logsumexp(x, *, dim, keepdim=False):
    """log(sum(exp(x))) over dims, without overflow."""
    if not x.dtype.is_floating_point:
        x = x.to(get_default_dtype())
    if not numel(x.shape[d] for d in dim):  # the logarithm of an empty sum
        return log(sum_(exp(x), dim=dim, keepdim=keepdim))
    top = amax(x.detach(), dim=dim, keepdim=True)
    top = where(abs(top) == float("inf"), 0, top)  # or infinities would cancel to NaN
    total = log(sum_(exp(x - top), dim=dim, keepdim=keepdim))
    return total + reshape(top, total.shape)
