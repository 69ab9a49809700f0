"""PyTorch's names for classes that take its functions over (torch.overrides), as packages use them.

Functions here ask no class of a program's what they should do, so no object overrides them.
"""

from typing import Any

from contraflow.names import getter, without_objects
from contraflow.tensors.tensor import Tensor

TorchFunctionMode = without_objects("TorchFunctionMode", "a mode that takes functions over")


def has_torch_function(relevant_args: Any) -> bool:
    """False: functions are not taken over.

    >>> import contraflow as cf
    >>> has_torch_function((cf.ones(2),))
    False
    """
    return False


def is_tensor_like(inp: Any) -> bool:
    """Whether something is a tensor.

    >>> is_tensor_like(1.0)
    False
    """
    return isinstance(inp, Tensor)


__all__ = ["TorchFunctionMode", "has_torch_function", "is_tensor_like"]

globals()["__getattr__"] = getter(__name__)
