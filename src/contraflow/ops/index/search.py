"""one_hot, and searches in sorted sequences."""

from __future__ import annotations

from operator import index as index_of
from typing import Any

import numpy as np

from contraflow import dtypes
from contraflow.dtypes import int32, int64
from contraflow.errors import describe
from contraflow.expressions import expression as s
from contraflow.operation.context import apply
from contraflow.operation.kinds import composite, index
from contraflow.operation.samples import Array, Failure, Sample
from contraflow.ops.creation.create import full
from contraflow.ops.elementwise.basic import to_dtype
from contraflow.ops.index.gather import check_integers, check_range, gather
from contraflow.shapes import Shape
from contraflow.tensors.tensor import Tensor


@index(
    ref=lambda x, num_classes: (
        check_range("one_hot", x, num_classes)[..., None] == np.arange(num_classes)
    ).astype(np.int64),
    dtype="index",
    shape=lambda x, num_classes: (*x.shape, num_classes),
    source=lambda at, x, num_classes: s.cast(
        s.eq(s.checked(s.cast(x[at[:-1]], int64), s.Size(num_classes)), at[-1]), int64
    ),
    samples=lambda: (
        Sample((Array((3, 2), 0, 4, int64),), {"num_classes": 4}),
        Sample((Array((), 0, 3, int64),), {"num_classes": 5}),
    ),
    failures=lambda: (
        Failure(
            (np.array([4]),), {"num_classes": 4}, IndexError,
            "one_hot: index 4 is out of range for size 4.",
        ),
        Failure((Array((2,)),), {"num_classes": 4}, TypeError, "one_hot: the index is"),
        Failure(
            (np.zeros(0, np.int64),), {"num_classes": -1}, ValueError,
            "one_hot: int64[0] is empty, so classes cannot be counted; give num_classes.",
        ),
    ),
    method=False,
)  # fmt: skip
def one_hot(x, *, num_classes):
    """Ones at the index along a new last dim, zeros elsewhere."""


@one_hot.signature
def _one_hot(x: Tensor, num_classes: int = -1) -> Tensor:
    check_integers("one_hot", x.spec)
    if num_classes == -1:
        if not x.numel():
            raise ValueError(
                f"one_hot: {describe(x)} is empty, so classes cannot be counted; give num_classes."
            )
        num_classes = int(x.amax().item()) + 1
    count = index_of(num_classes)
    if count < 1 and x.numel():
        raise ValueError(
            f"one_hot: num_classes is {count}; it must be at least 1, or -1 to count them."
        )
    return apply(one_hot, (x,), {"num_classes": count})


def _search_ref(values: np.ndarray, sequence: np.ndarray, right: bool, narrow: bool) -> np.ndarray:
    side = "right" if right else "left"
    if sequence.ndim == 1:
        return np.asarray(np.searchsorted(sequence, values, side))  # type: ignore[call-overload]
    out = np.empty(values.shape, np.int64)
    for row in np.ndindex(*sequence.shape[:-1]):
        out[row] = np.searchsorted(sequence[row], values[row], side)  # type: ignore[call-overload]
    return out


def _search_source(at: Any, values: Any, sequence: Any, right: bool, narrow: bool) -> Any:
    """Binary search, unrolled: how many elements stand before the value."""
    value, row, n = values[at], at[:-1] if len(sequence.shape) > 1 else (), sequence.shape[-1]
    found = s.const(0, int64)
    step = 1 << int(n).bit_length() >> 1
    while step:
        probe = found + step
        element = sequence.where(probe <= n, (*row, probe - 1))
        stays = element > value if right else element >= value
        found = s.select((probe <= n) & ~stays, probe, found)  # NaN stands last, so it moves on
        step >>= 1
    return s.cast(found, int32) if narrow else found


def _search_shape(values: Any, sequence: Any, right: bool, narrow: bool) -> Shape:
    if len(sequence.shape) != 1 and sequence.shape[:-1] != values.shape[:-1]:
        raise ValueError(
            f"searchsorted: the values {values} and the sorted sequences {sequence} must agree in "
            f"all dims but the last."
        )
    found: Shape = values.shape
    return found


@index(
    ref=_search_ref,
    dtype=lambda given, params: (
        (None, None), (int32 if params["narrow"] else int64,)
    ),
    shape=_search_shape,
    source=_search_source,
    samples=lambda: (
        Sample((np.array([[-2.0, 0.0], [1.0, 7.0]]), np.array([-1.0, 0.0, 0.0, 1.5, 3.0])),
               {"right": False, "narrow": False}),
        Sample((np.array([0, 2, 2, 9]), np.array([1, 2, 2])), {"right": True, "narrow": True}),
        Sample((np.array([[0.5, 0.0], [0.0, 2.0]]), np.array([[-1.0, 0.0, 1.0], [0.0, 0.0, 0.5]])),
               {"right": False, "narrow": False}),
    ),
    method=False,
    internal=True,
)  # fmt: skip
def search(values, sequence, *, right, narrow):
    """Where values would stand in a sorted sequence, before equal elements or after them."""


def _searched(values: Any, sequence: Tensor, right: bool, narrow: bool) -> Tensor:
    if not isinstance(values, Tensor):
        values = full((), values, sequence.dtype)
    dtype = dtypes.fold((values.dtype, sequence.dtype))
    values, sequence = (
        x if x.dtype is dtype else to_dtype(x, dtype=dtype) for x in (values, sequence)
    )
    return apply(search, (values, sequence), {"right": right, "narrow": narrow})


def _np_side(right: bool) -> Any:
    return "right" if right else "left"


@composite(
    ref=lambda sorted_sequence, x, out_int32, right, side, sorter: np.searchsorted(
        sorted_sequence, x, side or _np_side(right)),
    samples=lambda: (
        Sample((np.array([-1.0, 0.0, 1.5]), Array((2, 3))), {
            "out_int32": False, "right": False, "side": "right", "sorter": None}),
    ),
    failures=lambda: (
        Failure(
            (np.array([0.0, 1.0]), Array((2,))), {"side": "middle"}, ValueError,
            "searchsorted: side is 'middle'; it must be 'left' or 'right'.",
        ),
        Failure(
            (np.array([0.0, 1.0]), Array((2,))), {"side": "left", "right": True}, ValueError,
            "searchsorted: side 'left' contradicts right=True.",
        ),
    ),
    method=False,
)  # fmt: skip
def searchsorted(sorted_sequence, x, *, out_int32=False, right=False, side=None, sorter=None):
    """The indices at which values would be inserted into sequences sorted along the last dim."""
    if side not in (None, "left", "right"):
        raise ValueError(f"searchsorted: side is {side!r}; it must be 'left' or 'right'.")
    if side == "left" and right:
        raise ValueError("searchsorted: side 'left' contradicts right=True.")
    if sorter is not None:
        sorted_sequence = gather(sorted_sequence, -1, sorter)
    return _searched(x, sorted_sequence, right or side == "right", out_int32)


@composite(
    ref=lambda x, boundaries, out_int32, right: np.searchsorted(boundaries, x, _np_side(right)),
    samples=lambda: (
        Sample((Array((2, 3)), np.array([-1.0, 0.0, 1.5])), {"out_int32": False, "right": True}),
    ),
    failures=lambda: (
        Failure(
            (Array((2,)), Array((2, 2))), {}, ValueError,
            "bucketize: the boundaries are float64[2, 2]; they must be a vector.",
        ),
    ),
    method=False,
)  # fmt: skip
def bucketize(x, boundaries, *, out_int32=False, right=False):
    """The index of the interval between sorted boundaries that each value falls into."""
    if boundaries.ndim != 1:
        raise ValueError(
            f"bucketize: the boundaries are {describe(boundaries)}; they must be a vector."
        )
    return _searched(x, boundaries, right, out_int32)
