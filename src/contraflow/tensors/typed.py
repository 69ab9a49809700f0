"""PyTorch's types of tensors, one per dtype: `FloatTensor(2, 3)`, `isinstance(x, LongTensor)`."""

from __future__ import annotations

from typing import Any

from contraflow import dtypes
from contraflow.dtypes import DType
from contraflow.tensors.tensor import Tensor


class TensorType(type):
    """The type of tensors of a dtype on the cpu, which makes them by PyTorch's old constructor."""

    dtype: DType

    def __call__(cls, *args: Any, device: Any = None) -> Tensor:
        return Tensor.of_sizes_or_data(cls.__name__, args, cls.dtype, device)

    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, Tensor) and x.dtype is cls.dtype and x.is_cpu


def _tensor_type(title: str, dtype: DType) -> TensorType:
    text = f"""Tensors of {dtype}: a call takes sizes, or elements. Prefer `contraflow.tensor`.

    >>> import contraflow as cf
    >>> cf.{title}Tensor(2, 3).shape, isinstance(cf.{title}Tensor([1, 0]), cf.{title}Tensor)
    ((2, 3), True)
    """
    return TensorType(f"{title}Tensor", (), {"dtype": dtype, "__doc__": text})


TENSOR_TYPES = {
    f"{title}Tensor": _tensor_type(title, dtype) for title, dtype in dtypes.TENSOR_NAMES.items()
}
