"""Contractions as machine code, at every layout, size and dtype."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from tests.helpers import native
from tests.helpers.loops import guarded, sample
from tests.helpers.native import check

from contraflow.compiler.kernel import (
    Contraction,
    KernelCall,
)
from contraflow.devices.cpu import jit
from contraflow.dtypes import (
    bfloat16,
    float16,
    float32,
    float64,
    int16,
    int32,
    int64,
    uint8,
)  # fmt: skip

# --- contractions ------------------------------------------------------------------------------


def check_contraction(dtype, accumulate, sizes, strides, arrays=None, **how) -> None:
    *batch, m, n, k = sizes
    extents = ((*batch, m, k), (*batch, k, n), (*batch, m, n))
    lengths = [
        1 + sum((max(size, 1) - 1) * abs(stride) for size, stride in zip(shape, steps))
        for shape, steps in zip(extents, strides)
    ]
    arrays = arrays or [sample(dtype, lengths[0]), sample(dtype, lengths[1], 1)]
    call = KernelCall(Contraction(dtype, accumulate), sizes, strides)
    bound = [*((a, 0) for a in arrays), guarded(dtype, lengths[2])]
    check(call, bound, ulps=4 + k**0.5, **how)


def dense(sizes, transposed=(False, False, False)):
    """Strides of contiguous A, B and C, each possibly transposed."""
    _g, b, m, n, k = sizes
    result = []
    for (rows, columns), swap in zip(((m, k), (k, n), (m, n)), transposed):
        size = rows * columns
        result.append((b * size, size, *((1, rows) if swap else (columns, 1))))
    return tuple(result)


@pytest.mark.parametrize("transposed", list(itertools.product((False, True), repeat=3)))
def test_contraction_of_every_layout(transposed):
    for sizes in (
        (1, 1, 13, 37, 29), (1, 2, 7, 16, 300), (3, 2, 70, 5, 9), (1, 1, 1, 50, 10),
        (1, 1, 50, 1, 10),
    ):  # fmt: skip
        check_contraction(float32, float32, sizes, dense(sizes, transposed))


@pytest.mark.parametrize(
    "sizes",
    [(0, 2, 2, 3, 4), (2, 0, 2, 3, 4), (1, 1, 0, 3, 4), (1, 1, 2, 0, 4), (2, 3, 2, 3, 0),
     (1, 1, 1, 1, 1), (1, 1, 6, 16, 256), (1, 1, 5, 15, 257), (1, 2, 300, 17, 3),
     (1, 1, 17, 300, 600), (1, 11, 3, 3, 3), (11, 1, 3, 3, 3), (1, 1, 241, 9, 12)],
)  # fmt: skip
def test_contraction_at_awkward_sizes(sizes):
    check_contraction(float32, float32, sizes, dense(sizes))


@pytest.mark.parametrize(
    ("dtype", "accumulate"),
    [(float64, float64), (float16, float32), (bfloat16, float32), (int64, int64), (int32, int32),
     (uint8, uint8), (int16, int16)],
    ids=str,
)  # fmt: skip
def test_contraction_of_every_dtype(dtype, accumulate):
    for transposed in ((False, False, False), (True, True, False), (False, True, True)):
        sizes = (1, 2, 19, 35, 270)
        check_contraction(dtype, accumulate, sizes, dense(sizes, transposed))


@pytest.mark.parametrize(
    ("dtype", "sizes"),
    [(float32, (1, 1, 131, 512, 3)), (float64, (2, 1, 131, 513, 1)),
     (int32, (1, 1, 140, 520, 0)), (float32, (1, 1, 130, 513, 257))],
)  # fmt: skip
def test_contraction_of_rows_whose_elements_lie_far_apart(dtype, sizes):
    """So far, with so many columns, that blocks of them are packed."""
    check_contraction(dtype, dtype, sizes, dense(sizes, (True, False, False)))


@pytest.mark.parametrize(
    ("dtype", "sizes"),
    [(float32, (1, 1, 65, 49, 78)), (float64, (1, 1, 9, 195, 256)), (float32, (1, 1, 269, 193, 5)),
     (float32, (2, 1, 19, 241, 512)), (bfloat16, (1, 1, 33, 500, 259)),
     (float16, (1, 1, 261, 50, 18)), (int32, (1, 1, 30, 200, 256))],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("transposed", list(itertools.product((False, True), repeat=2)))
def test_contraction_of_strips_that_are_packed(dtype, sizes, transposed):
    """Where rows clash or elements lie apart; ragged rows, columns and depths."""
    check_contraction(dtype, dtype.compute, sizes, dense(sizes, (*transposed, False)))


@pytest.mark.parametrize("dtype", [float32, float64, bfloat16, int16], ids=str)
@pytest.mark.parametrize(
    "transposed", [(False, False, False), (False, True, False), (True, True, True)]
)
def test_contraction_of_one_row_or_column(dtype, transposed):
    for sizes in (
        (1, 1, 1, 37, 100), (2, 1, 1, 1, 4500), (1, 1, 1, 2500, 9), (1, 3, 40, 1, 31),
        (1, 1, 1, 5, 0),
    ):  # fmt: skip
        check_contraction(dtype, dtype.compute, sizes, dense(sizes, transposed))


def test_code_for_several_rows_does_one_row_too(monkeypatch):
    monkeypatch.setattr(native, "has_several_rows", lambda call: True)
    for sizes in ((1, 1, 1, 37, 100), (1, 3, 40, 1, 31), (1, 1, 1, 5, 0)):
        check_contraction(float32, float32, sizes, dense(sizes))


@pytest.mark.skipif(not jit.has_feature("avx512bf16"), reason="it has no products of pairs")
@pytest.mark.parametrize("transposed", list(itertools.product((False, True), repeat=3)))
def test_contraction_of_pairs(transposed):
    for sizes in (
        (1, 1, 13, 37, 29), (1, 2, 7, 16, 301), (3, 2, 70, 5, 9), (1, 1, 1, 50, 10),
        (1, 1, 50, 1, 1), (1, 1, 265, 97, 515), (1, 1, 9, 1500, 64), (1, 1, 3, 4, 0),
    ):  # fmt: skip
        strides = dense(sizes, transposed)
        check_contraction(bfloat16, float32, sizes, strides, widths=(32, 64), factors="pairs")


@pytest.mark.skipif(not jit.has_feature("avx512bf16"), reason="it has no products of pairs")
def test_contraction_of_pairs_with_other_strides():
    sizes = (1, 3, 10, 21, 15)
    for strides in (
        ((0, 0, 30, 2), (0, 640, 43, 2), (0, 500, 50, 2)),
        ((0, 150, 15, 1), (0, 0, 0, 1), (0, 210, 21, 1)),
    ):
        check_contraction(bfloat16, float32, sizes, strides, widths=(32, 64), factors="pairs")


def test_contraction_with_broadcast_and_scattered_strides():
    sizes = (1, 3, 10, 21, 14)
    check_contraction(float32, float32, sizes, ((0, 0, 28, 2), (0, 600, 43, 2), (0, 500, 50, 2)))
    check_contraction(float32, float32, sizes, ((0, 140, 14, 1), (0, 0, 0, 1), (0, 210, 21, 1)))
    check_contraction(float32, float32, sizes, ((0, 140, 0, 1), (0, 0, 1, 0), (0, 210, 21, 1)))


@pytest.mark.parametrize(
    ("dtype", "accumulate"), [(float32, float32), (bfloat16, float32), (int32, int32)], ids=str
)
@pytest.mark.parametrize("sizes", [(3, 2, 10, 21, 14), (2, 5, 40, 5, 9), (4, 3, 1, 8, 2)])
def test_contraction_of_a_batch_whose_axes_lie_apart(dtype, accumulate, sizes):
    """Heads within places, in another order in each operand, repeated along one axis or both."""
    g, b, m, n, k = sizes
    heads = ((m * b * k, k, b * k, 1), (k * b * n, n, b * n, 1), (m * b * n, n, b * n, 1))
    across = ((k, g * k, g * b * k, 1), (k * n, g * k * n, n, 1), (n, m * g * n, g * n, 1))
    repeated = ((0, m * k, k, 1), (k * n, 0, 1, k), heads[2])
    for strides in (heads, across, repeated, (heads[0], (0, 0, n, 1), across[2])):
        check_contraction(dtype, accumulate, sizes, strides)


def test_contraction_keeps_nan_in_its_row_and_column():
    a, b = np.ones((5, 40), np.float32), np.ones((40, 20), np.float32)
    a[2, 3], b[7, 19] = math.nan, math.inf
    check_contraction(
        float32, float32, (1, 1, 5, 20, 40), dense((1, 1, 5, 20, 40)), [a.ravel(), b.ravel()]
    )


# --- contractions of windows -------------------------------------------------------------------


def check_windows(kinds, sizes, strides, transposed=False) -> None:
    """Sizes (g, b, m, o), k's and n's, and B's strides; A and C are dense, perhaps transposed."""
    (g, b, m, o), depths, places = sizes
    k, n = math.prod(depths), math.prod(places)
    a_strides = (m * k * o * b, m * k * o, *((1, m * k, m) if transposed else (o * k, k, 1)))
    c_strides = (m * n * b, m * n, *((1, m) if transposed else (n, 1)))
    dtype = kinds[0]
    shape = (g, b, o, *depths, *places)
    length = 1 + sum((max(size, 1) - 1) * stride for size, stride in zip(shape, strides))
    kernel = Contraction(*kinds, (len(depths), len(places)))
    call = KernelCall(kernel, (g, b, m, o, *depths, *places), (a_strides, strides, c_strides))
    arrays = [(sample(dtype, g * b * m * o * k), 0), (sample(dtype, length, 1), 0)]
    check(call, [*arrays, guarded(dtype, g * b * m * n)], ulps=4 + (o * k) ** 0.5)


def check_convolution(kinds, rows, image, kernel, stride=1, dilation=1) -> None:
    """The contractions of a convolution of two images, and of its weight's gradient."""
    c, h, w = image
    spans = [dilation * (m - 1) + 1 for m in kernel]
    places = tuple((size - span) // stride + 1 for size, span in zip((h, w), spans))
    channels, taps = (c, *kernel), (h * w, dilation * w, dilation)
    between, whole = (stride * w, stride), c * h * w
    check_windows(kinds, ((1, 2, rows, 1), channels, places), (0, whole, 0, *taps, *between))
    for transposed in (False, True):
        sizes = ((1, 1, rows, 2), places, channels)
        check_windows(kinds, sizes, (0, 0, whole, *between, *taps), transposed)


@pytest.mark.parametrize("rows", [1, 7, 16])
@pytest.mark.parametrize(
    ("image", "kernel", "more"),
    [((3, 34, 34), (3, 3), {}), ((2, 9, 16), (3, 3), {}), ((2, 7, 7), (3, 3), {}),
     ((1, 5, 30), (2, 9), {}), ((2, 20, 23), (3, 3), {"stride": 2}),
     ((2, 20, 23), (3, 2), {"dilation": 2}), ((1, 12, 41), (1, 1), {}), ((40, 4, 4), (3, 3), {})],
)  # fmt: skip
def test_convolutions_as_contractions(rows, image, kernel, more):
    check_convolution((float32, float32), rows, image, kernel, **more)


@pytest.mark.parametrize(
    "kinds",
    [(float64, float64), (float16, float32), (bfloat16, float32), (int32, int32), (uint8, uint8)],
    ids=str,
)
def test_convolutions_of_every_dtype(kinds):
    check_convolution(kinds, 5, (2, 9, 21), (3, 3))


@pytest.mark.parametrize(
    ("sizes", "strides"),
    [(((1, 2, 5, 3), (300,), (4, 20)), (0, 9000, 3000, 7, 50, 1)),
     (((1, 2, 5, 3), (300,), (4, 20)), (0, 9000, 3000, 1, 5000, 301)),
     (((1, 2, 5, 1), (4, 5, 6, 7), (37,)), (0, 0, 0, 1000, 200, 30, 1, 2)),
     (((1, 2, 5, 1), (0, 5), (3, 7)), (0, 0, 0, 1000, 200, 30, 1)),
     (((1, 2, 5, 0), (2, 5), (3, 7)), (0, 0, 0, 1000, 200, 30, 1)),
     (((1, 2, 5, 2), (2, 5), (0, 7)), (0, 0, 0, 1000, 200, 30, 1)),
     (((3, 2, 5, 2), (2, 5), (3, 7)), (40, 2000, 700, 1000, 200, 30, 1)),
     (((3, 0, 5, 2), (2, 5), (3, 7)), (40, 2000, 700, 1000, 200, 30, 1))],
)  # fmt: skip
def test_contractions_through_several_strides(sizes, strides):
    check_windows((float32, float32), sizes, strides)


@pytest.mark.parametrize("kinds", [(float32, float32), (float64, float64), (int16, int16)], ids=str)
@pytest.mark.parametrize(
    ("places", "taps", "stride", "dilation"),
    [((7, 7), (3, 3), 1, 1), ((4, 8), (3, 3), 1, 1), ((5, 15), (3, 3), 1, 1),
     ((14, 30), (5, 2), 1, 1), ((3, 4), (3, 3), 2, 1), ((9, 29), (3, 3), 2, 1),
     ((4, 8), (3, 3), 2, 1), ((5, 15), (3, 3), 2, 1), ((7, 7), (3, 3), 2, 1),
     ((6, 1), (3, 3), 2, 1), ((4, 5), (3, 3), 2, 2), ((4, 2100), (3, 3), 2, 1),
     ((6, 21), (3, 3), 3, 2), ((3, 2100), (2, 3), 1, 1), ((2, 1), (2, 2), 1, 1)],
)  # fmt: skip
def test_windows_of_one_row(kinds, places, taps, stride, dilation):
    """A filter for each channel: the convolution, and the gradient of filters over images."""
    height, width = (
        stride * (n - 1) + dilation * (m - 1) + 1 for n, m in zip(places, taps, strict=True)
    )
    plane = height * width
    between, within = (stride * width, stride), (dilation * width, dilation)
    check_windows(kinds, ((2, 3, 1, 1), taps, places), (3 * plane, plane, 0, *within, *between))
    check_windows(kinds, ((1, 3, 1, 5), places, taps), (0, plane, 3 * plane, *between, *within))
