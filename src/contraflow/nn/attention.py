"""Attention with several heads."""

from __future__ import annotations

import math
from typing import Any

from contraflow.device import Device
from contraflow.dtypes import DType, bool_
from contraflow.errors import describe
from contraflow.nn import functional as F
from contraflow.nn import init
from contraflow.nn.layers import Linear
from contraflow.nn.module import Module, Parameter
from contraflow.ops.create import zeros
from contraflow.ops.elementwise import where
from contraflow.ops.parts import chunk
from contraflow.ops.reduce import mean
from contraflow.ops.shape import cat
from contraflow.ops.view import expand, reshape, transpose
from contraflow.tensor import Tensor


class MultiheadAttention(Module):
    """Attention in several parts of the width: queries [l, n, e], keys and values [s, n, ...].

    Gives the output [l, n, e] and how much each query attended to each key, [n, l, s]. Where a
    boolean mask is True a key is not seen; a mask of numbers is added to the scores. Inputs without
    a batch have no dim n; with `batch_first` it comes first.

    >>> import contraflow as cf
    >>> x = cf.zeros(5, 2, 8)
    >>> out, weights = cf.nn.MultiheadAttention(8, num_heads=4)(x, x, x)
    >>> out.shape, weights.shape
    ((5, 2, 8), (2, 5, 5))
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        if embed_dim < 1 or num_heads < 1 or embed_dim % num_heads:
            raise ValueError(
                f"MultiheadAttention: embed_dim {embed_dim} does not divide into {num_heads} heads."
            )
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.head_dim = embed_dim // num_heads
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.dropout, self.batch_first, self.add_zero_attn = dropout, batch_first, add_zero_attn

        def made(*shape: int) -> Parameter:
            return Parameter(zeros(shape, device=device, dtype=dtype))

        together = self.kdim == self.vdim == embed_dim
        self.in_proj_weight = made(3 * embed_dim, embed_dim) if together else None
        self.q_proj_weight = None if together else made(embed_dim, embed_dim)
        self.k_proj_weight = None if together else made(embed_dim, self.kdim)
        self.v_proj_weight = None if together else made(embed_dim, self.vdim)
        self.in_proj_bias = made(3 * embed_dim) if bias else None
        self.bias_k = made(1, 1, embed_dim) if add_bias_kv else None
        self.bias_v = made(1, 1, embed_dim) if add_bias_kv else None
        self.out_proj = Linear(embed_dim, embed_dim, bias, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the initial values anew."""
        for weight in self._projections():
            if weight is not None:
                init.xavier_uniform_(weight)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)
        for row in (self.bias_k, self.bias_v):
            if row is not None:
                init.xavier_normal_(row)

    def _projections(self) -> tuple[Parameter | None, ...]:
        return self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        self._check(query, key, value)
        if is_causal and attn_mask is None:
            raise ValueError(
                "MultiheadAttention: is_causal only says what attn_mask is; pass that too."
            )
        single = query.ndim == 2
        if single and key_padding_mask is not None:
            key_padding_mask = key_padding_mask[None]

        def batched(x: Tensor) -> Tensor:
            """[n, length, width], whatever came in."""
            if single:
                return x[None]
            return x if self.batch_first else transpose(x, 0, 1)

        # Self-attention is one product: what was one tensor stays one.
        first = batched(query)
        second = first if key is query else batched(key)
        q, k, v = self._project(first, second, second if value is key else batched(value))
        batch, length = q.shape[:2]
        if self.bias_k is not None and self.bias_v is not None:
            row = batch, 1, self.embed_dim
            k = cat([k, expand(self.bias_k, row)], 1)
            v = cat([v, expand(self.bias_v, row)], 1)
        q, k, v = (self._heads(x) for x in (q, k, v))
        if self.add_zero_attn:
            k, v = F.pad(k, (0, 0, 0, 1)), F.pad(v, (0, 0, 0, 1))
        mask = self._mask(attn_mask, key_padding_mask, (batch, length, k.shape[-2]), q.dtype)
        rate = self.dropout if self.training else 0.0
        weights: Tensor | None = None
        if need_weights:
            scores = (q * (1 / math.sqrt(self.head_dim))) @ k.mT
            weights = F.softmax(scores if mask is None else scores + mask, -1)
            weights = F.dropout(weights, rate)
            out = weights @ v
            weights = mean(weights, dim=1) if average_attn_weights else weights
        else:
            out = F.scaled_dot_product_attention(q, k, v, mask, rate)
        out = self.out_proj(reshape(transpose(out, 1, 2), (batch, length, self.embed_dim)))
        if single:
            return out[0], None if weights is None else weights[0]
        return (out if self.batch_first else transpose(out, 0, 1)), weights

    def _check(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        n = 0 if self.batch_first else 1  # where the batch is
        fit = query.ndim == key.ndim == value.ndim and query.ndim in (2, 3)
        fit = fit and (query.ndim == 2 or query.shape[n] == key.shape[n] == value.shape[n])
        widths = self.embed_dim, self.kdim, self.vdim
        if (
            not fit
            or key.shape[:-1] != value.shape[:-1]
            or ((query.shape[-1], key.shape[-1], value.shape[-1]) != widths)
        ):
            lead = ("n, l", "n, s") if self.batch_first else ("l, n", "s, n")
            raise ValueError(
                f"MultiheadAttention: query {describe(query)}, key {describe(key)} and value "
                f"{describe(value)} must be [{lead[0]}, {widths[0]}], [{lead[1]}, {widths[1]}] and "
                f"[{lead[1]}, {widths[2]}]; without a batch, no n."
            )

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> Any:
        weight, bias = self.in_proj_weight, self.in_proj_bias
        if weight is not None and query is key is value:
            return chunk(F.linear(query, weight, bias), 3, -1)
        weights = self._projections()[1:] if weight is None else chunk(weight, 3, 0)
        biases = (None,) * 3 if bias is None else chunk(bias, 3, 0)
        return tuple(map(F.linear, (query, key, value), weights, biases))

    def _heads(self, x: Tensor) -> Tensor:
        """[n, length, e] to [n, heads, length, e / heads]."""
        batch, length, _ = x.shape
        parted = reshape(x, (batch, length, self.num_heads, self.head_dim))
        out: Tensor = transpose(parted, 1, 2)
        return out

    def _mask(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None,
        sizes: tuple[int, int, int], dtype: DType,
    ) -> Tensor | None:  # fmt: skip
        """Both masks as one that is added to the scores [n, heads, l, s]."""
        batch, length, keys = sizes
        extra = (self.bias_k is not None) + self.add_zero_attn  # keys that are always seen
        seen = keys - extra
        parts = []
        if attn_mask is not None:
            shapes = (length, seen), (batch * self.num_heads, length, seen)
            if attn_mask.shape not in shapes:
                raise ValueError(
                    f"MultiheadAttention: attn_mask {describe(attn_mask)} must be {[*shapes[0]]} "
                    f"or {[*shapes[1]]}."
                )
            mask = _added(attn_mask, dtype)
            if mask.ndim == 3:
                mask = reshape(mask, (batch, self.num_heads, length, seen))
            parts.append(mask)
        if key_padding_mask is not None:
            if key_padding_mask.shape != (batch, seen):
                raise ValueError(
                    f"MultiheadAttention: key_padding_mask {describe(key_padding_mask)} must be "
                    f"{[batch, seen]}: one entry for each key."
                )
            parts.append(_added(key_padding_mask, dtype)[:, None, None])
        if not parts:
            return None
        both = parts[0] if len(parts) == 1 else parts[0] + parts[1]
        out: Tensor = F.pad(both, (0, extra)) if extra else both
        return out


def _added(mask: Tensor, dtype: DType) -> Tensor:
    """A mask as numbers that are added to scores: -inf where a boolean one is True."""
    if mask.dtype is not bool_:
        return mask
    out: Tensor = where(mask, zeros((), dtype=dtype) - math.inf, 0.0)
    return out
