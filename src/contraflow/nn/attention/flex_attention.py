"""Attention whose scores and mask are functions of positions, under PyTorch's path.

The functions are called with numbers of batch, head, query and key, and mapped over all of them.
Scores and mask are whole matrices here: no blocks are left out, so a `BlockMask` saves no time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from contraflow.errors import describe
from contraflow.func import vmap
from contraflow.names import getter
from contraflow.ops.creation.create import arange, zeros
from contraflow.tensors.tensor import Tensor

ScoreFunction = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
MaskFunction = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
_DEFAULT_SPARSE_BLOCK_SIZE = 128  # PyTorch's name, which is not public there but imported


class AuxRequest(NamedTuple):
    """The values that `flex_attention` is to return beside its result, [b, h, l] each."""

    lse: bool = False  # the logarithms of the sums of exp(score)
    max_scores: bool = False  # the largest scores


class AuxOutput(NamedTuple):
    """The values that an `AuxRequest` asked for, and None for the others."""

    lse: Tensor | None
    max_scores: Tensor | None


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """The mask that hides nothing."""
    return (batch == batch) & (token_kv == token_kv)


def _over_positions(function: Callable[..., Tensor], *first: int) -> Callable[..., Tensor]:
    """A function of four numbers, mapped over vectors of batches, heads, queries and keys.

    `first` is (0,) where the function takes a score before them, which is mapped each time.
    """
    for position in (3, 2, 1, 0):
        dims = [0 if i == position else None for i in range(4)]
        function = vmap(function, in_dims=(*first, *dims))
    return function


def create_mask(
    mod_fn: MaskFunction, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int,
    device: Any = None,
) -> Tensor:  # fmt: skip
    """The mask [B, H, Q_LEN, KV_LEN] of a function of the four positions: True is seen.

    >>> create_mask(lambda b, h, q, k: q >= k, None, None, 2, 3)
    tensor([[[[ True, False, False],
              [ True,  True, False]]]])
    """
    vectors = (arange(n or 1, device=device) for n in (B, H, Q_LEN, KV_LEN))
    found = _over_positions(mod_fn)(*vectors)
    return found.expand(B or 1, H or 1, Q_LEN, KV_LEN)


class BlockMask:
    """A mask for `flex_attention`, made by `create_block_mask`."""

    def __init__(self, mask: Tensor, mask_mod: MaskFunction, block_size: tuple[int, int]) -> None:
        self.mask, self.mask_mod, self.BLOCK_SIZE = mask, mask_mod, block_size

    @property
    def shape(self) -> tuple[int, ...]:
        """Batches, heads, queries and keys."""
        return self.mask.shape

    @property
    def seq_lengths(self) -> tuple[int, int]:
        """The numbers of queries and keys."""
        return self.shape[-2], self.shape[-1]

    def numel(self) -> int:
        """The number of elements of the mask."""
        return math.prod(self.shape)

    def to_dense(self) -> Tensor:
        """1 for each block that has something to see, [B, H, blocks of queries, blocks of keys]."""
        b, h, q, k = self.shape
        height, width = self.BLOCK_SIZE
        rows, columns = -(-q // height), -(-k // width)
        whole = zeros(b, h, rows * height, columns * width, dtype=self.mask.dtype)
        whole[:, :, :q, :k] = self.mask
        blocks = whole.view(b, h, rows, height, columns, width)
        return blocks.any(5).any(3).int()

    def sparsity(self) -> float:
        """The share of blocks, in percent, that have nothing to see."""
        return 100 * (1 - self.to_dense().float().mean().item())

    def to(self, device: Any) -> BlockMask:
        """The mask on another device."""
        return BlockMask(self.mask.to(device), self.mask_mod, self.BLOCK_SIZE)

    def __repr__(self) -> str:
        return f"BlockMask(shape={tuple(self.shape)}, sparsity={self.sparsity():.2f}%)"


def create_block_mask(
    mask_mod: MaskFunction, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int,
    device: Any = None, BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,
) -> BlockMask:  # fmt: skip
    """The mask of a function of the positions of batch, head, query and key; True is seen.

    `BLOCK_SIZE` is only told by the mask: all of it is kept.

    >>> create_block_mask(lambda b, h, q, k: q >= k, None, None, 256, 256)
    BlockMask(shape=(1, 1, 256, 256), sparsity=25.00%)
    """
    size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    return BlockMask(create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device), mask_mod, size)


def and_masks(*mask_mods: MaskFunction) -> MaskFunction:
    """The mask of the keys that all of these masks show."""

    def shown(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        seen = noop_mask(b, h, q, k)
        for mask in mask_mods:
            seen = seen & mask(b, h, q, k)
        return seen

    return shown


def or_masks(*mask_mods: MaskFunction) -> MaskFunction:
    """The mask of the keys that any of these masks shows."""

    def shown(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        seen = ~noop_mask(b, h, q, k)
        for mask in mask_mods:
            seen = seen | mask(b, h, q, k)
        return seen

    return shown


def flex_attention(
    query: Tensor, key: Tensor, value: Tensor, score_mod: ScoreFunction | None = None,
    block_mask: BlockMask | None = None, scale: float | None = None, enable_gqa: bool = False,
    return_lse: bool = False, kernel_options: Any = None, *, return_aux: AuxRequest | None = None,
) -> Any:  # fmt: skip
    """Attention with scores that a function changes: queries [b, h, l, e], keys [b, h, s, e].

    `score_mod(score, b, h, q, k)` gives another score, and `block_mask` says which keys a query
    sees. A query that sees none gets zeros. With `enable_gqa` keys may have fewer heads.
    `return_aux` asks for a pair of the result and an `AuxOutput`.

    >>> import contraflow as cf
    >>> x = cf.zeros(1, 2, 4, 8)
    >>> flex_attention(x, x, x, lambda score, b, h, q, k: score - (q - k).abs()).shape
    (1, 2, 4, 8)
    """
    if query.ndim != 4 or key.ndim != 4 or value.ndim != 4:
        raise ValueError(
            f"flex_attention: queries, keys and values have four dims, not {describe(query)}, "
            f"{describe(key)} and {describe(value)}."
        )
    if enable_gqa:
        each = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(each, 1), value.repeat_interleave(each, 1)
    if query.shape[1] != key.shape[1]:
        raise ValueError(
            f"flex_attention: queries have {query.shape[1]} heads and keys {key.shape[1]}. Pass "
            f"enable_gqa=True if several queries share a key."
        )
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    if score_mod is not None:
        positions = (arange(n, device=scores.device) for n in scores.shape)
        scores = _over_positions(score_mod, 0)(scores, *positions)
    if block_mask is None:
        weights, lse = scores.softmax(-1), scores.logsumexp(-1)
        out = weights @ value
    else:
        if block_mask.seq_lengths != tuple(scores.shape[-2:]):
            raise ValueError(
                f"flex_attention: the mask is for {block_mask.seq_lengths} queries and keys, but "
                f"there are {tuple(scores.shape[-2:])}."
            )
        mask = block_mask.mask
        sees = mask.any(-1, keepdim=True)
        # A row without keys keeps its scores, so that no gradient is nan, and counts nothing.
        scores = scores.masked_fill(~mask & sees, -math.inf)
        out = (scores.softmax(-1) @ value).masked_fill(~sees, 0.0)
        lse = scores.logsumexp(-1).masked_fill(~sees.squeeze(-1), -math.inf)
    if return_aux is not None:
        largest = scores.amax(-1) if return_aux.max_scores else None
        if largest is not None and block_mask is not None:
            largest = largest.masked_fill(~block_mask.mask.any(-1), -math.inf)
        return out, AuxOutput(lse if return_aux.lse else None, largest)
    return (out, lse) if return_lse else out


__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]

globals()["__getattr__"] = getter(__name__)
