"""Transformers: encoder and decoder layers, stacks of them, and both together."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from contraflow.devices.names import Device
from contraflow.dtypes import DType
from contraflow.nn import functional as F
from contraflow.nn import init
from contraflow.nn.attention import MultiheadAttention
from contraflow.nn.containers import ModuleList
from contraflow.nn.layers import Dropout, Linear
from contraflow.nn.module import Module
from contraflow.nn.norm import LayerNorm
from contraflow.ops.creation.create import full
from contraflow.ops.shape.diagonals import triu
from contraflow.tensors.tensor import Tensor

Activation = str | Callable[[Tensor], Tensor]


class _Layer(Module):
    """The base of encoder and decoder layers: attention, two products, and norms around them.

    A block is added to what it was given; the norm comes after that, or before the block.
    """

    norms: int

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()

        def attention() -> MultiheadAttention:
            return MultiheadAttention(
                d_model, nhead, dropout, bias, batch_first=batch_first, device=device, dtype=dtype
            )

        self.self_attn = attention()
        if self.norms == 3:
            self.multihead_attn = attention()
        self.linear1 = Linear(d_model, dim_feedforward, bias, device, dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, device, dtype)
        self.norm_first = norm_first
        numbers = range(1, self.norms + 1)
        for i in numbers:
            norm = LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)
            self.add_module(f"norm{i}", norm)
        for i in numbers:
            self.add_module(f"dropout{i}", Dropout(dropout))
        self.activation = _activation(type(self).__name__, activation)

    def _block(self, x: Tensor, number: int, block: Callable[[Tensor], Tensor]) -> Tensor:
        norm, drop = getattr(self, f"norm{number}"), getattr(self, f"dropout{number}")
        out: Tensor
        out = x + drop(block(norm(x))) if self.norm_first else norm(x + drop(block(x)))
        return out

    def _feed_forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return out


def _activation(name: str, given: Activation) -> Callable[[Tensor], Tensor]:
    if not isinstance(given, str):
        return given
    known: dict[str, Any] = {"relu": F.relu, "gelu": F.gelu}
    if given not in known:
        raise ValueError(
            f"{name}: activation is {given!r}; it must be 'relu', 'gelu' or a function."
        )
    function: Callable[[Tensor], Tensor] = known[given]
    return function


class TransformerEncoderLayer(_Layer):
    """Self-attention and a network of two layers: [t, n, d_model] to the same.

    >>> import contraflow as cf
    >>> cf.nn.TransformerEncoderLayer(8, nhead=2)(cf.zeros(5, 3, 8)).shape
    (5, 3, 8)
    """

    norms = 2

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        def attend(x: Tensor) -> Tensor:
            out: Tensor = self.self_attn(
                x, x, x, src_key_padding_mask, False, src_mask, is_causal=is_causal
            )[0]
            return out

        return self._block(self._block(src, 1, attend), 2, self._feed_forward)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the encoder's `memory`, and a network of two layers.

    >>> import contraflow as cf
    >>> layer = cf.nn.TransformerDecoderLayer(4, nhead=2)
    >>> layer(cf.ones(5, 2, 4), cf.ones(6, 2, 4)).shape
    (5, 2, 4)
    """

    norms = 3

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        def attend(x: Tensor) -> Tensor:
            out: Tensor = self.self_attn(
                x, x, x, tgt_key_padding_mask, False, tgt_mask, is_causal=tgt_is_causal
            )[0]
            return out

        def look_up(x: Tensor) -> Tensor:
            out: Tensor = self.multihead_attn(
                x, memory, memory, memory_key_padding_mask, False, memory_mask,
                is_causal=memory_is_causal,
            )[0]  # fmt: skip
            return out

        x = self._block(self._block(tgt, 1, attend), 2, look_up)
        return self._block(x, 3, self._feed_forward)


class _Stack(Module):
    """Copies of one layer, which start alike, and perhaps a norm at the end."""

    def __init__(self, layer: Module, num_layers: int, norm: Module | None) -> None:
        super().__init__()
        self.layers = ModuleList(copy.deepcopy(layer) for _ in range(num_layers))
        self.num_layers, self.norm = num_layers, norm

    def _through(self, x: Tensor, *args: Any) -> Tensor:
        for layer in self.layers:
            x = layer(x, *args)
        return x if self.norm is None else self.norm(x)


class TransformerEncoder(_Stack):
    """`num_layers` copies of an encoder layer, one after the other.

    `enable_nested_tensor` and `mask_check` change nothing: padded positions are computed too.

    >>> import contraflow as cf
    >>> layer = cf.nn.TransformerEncoderLayer(8, nhead=2, batch_first=True)
    >>> cf.nn.TransformerEncoder(layer, num_layers=2)(cf.zeros(3, 5, 8)).shape
    (3, 5, 8)
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__(encoder_layer, num_layers, norm)

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        return self._through(src, mask, src_key_padding_mask, bool(is_causal))


class TransformerDecoder(_Stack):
    """`num_layers` copies of a decoder layer, one after the other.

    >>> import contraflow as cf
    >>> layer = cf.nn.TransformerDecoder(cf.nn.TransformerDecoderLayer(4, 2), num_layers=2)
    >>> layer(cf.ones(5, 2, 4), cf.ones(6, 2, 4)).shape
    (5, 2, 4)
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__(decoder_layer, num_layers, norm)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        return self._through(
            tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
            bool(tgt_is_causal), memory_is_causal,
        )  # fmt: skip


class Transformer(Module):
    """An encoder of the source [s, n, d_model] and a decoder of the target [t, n, d_model].

    >>> import contraflow as cf
    >>> model = cf.nn.Transformer(8, 2, 1, 1, 16)
    >>> model(cf.zeros(5, 3, 8), cf.zeros(4, 3, 8)).shape
    (4, 3, 8)
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        custom_encoder: Any | None = None,
        custom_decoder: Any | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        layer = (
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
            norm_first, bias, device, dtype,
        )  # fmt: skip

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)

        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*layer), num_encoder_layers, norm()
        )
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*layer), num_decoder_layers, norm()
        )
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Any:
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        return self.decoder(
            tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
            tgt_is_causal, memory_is_causal,
        )  # fmt: skip

    @staticmethod
    def generate_square_subsequent_mask(
        sz: int, device: Device | str | None = None, dtype: DType | None = None
    ) -> Tensor:
        """A mask that lets every step see itself and those before it: -inf above the diagonal."""
        out: Tensor = triu(full((sz, sz), -math.inf, device=device, dtype=dtype), 1)
        return out
