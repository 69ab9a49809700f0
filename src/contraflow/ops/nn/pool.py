"""Pooling over one, two and three spatial dims: window views reduced to means.

Average pooling counts padding or not, as PyTorch does. Max pooling is in `max_pool.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from contraflow.errors import describe
from contraflow.operation.kinds import composite
from contraflow.operation.op import Op
from contraflow.operation.samples import Array, Failure, Sample
from contraflow.ops.creation.data import tensor
from contraflow.ops.elementwise.basic import where
from contraflow.ops.nn.norm import wide
from contraflow.ops.nn.resample import Grid, resampled
from contraflow.ops.nn.window import Pads, check_fit, extents, np_windows, numbers, padded, windows
from contraflow.ops.reduction.reduce import mean, require_floating
from contraflow.ops.shape.view import reshape
from contraflow.shapes import Shape, numel
from contraflow.tensors.tensor import Tensor


def _check_dims(op: str, x: Tensor, n: int) -> None:
    if x.ndim not in (n + 1, n + 2):
        raise ValueError(
            f"{op}: {describe(x)} has {x.ndim} dims; it needs [n, channels] or [channels], then "
            f"{n} spatial dims."
        )


def pool_geometry(
    op: str, x: Tensor, n: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool,
) -> tuple[Shape, Shape, Shape, Pads]:  # fmt: skip
    """Kernel, stride and dilation, and a padding that gives exactly the windows asked for."""
    _check_dims(op, x, n)
    kernel = numbers(op, "kernel_size", kernel_size, n, 1)
    stride = kernel if stride in (None, ()) else numbers(op, "stride", stride, n, 1)
    dilation = numbers(op, "dilation", dilation, n, 1)
    padding = numbers(op, "padding", padding, n)
    spans = extents(kernel, dilation)
    if any(p > span // 2 for p, span in zip(padding, spans)):
        raise ValueError(
            f"{op}: padding {list(padding)} is more than half of a window of {list(spans)}."
        )
    pads = []
    for size, span, st, p in zip(x.shape[-n:], spans, stride, padding):
        free = size + 2 * p - span
        count = free // st + 1
        # A window more may hang over the end, unless it would start in the padding there.
        if ceil_mode and free % st and count * st < size + p:
            count += 1
        pads.append((p, max(p, (count - 1) * st + span - size - p)))
    sizes = tuple(size + sum(pad) for size, pad in zip(x.shape[-n:], pads))
    check_fit(op, x, sizes, kernel, dilation)
    return kernel, stride, dilation, tuple(pads)


# --- average -----------------------------------------------------------------------------------


def _shares(
    size: int, kernel: int, stride: int, padding: int, count: int, include: bool
) -> np.ndarray:
    """How many elements each window along a dim counts."""
    starts = np.arange(count) * stride - padding
    if include:  # what hangs over the end beyond the padding never counts
        return np.minimum(starts + kernel, size + padding) - starts
    return np.minimum(starts + kernel, size) - np.maximum(starts, 0)


def _average(
    op: str, n: int, x: Tensor, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool,
    count_include_pad: bool, divisor: int | None,
) -> Tensor:  # fmt: skip
    kernel, stride, dilation, pads = pool_geometry(
        op, x, n, kernel_size, stride, padding, 1, ceil_mode
    )
    require_floating(op, x)
    if 0 in x.shape[-n:]:
        raise ValueError(f"{op}: {describe(x)} has no elements to pool.")
    if divisor == 0:
        raise ValueError(f"{op}: divisor_override is 0.")
    patches = windows(padded(x, pads), kernel=kernel, stride=stride, dilation=dilation)
    lead = x.ndim - n
    out = mean(patches, dim=tuple(range(lead, lead + n)))
    if divisor is not None:
        return out * (numel(kernel) / divisor)
    for dim, k, st, (before, _) in zip(range(lead, x.ndim), kernel, stride, pads):
        shares = _shares(x.shape[dim], k, st, before, out.shape[dim], count_include_pad)
        if np.any(shares != k):
            share = tensor(k / shares, dtype=out.dtype)
            out = out * reshape(share, (len(shares), *(1,) * (x.ndim - 1 - dim)))
    return out


def _np_average(
    n: int, x: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool,
    count_include_pad: bool, divisor: int | None,
) -> Any:  # fmt: skip
    """Window by window, as PyTorch's loop has it."""
    kernel, stride, _, pads = pool_geometry("", x, n, kernel_size, stride, padding, 1, ceil_mode)
    sizes = x.shape[-n:]
    out = np_windows(x, kernel, stride, (1,) * n, pads).sum(tuple(range(-n, 0)))
    for at in np.ndindex(out.shape[-n:]):
        starts = [i * st - p for i, st, (p, _) in zip(at, stride, pads)]
        ends = [min(start + k, m + p) for start, k, m, (p, _) in zip(starts, kernel, sizes, pads)]
        if not count_include_pad:
            starts = [max(start, 0) for start in starts]
            ends = [min(end, m) for end, m in zip(ends, sizes)]
        count = numel(end - start for start, end in zip(starts, ends))
        out[(..., *at)] /= count if divisor is None else divisor
    return out


def _avg_pool(n: int, samples: Any, failures: Any = None) -> Op:
    name = f"avg_pool{n}d"
    if n == 1:  # PyTorch has no divisor here

        def body(
            x, *, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True
        ):
            return _average(
                name, n, x, kernel_size, stride, padding, ceil_mode, count_include_pad, None
            )

    else:

        def body(  # type: ignore[misc]
            x, *, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
            divisor_override=None,
        ):  # fmt: skip
            return _average(
                name, n, x, kernel_size, stride, padding, ceil_mode, count_include_pad,
                divisor_override,
            )  # fmt: skip

    def ref(
        x, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
        divisor_override=None,
    ):  # fmt: skip
        return _np_average(
            n, x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        )

    body.__name__ = name
    body.__doc__ = "The mean of each window; `count_include_pad` says whether padding counts."
    return composite(ref=ref, samples=samples, failures=failures, method=False, floating=True)(body)


avg_pool1d = _avg_pool(
    1,
    lambda: (
        Sample((Array((2, 3, 7)),), {"kernel_size": 3, "stride": 2, "padding": 1}),
        Sample((Array((3, 8)),),
               {"kernel_size": 3, "padding": 1, "ceil_mode": True, "count_include_pad": False}),
    ),
    lambda: (
        Failure((Array((3, 0)),), {"kernel_size": 3, "padding": 1, "ceil_mode": True}, ValueError,
                "avg_pool1d: float64[3, 0] has no elements to pool."),
    ),
)  # fmt: skip
avg_pool2d = _avg_pool(
    2,
    lambda: (
        Sample((Array((2, 3, 6, 6)),), {"kernel_size": 2}),
        Sample((Array((2, 5, 6)),),
               {"kernel_size": (3, 2), "stride": 2, "padding": 1, "ceil_mode": True}),
        Sample((Array((1, 5, 5)),), {"kernel_size": 3, "padding": 1, "divisor_override": 5}),
    ),
    lambda: (
        Failure((Array((2, 6, 6)),), {"kernel_size": 2, "divisor_override": 0}, ValueError,
                "avg_pool2d: divisor_override is 0."),
        Failure((Array((2, 6, 6)),), {"kernel_size": 2, "padding": 2}, ValueError,
                "avg_pool2d: padding [2, 2] is more than half of a window of [2, 2]."),
    ),
)  # fmt: skip
avg_pool3d = _avg_pool(
    3, lambda: (Sample((Array((2, 2, 3, 4, 4)),), {"kernel_size": 2, "stride": (1, 2, 2)}),)
)


def _lp_pool(n: int, samples: Any) -> Op:
    name = f"lp_pool{n}d"

    def body(x, *, norm_type, kernel_size, stride=None, ceil_mode=False):
        require_floating(name, x)
        kernel = numbers(name, "kernel_size", kernel_size, n, 1)
        powers = wide(x) ** norm_type
        average = _average(name, n, powers, kernel, stride, 0, ceil_mode, True, None)
        total = average * numel(kernel)
        # Where nothing adds up the root has no derivative; PyTorch says 0.
        root = where(total == 0, 1.0, total) ** (1.0 / norm_type)
        return where(total == 0, 0.0, root).to(x.dtype)

    def ref(x, norm_type, kernel_size, stride=None, ceil_mode=False):
        averaged = _np_average(n, x**norm_type, kernel_size, stride, 0, ceil_mode, True, None)
        kernel = numbers(name, "kernel_size", kernel_size, n, 1)
        return (averaged * numel(kernel)) ** (1 / norm_type)

    body.__name__ = name
    body.__doc__ = "The p-norm of each window, without absolute values: (sum of x**p)**(1/p)."
    return composite(ref=ref, samples=samples, method=False, floating=True)(body)


lp_pool1d = _lp_pool(
    1, lambda: (Sample((Array((2, 7)),), {"norm_type": 2, "kernel_size": 3, "stride": 2}),)
)
lp_pool2d = _lp_pool(
    2, lambda: (Sample((Array((2, 4, 6)),), {"norm_type": 2.0, "kernel_size": (2, 3)}),)
)
lp_pool3d = _lp_pool(
    3, lambda: (Sample((Array((1, 2, 2, 4)),), {"norm_type": 2, "kernel_size": 2}),)
)


# --- adaptive ----------------------------------------------------------------------------------


def output_sizes(op: str, x: Tensor, n: int, output_size: Any) -> Shape:
    """The spatial sizes asked for; None keeps one."""
    _check_dims(op, x, n)
    given = output_size if isinstance(output_size, (tuple, list)) else (output_size,) * n
    if len(given) == n:
        given = [m if want is None else want for want, m in zip(given, x.shape[-n:])]
    sizes = numbers(op, "output_size", given, n, 0)
    if any(m == 0 for m in x.shape[-n:]):
        raise ValueError(f"{op}: {describe(x)} has no elements to pool.")
    return sizes


def part_ends(size: int, out: int) -> tuple[np.ndarray, np.ndarray]:
    """The first and the last element that each of `out` windows covers; two may share one."""
    i = np.arange(out)
    return i * size // max(out, 1), -(-(i + 1) * size // max(out, 1)) - 1


def np_adaptive(n: int, x: Any, sizes: Shape, reduce: Any) -> Any:
    """Part by part by NumPy, for references."""
    ends = [part_ends(m, out) for m, out in zip(x.shape[-n:], sizes)]
    out = np.zeros((*x.shape[:-n], *sizes), np.result_type(x, np.float64))
    for at in np.ndindex(sizes):
        box = tuple(slice(first[i], last[i] + 1) for (first, last), i in zip(ends, at))
        out[(..., *at)] = reduce(x[(..., *box)], tuple(range(-n, 0)))
    return out


def _adaptive_avg_pool(n: int, samples: Any, failures: Any = None) -> Op:
    name = f"adaptive_avg_pool{n}d"

    def body(x, *, output_size):
        require_floating(name, x)
        sizes = output_sizes(name, x, n, output_size)
        lead, old = x.shape[:-n], x.shape[-n:]
        if all(m and size % m == 0 for size, m in zip(old, sizes)):  # even windows: a plain mean
            split = tuple(part for size, m in zip(old, sizes) for part in (m, size // m))
            within = tuple(range(len(lead) + 1, len(lead) + 2 * n, 2))
            return mean(reshape(x, (*lead, *split)), dim=within)
        return resampled(x, [Grid("area", size, m) for size, m in zip(old, sizes)])

    def ref(x, output_size):
        return np_adaptive(n, x, output_sizes("", x, n, output_size), np.mean)

    body.__name__ = name
    body.__doc__ = "The means of `output_size` windows that cover the spatial dims."
    return composite(ref=ref, samples=samples, failures=failures, method=False, floating=True)(body)


adaptive_avg_pool1d = _adaptive_avg_pool(
    1,
    lambda: (
        Sample((Array((2, 3, 7)),), {"output_size": 3}),
        Sample((Array((2, 8)),), {"output_size": 4}),
    ),
)
adaptive_avg_pool2d = _adaptive_avg_pool(
    2,
    lambda: (
        Sample((Array((2, 2, 4, 6)),), {"output_size": 1}),
        Sample((Array((2, 5, 4)),), {"output_size": (None, 3)}),
    ),
    lambda: (
        Failure((Array((2, 5)),), {"output_size": 1}, ValueError,
                "adaptive_avg_pool2d: float64[2, 5] has 2 dims"),
        Failure((Array((2, 5, 0)),), {"output_size": 1}, ValueError,
                "adaptive_avg_pool2d: float64[2, 5, 0] has no elements to pool."),
    ),
)  # fmt: skip
adaptive_avg_pool3d = _adaptive_avg_pool(
    3, lambda: (Sample((Array((2, 3, 4, 5)),), {"output_size": (2, 2, 1)}),)
)
