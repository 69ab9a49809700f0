"""Attention: values averaged by how well their keys match a query."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from contraflow.dtypes import bool_
from contraflow.errors import describe
from contraflow.kinds import composite
from contraflow.ops.create import arange
from contraflow.ops.elementwise import where
from contraflow.ops.norm import masked_softmax, np_softmax, softmax
from contraflow.ops.random import dropout
from contraflow.ops.reduce import require_floating
from contraflow.ops.view import expand, reshape
from contraflow.samples import Array, Failure, Sample
from contraflow.tensor import Tensor


def _np_attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    if enable_gqa:
        key, value = (np.repeat(x, query.shape[-3] // x.shape[-3], -3) for x in (key, value))
    scores = query @ np.swapaxes(key, -1, -2)
    scores = scores * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=np.bool_), scores, -np.inf)
    if attn_mask is not None:
        masks = attn_mask.dtype == bool
        scores = np.where(attn_mask, scores, -np.inf) if masks else scores + attn_mask
    return np_softmax(scores, -1) @ value


def _heads(x: Tensor, query: Tensor) -> Tensor:
    """Every head of keys or values repeated for the group of query heads that share it."""
    *lead, heads, n, width = x.shape
    share, rest = divmod(query.shape[-3], heads)
    if rest:
        raise ValueError(
            f"scaled_dot_product_attention: the {query.shape[-3]} heads of {describe(query)} are "
            f"no multiple of the {heads} heads of {describe(x)}."
        )
    if share == 1:
        return x
    copies = expand(reshape(x, (*lead, heads, 1, n, width)), (*lead, heads, share, n, width))
    return reshape(copies, (*lead, heads * share, n, width))


_QKV = Array((2, 3, 4)), Array((2, 5, 4)), Array((2, 5, 3))


@composite(
    ref=_np_attention,
    samples=lambda: (
        Sample((*_QKV, None), {}),
        Sample((*_QKV, Array((3, 5))), {"scale": 0.3}),
        Sample((*_QKV, np.array([[True, False, True, True, False]] * 3)), {}),
        Sample((Array((2, 4, 2, 3)), Array((2, 2, 2, 3)), Array((2, 2, 2, 3)), None),
               {"is_causal": True, "enable_gqa": True}),
    ),
    failures=lambda: (
        Failure((*_QKV, Array((3, 5))), {"is_causal": True}, ValueError,
                "scaled_dot_product_attention: attn_mask and is_causal=True exclude each other."),
        Failure((Array((3, 4)), Array((5, 3)), Array((5, 3)), None), {}, ValueError,
                "scaled_dot_product_attention: query float64[3, 4], key float64[5, 3] and value"),
    ),
    method=False,
    autocast="low",
    floating=True,
)  # fmt: skip
def scaled_dot_product_attention(
    query, key, value, attn_mask=None, *, dropout_p=0.0, is_causal=False, scale=None,
    enable_gqa=False,
):  # fmt: skip
    """softmax(query @ key.mT * scale + mask) @ value, over any leading dims.

    Queries [..., l, e], keys [..., s, e] and values [..., s, v] give [..., l, v]. A boolean mask
    says which keys may be seen; a row that sees none gives zeros. `scale` is 1 / sqrt(e).
    """
    require_floating("scaled_dot_product_attention", query)
    fit = min(query.ndim, key.ndim, value.ndim) > 1 and query.shape[-1] == key.shape[-1]
    if not fit or key.shape[-2] != value.shape[-2]:
        raise ValueError(
            f"scaled_dot_product_attention: query {describe(query)}, key {describe(key)} and value "
            f"{describe(value)} must be [..., l, e], [..., s, e] and [..., s, v]."
        )
    if enable_gqa:
        key, value = _heads(key, query), _heads(value, query)
    if scale is None:
        scale = 1.0 / math.sqrt(query.shape[-1])
    scores = (query * scale) @ key.mT
    if is_causal:
        if attn_mask is not None:
            raise ValueError(
                "scaled_dot_product_attention: attn_mask and is_causal=True exclude each other."
            )
        rows, columns = scores.shape[-2:]
        scores = where(reshape(arange(rows), (rows, 1)) >= arange(columns), scores, -math.inf)
    if attn_mask is None:
        weights = softmax(scores, dim=-1)
    else:
        masks = attn_mask.dtype is bool_
        scores = where(attn_mask, scores, -math.inf) if masks else scores + attn_mask
        weights = masked_softmax(scores.to(query.dtype), dim=-1)
    return dropout(weights, dropout_p) @ value
