"""The norms that keep running statistics, as functions."""

from __future__ import annotations

from contraflow.autograd.modes import no_grad
from contraflow.errors import describe
from contraflow.operation.public import public
from contraflow.ops.nn.norm import affine, normalize_channels, per_channel, standardized
from contraflow.ops.reduction.reduce import mean
from contraflow.ops.shape.view import reshape
from contraflow.shapes import numel
from contraflow.tensors.tensor import Tensor


def _follow(
    running_mean: Tensor | None, running_var: Tensor | None, centre: Tensor, variance: Tensor,
    count: int, momentum: float | Tensor,
) -> None:  # fmt: skip
    """Move running statistics towards those of a batch of `count` values per channel, in place."""
    with no_grad():
        if running_mean is not None:
            running_mean.add_((centre - running_mean) * momentum)
        if running_var is not None:
            unbiased = variance * (count / (count - 1))
            running_var.add_((unbiased - running_var) * momentum)


@public
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

    >>> import contraflow as cf
    >>> x = cf.tensor([[1.0, 4.0], [3.0, 8.0]])
    >>> cf.nn.functional.batch_norm(x, None, None, training=True)
    tensor([[-1.0000, -1.0000],
            [ 1.0000,  1.0000]])
    """
    if input.ndim < 2:
        raise ValueError(
            f"batch_norm: {describe(input)} has no channels: it needs [n, channels, ...]."
        )
    if not training:
        if running_mean is None or running_var is None:
            raise ValueError(
                "batch_norm: outside training it needs running_mean and running_var. Pass them, "
                "or training=True."
            )
        out: Tensor = normalize_channels(input, running_mean, running_var, weight, bias, eps)
        return out
    count = input.numel() // max(1, input.shape[1])
    if count == 1:
        raise ValueError(
            f"batch_norm: {describe(input)} has {count} value per channel; training needs more "
            f"than one to have a variance."
        )
    per_channel("batch_norm", input, running_mean, running_var)
    weight, bias = per_channel("batch_norm", input, weight, bias)
    if not count:  # nothing to learn from
        return affine(input, weight, bias)
    dims = tuple(d for d in range(input.ndim) if d != 1)
    scaled = weight is not None or bias is not None
    out, centre, variance = standardized(input, dims, eps, scaled)
    flat = (input.shape[1],)
    _follow(
        running_mean, running_var, reshape(centre, flat), reshape(variance, flat), count, momentum
    )
    return affine(out, weight, bias)


@public
def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """(x - mean) / sqrt(var + eps) over the spatial dims of [n, c, ...], then scaled and shifted.

    The statistics are each sample's, and the running ones, where given, move towards their mean
    over the batch, in place; without `use_input_stats` they are the running ones.

    >>> import contraflow as cf
    >>> cf.nn.functional.instance_norm(cf.tensor([[[1.0, 3.0]]]))
    tensor([[[-1.0000,  1.0000]]])
    """
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    count = numel(input.shape[2:])
    if input.ndim < 3 or count == 1:
        raise ValueError(
            f"instance_norm: {describe(input)} has {count} value per channel and sample; it needs "
            f"[n, channels, ...] with more than one."
        )
    per_channel("instance_norm", input, running_mean, running_var)
    weight, bias = per_channel("instance_norm", input, weight, bias)
    scaled = weight is not None or bias is not None
    dims = tuple(range(2, input.ndim))
    out, centre, variance = standardized(input, dims, eps, scaled)
    flat = input.shape[:2]
    centre, variance = (mean(reshape(x.detach(), flat), dim=0) for x in (centre, variance))
    _follow(running_mean, running_var, centre, variance, count, momentum)
    return affine(out, weight, bias)
