"""Max pooling over windows whose distances are random (Graham, 2014)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from contraflow.dtypes import int64
from contraflow.errors import describe
from contraflow.operation.public import public
from contraflow.ops.creation.create import arange, full
from contraflow.ops.creation.random import rand
from contraflow.ops.index.gather import gather
from contraflow.ops.nn.max_pool import first_largest
from contraflow.ops.nn.window import numbers
from contraflow.ops.shape.joining import cat
from contraflow.ops.shape.view import reshape
from contraflow.shapes import Lengths, numel
from contraflow.tensors.tensor import Tensor

Ratio = float | Sequence[float]


@public
def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Lengths,
    output_size: Lengths | None = None,
    output_ratio: Ratio | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Max pooling of images [n, c, h, w] to given sizes, over windows at random distances.

    `output_ratio` is a part of the size in place of `output_size`. With `return_indices` their
    row-major indices come too.

    >>> import contraflow as cf
    >>> cf.nn.functional.fractional_max_pool2d(cf.ones(1, 2, 6, 6), 2, 3).shape
    (1, 2, 3, 3)
    """
    return _pool(2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


@public
def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Lengths,
    output_size: Lengths | None = None,
    output_ratio: Ratio | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Max pooling of volumes [n, c, d, h, w] to given sizes; see fractional_max_pool2d.

    >>> import contraflow as cf
    >>> cf.nn.functional.fractional_max_pool3d(cf.ones(1, 2, 6, 6, 6), 2, 3).shape
    (1, 2, 3, 3, 3)
    """
    return _pool(3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


def check_sizes(op: str, n: int, output_size: Lengths | None, output_ratio: Ratio | None) -> Any:
    """One number for each spatial dim: the size, or the ratio."""
    if (output_size is None) == (output_ratio is None):
        raise ValueError(f"{op}: give either output_size or output_ratio.")
    if output_size is not None:
        return numbers(op, "output_size", output_size, n, 1)
    several = isinstance(output_ratio, Sequence)
    ratios: Any = tuple(output_ratio) if several else (output_ratio,) * n  # type: ignore[arg-type]
    if len(ratios) != n or not all(0 < ratio < 1 for ratio in ratios):
        raise ValueError(
            f"{op}: output_ratio is {output_ratio}; it must be between 0 and 1, one for each of "
            f"the {n} spatial dims or for all."
        )
    return ratios


def _pool(
    n: int, input: Tensor, kernel_size: Lengths, output_size: Lengths | None,
    output_ratio: Ratio | None, return_indices: bool, samples: Tensor | None,
) -> Any:  # fmt: skip
    op = f"fractional_max_pool{n}d"
    if input.ndim not in (n + 1, n + 2):
        raise ValueError(
            f"{op}: {describe(input)} has {input.ndim} dims; it needs [n, channels] or "
            f"[channels], then {n} spatial ones."
        )
    kernel = numbers(op, "kernel_size", kernel_size, n, 1)
    size, given = input.shape[-n:], check_sizes(op, n, output_size, output_ratio)
    out = given if output_ratio is None else tuple(int(m * r) for m, r in zip(size, given))
    if any(k + o - 1 > m for k, o, m in zip(kernel, out, size)):
        raise ValueError(
            f"{op}: {[*out]} windows of {[*kernel]} do not fit into {describe(input)}."
        )
    x = input[None] if input.ndim == n + 1 else input
    if samples is None:
        samples = rand((*x.shape[:2], n), dtype=x.dtype)
    elif samples.shape[1:] != (x.shape[1], n) or samples.shape[0] < x.shape[0]:
        raise ValueError(
            f"{op}: _random_samples is {describe(samples)} and should be {[*x.shape[:2], n]}."
        )
    else:
        samples = samples[: x.shape[0]]
    flat = reshape(x, (*x.shape[:2], numel(size)))
    indices = _chosen(flat.detach(), _places(samples, size, kernel, out))
    values = reshape(gather(flat, -1, indices), (*x.shape[:2], *out))
    indices = reshape(indices, values.shape)
    if input.ndim == n + 1:
        values, indices = values[0], indices[0]
    return (values, indices) if return_indices else values


def _chosen(flat: Tensor, places: Tensor) -> Tensor:
    """The place of the largest element of each window, of places [n, c, outputs, taps]."""
    options = gather(flat, -1, reshape(places, (*flat.shape[:2], numel(places.shape[2:]))))
    _, taps = first_largest(reshape(options, places.shape), dim=(3,), keepdim=False)
    chosen: Tensor = gather(places, -1, taps[..., None])[..., 0]
    return chosen


def _places(
    samples: Tensor, size: tuple[int, ...], kernel: tuple[int, ...], out: tuple[int, ...]
) -> Tensor:
    """The row-major places of the elements of each window: [n, c, outputs, taps]."""
    n = len(size)
    places: Tensor = full((1, 1, 1, 1), 0, dtype=int64)
    for dim, (m, k, o) in enumerate(zip(size, kernel, out)):
        # PyTorch's images take the last number for the first dim, its volumes the first.
        starts = _starts(samples[..., n - 1 - dim if n == 2 else dim], m, k, o)
        along = starts[..., None] + arange(k)  # [n, c, o, k]
        together = places[:, :, :, None, :, None] * m + along[:, :, None, :, None, :]
        batch, channels, before, _, taps, _ = together.shape
        places = reshape(together, (batch, channels, before * o, taps * k))
    return places


def _starts(sample: Tensor, size: int, kernel: int, out: int) -> Tensor:
    """Where the windows of one dim start, [n, c, out]: the last at the end."""
    end: Tensor = full((*sample.shape, 1), size - kernel, dtype=int64)
    if out == 1:
        return end
    step = (size - kernel) / (out - 1)
    sample = sample[..., None]
    passed = (arange(out - 1, dtype=sample.dtype) + sample) * step
    joined: Tensor = cat([passed.to(int64) - (sample * step).to(int64), end], -1)
    return joined
