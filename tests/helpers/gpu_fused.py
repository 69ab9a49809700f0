"""Products with a map behind them as one kernel, for the renderers' tests."""

from __future__ import annotations

from contraflow.compiler.kernel import KernelCall, Operand, Store, contraction, loops
from contraflow.dtypes import DType, float16, float32, int64
from contraflow.expressions import expression as s
from contraflow.render.clike.fused import FusedProduct, fused, may_follow


def with_bias(keeps: bool, dtype: DType = float32, depth: int = 50) -> FusedProduct:
    """The product of two matrices, and the larger of zero and its sum with a row."""
    ones, row = (2, 1), (0, 1)
    operands = (
        Operand(dtype, "in", ones), Operand(dtype, "in", row), Operand(dtype, "out", ones),
    )  # fmt: skip
    result, bias = (s.leaf("load", dtype, i) for i in range(2))
    stores = (Store(2, s.maximum(result + bias, s.const(0.0, dtype)), True),)
    following = KernelCall(
        loops(2, 0, 1, operands, (), stores), (30, 70), ((70, 1), (0, 1), (70, 1))
    )
    strides = ((0, 0, depth, 1), (0, 0, 70, 1), (0, 0, 70, 1))
    product = KernelCall(contraction(dtype, float32), (1, 1, 30, 70, depth), strides)
    assert may_follow(product, following, 0)
    kernel = fused(product, following, 0, keeps).kernel
    assert isinstance(kernel, FusedProduct)
    return kernel


def with_triangle() -> FusedProduct:
    """Products of a batch, of which what lies above a diagonal is zero."""
    operands = (Operand(float32, "in", (2, 2, 1)), Operand(float32, "out", (2, 2, 1)))
    row, column = (s.leaf("axis", int64, k) for k in (1, 2))
    below = s.select(row >= column, s.leaf("load", float32, 0), s.const(0.0, float32))
    strides = ((2100, 70, 1),) * 2
    kernel = loops(3, 0, 2, operands, (), (Store(1, below, True),))
    following = KernelCall(kernel, (4, 30, 70), strides)
    own = ((0, 1500, 50, 1), (0, 3500, 70, 1), (0, 2100, 70, 1))
    product = KernelCall(contraction(float32, float32), (1, 4, 30, 70, 50), own)
    assert may_follow(product, following, 0)
    found = fused(product, following, 0, False).kernel
    assert isinstance(found, FusedProduct)
    return found


def kernels() -> dict[str, FusedProduct]:
    """The kernels by name."""
    return {
        "product_with_bias": with_bias(False),
        "product_kept_with_bias": with_bias(True),
        "product_in_panels_with_bias": with_bias(False, depth=2000),
        "product_of_float16_with_bias": with_bias(True, float16),
        "product_of_batches_with_triangle": with_triangle(),
    }
