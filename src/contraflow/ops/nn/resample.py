"""Resizing of images: weighted sums of a few elements along one dim after another.

Interpolation and uneven average pooling are separable and linear, and along one dim they are a
table: which elements an output takes, and with which weights. A `Grid` names such a table. The
transpose of a table is a table again, so one op serves every mode and every order of gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from contraflow import dtypes, thresholds
from contraflow.dtypes import int64
from contraflow.errors import describe
from contraflow.expressions import expression as s
from contraflow.operation.kinds import composite, index
from contraflow.operation.reference import carried
from contraflow.operation.samples import Array, Failure, Sample
from contraflow.ops.creation.data import tensor
from contraflow.ops.elementwise.basic import clone, to_dtype
from contraflow.ops.nn.norm import wide
from contraflow.ops.shape.view import permute, reshape
from contraflow.shapes import whole
from contraflow.tensors.tensor import Tensor

Table = tuple[np.ndarray, np.ndarray]  # elements [m, out], -1 for none, and their weights


class Grid(NamedTuple):
    """How `out` elements are made of `size`; `step` is the distance between them, if given."""

    mode: str
    size: int
    out: int
    step: float | None = None
    align_corners: bool = False
    transposed: bool = False

    def transpose(self) -> Grid:
        """The grid whose table is the transpose of this one's."""
        return self._replace(transposed=not self.transposed)


def _nearest(grid: Grid, centre: float) -> Table:
    # In float32, as PyTorch has it: which element is nearest must not depend on the dtype.
    step = np.float32(grid.size / grid.out if grid.step is None else grid.step)
    places = np.floor((np.arange(grid.out, dtype=np.float32) + np.float32(centre)) * step)
    at = np.minimum(places.astype(np.int64), grid.size - 1)
    return at[None], np.ones((1, grid.out))


def _places(grid: Grid) -> np.ndarray:
    """Where each output lies between the elements."""
    at = np.arange(grid.out)
    if grid.align_corners:
        return at * ((grid.size - 1) / (grid.out - 1) if grid.out > 1 else 0.0)
    step = grid.size / grid.out if grid.step is None else grid.step
    return (at + 0.5) * step - 0.5


def _linear(grid: Grid) -> Table:
    places = np.maximum(_places(grid), 0.0)
    low = np.minimum(places.astype(np.int64), grid.size - 1)
    high = np.minimum(low + 1, grid.size - 1)
    share = np.clip(places - low, 0.0, 1.0)
    return np.stack([low, high]), np.stack([1 - share, share])


def _cubic(grid: Grid) -> Table:
    places = _places(grid)
    low = np.floor(places)
    t = places - low
    a = -0.75  # PyTorch's choice of the slope

    def near(x: Any) -> Any:  # |x| <= 1
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Any) -> Any:  # 1 < |x| < 2
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    weights = np.stack([far(t + 1), near(t), near(1 - t), far(2 - t)])
    at = low.astype(np.int64) + np.arange(-1, 3)[:, None]
    return np.clip(at, 0, grid.size - 1), weights


def _smooth(grid: Grid, support: float, weigh: Any) -> Table:
    """A filter as wide as the step between outputs, where those are fewer: no aliases appear."""
    half = 0.5 if grid.align_corners else 0.0  # PyTorch's offsets, where the corners are aligned
    if grid.align_corners:
        step = (grid.size - 1) / (grid.out - 1) if grid.out > 1 else 0.0
    else:
        step = grid.size / grid.out if grid.step is None else grid.step
    width = max(step, 1.0)
    centre = step * (np.arange(grid.out) + 0.5 - half)
    start = np.maximum((centre - support * width + 0.5 + half).astype(np.int64), 0)
    end = np.minimum((centre + support * width + 0.5 + half).astype(np.int64), grid.size)
    at = start + np.arange(int((end - start).max(initial=1)))[:, None]
    inside = at < end
    weights = np.where(inside, weigh(np.abs(at - centre + 0.5 - half) / width), 0.0)
    return np.where(inside, at, -1), weights / weights.sum(0)


def _tent(x: np.ndarray) -> np.ndarray:
    return np.maximum(1.0 - x, 0.0)


def _cubic_filter(x: np.ndarray) -> np.ndarray:
    a = -0.5  # another slope than that of `_cubic`: PyTorch's here, and Pillow's
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x < 1, near, np.where(x < 2, far, 0.0))


def _area(grid: Grid) -> Table:
    i = np.arange(grid.out)
    start, end = i * grid.size // grid.out, -(-(i + 1) * grid.size // grid.out)
    width = int((end - start).max(initial=1))
    at = start + np.arange(width)[:, None]
    inside = at < end
    return np.where(inside, at, -1), np.where(inside, 1 / (end - start), 0.0)


_TABLES: dict[str, Any] = {
    "nearest": lambda grid: _nearest(grid, 0.0),
    "nearest-exact": lambda grid: _nearest(grid, 0.5),
    "linear": _linear,
    "cubic": _cubic,
    "area": _area,
    "smooth-linear": lambda grid: _smooth(grid, 1.0, _tent),
    "smooth-cubic": lambda grid: _smooth(grid, 2.0, _cubic_filter),
}


@lru_cache(maxsize=256)
def table(grid: Grid) -> Table:
    """The elements each output takes and their weights."""
    if not grid.transposed:
        found: Table = _TABLES[grid.mode](grid)
        return found
    at, weights = table(grid.transpose())
    out = np.broadcast_to(np.arange(at.shape[1]), at.shape)
    used = at >= 0
    source, target, weight = at[used], out[used], weights[used]
    order = np.lexsort((target, source))
    source, target, weight = source[order], target[order], weight[order]
    row = np.arange(len(source)) - np.searchsorted(source, source)  # its number among its equals
    rows = int(row.max(initial=0)) + 1
    places, shares = np.full((rows, grid.size), -1), np.zeros((rows, grid.size))
    places[row, source], shares[row, source] = target, weight
    return places, shares


def _along(x: Tensor, grid: Grid, dim: int) -> Tensor:
    at, weights = table(grid)
    if len(at) <= thresholds.gathered_terms:
        return weigh_along(x, tensor(at), tensor(weights, dtype=x.dtype), dim=dim, grid=grid)
    # A sum whose terms would be written out one by one: they are taken first, and then added up.
    shape = (*at.shape, *(1,) * (x.ndim - dim - 1))
    taken = x.index_select(dim, tensor(at.clip(0).reshape(-1))).unflatten(dim, at.shape)
    terms = taken * tensor(weights.reshape(shape), dtype=x.dtype)
    return terms.masked_fill(tensor(at.reshape(shape) < 0), 0.0).sum(dim)


def _weigh_ref(x: Any, places: Any, weights: Any, dim: int, grid: Grid) -> Any:
    out: Any = 0
    x = carried(x)
    shape = (-1, *(1,) * (x.ndim - dim - 1))
    for at, weight in zip(places, weights):
        term = np.take(x, np.maximum(at, 0), dim) * weight.reshape(shape)
        out = out + np.where((at >= 0).reshape(shape), term, np.zeros((), term.dtype))
    return out


def _weigh_source(at: Any, x: Any, places: Any, weights: Any, dim: int, grid: Grid) -> Any:
    total = None
    for row in range(table(grid)[0].shape[0]):
        k = s.const(row, int64)
        place = s.cast(places[k, at[dim]], int64)
        valid = (place >= 0) & (place < x.shape[dim])
        term = x.where(valid, (*at[:dim], place, *at[dim + 1 :]))
        term = s.cast(term, weights.dtype) * weights[k, at[dim]]
        total = term if total is None else total + term
    return total


def _weigh_types(inputs: Sequence[Any], params: Any) -> Any:
    x, _, weights = inputs
    dtype = dtypes.promote((x.dtype, weights.dtype), (), ())
    return (dtype, None, dtype), (dtype,)


def _weigh_samples() -> Any:
    grids = Grid("linear", 4, 6), Grid("area", 7, 3), Grid("cubic", 5, 4).transpose()
    for grid, shape, dim in zip(grids, ((2, 4), (7, 2), (4, 3)), (1, 0, 0)):
        yield Sample((Array(shape), *table(grid)), {"dim": dim, "grid": grid})


@index(
    ref=_weigh_ref,
    dtype=_weigh_types,
    shape=lambda x, places, weights, dim, grid: (
        *x.shape[:dim], places.shape[1], *x.shape[dim + 1 :]),
    source=_weigh_source,
    vjp={"x": lambda g, dim, grid: _along(g, grid.transpose(), dim)},
    samples=_weigh_samples,
    method=False,
    internal=True,
    linear=True,
)  # fmt: skip
def weigh_along(x, places, weights, *, dim, grid):
    """Weighed sums of a few elements along a dim, by the table of a grid."""


def resampled(x: Tensor, grids: Sequence[Grid]) -> Tensor:
    """The last dims resampled, each by its grid; half precision rounds once."""
    out = wide(x)
    for k, grid in enumerate(grids):
        out = _along(out, grid, x.ndim - len(grids) + k)
    return out.to(x.dtype)


# --- interpolate -------------------------------------------------------------------------------


_MODES = {  # the table along one dim, and how many spatial dims a mode is for
    "nearest": ("nearest", (1, 2, 3)),
    "nearest-exact": ("nearest-exact", (1, 2, 3)),
    "linear": ("linear", (1,)),
    "bilinear": ("linear", (2,)),
    "trilinear": ("linear", (3,)),
    "bicubic": ("cubic", (2,)),
    "area": ("area", (1, 2, 3)),
}


def _grids(
    x: Any, size: Any, scale_factor: Any, mode: str, align_corners: bool | None, recompute: Any,
    antialias: bool = False,
) -> list[Grid]:  # fmt: skip
    n = len(x.shape) - 2
    if mode not in _MODES or n not in _MODES[mode][1]:
        known = ", ".join(repr(name) for name, (_, dims) in _MODES.items() if n in dims)
        raise ValueError(
            f"interpolate: mode {mode!r} does not apply to {describe(x)}, which has {max(n, 0)} "
            f"spatial dims; it must be one of {known or 'none: three to five dims are needed'}."
        )
    along = _MODES[mode][0]
    if align_corners is not None and along not in ("linear", "cubic"):
        raise ValueError(f"interpolate: align_corners does not apply to mode {mode!r}.")
    if antialias:
        if mode not in ("bilinear", "bicubic"):
            raise ValueError(
                f"interpolate: antialias does not apply to mode {mode!r}; it must be 'bilinear' or "
                f"'bicubic'."
            )
        along = f"smooth-{along}"
    if (size is None) == (scale_factor is None):
        raise ValueError("interpolate: needs either size or scale_factor, and not both.")
    old = x.shape[2:]
    steps: list[float | None] = [None] * n
    given = scale_factor if size is None else size
    given = list(given) if isinstance(given, (tuple, list)) else [given] * n
    if len(given) != n:
        name = "scale_factor" if size is None else "size"
        raise ValueError(f"interpolate: {name} {given} does not name {n} spatial dims.")
    if size is None:
        sizes = [int(np.floor(m * factor)) for m, factor in zip(old, given)]
        if not recompute and along != "area":
            steps = [1.0 / factor for factor in given]
            # PyTorch forgets the factor where the size stays: along a dim in linear modes, and in
            # "nearest" of images, there also where it doubles.
            plain = {"linear": (1,), "nearest": (1, 2) if n == 2 else ()}.get(along, ())
            for dim, (m, out) in enumerate(zip(old, sizes)):
                if any(out == times * m for times in plain):
                    steps[dim] = None
    else:
        sizes = [whole("interpolate", "size", m) for m in given]
    if any(m < 1 for m in (*sizes, *old)):
        raise ValueError(f"interpolate: cannot make spatial sizes {sizes} of {describe(x)}.")
    return [
        Grid(along, m, out, step, bool(align_corners)) for m, out, step in zip(old, sizes, steps)
    ]


def _np_interpolate(
    x: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: Any = None, recompute_scale_factor: Any = None, antialias: bool = False,
) -> Any:  # fmt: skip
    grids = _grids(x, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)
    for k, grid in enumerate(grids):
        matrix = np.zeros((grid.out, grid.size))
        for places, weights in zip(*table(grid)):
            matrix[np.arange(grid.out), places] += weights
        x = np.moveaxis(np.moveaxis(x, k + 2, -1) @ matrix.T, -1, k + 2)
    return x


@composite(
    ref=_np_interpolate,
    samples=lambda: (
        Sample((Array((2, 2, 5)),), {"scale_factor": 1.7}),
        Sample((Array((1, 2, 3, 4)),), {"size": (5, 3), "mode": "bilinear", "align_corners": True}),
        Sample((Array((1, 1, 3, 4)),), {"scale_factor": (2.0, 1.5), "mode": "bicubic"}),
        Sample((Array((1, 1, 2, 3, 2)),), {"size": (3, 2, 4), "mode": "trilinear"}),
        Sample((Array((1, 2, 5, 4)),), {"size": 3, "mode": "area"}),
        Sample((Array((1, 1, 7, 6)),), {"size": (3, 8), "mode": "bilinear", "antialias": True}),
        Sample((Array((1, 1, 7, 5)),),
               {"scale_factor": 0.4, "mode": "bicubic", "antialias": True}),
    ),
    failures=lambda: (
        Failure((Array((1, 2, 5)),), {"size": 3, "mode": "bilinear"}, ValueError,
                "interpolate: mode 'bilinear' does not apply to float64[1, 2, 5], which has 1"),
        Failure((Array((1, 2, 5)),), {}, ValueError,
                "interpolate: needs either size or scale_factor, and not both."),
        Failure((Array((1, 2, 5)),), {"size": 3, "antialias": True}, ValueError,
                "interpolate: antialias does not apply to mode 'nearest'; it must be 'bilinear'"),
        Failure((Array((1, 2, 5)),), {"size": 3, "align_corners": True}, ValueError,
                "interpolate: align_corners does not apply to mode 'nearest'."),
        Failure((Array((1, 2, 5)),), {"size": (3, 3)}, ValueError,
                "interpolate: size [3, 3] does not name 1 spatial dims."),
        Failure((Array((1, 2, 5)),), {"size": 1.5}, TypeError,
                "interpolate: size must be an int, not 1.5."),
        Failure((Array((1, 2, 5)),), {"size": 0}, ValueError,
                "interpolate: cannot make spatial sizes [0] of float64[1, 2, 5]."),
    ),
    method=False,
)  # fmt: skip
def interpolate(
    x, *, size=None, scale_factor=None, mode="nearest", align_corners=None,
    recompute_scale_factor=None, antialias=False,
):  # fmt: skip
    """Images [n, c, ...] resized to `size`, or by `scale_factor`.

    With `antialias`, which is for the modes "bilinear" and "bicubic", an image that is made smaller
    is smoothed first.
    """
    grids = _grids(x, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)
    if not x.is_floating_point() and not mode.startswith("nearest"):
        x = to_dtype(x, dtype=dtypes.get_default_dtype())
    return resampled(x, grids)


# --- pixels and channels -----------------------------------------------------------------------


def _np_pixel_shuffle(x: Any, upscale_factor: int) -> Any:
    r = upscale_factor
    *lead, c, h, w = x.shape
    out = np.zeros((*lead, c // r**2, h * r, w * r), x.dtype)
    for i, j in np.ndindex(r, r):
        out[..., i::r, j::r] = x[..., i * r + j :: r * r, :, :]
    return out


def _no_shuffle(op: str, x: Tensor, needed: str) -> ValueError:
    return ValueError(f"{op}: {describe(x)} must be [..., c, h, w] with {needed}.")


@composite(
    ref=_np_pixel_shuffle,
    samples=lambda: (
        Sample((Array((2, 8, 2, 3)),), {"upscale_factor": 2}),
        Sample((Array((9, 1, 2)),), {"upscale_factor": 3}),
    ),
    failures=lambda: (
        Failure((Array((3, 2, 2)),), {"upscale_factor": 2}, ValueError,
                "pixel_shuffle: float64[3, 2, 2] must be [..., c, h, w] with c a multiple of 4."),
    ),
    method=False,
)  # fmt: skip
def pixel_shuffle(x, *, upscale_factor):
    """Channels rearranged into pixels: [..., c * r * r, h, w] to [..., c, h * r, w * r]."""
    r = upscale_factor
    if x.ndim < 3 or r < 1 or x.shape[-3] % (r * r):
        raise _no_shuffle("pixel_shuffle", x, f"c a multiple of {r * r}")
    *lead, channels, h, w = x.shape
    k = len(lead)
    parts = reshape(x, (*lead, channels // (r * r), r, r, h, w))
    moved = permute(parts, (*range(k), k, k + 3, k + 1, k + 4, k + 2))
    return _apart(x, reshape(moved, (*lead, channels // (r * r), h * r, w * r)))


def _apart(x: Tensor, out: Tensor) -> Tensor:
    """The rearranged tensor, in memory of its own even where nothing had to move."""
    copy: Tensor = clone(out) if out.storage is x.storage else out
    return copy


@composite(
    ref=lambda x, groups: np.swapaxes(
        x.reshape(x.shape[0], groups, -1, *x.shape[2:]), 1, 2
    ).reshape(x.shape),
    samples=lambda: (
        Sample((Array((2, 6, 3)),), {"groups": 2}),
        Sample((Array((1, 4, 2, 2)),), {"groups": 4}),
    ),
    failures=lambda: (
        Failure((Array((1, 4, 2)),), {"groups": 3}, ValueError,
                "channel_shuffle: float64[1, 4, 2] must be [n, c, ...] with c a multiple of 3."),
    ),
    method=False,
)  # fmt: skip
def channel_shuffle(x, *, groups):
    """Channels [n, c, ...] interleaved across groups."""
    if x.ndim < 3 or groups < 1 or x.shape[1] % groups:
        raise ValueError(
            f"channel_shuffle: {describe(x)} must be [n, c, ...] with c a multiple of {groups}."
        )
    n, channels, *size = x.shape
    dealt = reshape(x, (n, groups, channels // groups, *size))
    return _apart(x, reshape(permute(dealt, (0, 2, 1, *range(3, dealt.ndim))), x.shape))


def _np_pixel_unshuffle(x: Any, downscale_factor: int) -> Any:
    r = downscale_factor
    *lead, c, h, w = x.shape
    out = np.zeros((*lead, c * r**2, h // r, w // r), x.dtype)
    for i, j in np.ndindex(r, r):
        out[..., i * r + j :: r * r, :, :] = x[..., i::r, j::r]
    return out


@composite(
    ref=_np_pixel_unshuffle,
    samples=lambda: (
        Sample((Array((2, 2, 4, 6)),), {"downscale_factor": 2}),
        Sample((Array((1, 3, 6)),), {"downscale_factor": 3}),
    ),
    failures=lambda: (
        Failure((Array((1, 3, 4)),), {"downscale_factor": 2}, ValueError,
                "pixel_unshuffle: float64[1, 3, 4] must be [..., c, h, w] with h and w multiples"),
    ),
    method=False,
)  # fmt: skip
def pixel_unshuffle(x, *, downscale_factor):
    """Pixels rearranged into channels: [..., c, h * r, w * r] to [..., c * r * r, h, w]."""
    r = downscale_factor
    if x.ndim < 3 or r < 1 or x.shape[-2] % r or x.shape[-1] % r:
        raise _no_shuffle("pixel_unshuffle", x, f"h and w multiples of {r}")
    *lead, channels, h, w = x.shape
    k = len(lead)
    parts = reshape(x, (*lead, channels, h // r, r, w // r, r))
    moved = permute(parts, (*range(k), k, k + 2, k + 4, k + 1, k + 3))
    return _apart(x, reshape(moved, (*lead, channels * r * r, h // r, w // r)))
