"""PyTorch's marks for quantisation in place of operators: they compute with floats."""

from __future__ import annotations

from collections.abc import Sequence

from contraflow.names import getter
from contraflow.nn.module import Module
from contraflow.ops.shape.joining import cat
from contraflow.tensors.tensor import Tensor


class FloatFunctional(Module):
    """Arithmetic as methods, which PyTorch would observe in order to quantise it.

    >>> import contraflow as cf
    >>> cf.nn.quantized.FloatFunctional().add(cf.ones(2), cf.ones(2))
    tensor([2., 2.])
    """

    def forward(self, x: Tensor) -> Tensor:
        raise RuntimeError("FloatFunctional: call one of its methods, such as add or cat.")

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum."""
        return x + y

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        """The sum with a number."""
        return x + y

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        """The product of elements."""
        return x * y

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        """The product with a number."""
        return x * y

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        """The product of matrices."""
        return x @ y

    def cat(self, x: Sequence[Tensor], dim: int = 0) -> Tensor:
        """The tensors one after another."""
        joined: Tensor = cat(x, dim=dim)
        return joined

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum, or zero where it is negative."""
        return (x + y).relu()


__all__ = ["FloatFunctional"]

globals()["__getattr__"] = getter(__name__)
