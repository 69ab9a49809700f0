"""Results whose shape depends on values: they run eagerly and are refused under compile."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from contraflow.dtypes import bool_, int64
from contraflow.errors import describe
from contraflow.operation.context import apply
from contraflow.operation.kinds import composite, host
from contraflow.operation.samples import Array, Failure, Sample
from contraflow.ops.creation.data import tensor
from contraflow.ops.elementwise.basic import where
from contraflow.ops.index.gather import take_at
from contraflow.ops.index.slices import index_select
from contraflow.ops.reduction.reduce import sum_
from contraflow.ops.shape.parts import unbind
from contraflow.ops.shape.view import expand, reshape, unsqueeze
from contraflow.shapes import normalize_dim
from contraflow.tensors.tensor import Tensor

_MASK = Array((3, 4), dtype=bool_)


@host(
    ref=lambda x: np.array(x.nonzero()).T if x.ndim else np.zeros((int(bool(x)), 0), np.int64),
    dtype="index",
    shape=lambda x: (0, len(x.shape)),
    samples=lambda: (
        Sample((_MASK,)),
        Sample((Array((5,), 0, 2, int64),)),
        Sample((np.array(3.0),)),
    ),
    dynamic=True,
    silent=True,
)
def nonzero(x):
    """The indices of the nonzero elements, one row per element."""


@nonzero.signature
def _nonzero(x: Tensor, *, as_tuple: bool = False) -> Any:
    found = apply(nonzero, (x if x.ndim or not as_tuple else reshape(x, (1,)),))
    return unbind(found, 1) if as_tuple else found


@composite(
    ref=lambda x: np.argwhere(x),
    samples=lambda: (Sample((_MASK,)),),
    dynamic=True,
)
def argwhere(x):
    """The indices of the nonzero elements, one row per element."""
    return nonzero(x)


@composite(
    ref=lambda x, dim: np.asarray(np.count_nonzero(x, dim)),
    samples=lambda: (
        Sample((Array((3, 4), -1, 2, int64),), {"dim": None}),
        Sample((Array((3, 4), -1, 2, int64),), {"dim": (1,)}),
    ),
)
def count_nonzero(x, *, dim=None):
    """The number of nonzero elements, of all or along dims."""
    return sum_(x != 0, dim=dim)


@where.signature
def _where(condition: Any, *chosen: Any, **named: Any) -> Any:
    """where(condition) alone gives the coordinates of what holds."""
    if not chosen and not named:
        return _nonzero(condition, as_tuple=True)
    return where.bind(condition, *chosen, **named)


def _unique_ref(x: np.ndarray, dim: int | None) -> Any:
    values, inverse, counts = np.unique(x, return_inverse=True, return_counts=True, axis=dim)
    return values, inverse.reshape(x.shape if dim is None else -1), counts


def _unique_shape(x: Any, dim: int | None) -> Any:
    inverse = x.shape if dim is None else (x.shape[dim],)
    values = (0,) if dim is None else (*x.shape[:dim], 0, *x.shape[dim + 1 :])
    return values, inverse, (0,)


def _three(given: Any, params: Any) -> Any:
    return (None,), (given[0].dtype, int64, int64)


@host(
    ref=_unique_ref,
    dtype=_three,
    outs=("values", "inverse", "counts"),
    shape=_unique_shape,
    samples=lambda: (Sample((Array((6, 2), 0, 2, int64),), {"dim": 0}),),
    method=False,
    internal=True,
    dynamic=True,
)
def distinct(x, *, dim):
    """The distinct elements, or slices of a dim, sorted; which is which; how many of each."""


def _asked(found: Any, return_inverse: bool, return_counts: bool) -> Any:
    values, inverse, counts = found
    wanted = ((values, True), (inverse, return_inverse), (counts, return_counts))
    asked = tuple(x for x, is_wanted in wanted if is_wanted)
    return asked if len(asked) > 1 else values


def _unique_samples() -> Any:
    options = {"return_inverse": True, "return_counts": True}
    yield Sample((Array((3, 4), 0, 3, int64),), {**options, "dim": None})
    yield Sample((Array((2, 6), 0, 2, int64),), {**options, "dim": 1})
    yield Sample((Array((8,), 0, 2, int64),), {"return_inverse": False, "return_counts": True})


@composite(
    ref=lambda x, return_inverse, return_counts, dim=None, sorted=True: _asked(
        _unique_ref(x, dim), return_inverse, return_counts),
    samples=_unique_samples,
    failures=lambda: (Failure((Array((2,)),), {"dim": 1}, IndexError, "unique: dim 1 is out of"),),
    dynamic=True,
)  # fmt: skip
def unique(x, *, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The distinct elements, or slices of a dim, sorted; on request inverse indices and counts."""
    dim = None if dim is None else normalize_dim("unique", dim, x.ndim)
    return _asked(distinct(x, dim=dim), return_inverse, return_counts)


def _runs_ref(x: np.ndarray, dim: int | None) -> Any:
    if dim is None:
        rows = x.reshape(-1, 1)
    else:
        rows = np.moveaxis(x, dim, 0)
        rows = rows.reshape(len(rows), math.prod(rows.shape[1:]))
    starts = np.ones(len(rows), bool)
    starts[1:] = (rows[1:] != rows[:-1]).any(1)
    first = np.flatnonzero(starts)
    counts = np.diff(np.append(first, len(rows)))
    values = x.reshape(-1)[first] if dim is None else np.take(x, first, dim)
    inverse = np.cumsum(starts) - 1
    return values, inverse.reshape(x.shape) if dim is None else inverse, counts


@host(
    ref=_runs_ref,
    dtype=_three,
    outs=("values", "inverse", "counts"),
    shape=_unique_shape,
    samples=lambda: (Sample((Array((2, 6), 0, 2, int64),), {"dim": 1}),),
    method=False,
    internal=True,
    dynamic=True,
)
def runs(x, *, dim):
    """The first of each run of equal elements; which run each is in; how long each is."""


@composite(
    ref=lambda x, return_inverse, return_counts, dim=None: _asked(
        _runs_ref(x, dim), return_inverse, return_counts),
    samples=_unique_samples,
    dynamic=True,
)  # fmt: skip
def unique_consecutive(x, *, return_inverse=False, return_counts=False, dim=None):
    """The first of each run of equal elements, or of equal slices of a dim."""
    dim = None if dim is None else normalize_dim("unique_consecutive", dim, x.ndim)
    return _asked(runs(x, dim=dim), return_inverse, return_counts)


def _isin_ref(elements: Any, test_elements: Any, assume_unique: bool, invert: bool) -> np.ndarray:
    return np.isin(elements, test_elements, invert=invert)


@host(
    ref=_isin_ref,
    dtype=lambda given, params: ((None, None), (bool_,)),
    shape=lambda elements, test_elements, assume_unique, invert: (
        elements.shape if hasattr(elements, "shape") else ()
    ),
    samples=lambda: (
        Sample((Array((3, 4), 0, 5, int64), np.array([1, 3])),
               {"assume_unique": False, "invert": False}),
        Sample((Array((4,), 0, 5, int64), 2), {"assume_unique": False, "invert": True}),
    ),
    method=False,
)  # fmt: skip
def isin(elements, test_elements, *, assume_unique=False, invert=False):
    """Whether each element is among the test elements."""


# --- repeats and combinations ------------------------------------------------------------------


@host(
    ref=lambda repeats: np.repeat(np.arange(repeats.size), repeats),
    dtype="index",
    shape=lambda repeats: (0,),
    samples=lambda: (Sample((np.array([2, 0, 3]),)),),
    method=False,
    internal=True,
    dynamic=True,
)
def repeated_numbers(repeats):
    """0 as often as the first number says, then 1 as often as the second, and so on."""


@composite(
    ref=lambda x, repeats, dim: np.repeat(x, repeats, dim),
    samples=lambda: (
        Sample((Array((2, 3)), 2), {"dim": 1}),
        Sample((Array((2, 3)), 3), {"dim": None}),
    ),
    failures=lambda: (
        Failure((Array((2,)), -1), {"dim": 0}, ValueError, "repeat_interleave: repeats is -1"),
    ),
)
def repeat_interleave(x, repeats, *, dim=None):
    """Each element repeated in place, along a dim or in the flattened tensor."""
    if dim is None:
        x, dim = reshape(x, (-1,)), 0
    dim = normalize_dim("repeat_interleave", dim, x.ndim)
    if isinstance(repeats, Tensor) and repeats.numel() == 1:
        repeats = repeats.item()
    if isinstance(repeats, Tensor):
        if repeats.ndim != 1 or repeats.shape[0] != x.shape[dim]:
            raise ValueError(
                f"repeat_interleave: repeats {describe(repeats)} must be a vector with one number "
                f"per element of dim {dim} of {describe(x)}."
            )
        return index_select(x, dim, repeated_numbers(repeats))
    if repeats < 0:
        raise ValueError(f"repeat_interleave: repeats is {repeats}; it must not be negative.")
    apart = unsqueeze(x, dim + 1)
    spread = expand(apart, (*x.shape[: dim + 1], repeats, *x.shape[dim + 1 :]))
    out = reshape(spread, (*x.shape[:dim], x.shape[dim] * repeats, *x.shape[dim + 1 :]))
    return out.clone() if out.storage is x.storage else out


@repeat_interleave.signature
def _repeat_interleave(
    x: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    if repeats is None:
        return apply(repeated_numbers, (x,))
    return apply(repeat_interleave, (x, repeats), {"dim": dim})


def _choices(n: int, r: int, with_replacement: bool) -> np.ndarray:
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    return np.array(list(choose(range(n), r)), np.int64).reshape(-1, r)


@composite(
    ref=lambda x, r, with_replacement: x[_choices(x.size, r, with_replacement)],
    samples=lambda: (
        Sample((Array((4,)),), {"r": 2, "with_replacement": False}),
        Sample((Array((3,)),), {"r": 3, "with_replacement": True}),
    ),
    failures=lambda: (
        Failure(
            (Array((2, 2)),), {"r": 2, "with_replacement": False}, ValueError,
            "combinations: float64[2, 2] is not a vector.",
        ),
    ),
    method=False,
)  # fmt: skip
def combinations(x, *, r=2, with_replacement=False):
    """All combinations of r elements of a vector, in its order, as rows."""
    if x.ndim != 1:
        raise ValueError(f"combinations: {describe(x)} is not a vector.")
    if not r:
        return x[:0].clone()
    places = tensor(_choices(x.shape[0], r, with_replacement))
    return take_at(x, unsqueeze(places, 0), dims=(0,), wrap=False)
