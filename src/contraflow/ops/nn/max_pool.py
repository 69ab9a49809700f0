"""Max pooling over one, two and three spatial dims.

Padding is never chosen, and the gradient goes to the element whose index is returned, the first of
the largest.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from contraflow import thresholds
from contraflow.dtypes import int32, int64
from contraflow.errors import describe
from contraflow.expressions import expression as s
from contraflow.operation.kinds import REDUCED, composite, index, reduction, window
from contraflow.operation.op import Op
from contraflow.operation.reference import add_at
from contraflow.operation.samples import Array, Failure, Sample
from contraflow.ops.creation.create import arange, zeros
from contraflow.ops.creation.data import tensor
from contraflow.ops.elementwise.basic import where
from contraflow.ops.index.gather import check_integers, gather, scatter_sum
from contraflow.ops.index.scatter import scatter
from contraflow.ops.nn.pool import np_adaptive, output_sizes, part_ends, pool_geometry
from contraflow.ops.nn.window import Pads, covering, np_windows, overlap, padded, windows
from contraflow.ops.reduction.reduce import lowest
from contraflow.ops.shape.view import reshape
from contraflow.shapes import Shape, contiguous_strides, numel, reduced_shape
from contraflow.tensors.tensor import Tensor

# --- windows -----------------------------------------------------------------------------------


def _first_largest(a: Any, i: Any, b: Any, j: Any) -> Any:
    """Of two (value, number) pairs the larger value, NaN largest of all, then the lower number."""
    larger, ties = b > a, s.eq(a, b)
    if a.dtype.is_floating_point:
        larger = (larger & ~s.isnan(a)) | (s.isnan(b) & ~s.isnan(a))
        ties = ties | (s.isnan(a) & s.isnan(b))
    take = larger | (ties & (j < i))
    return s.select(take, b, a), s.select(take, j, i)


def _largest_ref(x: np.ndarray, dim: Shape, keepdim: bool) -> Any:
    kept = tuple(d for d in range(x.ndim) if d not in dim)
    rows = x.transpose((*kept, *dim)).reshape(
        *(x.shape[d] for d in kept), numel(x.shape[d] for d in dim)
    )
    at = np.argmax(rows, -1)
    values = np.take_along_axis(rows, at[..., None], -1)[..., 0]
    shape = tuple(1 if d in dim else n for d, n in enumerate(x.shape))
    return (values.reshape(shape), at.reshape(shape)) if keepdim else (values, at)


def _to_number(
    g_values: Tensor | None, numbers: Tensor, x_spec: Any, dim: Shape, keepdim: bool
) -> Any:
    if g_values is None:
        return None
    kept = reduced_shape(x_spec.shape, dim, True)
    within = tuple(n if d in dim else 1 for d, n in enumerate(x_spec.shape))
    chosen = reshape(arange(numel(within)), within) == reshape(numbers, kept)
    return where(chosen, reshape(g_values, kept), 0.0)


# Pools differentiate these parts themselves; under vmap, gradients from outside go through parts.
@reduction(
    ref=_largest_ref,
    dtype="value_index",
    outs=("values", "numbers"),
    combine=_first_largest,
    vjp={"x": _to_number},
    start=lambda dtype: (lowest(dtype), int(np.iinfo(np.int64).max)),
    samples=lambda: (
        Sample((Array((2, 3, 4)),), {"dim": (0, 1), "keepdim": False}),
        Sample((Array((2, 3, 4)),), {"dim": (2,), "keepdim": True}),
    ),
    method=False,
    internal=True,
)
def first_largest(x, *, dim, keepdim=False):
    """The largest element over dims, and the row-major number of its first place within them."""
    return x, REDUCED


def _existing_source(
    at: Any, taps: Any, kernel: Shape, stride: Shape, dilation: Shape, pads: Pads
) -> Any:
    tap = result = taps[at]
    for window_, k, step, st, d, (before, _) in zip(
        at[-len(kernel) :], kernel, contiguous_strides(kernel), stride, dilation, pads
    ):
        if before:
            place = s.cast(window_ * st - before, tap.dtype) + tap // step % k * d
            result = result - s.select(place < 0, place // d, 0) * step
    return result


def _existing_ref(
    taps: np.ndarray, kernel: Shape, stride: Shape, dilation: Shape, pads: Pads
) -> np.ndarray:
    result = taps.copy()
    for dim, (k, step, st, d, (before, _)) in enumerate(
        zip(kernel, contiguous_strides(kernel), stride, dilation, pads), -len(kernel)
    ):
        window_ = np.arange(taps.shape[dim]).reshape(-1, *(1,) * (-1 - dim))
        place = window_ * st - before + taps // step % k * d
        result -= (np.minimum(place, 0) // d * step).astype(taps.dtype)
    return result


# Padding is met first only where all is -inf. Then the first element that exists is meant.
@index(
    ref=_existing_ref,
    dtype="same",
    shape=lambda taps, kernel, stride, dilation, pads: taps.shape,
    source=_existing_source,
    samples=lambda: (
        Sample((Array((2, 3, 3), 0, 4, int32),), {
            "kernel": (2, 2), "stride": (2, 2), "dilation": (2, 1), "pads": ((1, 1), (1, 0))}),
        Sample((Array((4,), 0, 4, int32),), {
            "kernel": (4,), "stride": (1,), "dilation": (2,), "pads": ((3, 0),)}),
    ),
    method=False,
    internal=True,
)  # fmt: skip
def existing_taps(taps, *, kernel, stride, dilation, pads):
    """Taps of windows, those on padding before the image moved to the first one within it."""


def _place_source(
    at: Any, taps: Any, size: Shape, kernel: Shape, stride: Shape, dilation: Shape, pads: Pads
) -> Any:
    tap, total = taps[at], None
    for window_, k, step, row, st, d, (before, _) in zip(
        at[-len(kernel) :], kernel, contiguous_strides(kernel), contiguous_strides(size), stride,
        dilation, pads,
    ):  # fmt: skip
        place = window_ * st - before + s.cast(tap // step % k * d, int64)
        term = place * s.Size(row)
        total = term if total is None else total + term
    return total


def _place_ref(
    taps: np.ndarray, size: Shape, kernel: Shape, stride: Shape, dilation: Shape, pads: Pads
) -> np.ndarray:
    n = len(kernel)
    total = np.zeros(taps.shape, np.int64)
    numbers_ = np.indices(taps.shape[-n:], np.int64, sparse=True)
    taken = np.unravel_index(taps, kernel)
    for window_, i, step, st, d, (before, _) in zip(
        numbers_, taken, contiguous_strides(size), stride, dilation, pads
    ):
        total += (window_ * st + i * d - before) * step
    return total


@index(
    ref=_place_ref,
    dtype="index",
    shape=lambda taps, size, kernel, stride, dilation, pads: taps.shape,
    source=_place_source,
    samples=lambda: (
        Sample((Array((2, 3, 3), 0, 4, int32),), {
            "size": (5, 5), "kernel": (2, 2), "stride": (2, 2), "dilation": (2, 1),
            "pads": ((1, 1), (1, 0))}),
        Sample((Array((4,), 0, 3, int32),), {
            "size": (8,), "kernel": (3,), "stride": (1,), "dilation": (1,), "pads": ((0, 0),)}),
    ),
    method=False,
    internal=True,
)  # fmt: skip
def tap_places(taps, *, size, kernel, stride, dilation, pads):
    """The row-major places, in images of `size`, that taps of windows stand for."""


def _put_source(
    at: Any, g_: Any, taps: Any, size: Shape, kernel: Shape, stride: Shape, dilation: Shape,
    pads: Pads,
) -> Any:  # fmt: skip
    """Each element sums over the windows that cover it and chose it."""
    n = len(kernel)
    choices = [
        list(covering(i + before if before else i, *window_))
        for i, (before, _), *window_ in zip(at[-n:], pads, kernel, stride, dilation, g_.shape[-n:])
    ]
    total = None
    for chosen in product(*choices):
        valids, own, numbers_ = zip(*chosen)
        valid, tap, here = valids[0], own[0] * numel(kernel[1:]), (*at[:-n], *numbers_)
        for v, i, step in zip(valids[1:], own[1:], contiguous_strides(kernel)[1:]):
            valid, tap = valid & v, tap + i * step
        took = s.eq(taps.where(valid, here), s.cast(tap, taps.dtype))
        term = g_.where(valid & took, here)
        total = term if total is None else total + term
    return total


def _put_ref(
    g_: np.ndarray, taps: np.ndarray, size: Shape, kernel: Shape, stride: Shape, dilation: Shape,
    pads: Pads,
) -> np.ndarray:  # fmt: skip
    n = len(size)
    lead = g_.shape[:-n]
    places = _place_ref(taps, size, kernel, stride, dilation, pads)
    zeros = np.zeros((numel(lead), numel(size)), g_.dtype)
    rows = np.arange(numel(lead))[:, None]
    flat = (numel(lead), numel(g_.shape[-n:]))
    out = add_at(zeros, (rows, places.reshape(flat)), g_.reshape(flat))
    return out.reshape(*lead, *size)


def _at_taps(x: Tensor, taps: Tensor, size: Shape, **geometry: Any) -> Tensor:
    """The elements of images that taps of windows stand for."""
    n = len(size)
    lead = x.shape[:-n]
    rows = reshape(x, (*lead, numel(size)))
    places = tap_places(taps, size=size, **geometry)
    at = reshape(places, (*lead, numel(taps.shape[-n:])))
    return reshape(gather(rows, -1, at), taps.shape)


_POOLED: dict[str, Any] = {
    "kernel": (2, 2),
    "stride": (1, 2),
    "dilation": (2, 1),
    "pads": ((0, 1), (1, 0)),
}


def _put_samples() -> Any:
    taps = np.array([[1, 0, 1], [3, 2, 1], [1, 3, 3], [1, 0, 1]], np.int32)
    yield Sample((Array((4, 3)), taps), {"size": (5, 5), **_POOLED})
    taps = np.array([[1, 1, 0], [2, 0, 1]], np.int32)
    params = {"kernel": (3,), "stride": (3,), "dilation": (1,), "pads": ((0, 0),), "size": (9,)}
    yield Sample((Array((2, 3)), taps), params)


# The gradient of max pooling as a sum over few windows, not a scatter: it fuses, and it repeats
# bit for bit.
@window(
    ref=_put_ref,
    dtype="same",
    shape=lambda g_, taps, size, kernel, stride, dilation, pads: (
        *g_.shape[: -len(size)], *size),
    source=_put_source,
    vjp={"g_": lambda g, taps, size, kernel, stride, dilation, pads: _at_taps(
        g, taps, size, kernel=kernel, stride=stride, dilation=dilation, pads=pads)},
    samples=_put_samples,
    method=False,
    internal=True,
    linear=True,
)  # fmt: skip
def put_windows(g_, taps, *, size, kernel, stride, dilation, pads):
    """One number per window put at its tap in images of `size`, zeros elsewhere."""


def _max_windows_x(
    g_values: Any, taps: Tensor, x_spec: Any, kernel: Shape, stride: Shape, dilation: Shape,
    pads: Pads,
) -> Any:  # fmt: skip
    if g_values is None:
        return None
    n, geometry = len(kernel), {"kernel": kernel, "stride": stride, "dilation": dilation}
    size = x_spec.shape[-n:]
    if overlap(**geometry) <= thresholds.written_terms:
        return put_windows(g_values, taps, size=size, pads=pads, **geometry)
    rows = (*g_values.shape[:-n], numel(taps.shape[-n:]))
    places = reshape(tap_places(taps, size=size, pads=pads, **geometry), rows)
    zeros = g_values.new_zeros((*rows[:-1], numel(size)))
    return reshape(zeros.scatter_add(-1, places, reshape(g_values, rows)), x_spec.shape)


def _max_windows_ref(
    x: np.ndarray, kernel: Shape, stride: Shape, dilation: Shape, pads: Pads
) -> Any:
    n = len(kernel)
    low = -np.inf if x.dtype.kind not in "biu" else int(np.iinfo(x.dtype).min)
    patches = np_windows(x, kernel, stride, dilation, pads, low)
    taps = patches.reshape(*patches.shape[:-n], numel(kernel)).argmax(-1).astype(np.int32)
    taps = _existing_ref(taps, kernel, stride, dilation, pads)
    return patches.max(tuple(range(-n, 0))), taps


@composite(
    ref=_max_windows_ref,
    outs=("values", "taps"),
    vjp={"x": _max_windows_x},
    samples=lambda: (
        Sample((Array((2, 5, 5)),), _POOLED),
        Sample((Array((2, 7)),), {
            "kernel": (3,), "stride": (2,), "dilation": (1,), "pads": ((1, 2),)}),
    ),
    method=False,
    internal=True,
)  # fmt: skip
def max_windows(x, *, kernel, stride, dilation, pads):
    """The largest element of each window of the last dims, and its tap; padding is never chosen."""
    n = len(kernel)
    patches = windows(
        padded(x, pads, lowest(x.dtype)), kernel=kernel, stride=stride, dilation=dilation
    )
    lead = x.ndim - n
    values, taps = first_largest(patches, dim=tuple(range(lead, lead + n)), keepdim=False)
    taps = taps.to(int32)
    if any(before for before, _ in pads):
        taps = existing_taps(taps, kernel=kernel, stride=stride, dilation=dilation, pads=pads)
    return values, taps


def _pooled(x: Tensor, return_indices: bool, **geometry: Any) -> Any:
    """The largest elements of windows, with their places where they are asked for."""
    values, taps = max_windows(x, **geometry)
    if not return_indices:
        return values
    return values, tap_places(taps, size=x.shape[-len(geometry["kernel"]) :], **geometry)


def _np_max_pool(
    n: int, x: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> Any:
    kernel, stride, dilation, pads = pool_geometry(
        "", x, n, kernel_size, stride, padding, dilation, ceil_mode
    )
    values, taps = _max_windows_ref(x, kernel, stride, dilation, pads)
    return values, _place_ref(taps, x.shape[-n:], kernel, stride, dilation, pads)


def _max_pool(n: int, samples: Any, failures: Any = None) -> Op:
    name = f"max_pool{n}d"

    def body(
        x, *, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False,
        return_indices=False,
    ):  # fmt: skip
        kernel, stride, dilation, pads = pool_geometry(
            name, x, n, kernel_size, stride, padding, dilation, ceil_mode
        )
        return _pooled(
            x, return_indices, kernel=kernel, stride=stride, dilation=dilation, pads=pads
        )

    def ref(
        x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False,
        return_indices=False,
    ):  # fmt: skip
        found = _np_max_pool(n, x, kernel_size, stride, padding, dilation, ceil_mode)
        return found if return_indices else found[0]

    body.__name__ = name
    body.__doc__ = (
        "The largest element of each window, and with `return_indices` its row-major index."
    )
    # By parts, of which one keeps the taps: otherwise backward would look for them again.
    return composite(
        ref=ref, samples=samples, failures=failures, method=False, by_parts=True
    )(body)  # fmt: skip


max_pool1d = _max_pool(
    1,
    lambda: (
        Sample((Array((2, 3, 7)),), {"kernel_size": 3, "stride": 2, "padding": 1}),
        Sample((Array((3, 8)),), {"kernel_size": 3, "ceil_mode": True, "return_indices": True}),
    ),
)
max_pool2d = _max_pool(
    2,
    lambda: (
        Sample((Array((2, 3, 6, 6)),), {"kernel_size": 2}),
        Sample((Array((1, 2, 5, 6)),),
               {"kernel_size": (3, 2), "stride": 2, "padding": 1, "return_indices": True}),
        Sample((Array((2, 6, 6)),),
               {"kernel_size": 2, "stride": 3, "dilation": 2, "ceil_mode": True}),
    ),
    lambda: (
        Failure((Array((2, 6)),), {"kernel_size": 2}, ValueError,
                "max_pool2d: float64[2, 6] has 2 dims; it needs [n, channels] or [channels], then"),
        Failure((Array((2, 6, 6)),), {"kernel_size": 2, "padding": 2}, ValueError,
                "max_pool2d: padding [2, 2] is more than half of a window of [2, 2]."),
        Failure((Array((2, 6, 6)),), {"kernel_size": 7}, ValueError,
                "max_pool2d: a window of [7, 7] with dilation [1, 1] does not fit into"),
        Failure((Array((2, 6, 6)),), {"kernel_size": 0}, ValueError,
                "max_pool2d: kernel_size is 0; it must be at least 1."),
        Failure((Array((2, 6, 6)),), {"kernel_size": 2, "stride": 0}, ValueError,
                "max_pool2d: stride is 0; it must be at least 1."),
    ),
)  # fmt: skip
max_pool3d = _max_pool(
    3,
    lambda: (
        Sample((Array((2, 2, 3, 4, 4)),),
               {"kernel_size": (1, 2, 2), "stride": 2, "padding": (0, 1, 0)}),
    ),
)  # fmt: skip


# --- back to where the elements were -------------------------------------------------------------


def _np_max_unpool(x: Any, indices: Any, size: Any) -> Any:
    outer = x.shape[: x.ndim - len(size)]
    out = np.zeros((int(np.prod(outer)), int(np.prod(size))), x.dtype)
    np.put_along_axis(out, indices.reshape(len(out), -1), x.reshape(len(out), -1), 1)
    return out.reshape(*outer, *size)


@composite(
    ref=_np_max_unpool,
    samples=lambda: (
        Sample((Array((2, 3, 2)), np.array([[[0, 3], [1, 2], [0, 2]]] * 2)), {"size": (4,)}),
        Sample((Array((1, 2, 2)), np.array([[[0, 3], [9, 11]]])), {"size": (3, 4)}),
    ),
    failures=lambda: (
        Failure(
            (Array((1, 2)), np.array([[0, 9]])), {"size": (4,)}, IndexError,
            "index 9 is out of range",
        ),
        Failure(
            (Array((1, 2)), np.array([[0]])), {"size": (4,)}, ValueError,
            "max_unpool: float64[1, 2] and its indices int64[1, 1] must have the same shape.",
        ),
    ),
    method=False,
    internal=True,
)  # fmt: skip
def max_unpool(x, indices, *, size):
    """Elements at their row-major indices of images of `size`, zeros elsewhere."""
    if x.shape != indices.shape:
        raise ValueError(
            f"max_unpool: {describe(x)} and its indices {describe(indices)} must have the same "
            f"shape."
        )
    check_integers("max_unpool", indices.spec)
    outer = x.shape[: x.ndim - len(size)]
    flat = zeros((numel(outer), numel(size)), dtype=x.dtype)
    rows = (numel(outer), numel(x.shape[len(outer) :]))
    placed = scatter(flat, 1, reshape(indices, rows).to(int64), reshape(x, rows))
    return reshape(placed, (*outer, *size))


# --- adaptive ----------------------------------------------------------------------------------


def _chosen(g_values: Any, indices: Tensor, rows_spec: Any) -> Any:
    if g_values is None:
        return None
    return scatter_sum(g_values, indices, dim=len(rows_spec.shape) - 1, shape=rows_spec.shape)


def _np_max_among(rows: Any, places: Any) -> Any:
    found = rows[..., places]
    at = found.argmax(-1)
    indices = np.take_along_axis(np.broadcast_to(places, found.shape), at[..., None], -1)[..., 0]
    return found.max(-1), indices


@composite(
    ref=_np_max_among,
    outs=("values", "indices"),
    vjp={"rows": _chosen},
    samples=lambda: (
        Sample((Array((2, 6)), np.array([[0, 1, 1], [1, 2, 3], [3, 5, 5]]))),
        Sample((Array((4,)), np.array([[0, 2], [1, 3]]))),
    ),
    method=False,
    internal=True,
)
def max_among(rows, places):
    """For each list of places the largest element of rows [..., m] there, and its place."""
    lead = (1,) * (rows.ndim - 1)
    at = reshape(places, (*lead, numel(places.shape))).expand(*rows.shape[:-1], -1)
    found = reshape(gather(rows, -1, at), (*rows.shape[:-1], *places.shape))
    values, taps = first_largest(found, dim=(found.ndim - 1,), keepdim=False)
    options = places.expand(found.shape)
    return values, reshape(gather(options, -1, reshape(taps, (*taps.shape, 1))), taps.shape)


def _flat_places(old: Shape, sizes: Shape) -> np.ndarray:
    """The row-major places of each window's elements; short windows repeat their last."""
    places = np.zeros((1, 1), np.int64)
    for m, out in zip(old, sizes):
        first, last = part_ends(m, out)
        width = int((last - first).max(initial=0)) + 1
        along = np.minimum(first[:, None] + np.arange(width), last[:, None])
        places = places[:, None, :, None] * m + along[None, :, None, :]
        places = places.reshape(numel(places.shape[:2]), numel(places.shape[2:]))
    return places


def _adaptive_max_pool(n: int, samples: Any, failures: Any = None) -> Op:
    name = f"adaptive_max_pool{n}d"

    def body(x, *, output_size, return_indices=False):
        sizes = output_sizes(name, x, n, output_size)
        lead, old = x.shape[:-n], x.shape[-n:]
        if all(m and size % m == 0 for size, m in zip(old, sizes)):
            kernel = tuple(size // m for size, m in zip(old, sizes))
            return _pooled(
                x, return_indices, kernel=kernel, stride=kernel, dilation=(1,) * n,
                pads=((0, 0),) * n,
            )  # fmt: skip
        rows = reshape(x, (*lead, numel(old)))
        values, indices = max_among(rows, tensor(_flat_places(old, sizes)))
        values = reshape(values, (*lead, *sizes))
        return (values, reshape(indices, (*lead, *sizes))) if return_indices else values

    def ref(x, output_size, return_indices=False):
        sizes = output_sizes("", x, n, output_size)
        values = np_adaptive(n, x, sizes, np.max)
        if not return_indices:
            return values
        rows = x.reshape(*x.shape[:-n], -1)
        indices = _np_max_among(rows, _flat_places(x.shape[-n:], sizes))[1]
        return values, indices.reshape(values.shape)

    body.__name__ = name
    body.__doc__ = "The largest elements of `output_size` windows that cover the spatial dims."
    return composite(ref=ref, samples=samples, failures=failures, method=False)(body)


adaptive_max_pool1d = _adaptive_max_pool(
    1, lambda: (Sample((Array((2, 3, 7)),), {"output_size": 3, "return_indices": True}),)
)
adaptive_max_pool2d = _adaptive_max_pool(
    2,
    lambda: (
        Sample((Array((2, 2, 4, 6)),), {"output_size": (2, 3), "return_indices": True}),
        Sample((Array((2, 5, 4)),), {"output_size": (None, 3)}),
    ),
)
adaptive_max_pool3d = _adaptive_max_pool(
    3, lambda: (Sample((Array((2, 3, 4, 5)),), {"output_size": (2, 2, 1)}),)
)
