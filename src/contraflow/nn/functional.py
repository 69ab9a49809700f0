"""Layers as functions: the ops under PyTorch's names and signatures.

Most names are ops as they are. Written here is what takes its arguments in another order than the
op, what writes in place when asked to, and batch_norm, which keeps running statistics.
"""

from __future__ import annotations

from contraflow.autograd.modes import no_grad
from contraflow.errors import describe
from contraflow.ops.elementwise import relu as _relu
from contraflow.ops.elementwise import sigmoid, tanh, to_dtype, where
from contraflow.ops.index import embedding as _embedding
from contraflow.ops.linalg import linear
from contraflow.ops.nn import (
    batch_statistics,
    gelu,
    layer_norm,
    log_softmax,
    mse_loss,
    normalize_channels,
    softmax,
)
from contraflow.ops.nn import cross_entropy as _cross_entropy
from contraflow.ops.nn import silu as _silu
from contraflow.ops.random import dropout as _dropout
from contraflow.ops.reduce import sum_
from contraflow.ops.window import conv2d, max_pool2d
from contraflow.tensor import Tensor


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0)."""
    return _placed(input, _relu(input), inplace)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x * sigmoid(x)."""
    return _placed(input, _silu(input), inplace)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero each element with probability p and scale the others by 1 / (1 - p)."""
    return _placed(input, _dropout(input, p, training), inplace)


def _placed(input: Tensor, out: Tensor, inplace: bool) -> Tensor:
    return input.copy_(out) if inplace else out


def embedding(input: Tensor, weight: Tensor) -> Tensor:
    """Rows of a table: indices [...] and a table [rows, width] give [..., width]."""
    rows: Tensor = _embedding(weight, input)
    return rows


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float | Tensor = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """(x - mean) / sqrt(var + eps) per channel (dim 1), then scaled and shifted.

    In training the statistics are the batch's, and the running ones, where given, move towards
    them by `momentum`, in place; otherwise they are the running ones.
    """
    if not training:
        if running_mean is None or running_var is None:
            raise ValueError(
                "batch_norm: outside training it needs running_mean and running_var. Pass them, "
                "or training=True."
            )
        out: Tensor = normalize_channels(input, running_mean, running_var, weight, bias, eps)
        return out
    count = input.numel() // max(1, input.shape[1])
    if count < 2:
        raise ValueError(
            f"batch_norm: {describe(input)} has {count} value per channel; training needs more "
            f"than one to have a variance."
        )
    centre, variance = batch_statistics(input)
    with no_grad():
        if running_mean is not None:
            running_mean.add_((centre - running_mean) * momentum)
        if running_var is not None:
            unbiased = variance * (count / (count - 1))
            running_var.add_((unbiased - running_var) * momentum)
    out = normalize_channels(input, centre, variance, weight, bias, eps)
    return out


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """-log softmax(input)[target]: logits [n, classes, ...], class indices [n, ...].

    A class may weigh more than another, and the mean is weighted accordingly; elements whose
    target is `ignore_index` count for nothing.
    """
    if weight is not None and label_smoothing:
        raise NotImplementedError(
            "cross_entropy: label_smoothing together with class weights is not supported; use one."
        )
    counted = target != ignore_index
    # An ignored target is often no class at all: look up class 0 in its place.
    known = where(counted, target, 0)
    losses = _cross_entropy(input, known, reduction="none", label_smoothing=label_smoothing)
    shares = to_dtype(counted, dtype=losses.dtype) if weight is None else weight[known]
    if weight is not None:
        losses, shares = losses * shares, where(counted, shares, 0.0)
    losses = where(counted, losses, 0.0)
    if reduction == "mean":
        return sum_(losses) / sum_(shares)  # type: ignore[no-any-return]
    if reduction == "sum":
        return sum_(losses)  # type: ignore[no-any-return]
    if reduction == "none":
        return losses  # type: ignore[no-any-return]
    raise ValueError(
        f"cross_entropy: reduction is {reduction!r}; it must be 'mean', 'sum' or 'none'."
    )


__all__ = [
    "batch_norm", "conv2d", "cross_entropy", "dropout", "embedding", "gelu", "layer_norm",
    "linear", "log_softmax", "max_pool2d", "mse_loss", "relu", "sigmoid", "silu", "softmax",
    "tanh",
]  # fmt: skip
