"""Attention kernels that the GPU renderers are tested on."""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
from tests.helpers.gpu_case import CASES, Case, bind, empty, normal

from contraflow.compiler.interpret import BoundOperand
from contraflow.compiler.kernel import KernelCall, attention
from contraflow.dtypes import DType, bfloat16, float32, float64

SIZES = {
    "ragged": (2, 3, 37, 70, 20, 24),
    "wide": (1, 2, 65, 130, 70, 130),  # more columns than a tile has
    "single": (1, 1, 1, 1, 1, 1),
    "long": (1, 1, 3, 257, 5, 4),
    "even": (2, 2, 64, 48, 32, 32),  # rows that are read by 16 bytes
    "many": (16, 8, 40, 33, 50, 64),  # enough for blocks of many rows
}


def attention_case(part: str, causal: bool, dtype: DType, sizes: tuple[int, ...]) -> Case:
    """Heads that lie side by side in the rows of an example, as a projection leaves them."""
    g, b, queries, keys, e, v = sizes
    scale = 1 / math.sqrt(e)
    wide = dtype.compute.numpy
    seen = np.tri(queries, keys, dtype=bool) if causal else np.ones((queries, keys), bool)

    def matrices(seed: int, rows: int, columns: int) -> tuple[np.ndarray, tuple[int, ...]]:
        array = normal(seed, g, rows, b, columns).astype(dtype.numpy)
        return array, (rows * b * columns, columns, b * columns, 1)

    (q, *_), (k, *_), (x, *_), (cotangent, *_) = given = [
        matrices(1, queries, e), matrices(2, keys, e), matrices(3, keys, v), matrices(4, queries, v)
    ]  # fmt: skip
    q, k, x, cotangent = (np.moveaxis(a.astype(np.float64), 2, 1) for a in (q, k, x, cotangent))
    scores = np.where(seen, q @ k.swapaxes(-1, -2) * scale, -np.inf)
    normalizer = np.log(np.exp(scores).sum(-1))
    out = np.exp(scores - normalizer[..., None]) @ x
    of_rows = (b * queries, queries, 1)
    arrays: list[BoundOperand] = [bind(a) for a, _ in given]
    strides = [steps for _, steps in given]
    results = {"out": [(queries, v)], "query": [(queries, e)], "key": [(keys, e), (keys, v)]}
    results["all"] = results["query"] + results["key"]
    if part == "out":
        arrays.pop()
        strides.pop()
    else:
        for row in (normalizer, (cotangent * out).sum(-1)):
            arrays.append(bind(row.astype(wide)))
            strides.append(of_rows)
    for rows, columns in results[part]:
        arrays.append(empty(g * b * rows * columns, dtype.numpy))
        strides.append((b * rows * columns, rows * columns, columns, 1))
    if part == "out":
        arrays.append(empty(g * b * queries, wide))
        strides.append(of_rows)
    portable = dtype is float32 and part != "all"  # of which WebGPU guarantees too few buffers
    call = KernelCall(attention(dtype, dtype.compute, part, causal), sizes, (*strides, ()))
    return Case(
        call, [*arrays, (None, 0)], (scale,), relative=2e-2 if dtype is bfloat16 else 2e-5,
        webgpu=portable, golden=portable and causal and sizes == SIZES["ragged"],
    )  # fmt: skip


PARTS = ("out", "query", "key", "all")
for _part, _causal, _name in itertools.product(PARTS, (False, True), SIZES):
    _case = partial(attention_case, _part, _causal, float32, SIZES[_name])
    CASES[f"attention_{_part}{'_causal' if _causal else ''}_{_name}"] = _case
for _part, _dtype in itertools.product(PARTS, (bfloat16, float64)):
    _case = partial(attention_case, _part, True, _dtype, SIZES["ragged"])
    CASES[f"attention_{_part}_{_dtype}"] = _case
