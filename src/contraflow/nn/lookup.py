"""Embeddings as functions: rows of a table, looked up by index, one by one or in bags."""

from __future__ import annotations

import math

from contraflow.autograd.modes import no_grad
from contraflow.dtypes import bool_
from contraflow.errors import describe
from contraflow.operation.public import public
from contraflow.ops.creation.create import arange, full, ones, zeros
from contraflow.ops.elementwise.arithmetic import clamp_min
from contraflow.ops.elementwise.basic import where
from contraflow.ops.index.gather import embedding as _embedding
from contraflow.ops.index.gather import gather, segment_sum
from contraflow.ops.index.scatter import scatter_reduce
from contraflow.ops.index.search import searchsorted
from contraflow.ops.linalg.norms import vector_norm
from contraflow.ops.reduction.reduce import max_, sum_
from contraflow.ops.shape.joining import cat
from contraflow.ops.shape.view import expand
from contraflow.tensors.tensor import Tensor


@public
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of a table: indices [...] and a table [rows, width] give [..., width].

    The row `padding_idx` gets no gradient. Rows longer than `max_norm` that are looked up are
    shortened to it, in place. With `scale_grad_by_freq` a row's gradient is divided by how often
    it was looked up.

    >>> import contraflow as cf
    >>> cf.nn.functional.embedding(cf.tensor([0, 2]), cf.eye(3))
    tensor([[1., 0., 0.],
            [0., 0., 1.]])
    """
    if sparse:
        raise NotImplementedError("embedding: sparse gradients are not supported.")
    if max_norm is not None:
        with no_grad():
            uses = _uses(input, weight)
            long = vector_norm(weight, norm_type, 1, True)
            short = where((uses > 0) & (long > max_norm), max_norm / (long + 1e-7), 1.0)
            weight.copy_(weight * short)
    rows: Tensor = _embedding(weight, input, padding_idx=padding_idx)
    if scale_grad_by_freq:
        shared = rows / _embedding(_uses(input, weight), input)
        rows = rows.detach() + (shared - shared.detach())
    return rows


@public
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Sums, means or maxima of rows of a table: a bag per row of indices [bags, n].

    Indices [n] are cut into bags by `offsets`, where each starts; a bag of nothing is zeros. Rows
    `padding_idx` are left out.

    >>> import contraflow as cf
    >>> cf.nn.functional.embedding_bag(cf.tensor([[0, 2]]), cf.eye(3))
    tensor([[0.5000, 0.0000, 0.5000]])
    """
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"embedding_bag: mode is {mode!r}; it must be 'sum', 'mean' or 'max'.")
    if (offsets is None) != (input.ndim == 2) or input.ndim not in (1, 2):
        raise ValueError(
            f"embedding_bag: {describe(input)} must be [bags, n] without offsets, or [n] with them."
        )
    if per_sample_weights is not None and (
        mode != "sum" or per_sample_weights.shape != input.shape
    ):
        raise ValueError(
            f"embedding_bag: per_sample_weights need mode 'sum' and the shape of {describe(input)}."
        )
    rows = embedding(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[..., None]
    inside = ones(*input.shape, dtype=bool_)
    if padding_idx is not None:
        inside = input != padding_idx % weight.shape[0]
    if offsets is not None:
        starts = offsets[:-1] if include_last_offset else offsets
        return _cut_into_bags(rows, inside, starts, mode)
    kept = inside[..., None]
    count = sum_(kept, dim=1)
    if mode == "max":
        if 0 in inside.shape:
            return zeros(inside.shape[0], weight.shape[1], dtype=weight.dtype)
        largest, _ = max_(where(kept, rows, -math.inf), 1)
        return where(count > 0, largest, 0.0)  # type: ignore[no-any-return]
    total: Tensor = sum_(where(kept, rows, 0.0), dim=1)
    return total / clamp_min(count, 1) if mode == "mean" else total


def _cut_into_bags(rows: Tensor, inside: Tensor, starts: Tensor, mode: str) -> Tensor:
    """Rows [n, width] folded into the bags that begin at `starts`; some rows are in none."""
    bags, (n, width) = starts.shape[0], rows.shape
    at = arange(n)
    # Of several bags that begin at one row all but the last are empty.
    bag = searchsorted(starts, at.to(starts.dtype), right=True).long() - 1
    bag = where(inside & (bag >= 0), bag, bags)  # what is in none has a bag of its own, the last
    if mode == "max":
        spread = expand(bag[:, None], (n, width))
        lowest = full((bags + 1, width), -math.inf, rows.dtype)
        largest = scatter_reduce(lowest, 0, spread, rows.detach(), "amax")
        # Of equal rows the first has the gradient.
        chosen = (rows == gather(largest, 0, spread)) | rows.isnan()
        candidates = where(chosen, at[:, None], n)
        first = scatter_reduce(full((bags + 1, width), n), 0, spread, candidates, "amin")[:bags]
        padded = cat([rows, zeros(1, width, dtype=rows.dtype)], 0)  # an empty bag is zeros
        best: Tensor = gather(padded, 0, first)
        return best
    total: Tensor = segment_sum(rows, bag, size=bags + 1)[:bags]
    if mode == "mean":
        count = segment_sum(ones(n, 1, dtype=rows.dtype), bag, size=bags + 1)[:bags]
        total = total / clamp_min(count, 1)
    return total


def _uses(input: Tensor, weight: Tensor) -> Tensor:
    """How often each row of a table is looked up: [rows, 1]."""
    each = ones(*input.shape, 1, dtype=weight.dtype)
    count: Tensor = segment_sum(each, input, size=weight.shape[0])
    return count
