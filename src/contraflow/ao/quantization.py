"""The marks in models where PyTorch would begin and end to quantise: they pass tensors on."""

from __future__ import annotations

from typing import Any

from contraflow.names import getter
from contraflow.nn.module import Module
from contraflow.tensors.tensor import Tensor


class QuantStub(Module):
    """The tensor itself; PyTorch would quantise it here, once a model is converted.

    >>> import contraflow as cf
    >>> cf.ao.quantization.QuantStub()(cf.ones(2))
    tensor([1., 1.])
    """

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return x


class DeQuantStub(QuantStub):
    """The tensor itself; PyTorch would make floats of it here, once a model is converted."""


__all__ = ["DeQuantStub", "QuantStub"]

globals()["__getattr__"] = getter(__name__)
