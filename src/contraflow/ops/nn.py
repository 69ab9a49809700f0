"""Composites: activations, norms and losses, as ordinary Python over ops.

One with gradient rules is a single Node; its rules serve every order, since they are ops too.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from contraflow import dtypes
from contraflow.dtypes import int64
from contraflow.errors import describe
from contraflow.op import Array, Failure, Sample, composite
from contraflow.ops.elementwise import erf, exp, log, sigmoid, sqrt, tanh
from contraflow.ops.index import gather
from contraflow.ops.reduce import amax, mean, sum_
from contraflow.ops.view import reshape
from contraflow.shapes import normalize_dim
from contraflow.tensor import Tensor

_INV_SQRT2 = 1 / math.sqrt(2)
_INV_SQRT_2PI = 1 / math.sqrt(2 * math.pi)


def _np_softmax(x: np.ndarray, dim: int) -> Any:
    e = np.exp(x - x.max(dim, keepdims=True))
    return e / e.sum(dim, keepdims=True)


def _dim(name: str) -> Any:
    return lambda x, dim: {"dim": normalize_dim(name, dim, x.ndim)}


def _softmax_samples() -> Any:
    yield Sample((Array((3, 4)),), {"dim": 1})
    yield Sample((Array((2, 3, 4)),), {"dim": 1})
    yield Sample((Array((5,)),), {"dim": 0})


@composite(
    ref=_np_softmax,
    vjp={"x": lambda g, out, dim: out * (g - sum_(g * out, dim=dim, keepdim=True))},
    samples=_softmax_samples,
    failures=lambda: (
        Failure((Array((2,)),), {"dim": 1}, IndexError, "softmax: dim 1 is out of range"),
    ),
    normalize=_dim("softmax"),
    autocast="float32",
)
def softmax(x, *, dim):
    """exp(x) / sum(exp(x)) along a dim."""
    e = exp(x - amax(x.detach(), dim=dim, keepdim=True))
    return e / sum_(e, dim=dim, keepdim=True)


@composite(
    ref=lambda x, dim: np.log(_np_softmax(x, dim)),
    vjp={"x": lambda g, out, dim: g - exp(out) * sum_(g, dim=dim, keepdim=True)},
    samples=_softmax_samples,
    normalize=_dim("log_softmax"),
    autocast="float32",
)
def log_softmax(x, *, dim):
    """log(softmax(x)) along a dim, without forming small probabilities."""
    shifted = x - amax(x.detach(), dim=dim, keepdim=True)
    return shifted - log(sum_(exp(shifted), dim=dim, keepdim=True))


def _np_gelu(x: np.ndarray, approximate: str) -> Any:
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + np.vectorize(math.erf, otypes=[np.float64])(x * _INV_SQRT2))


def _gelu_vjp(g: Tensor, x: Tensor, approximate: str) -> Tensor:
    if approximate == "tanh":
        c = math.sqrt(2 / math.pi)
        t = tanh(c * (x + 0.044715 * (x * x * x)))
        return g * (0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * (c * (1.0 + 0.134145 * (x * x))))
    density = exp(-0.5 * (x * x)) * _INV_SQRT_2PI
    return g * (0.5 * (1.0 + erf(x * _INV_SQRT2)) + x * density)


@composite(
    ref=_np_gelu,
    vjp={"x": _gelu_vjp},
    samples=lambda: (
        Sample((Array((3, 4)),), {"approximate": "none"}),
        Sample((Array((3, 4)),), {"approximate": "tanh"}),
    ),
    failures=lambda: (
        Failure((Array((2,)),), {"approximate": "erf"}, ValueError, "gelu: approximate is 'erf'"),
    ),
    method=False,
)
def gelu(x, *, approximate="none"):
    """x times the normal distribution function of x, exactly or by tanh."""
    if approximate == "tanh":
        return 0.5 * x * (1.0 + tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))))
    if approximate != "none":
        raise ValueError(f"gelu: approximate is {approximate!r}; it must be 'none' or 'tanh'.")
    return 0.5 * x * (1.0 + erf(x * _INV_SQRT2))


@composite(
    ref=lambda x: x / (1 + np.exp(-x)), samples=lambda: (Sample((Array((3, 4)),)),), method=False
)
def silu(x):
    """x * sigmoid(x)."""
    return x * sigmoid(x)


# --- norms -------------------------------------------------------------------------------------


def _np_layer_norm(x: Any, weight: Any, bias: Any, normalized_shape: Any, eps: float) -> Any:
    axes = tuple(range(x.ndim - len(normalized_shape), x.ndim))
    centred = x - x.mean(axes, keepdims=True)
    out = centred / np.sqrt((centred**2).mean(axes, keepdims=True) + eps)
    out = out if weight is None else out * weight
    return out if bias is None else out + bias


def _layer_norm_x(
    g: Tensor, x: Tensor, weight: Any, centre: Tensor, scale: Tensor, normalized_shape: Any
) -> Tensor:
    dims = tuple(range(x.ndim - len(normalized_shape), x.ndim))
    normal = (x - centre) * scale
    g = g if weight is None else g * weight
    along = mean(g * normal, dim=dims, keepdim=True)
    return scale * (g - mean(g, dim=dims, keepdim=True) - normal * along)


@composite(
    ref=_np_layer_norm,
    residuals=("centre", "scale"),
    vjp={
        "x": _layer_norm_x,
        "weight": lambda g, x, centre, scale: g * ((x - centre) * scale),
        "bias": lambda g: g,
    },
    samples=lambda: (
        Sample(
            (Array((3, 4)), Array((4,)), Array((4,))), {"normalized_shape": (4,), "eps": 1e-5}
        ),
        Sample((Array((2, 3, 4)), None, None), {"normalized_shape": (3, 4), "eps": 1e-3}),
    ),
    failures=lambda: (
        Failure(
            (Array((3, 4)), None, None), {"normalized_shape": (5,), "eps": 1e-5}, ValueError,
            "layer_norm: float64[3, 4] does not end in the normalized shape [5]",
        ),
    ),
    method=False,
    autocast="float32",
)  # fmt: skip
def layer_norm(x, weight=None, bias=None, *, normalized_shape, eps=1e-5):
    """(x - mean) / sqrt(var + eps) over the last dims, then scaled and shifted."""
    k = len(normalized_shape)
    if x.shape[x.ndim - k :] != tuple(normalized_shape):
        raise ValueError(
            f"layer_norm: {describe(x)} does not end in the normalized shape "
            f"{list(normalized_shape)}."
        )
    dims = tuple(range(x.ndim - k, x.ndim))
    centre = mean(x, dim=dims, keepdim=True)
    centred = x - centre
    scale = 1.0 / sqrt(mean(centred * centred, dim=dims, keepdim=True) + eps)
    out = centred * scale
    out = out if weight is None else out * weight
    return (out if bias is None else out + bias), centre, scale


@layer_norm.signature
def _layer_norm(
    x: Tensor, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Tensor:
    if not isinstance(normalized_shape, (tuple, list)):
        normalized_shape = (normalized_shape,)
    return layer_norm.bind(x, weight, bias, normalized_shape=tuple(normalized_shape), eps=eps)


def _np_batch_norm(x: Any, centre: Any, variance: Any, weight: Any, bias: Any, eps: float) -> Any:
    shape = (1, -1) + (1,) * (x.ndim - 2)
    out = (x - centre.reshape(shape)) / np.sqrt(variance.reshape(shape) + eps)
    out = out if weight is None else out * weight.reshape(shape)
    return out if bias is None else out + bias.reshape(shape)


@composite(
    ref=_np_batch_norm,
    samples=lambda: (
        Sample(
            (Array((3, 2, 4)), Array((2,)), Array((2,), 0.5, 2.0), Array((2,)), Array((2,))),
            {"eps": 1e-5},
        ),
    ),
    method=False,
)
def normalize_channels(x, centre, variance, weight=None, bias=None, *, eps=1e-5):
    """(x - centre) / sqrt(variance + eps) per channel (dim 1), then scaled and shifted."""
    shape = (1, x.shape[1]) + (1,) * (x.ndim - 2)
    scale = 1.0 / sqrt(reshape(variance, shape) + eps)
    out = (x - reshape(centre, shape)) * scale
    out = out if weight is None else out * reshape(weight, shape)
    return out if bias is None else out + reshape(bias, shape)


def batch_statistics(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and biased variance per channel (dim 1) over all other dims."""
    dims = tuple(d for d in range(x.ndim) if d != 1)
    centre = mean(x, dim=dims, keepdim=True)
    variance = mean((x - centre) * (x - centre), dim=dims)
    return reshape(centre, (x.shape[1],)), variance


# --- losses ------------------------------------------------------------------------------------


_NP_REDUCED: dict[str, Any] = {"mean": np.mean, "sum": np.sum, "none": lambda v: v}


def _np_cross_entropy(x: Any, target: Any, reduction: str, label_smoothing: float) -> Any:
    rows = np.log(_np_softmax(x, 1))
    losses = -np.take_along_axis(rows, np.expand_dims(target, 1), 1).squeeze(1)
    if label_smoothing:
        losses = (1 - label_smoothing) * losses - label_smoothing * rows.mean(1)
    return _NP_REDUCED[reduction](losses)


def _reduced(name: str, losses: Tensor, reduction: str) -> Tensor:
    if reduction == "mean":
        return mean(losses)
    if reduction == "sum":
        return sum_(losses)
    if reduction == "none":
        return losses
    raise ValueError(f"{name}: reduction is {reduction!r}; it must be 'mean', 'sum' or 'none'.")


def _target(shape: Any) -> Array:
    return Array(shape, 0, 5, int64)


@composite(
    ref=_np_cross_entropy,
    samples=lambda: (
        Sample((Array((4, 5)), _target((4,))), {"reduction": "mean", "label_smoothing": 0.0}),
        Sample((Array((4, 5)), _target((4,))), {"reduction": "sum", "label_smoothing": 0.1}),
        Sample((Array((2, 5, 3)), _target((2, 3))), {"reduction": "none", "label_smoothing": 0.0}),
    ),
    failures=lambda: (
        Failure(
            (Array((4, 5)), _target((3,))), {"reduction": "mean", "label_smoothing": 0.0},
            ValueError, "cross_entropy: target int64[3] does not fit the logits float64[4, 5]",
        ),
        Failure(
            (Array((4, 5)), Array((4,))), {"reduction": "mean", "label_smoothing": 0.0},
            TypeError, "cross_entropy: the target is float64[4]; class indices are integers",
        ),
    ),
    method=False,
    autocast="float32",
)  # fmt: skip
def cross_entropy(x, target, *, reduction="mean", label_smoothing=0.0):
    """The mean of -log softmax(x)[target]: logits [n, classes, ...], class indices [n, ...]."""
    if target.dtype.category != dtypes.INT:
        raise TypeError(
            f"cross_entropy: the target is {describe(target)}; class indices are integers."
        )
    if x.ndim < 2 or target.shape != (x.shape[0], *x.shape[2:]):
        raise ValueError(
            f"cross_entropy: target {describe(target)} does not fit the logits {describe(x)}; "
            f"it needs shape {[x.shape[0], *x.shape[2:]] if x.ndim else []}."
        )
    rows = log_softmax(x, dim=1)
    at = reshape(target, (target.shape[0], 1, *target.shape[1:]))
    losses = -reshape(gather(rows, 1, at), target.shape)
    if label_smoothing:
        losses = (1.0 - label_smoothing) * losses - label_smoothing * mean(rows, dim=1)
    return _reduced("cross_entropy", losses, reduction)


@composite(
    ref=lambda x, target, reduction: _NP_REDUCED[reduction]((x - target) ** 2),
    samples=lambda: (
        Sample((Array((4, 5)), Array((4, 5))), {"reduction": "mean"}),
        Sample((Array((4, 5)), Array((5,))), {"reduction": "sum"}),
        Sample((Array((3,)), Array((3,))), {"reduction": "none"}),
    ),
    failures=lambda: (
        Failure(
            (Array((2,)), Array((2,))), {"reduction": "all"}, ValueError,
            "mse_loss: reduction is 'all'; it must be 'mean', 'sum' or 'none'.",
        ),
    ),
    method=False,
)  # fmt: skip
def mse_loss(x, target, *, reduction="mean"):
    """The mean of the squared differences; both sides have gradients."""
    difference = x - target
    return _reduced("mse_loss", difference * difference, reduction)
