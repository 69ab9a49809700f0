"""Layers as functions: the ops under PyTorch's names and signatures.

Most names are ops as they are. The others are functions of the modules beside this one: those that
take their arguments in another order than the op, write in place when asked to, or keep something.
Type checkers read `functional.pyi`, which `make stub` writes.
"""

from __future__ import annotations

from contraflow.names import getter
from contraflow.nn.bilinear import bilinear
from contraflow.nn.ctc import ctc_loss
from contraflow.nn.dropping import (
    alpha_dropout,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    feature_alpha_dropout,
)
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
from contraflow.nn.older import (  # noqa: F401
    adaptive_max_pool1d_with_indices,
    adaptive_max_pool2d_with_indices,
    adaptive_max_pool3d_with_indices,
    fractional_max_pool2d_with_indices,
    fractional_max_pool3d_with_indices,
    max_pool1d_with_indices,
    max_pool2d_with_indices,
    max_pool3d_with_indices,
    upsample,
    upsample_bilinear,
    upsample_nearest,
)
from contraflow.nn.projection import linear_cross_entropy
from contraflow.nn.running import batch_norm, instance_norm
from contraflow.nn.unpool import max_unpool1d, max_unpool2d, max_unpool3d
from contraflow.operation.op import Op
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
from contraflow.ops.linalg.products import linear
from contraflow.ops.nn.attention import scaled_dot_product_attention
from contraflow.ops.nn.conv import (
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)
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
    group_norm,
    layer_norm,
    local_response_norm,
    log_softmax,
    rms_norm,
    softmax,
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
from contraflow.ops.shape.arrange import pad
from contraflow.tensors.source_line import OWNERS
from contraflow.tensors.tensor import Tensor as Tensor  # PyTorch's is found here too

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
