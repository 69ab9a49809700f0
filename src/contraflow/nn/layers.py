"""Layers, with PyTorch's constructors, defaults and initial distributions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from contraflow import dtypes
from contraflow.dtypes import DType
from contraflow.nn import functional as F
from contraflow.nn import init
from contraflow.nn.module import Module, Parameter
from contraflow.ops.create import ones, zeros
from contraflow.ops.view import flatten
from contraflow.tensor import Tensor

Size = int | tuple[int, int]


def _pair(value: Size) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[1])


def _initialize_affine(weight: Tensor, bias: Tensor | None) -> None:
    """What Linear and Conv2d start with: both uniform within 1 / sqrt(inputs per output)."""
    init.kaiming_uniform_(weight, a=math.sqrt(5))  # this slope makes the bound 1 / sqrt(fan_in)
    if bias is not None:
        fan_in, _ = init.fans("reset_parameters", weight)
        bound = 1 / math.sqrt(fan_in) if fan_in else 0.0
        init.uniform_(bias, -bound, bound)


class Linear(Module):
    """x @ weight.T + bias: [..., in_features] to [..., out_features].

    >>> import contraflow as cf
    >>> cf.nn.Linear(4, 2)(cf.zeros(3, 4)).shape
    (3, 2)
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, *, dtype: DType | None = None
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(zeros(out_features, in_features, dtype=dtype))
        self.bias = Parameter(zeros(out_features, dtype=dtype)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the initial values anew."""
        _initialize_affine(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        out: Tensor = F.linear(input, self.weight, self.bias)
        return out

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class Conv2d(Module):
    """Cross-correlation of images [n, in_channels, h, w] with learned kernels.

    >>> import contraflow as cf
    >>> cf.nn.Conv2d(3, 8, 3, padding=1)(cf.zeros(2, 3, 5, 5)).shape
    (2, 8, 5, 5)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        *,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        if in_channels % groups or out_channels % groups:
            raise ValueError(
                f"Conv2d: {in_channels} input and {out_channels} output channels do not divide "
                f"into {groups} groups."
            )
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride = _pair(kernel_size), _pair(stride)
        self.padding, self.dilation = _pair(padding), _pair(dilation)
        shape = (out_channels, in_channels // groups, *self.kernel_size)
        self.weight = Parameter(zeros(shape, dtype=dtype))
        self.bias = Parameter(zeros(out_channels, dtype=dtype)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the initial values anew."""
        _initialize_affine(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        out: Tensor = F.conv2d(
            input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups
        )
        return out

    def extra_repr(self) -> str:
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        )
        if self.padding != (0, 0):
            text += f", padding={self.padding}"
        if self.dilation != (1, 1):
            text += f", dilation={self.dilation}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        return text if self.bias is not None else f"{text}, bias=False"


class MaxPool2d(Module):
    """The largest element of each window of images [n, c, h, w]."""

    def __init__(self, kernel_size: Size, stride: Size | None = None, padding: Size = 0) -> None:
        super().__init__()
        self.kernel_size, self.padding = kernel_size, padding
        self.stride = kernel_size if stride is None else stride

    def forward(self, input: Tensor) -> Tensor:
        out: Tensor = F.max_pool2d(input, self.kernel_size, self.stride, self.padding)
        return out

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation=1, ceil_mode=False"
        )


class Embedding(Module):
    """A table of vectors looked up by index: [...] integers to [..., embedding_dim].

    >>> import contraflow as cf
    >>> cf.nn.Embedding(10, 3)(cf.tensor([[1, 2, 4]])).shape
    (1, 3, 3)
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, *, dtype: DType | None = None
    ) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.weight = Parameter(zeros(num_embeddings, embedding_dim, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the initial values anew."""
        init.normal_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(input, self.weight)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}"


# --- norms -------------------------------------------------------------------------------------


class LayerNorm(Module):
    """(x - mean) / sqrt(var + eps) over the last dims, then scaled and shifted."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        *,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        shape = (
            (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        )
        self.normalized_shape, self.eps, self.elementwise_affine = shape, eps, elementwise_affine
        self.weight = Parameter(ones(shape, dtype=dtype)) if elementwise_affine else None
        self.bias = Parameter(zeros(shape, dtype=dtype)) if elementwise_affine and bias else None

    def reset_parameters(self) -> None:
        """Back to ones and zeros."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        out: Tensor = F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)
        return out

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class BatchNorm2d(Module):
    """Images [n, c, h, w] normalized per channel: by the batch in training, else by its history.

    `momentum` None keeps the plain mean of all batches seen.
    """

    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        *,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        self.weight = Parameter(ones(num_features, dtype=dtype)) if affine else None
        self.bias = Parameter(zeros(num_features, dtype=dtype)) if affine else None
        tracked = track_running_stats
        self.register_buffer("running_mean", zeros(num_features, dtype=dtype) if tracked else None)
        self.register_buffer("running_var", ones(num_features, dtype=dtype) if tracked else None)
        self.register_buffer(
            "num_batches_tracked", zeros((), dtype=dtypes.int64) if tracked else None
        )

    def reset_running_stats(self) -> None:
        """Forget the batches seen."""
        if self.running_mean is not None:
            init.zeros_(self.running_mean)
        if self.running_var is not None:
            init.ones_(self.running_var)
        if self.num_batches_tracked is not None:
            init.zeros_(self.num_batches_tracked)

    def reset_parameters(self) -> None:
        """Back to ones and zeros, without history."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim != 4 or input.shape[1] != self.num_features:
            raise ValueError(
                f"BatchNorm2d: expected images [n, {self.num_features}, h, w], got "
                f"{input.dtype}{list(input.shape)}."
            )
        momentum: float | Tensor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                momentum = 1.0 / self.num_batches_tracked
        return F.batch_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias,
            self.training or self.running_mean is None, momentum, self.eps,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, track_running_stats={self.track_running_stats}"
        )


# --- activations -------------------------------------------------------------------------------


class _Activation(Module):
    """A function that may write its result over its input."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class ReLU(_Activation):
    """max(x, 0)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, self.inplace)


class SiLU(_Activation):
    """x * sigmoid(x)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, self.inplace)


class Tanh(Module):
    """Hyperbolic tangent."""

    def forward(self, input: Tensor) -> Tensor:
        out: Tensor = F.tanh(input)
        return out


class Sigmoid(Module):
    """1 / (1 + exp(-x))."""

    def forward(self, input: Tensor) -> Tensor:
        out: Tensor = F.sigmoid(input)
        return out


class GELU(Module):
    """x times the normal distribution function of x; `approximate` is "none" or "tanh"."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        out: Tensor = F.gelu(input, approximate=self.approximate)
        return out

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class Softmax(Module):
    """exp(x) / sum(exp(x)) along a dim."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        out: Tensor = F.softmax(input, self.dim)
        return out

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Dropout(Module):
    """In training, zero each element with probability p and scale the others by 1 / (1 - p)."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"Dropout: p is {p}; a probability is between 0 and 1.")
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


# --- shapes ------------------------------------------------------------------------------------


class Flatten(Module):
    """Dims start_dim to end_dim merged into one; by default all but the first."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        out: Tensor = flatten(input, self.start_dim, self.end_dim)
        return out

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Identity(Module):
    """The input itself; arguments are taken and forgotten, so it can stand in for any layer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        return input


# --- losses ------------------------------------------------------------------------------------


class CrossEntropyLoss(Module):
    """-log softmax(input)[target]: logits [n, classes, ...], class indices [n, ...].

    >>> import contraflow as cf
    >>> cf.nn.CrossEntropyLoss()(cf.zeros(2, 4), cf.tensor([0, 3]))
    tensor(1.3863)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.ignore_index, self.reduction = ignore_index, reduction
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(
            input, target, self.weight, self.ignore_index, self.reduction, self.label_smoothing
        )


class MSELoss(Module):
    """The mean of the squared differences."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = reduction

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        out: Tensor = F.mse_loss(input, target, reduction=self.reduction)
        return out
