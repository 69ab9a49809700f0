"""DLPack under PyTorch's path: memory that other libraries share."""

from typing import Any

from contraflow.ops.creation.data import from_dlpack
from contraflow.tensors.tensor import Tensor


def to_dlpack(tensor: Tensor) -> Any:
    """A DLPack capsule over the memory of a tensor.

    >>> import contraflow as cf
    >>> type(to_dlpack(cf.ones(2))).__name__
    'PyCapsule'
    """
    return tensor.__dlpack__()


__all__ = ["from_dlpack", "to_dlpack"]
