"""Elements that a mask chooses: filled, taken and replaced in order.

`x[mask]`, read and written, is in `indexing.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from contraflow.dtypes import bool_
from contraflow.errors import describe
from contraflow.operation.kinds import composite
from contraflow.operation.samples import Array, Failure, Sample
from contraflow.ops.creation.create import full
from contraflow.ops.elementwise.basic import to_dtype, where
from contraflow.ops.index.dynamic import nonzero
from contraflow.ops.index.gather import take_at
from contraflow.ops.reduction.order import cumsum
from contraflow.ops.shape.view import expand, reshape
from contraflow.shapes import broadcast_shapes, numel
from contraflow.tensors.tensor import Tensor


def _masked(name: str, mask: Any) -> None:
    if not isinstance(mask, Tensor) or mask.dtype is not bool_:
        raise TypeError(f"{name}: the mask is {describe(mask)}; it must be a tensor of bools.")


_MASK = Array((3, 4), dtype=bool_)


@composite(
    ref=lambda x, mask, value: np.where(mask, np.asarray(value).astype(x.dtype), x),
    samples=lambda: (
        Sample((Array((3, 4)), _MASK, -1.5)),
        Sample((Array((4,)), _MASK, Array(()))),
    ),
    failures=lambda: (
        Failure((Array((2,)), Array((2,)), 0.0), {}, TypeError, "masked_fill: the mask is float64"),
        Failure(
            (Array((2,)), Array((2,), dtype=bool_), Array((2,))), {}, ValueError,
            "masked_fill: the value is float64[2]; it must be a number or a 0-d tensor.",
        ),
    ),
    inplace=True,
)  # fmt: skip
def masked_fill(x, mask, value):
    """`x` with one value where the mask is true."""
    _masked("masked_fill", mask)
    if isinstance(value, Tensor):
        if value.ndim:
            raise ValueError(
                f"masked_fill: the value is {describe(value)}; it must be a number or a 0-d tensor."
            )
        return where(mask, value if value.dtype is x.dtype else to_dtype(value, dtype=x.dtype), x)
    return where(mask, full((), value, x.dtype), x)


@composite(
    ref=lambda x, mask: np.broadcast_to(x, mask.shape)[mask],
    samples=lambda: (
        Sample((Array((3, 4)), _MASK)),
        Sample((Array((4,)), _MASK)),
        Sample((Array(()), np.array(True))),
    ),
    failures=lambda: (
        Failure((Array((2,)), Array((2,))), {}, TypeError, "masked_select: the mask is float64[2]"),
    ),
    dynamic=True,
)
def masked_select(x, mask):
    """The elements where the mask is true, as a vector."""
    _masked("masked_select", mask)
    shape = broadcast_shapes("masked_select", [x.shape, mask.shape])
    chosen = nonzero(reshape(expand(mask, shape), (numel(shape),)))
    at = reshape(chosen, (1, chosen.shape[0]))
    return take_at(reshape(expand(x, shape), (numel(shape),)), at, dims=(0,), wrap=False)


def _masked_scatter_ref(x: np.ndarray, mask: np.ndarray, source: np.ndarray) -> np.ndarray:
    mask = np.broadcast_to(mask, x.shape)
    out = x.copy()
    out[mask] = source.reshape(-1)[: int(mask.sum())]
    return out


@composite(
    ref=_masked_scatter_ref,
    samples=lambda: (
        Sample((Array((3, 4)), _MASK, Array((12,)))),
        Sample((Array((3, 4)), Array((4,), dtype=bool_), Array((3, 5)))),
    ),
    failures=lambda: (
        Failure(
            (Array((3,)), np.array([True, True, False]), Array((1,))), {}, IndexError,
            "index 1 is out of range for dim 0 with size 1.",
        ),
        Failure(
            (Array((2,)), Array((2,), dtype=bool_), np.zeros(2, np.int64)), {}, TypeError,
            "masked_scatter: int64[2] and float64[2] must have the same dtype.",
        ),
    ),
    inplace=True,
)  # fmt: skip
def masked_scatter(x, mask, source):
    """`x` with the elements where the mask is true replaced by those of the source, in order."""
    _masked("masked_scatter", mask)
    if source.dtype is not x.dtype:
        raise TypeError(
            f"masked_scatter: {describe(source)} and {describe(x)} must have the same dtype."
        )
    shape = broadcast_shapes("masked_scatter", [x.shape, mask.shape])
    if not numel(shape):
        return expand(x, shape).clone()
    flat = reshape(expand(mask, shape), (numel(shape),))
    # The k-th chosen element is number k of the source; of the others the number is not used.
    numbers = where(flat, cumsum(flat.long(), 0) - 1, 0)
    if not source.numel():
        source = full((1,), 0, x.dtype)  # enough for a mask that holds nowhere
    taken = take_at(reshape(source, (-1,)), reshape(numbers, (1, -1)), dims=(0,), wrap=False)
    return where(mask, reshape(taken, shape), x)
