"""Batches of sequences of different lengths: padded with a value, or packed without gaps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from contraflow.dtypes import float16, float32, float64
from contraflow.names import getter
from contraflow.operation.public import public
from contraflow.ops.creation.data import tensor
from contraflow.ops.elementwise.basic import where
from contraflow.ops.index.slices import index_select
from contraflow.ops.shape.arrange import pad
from contraflow.ops.shape.joining import stack
from contraflow.ops.shape.view import reshape, transpose
from contraflow.tensors.tensor import Tensor


class PackedSequence(NamedTuple):
    """Sequences, longest first, step by step: `data` holds the rows of step 0, of step 1, ...

    `batch_sizes` says how many sequences have each step; they are integers, not a tensor, so that
    compiled functions know them. The indices say how the sequences were sorted, and back.

    >>> import contraflow as cf
    >>> packed = cf.nn.utils.rnn.pack_sequence([cf.ones(3, 2), cf.zeros(2, 2)])
    >>> out, state = cf.nn.GRU(2, 4)(packed)
    >>> out.data.shape, out.batch_sizes, state.shape
    ((5, 4), (2, 2, 1), (1, 2, 4))
    """

    data: Tensor
    batch_sizes: tuple[int, ...]
    sorted_indices: Tensor | None = None
    unsorted_indices: Tensor | None = None

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The sequences in another dtype or on another device, where the indices go too."""
        data = self.data.to(*args, **kwargs)
        order = (None if x is None else x.to(data.device) for x in self[2:])
        return PackedSequence(data, self.batch_sizes, *order)

    def cpu(self) -> PackedSequence:
        """The sequences on the cpu."""
        return self.to("cpu")

    def cuda(self) -> PackedSequence:
        """The sequences on a CUDA device."""
        return self.to("cuda")

    def float(self) -> PackedSequence:
        """The sequences in float32."""
        return self.to(float32)

    def double(self) -> PackedSequence:
        """The sequences in float64."""
        return self.to(float64)

    def half(self) -> PackedSequence:
        """The sequences in float16."""
        return self.to(float16)

    def pin_memory(self) -> PackedSequence:
        """The sequences themselves."""
        return self

    @property
    def is_cuda(self) -> bool:
        """Whether the sequences lie on a CUDA device."""
        return self.data.is_cuda


def _lengths(name: str, lengths: Any, most: int, count: int) -> np.ndarray:
    given = np.asarray(lengths.numpy(force=True) if isinstance(lengths, Tensor) else lengths)
    if given.shape != (count,) or (given < 1).any() or (given > most).any():
        raise ValueError(
            f"{name}: lengths {given.tolist()} must be {count} numbers from 1 to {most}, one for "
            f"each sequence."
        )
    return given.astype(np.int64)


@public
def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Padded sequences [t, n, ...] without their padding.

    They must be sorted, longest first, unless `enforce_sorted` is False.

    >>> import contraflow as cf
    >>> packed = pack_padded_sequence(cf.tensor([[1, 3], [2, 0]]), [2, 1])
    >>> packed.data, packed.batch_sizes
    (tensor([1, 3, 2]), (2, 1))
    """
    if batch_first:
        input = transpose(input, 0, 1)
    steps, count = input.shape[:2]
    given = _lengths("pack_padded_sequence", lengths, steps, count)
    order = np.argsort(-given, kind="stable")
    if enforce_sorted and (order != np.arange(count)).any():
        raise ValueError(
            f"pack_padded_sequence: lengths {given.tolist()} are not sorted, longest first. Pass "
            f"enforce_sorted=False."
        )
    sizes = [int((given > step).sum()) for step in range(given.max())]
    at = np.concatenate([step * count + order[:size] for step, size in enumerate(sizes)])
    rows = reshape(input, (steps * count, *input.shape[2:]))
    data: Tensor = index_select(rows, 0, tensor(at))
    if enforce_sorted:
        return PackedSequence(data, tuple(sizes))
    return PackedSequence(data, tuple(sizes), tensor(order), tensor(np.argsort(order)))


@public
def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The sequences [t, n, ...] with padding, and their lengths: the inverse of packing.

    >>> import contraflow as cf
    >>> packed = pack_sequence([cf.ones(3), cf.zeros(2)])
    >>> padded, lengths = pad_packed_sequence(packed, batch_first=True, padding_value=9.0)
    >>> padded.tolist(), lengths.tolist()
    ([[1.0, 1.0, 1.0], [0.0, 0.0, 9.0]], [3, 2])
    """
    data, sizes = sequence.data, np.array(sequence.batch_sizes)
    steps = len(sizes) if total_length is None else total_length
    if steps < len(sizes):
        raise ValueError(
            f"pad_packed_sequence: total_length {steps} is less than the longest sequence, "
            f"{len(sizes)}."
        )
    heights = np.concatenate([sizes, np.zeros(steps - len(sizes), np.int64)])
    starts = np.concatenate([[0], np.cumsum(sizes)])[:steps]
    starts = np.concatenate([starts, np.zeros(steps - len(starts), np.int64)])
    columns = np.arange(sizes[0])
    held = columns < heights[:, None]
    inside, lengths = tensor(held), tensor((sizes[:, None] > columns).sum(0))
    at = tensor(np.where(held, starts[:, None] + columns, 0))
    order = sequence.unsorted_indices
    if order is not None:
        at, inside = index_select(at, 1, order), index_select(inside, 1, order)
        lengths = index_select(lengths, 0, order)
    shape = held.shape
    rows = reshape(index_select(data, 0, reshape(at, (-1,))), (*shape, *data.shape[1:]))
    kept = reshape(inside, (*shape, *(1,) * (data.ndim - 1)))
    out: Tensor = where(kept, rows, padding_value)
    return (transpose(out, 0, 1) if batch_first else out), lengths


@public
def pad_sequence(
    sequences: Sequence[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Sequences [t, ...] of different lengths side by side: [longest, n, ...].

    >>> import contraflow as cf
    >>> pad_sequence([cf.tensor([1, 2]), cf.tensor([3])], batch_first=True)
    tensor([[1, 2],
            [3, 0]])
    """
    if padding_side not in ("left", "right"):
        raise ValueError(
            f"pad_sequence: padding_side is {padding_side!r}; it must be 'left' or 'right'."
        )
    longest = max(x.shape[0] for x in sequences)
    padded = []
    for x in sequences:
        missing = longest - x.shape[0]
        sides = (missing, 0) if padding_side == "left" else (0, missing)
        padded.append(pad(x, (0, 0) * (x.ndim - 1) + sides, "constant", padding_value))
    out: Tensor = stack(padded, 0 if batch_first else 1)
    return out


@public
def unpad_sequence(
    padded_sequences: Tensor, lengths: Any, batch_first: bool = False
) -> list[Tensor]:
    """The sequences that were padded, each with its own length.

    >>> import contraflow as cf
    >>> unpad_sequence(cf.ones(2, 3), cf.tensor([3, 1]), batch_first=True)
    [tensor([1., 1., 1.]), tensor([1.])]
    """
    x = padded_sequences if batch_first else transpose(padded_sequences, 0, 1)
    given = _lengths("unpad_sequence", lengths, x.shape[1], x.shape[0])
    return [x[i, : int(length)] for i, length in enumerate(given)]


@public
def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Sequences [t, ...] of different lengths, packed.

    >>> import contraflow as cf
    >>> packed = pack_sequence([cf.ones(3, 1), cf.zeros(2, 1)])
    >>> packed.batch_sizes, packed.data.flatten().tolist()
    ((2, 2, 1), [1.0, 0.0, 1.0, 0.0, 1.0])
    """
    lengths = [x.shape[0] for x in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, False, enforce_sorted)


@public
def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences that were packed.

    >>> import contraflow as cf
    >>> unpack_sequence(pack_sequence([cf.ones(3), cf.zeros(2)]))
    [tensor([1., 1., 1.]), tensor([0., 0.])]
    """
    return unpad_sequence(*pad_packed_sequence(packed_sequences))


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The order that undoes another one.

    >>> import contraflow as cf
    >>> invert_permutation(cf.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    return None if permutation is None else permutation.argsort()


__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]

globals()["__getattr__"] = getter(__name__)
