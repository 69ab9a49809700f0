"""Scans, scatters, sorts and windows for the GPU renderers: kernels as fusion makes them of ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tests.helpers.gpu_case import Case, case, normal
from tests.helpers.gpu_programs import KernelRun, tape_of

from contraflow.compiler.interpret import run_call
from contraflow.compiler.kernel import Contraction, Kernel, Merge, Scan, Scatter, Sort
from contraflow.compiler.lower import KernelUse
from contraflow.render.clike import wgsl
from contraflow.shapes import View, contiguous_strides


def last_kernel(
    name: str, arrays: Sequence[Any], params: Mapping[str, Any], kind: type[Kernel]
) -> Case:
    """The last kernel of a kind that an op is lowered to, bound to what it finds in memory."""
    program = KernelRun(*tape_of(name, arrays, params), wgsl.LIMITS)
    uses = [use for use in program.uses if isinstance(use, KernelUse)]
    last = max(i for i, use in enumerate(uses) if isinstance(use.call.kernel, kind))
    program.uses = list(uses[:last])
    program.run(run_call, lambda *_: None)
    bound, scalars = program.bind(uses[last])
    return Case(uses[last].call, bound, tuple(scalars))


def places(seed: int, size: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, size, shape)


@case
def running_sum() -> Case:
    """Sums along the middle one of three axes, from its end."""
    found = last_kernel("cumsum", [normal(70, 5, 33, 70)], {"dim": 1, "reverse": True}, Scan)
    found.golden = True
    return found


@case
def running_maximum() -> Case:
    """A state of two components; along rows with ties and NaN."""
    x = places(71, 9, 40, 90).astype(np.float32)
    x[3, 40], x[4, 0] = np.nan, np.nan
    return last_kernel("cummax", [x], {"dim": 1}, Scan)


@case
def one_scan() -> Case:
    """A scan without outer axes: one thread does it."""
    return last_kernel("logcumsumexp", [normal(72, 300)], {"dim": 0}, Scan)


@case
def scanned_parts() -> Case:
    """The parts of two long rows, each from the state of those before it."""
    found = last_kernel("cumsum", [normal(95, 2, 700)], {"dim": 1, "reverse": False}, Scan)
    found.golden = True
    return found


@case
def added_rows() -> Case:
    """The gradient of an embedding: rows are added up by their index."""
    arrays = [normal(73, 60, 41), places(74, 7, 60)]
    found = last_kernel("segment_sum", arrays, {"size": 7}, Scatter)
    found.golden = True
    return found


@case
def added_runs() -> Case:
    """The same of more rows: those that meet are side by side in the order of their targets."""
    arrays = [normal(93, 300, 41), places(94, 7, 300)]
    found = last_kernel("segment_sum", arrays, {"size": 7}, Scatter)
    found.golden = True
    return found


@case
def scattered_points() -> Case:
    """Every element has an index of its own, and a later one overwrites the earlier ones."""
    arrays = [normal(75, 9, 30), places(76, 9, 20, 30), normal(77, 20, 30)]
    return last_kernel("scatter", arrays, {"dim": 0}, Scatter)


@case
def added_points() -> Case:
    """All coordinates are loaded, so nothing is independent; negative ones count from the end."""
    arrays = [normal(78, 6, 7), places(79, 6, 2, 50) - 3, normal(80, 50)]
    how = {"dims": (0, 1), "accumulate": True, "wrap": True}
    return last_kernel("put_at", arrays, how, Scatter)


@case
def largest_points() -> Case:
    """Maxima of bools and of what was there."""
    arrays = [places(81, 2, 5, 8) > 0, places(82, 5, 9, 8), places(83, 2, 9, 8) > 0]
    how = {"dim": 0, "reduce": "amax", "include_self": True}
    return last_kernel("scatter_fold", arrays, how, Scatter)


def window_view(x: np.ndarray, taps: Sequence[int], stride: int) -> tuple[np.ndarray, View]:
    """The windows of images, as pooling and convolutions see them."""
    batch, channels, *sizes = x.shape
    steps = contiguous_strides(x.shape)
    places = ((n - k) // stride + 1 for n, k in zip(sizes, taps))
    strides = (*steps[:2], *(n * stride for n in steps[2:]), *steps[2:])
    return x, View((batch, channels, *places, *taps), strides, 0)


def product(spec: str, *arrays: Any) -> Case:
    found = last_kernel("contract", arrays, {"spec": spec}, Contraction)
    assert isinstance(found.call.kernel, Contraction)
    assert found.call.kernel.digits
    found.relative = 1e-5
    return found


@case
def convolution() -> Case:
    """Windows are read where they lie; more places and channels than a tile has."""
    weight = normal(85, 70, 5, 3, 2)
    found = product("ocij,ncyxij->noyx", weight, window_view(normal(84, 2, 5, 13, 12), (3, 2), 1))
    found.golden = True
    return found


@case
def strided_convolution() -> Case:
    """Windows that are two elements apart."""
    windows = window_view(normal(86, 3, 4, 9, 11), (3, 3), 2)
    return product("ocij,ncyxij->noyx", normal(87, 6, 4, 3, 3), windows)


@case
def window_gradient() -> Case:
    """The gradient of a weight: sums over images lie around those over places."""
    windows = window_view(normal(88, 3, 2, 12, 11), (3, 2), 1)
    return product("noyx,ncyxij->ocij", normal(89, 3, 4, 10, 10), windows)


@case
def sorted_rows() -> Case:
    """Positions along the first of two axes, in the order of keys with ties."""
    x = places(90, 9, 300, 5).astype(np.float32)
    how = {"dim": 0, "descending": True, "stable": True}
    found = last_kernel("argsort", [x], how, Sort)
    found.golden = True
    return found


@case
def sorted_parts() -> Case:
    """Parts of rows that are too long for one group, with their keys."""
    how = {"dim": 1, "descending": False, "stable": True}
    return last_kernel("argsort", [places(91, 99, 3, 2500).astype(np.int32)], how, Sort)


@case
def merged_runs() -> Case:
    """The last merge of rows: positions alone, the first of them."""
    x = places(92, 99, 3, 2500).astype(np.float32)
    found = last_kernel("leading", [x], {"dim": 1, "count": 1200, "descending": True}, Merge)
    found.golden = True
    return found
