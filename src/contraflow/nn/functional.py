"""Layers as functions: the ops under PyTorch's names and signatures.

Most names are ops as they are. Written here is what takes its arguments in another order than the
op, what writes in place when asked to, and the norms that keep running statistics.
"""

from __future__ import annotations

import math
from typing import Any

from contraflow.autograd.modes import no_grad
from contraflow.dtypes import bool_
from contraflow.errors import describe, public
from contraflow.nn.ctc import ctc_loss
from contraflow.nn.fractional import fractional_max_pool2d, fractional_max_pool3d
from contraflow.nn.inplace import (
    celu,
    celu_,
    elu,
    elu_,
    hardsigmoid,
    hardswish,
    hardtanh,
    hardtanh_,
    leaky_relu,
    leaky_relu_,
    mish,
    relu,
    relu6,
    relu_,
    rrelu,
    rrelu_,
    selu,
    selu_,
    silu,
    threshold,
    threshold_,
)
from contraflow.nn.multihead import multi_head_attention_forward
from contraflow.nn.projection import linear_cross_entropy
from contraflow.operation.op import Op
from contraflow.ops.creation.create import arange, full, ones, zeros
from contraflow.ops.creation.random import dropout as _dropout
from contraflow.ops.elementwise.activation import (
    gelu,
    glu,
    gumbel_softmax,
    hardshrink,
    logsigmoid,
    prelu,
    softmin,
    softplus,
    softshrink,
    softsign,
    tanhshrink,
)
from contraflow.ops.elementwise.arithmetic import clamp_min
from contraflow.ops.elementwise.basic import sigmoid, tanh, where
from contraflow.ops.index.gather import embedding as _embedding
from contraflow.ops.index.gather import gather, segment_sum
from contraflow.ops.index.scatter import scatter_reduce
from contraflow.ops.index.search import one_hot, searchsorted
from contraflow.ops.linalg.distance import cosine_similarity, normalize, pairwise_distance, pdist
from contraflow.ops.linalg.matrices import vector_norm
from contraflow.ops.linalg.products import contract, linear
from contraflow.ops.nn.attention import scaled_dot_product_attention
from contraflow.ops.nn.conv import (
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)
from contraflow.ops.nn.dropout import alpha_dropout as _alpha_dropout
from contraflow.ops.nn.dropout import feature_alpha_dropout as _feature_alpha_dropout
from contraflow.ops.nn.dropout import feature_dropout as _feature_dropout
from contraflow.ops.nn.entropy import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    kl_div,
    nll_loss,
)
from contraflow.ops.nn.grid import affine_grid, grid_sample
from contraflow.ops.nn.loss import (
    cosine_embedding_loss,
    gaussian_nll_loss,
    hinge_embedding_loss,
    huber_loss,
    l1_loss,
    margin_ranking_loss,
    mse_loss,
    poisson_nll_loss,
    smooth_l1_loss,
    soft_margin_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from contraflow.ops.nn.margin import (
    multi_margin_loss,
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
)
from contraflow.ops.nn.max_pool import (
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    max_unpool,
)
from contraflow.ops.nn.norm import (
    affine,
    group_norm,
    layer_norm,
    local_response_norm,
    log_softmax,
    normalize_channels,
    per_channel,
    rms_norm,
    softmax,
    standardized,
)
from contraflow.ops.nn.pool import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
)
from contraflow.ops.nn.resample import (
    channel_shuffle,
    interpolate,
    pixel_shuffle,
    pixel_unshuffle,
)
from contraflow.ops.nn.window import col2im as fold
from contraflow.ops.nn.window import im2col as unfold
from contraflow.ops.reduction.reduce import max_, mean, sum_
from contraflow.ops.shape.arrange import pad
from contraflow.ops.shape.joining import cat
from contraflow.ops.shape.view import expand, reshape
from contraflow.shapes import numel
from contraflow.tensors.source_line import OWNERS
from contraflow.tensors.tensor import Tensor

# --- dropout -----------------------------------------------------------------------------------


@public
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero each element with probability p and scale the others by 1 / (1 - p)."""
    return _placed(input, _dropout(input, p, training), inplace)


def _placed(input: Tensor, out: Tensor, inplace: bool) -> Tensor:
    return input.copy_(out) if inplace else out


@public
def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Drop elements with probability p, keeping zero mean and unit variance."""
    return _placed(input, _alpha_dropout(input, p, training), inplace)


@public
def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Drop whole channels [n, c, ...] with probability p, keeping zero mean and unit variance."""
    return _placed(input, _feature_alpha_dropout(input, p, training), inplace)


@public
def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zero whole channels of [n, c, l] or [c, l] with probability p."""
    return _drop_channels("dropout1d", input, p, training, inplace, (2, 3))


@public
def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zero whole channels of [n, c, h, w] with probability p; three dims are [n, c, l]."""
    return _drop_channels("dropout2d", input, p, training, inplace, (3, 4))


@public
def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zero whole channels of [n, c, d, h, w] or [c, d, h, w] with probability p."""
    return _drop_channels("dropout3d", input, p, training, inplace, (4, 5))


def _drop_channels(
    name: str, input: Tensor, p: float, training: bool, inplace: bool, ranks: tuple[int, int]
) -> Tensor:
    if input.ndim not in ranks:
        raise ValueError(
            f"{name}: {describe(input)} has {input.ndim} dims; it needs {ranks[0]} or {ranks[1]}."
        )
    single = name != "dropout2d" and input.ndim == ranks[0]  # a sample without a batch
    out = _feature_dropout(input[None] if single else input, p, training)
    return _placed(input, out[0] if single else out, inplace)


# --- tables and products -----------------------------------------------------------------------


@public
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of a table: indices [...] and a table [rows, width] give [..., width].

    The row `padding_idx` gets no gradient. Rows longer than `max_norm` that are looked up are
    shortened to it, in place. With `scale_grad_by_freq` a row's gradient is divided by how often
    it was looked up.
    """
    if sparse:
        raise NotImplementedError("embedding: sparse gradients are not supported.")
    if max_norm is not None:
        with no_grad():
            uses = _uses(input, weight)
            long = vector_norm(weight, norm_type, 1, True)
            short = where((uses > 0) & (long > max_norm), max_norm / (long + 1e-7), 1.0)
            weight.copy_(weight * short)
    rows: Tensor = _embedding(weight, input, padding_idx=padding_idx)
    if scale_grad_by_freq:
        shared = rows / _embedding(_uses(input, weight), input)
        rows = rows.detach() + (shared - shared.detach())
    return rows


@public
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Sums, means or maxima of rows of a table: a bag per row of indices [bags, n].

    Indices [n] are cut into bags by `offsets`, where each starts; a bag of nothing is zeros. Rows
    `padding_idx` are left out.
    """
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"embedding_bag: mode is {mode!r}; it must be 'sum', 'mean' or 'max'.")
    if (offsets is None) != (input.ndim == 2) or input.ndim not in (1, 2):
        raise ValueError(
            f"embedding_bag: {describe(input)} must be [bags, n] without offsets, or [n] with them."
        )
    if per_sample_weights is not None and (
        mode != "sum" or per_sample_weights.shape != input.shape
    ):
        raise ValueError(
            f"embedding_bag: per_sample_weights need mode 'sum' and the shape of {describe(input)}."
        )
    rows = embedding(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[..., None]
    inside = ones(*input.shape, dtype=bool_)
    if padding_idx is not None:
        inside = input != padding_idx % weight.shape[0]
    if offsets is not None:
        starts = offsets[:-1] if include_last_offset else offsets
        return _cut_into_bags(rows, inside, starts, mode)
    kept = inside[..., None]
    count = sum_(kept, dim=1)
    if mode == "max":
        if 0 in inside.shape:
            return zeros(inside.shape[0], weight.shape[1], dtype=weight.dtype)
        largest, _ = max_(where(kept, rows, -math.inf), 1)
        return where(count > 0, largest, 0.0)  # type: ignore[no-any-return]
    total: Tensor = sum_(where(kept, rows, 0.0), dim=1)
    return total / clamp_min(count, 1) if mode == "mean" else total


def _cut_into_bags(rows: Tensor, inside: Tensor, starts: Tensor, mode: str) -> Tensor:
    """Rows [n, width] folded into the bags that begin at `starts`; some rows are in none."""
    bags, (n, width) = starts.shape[0], rows.shape
    at = arange(n)
    # Of several bags that begin at one row all but the last are empty.
    bag = searchsorted(starts, at.to(starts.dtype), right=True).long() - 1
    bag = where(inside & (bag >= 0), bag, bags)  # what is in none has a bag of its own, the last
    if mode == "max":
        spread = expand(bag[:, None], (n, width))
        lowest = full((bags + 1, width), -math.inf, rows.dtype)
        largest = scatter_reduce(lowest, 0, spread, rows.detach(), "amax")
        # Of equal rows the first has the gradient.
        chosen = (rows == gather(largest, 0, spread)) | rows.isnan()
        candidates = where(chosen, at[:, None], n)
        first = scatter_reduce(full((bags + 1, width), n), 0, spread, candidates, "amin")[:bags]
        padded = cat([rows, zeros(1, width, dtype=rows.dtype)], 0)  # an empty bag is zeros
        best: Tensor = gather(padded, 0, first)
        return best
    total: Tensor = segment_sum(rows, bag, size=bags + 1)[:bags]
    if mode == "mean":
        count = segment_sum(ones(n, 1, dtype=rows.dtype), bag, size=bags + 1)[:bags]
        total = total / clamp_min(count, 1)
    return total


def _uses(input: Tensor, weight: Tensor) -> Tensor:
    """How often each row of a table is looked up: [rows, 1]."""
    each = ones(*input.shape, 1, dtype=weight.dtype)
    count: Tensor = segment_sum(each, input, size=weight.shape[0])
    return count


@public
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input1 @ weight[o] @ input2 for every output o: [..., i], [..., j] and [o, i, j]."""
    fit = weight.ndim == 3 and input1.shape[:-1] == input2.shape[:-1]
    if not fit or weight.shape[1:] != (input1.shape[-1], input2.shape[-1]):
        raise ValueError(
            f"bilinear: {describe(input1)} and {describe(input2)} do not fit the weight "
            f"{describe(weight)}: they must be [..., i], [..., j] and [o, i, j]."
        )
    lead = input1.shape[:-1]
    rows, columns = (reshape(x, (numel(lead), x.shape[-1])) for x in (input1, input2))
    half = contract(rows, weight, spec="ni,oij->noj")
    out: Tensor = reshape(contract(half, columns, spec="noj,nj->no"), (*lead, weight.shape[0]))
    return out if bias is None else out + bias


# --- unpooling ---------------------------------------------------------------------------------


def _unpool(
    n: int, input: Tensor, indices: Tensor, kernel_size: Any, stride: Any, padding: Any, size: Any
) -> Tensor:
    def each(given: Any) -> tuple[int, ...]:
        return tuple(given) if isinstance(given, (tuple, list)) else (given,) * n

    if input.ndim not in (n + 1, n + 2):
        raise ValueError(
            f"max_unpool{n}d: {describe(input)} has {input.ndim} dims; it needs [n, channels] or "
            f"[channels], then {n} sizes."
        )
    kernel, pads = each(kernel_size), each(padding)
    steps = kernel if stride is None else each(stride)
    plain = [
        (old - 1) * step - 2 * pad + width
        for old, step, pad, width in zip(input.shape[-n:], steps, pads, kernel)
    ]
    sizes = plain if size is None else list(size)[-n:]
    if len(sizes) != n or any(abs(a - b) >= step for a, b, step in zip(sizes, plain, steps)):
        raise ValueError(
            f"max_unpool{n}d: output_size {size} is not within a stride of {plain}, which "
            f"{describe(input)} gives by itself."
        )
    out: Tensor = max_unpool(input, indices, size=tuple(sizes))
    return out


@public
def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: int | tuple[int, ...],
    stride: int | tuple[int, ...] | None = None,
    padding: int | tuple[int, ...] = 0,
    output_size: tuple[int, ...] | None = None,
) -> Tensor:
    """Largest elements [n, c, l] put back where max_pool1d found them, zeros elsewhere."""
    return _unpool(1, input, indices, kernel_size, stride, padding, output_size)


@public
def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: int | tuple[int, ...],
    stride: int | tuple[int, ...] | None = None,
    padding: int | tuple[int, ...] = 0,
    output_size: tuple[int, ...] | None = None,
) -> Tensor:
    """Largest elements [n, c, h, w] put back where max_pool2d found them, zeros elsewhere."""
    return _unpool(2, input, indices, kernel_size, stride, padding, output_size)


@public
def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: int | tuple[int, ...],
    stride: int | tuple[int, ...] | None = None,
    padding: int | tuple[int, ...] = 0,
    output_size: tuple[int, ...] | None = None,
) -> Tensor:
    """Largest elements [n, c, d, h, w] put back where max_pool3d found them, zeros elsewhere."""
    return _unpool(3, input, indices, kernel_size, stride, padding, output_size)


# --- norms with running statistics -------------------------------------------------------------


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


__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "affine_grid",
    "alpha_dropout",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "celu_",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "ctc_loss",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "elu",
    "elu_",
    "embedding",
    "embedding_bag",
    "feature_alpha_dropout",
    "fold",
    "fractional_max_pool2d",
    "fractional_max_pool3d",
    "gaussian_nll_loss",
    "gelu",
    "glu",
    "grid_sample",
    "group_norm",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "hinge_embedding_loss",
    "huber_loss",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "leaky_relu_",
    "linear",
    "linear_cross_entropy",
    "local_response_norm",
    "log_softmax",
    "logsigmoid",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "mish",
    "mse_loss",
    "multi_head_attention_forward",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rms_norm",
    "rrelu",
    "rrelu_",
    "scaled_dot_product_attention",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
    "unfold",
]  # fmt: skip

for _name in __all__:
    _function = globals()[_name]
    # A part of other ops that is public here is known by its name here.
    OWNERS[_function.name if isinstance(_function, Op) else _name] = _name
