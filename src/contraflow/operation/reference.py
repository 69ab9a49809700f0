"""The meaning of an op over NumPy arrays: its `ref`, with dtypes cast and rounded as declared.

NumPy adds rows to rows one after the other, whatever their number, and so does `np.add.at`. Sums
of a `ref` go through the functions at the end, which carry float64.
"""

from __future__ import annotations

import contextvars
import math
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from contraflow.dtypes import DType
from contraflow.expressions.evaluate import saturating_cast
from contraflow.operation.op import Op
from contraflow.shapes import View
from contraflow.spec import Given, Params, Spec


class _Quiet(threading.local):
    """A contextvars context per thread in which NumPy does not warn.

    NumPy keeps its error state in a context variable; running inside a context that has it set
    costs a tenth of entering `np.errstate`, and the user's own `np.seterr` stays untouched.
    """

    def __init__(self) -> None:
        context = contextvars.copy_context()
        context.run(np.seterr, all="ignore")
        # How to call, with warnings off, what does not come back here itself.
        self.call: Callable[..., Any] = context.run

    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call `function` with warnings off; a nested call is inside already."""
        call = self.call
        self.call = _plainly
        try:
            return call(function, *args, **kwargs)
        finally:
            self.call = call


def _plainly(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


quiet = _Quiet()
# A context in which NumPy does not warn, for `calm.copy().run(function, ...)`: a copy is entered by
# one call alone, so that nested calls and other threads need no care, and costs less than to keep
# account of them.
calm = contextvars.copy_context()
calm.run(np.seterr, all="ignore")
_ARRAYS = (np.ndarray, np.generic)  # the sum of all elements is a scalar of NumPy's


class Prepared(NamedTuple):
    """How a `ref` runs on inputs of certain specs: what is cast before, and what comes out."""

    casts: tuple[DType | None, ...]  # per input, None where it is taken as it is
    results: tuple[DType, ...]
    plain: bool  # nothing is cast before
    # The function that is called with the arrays, and its other arguments: see `UfuncFold.bound`.
    call: Callable[..., Any] | None = None
    rest: tuple[Any, ...] = ()

    def run(self, op: Op, arrays: Sequence[Any], params: Params) -> tuple[np.ndarray, ...]:
        """Cast, run `ref` (halves in float32, or what the op carries), and round to the results."""
        assert op.ref is not None
        results = self.results
        if op.from_user:  # it reads context variables of its caller, NumPy's error state among them
            given = arrays if self.plain else quiet.run(self._cast, arrays)
            outs = op.ref(*given, **params)
        elif self.plain:
            outs = quiet.run(op.ref, *arrays, **params)
        else:
            outs = quiet.run(self._cast_and_run, op.ref, arrays, params)
        is_one = len(results) == 1 and isinstance(outs, _ARRAYS)
        if is_one and outs.dtype is results[0].numpy:
            return (np.asarray(outs, order="C"),)
        return self.rounded(outs)

    def rounded(self, outs: Any) -> tuple[np.ndarray, ...]:
        """The results of a `ref` as arrays of the declared dtypes."""
        found: tuple[np.ndarray, ...] = quiet.run(
            self._round, outs if isinstance(outs, tuple) else (outs,)
        )
        return found

    def _cast_and_run(
        self, ref: Callable[..., Any], arrays: Sequence[Any], params: Params
    ) -> tuple[np.ndarray, ...]:
        outs: tuple[np.ndarray, ...] = ref(*self._cast(arrays), **params)
        return outs

    def _cast(self, arrays: Sequence[Any]) -> Sequence[Any]:
        return [x if c is None else saturating_cast(x, c) for x, c in zip(arrays, self.casts)]

    def _round(self, outs: Sequence[Any]) -> tuple[np.ndarray, ...]:
        return tuple(
            [
                np.asarray(o).astype(r.numpy, order="C", copy=False)
                for o, r in zip(outs, self.results)
            ]
        )


def prepare(op: Op, given: Sequence[Given], params: Params) -> Prepared:
    """Ask the dtype rule of an op once for all inputs like these."""
    casts, results = op.types(given, params)
    carried = op.kind.carried(op, given, params)
    needed = tuple([_cast(x, c, carried) for x, c in zip(given, casts)])
    bound = op.ref.bound(given, params) if isinstance(op.ref, UfuncFold) else None
    return Prepared(needed, results, not any(needed), *(bound or ()))


def _cast(x: Given, wanted: DType | None, carried: DType | None) -> DType | None:
    if not isinstance(x, Spec):
        return None if wanted is None else wanted.compute
    target = (x.dtype if wanted is None else wanted).compute
    if carried is not None and target.is_floating_point:
        target = carried
    return None if x.dtype is target else target


def run_reference(
    op: Op, arrays: Sequence[Any], given: Sequence[Given], params: Params
) -> tuple[np.ndarray, ...]:
    """The results of an op's `ref` on arrays."""
    return prepare(op, given, params).run(op, arrays, params)


def strided(array: np.ndarray, view: View) -> np.ndarray:
    """A view of a contiguous array, as a `strided` line gives it."""
    if 0 in view.shape:  # such a view may start beyond the end
        return np.empty(view.shape, array.dtype)
    flat = np.ascontiguousarray(array).reshape(-1)
    size = flat.itemsize
    strides = tuple(st * size for st in view.strides)
    return np.ndarray(view.shape, flat.dtype, flat, view.offset * size, strides)


# --- places ------------------------------------------------------------------------------------


def all_below(i: np.ndarray, n: int) -> bool:
    """Whether all of some indices are in [0, n)."""
    if i.dtype == np.int64:  # negative ones are large without their sign
        if not i.size:
            return True
        bare = i.view(np.uint64)
        return bare.item(bare.argmax()) < n  # a third of the time of a maximum
    return not ((i < 0) | (i >= n)).any()


def take_along(x: np.ndarray, index: np.ndarray, dim: int) -> np.ndarray:
    """`np.take_along_axis`, for an index that may be shorter than `x` along other dims."""
    if index.ndim == 1:
        return x[index]  # type: ignore[no-any-return]
    before, after = _others(index.shape, dim)
    return x[(*before, index, *after)]  # type: ignore[no-any-return]


@lru_cache(maxsize=1024)
def _others(shape: tuple[int, ...], dim: int) -> tuple[Sequence[Any], Sequence[Any]]:
    """The coordinates along each other dim, laid against the rest: before a dim, and after it."""
    grid = np.indices(shape, sparse=True)
    return grid[:dim], grid[dim + 1 :]


# --- sums --------------------------------------------------------------------------------------

BLOCK = 128  # float32 that may be added one after the other


def carried(x: np.ndarray) -> np.ndarray:
    """The dtype in which sums of an array are carried: float64 for float32."""
    return x.astype(np.float64) if x.dtype == np.float32 else x


class UfuncFold:
    """The `ref` of a reduction that is the `reduce` of a ufunc of NumPy's over dims."""

    def __init__(self, ufunc: np.ufunc) -> None:
        self._reduce: Any = ufunc.reduce

    def __call__(self, x: np.ndarray, dim: tuple[int, ...], keepdim: bool = False) -> Any:
        return self._reduce(x, dim, keepdims=keepdim)

    def bound(self, given: Sequence[Given], params: Params) -> tuple[Any, ...] | None:
        """The function of NumPy's that computes it, and its arguments after the array; None where
        there is none for inputs like these."""
        (x,), dim = given, params["dim"]
        assert isinstance(x, Spec)
        # All dims, and one, are given in the way that NumPy has less to do for.
        axis = None if len(dim) == len(x.shape) else dim[0] if len(dim) == 1 else dim
        return self._reduce, (axis, None, None, params["keepdim"])


class _Sum(UfuncFold):
    """The `ref` of sums, which are carried in float64 where there are many terms."""

    def __call__(self, x: np.ndarray, dim: tuple[int, ...], keepdim: bool = False) -> Any:
        return add_up(x, dim, keepdim)

    def bound(self, given: Sequence[Given], params: Params) -> tuple[Any, ...] | None:
        (x,) = given
        few = isinstance(x, Spec) and math.prod(x.shape) <= BLOCK
        return super().bound(given, params) if few else None


sums = _Sum(np.add)


def add_up(x: np.ndarray, dim: tuple[int, ...], keepdim: bool = False) -> Any:
    """The sum over dims."""
    if x.dtype != np.float32 or x.size <= BLOCK or _lies_in_rows(x, dim):
        reduce: Any = np.add.reduce  # as x.sum(), which comes here by way of Python
        return reduce(x, dim, keepdims=keepdim)
    return x.sum(dim, np.float64, keepdims=keepdim).astype(np.float32)


def _lies_in_rows(x: np.ndarray, dim: tuple[int, ...]) -> bool:
    """Whether the terms lie side by side: NumPy then adds pairwise, which is as exact.

    Few terms are exact enough in any order.
    """
    count = math.prod([x.shape[d] for d in dim])
    return count <= BLOCK or (x.flags.c_contiguous and min(dim) == x.ndim - len(dim))


def add_at(x: np.ndarray, key: Any, values: np.ndarray) -> np.ndarray:
    """A copy of `x` with values added at the places of a key, which may be there several times."""
    out = carried(x)
    out = x.copy() if out is x else out
    np.add.at(out, key, carried(values))
    return out.astype(x.dtype, copy=False)


def product(a: np.ndarray, b: np.ndarray, depth: int, multiply: Callable[..., Any]) -> Any:
    """`multiply(a, b)`, in which sums are of `depth` products each."""
    if depth <= BLOCK or a.dtype != np.float32:
        return multiply(a, b)
    return multiply(carried(a), carried(b)).astype(a.dtype)
