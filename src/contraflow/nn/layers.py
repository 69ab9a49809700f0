"""Layers, with PyTorch's constructors, defaults and initial distributions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from contraflow.devices.names import Device
from contraflow.dtypes import DType
from contraflow.nn import functional as F
from contraflow.nn import init
from contraflow.nn.applied import Applied
from contraflow.nn.module import Module
from contraflow.nn.parameter import Parameter
from contraflow.ops.creation.create import zeros
from contraflow.ops.shape.view import flatten, unflatten
from contraflow.tensors.tensor import Tensor


class Linear(Module):
    """x @ weight.T + bias: [..., in_features] to [..., out_features].

    >>> import contraflow as cf
    >>> cf.nn.Linear(4, 2)(cf.zeros(3, 4)).shape
    (3, 2)
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(zeros(out_features, in_features, device=device, dtype=dtype))
        self.bias = Parameter(zeros(out_features, device=device, dtype=dtype)) if bias else None
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


class Bilinear(Module):
    """input1 @ weight[o] @ input2 + bias[o]: [..., i] and [..., j] to [..., o].

    >>> import contraflow as cf
    >>> layer = cf.nn.Bilinear(3, 4, 5)
    >>> layer(cf.ones(2, 3), cf.ones(2, 4)).shape
    (2, 5)
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.in1_features, self.in2_features = in1_features, in2_features
        self.out_features = out_features
        shape = out_features, in1_features, in2_features
        self.weight = Parameter(zeros(shape, device=device, dtype=dtype))
        self.bias = Parameter(zeros(out_features, device=device, dtype=dtype)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the initial values anew: uniform within 1 / sqrt(in1_features)."""
        bound = 1 / math.sqrt(self.in1_features)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


# --- distances ---------------------------------------------------------------------------------


class CosineSimilarity(Applied, function=F.cosine_similarity, hidden=("dim", "eps")):
    """The cosine of the angle between vectors along a dim.

    >>> import contraflow as cf
    >>> layer = cf.nn.CosineSimilarity()
    >>> layer(cf.tensor([[1.0, 0.0]]), cf.tensor([[1.0, 1.0]]))
    tensor([0.7071])
    """

    dim: int = 1
    eps: float = 1e-8


class PairwiseDistance(Module):
    """The p-norm of x1 - x2 + eps along the last dim.

    >>> import contraflow as cf
    >>> layer = cf.nn.PairwiseDistance()
    >>> layer(cf.tensor([[3.0, 0.0]]), cf.tensor([[0.0, 4.0]]))
    tensor([5.])
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        out: Tensor = F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
        return out


# --- dropout -----------------------------------------------------------------------------------


class _DropoutBase(Applied, hidden=()):
    p: float = 0.5
    inplace: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.p <= 1:
            raise ValueError(
                f"{type(self).__name__}: p is {self.p}; a probability is between 0 and 1."
            )

    def forward(self, input: Tensor) -> Tensor:
        out: Tensor = self.function(input, self.p, self.training, self.inplace)
        return out

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutBase, function=F.dropout):
    """In training, zero each element with probability p and scale the others by 1 / (1 - p).

    >>> import contraflow as cf
    >>> layer = cf.nn.Dropout(0.5).eval()
    >>> layer(cf.tensor([-1.0, 0.5, 2.0]))
    tensor([-1.0000,  0.5000,  2.0000])
    """


class Dropout1d(_DropoutBase, function=F.dropout1d):
    """In training, zero whole channels of signals [n, c, l] with probability p.

    >>> import contraflow as cf
    >>> layer = cf.nn.Dropout1d(0.5)
    >>> layer(cf.ones(2, 4, 8)).shape
    (2, 4, 8)
    """


class Dropout2d(_DropoutBase, function=F.dropout2d):
    """In training, zero whole channels of images [n, c, h, w] with probability p.

    >>> import contraflow as cf
    >>> layer = cf.nn.Dropout2d(0.5)
    >>> layer(cf.ones(2, 4, 8, 8)).shape
    (2, 4, 8, 8)
    """


class Dropout3d(_DropoutBase, function=F.dropout3d):
    """In training, zero whole channels of volumes [n, c, d, h, w] with probability p.

    >>> import contraflow as cf
    >>> layer = cf.nn.Dropout3d(0.5)
    >>> layer(cf.ones(2, 4, 8, 8, 8)).shape
    (2, 4, 8, 8, 8)
    """


class AlphaDropout(_DropoutBase, function=F.alpha_dropout):
    """In training, drop elements with probability p, keeping zero mean and unit variance.

    >>> import contraflow as cf
    >>> layer = cf.nn.AlphaDropout(0.5).eval()
    >>> layer(cf.tensor([-1.0, 0.5, 2.0]))
    tensor([-1.0000,  0.5000,  2.0000])
    """


class FeatureAlphaDropout(_DropoutBase, function=F.feature_alpha_dropout):
    """In training, drop whole channels with probability p, keeping zero mean and unit variance.

    >>> import contraflow as cf
    >>> layer = cf.nn.FeatureAlphaDropout(0.5)
    >>> layer(cf.ones(2, 4, 8, 8)).shape
    (2, 4, 8, 8)
    """


# --- shapes ------------------------------------------------------------------------------------


class Flatten(Applied, function=flatten):
    """Dims start_dim to end_dim merged into one; by default all but the first.

    >>> import contraflow as cf
    >>> layer = cf.nn.Flatten()
    >>> layer(cf.ones(2, 4, 8, 8)).shape
    (2, 256)
    """

    start_dim: int = 1
    end_dim: int = -1


class Unflatten(Module):
    """One dim split into several: the inverse of Flatten.

    >>> import contraflow as cf
    >>> cf.nn.Unflatten(1, (2, 3))(cf.zeros(4, 6)).shape
    (4, 2, 3)
    """

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, input: Tensor) -> Tensor:
        out: Tensor = unflatten(input, self.dim, self.unflattened_size)
        return out

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class Identity(Module):
    """The input itself; arguments are taken and forgotten, so it can stand in for any layer.

    >>> import contraflow as cf
    >>> layer = cf.nn.Identity()
    >>> layer(cf.tensor([-1.0, 0.5, 2.0]))
    tensor([-1.0000,  0.5000,  2.0000])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        return input
