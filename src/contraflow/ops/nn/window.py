"""Windows: strided views that overlap, and their transpose, over any number of spatial dims.

A convolution is a contraction of a window view with the weight (`conv.py`); pooling reduces a
window view (`pool.py`). Spatial dims come last, and every parameter has one number per spatial dim.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from contraflow import thresholds
from contraflow.dtypes import int64
from contraflow.errors import describe
from contraflow.expressions import expression as s
from contraflow.operation.kinds import composite, view, window
from contraflow.operation.reference import carried
from contraflow.operation.samples import Array, Failure, Sample
from contraflow.ops.creation.data import tensor
from contraflow.ops.index.gather import constant_pad
from contraflow.ops.shape.view import reshape, slice_
from contraflow.shapes import Shape, View, numel
from contraflow.tensors.tensor import Tensor

Pads = tuple[tuple[int, int], ...]  # (before, after) for each spatial dim


# --- geometry ----------------------------------------------------------------------------------


def numbers(op: str, name: str, value: Any, n: int, least: int = 0) -> Shape:
    """A parameter as one number per spatial dim; a single number counts for all of them."""
    given = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    given = given * n if len(given) == 1 else given
    whole = all(isinstance(v, (int, np.integer)) and not isinstance(v, bool) for v in given)
    if not whole or len(given) != n:
        raise TypeError(f"{op}: {name} is {value!r}; it must be an integer or {n} of them.")
    if any(v < least for v in given):
        raise ValueError(f"{op}: {name} is {value!r}; it must be at least {least}.")
    return tuple(map(int, given))


def extents(kernel: Shape, dilation: Shape) -> Shape:
    """The number of elements that a window spans, gaps of its dilation included."""
    return tuple(d * (k - 1) + 1 for k, d in zip(kernel, dilation))


def counts(sizes: Shape, kernel: Shape, stride: Shape, dilation: Shape) -> Shape:
    """The number of windows in each dim."""
    spans = extents(kernel, dilation)
    return tuple((n - span) // st + 1 for n, span, st in zip(sizes, spans, stride))


def reach(out: Shape, kernel: Shape, stride: Shape, dilation: Shape) -> Shape:
    """The sizes that just hold so many windows."""
    spans = extents(kernel, dilation)
    return tuple(st * (m - 1) + span for m, st, span in zip(out, stride, spans))


def check_fit(op: str, x: Any, sizes: Shape, kernel: Shape, dilation: Shape) -> None:
    """Refuse a window that is larger than what it slides over."""
    if any(n < span for n, span in zip(sizes, extents(kernel, dilation))):
        raise ValueError(
            f"{op}: a window of {list(kernel)} with dilation {list(dilation)} does not fit into "
            f"{describe(x)} with padding, {list(sizes)}."
        )


def padded(x: Tensor, pads: Pads, value: Any = 0.0) -> Tensor:
    """The last dims with a border of one value."""
    if not any(map(any, pads)):
        return x
    return constant_pad(x, value, pads=((0, 0),) * (x.ndim - len(pads)) + pads)


def cropped(x: Tensor, starts: Shape, sizes: Shape) -> Tensor:
    """A box of the last dims."""
    for dim, start, n in zip(range(x.ndim - len(sizes), x.ndim), starts, sizes):
        if x.shape[dim] != n:
            x = slice_(x, dim=dim, start=start, stop=start + n, step=1)
    return x


# --- the view and its transpose ----------------------------------------------------------------


@view(
    vjp={"x": lambda g, x_spec, kernel, stride, dilation: add_windows(
        g, kernel=kernel, stride=stride, dilation=dilation, size=x_spec.shape[-len(kernel):],
        start=(0,) * len(kernel))},
    samples=lambda: (
        Sample((Array((2, 7)),), {"kernel": (3,), "stride": (2,), "dilation": (1,)}),
        Sample((Array((2, 5, 6)),), {"kernel": (2, 3), "stride": (1, 2), "dilation": (1, 1)}),
        Sample((Array((6, 5)),), {"kernel": (2, 2), "stride": (1, 1), "dilation": (2, 1)}),
    ),
    failures=lambda: (
        Failure(
            (Array((2, 2)),), {"kernel": (3, 3), "stride": (1, 1), "dilation": (1, 1)}, ValueError,
            "windows: a window of [3, 3] with dilation [1, 1] does not fit into",
        ),
        Failure(
            (Array((2, 2)),), {"kernel": (1, 1), "stride": (0, 1), "dilation": (1, 1)}, ValueError,
            "windows: stride is (0, 1); it must be at least 1.",
        ),
    ),
    method=False,
    internal=True,
    linear=True,
)  # fmt: skip
def windows(x, *, kernel, stride, dilation):
    """All windows of the last dims: [..., h, w] to [..., kh, kw, out_h, out_w]."""
    n = len(kernel)
    sizes, steps = x.shape[-n:], x.strides[-n:]
    numbers("windows", "stride", stride, n, 1)
    if any(m < span for m, span in zip(sizes, extents(kernel, dilation))):
        raise ValueError(
            f"windows: a window of {list(kernel)} with dilation {list(dilation)} does not fit into "
            f"{list(sizes)}."
        )
    within = tuple(step * d for step, d in zip(steps, dilation))
    between = tuple(step * st for step, st in zip(steps, stride))
    return View(
        (*x.shape[:-n], *kernel, *counts(sizes, kernel, stride, dilation)),
        (*x.strides[:-n], *within, *between),
        x.offset,
    )


def _sum_windows_ref(
    x: Any, kernel: Shape, stride: Shape, dilation: Shape, size: Shape, start: Shape
) -> Any:
    n = len(kernel)
    whole = reach(x.shape[-n:], kernel, stride, dilation)
    whole = tuple(max(m, first + wanted) for m, first, wanted in zip(whole, start, size))
    out: Any = np.zeros((*x.shape[: -2 * n], *whole), carried(x[:0]).dtype)
    for tap in np.ndindex(kernel):
        starts = [i * d for i, d in zip(tap, dilation)]
        covered = [
            slice(first, first + st * (m - 1) + 1, st)
            for first, st, m in zip(starts, stride, x.shape[-n:])
        ]
        if numel(x.shape[-n:]):
            out[(..., *covered)] += x[(..., *tap, *(slice(None),) * n)]
    return out[(..., *(slice(first, first + m) for first, m in zip(start, size)))]


def covering(
    at: Any, kernel: int, stride: int, dilation: int, count: Any
) -> Iterator[tuple[Any, Any, Any]]:
    """For each window that may cover coordinate `at >= 0`: whether it does, its tap, its number.

    Goes through the taps of the kernel or through the windows around, whichever are fewer, so that
    a large window with as large a stride costs a single term.
    """
    span = dilation * (kernel - 1) + 1
    around = -(-span // stride)
    if around < kernel:
        for back in range(around):
            number = at // stride - back if back else at // stride
            offset = at % stride + back * stride
            tap = offset // dilation if dilation > 1 else offset
            valid = (number >= 0) & (number < count) if back else number < count
            if (back * stride + stride - 1) // dilation >= kernel:
                valid = valid & (tap < kernel)
            yield (valid if dilation == 1 else valid & s.eq(tap * dilation, offset)), tap, number
    else:
        for i in range(kernel):
            offset = at - i * dilation if i else at
            number = offset // stride if stride > 1 else offset
            valid = (number >= 0) & (number < count) if i else number < count
            valid = valid if stride == 1 else valid & s.eq(number * stride, offset)
            yield valid, s.const(i, int64), number


def _sum_windows_source(
    at: Any, x: Any, kernel: Shape, stride: Shape, dilation: Shape, size: Shape, start: Shape
) -> Any:
    """Each element sums the windows that cover it, in a fixed order."""
    n = len(kernel)
    lead = at[:-n]
    position = [i + first if first else i for i, first in zip(at[-n:], start)]
    choices = map(covering, position, kernel, stride, dilation, x.shape[-n:])
    total = None
    for chosen in product(*map(list, choices)):
        valids, taps, numbers_ = zip(*chosen)
        valid = valids[0]
        for v in valids[1:]:
            valid = valid & v
        term = x.where(valid, (*lead, *taps, *numbers_))
        total = term if total is None else total + term
    return total


@window(
    ref=_sum_windows_ref,
    dtype="same",
    shape=lambda x, kernel, stride, dilation, size, start: (*x.shape[: -2 * len(kernel)], *size),
    source=_sum_windows_source,
    vjp={"x": lambda g, x_spec, kernel, stride, dilation, start: windows(
        _placed(g, start, reach(x_spec.shape[-len(kernel):], kernel, stride, dilation)),
        kernel=kernel, stride=stride, dilation=dilation)},
    samples=lambda: (
        Sample((Array((2, 3, 3)),),
               {"kernel": (3,), "stride": (2,), "dilation": (1,), "size": (10,), "start": (0,)}),
        Sample((Array((2, 2, 3, 4, 2)),),
               {"kernel": (2, 3), "stride": (1, 2), "dilation": (1, 1), "size": (5, 6),
                "start": (0, 0)}),
        Sample((Array((2, 2, 4, 4)),),
               {"kernel": (2, 2), "stride": (1, 1), "dilation": (2, 1), "size": (4, 5),
                "start": (1, 0)}),
    ),
    method=False,
    internal=True,
    linear=True,
)  # fmt: skip
def sum_windows(x, *, kernel, stride, dilation, size, start):
    """The transpose of windows: overlapping windows added up; of the sum, `size` from `start`."""


def overlap(kernel: Shape, stride: Shape, dilation: Shape) -> int:
    """The largest number of windows that cover one element."""
    spans = extents(kernel, dilation)
    return numel(min(k, -(-span // st)) for k, span, st in zip(kernel, spans, stride))


def add_windows(
    x: Tensor, *, kernel: Shape, stride: Shape, dilation: Shape, size: Shape, start: Shape
) -> Tensor:
    """`sum_windows`, or where many windows overlap the same by scattering, dim after dim."""
    if overlap(kernel, stride, dilation) <= thresholds.written_terms:
        return sum_windows(
            x, kernel=kernel, stride=stride, dilation=dilation, size=size, start=start
        )
    n = len(kernel)
    out = x.shape[-n:]
    whole = reach(out, kernel, stride, dilation)
    whole = tuple(max(m, first + wanted) for m, first, wanted in zip(whole, start, size))
    lead = x.ndim - 2 * n
    for i in reversed(range(n)):
        dim = lead + 2 * i  # where the windows along spatial dim i are, once their taps are beside
        x = x.movedim(lead + i, dim).flatten(dim, dim + 1)
        places = np.arange(kernel[i])[:, None] * dilation[i] + np.arange(out[i]) * stride[i]
        target = x.new_zeros((*x.shape[:dim], whole[i], *x.shape[dim + 1 :]))
        x = target.index_add(dim, tensor(places.reshape(-1)), x)
    return cropped(x, start, size)


def _placed(x: Tensor, start: Shape, size: Shape) -> Tensor:
    """A box laid at `start` into zeros of `size`; what does not fit is cut off."""
    n = len(size)
    fitting = tuple(min(m, total - first) for m, first, total in zip(x.shape[-n:], start, size))
    rest = (total - first - m for m, first, total in zip(fitting, start, size))
    return padded(cropped(x, (0,) * n, fitting), tuple(zip(start, rest)))


# --- PyTorch's unfold and fold of images -------------------------------------------------------


def np_windows(
    x: Any, kernel: Shape, stride: Shape, dilation: Shape, pads: Pads, value: float = 0.0
) -> Any:
    """The windows of `windows`, by NumPy: [..., *out, *kernel]."""
    lead = x.ndim - len(kernel)
    x = np.pad(x, ((0, 0),) * lead + pads, constant_values=value)
    axes = tuple(range(lead, x.ndim))
    spans = extents(kernel, dilation)
    every: Any = np.lib.stride_tricks.sliding_window_view(x, spans, axes)
    steps = [slice(None, None, st) for st in (*stride, *dilation)]
    return every[(..., *steps)]


def _np_unfold(x: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    kernel, dilation, padding, stride = (
        numbers("unfold", "", v, 2) for v in (kernel_size, dilation, padding, stride)
    )
    out = np_windows(x, kernel, stride, dilation, tuple((p, p) for p in padding))
    out = np.moveaxis(out, (-4, -3), (-2, -1))
    *lead, channels = x.shape[:-2]
    return out.reshape(*lead, channels * numel(kernel), numel(out.shape[-2:]))


@composite(
    ref=_np_unfold,
    samples=lambda: (
        Sample((Array((2, 3, 5, 6)),),
               {"kernel_size": (2, 3), "dilation": 1, "padding": (1, 0), "stride": 2}),
        Sample((Array((2, 5, 5)),),
               {"kernel_size": 2, "dilation": 2, "padding": 0, "stride": 1}),
    ),
    failures=lambda: (
        Failure((Array((5, 5)),), {"kernel_size": 2}, ValueError,
                "unfold: float64[5, 5] must have 3 or 4 dims: [n, channels, h, w]."),
        Failure((Array((1, 2, 2)),), {"kernel_size": 3}, ValueError,
                "unfold: a window of [3, 3] with dilation [1, 1] does not fit into"),
        Failure((Array((1, 2, 2)),), {"kernel_size": (1, 1, 1)}, TypeError,
                "unfold: kernel_size is (1, 1, 1); it must be an integer or 2 of them."),
    ),
    method=False,
    internal=True,
)  # fmt: skip
def im2col(x, *, kernel_size, dilation=1, padding=0, stride=1):
    """The windows of images as columns: [n, c, h, w] to [n, c * taps, m]."""
    if x.ndim not in (3, 4):
        raise ValueError(f"unfold: {describe(x)} must have 3 or 4 dims: [n, channels, h, w].")
    kernel = numbers("unfold", "kernel_size", kernel_size, 2, 1)
    dilation = numbers("unfold", "dilation", dilation, 2, 1)
    stride = numbers("unfold", "stride", stride, 2, 1)
    pads = tuple((p, p) for p in numbers("unfold", "padding", padding, 2))
    sizes = tuple(n + 2 * p for n, (p, _) in zip(x.shape[-2:], pads))
    check_fit("unfold", x, sizes, kernel, dilation)
    found = windows(padded(x, pads), kernel=kernel, stride=stride, dilation=dilation)
    *lead, channels = x.shape[:-2]
    return reshape(found, (*lead, channels * numel(kernel), numel(found.shape[-2:])))


def _np_fold(
    x: Any, output_size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any
) -> Any:
    kernel, dilation, padding, stride, output = (
        numbers("fold", "", v, 2) for v in (kernel_size, dilation, padding, stride, output_size)
    )
    size = tuple(n + 2 * p for n, p in zip(output, padding))
    *lead, columns, _ = x.shape
    taps = x.reshape(
        *lead, columns // numel(kernel), *kernel, *counts(size, kernel, stride, dilation)
    )
    return _sum_windows_ref(taps, kernel, stride, dilation, output, padding)


@composite(
    ref=_np_fold,
    samples=lambda: (
        Sample((Array((2, 12, 6)),), {"output_size": (4, 5), "kernel_size": (2, 3), "dilation": 1,
                                      "padding": (1, 0), "stride": 2}),
        Sample((Array((4, 9)),), {"output_size": 5, "kernel_size": 2, "dilation": 2, "padding": 0,
                                  "stride": 1}),
    ),
    failures=lambda: (
        Failure((Array((2, 12, 4)),), {"output_size": 4, "kernel_size": 5}, ValueError,
                "fold: a window of [5, 5] with dilation [1, 1] does not fit into"),
        Failure((Array((2, 7, 4)),), {"output_size": 3, "kernel_size": 2}, ValueError,
                "fold: float64[2, 7, 4] must be [n, channels * 4, 4]: windows of [2, 2]"),
    ),
    method=False,
    internal=True,
)  # fmt: skip
def col2im(x, *, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """Columns summed into images, the transpose of unfold: [n, c * taps, m] to [n, c, h, w]."""
    output = numbers("fold", "output_size", output_size, 2, 1)
    kernel = numbers("fold", "kernel_size", kernel_size, 2, 1)
    dilation = numbers("fold", "dilation", dilation, 2, 1)
    stride = numbers("fold", "stride", stride, 2, 1)
    padding = numbers("fold", "padding", padding, 2)
    size = tuple(n + 2 * p for n, p in zip(output, padding))
    check_fit("fold", x, size, kernel, dilation)
    out = counts(size, kernel, stride, dilation)
    taps = numel(kernel)
    if x.ndim not in (2, 3) or x.shape[-2] % taps or x.shape[-1] != numel(out):
        raise ValueError(
            f"fold: {describe(x)} must be [n, channels * {taps}, {numel(out)}]: windows of "
            f"{list(kernel)} at {list(out)} places of {list(output)}."
        )
    columns = reshape(x, (*x.shape[:-2], x.shape[-2] // taps, *kernel, *out))
    return add_windows(
        columns, kernel=kernel, stride=stride, dilation=dilation, size=output, start=padding
    )
