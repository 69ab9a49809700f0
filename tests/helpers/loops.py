"""Expressions and kernels that tests of generated code are made of."""

from __future__ import annotations

import numpy as np

from contraflow.compiler.kernel import (
    STRIDED,
    Loops,
    Operand,
    Store,
)
from contraflow.dtypes import (
    DType,
    bool_,
    float32,
    int64,
)  # fmt: skip
from contraflow.expressions import expression as s
from contraflow.expressions.expression import Expr


def load(k: int, dtype: DType, *args: Expr) -> Expr:
    return s.leaf("load", dtype, k, *args)


def sample(dtype: DType, n: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    if dtype is bool_:
        return random.integers(0, 2, n).astype(bool)
    if dtype.is_floating_point:
        return random.standard_normal(n).astype(dtype.numpy)
    info = np.iinfo(dtype.numpy)
    return random.integers(max(info.min, -100), min(info.max, 100), n).astype(dtype.numpy)


def guarded(dtype: DType, n: int) -> tuple[np.ndarray, int]:
    """An array for n results, with elements around it that must stay as they are."""
    return sample(dtype, n + 20, seed=9), 10


def embedding(lane: int | None, index_dtype: DType = int64) -> Loops:
    """out[i, j] = table[index[i], j]"""
    index = s.cast(load(1, index_dtype), int64)
    row = s.checked(index, load(3, int64))
    value = load(0, float32, row * load(4, int64))
    operands = (
        Operand(float32, "in", (0, 1)), Operand(index_dtype, "in", (1, 0)),
        Operand(float32, "out", (STRIDED, 1)), Operand(int64, "scalar"), Operand(int64, "scalar"),
    )  # fmt: skip
    return Loops(2, 0, lane, operands, (), (Store(2, value, False),))
