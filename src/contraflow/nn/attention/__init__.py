"""Multi-head attention, and PyTorch's choice among kernels for it, which has no effect."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from contraflow.devices.names import Device
from contraflow.dtypes import DType
from contraflow.names import getter
from contraflow.nn import init
from contraflow.nn.layers import Linear
from contraflow.nn.module import Module
from contraflow.nn.multihead import Masks, Weights, attend
from contraflow.nn.parameter import Parameter
from contraflow.ops.creation.create import zeros
from contraflow.tensors.tensor import Tensor

_Optional = Parameter | None


class SDPBackend(enum.IntEnum):
    """PyTorch's kernels for attention. The compiler makes its own.

    >>> import contraflow as cf
    >>> with cf.nn.attention.sdpa_kernel(SDPBackend.MATH):
    ...     y = cf.nn.functional.scaled_dot_product_attention(*[cf.ones(1, 2, 4)] * 3)
    >>> y.shape
    (1, 2, 4)
    """

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(
    backends: SDPBackend | Sequence[SDPBackend], set_priority: bool = False
) -> Iterator[None]:
    """A block with other kernels for attention. It has no effect.

    >>> with sdpa_kernel(SDPBackend.MATH):
    ...     pass
    """
    chosen = [backends] if isinstance(backends, SDPBackend) else backends
    for backend in chosen:
        if not isinstance(backend, SDPBackend):
            raise TypeError(f"sdpa_kernel: {backend!r} is not an SDPBackend.")
    yield


class MultiheadAttention(Module):
    """Multi-head attention: queries [l, n, e], keys and values [s, n, ...].

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

    def _projections(self) -> tuple[_Optional, _Optional, _Optional, _Optional]:
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
        weights = Weights(
            *self._projections(), self.in_proj_bias, self.bias_k, self.bias_v,
            self.out_proj.weight, self.out_proj.bias,
        )  # fmt: skip
        return attend(
            "MultiheadAttention", (query, key, value), weights, self.num_heads,
            Masks(attn_mask, key_padding_mask, is_causal), batch_first=self.batch_first,
            zero=self.add_zero_attn, rate=self.dropout if self.training else 0.0,
            need_weights=need_weights, average=average_attn_weights,
        )  # fmt: skip


globals()["__getattr__"] = getter(__name__, "flex_attention")
