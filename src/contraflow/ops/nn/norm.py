"""Normalisation: softmax along a dim, and the norms of layers.

All of them compute in float32 where the tensor is in half precision, and round once.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from contraflow import thresholds
from contraflow.contexts.applying import outside_graph
from contraflow.dtypes import HALVES, DType, float32, float64, promote
from contraflow.errors import describe
from contraflow.operation.binding import OneDim
from contraflow.operation.kinds import composite
from contraflow.operation.op import Op
from contraflow.operation.reference import BLOCK, add_up, calm
from contraflow.operation.samples import Array, Failure, Sample
from contraflow.ops.elementwise.basic import clone, exp, log, rsqrt, to_dtype, where
from contraflow.ops.nn.window import padded, windows
from contraflow.ops.reduction.reduce import amax, mean, moments, require_floating, sum_
from contraflow.ops.shape.view import expand, reshape
from contraflow.shapes import Shape, numel
from contraflow.tensors.tensor import Tensor


def wide(x: Any) -> Any:
    """In the dtype sums are formed in: float32 for half precision, else as it is."""
    return to_dtype(x, dtype=float32) if getattr(x, "dtype", None) in HALVES else x


def rounded(found: Tensor, *inputs: Any) -> Tensor:
    """A result of wide inputs, rounded once to the dtype that the inputs have together."""
    given = [x for x in inputs if isinstance(x, Tensor)]
    if found.dtype is not float32 or all(x.dtype not in HALVES for x in given):
        return found
    full, single = (
        tuple([x.dtype for x in given if bool(x.ndim) is dims]) for dims in (True, False)
    )
    return to_dtype(found, dtype=promote(full, single, ()))


# --- softmax -----------------------------------------------------------------------------------


def np_softmax(x: np.ndarray, dim: int) -> Any:
    """Softmax by NumPy, with the bits that its parts have."""
    if not x.size or not x.ndim:
        return np.exp(x - x)
    x = np.asarray(x, order="C")
    if x.size <= BLOCK:  # NumPy broadcasts these in three times the time in which it repeats them
        n = x.shape[dim]
        e = x - _largest(x, dim, None, None, True).repeat(n, dim)
        np.exp(e, e)
        return np.divide(e, _total(e, dim, None, None, True).repeat(n, dim), e)
    e = np.exp(x - _largest(x, dim, None, None, True))
    return np.divide(e, add_up(e, (dim,), True), e)


# By position they take their arguments, axis, dtype, out and keepdims, in less time.
_largest: Any = np.maximum.reduce
_total: Any = np.add.reduce


def _np_log_softmax(x: np.ndarray, dim: int) -> Any:
    if not x.size or not x.ndim:
        return x - x
    x, n = np.asarray(x, order="C"), x.shape[dim]
    largest = np.maximum.reduce(x, dim, keepdims=True)
    few = x.size <= BLOCK
    shifted = x - (largest.repeat(n, dim) if few else largest)
    total = np.log(add_up(np.exp(shifted), (dim,), True))
    return np.subtract(shifted, total.repeat(n, dim) if few else total, shifted)


def _softmax_samples() -> Any:
    yield Sample((Array((3, 4)),), {"dim": 1})
    yield Sample((Array((2, 3, 4)),), {"dim": 1})
    yield Sample((Array((5,)),), {"dim": 0})
    yield Sample((Array((2, 0)),), {"dim": 1})


def _softmax_failures(name: str) -> Any:
    return lambda: (
        Failure((Array((2,)),), {"dim": 1}, IndexError, f"{name}: dim 1 is out of range"),
    )


def _few(op: Op, x: Tensor, dim: int) -> Tensor | None:
    """The result for few elements outside of any graph, by the `ref` that has the bits of the
    parts; None for others, and for a dim that is out of range."""
    arrays = outside_graph((x,)) if x.dtype is float32 or x.dtype is float64 else None
    if arrays is None or not op.same_bits:
        return None
    (array,) = arrays
    if not array.ndim or not 0 < array.size < thresholds.eager_composite:
        return None
    try:
        return Tensor.of_array(calm.copy().run(op.ref, array, dim))  # type: ignore[arg-type]
    except (IndexError, ValueError):
        return None


def add_dtype_parameter(op: Op) -> None:
    """Give a function of one dim PyTorch's `dtype=`: the input is cast first."""

    @op.signature
    def call(x: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
        if dtype is None and type(dim) is int and isinstance(x, Tensor):
            made = _few(op, x, dim)
            if made is not None:
                return made
        out: Tensor = op.bind(x if dtype is None else x.to(dtype), dim)
        return out


@composite(
    ref=np_softmax,
    vjp={"x": lambda g, out, dim: out * (g - sum_(g * out, dim=dim, keepdim=True))},
    samples=_softmax_samples,
    failures=_softmax_failures("softmax"),
    normalize=OneDim("softmax"),
    autocast="float32",
    floating=True,
    same_bits=True,
)
def softmax(x, *, dim):
    """exp(x) / sum(exp(x)) along a dim."""
    require_floating("softmax", x)
    if 0 in x.shape:
        return clone(x)
    w = wide(x)
    e = exp(w - amax(w.detach(), dim=dim, keepdim=True))
    return (e / sum_(e, dim=dim, keepdim=True)).to(x.dtype)


@composite(
    ref=_np_log_softmax,
    vjp={"x": lambda g, out, dim: g - exp(out) * sum_(g, dim=dim, keepdim=True)},
    samples=_softmax_samples,
    failures=_softmax_failures("log_softmax"),
    normalize=OneDim("log_softmax"),
    autocast="float32",
    floating=True,
    same_bits=True,
)
def log_softmax(x, *, dim):
    """log(softmax(x)) along a dim, without forming small probabilities."""
    require_floating("log_softmax", x)
    if 0 in x.shape:
        return clone(x)
    w = wide(x)
    shifted = w - amax(w.detach(), dim=dim, keepdim=True)
    return (shifted - log(sum_(exp(shifted), dim=dim, keepdim=True))).to(x.dtype)


def _np_masked_softmax(x: Any, dim: int) -> Any:
    return np.where((x == -np.inf).all(dim, keepdims=True), 0.0, np_softmax(x, dim))


# A row that is masked throughout has no largest element to subtract, and sums to nothing.
@composite(
    ref=_np_masked_softmax,
    vjp={"x": lambda g, out, dim: out * (g - sum_(g * out, dim=dim, keepdim=True))},
    samples=lambda: (Sample((Array((2, 3)),), {"dim": 1}),),
    normalize=OneDim("masked_softmax"),
    method=False,
    internal=True,
    floating=True,
)
def masked_softmax(x, *, dim):
    """Softmax in which a row of nothing but -inf gives zeros."""
    require_floating("masked_softmax", x)
    w = wide(x)
    largest = amax(w.detach(), dim=dim, keepdim=True)
    e = exp(w - where(largest == float("-inf"), 0.0, largest))
    total = sum_(e, dim=dim, keepdim=True)
    return (e / where(total == 0, 1.0, total)).to(x.dtype)


add_dtype_parameter(softmax)
add_dtype_parameter(log_softmax)


# --- norms of layers ---------------------------------------------------------------------------


def _last_dims(name: str, x: Tensor, normalized_shape: Shape) -> Shape:
    k = len(normalized_shape)
    if not k or x.shape[x.ndim - k :] != tuple(normalized_shape):
        raise ValueError(
            f"{name}: {describe(x)} does not end in the normalized shape {list(normalized_shape)}."
        )
    return tuple(range(x.ndim - k, x.ndim))


def _as_shape(given: Any) -> Shape:
    return tuple(given) if isinstance(given, (tuple, list)) else (given,)


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
    floating=True,
)  # fmt: skip
def layer_norm(x, weight=None, bias=None, *, normalized_shape, eps=1e-5):
    """(x - mean) / sqrt(var + eps) over the last dims, then scaled and shifted."""
    require_floating("layer_norm", x)
    dims = _last_dims("layer_norm", x, normalized_shape)
    centred, centre, variance = moments(wide(x), dims)
    scale = rsqrt(variance + eps)
    out = centred * scale
    out = out if weight is None else out * weight
    return (out if bias is None else out + bias).to(x.dtype), centre, scale


@layer_norm.signature
def _layer_norm(
    x: Tensor, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Tensor:
    return layer_norm.bind(x, weight, bias, normalized_shape=_as_shape(normalized_shape), eps=eps)


def _np_rms_norm(x: Any, weight: Any, normalized_shape: Any, eps: float) -> Any:
    axes = tuple(range(x.ndim - len(normalized_shape), x.ndim))
    out = x / np.sqrt((x**2).mean(axes, keepdims=True) + eps)
    return out if weight is None else out * weight


def _rms_norm_x(g: Tensor, x: Tensor, weight: Any, scale: Tensor, normalized_shape: Any) -> Tensor:
    dims = tuple(range(x.ndim - len(normalized_shape), x.ndim))
    normal = x * scale
    g = g if weight is None else g * weight
    return scale * (g - normal * mean(g * normal, dim=dims, keepdim=True))


@composite(
    ref=_np_rms_norm,
    residuals=("scale",),
    vjp={"x": _rms_norm_x, "weight": lambda g, x, scale: g * (x * scale)},
    samples=lambda: (
        Sample((Array((3, 4)), Array((4,))), {"normalized_shape": (4,), "eps": 1e-5}),
        Sample((Array((2, 3, 4)), None), {"normalized_shape": (3, 4), "eps": 1e-3}),
    ),
    failures=lambda: (
        Failure((Array((3, 4)), None), {"normalized_shape": (3,), "eps": 1e-5}, ValueError,
                "rms_norm: float64[3, 4] does not end in the normalized shape [3]."),
    ),
    method=False,
    autocast="float32",
    floating=True,
)  # fmt: skip
def rms_norm(x, weight=None, *, normalized_shape, eps):
    """x / sqrt(mean(x * x) + eps) over the last dims, then scaled."""
    require_floating("rms_norm", x)
    dims = _last_dims("rms_norm", x, normalized_shape)
    w = wide(x)
    scale = rsqrt(mean(w * w, dim=dims, keepdim=True) + eps)
    out = w * scale
    return (out if weight is None else out * weight).to(x.dtype), scale


@rms_norm.signature
def _rms_norm(
    x: Tensor, normalized_shape: Any, weight: Any = None, eps: float | None = None
) -> Tensor:
    if eps is None:  # the distance from 1 to the next number, of the dtype computed in
        require_floating("rms_norm", x)
        eps = float(np.finfo(x.dtype.compute.numpy).eps)
    return rms_norm.bind(x, weight, normalized_shape=_as_shape(normalized_shape), eps=eps)


def _np_standardize(x: Any, dim: Shape, eps: float) -> Any:
    variance = x.var(dim, keepdims=True)
    centre = x.mean(dim, keepdims=True)
    return (x - centre) / np.sqrt(variance + eps), centre, variance


def _standardize_x(
    g_out: Any, g_centre: Any, g_variance: Any, out: Tensor, variance: Tensor, dim: Shape,
    eps: float,
) -> Any:  # fmt: skip
    n = numel(out.shape[d] for d in dim)
    scale = rsqrt(variance + eps)
    total: Any = None
    if g_out is not None:
        along = mean(g_out * out, dim=dim, keepdim=True)
        total = scale * (g_out - mean(g_out, dim=dim, keepdim=True) - out * along)
    if g_centre is not None:
        even = expand(g_centre / n, out.shape)
        total = even if total is None else total + even
    if g_variance is not None:  # the deviations are out / scale
        outward = out * (g_variance * (2.0 / n) / scale)
        total = outward if total is None else total + outward
    return total


def _standardize_again(
    g_out: Any, g_centre: Any, g_variance: Any, x: Tensor, centre: Tensor, variance: Tensor,
    dim: Shape, eps: float,
) -> Any:  # fmt: skip
    out = ((wide(x) - centre) * rsqrt(variance + eps)).to(x.dtype)
    return _standardize_x(g_out, g_centre, g_variance, out, variance, dim, eps)


def _standardizing(vjp: Any) -> Any:
    """The decorator of both ways to standardize, which differ in what they keep."""
    return composite(
        ref=_np_standardize,
        outs=("out", "centre", "variance"),
        vjp={"x": vjp},
        samples=lambda: (
            Sample((Array((3, 2, 4)),), {"dim": (0, 2), "eps": 1e-5}),
            Sample((Array((2, 6)),), {"dim": (1,), "eps": 1e-3}),
        ),
        method=False,
        internal=True,
        floating=True,
    )


@_standardizing(_standardize_x)
def standardize(x, *, dim, eps):
    """(x - mean) / sqrt(var + eps) over dims, and the mean and biased variance, dims kept."""
    require_floating("standardize", x)
    centred, centre, variance = moments(wide(x), dim)
    return (centred * rsqrt(variance + eps)).to(x.dtype), centre, variance


# Without scale and shift the result is not kept, and may be overwritten: relu_ after a norm.
@_standardizing(_standardize_again)
def standardize_alone(x, *, dim, eps):
    """The same, which keeps what it was given and not what it gives."""
    return standardize.body(x, dim=dim, eps=eps)


def standardized(x: Tensor, dim: Shape, eps: float, scaled: bool) -> Any:
    """The standardized tensor, the mean and the variance; `scaled` if an affine map follows."""
    return (standardize if scaled else standardize_alone)(x, dim=dim, eps=eps)


def per_channel(name: str, x: Tensor, *given: Tensor | None) -> list[Tensor | None]:
    """Tensors [channels] laid against dim 1 of x."""
    for t in given:
        if t is not None and t.shape != (x.shape[1],):
            raise ValueError(
                f"{name}: {describe(t)} does not fit the {x.shape[1]} channels of {describe(x)}."
            )
    shape = (x.shape[1], *(1,) * (x.ndim - 2))
    return [None if t is None else reshape(t, shape) for t in given]


def affine(out: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """out * weight + bias, of those that are given, in the dtype of `out`."""
    dtype = out.dtype
    out = out if weight is None else out * weight
    return (out if bias is None else out + bias).to(dtype)


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
    failures=lambda: (
        Failure(
            (Array((3, 2)), Array((3,)), Array((3,)), None, None), {}, ValueError,
            "batch_norm: float64[3] does not fit the 2 channels of float64[3, 2].",
        ),
    ),
    method=False,
    internal=True,
    floating=True,
)  # fmt: skip
def normalize_channels(x, centre, variance, weight=None, bias=None, *, eps=1e-5):
    """(x - centre) / sqrt(variance + eps) per channel (dim 1), then scaled and shifted."""
    require_floating("batch_norm", x)
    centre, variance, weight, bias = per_channel("batch_norm", x, centre, variance, weight, bias)
    return affine((wide(x) - centre) * rsqrt(variance + eps), weight, bias).to(x.dtype)


def _np_group_norm(x: Any, weight: Any, bias: Any, num_groups: int, eps: float = 1e-5) -> Any:
    rows = x.reshape(x.shape[0], num_groups, -1)
    out = _np_standardize(rows, (2,), eps)[0].reshape(x.shape)
    shape = (1, -1) + (1,) * (x.ndim - 2)
    out = out if weight is None else out * weight.reshape(shape)
    return out if bias is None else out + bias.reshape(shape)


@composite(
    ref=_np_group_norm,
    samples=lambda: (
        Sample((Array((2, 4, 3)), Array((4,)), Array((4,))), {"num_groups": 2}),
        Sample((Array((2, 3, 2, 2)), None, None), {"num_groups": 1, "eps": 1e-3}),
    ),
    failures=lambda: (
        Failure((Array((2, 4)), None, None), {"num_groups": 3}, ValueError,
                "group_norm: the 4 channels of float64[2, 4] do not divide into 3 groups."),
        Failure((Array((4,)), None, None), {"num_groups": 2}, ValueError,
                "group_norm: float64[4] has no channels: it needs [n, channels, ...]."),
        Failure((Array((2, 4)), Array((3,)), None), {"num_groups": 2}, ValueError,
                "group_norm: float64[3] does not fit the 4 channels of float64[2, 4]."),
    ),
    method=False,
    autocast="float32",
    floating=True,
)  # fmt: skip
def group_norm(x, weight=None, bias=None, *, num_groups, eps=1e-5):
    """(x - mean) / sqrt(var + eps) over groups of channels and all spatial dims of a sample."""
    require_floating("group_norm", x)
    if x.ndim < 2:
        raise ValueError(
            f"group_norm: {describe(x)} has no channels: it needs [n, channels, ...]."
        )  # fmt: skip
    n, channels = x.shape[:2]
    if num_groups < 1 or channels % num_groups:
        raise ValueError(
            f"group_norm: the {channels} channels of {describe(x)} do not divide into "
            f"{num_groups} groups."
        )
    weight, bias = per_channel("group_norm", x, weight, bias)
    rows = reshape(x, (n, num_groups, channels // num_groups * numel(x.shape[2:])))
    out, _, _ = standardized(rows, (2,), eps, weight is not None or bias is not None)
    return affine(reshape(out, x.shape), weight, bias)


@group_norm.signature
def _group_norm(
    x: Tensor, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Tensor:
    return group_norm.bind(x, weight, bias, num_groups=num_groups, eps=eps)


def _np_local_response_norm(x: Any, size: int, alpha: float, beta: float, k: float) -> Any:
    channels = x.shape[1]
    squares = np.stack(
        [
            (x[:, max(0, c - size // 2) : c + (size - 1) // 2 + 1] ** 2).sum(1)
            for c in range(channels)
        ],
        1,
    )
    return x / (k + alpha * squares / size) ** beta


@composite(
    ref=_np_local_response_norm,
    samples=lambda: (
        Sample((Array((2, 4, 3)),), {"size": 2, "alpha": 0.5, "beta": 0.75, "k": 1.0}),
        Sample((Array((1, 3, 2, 2)),), {"size": 3, "alpha": 0.1, "beta": 0.5, "k": 2.0}),
    ),
    failures=lambda: (
        Failure((Array((2, 4)),), {"size": 2}, ValueError,
                "local_response_norm: float64[2, 4] needs three dims or more: [n, channels, ...]."),
    ),
    method=False,
    floating=True,
)  # fmt: skip
def local_response_norm(x, *, size, alpha=1e-4, beta=0.75, k=1.0):
    """x / (k + alpha * mean of the squares of `size` neighbouring channels) ** beta."""
    require_floating("local_response_norm", x)
    if x.ndim < 3:
        raise ValueError(
            f"local_response_norm: {describe(x)} needs three dims or more: [n, channels, ...]."
        )
    size = operator.index(size)
    if size < 1:
        raise ValueError(f"local_response_norm: size is {size}; it must be positive.")
    n, channels = x.shape[:2]
    squares = reshape(x * x, (n, channels, numel(x.shape[2:])))
    around = windows(
        padded(squares, ((size // 2, (size - 1) // 2), (0, 0))),
        kernel=(size, 1), stride=(1, 1), dilation=(1, 1),
    )  # fmt: skip
    near = reshape(mean(around, dim=(1, 2)), x.shape)
    return x / (near * alpha + k) ** beta
