"""Normalized vectors, cosine similarity, and pairwise distances."""

from __future__ import annotations

from typing import Any

import numpy as np

from contraflow.errors import describe
from contraflow.operation.kinds import composite
from contraflow.operation.samples import Array, Failure, Sample
from contraflow.ops.creation.data import tensor
from contraflow.ops.elementwise.arithmetic import clamp_min
from contraflow.ops.elementwise.basic import where
from contraflow.ops.index.slices import index_select
from contraflow.ops.linalg.norms import vector_norm
from contraflow.ops.nn.norm import wide
from contraflow.ops.reduction.reduce import require_floating, sum_
from contraflow.ops.shape.view import expand
from contraflow.shapes import broadcast_shapes, normalize_dim, normalize_dims
from contraflow.tensors.tensor import Tensor


def at_least(x: Tensor, bound: float) -> Tensor:
    """The larger of x and a bound, with x's own gradient where the bound is larger too."""
    value = x.detach()  # x - value is zero, and keeps the graph without a rounding of its own
    return where(value < bound, bound + (x - value), x)


def _np_length(x: Any, p: float, dim: Any, keepdim: bool) -> Any:
    if p == np.inf:
        return np.abs(x).max(dim, keepdims=keepdim)
    if p == 0:
        return (x != 0).sum(dim, keepdims=keepdim).astype(x.dtype)
    return (np.abs(x) ** p).sum(dim, keepdims=keepdim) ** (1 / p)


@composite(
    ref=lambda x, p=2.0, dim=1, eps=1e-12: x / np.maximum(_np_length(x, p, dim, True), eps),
    samples=lambda: (
        Sample((Array((3, 4)),), {}),
        Sample((Array((2, 3), avoid=(0.0,)),), {"p": 1.0, "dim": 0}),
        Sample((Array((2, 3, 2), avoid=(0.0,)),), {"p": 3.0, "dim": -1, "eps": 1e-3}),
    ),
    method=False,
    floating=True,
)
def normalize(x, *, p=2.0, dim=1, eps=1e-12):
    """x divided by its p-norm along a dim, or by `eps` where the norm is smaller."""
    require_floating("normalize", x)
    dim = normalize_dims("normalize", dim, x.ndim)
    w = wide(x)
    return (w / clamp_min(vector_norm(w, p, dim, True), eps)).to(x.dtype)


def _np_cosine(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    x1, x2 = np.broadcast_arrays(x1, x2)
    norms = [np.maximum(_np_length(x, 2, dim, False), eps) for x in (x1, x2)]
    return (x1 * x2).sum(dim) / (norms[0] * norms[1])


@composite(
    ref=_np_cosine,
    samples=lambda: (
        Sample((Array((3, 4)), Array((3, 4)))),
        Sample((Array((2, 3, 4)), Array((4,))), {"dim": -1, "eps": 1e-3}),
    ),
    failures=lambda: (
        Failure((Array((3, 4)), Array((3, 4))), {"dim": 2}, IndexError,
                "cosine_similarity: dim 2 is out of range"),
    ),
    method=False,
    floating=True,
)  # fmt: skip
def cosine_similarity(x1, x2, *, dim=1, eps=1e-8):
    """The cosine of the angle between vectors along a dim; norms are at least `eps`."""
    require_floating("cosine_similarity", x1)
    shape = broadcast_shapes("cosine_similarity", (x1.shape, x2.shape))
    dim = normalize_dim("cosine_similarity", dim, len(shape))
    a, b = (expand(wide(x), shape) for x in (x1, x2))
    # Each is divided by its own length: the product of two might overflow.
    a, b = (x / at_least(vector_norm(x, 2, dim, True), eps) for x in (a, b))
    return sum_(a * b, dim=dim).to(x1.dtype)


@composite(
    ref=lambda x, p: _np_length(
        np.concatenate([row - x[i + 1 :] for i, row in enumerate(x)]), p, -1, False
    ),
    samples=lambda: (
        Sample((Array((4, 3), avoid=(0.0,)),), {"p": 2.0}),
        Sample((Array((3, 2), avoid=(0.0,)),), {"p": 3.0}),
    ),
    failures=lambda: (
        Failure(
            (Array((3,)),), {"p": 2.0}, ValueError, "pdist: float64[3] is not a matrix of rows."
        ),
    ),
    method=False,
    floating=True,
    autocast="float32",
)
def pdist(x, *, p=2.0):
    """The p-norm distances between all pairs of rows, those of the first row first."""
    require_floating("pdist", x)
    if x.ndim != 2:
        raise ValueError(f"pdist: {describe(x)} is not a matrix of rows.")
    first, second = (tensor(at) for at in np.triu_indices(x.shape[0], 1))
    return vector_norm(index_select(x, 0, first) - index_select(x, 0, second), p, -1)


def _np_renorm(x: np.ndarray, p: float, dim: int, maxnorm: float) -> np.ndarray:
    others = tuple(d for d in range(x.ndim) if d != dim % x.ndim)
    length = _np_length(x, p, others, True)
    return np.where(length > maxnorm, x * (maxnorm / (length + 1e-7)), x)


@composite(
    ref=_np_renorm,
    samples=lambda: (
        Sample((Array((3, 4)),), {"p": 2.0, "dim": 0, "maxnorm": 1.5}),
        Sample((Array((2, 3, 2), avoid=(0.0,)),), {"p": 1.0, "dim": -1, "maxnorm": 2.0}),
    ),
    failures=lambda: (
        Failure((Array((3,)),), {"p": 2.0, "dim": 0, "maxnorm": 1.0}, ValueError,
                "renorm: float64[3] has less than two dims."),
        Failure((Array((3, 2)),), {"p": 0.0, "dim": 0, "maxnorm": 1.0}, ValueError,
                "renorm: p is 0.0; it must be positive."),
        Failure((Array((3, 2)),), {"p": 2.0, "dim": 0, "maxnorm": -1.0}, ValueError,
                "renorm: maxnorm is -1.0; it must not be negative."),
    ),
    inplace=True,
    floating=True,
)  # fmt: skip
def renorm(x, *, p, dim, maxnorm):
    """The slices of a dim scaled down to a p-norm of at most `maxnorm`."""
    require_floating("renorm", x)
    if x.ndim < 2:
        raise ValueError(f"renorm: {describe(x)} has less than two dims.")
    if p <= 0:
        raise ValueError(f"renorm: p is {p}; it must be positive.")
    if maxnorm < 0:
        raise ValueError(f"renorm: maxnorm is {maxnorm}; it must not be negative.")
    dim = normalize_dim("renorm", dim, x.ndim)
    length = vector_norm(x, p, tuple(d for d in range(x.ndim) if d != dim), True)
    return where(length > maxnorm, x * (maxnorm / (length + 1e-7)), x)


@composite(
    ref=lambda x1, x2, p=2.0, eps=1e-6, keepdim=False: _np_length(
        x1 - x2 + eps, p, -1, keepdim
    ),
    samples=lambda: (
        Sample((Array((3, 4)), Array((3, 4)))),
        Sample((Array((2, 3)), Array((3,), 3.0, 4.0)), {"p": 1.0, "eps": 0.0, "keepdim": True}),
        Sample((Array((2, 3)), Array((2, 3))), {"p": float("inf")}),
    ),
    method=False,
    floating=True,
)  # fmt: skip
def pairwise_distance(x1, x2, *, p=2.0, eps=1e-6, keepdim=False):
    """The p-norm of x1 - x2 + eps along the last dim."""
    require_floating("pairwise_distance", x1)
    return vector_norm(wide(x1) - wide(x2) + eps, p, -1, keepdim).to(x1.dtype)
