"""Scans and sorts along one dim.

Products and sums of exponentials are differentiated through `recurrence`, which is closed under
differentiation: no rule here divides by an element, so zeros do no harm in any order.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from contraflow import thresholds
from contraflow.contexts.applying import outside_graph
from contraflow.dtypes import bool_, float32, float64, int32, int64
from contraflow.errors import describe
from contraflow.expressions import expression as s
from contraflow.operation.binding import OneDim
from contraflow.operation.context import apply
from contraflow.operation.kinds import REDUCED, composite, scan, sort
from contraflow.operation.op import Op
from contraflow.operation.reference import take_along
from contraflow.operation.samples import Array, Failure, Sample
from contraflow.ops.creation.create import zeros
from contraflow.ops.elementwise.basic import clone, exp, where
from contraflow.ops.elementwise.mathematics import logaddexp
from contraflow.ops.index.gather import constant_pad, gather, scatter_sum
from contraflow.ops.reduction.reduce import highest, lowest
from contraflow.ops.shape.joining import cat
from contraflow.ops.shape.view import contiguous, reshape, slice_
from contraflow.shapes import normalize_dim
from contraflow.tensors.tensor import Tensor


def _same_shape(name: str) -> Any:
    def shape(x: Any, dim: int, **_: Any) -> Any:
        normalize_dim(name, dim, len(x.shape))
        return x.shape

    return shape


def _bad_dim(name: str, **params: Any) -> Any:
    return lambda: (
        Failure((Array((2,)),), {"dim": 1, **params}, IndexError, f"{name}: dim 1 is out of range"),
    )


def _add_dtype_parameter(op: Op) -> None:
    """PyTorch's signature of sums and products: the input is cast before they are formed."""

    @op.signature
    def call(x: Tensor, dim: int, *, dtype: Any = None) -> Any:
        out = op.bind(x if dtype is None else x.to(dtype), dim)
        return out if dtype is None else out.to(dtype)


# --- scans ---------------------------------------------------------------------------------------


def _cumsum_ref(x: np.ndarray, dim: int, reverse: bool) -> np.ndarray:
    if not x.ndim:
        return x.copy()
    if reverse:
        return np.flip(np.cumsum(np.flip(x, dim), axis=dim), dim)
    return np.cumsum(x, axis=dim)


@scan(
    ref=_cumsum_ref,
    dtype="sum",
    shape=_same_shape("cumsum"),
    step=lambda total, x: total + x,
    combine=lambda total, other: total + other,
    start=lambda dtype: -0.0 if dtype.is_floating_point else 0,  # a sum with -0.0 is the other
    vjp={"x": lambda g, dim, reverse: apply(cumsum, (g,), {"dim": dim, "reverse": not reverse})},
    samples=lambda: (
        Sample((Array((3, 4)),), {"dim": 1, "reverse": False}),
        Sample((Array((3, 4)),), {"dim": 0, "reverse": True}),
        Sample((Array((0,)),), {"dim": 0, "reverse": False}),
        Sample((Array(()),), {"dim": 0, "reverse": False}),
    ),
    normalize=OneDim("cumsum"),
    linear=True,
    inplace=True,
)
def cumsum(x, *, dim, reverse=False):
    """Running sum along a dim, from its end if `reverse`."""


_add_dtype_parameter(cumsum)


def _previous(x: Tensor, dim: int, reverse: bool, start: float = 0.0) -> Tensor:
    """The element before each, in the direction of the scan; `start` before the first."""
    if not x.ndim or not x.shape[dim]:
        return x * 0.0 + start
    n = x.shape[dim]
    first = 1 if reverse else 0
    kept = slice_(x, dim=dim, start=first, stop=n - 1 + first, step=1)
    pads = [(0, 0)] * x.ndim
    pads[dim] = (0, 1) if reverse else (1, 0)
    return constant_pad(kept, start, pads=tuple(pads))


def _recurrence_ref(a: np.ndarray, b: np.ndarray, dim: int, reverse: bool) -> np.ndarray:
    out = b.copy()
    if not out.ndim:
        return out
    factors, steps = (np.flip(np.moveaxis(v, dim, 0), 0) if reverse else np.moveaxis(v, dim, 0)
                      for v in (a, out))  # fmt: skip
    for k in range(1, len(steps)):
        steps[k] += factors[k] * steps[k - 1]
    return out


# The adjoint runs the other way: each cotangent passes on what the next element took from this
# one, so it is multiplied by the next factor.
def _recurrence_vjp(g: Tensor, a: Tensor, out: Tensor, dim: int, reverse: bool) -> Any:
    back = recurrence(_previous(a, dim, not reverse), g, dim=dim, reverse=not reverse)
    return back * _previous(out, dim, reverse), back


@scan(
    ref=_recurrence_ref,
    dtype="promote",
    shape=lambda a, b, dim, reverse: b.shape,
    step=lambda last, a, b: s.select(s.eq(REDUCED, 0), b, b + a * last),
    start=0,
    vjp={"a, b": _recurrence_vjp},
    samples=lambda: (
        Sample((Array((3, 4)), Array((3, 4))), {"dim": 1, "reverse": False}),
        Sample((Array((3, 4)), Array((3, 4))), {"dim": 0, "reverse": True}),
    ),
    method=False,
    internal=True,
)
def recurrence(a, b, *, dim, reverse):
    """out[k] = b[k] + a[k] * out[k - 1] along a dim, from its end if `reverse`."""


# With r[k] = g[k] + x[k + 1] r[k + 1], the sum over later outputs, the gradient is r[k] times the
# product of everything before k.
def _cumprod_vjp(g: Tensor, x: Tensor, out: Tensor, dim: int) -> Tensor:
    later = recurrence(_previous(x, dim, True), g, dim=dim, reverse=True)
    return later * _previous(out, dim, False, 1.0)


_SCAN_SAMPLES = (
    Sample((Array((3, 4)),), {"dim": 1}),
    Sample((Array((2, 3, 2)),), {"dim": 1}),
    Sample((Array((2, 0)),), {"dim": 1}),
    Sample((Array(()),), {"dim": 0}),
)


@scan(
    ref=lambda x, dim: np.cumprod(x, axis=dim) if x.ndim else x.copy(),
    dtype="sum",
    shape=_same_shape("cumprod"),
    step=lambda product, x: product * x,
    combine=lambda product, other: product * other,
    start=1,
    vjp={"x": _cumprod_vjp},
    samples=lambda: (
        *_SCAN_SAMPLES,
        Sample((np.array([1.5, 0.0, 2.0, 0.0, 3.0]),), {"dim": 0}),
    ),
    failures=_bad_dim("cumprod"),
    normalize=OneDim("cumprod"),
    inplace=True,
)
def cumprod(x, *, dim):
    """Running product along a dim."""


_add_dtype_parameter(cumprod)


# r[k] sums g[i] exp(out[k] - out[i]) over i >= k: every factor is at most one.
def _logcumsumexp_vjp(g: Tensor, x: Tensor, out: Tensor, dim: int) -> Tensor:
    void = out == -float("inf")  # so far there is nothing to share, and nothing gets a part
    share, step = x - out, out - _previous(out, dim, True, float("inf"))
    share, decay = (where(void, 0.0, exp(where(void, 0.0, part))) for part in (share, step))
    return share * recurrence(decay, g, dim=dim, reverse=True)


@scan(
    ref=lambda x, dim: np.logaddexp.accumulate(x, axis=dim) if x.ndim else x.copy(),
    dtype="float",
    shape=_same_shape("logcumsumexp"),
    step=logaddexp.body,
    combine=logaddexp.body,
    start=-math.inf,
    vjp={"x": _logcumsumexp_vjp},
    samples=lambda: _SCAN_SAMPLES,
    failures=_bad_dim("logcumsumexp"),
    normalize=OneDim("logcumsumexp"),
)
def logcumsumexp(x, *, dim):
    """The logarithm of the running sum of exp(x) along a dim, without overflow."""


def _running(accumulate: Any) -> Any:
    def ref(x: np.ndarray, dim: int) -> Any:
        if not x.ndim:
            return x.copy(), np.zeros((), np.int64)
        values = accumulate(x, axis=dim)
        shape = [1] * x.ndim
        shape[dim] = -1
        positions = np.arange(x.shape[dim]).reshape(shape)
        # Ties, and NaN after NaN, take the later index.
        new = (x == values) | (x != x)
        return values, np.maximum.accumulate(np.where(new, positions, 0), axis=dim)

    return ref


def _running_vjp(g_values: Tensor | None, indices: Tensor, x_spec: Any, dim: int) -> Any:
    if g_values is None or not x_spec.shape:
        return g_values
    return scatter_sum(g_values, indices, dim=dim, shape=x_spec.shape)


def _better(wins: s.Expr, best: s.Expr, at: s.Expr, x: s.Expr) -> tuple[s.Expr, s.Expr]:
    """The new extreme and where it stands: NaN wins always, and nothing wins against it but NaN."""
    if x.dtype.is_floating_point:
        wins = wins | s.isnan(x)
    return s.select(wins, x, best), s.select(wins, REDUCED, at)


def _better_part(
    wins: s.Expr, best: s.Expr, at: s.Expr, x: s.Expr, i: s.Expr
) -> tuple[s.Expr, s.Expr]:
    """The extreme of two parts of a row and where it stands, of equal ones the last."""
    equal = s.eq(x, best)
    if x.dtype.is_floating_point:
        wins = wins | (s.isnan(x) & ~s.isnan(best))
        equal = equal | (s.isnan(x) & s.isnan(best))
    wins = wins | (equal & (i > at))
    return s.select(wins, x, best), s.select(wins, i, at)


@scan(
    ref=_running(np.maximum.accumulate),
    dtype="value_index",
    outs=("values", "indices"),
    shape=lambda x, dim: (x.shape, x.shape),
    step=lambda best, at, x: _better(x >= best, best, at, x),
    combine=lambda best, at, x, i: _better_part(x > best, best, at, x, i),
    start=lambda dtype: (lowest(dtype), 0),
    vjp={"x": _running_vjp},
    samples=lambda: _SCAN_SAMPLES,
    failures=_bad_dim("cummax"),
    normalize=OneDim("cummax"),
)
def cummax(x, *, dim):
    """The largest element so far along a dim, and its index."""


@scan(
    ref=_running(np.minimum.accumulate),
    dtype="value_index",
    outs=("values", "indices"),
    shape=lambda x, dim: (x.shape, x.shape),
    step=lambda best, at, x: _better(x <= best, best, at, x),
    combine=lambda best, at, x, i: _better_part(x < best, best, at, x, i),
    start=lambda dtype: (highest(dtype), 0),
    vjp={"x": _running_vjp},
    samples=lambda: _SCAN_SAMPLES,
    failures=_bad_dim("cummin"),
    normalize=OneDim("cummin"),
)
def cummin(x, *, dim):
    """The smallest element so far along a dim, and its index."""


# --- sorts: equal elements keep their order, and NaN is the largest ------------------------------


def _argsort_ref(x: np.ndarray, dim: int, descending: bool, stable: bool) -> np.ndarray:
    if not x.ndim:
        return np.zeros((), np.int64)
    if not descending:
        return x.argsort(dim, "stable")
    return _leading_ref(x, dim % x.ndim, x.shape[dim], True)


def _sort_key(x: s.Expr, descending: bool, **_: Any) -> s.Expr:
    """An integer in whose order elements are: zeros are one, and so are all NaN, the largest."""
    dtype = int64 if x.dtype.itemsize == 8 else int32
    least, most = lowest(dtype), highest(dtype)
    if x.dtype.is_floating_point:
        bits = s.bitcast(x, dtype)
        # Of a negative number the bits below the sign are the distance from zero.
        key = s.select(s.isnan(x), most, s.select(bits < 0, least - bits, bits))
    else:
        key = s.cast(x, dtype)
    return key ^ -1 if descending else key


def _sort_samples() -> Any:
    yield Sample((Array((3, 4)),), {"dim": 1, "descending": False, "stable": False})
    yield Sample((Array((2, 4, 2)),), {"dim": 1, "descending": True, "stable": True})
    yield Sample((Array(()),), {"dim": 0, "descending": False, "stable": False})


@sort(
    ref=_argsort_ref,
    dtype="index",
    silent=True,
    shape=_same_shape("argsort"),
    key=_sort_key,
    samples=lambda: (
        *_sort_samples(),
        Sample((Array((6,), 0, 3, int64),), {"dim": 0, "descending": True, "stable": False}),
    ),
    failures=_bad_dim("argsort", descending=False, stable=False),
    normalize=OneDim("argsort"),
)
def argsort(x, *, dim=-1, descending=False, stable=False):
    """The indices that sort a dim; the sort is always stable."""


_EVERY, _REVERSE = slice(None), slice(None, None, -1)


def _leading_ref(x: np.ndarray, dim: int, count: int, descending: bool) -> np.ndarray:
    if not x.ndim:
        return np.zeros((), np.int64)
    every = (_EVERY,) * dim
    if not descending:
        return x.argsort(dim, "stable")[(*every, slice(count))]
    # Stable and descending: sort the reversed array, then count from the other end.
    last = x.shape[dim] - 1
    order = x[(*every, _REVERSE)].argsort(dim, "stable")
    return last - order[(*every, slice(last, last - count if count <= last else None, -1))]


@sort(
    ref=_leading_ref,
    dtype="index",
    silent=True,
    shape=lambda x, dim, count, descending: (*x.shape[:dim], count, *x.shape[dim + 1 :]),
    key=_sort_key,
    samples=lambda: (
        Sample((Array((3, 5)),), {"dim": 1, "count": 2, "descending": True}),
        Sample((Array((4, 3)),), {"dim": 0, "count": 4, "descending": False}),
        Sample((Array((3,)),), {"dim": 0, "count": 0, "descending": True}),
    ),
    method=False,
    internal=True,
)
def leading(x, *, dim, count, descending):
    """The indices that argsort gives, but only the first of them."""


def _sort_ref(x: np.ndarray, dim: int, descending: bool, stable: bool) -> Any:
    order = _argsort_ref(x, dim, descending, stable)
    return (take_along(x, order, dim) if x.ndim else x), order


@composite(
    ref=_sort_ref,
    outs=("values", "indices"),
    samples=_sort_samples,
    failures=_bad_dim("argsort", descending=False, stable=False),
)
def sort_(x, *, dim=-1, descending=False, stable=False):
    """The elements sorted along a dim, and their indices; the sort is always stable."""
    order = argsort(x, dim, descending)
    return (gather(x, dim, order) if x.ndim else clone(x)), order


@composite(
    ref=lambda x: np.sort(x, axis=0),
    samples=lambda: (Sample((Array((4, 3)),)), Sample((Array((0, 2)),))),
)
def msort(x):
    """The first dim in ascending order."""
    return sort_(x, 0)[0]


def _chosen(name: str, x: Tensor, dim: int, descending: bool, first: int, stop: int) -> Any:
    """The elements first, ..., stop - 1 of a dim in order, and their indices."""
    if not x.ndim:
        values, indices = clone(x), zeros((), dtype=int64)
        return (
            (values, indices) if stop > first else (values.reshape(1)[:0], indices.reshape(1)[:0])
        )
    dim = normalize_dim(name, dim, x.ndim)
    at = leading(x, dim=dim, count=stop, descending=descending)
    if first:
        at = contiguous(slice_(at, dim=dim, start=first, stop=stop, step=1))
    return gather(x, dim, at), at


def _topk_ref(
    x: np.ndarray, k: int, dim: int | None, largest: bool, sorted: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    if not x.ndim:
        found = x.copy(), np.zeros((), np.int64)
        return found if k else (found[0].reshape(1)[:0], found[1].reshape(1)[:0])
    dim = x.ndim - 1 if dim is None else dim % x.ndim
    at = _leading_ref(x, dim, k, largest)
    return take_along(x, at, dim), at


@composite(
    ref=_topk_ref,
    dtype="value_index",
    outs=("values", "indices"),
    silent=True,
    same_bits=True,
    samples=lambda: (
        Sample((Array((3, 5)),), {"k": 2, "dim": -1, "largest": True, "sorted": True}),
        Sample((Array((4, 3)),), {"k": 3, "dim": 0, "largest": False, "sorted": True}),
        Sample((Array((3,)),), {"k": 0, "dim": 0, "largest": True, "sorted": False}),
    ),
    failures=lambda: (
        Failure(
            (Array((2, 3)),), {"k": 4, "dim": -1, "largest": True, "sorted": True}, ValueError,
            "topk: k is 4, but dim -1 of float64[2, 3] has size 3.",
        ),
    ),
)  # fmt: skip
def topk(x, *, k, dim=-1, largest=True, sorted=True):
    """The k largest elements of a dim, or the smallest, in order, and their indices."""
    dim = -1 if dim is None else dim
    at, k = normalize_dim("topk", dim, x.ndim), operator.index(k)
    size = x.shape[at] if x.ndim else 1
    if not 0 <= k <= size:
        raise ValueError(f"topk: k is {k}, but dim {dim} of {describe(x)} has size {size}.")
    return _chosen("topk", x, dim, largest, 0, k)


_new: Any = tuple.__new__  # of a named tuple, as its class does it, which takes twice as long
_PLAIN = frozenset((float32, float64, int64))  # which NumPy sorts as they are


@topk.shortcut
def _topk(*args: Any, **kwargs: Any) -> Any:
    found = _few(*args) if not kwargs and 2 <= len(args) <= 5 else None
    return topk.bind(*args, **kwargs) if found is None else found


def _few(x: Any, k: Any, dim: Any = -1, largest: Any = True, sorted: Any = True) -> Any:
    """The results for few elements outside of any graph, which NumPy has at once; None for others,
    and where an argument is wrong."""
    if not isinstance(x, Tensor) or not type(k) is type(dim) is int or type(largest) is not bool:
        return None
    arrays = outside_graph((x,)) if x.dtype in _PLAIN else None
    if arrays is None or arrays[0].size >= thresholds.eager_composite:
        return None
    (array,) = arrays
    rank = array.ndim
    if not -rank <= dim < rank or not 0 <= k <= array.shape[dim]:
        return None
    at = _leading_ref(array, dim % rank, k, largest)
    values = Tensor.of_array(np.asarray(take_along(array, at, dim % rank), order="C"))
    return _new(topk.results, (values, Tensor.of_array(np.asarray(at, order="C"))))


def _kth_ref(x: np.ndarray, k: int, dim: int, keepdim: bool) -> Any:
    values, at = _topk_ref(x, k, dim, False, True)
    values, at = (np.take(v, [k - 1], axis=dim) for v in (values, at))
    return (values, at) if keepdim else (values.squeeze(dim), at.squeeze(dim))


@composite(
    ref=_kth_ref,
    outs=("values", "indices"),
    samples=lambda: (
        Sample((Array((3, 5)),), {"k": 2, "dim": -1, "keepdim": False}),
        Sample((Array((4, 3)),), {"k": 4, "dim": 0, "keepdim": True}),
    ),
    failures=lambda: (
        Failure(
            (Array((2, 3)),), {"k": 0, "dim": -1, "keepdim": False}, ValueError,
            "kthvalue: k is 0, but dim -1 of float64[2, 3] has size 3; it counts from 1.",
        ),
    ),
)  # fmt: skip
def kthvalue(x, *, k, dim=-1, keepdim=False):
    """The k-th smallest element of a dim, counting from 1, and its index."""
    at = normalize_dim("kthvalue", dim, x.ndim)
    size, k = x.shape[at] if x.ndim else 1, operator.index(k)
    if not 1 <= k <= size:
        raise ValueError(
            f"kthvalue: k is {k}, but dim {dim} of {describe(x)} has size {size}; it counts from 1."
        )
    found = _chosen("kthvalue", x, dim, False, k - 1, k)
    if keepdim or not x.ndim:
        return found
    shape = x.shape[:at] + x.shape[at + 1 :]
    return tuple(reshape(v, shape) for v in found)


# --- differences ---------------------------------------------------------------------------------


def _np_diff(x: np.ndarray, prepend: Any, append: Any, n: int, dim: int) -> np.ndarray:
    ends = {k: v for k, v in (("prepend", prepend), ("append", append)) if v is not None}
    return np.diff(x, n, dim, **ends) if n else x


@composite(
    ref=_np_diff,
    samples=lambda: (
        Sample((Array((3, 4)), None, None), {"n": 1, "dim": -1}),
        Sample((Array((4, 3)), Array((1, 3)), Array((2, 3))), {"n": 2, "dim": 0}),
        Sample((Array((2,)), None, None), {"n": 3, "dim": 0}),
    ),
    failures=lambda: (
        Failure((Array(()), None, None), {"n": 1, "dim": 0}, ValueError, "diff: a 0-d tensor has"),
        Failure((Array((3,)), None, None), {"n": -1, "dim": 0}, ValueError, "diff: n is -1"),
    ),
)
def diff(x, prepend=None, append=None, *, n=1, dim=-1):
    """Differences of neighbours along a dim, n times over."""
    if not x.ndim:
        raise ValueError("diff: a 0-d tensor has no differences.")
    if n < 0:
        raise ValueError(f"diff: n is {n}; it must not be negative.")
    dim = normalize_dim("diff", dim, x.ndim)
    if n and (prepend is not None or append is not None):
        x = cat([part for part in (prepend, x, append) if part is not None], dim)
    for _ in range(min(n, x.shape[dim])):  # then nothing is left
        size = x.shape[dim]
        later = slice_(x, dim=dim, start=min(1, size), stop=size, step=1)
        earlier = slice_(x, dim=dim, start=0, stop=max(size - 1, 0), step=1)
        x = later.ne(earlier) if x.dtype is bool_ else later - earlier
    return x


@diff.signature
def _diff(x: Tensor, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
    return diff.bind(x, prepend, append, n=n, dim=dim)
