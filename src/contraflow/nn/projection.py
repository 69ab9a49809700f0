"""Cross entropy of a linear layer, chunked so that not all logits are in memory at once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from contraflow.autograd.checkpoint import checkpoint
from contraflow.dtypes import DType
from contraflow.errors import describe
from contraflow.operation.public import public
from contraflow.ops.elementwise.basic import where
from contraflow.ops.linalg.products import linear
from contraflow.ops.nn.entropy import cross_entropy
from contraflow.ops.reduction.reduce import sum_
from contraflow.ops.shape.joining import cat
from contraflow.ops.shape.view import reshape
from contraflow.tensors.tensor import Tensor

_POLICIES = ("auto", "accurate", "balanced", "compact")


@dataclass(frozen=True, slots=True)
class LinearCrossEntropyOptions:
    """How `linear_cross_entropy` cuts a batch: logits are there for one chunk at a time.

    A chunk has `batch_chunk_size` rows, or as many as `chunking_method` finds: by
    "aspect_ratio:k" its logits take a k-th of the memory of the input, rounded up to a power of
    two; "auto" is "aspect_ratio:2", and None one chunk. The other options are about PyTorch's
    kernel: here backward can be repeated, and half precision is always summed in float32.

    >>> import contraflow as cf
    >>> cf.nn.LinearCrossEntropyOptions(batch_chunk_size=64).rows_of(1000, 8, 50)
    64
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: DType | None = None

    def __post_init__(self) -> None:
        method, size = self.chunking_method, self.batch_chunk_size
        if self.acc_policy not in _POLICIES:
            raise ValueError(
                f"LinearCrossEntropyOptions: acc_policy is {self.acc_policy!r}; it must be one of "
                f"{', '.join(map(repr, _POLICIES))}."
            )
        if method not in (None, "auto") and not re.fullmatch(
            "aspect_ratio(:0*[1-9][0-9]*)?", method
        ):
            raise ValueError(
                f"LinearCrossEntropyOptions: chunking_method is {method!r}; it must be 'auto', "
                f"'aspect_ratio', 'aspect_ratio:k' with k at least 1, or None."
            )
        if size is not None and (not isinstance(size, int) or size < 1):
            raise ValueError(
                f"LinearCrossEntropyOptions: batch_chunk_size is {size!r}; it must be at least 1, "
                f"or None."
            )

    def rows_of(self, batch: int, in_features: int, num_classes: int) -> int:
        """The number of rows in a chunk of a batch."""
        size, method = self.batch_chunk_size, self.chunking_method
        if method is None or (method == "auto" and size is not None):
            return batch if size is None else min(size, batch)
        factor = 2 if method == "auto" else int(method.partition(":")[2] or 1)
        rows = -(-batch // -(-num_classes // in_features))
        found = max(1, min((1 << (rows - 1).bit_length()) // factor, batch))
        if size not in (None, found):
            raise ValueError(
                f"LinearCrossEntropyOptions: batch_chunk_size is {size}, but chunking_method "
                f"{method!r} finds {found} rows; give one of them."
            )
        return found


@public
def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: LinearCrossEntropyOptions | None = None,
) -> Any:
    """cross_entropy(linear(input, linear_weight, linear_bias), target): inputs [n, in_features].

    The weight [classes, ..., in_features] gives logits [n, classes, ...]. With `options` they are
    computed chunk by chunk, and again for the gradient, instead of being kept.

    >>> import contraflow as cf
    >>> weight, target = cf.zeros(4, 8), cf.tensor([0, 3])
    >>> cf.nn.functional.linear_cross_entropy(cf.ones(2, 8), weight, target)
    tensor(1.3863)
    """
    _check(input, linear_weight, linear_bias)
    classes, *spread = linear_weight.shape[:-1]
    by_class = target.shape != (*input.shape[:-1], classes, *spread)
    if ignore_index is not None and not by_class:
        raise ValueError(
            f"linear_cross_entropy: ignore_index is {ignore_index}, but class probabilities "
            f"{describe(target)} have no index to ignore."
        )
    ignored = -100 if ignore_index is None else ignore_index

    def losses(x: Tensor, target: Tensor, reduction: str, *parameters: Any) -> Any:
        matrix, bias, weight = parameters
        logits = reshape(linear(x, matrix, bias), (*x.shape[:-1], classes, *spread))
        return cross_entropy(
            logits, target, weight, ignore_index=ignored, reduction=reduction,
            label_smoothing=label_smoothing,
        )  # fmt: skip

    matrix = reshape(linear_weight, (-1, input.shape[-1]))
    bias = None if linear_bias is None else reshape(linear_bias, (-1,))
    parameters = (matrix, bias, weight)
    batch = input.shape[0] if input.ndim == 2 else 1
    rows = options.rows_of(batch, input.shape[-1], classes) if options else batch
    if rows >= batch or reduction not in ("mean", "sum", "none"):
        return losses(input, target, reduction, *parameters)
    each = "none" if reduction == "none" else "sum"
    chunks = [
        checkpoint(losses, input[at : at + rows], target[at : at + rows], each, *parameters)
        for at in range(0, batch, rows)
    ]
    if reduction == "none":
        return cat(chunks)
    total = sum(chunks[1:], chunks[0])
    if reduction == "sum":
        return total
    if not by_class:
        return total / (target.numel() // classes)
    return total / _weight_of(target, weight, ignored)


def _weight_of(target: Tensor, weight: Tensor | None, ignored: int) -> Any:
    """The divisor of the mean over class indices: the sum of the weights that count."""
    counts = target != ignored
    if weight is None:
        return sum_(counts)
    return sum_(where(counts, weight[where(counts, target, 0)], 0.0))


def _check(input: Tensor, linear_weight: Tensor, linear_bias: Tensor | None) -> None:
    if input.ndim not in (1, 2):
        raise ValueError(
            f"linear_cross_entropy: input is {describe(input)}; it must be [in_features] or "
            f"[n, in_features]."
        )
    if linear_weight.ndim < 2 or linear_weight.shape[-1] != input.shape[-1]:
        raise ValueError(
            f"linear_cross_entropy: linear_weight {describe(linear_weight)} does not fit input "
            f"{describe(input)}; it must be [classes, ..., {input.shape[-1]}]."
        )
    if input.ndim == 1 and linear_weight.ndim > 2:
        raise ValueError(
            f"linear_cross_entropy: linear_weight {describe(linear_weight)} needs a batch, and "
            f"input is {describe(input)}; give input[None]."
        )
    if linear_bias is not None and linear_bias.shape != linear_weight.shape[:-1]:
        raise ValueError(
            f"linear_cross_entropy: linear_bias {describe(linear_bias)} does not fit linear_weight "
            f"{describe(linear_weight)}; it needs shape {list(linear_weight.shape[:-1])}."
        )
