"""Products with a map behind them as one kernel, for the renderers' tests."""

from __future__ import annotations

from contraflow.compiler.kernel import KernelCall, Operand, Store, contraction, loops
from contraflow.dtypes import DType, float16, float32
from contraflow.expressions import expression as s
from contraflow.render.clike.fused import FusedProduct, fused, may_follow


def with_bias(keeps: bool, dtype: DType = float32) -> FusedProduct:
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
    strides = ((0, 0, 50, 1), (0, 0, 70, 1), (0, 0, 70, 1))
    product = KernelCall(contraction(dtype, float32), (1, 1, 30, 70, 50), strides)
    assert may_follow(product, following, 0)
    kernel = fused(product, following, 0, keeps).kernel
    assert isinstance(kernel, FusedProduct)
    return kernel


def kernels() -> dict[str, FusedProduct]:
    """The kernels by name."""
    return {
        "product_with_bias": with_bias(False),
        "product_kept_with_bias": with_bias(True),
        "product_of_float16_with_bias": with_bias(True, float16),
    }
