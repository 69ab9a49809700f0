"""Layers as functions: the ops under PyTorch's names and signatures.

Most names are ops as they are. Written here are functions that take their arguments in another
order than the op, or write in place when asked to, and the norms that keep running statistics;
embeddings are in `lookup.py`, unpooling in `unpool.py`.
"""

from __future__ import annotations

from typing import Any

from contraflow.autograd.modes import no_grad
from contraflow.errors import describe
from contraflow.names import getter
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
from contraflow.nn.lookup import embedding, embedding_bag
from contraflow.nn.multihead import multi_head_attention_forward
from contraflow.nn.projection import linear_cross_entropy
from contraflow.nn.unpool import max_unpool1d, max_unpool2d, max_unpool3d
from contraflow.operation.op import Op
from contraflow.operation.public import public
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
from contraflow.ops.elementwise.basic import sigmoid, tanh
from contraflow.ops.index.search import one_hot
from contraflow.ops.linalg.distance import cosine_similarity, normalize, pairwise_distance, pdist
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
from contraflow.ops.reduction.reduce import mean
from contraflow.ops.shape.arrange import pad
from contraflow.ops.shape.view import reshape
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


# --- products -----------------------------------------------------------------------------------


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


# --- PyTorch's older names ----------------------------------------------------------------------


@public
def upsample(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:  # fmt: skip
    """Images resized; PyTorch deprecates it: use `interpolate`."""
    out: Tensor = interpolate(input, size, scale_factor, mode, align_corners)
    return out


@public
def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Images resized by their nearest pixels; PyTorch deprecates it: use `interpolate`."""
    return upsample(input, size, scale_factor)


@public
def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Images resized with `align_corners`; PyTorch deprecates it: use `interpolate`."""
    return upsample(input, size, scale_factor, "bilinear", True)


def _with_indices(pool: Any) -> Any:
    @public
    def with_indices(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        return pool(input, *args, **{**kwargs, "return_indices": True})

    name = getattr(pool, "name", None) or pool.__name__
    with_indices.__name__ = with_indices.__qualname__ = f"{name}_with_indices"
    with_indices.__doc__ = f"`{name}` with `return_indices=True`."
    return with_indices


max_pool1d_with_indices = _with_indices(max_pool1d)
max_pool2d_with_indices = _with_indices(max_pool2d)
max_pool3d_with_indices = _with_indices(max_pool3d)
adaptive_max_pool1d_with_indices = _with_indices(adaptive_max_pool1d)
adaptive_max_pool2d_with_indices = _with_indices(adaptive_max_pool2d)
adaptive_max_pool3d_with_indices = _with_indices(adaptive_max_pool3d)
fractional_max_pool2d_with_indices = _with_indices(fractional_max_pool2d)
fractional_max_pool3d_with_indices = _with_indices(fractional_max_pool3d)

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

globals()["__getattr__"] = getter(__name__)
