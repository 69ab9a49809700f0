"""Layers, with PyTorch's constructors, defaults and initial distributions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from contraflow.autograd.modes import no_grad
from contraflow.dtypes import DType
from contraflow.nn import functional as F
from contraflow.nn import init
from contraflow.nn.module import Module, Parameter
from contraflow.ops.create import zeros
from contraflow.ops.view import flatten
from contraflow.tensor import Tensor


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
        init.affine_(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        out: Tensor = F.linear(input, self.weight, self.bias)
        return out

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class Embedding(Module):
    """A table of vectors looked up by index: [...] integers to [..., embedding_dim].

    >>> import contraflow as cf
    >>> cf.nn.Embedding(10, 3)(cf.tensor([[1, 2, 4]])).shape
    (1, 3, 3)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        *,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ValueError(f"Embedding: padding_idx {padding_idx} is none of {num_embeddings}.")
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        self.weight = Parameter(zeros(num_embeddings, embedding_dim, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the initial values anew; the padding is zeros."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx] = 0.0

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.sparse,
        )  # fmt: skip

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        return text if self.padding_idx is None else f"{text}, padding_idx={self.padding_idx}"


class Bilinear(Module):
    """input1 @ weight[o] @ input2 + bias[o]: [..., i] and [..., j] to [..., o]."""

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        *,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.in1_features, self.in2_features = in1_features, in2_features
        self.out_features = out_features
        self.weight = Parameter(zeros(out_features, in1_features, in2_features, dtype=dtype))
        self.bias = Parameter(zeros(out_features, dtype=dtype)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the initial values anew: uniform within 1 / sqrt(in1_features)."""
        bound = 1 / math.sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class CosineSimilarity(Module):
    """The cosine of the angle between vectors along a dim."""

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        out: Tensor = F.cosine_similarity(x1, x2, self.dim, self.eps)
        return out


class PairwiseDistance(Module):
    """The p-norm of x1 - x2 + eps along the last dim."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        out: Tensor = F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
        return out


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


class LogSoftmax(Softmax):
    """log(softmax(x)) along a dim."""

    def forward(self, input: Tensor) -> Tensor:
        out: Tensor = F.log_softmax(input, self.dim)
        return out


class Softmin(Softmax):
    """exp(-x) / sum(exp(-x)) along a dim."""

    def forward(self, input: Tensor) -> Tensor:
        out: Tensor = F.softmin(input, self.dim)
        return out


# --- dropout -----------------------------------------------------------------------------------


class Dropout(Module):
    """In training, zero each element with probability p and scale the others by 1 / (1 - p)."""

    function: Callable[..., Tensor] = staticmethod(F.dropout)

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"{type(self).__name__}: p is {p}; a probability is between 0 and 1.")
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Tensor:
        return self.function(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout1d(Dropout):
    """In training, zero whole channels of signals [n, c, l] with probability p."""

    function = staticmethod(F.dropout1d)


class Dropout2d(Dropout):
    """In training, zero whole channels of images [n, c, h, w] with probability p."""

    function = staticmethod(F.dropout2d)


class Dropout3d(Dropout):
    """In training, zero whole channels of volumes [n, c, d, h, w] with probability p."""

    function = staticmethod(F.dropout3d)


class AlphaDropout(Dropout):
    """In training, drop elements so that zero mean and unit variance stay."""

    function = staticmethod(F.alpha_dropout)


class FeatureAlphaDropout(Dropout):
    """In training, drop whole channels so that zero mean and unit variance stay."""

    function = staticmethod(F.feature_alpha_dropout)


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
