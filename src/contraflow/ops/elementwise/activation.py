"""Activations: elementwise functions of PyTorch's nn.functional, and a few composites.

Their numbers (a slope, a bound) are inputs, so that kernels take them as arguments. Gradients at
kinks are PyTorch's: zero at the bounds of hardtanh and relu6, the negative side's at zero.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from contraflow.dtypes import FLOAT, INT
from contraflow.errors import describe
from contraflow.expressions import expression as s
from contraflow.expressions import special_functions
from contraflow.operation.context import apply
from contraflow.operation.kinds import composite, elementwise
from contraflow.operation.op import REGISTRY
from contraflow.operation.public import public
from contraflow.operation.samples import Array, Failure, Sample
from contraflow.ops.creation.random import rand
from contraflow.ops.elementwise.arithmetic import clamp_min, limited
from contraflow.ops.elementwise.basic import (
    erf,
    exp,
    log,
    np_sigmoid,
    sigmoid,
    tanh,
    to_dtype,
    where,
)
from contraflow.ops.elementwise.mathematics import log1p
from contraflow.ops.index.gather import put_along_dim
from contraflow.ops.nn.norm import add_dtype_parameter, softmax
from contraflow.ops.reduction.reduce import argmax, require_floating
from contraflow.ops.shape.view import reshape, slice_
from contraflow.shapes import normalize_dim
from contraflow.tensors.tensor import Tensor

_INV_SQRT2 = 1 / math.sqrt(2)
_INV_SQRT_2PI = 1 / math.sqrt(2 * math.pi)


def _with(*numbers: float, avoid: tuple[float, ...] = (0.0,)) -> Any:
    """Samples of a tensor with these numbers beside it."""

    def samples() -> Any:
        for shape in ((3, 4), (), (2, 0)):
            yield Sample((Array(shape, avoid=avoid), *numbers))

    return samples


# --- one branch for each sign ------------------------------------------------------------------


@elementwise(
    ref=lambda x, negative_slope: np.where(x > 0, x, x * negative_slope),
    dtype="float",
    vjp={"x": lambda g, x, negative_slope: where(x > 0, g, g * negative_slope)},
    samples=_with(0.1),
    method=False,
    inplace=True,
    takes=(FLOAT,),
    each=True,
)
def leaky_relu(x, negative_slope=0.01):
    """x where it is positive, else negative_slope * x."""
    return s.select(x > 0, x, x * negative_slope)


@elementwise(
    ref=lambda x, weight: np.where(x > 0, x, weight * x),
    dtype="float",
    vjp={
        "x": lambda g, x, weight: where(x > 0, g, weight * g),
        "weight": lambda g, x: where(x > 0, 0.0, x * g),
    },
    samples=lambda: (
        Sample((Array((3, 4), avoid=(0.0,)), Array((1,)))),
        Sample((Array((), avoid=(0.0,)), Array(()))),
    ),
    failures=lambda: (
        Failure((Array((2, 3)), Array((2,))), {}, ValueError,
                "prelu: weight float64[2] does not fit float64[2, 3], which has 3 channels"),
        Failure((Array((2, 3)), Array((1, 1))), {}, ValueError, "prelu: weight float64[1, 1] has"),
    ),
    takes=(FLOAT,),
)  # fmt: skip
def prelu(x, weight):
    """x where it is positive, else weight * x, with a weight for all or one per channel (dim 1)."""
    return s.select(x > 0, x, weight * x)


@prelu.signature
def _prelu(x: Tensor, weight: Tensor) -> Tensor:
    if weight.ndim > 1:
        raise ValueError(f"prelu: weight {describe(weight)} has more than one dim.")
    if weight.numel() != 1:
        channels = x.shape[1] if x.ndim > 1 else 1
        if weight.numel() != channels:
            raise ValueError(
                f"prelu: weight {describe(weight)} does not fit {describe(x)}, which has "
                f"{channels} channels."
            )
        weight = reshape(weight, (channels,) + (1,) * (x.ndim - 2))
    elif weight.ndim > x.ndim:
        weight = reshape(weight, ())
    return apply(prelu, (x, weight))


# Where x is positive exp(x) may be infinite, and its own gradient then NaN: it is not evaluated
# there. Nor at 0, where PyTorch's second derivative is that of the positive side.
def _exp_below_zero(x: Tensor) -> Tensor:
    below: Tensor = exp(where(x < 0, x, 0.0))
    return below


@elementwise(
    ref=lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0.0))),
    dtype="float",
    vjp={"x": lambda g, x, alpha: where(x <= 0, g * (alpha * _exp_below_zero(x)), g)},
    samples=_with(1.3),
    method=False,
    inplace=True,
    takes=(FLOAT,),
    each=True,
)
def elu(x, alpha=1.0):
    """x where it is positive, else alpha (exp(x) - 1)."""
    return s.select(x > 0, x, alpha * special_functions.expm1(x))


@elementwise(
    ref=lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0.0) / alpha)),
    dtype="float",
    vjp={"x": lambda g, x, alpha: where(x <= 0, g * exp(where(x < 0, x, 0.0) / alpha), g)},
    samples=_with(1.3),
    failures=lambda: (Failure((Array((2,)), 0.0), {}, ZeroDivisionError, "celu: alpha is 0"),),
    method=False,
    inplace=True,
    takes=(FLOAT,),
    each=True,
)
def celu(x, alpha=1.0):
    """x where it is positive, else alpha (exp(x / alpha) - 1), whose slope is continuous."""
    return s.select(x > 0, x, alpha * special_functions.expm1(x / alpha))


@celu.signature
def _celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    if alpha == 0:
        raise ZeroDivisionError("celu: alpha is 0; x is divided by it, so it must not be.")
    return apply(celu, (x, alpha))


# The constants that keep zero mean and unit variance, from the paper on self-normalizing networks.
_ALPHA, _SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


@elementwise(
    ref=lambda x: _SCALE * np.where(x > 0, x, _ALPHA * np.expm1(np.minimum(x, 0.0))),
    dtype="float",
    vjp={"x": lambda g, x: where(x <= 0, g * (_exp_below_zero(x) * (_SCALE * _ALPHA)), g * _SCALE)},
    avoid=(0.0,),
    method=False,
    inplace=True,
    takes=(FLOAT,),
)
def selu(x):
    """The scaled elu that keeps zero mean and unit variance."""
    return _SCALE * s.select(x > 0, x, _ALPHA * special_functions.expm1(x))


@composite(
    ref=lambda x, lower, upper, training: np.where(x > 0, x, x * ((lower + upper) / 2)),
    samples=lambda: (
        Sample((Array((3, 4), avoid=(0.0,)),), {"lower": 0.1, "upper": 0.3, "training": False}),
        Sample((Array((3,), avoid=(0.0,)),), {"lower": 0.25, "upper": 0.25, "training": True}),
    ),
    failures=lambda: (
        Failure((Array((2,)),), {"lower": 0.5, "upper": 0.2, "training": True}, ValueError,
                "rrelu: lower 0.5 exceeds upper 0.2"),
    ),
    method=False,
    inplace=True,
    floating=True,
)  # fmt: skip
def rrelu(x, *, lower=1 / 8, upper=1 / 3, training=False):
    """leaky_relu whose slope is drawn for each element in training, and else the mean one."""
    require_floating("rrelu", x)
    lower, upper = float(lower), float(upper)
    if lower > upper:
        raise ValueError(f"rrelu: lower {lower} exceeds upper {upper}.")
    if not training:
        return leaky_relu(x, (lower + upper) / 2)
    slope = rand(x.shape, dtype=x.dtype) * (upper - lower) + lower
    return where(x > 0, x, x * slope)


# --- bounds ------------------------------------------------------------------------------------


@elementwise(
    ref=lambda x, min_val, max_val: np.minimum(np.maximum(x, min_val), max_val),
    vjp={
        "x": lambda g, x, min_val, max_val: where((x <= min_val) | (x >= max_val), 0.0, g)
    },
    samples=_with(-1, 1, avoid=(-1.0, 1.0)),
    failures=lambda: (
        Failure((Array((2,)), 1.0, -1.0), {}, ValueError,
                "hardtanh: min_val 1.0 exceeds max_val -1.0"),
    ),
    takes=(INT, FLOAT),
    method=False,
    inplace=True,
)  # fmt: skip
def hardtanh(x, min_val=-1.0, max_val=1.0):
    """x limited to [min_val, max_val]; at the bounds, unlike clamp's, the gradient is 0."""
    return s.minimum(s.maximum(x, min_val), max_val)


# Integers stay integers: the bounds are cut to whole numbers.
@hardtanh.signature
def _hardtanh(x: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    if min_val > max_val:
        raise ValueError(f"hardtanh: min_val {min_val} exceeds max_val {max_val}.")
    if not x.is_floating_point():
        min_val, max_val = limited("hardtanh", x.dtype, int(min_val), int(max_val))
    return apply(hardtanh, (x, min_val, max_val))


@elementwise(
    ref=lambda x: np.minimum(np.maximum(x, 0), 6),
    vjp={"x": lambda g, x: where((x <= 0) | (x >= 6), 0.0, g)},
    domain=(-3.0, 9.0),
    avoid=(0.0, 6.0),
    takes=(INT, FLOAT),
    method=False,
    inplace=True,
)
def relu6(x):
    """x limited to [0, 6]."""
    return s.minimum(s.maximum(x, 0), 6)


def _np_relu6(x: Any) -> Any:
    return np.minimum(np.maximum(x, 0.0), 6.0)


def _relu6(x: Any) -> Any:
    return s.minimum(s.maximum(x, 0.0), 6.0)


@elementwise(
    ref=lambda x: _np_relu6(x + 3.0) / 6.0,
    dtype="float",
    vjp={"x": lambda g, x: where((x > -3) & (x < 3), g / 6.0, 0.0)},
    domain=(-5.0, 5.0),
    avoid=(-3.0, 3.0),
    method=False,
    inplace=True,
    takes=(FLOAT,),
)
def hardsigmoid(x):
    """x / 6 + 1/2, limited to [0, 1]."""
    return _relu6(x + 3.0) / 6.0


@elementwise(
    ref=lambda x: x * _np_relu6(x + 3.0) / 6.0,
    dtype="float",
    vjp={"x": lambda g, x: where(x <= -3, 0.0, where(x < 3, g * (x / 3.0 + 0.5), g))},
    domain=(-5.0, 5.0),
    avoid=(-3.0, 3.0),
    method=False,
    inplace=True,
    takes=(FLOAT,),
)
def hardswish(x):
    """x * hardsigmoid(x)."""
    return x * _relu6(x + 3.0) / 6.0


@elementwise(
    ref=lambda x, threshold, value: np.where(x <= threshold, value, x),
    vjp={"x": lambda g, x, threshold: where(x <= threshold, 0.0, g)},
    samples=_with(0.5, -3.0, avoid=(0.5,)),
    method=False,
    inplace=True,
)
def threshold(x, threshold, value):
    """x above the threshold, else the value; both are cut to whole numbers beside integers."""
    return s.select(x <= threshold, value, x)


@threshold.signature
def _threshold(x: Tensor, threshold: float, value: float) -> Tensor:
    if not x.is_floating_point():
        threshold, value = int(threshold), int(value)
    return apply(REGISTRY["threshold"], (x, threshold, value))


@elementwise(
    ref=lambda x, lambd: np.where((x >= -lambd) & (x <= lambd), 0.0, x),
    dtype="float",
    vjp={"x": lambda g, x, lambd: where((x >= -lambd) & (x <= lambd), 0.0, g)},
    samples=_with(0.5, avoid=(-0.5, 0.5)),
    takes=(FLOAT,),
    each=True,
)
def hardshrink(x, lambd=0.5):
    """x, and 0 in [-lambd, lambd]."""
    return s.select((x >= -lambd) & (x <= lambd), 0.0, x)


@elementwise(
    ref=lambda x, lambd: np.where(x > lambd, x - lambd, np.where(x < -lambd, x + lambd, x * 0.0)),
    dtype="float",
    vjp={"x": lambda g, x, lambd: where((x >= -lambd) & (x <= lambd), 0.0, g)},
    samples=_with(0.5, avoid=(-0.5, 0.5)),
    failures=lambda: (
        Failure((Array((2,)), -1.0), {}, ValueError, "softshrink: lambd is -1.0; it must not be"),
    ),
    method=False,
    takes=(FLOAT,),
    each=True,
)
def softshrink(x, lambd=0.5):
    """x moved towards 0 by lambd, and 0 in [-lambd, lambd]."""
    inside = s.select(s.isnan(x), x, x * 0.0)  # compilers of WGSL take the product for 0
    return s.select(x > lambd, x - lambd, s.select(x < -lambd, x + lambd, inside))


@softshrink.signature
def _softshrink(x: Tensor, lambd: float = 0.5) -> Tensor:
    if lambd < 0:
        raise ValueError(f"softshrink: lambd is {lambd}; it must not be negative.")
    return apply(softshrink, (x, lambd))


# --- smooth ones -------------------------------------------------------------------------------


@elementwise(
    ref=lambda x: x * np_sigmoid(x),
    dtype="float",
    vjp={"x": lambda g, x: _silu_vjp(g, x, sigmoid(x))},
    method=False,
    inplace=True,
    takes=(FLOAT,),
)
def silu(x):
    """x * sigmoid(x)."""
    e = s.exp(-s.abs_(x))
    return x * (s.select(x < 0, e, 1.0) / (1.0 + e))


def _silu_vjp(g: Tensor, x: Tensor, gate: Tensor) -> Tensor:
    return g * (gate * (1.0 + x * (1.0 - gate)))


def _np_softplus(x: Any) -> Any:
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


def _softplus(x: Any) -> Any:
    """log(1 + exp(x)), without overflow."""
    return s.maximum(x, 0.0) + special_functions.log1p(s.exp(-s.abs_(x)))


@elementwise(
    ref=lambda x, beta, threshold: np.where(x * beta > threshold, x, _np_softplus(x * beta) / beta),
    dtype="float",
    vjp={
        "x": lambda g, x, beta, threshold: where(x * beta > threshold, g, g * sigmoid(x * beta))
    },
    samples=lambda: (*_with(1.0, 20.0)(), Sample((Array((5,), avoid=(0.75,)), 2.0, 1.5))),
    method=False,
    takes=(FLOAT,),
    each=True,
)  # fmt: skip
def softplus(x, beta=1.0, threshold=20.0):
    """log(1 + exp(beta x)) / beta, and x itself where beta x exceeds the threshold."""
    return s.select(x * beta > threshold, x, _softplus(x * beta) / beta)


@elementwise(
    ref=lambda x: np.minimum(x, 0.0) - np.log1p(np.exp(-np.abs(x))),
    dtype="float",
    vjp={"x": lambda g, x: g * sigmoid(-x)},
    method=False,
    takes=(FLOAT,),
)
def logsigmoid(x):
    """log(sigmoid(x)), without overflow."""
    return s.minimum(x, 0.0) - special_functions.log1p(s.exp(-s.abs_(x)))


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


def _mish_vjp(g: Tensor, x: Tensor) -> Tensor:
    gate = tanh(softplus(x))
    return g * (gate + x * sigmoid(x) * (1.0 - gate * gate))


@elementwise(
    ref=lambda x: x * np.tanh(_np_softplus(x)),
    dtype="float",
    vjp={"x": _mish_vjp},
    method=False,
    inplace=True,
    takes=(FLOAT,),
)
def mish(x):
    """x * tanh(softplus(x))."""
    return x * s.tanh(_softplus(x))


def _softsign_vjp(g: Tensor, x: Tensor) -> Tensor:
    scale = 1.0 + abs(x)
    return g / (scale * scale)


@elementwise(
    ref=lambda x: x / (1.0 + np.abs(x)),
    dtype="float",
    vjp={"x": _softsign_vjp},
    avoid=(0.0,),
    method=False,
)
def softsign(x):
    """x / (1 + |x|)."""
    return x / (1.0 + s.abs_(x))


@composite(
    ref=lambda x: x - np.tanh(x),
    samples=lambda: (Sample((Array((3, 4)),)), Sample((Array(()),)), Sample((Array((2, 0)),))),
    method=False,
)
def tanhshrink(x):
    """x - tanh(x)."""
    return x - tanh(x)


# --- along a dim -------------------------------------------------------------------------------


def _np_glu(x: Any, dim: int) -> Any:
    a, b = np.split(x, 2, dim)
    return a * np_sigmoid(b)


@composite(
    ref=_np_glu,
    samples=lambda: (
        Sample((Array((3, 4)),), {"dim": -1}),
        Sample((Array((2, 3, 2)),), {"dim": 0}),
    ),
    failures=lambda: (
        Failure(
            (Array((2, 3)),), {"dim": 1}, ValueError, "glu: float64[2, 3] has 3 elements along"
        ),
        Failure((Array(()),), {"dim": -1}, ValueError, "glu: float64[] has no dim to halve"),
    ),
    method=False,
)
def glu(x, *, dim=-1):
    """The first half along a dim times the sigmoid of the second."""
    if not x.ndim:
        raise ValueError(f"glu: {describe(x)} has no dim to halve.")
    dim = normalize_dim("glu", dim, x.ndim)
    half, odd = divmod(x.shape[dim], 2)
    if odd:
        raise ValueError(
            f"glu: {describe(x)} has {x.shape[dim]} elements along dim {dim}; the number must be "
            f"even."
        )
    gate = slice_(x, dim=dim, start=half, stop=2 * half, step=1)
    return slice_(x, dim=dim, start=0, stop=half, step=1) * sigmoid(gate)


def _np_softmin(x: Any, dim: int) -> Any:
    e = np.exp(x.min(dim, keepdims=True) - x)
    return e / e.sum(dim, keepdims=True)


@composite(
    ref=_np_softmin,
    samples=lambda: (Sample((Array((3, 4)),), {"dim": 1}), Sample((Array((5,)),), {"dim": 0})),
    method=False,
    floating=True,
)
def softmin(x, *, dim):
    """exp(-x) / sum(exp(-x)) along a dim."""
    return softmax(-x, dim=dim)


add_dtype_parameter(softmin)


@public
def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """A sample of the distribution with these logits, relaxed to be differentiable.

    With `hard` it is one-hot, and its gradient is that of the soft sample. `eps` is unused, as in
    PyTorch.

    >>> import contraflow as cf
    >>> cf.nn.functional.gumbel_softmax(cf.zeros(2, 3), hard=True).sum(-1)
    tensor([1., 1.])
    """
    # -log(1 - u) is exponential, and minus its logarithm has Gumbel's distribution; u = 0 would
    # give infinity.
    u = clamp_min(rand(logits.shape, dtype=logits.dtype), 2.0**-25)
    exponential = -log1p(-u)
    soft: Tensor = softmax((logits - log(exponential)) / tau, dim=dim)
    if not hard:
        return soft
    dim = normalize_dim("gumbel_softmax", dim, soft.ndim)
    at = argmax(soft.detach(), dim=dim, keepdim=True)
    one = to_dtype(at >= 0, dtype=soft.dtype)
    one_hot = put_along_dim(one, at, dim=dim, size=soft.shape[dim])
    return one_hot - soft.detach() + soft
