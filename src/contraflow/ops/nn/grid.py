"""Grid sampling: images interpolated at given points, and grids of affine maps.

Points are PyTorch's: coordinates from -1 to 1, the last dim's first.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from contraflow.dtypes import int64
from contraflow.errors import describe
from contraflow.operation.kinds import composite
from contraflow.operation.samples import Array, Failure, Sample
from contraflow.ops.creation.data import tensor
from contraflow.ops.elementwise.activation import hardtanh
from contraflow.ops.elementwise.arithmetic import clamp
from contraflow.ops.elementwise.basic import where
from contraflow.ops.index.gather import gather
from contraflow.ops.nn.norm import wide
from contraflow.ops.reduction.reduce import require_floating
from contraflow.ops.shape.view import expand, reshape, select
from contraflow.shapes import contiguous_strides, numel
from contraflow.tensors.tensor import Tensor

# --- the points of an affine map -----------------------------------------------------------------


def _base_points(size: tuple[int, ...], align_corners: bool) -> np.ndarray:
    """Homogeneous coordinates of all pixels, [pixels, d + 1], the last dim's first."""
    lines = [np.linspace(-1.0, 1.0, n) if n > 1 else np.zeros(n) for n in size]
    if not align_corners:
        lines = [(2.0 * np.arange(n) + 1.0) / n - 1.0 for n in size]
    axes = np.meshgrid(*lines, indexing="ij")
    return np.stack([*(a.ravel() for a in reversed(axes)), np.ones(axes[0].size)], -1)


def _np_affine_grid(theta: Any, size: Any, align_corners: bool) -> Any:
    points = _base_points(tuple(size[2:]), align_corners) @ np.swapaxes(theta, -1, -2)
    return points.reshape(len(theta), *size[2:], len(size) - 2)


@composite(
    ref=_np_affine_grid,
    samples=lambda: (
        Sample((Array((2, 2, 3)),), {"size": (2, 1, 3, 4), "align_corners": False}),
        Sample((Array((1, 3, 4)),), {"size": (1, 2, 2, 1, 3), "align_corners": True}),
    ),
    failures=lambda: (
        Failure(
            (Array((2, 2, 2)),), {"size": (2, 1, 3, 4), "align_corners": False}, ValueError,
            "affine_grid: theta is float64[2, 2, 2]; for size [2, 1, 3, 4] it must be [2, 2, 3].",
        ),
    ),
    method=False,
    floating=True,
)  # fmt: skip
def affine_grid(theta, *, size, align_corners=False):
    """The grid [n, ..., d] for `grid_sample` of images of `size` under affine maps `theta`."""
    require_floating("affine_grid", theta)
    d = len(size) - 2
    if d not in (2, 3) or theta.shape != (size[0], d, d + 1):
        raise ValueError(
            f"affine_grid: theta is {describe(theta)}; for size {list(size)} it must be "
            f"{[size[0], d, d + 1]}."
        )
    base = tensor(_base_points(tuple(size[2:]), align_corners), dtype=theta.dtype)
    return reshape(base @ theta.mT, (size[0], *size[2:], d))


# --- images at points ----------------------------------------------------------------------------


def _pixel(at: Any, n: int, align_corners: bool) -> Any:
    """A coordinate in pixels: -1 and 1 are the centres of the outer ones, or their outer edges."""
    return (at + 1.0) * ((n - 1) / 2) if align_corners else ((at + 1.0) * n - 1.0) * 0.5


def _reflected(at: Any, n: int, align_corners: bool) -> Any:
    """A coordinate in pixels mirrored into the image as often as it takes."""
    low, span = (0.0, n - 1.0) if align_corners else (-0.5, float(n))
    if span == 0:
        return at * 0.0
    beyond = abs(at - low) % (2 * span)
    return low + span - abs(beyond - span)


def _inside(at: Any, n: int, padding_mode: str, align_corners: bool, limited: Any) -> Any:
    if padding_mode == "reflection":
        at = _reflected(at, n, align_corners)
    return at if padding_mode == "zeros" else limited(at, 0.0, n - 1.0)


def _cubic_weights(t: Any) -> list[Any]:
    """The weights of the four pixels around a point, t after the second: Keys, with a = -3/4."""
    a = -0.75
    far = [((a * d - 5 * a) * d + 8 * a) * d - 4 * a for d in (t + 1.0, 2.0 - t)]
    near = [((a + 2) * d - (a + 3)) * d * d + 1.0 for d in (t, 1.0 - t)]
    return [far[0], *near, far[1]]


def _taps(at: Tensor, n: int, mode: str, padding: str, align_corners: bool) -> list[Any]:
    """The pixels along one dim that a coordinate is made of, and their weights."""
    if mode == "bicubic":
        first = at.detach().floor()
        pixels = [_inside(first + (k - 1), n, padding, align_corners, hardtanh) for k in range(4)]
        return list(zip(pixels, _cubic_weights(at - first)))
    at = _inside(at, n, padding, align_corners, hardtanh)
    if padding != "zeros":  # what is nowhere reads the first pixel: PyTorch's
        at = where(at.isnan(), 0.0, at)
    if mode == "nearest":
        return [(at.detach().round(), where(at.isfinite(), at, 0.0) * 0.0 + 1.0)]
    first = at.detach().floor()
    return [(first, 1.0 - (at - first)), (first + 1.0, at - first)]


def _np_grid_sample(x: Any, grid: Any, mode: str, padding_mode: str, align_corners: Any) -> Any:
    """Point by point."""
    size, align = x.shape[2:], bool(align_corners)
    out = np.zeros((*x.shape[:2], *grid.shape[1:-1]), x.dtype)
    for n, *spot in np.ndindex(*grid.shape[:-1]):
        taps = []
        for length, coordinate in zip(size, grid[(n, *spot)][::-1]):
            at = _pixel(coordinate, length, align)
            if mode == "bicubic":
                first = np.floor(at)
                pixels = [
                    _inside(first + k - 1, length, padding_mode, align, np.clip) for k in range(4)
                ]
                taps.append(list(zip(pixels, _cubic_weights(at - first))))
                continue
            at = _inside(at, length, padding_mode, align, np.clip)
            near = [np.round(at)] if mode == "nearest" else [np.floor(at), np.floor(at) + 1]
            whole = mode == "nearest"
            taps.append([(pixel, 1.0 if whole else 1 - abs(at - pixel)) for pixel in near])
        for tap in itertools.product(*taps):
            pixel = tuple(int(p) for p, _ in tap)
            if all(0 <= p < length for p, length in zip(pixel, size)):
                weight = np.prod([w for _, w in tap])
                out[(n, slice(None), *spot)] += weight * x[(n, slice(None), *pixel)]
    return out


def _how(mode: str, padding_mode: str, align_corners: bool) -> dict[str, Any]:
    return {"mode": mode, "padding_mode": padding_mode, "align_corners": align_corners}


_IMAGES, _POINTS = Array((2, 3, 4, 5)), Array((2, 3, 2, 2), -1.3, 1.3)


@composite(
    ref=_np_grid_sample,
    samples=lambda: (
        Sample((_IMAGES, _POINTS), _how("bilinear", "zeros", False)),
        Sample((_IMAGES, _POINTS), _how("bilinear", "border", True)),
        Sample((Array((1, 2, 4, 5), -1.0, 1.0), Array((1, 2, 1, 2), -1.3, 1.3)),
               _how("bicubic", "reflection", False)),
        Sample((_IMAGES, _POINTS), _how("nearest", "zeros", True)),
        Sample((Array((1, 2, 3, 2, 4)), Array((1, 2, 1, 2, 3), -1.3, 1.3)),
               _how("bilinear", "reflection", True)),
    ),
    failures=lambda: (
        Failure((_IMAGES, Array((2, 3, 2, 3))), _how("bilinear", "zeros", False), ValueError,
                "grid_sample: float64[2, 3, 4, 5] cannot be sampled at float64[2, 3, 2, 3]; it"),
        Failure((_IMAGES, _POINTS), _how("cubic", "zeros", False), ValueError,
                "grid_sample: mode is 'cubic'; it must be one of bilinear, nearest, bicubic."),
        Failure((_IMAGES, _POINTS), _how("nearest", "wrap", False), ValueError,
                "grid_sample: padding_mode is 'wrap'; it must be one of zeros, border, reflection"),
        Failure((Array((1, 2, 3, 2, 4)), Array((1, 2, 1, 2, 3))), _how("bicubic", "zeros", False),
                ValueError, "grid_sample: mode 'bicubic' needs [n, c, h, w], not float64[1, 2, 3"),
    ),
    method=False,
    floating=True,
)  # fmt: skip
def grid_sample(x, grid, *, mode="bilinear", padding_mode="zeros", align_corners=None):
    """Images [n, c, ...] sampled at the points `grid` [n, ..., d], between pixels.

    `padding_mode` says what lies outside: zeros, the nearest pixel, or the image mirrored.
    """
    require_floating("grid_sample", x)
    for what, given, known in (
        ("mode", mode, ("bilinear", "nearest", "bicubic")),
        ("padding_mode", padding_mode, ("zeros", "border", "reflection")),
    ):
        if given not in known:
            listed = ", ".join(known)
            raise ValueError(f"grid_sample: {what} is {given!r}; it must be one of {listed}.")
    n, channels, *size = (*x.shape, 0, 0)[: max(x.ndim, 2)]
    if x.ndim not in (4, 5) or grid.ndim != x.ndim or grid.shape[-1] != len(size):
        raise ValueError(
            f"grid_sample: {describe(x)} cannot be sampled at {describe(grid)}; it needs points "
            f"[n, ..., d] for images [n, c, ...] of d = 2 or 3 sizes."
        )
    if grid.shape[0] != n or 0 in size:
        raise ValueError(
            f"grid_sample: {describe(x)} cannot be sampled at {describe(grid)}; both need the same "
            f"n, and the images at least one pixel."
        )
    if mode == "bicubic" and len(size) != 2:
        raise ValueError(f"grid_sample: mode 'bicubic' needs [n, c, h, w], not {describe(x)}.")
    align = bool(align_corners)
    count = numel(grid.shape[1:-1])
    points = reshape(wide(grid), (n, count, len(size)))
    along = [
        _taps(_pixel(select(points, 2, len(size) - 1 - d), length, align), length, mode,
              padding_mode, align)
        for d, length in enumerate(size)
    ]  # fmt: skip
    rows = reshape(wide(x), (n, channels, numel(size)))
    total = None
    for taps in itertools.product(*along):
        place, weight, valid = 0, 1.0, True
        for (pixel, share), length, stride in zip(taps, size, contiguous_strides(tuple(size))):
            valid = valid & ((pixel >= 0) & (pixel <= length - 1))
            place = place + clamp(pixel, 0.0, length - 1.0).to(int64) * stride
            weight = weight * share
        at = expand(reshape(place, (n, 1, count)), (n, channels, count))
        # Pixels outside are zeros, whose weight may be NaN.
        pixels = where(reshape(valid, (n, 1, count)), gather(rows, 2, at), 0.0)
        part = pixels * reshape(weight, (n, 1, count))
        total = part if total is None else total + part
    return reshape(total, (n, channels, *grid.shape[1:-1])).to(x.dtype)
