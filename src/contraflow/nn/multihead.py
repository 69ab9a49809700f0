"""Multi-head attention as a function of its weights."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from contraflow.dtypes import DType, bool_
from contraflow.errors import describe
from contraflow.operation.public import public
from contraflow.ops.creation.create import zeros
from contraflow.ops.creation.random import dropout
from contraflow.ops.elementwise.basic import where
from contraflow.ops.linalg.products import linear
from contraflow.ops.nn.attention import scaled_dot_product_attention
from contraflow.ops.nn.norm import softmax
from contraflow.ops.reduction.reduce import mean
from contraflow.ops.shape.arrange import pad
from contraflow.ops.shape.joining import cat
from contraflow.ops.shape.parts import chunk
from contraflow.ops.shape.view import expand, reshape, transpose
from contraflow.tensors.tensor import Tensor


class Weights(NamedTuple):
    """The weights and biases of queries, keys, values and the result."""

    together: Tensor | None  # for all three, one below the other; else they have one each
    query: Tensor | None
    key: Tensor | None
    value: Tensor | None
    bias: Tensor | None  # for all three, one behind the other
    more_key: Tensor | None  # one more key and value for each sequence
    more_value: Tensor | None
    out: Tensor
    out_bias: Tensor | None

    @property
    def widths(self) -> tuple[int, ...]:
        """The widths of queries, keys and values."""
        if self.together is not None:
            return (self.together.shape[1],) * 3
        return tuple(w.shape[1] for w in (self.query, self.key, self.value) if w is not None)


class Masks(NamedTuple):
    """Which keys queries do not see."""

    attention: Tensor | None
    padding: Tensor | None
    is_causal: bool


def attend(
    caller: str, inputs: tuple[Tensor, Tensor, Tensor], weights: Weights, heads: int, masks: Masks,
    *, batch_first: bool, zero: bool, rate: float, need_weights: bool, average: bool,
    static: tuple[Tensor | None, Tensor | None] = (None, None),
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """The output, and how much each query attended to each key where that is asked for."""
    query, key, value = inputs
    _check(caller, inputs, weights.widths, batch_first)
    if masks.is_causal and masks.attention is None:
        raise ValueError(f"{caller}: is_causal only describes attn_mask; pass attn_mask too.")
    single = query.ndim == 2
    if single and masks.padding is not None:
        masks = masks._replace(padding=masks.padding[None])

    def batched(x: Tensor) -> Tensor:
        """[n, length, width], whatever came in."""
        if single:
            return x[None]
        return x if batch_first else transpose(x, 0, 1)

    # Self-attention is one product: what was one tensor stays one.
    first = batched(query)
    second = first if key is query else batched(key)
    q, k, v = _project(first, second, second if value is key else batched(value), weights)
    batch, length, width = q.shape
    if weights.more_key is not None and weights.more_value is not None:
        row = batch, 1, width
        k, v = (
            cat([k, expand(weights.more_key, row)], 1),
            cat([v, expand(weights.more_value, row)], 1),
        )
    q = _parted(q, heads)
    k, v = (
        _parted(x, heads) if given is None else _given(caller, given, batch, heads, width)
        for x, given in zip((k, v), static)
    )
    if zero:
        k, v = pad(k, (0, 0, 0, 1)), pad(v, (0, 0, 0, 1))
    extra = (weights.more_key is not None) + zero  # keys that are always seen
    mask = _mask(caller, masks, (batch, heads, length, k.shape[-2] - extra), extra, q.dtype)
    attended: Tensor | None = None
    if need_weights:
        scores = (q * (1 / math.sqrt(width // heads))) @ k.mT
        attended = softmax(scores if mask is None else scores + mask, -1)
        attended = dropout(attended, rate, True)
        out = attended @ v
        attended = mean(attended, dim=1) if average else attended
    else:
        out = scaled_dot_product_attention(q, k, v, mask, rate)
    out = reshape(transpose(out, 1, 2), (batch, length, width))
    out = linear(out, weights.out, weights.out_bias)
    if single:
        return out[0], None if attended is None else attended[0]
    return (out if batch_first else transpose(out, 0, 1)), attended


def _check(
    caller: str, inputs: tuple[Tensor, Tensor, Tensor], widths: tuple[int, ...], batch_first: bool
) -> None:
    query, key, value = inputs
    n = 0 if batch_first else 1  # where the batch is
    fit = query.ndim == key.ndim == value.ndim and query.ndim in (2, 3)
    fit = fit and (query.ndim == 2 or query.shape[n] == key.shape[n] == value.shape[n])
    fit = fit and key.shape[:-1] == value.shape[:-1]
    if not fit or tuple(x.shape[-1] for x in inputs) != widths:
        lead = ("n, l", "n, s") if batch_first else ("l, n", "s, n")
        raise ValueError(
            f"{caller}: query {describe(query)}, key {describe(key)} and value "
            f"{describe(value)} must be [{lead[0]}, {widths[0]}], [{lead[1]}, {widths[1]}] and "
            f"[{lead[1]}, {widths[2]}]; without a batch, no n."
        )


def _project(query: Tensor, key: Tensor, value: Tensor, weights: Weights) -> Any:
    weight, bias = weights.together, weights.bias
    if weight is not None and query is key is value:
        return chunk(linear(query, weight, bias), 3, -1)
    own = weights[1:4] if weight is None else chunk(weight, 3, 0)
    biases = (None,) * 3 if bias is None else chunk(bias, 3, 0)
    return tuple(map(linear, (query, key, value), own, biases))


def _parted(x: Tensor, heads: int) -> Tensor:
    """[n, length, e] to [n, heads, length, e / heads]."""
    batch, length, width = x.shape
    out: Tensor = transpose(reshape(x, (batch, length, heads, width // heads)), 1, 2)
    return out


def _given(caller: str, x: Tensor, batch: int, heads: int, width: int) -> Tensor:
    """Keys or values that are not computed: [n * heads, s, e / heads] with the heads apart."""
    if x.ndim != 3 or (x.shape[0], x.shape[2]) != (batch * heads, width // heads):
        raise ValueError(
            f"{caller}: static_k and static_v must be [{batch * heads}, s, {width // heads}], "
            f"got {describe(x)}."
        )
    out: Tensor = reshape(x, (batch, heads, *x.shape[1:]))
    return out


def _mask(
    caller: str, masks: Masks, sizes: tuple[int, int, int, int], extra: int, dtype: DType
) -> Tensor | None:
    """Both masks as one that is added to the scores [n, heads, l, s + extra]."""
    batch, heads, length, seen = sizes
    parts = []
    if masks.attention is not None:
        shapes = (length, seen), (batch * heads, length, seen)
        if masks.attention.shape not in shapes:
            raise ValueError(
                f"{caller}: attn_mask {describe(masks.attention)} must be {[*shapes[0]]} "
                f"or {[*shapes[1]]}."
            )
        mask = _added(masks.attention, dtype)
        parts.append(reshape(mask, sizes) if mask.ndim == 3 else mask)
    if masks.padding is not None:
        if masks.padding.shape != (batch, seen):
            raise ValueError(
                f"{caller}: key_padding_mask {describe(masks.padding)} must be "
                f"{[batch, seen]}: one entry for each key."
            )
        parts.append(_added(masks.padding, dtype)[:, None, None])
    if not parts:
        return None
    both = parts[0] if len(parts) == 1 else parts[0] + parts[1]
    out: Tensor = pad(both, (0, extra)) if extra else both
    return out


def _added(mask: Tensor, dtype: DType) -> Tensor:
    """A mask as numbers that are added to scores: -inf where a boolean one is True."""
    if mask.dtype is not bool_:
        return mask
    out: Tensor = where(mask, zeros((), dtype=dtype, device=mask.device) - math.inf, 0.0)
    return out


@public
def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Multi-head attention: queries [l, n, e], keys and values [s, n, ...]; see MultiheadAttention.

    The weights of queries, keys and values are one below the other in `in_proj_weight`, or three
    with `use_separate_proj_weight`. `static_k` and `static_v` are used in place of what would be
    computed, [n * num_heads, s, e / num_heads].

    >>> import contraflow as cf
    >>> x, eye = cf.ones(5, 2, 4), cf.eye(4)
    >>> out, weights = cf.nn.functional.multi_head_attention_forward(
    ...     x, x, x, 4, 2, cf.cat([eye, eye, eye]), None, None, None, False, 0.0, eye, None
    ... )
    >>> out.shape, weights.shape
    ((5, 2, 4), (2, 5, 5))
    """
    name = "multi_head_attention_forward"
    separate = (q_proj_weight, k_proj_weight, v_proj_weight)
    needed = separate if use_separate_proj_weight else (in_proj_weight,)
    if any(w is None for w in needed):
        wanted = "q_proj_weight, k_proj_weight and v_proj_weight"
        raise ValueError(
            f"{name}: use_separate_proj_weight is {use_separate_proj_weight}, so it needs "
            f"{wanted if use_separate_proj_weight else 'in_proj_weight'}."
        )
    if query.shape[-1] != embed_dim_to_check or embed_dim_to_check % num_heads:
        raise ValueError(
            f"{name}: query {describe(query)} must have the width {embed_dim_to_check}, which "
            f"must divide into {num_heads} heads."
        )
    static = static_k, static_v
    if (bias_k is None) != (bias_v is None) or (bias_k is not None and static != (None, None)):
        raise ValueError(
            f"{name}: bias_k and bias_v must be given together, and not with static_k or static_v."
        )
    weights = Weights(
        None if use_separate_proj_weight else in_proj_weight, *separate, in_proj_bias,
        bias_k, bias_v, out_proj_weight, out_proj_bias,
    )  # fmt: skip
    return attend(
        name, (query, key, value), weights, num_heads,
        Masks(attn_mask, key_padding_mask, is_causal), batch_first=False, zero=add_zero_attn,
        rate=dropout_p if training else 0.0, need_weights=need_weights,
        average=average_attn_weights, static=static,
    )  # fmt: skip
