"""Vectors of length one, angles between vectors, and distances row by row."""

from __future__ import annotations

from typing import Any

import numpy as np

from contraflow.op import Array, Failure, Sample, composite
from contraflow.ops.arithmetic import clamp_min
from contraflow.ops.matrices import vector_norm
from contraflow.ops.norm import wide
from contraflow.ops.reduce import require_floating, sum_
from contraflow.ops.view import expand
from contraflow.shapes import broadcast_shapes, normalize_dim, normalize_dims
from contraflow.tensor import Tensor


def at_least(x: Tensor, bound: float) -> Tensor:
    """The larger of x and a bound, with x's own gradient where the bound is larger too."""
    return x + (clamp_min(x.detach(), bound) - x.detach())


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
    """x divided by its p-norm along a dim, which counts as `eps` at least."""
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
    """The cosine of the angle between vectors along a dim; a length counts as `eps` at least."""
    require_floating("cosine_similarity", x1)
    shape = broadcast_shapes("cosine_similarity", (x1.shape, x2.shape))
    dim = normalize_dim("cosine_similarity", dim, len(shape))
    a, b = (expand(wide(x), shape) for x in (x1, x2))
    # Each is divided by its own length: the product of two might overflow.
    a, b = (x / at_least(vector_norm(x, 2, dim, True), eps) for x in (a, b))
    return sum_(a * b, dim=dim).to(x1.dtype)


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
