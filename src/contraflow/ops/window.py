"""Windows: strided views that overlap, their transpose, and what is built of them.

A convolution is a contraction of a window view with the weight; pooling reduces a window view.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from contraflow import scalar as s
from contraflow.dtypes import int64
from contraflow.errors import describe
from contraflow.op import Array, Failure, Sample, composite, view, window
from contraflow.ops.index import constant_pad
from contraflow.ops.linalg import contract
from contraflow.ops.reduce import lowest, max_
from contraflow.ops.view import reshape
from contraflow.shapes import View
from contraflow.tensor import Tensor

Pair = tuple[int, int]


def _count(size: int, kernel: int, stride: int, dilation: int) -> int:
    return (size - dilation * (kernel - 1) - 1) // stride + 1


def _windows(view: View, kernel: Pair, stride: Pair, dilation: Pair) -> View:
    (*lead, height, width), (*steps, down, right), offset = view
    sizes = (height, width)
    if min(*stride, *dilation) < 1:
        raise ValueError(
            f"windows: stride {stride} and dilation {dilation} must be at least 1 in each dim."
        )
    out = tuple(_count(*args) for args in zip(sizes, kernel, stride, dilation))
    if min(out) < 1:
        raise ValueError(
            f"windows: a window of {kernel} with dilation {dilation} does not fit into {sizes}."
        )
    return View(
        (*lead, *kernel, *out),
        (*steps, down * dilation[0], right * dilation[1], down * stride[0], right * stride[1]),
        offset,
    )


@view(
    vjp={"x": lambda g, x_spec, kernel, stride, dilation: fold(
        g, kernel=kernel, stride=stride, dilation=dilation, size=x_spec.shape[-2:])},
    samples=lambda: (
        Sample((Array((2, 5, 6)),), {"kernel": (2, 3), "stride": (1, 2), "dilation": (1, 1)}),
        Sample((Array((6, 5)),), {"kernel": (2, 2), "stride": (1, 1), "dilation": (2, 1)}),
    ),
    failures=lambda: (
        Failure(
            (Array((2, 2)),), {"kernel": (3, 3), "stride": (1, 1), "dilation": (1, 1)}, ValueError,
            "windows: a window of (3, 3) with dilation (1, 1) does not fit into (2, 2).",
        ),
        Failure(
            (Array((2, 2)),), {"kernel": (1, 1), "stride": (0, 1), "dilation": (1, 1)}, ValueError,
            "windows: stride (0, 1) and dilation (1, 1) must be at least 1 in each dim.",
        ),
    ),
    method=False,
    linear=True,
)  # fmt: skip
def windows(x, *, kernel, stride, dilation):
    """All windows of the last two dims: [..., h, w] to [..., kh, kw, out_h, out_w]."""
    return _windows(x, kernel, stride, dilation)


def _fold_ref(x: np.ndarray, kernel: Pair, stride: Pair, dilation: Pair, size: Pair) -> np.ndarray:
    out = np.zeros((*x.shape[:-4], *size), x.dtype)
    rows, columns = x.shape[-2:]
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            top, left = i * dilation[0], j * dilation[1]
            down = slice(top, top + stride[0] * (rows - 1) + 1, stride[0])
            right = slice(left, left + stride[1] * (columns - 1) + 1, stride[1])
            out[..., down, right] += x[..., i, j, :, :]
    return out


def _fold_source(at: Any, x: Any, kernel: Pair, stride: Pair, dilation: Pair, size: Pair) -> Any:
    """Each element sums the windows that cover it, tap by tap in a fixed order."""
    *lead, y, z = at
    total = None
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            down, right = y - i * dilation[0], z - j * dilation[1]
            row, column = down // stride[0], right // stride[1]
            valid = (
                s.eq(row * stride[0], down) & s.eq(column * stride[1], right)
                & (row >= 0) & (row < x.shape[-2]) & (column >= 0) & (column < x.shape[-1])
            )  # fmt: skip
            tap = (*lead, s.const(i, int64), s.const(j, int64), row, column)
            term = x.where(valid, tap)
            total = term if total is None else total + term
    return total


@window(
    ref=_fold_ref,
    dtype="same",
    shape=lambda x, kernel, stride, dilation, size: (*x.shape[:-4], *size),
    source=_fold_source,
    vjp={"x": lambda g, kernel, stride, dilation: windows(
        g, kernel=kernel, stride=stride, dilation=dilation)},
    samples=lambda: (
        Sample((Array((2, 2, 3, 4, 2)),),
               {"kernel": (2, 3), "stride": (1, 2), "dilation": (1, 1), "size": (5, 6)}),
        Sample((Array((2, 2, 4, 4)),),
               {"kernel": (2, 2), "stride": (1, 1), "dilation": (2, 1), "size": (6, 5)}),
    ),
    method=False,
    linear=True,
)  # fmt: skip
def fold(x, *, kernel, stride, dilation, size):
    """The transpose of windows: overlapping windows added up."""


def _pair(value: Any) -> Pair:
    return (value, value) if isinstance(value, int) else (int(value[0]), int(value[1]))


def _padded(x: Tensor, padding: Pair, value: float) -> Tensor:
    if padding == (0, 0):
        return x
    pads = ((0, 0),) * (x.ndim - 2) + tuple((p, p) for p in padding)
    return constant_pad(x, value, pads=pads)


def _geometry(**given: Any) -> dict[str, Any]:
    return {name: _pair(v) for name, v in given.items()}


def _conv2d_ref(
    x: np.ndarray, weight: np.ndarray, bias: Any, stride: Pair, padding: Pair, dilation: Pair,
    groups: int,
) -> np.ndarray:  # fmt: skip
    x = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding)))
    out_channels, _, kh, kw = weight.shape
    rows = _count(x.shape[2], kh, stride[0], dilation[0])
    columns = _count(x.shape[3], kw, stride[1], dilation[1])
    out = np.zeros((x.shape[0], out_channels, rows, columns), np.result_type(x, weight))
    per_in, per_out = x.shape[1] // groups, out_channels // groups
    for o in range(out_channels):
        first = o // per_out * per_in
        for y in range(rows):
            for z in range(columns):
                top, left = y * stride[0], z * stride[1]
                patch = x[
                    :, first : first + per_in,
                    top : top + dilation[0] * (kh - 1) + 1 : dilation[0],
                    left : left + dilation[1] * (kw - 1) + 1 : dilation[1],
                ]  # fmt: skip
                out[:, o, y, z] = np.sum(patch * weight[o], axis=(1, 2, 3))
    return out if bias is None else out + bias.reshape(-1, 1, 1)


def _conv(stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> dict[str, Any]:
    return {**_geometry(stride=stride, padding=padding, dilation=dilation), "groups": groups}


@composite(
    ref=_conv2d_ref,
    samples=lambda: (
        Sample((Array((2, 3, 5, 6)), Array((4, 3, 3, 2)), Array((4,))), _conv(padding=1)),
        Sample((Array((1, 2, 6, 6)), Array((2, 2, 3, 3)), None), _conv(stride=2)),
        Sample(
            (Array((2, 4, 5, 5)), Array((6, 2, 2, 2)), Array((6,))), _conv(dilation=2, groups=2)
        ),
    ),
    failures=lambda: (
        Failure(
            (Array((1, 3, 5, 5)), Array((2, 4, 3, 3)), None), _conv(), ValueError,
            "conv2d: float64[1, 3, 5, 5] has 3 channels, but the weight float64[2, 4, 3, 3] with "
            "groups=1 needs 4.",
        ),
    ),
    normalize=lambda x, weight, bias, stride, padding, dilation, groups: _geometry(
        stride=stride, padding=padding, dilation=dilation),
    method=False,
    autocast="low",
)  # fmt: skip
def conv2d(x, weight, bias=None, *, stride=1, padding=0, dilation=1, groups=1):
    """Cross-correlation of images [n, c, h, w] with kernels [out, c / groups, kh, kw]."""
    if x.ndim != 4 or weight.ndim != 4:
        raise ValueError(f"conv2d: needs four dims, got {describe(x)} and {describe(weight)}.")
    n, channels = x.shape[:2]
    out_channels, per_group, kh, kw = weight.shape
    if channels != per_group * groups or out_channels % groups:
        raise ValueError(
            f"conv2d: {describe(x)} has {channels} channels, but the weight {describe(weight)} "
            f"with groups={groups} needs {per_group * groups}."
        )
    patches = windows(_padded(x, padding, 0.0), kernel=(kh, kw), stride=stride, dilation=dilation)
    if groups == 1:
        out = contract(patches, weight, spec="ncijyx,ocij->noyx")
    else:
        patches = reshape(patches, (n, groups, per_group, *patches.shape[2:]))
        kernels = reshape(weight, (groups, out_channels // groups, per_group, kh, kw))
        out = contract(patches, kernels, spec="ngcijyx,gocij->ngoyx")
        out = reshape(out, (n, out_channels, *out.shape[3:]))
    return out if bias is None else out + reshape(bias, (out_channels, 1, 1))


def _max_pool_ref(x: np.ndarray, kernel_size: Pair, stride: Pair, padding: Pair) -> np.ndarray:
    x = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding)), constant_values=-np.inf)
    rows = _count(x.shape[2], kernel_size[0], stride[0], 1)
    columns = _count(x.shape[3], kernel_size[1], stride[1], 1)
    out = np.empty((*x.shape[:2], rows, columns), x.dtype)
    for y in range(rows):
        for z in range(columns):
            top, left = y * stride[0], z * stride[1]
            out[..., y, z] = x[..., top : top + kernel_size[0], left : left + kernel_size[1]].max(
                (2, 3)
            )
    return out


@composite(
    ref=_max_pool_ref,
    samples=lambda: (
        Sample((Array((2, 3, 6, 6)),), _geometry(kernel_size=2, stride=2, padding=0)),
        Sample((Array((1, 2, 5, 5)),), _geometry(kernel_size=3, stride=2, padding=1)),
    ),
    normalize=lambda x, kernel_size, stride, padding: _geometry(
        kernel_size=kernel_size, stride=kernel_size if stride is None else stride, padding=padding),
    method=False,
)  # fmt: skip
def max_pool2d(x, *, kernel_size, stride=None, padding=0):
    """The largest element of each window; the gradient goes to the first of them."""
    patches = windows(
        _padded(x, padding, lowest(x.dtype)), kernel=kernel_size, stride=stride, dilation=(1, 1)
    )
    n, c, kh, kw, rows, columns = patches.shape
    values, _ = max_(reshape(patches, (n, c, kh * kw, rows, columns)), 2)
    return values
