"""Attention: values averaged by how well their keys match a query.

Without dropout it is one node of the graph that keeps its weights: forward and backward are a
program each. With dropout the parts are nodes, since the weights that were dropped are drawn anew
whenever they are asked for.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from contraflow.dtypes import bool_
from contraflow.errors import describe
from contraflow.operation.kinds import composite
from contraflow.operation.samples import Array, Failure, Sample
from contraflow.ops.creation.create import arange
from contraflow.ops.creation.random import dropout
from contraflow.ops.elementwise.basic import where
from contraflow.ops.nn.norm import masked_softmax, np_softmax, softmax
from contraflow.ops.reduction.reduce import require_floating, sum_
from contraflow.ops.shape.view import expand, reshape
from contraflow.tensors.tensor import Tensor


def _np_attend(query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: float) -> Any:
    scores = query @ np.swapaxes(key, -1, -2) * scale
    if is_causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=np.bool_), scores, -np.inf)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    return np_softmax(scores, -1) @ value


def _np_attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    if enable_gqa:
        key, value = (np.repeat(x, query.shape[-3] // x.shape[-3], -3) for x in (key, value))
    if scale is None:
        scale = 1 / math.sqrt(query.shape[-1])
    return _np_attend(query, key, value, attn_mask, is_causal, scale)


def _heads(x: Tensor, query: Tensor) -> Tensor:
    """Every head of keys or values repeated for the group of query heads that share it."""
    *lead, heads, n, width = x.shape
    share, rest = divmod(query.shape[-3], heads)
    if rest:
        raise ValueError(
            f"scaled_dot_product_attention: the {query.shape[-3]} heads of {describe(query)} are "
            f"not a multiple of the {heads} heads of {describe(x)}."
        )
    if share == 1:
        return x
    copies = expand(reshape(x, (*lead, heads, 1, n, width)), (*lead, heads, share, n, width))
    return reshape(copies, (*lead, heads * share, n, width))


_QKV = Array((2, 3, 4)), Array((2, 5, 4)), Array((2, 5, 3))


def _weights(query: Tensor, key: Tensor, mask: Any, is_causal: bool, scale: float) -> Tensor:
    """How much every query takes of the value of every key."""
    scores = (query * scale) @ key.mT
    if is_causal:
        rows, columns = scores.shape[-2:]
        scores = where(reshape(arange(rows), (rows, 1)) >= arange(columns), scores, -math.inf)
    if mask is None:
        return softmax(scores, dim=-1)
    scores = where(mask, scores, -math.inf) if mask.dtype is bool_ else scores + mask
    return masked_softmax(scores.to(query.dtype), dim=-1)


def _of_scores(g: Tensor, value: Tensor, weights: Tensor) -> Tensor:
    """The gradient of the scores; one that is masked has no weight, and so no gradient."""
    g_weights = g @ value.mT
    return weights * (g_weights - sum_(g_weights * weights, dim=-1, keepdim=True))


@composite(
    ref=_np_attend,
    residuals=("weights",),
    vjp={
        "query": lambda g, key, value, weights, scale: (
            _of_scores(g, value, weights) * scale @ key),
        "key": lambda g, query, value, weights, scale: (
            (_of_scores(g, value, weights) * scale).mT @ query),
        "value": lambda g, weights: weights.mT @ g,
        "mask": lambda g, value, weights: _of_scores(g, value, weights),
    },
    samples=lambda: (
        Sample((*_QKV, None), {"is_causal": True, "scale": 0.5}),
        Sample((*_QKV, Array((3, 5))), {"is_causal": False, "scale": 0.3}),
        Sample((*_QKV, np.eye(3, 5) == 1), {"is_causal": False, "scale": 0.5}),
    ),
    method=False,
    internal=True,
    floating=True,
)  # fmt: skip
def attend(query, key, value, mask=None, *, is_causal, scale):
    """Values averaged with weights softmax(query @ key.mT * scale + mask)."""
    require_floating("attend", query)
    weights = _weights(query, key, mask, is_causal, scale)
    return weights @ value, weights


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
    by_parts=True,
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
    if is_causal and attn_mask is not None:
        raise ValueError(
            "scaled_dot_product_attention: attn_mask and is_causal=True exclude each other."
        )
    if scale is None:
        scale = 1.0 / math.sqrt(query.shape[-1])
    if dropout_p == 0:
        return attend(query, key, value, attn_mask, is_causal=is_causal, scale=scale)
    weights = _weights(query, key, attn_mask, is_causal, scale)
    return dropout(weights, dropout_p) @ value
