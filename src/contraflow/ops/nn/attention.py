"""Attention: values averaged by how well their keys match a query.

Without dropout it is one node of the graph: forward and backward are a program each. On a device
that has a kernel for attention of these sizes (`Limits`), and without a mask, no weights are
stored: a forward kernel keeps the logarithm of their sum for each query (`attention`), and kernels
of backward compute them again (`attention_gradients`). Elsewhere the node keeps its weights
(`attend`). With dropout the parts are nodes, since the weights that were dropped are drawn anew
whenever they are asked for.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from contraflow import devices
from contraflow.dtypes import bool_
from contraflow.errors import describe
from contraflow.operation.kinds import attending, composite
from contraflow.operation.samples import Array, Failure, Sample
from contraflow.ops.creation.create import arange
from contraflow.ops.creation.random import dropout
from contraflow.ops.elementwise.basic import exp, where
from contraflow.ops.nn.norm import masked_softmax, np_softmax, softmax
from contraflow.ops.reduction.reduce import logsumexp, require_floating, sum_
from contraflow.ops.shape.view import expand, reshape
from contraflow.shapes import broadcast_shapes
from contraflow.tensors.tensor import Tensor


def _np_scores(query: Any, key: Any, is_causal: bool, scale: float) -> Any:
    scores = query @ np.swapaxes(key, -1, -2) * scale
    return (
        np.where(np.tri(*scores.shape[-2:], dtype=np.bool_), scores, -np.inf)
        if is_causal
        else scores
    )


def _np_attend(query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: float) -> Any:
    scores = _np_scores(query, key, is_causal, scale)
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


def _scores(query: Tensor, key: Tensor, is_causal: bool, scale: float) -> Tensor:
    """How well every query matches every key, -inf where it does not see it."""
    scores = (query * scale) @ key.mT
    if not is_causal:
        return scores
    rows, columns = scores.shape[-2:]
    return where(reshape(arange(rows), (rows, 1)) >= arange(columns), scores, -math.inf)


def _weights(query: Tensor, key: Tensor, mask: Any, is_causal: bool, scale: float) -> Tensor:
    """How much every query takes of the value of every key."""
    scores = _scores(query, key, is_causal, scale)
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


def _np_kernel(query: Any, key: Any, value: Any, is_causal: bool, scale: float) -> Any:
    scores = _np_scores(query, key, is_causal, scale)
    peak = scores.max(-1, keepdims=True, initial=-np.inf)
    lse = peak + np.log(np.exp(scores - peak).sum(-1, keepdims=True))
    return np.exp(scores - lse) @ value, lse[..., 0]


def _np_gradients(
    query: Any, key: Any, value: Any, g: Any, lse: Any, delta: Any, is_causal: bool, scale: float
) -> Any:
    weights = np.exp(_np_scores(query, key, is_causal, scale) - lse[..., None])
    change = weights * (g @ np.swapaxes(value, -1, -2) - delta[..., None]) * scale
    turned = np.swapaxes(change, -1, -2)
    return change @ key, turned @ query, np.swapaxes(weights, -1, -2) @ g


def _exact(x: Tensor) -> Tensor:
    """A tensor in the dtype that kernels compute it in."""
    return x.to(x.dtype.compute)


def _types(inputs: Any, params: Any) -> Any:
    """Averages as the queries are, logarithms as they are computed."""
    require_floating("attention", inputs[0])
    dtype = inputs[0].dtype
    return (None,) * len(inputs), (dtype, dtype.compute)


def _gradient_types(inputs: Any, params: Any) -> Any:
    """Gradients as the queries are."""
    require_floating("attention_gradients", inputs[0])
    return (None,) * len(inputs), (inputs[0].dtype,) * 3


def _differentiate(g_out: Any, g_lse: Any, query: Tensor, key: Tensor, value: Tensor, out: Tensor,
                   lse: Tensor, is_causal: bool, scale: float) -> Any:  # fmt: skip
    """The gradients of queries, keys and values. The cotangent of `lse` is one of all scores."""
    g = out * 0 if g_out is None else g_out
    delta = sum_(_exact(g) * _exact(out), dim=-1)
    if g_lse is not None:
        delta = delta - g_lse
    return attention_gradients(query, key, value, g, lse, delta, is_causal=is_causal, scale=scale)


@attending(
    ref=_np_kernel,
    shape=lambda query, key, value, is_causal, scale: (
        (*query.shape[:-1], value.shape[-1]), query.shape[:-1]),
    parts={"out": ("out", "lse")},
    outs=("out", "lse"),
    dtype=_types,
    vjp={"query, key, value": _differentiate},
    samples=lambda: (
        Sample(_QKV, {"is_causal": True, "scale": 0.5}),
        Sample(_QKV, {"is_causal": False, "scale": 0.3}),
        Sample((Array((70, 3), -1, 1), Array((40, 3), -1, 1), Array((40, 2), -1, 1)),
               {"is_causal": True, "scale": 0.3}),
    ),
    method=False,
    internal=True,
    floating=True,
    leading=True,
)  # fmt: skip
def attention(query, key, value, *, is_causal, scale):
    """Values [..., s, v] averaged with weights softmax(query @ key.mT * scale) as [..., l, v], and
    the logarithm of each query's sum of exp(score). Inputs have the same leading dims and dtype.
    """
    require_floating("attention", query)
    scores = _scores(_exact(query), _exact(key), is_causal, scale)
    lse = logsumexp(scores, dim=-1)
    out = exp(scores - lse.unsqueeze(-1)) @ _exact(value)
    return out.to(value.dtype), lse


def _differentiate_twice(
    g_g_query: Any, g_g_key: Any, g_g_value: Any, query: Tensor, key: Tensor, value: Tensor,
    g: Tensor, lse: Tensor, delta: Tensor, is_causal: bool, scale: float,
) -> Any:  # fmt: skip
    """The gradients of the six inputs, from cotangents a, b and c of the gradients of queries, keys
    and values. With the weights W, E = g value' - delta and D = W * E, those are
    scale * D key, scale * D' query and W' g."""
    query, key, value, g = map(_exact, (query, key, value, g))
    a = query * 0 if g_g_query is None else g_g_query
    b = key * 0 if g_g_key is None else g_g_key
    c = value * 0 if g_g_value is None else g_g_value
    weights = exp(_scores(query, key, is_causal, scale) - lse.unsqueeze(-1))
    pull = g @ value.mT - delta.unsqueeze(-1)
    of_scores = weights * pull * scale
    of_product = (a @ key.mT + query @ b.mT) * scale  # the cotangent of D
    of_pull = of_product * weights
    through = (of_product * pull + g @ c.mT) * weights  # the cotangent of the scaled scores
    return (
        scale * (through @ key) + of_scores @ b,
        scale * (through.mT @ query) + of_scores.mT @ a,
        of_pull.mT @ g,
        of_pull @ value + weights @ c,
        -sum_(through, dim=-1),
        -sum_(of_pull, dim=-1),
    )


@attending(
    ref=_np_gradients,
    shape=lambda query, key, value, g, lse, delta, is_causal, scale: (
        query.shape, key.shape, value.shape),
    parts={"query": ("g_query",), "key": ("g_key", "g_value")},
    outs=("g_query", "g_key", "g_value"),
    dtype=_gradient_types,
    vjp={"query, key, value, g, lse, delta": _differentiate_twice},
    samples=lambda: (
        Sample((*_QKV, Array((2, 3, 3), -1, 1), Array((2, 3), 1, 2), Array((2, 3), -1, 1)),
               {"is_causal": True, "scale": 0.3}),
        Sample((*_QKV, Array((2, 3, 3), -1, 1), Array((2, 3), 1, 2), Array((2, 3), -1, 1)),
               {"is_causal": False, "scale": 0.2}),
        Sample((Array((70, 3), -1, 1), Array((40, 3), -1, 1), Array((40, 2), -1, 1),
                Array((70, 2), -1, 1), Array((70,), 3, 4), Array((70,), -1, 1)),
               {"is_causal": True, "scale": 0.3}),
    ),
    method=False,
    internal=True,
    floating=True,
    leading=True,
)  # fmt: skip
def attention_gradients(query, key, value, g, lse, delta, *, is_causal, scale):
    """The gradients of query, key and value for the weights W = exp(query @ key.mT * scale - lse)
    and the cotangent W * (g @ value.mT - delta) of the scores. `g` is like the averages, `lse` and
    `delta` are [..., l]: the logarithms of `attention`, and sums of g times its averages.
    """
    dtype = query.dtype
    query, key, value, g = map(_exact, (query, key, value, g))
    weights = exp(_scores(query, key, is_causal, scale) - lse.unsqueeze(-1))
    change = weights * (g @ value.mT - delta.unsqueeze(-1)) * scale
    found = change @ key, change.mT @ query, weights.mT @ g
    return tuple(x.to(dtype) for x in found)


def _has_kernel(query: Tensor, key: Tensor, value: Tensor, is_causal: bool) -> bool:
    """Whether the device in use computes attention without storing weights, for these tensors."""
    limits = devices.lookup(devices.current()).limits
    if "attention" not in limits.kernels or not query.dtype is key.dtype is value.dtype:
        return False
    rows, widths = (query.shape[-2], key.shape[-2]), (query.shape[-1], value.shape[-1])
    causal, full = limits.attention_rows
    if key.shape[-2] == 0 or min(rows) < (causal if is_causal else full):
        return False
    return min(widths) > 0 and max(widths) <= limits.attention_columns


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
    if dropout_p == 0 and attn_mask is None and _has_kernel(query, key, value, is_causal):
        lead = broadcast_shapes(
            "scaled_dot_product_attention", [x.shape[:-2] for x in (query, key, value)]
        )
        query, key, value = (
            x if x.shape[:-2] == lead else expand(x, (*lead, *x.shape[-2:]))
            for x in (query, key, value)
        )
        return attention(query, key, value, is_causal=is_causal, scale=scale)[0]
    if dropout_p == 0:
        return attend(query, key, value, attn_mask, is_causal=is_causal, scale=scale)
    weights = _weights(query, key, attn_mask, is_causal, scale)
    return dropout(weights, dropout_p) @ value
