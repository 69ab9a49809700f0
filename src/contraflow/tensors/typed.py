"""PyTorch's types of tensors, by dtype and device: `FloatTensor(2, 3)`, `cuda.LongTensor`."""

from __future__ import annotations

from typing import Any

from contraflow import dtypes
from contraflow.dtypes import DType
from contraflow.tensors.tensor import Tensor


class TensorType(type):
    """The type of tensors of a dtype on the cpu or on CUDA devices, which makes them by PyTorch's
    old constructor."""

    dtype: DType
    place: str

    def __call__(cls, *args: Any, device: Any = None) -> Tensor:
        if device is None and cls.place != "cpu":
            device = cls.place
        return Tensor.of_sizes_or_data(cls.__name__, args, cls.dtype, device)

    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, Tensor) and x.dtype is cls.dtype and x.device.type == cls.place


def _tensor_type(title: str, dtype: DType) -> TensorType:
    text = f"""Tensors of {dtype}: a call takes sizes, or elements. Prefer `contraflow.tensor`.

    >>> import contraflow as cf
    >>> cf.{title}Tensor(2, 3).shape, isinstance(cf.{title}Tensor([1, 0]), cf.{title}Tensor)
    ((2, 3), True)
    """
    return TensorType(f"{title}Tensor", (), {"dtype": dtype, "place": "cpu", "__doc__": text})


def _cuda_tensor_type(title: str, dtype: DType) -> TensorType:
    text = f"Tensors of {dtype} on a CUDA device: a call takes sizes, or elements."
    return TensorType(f"{title}Tensor", (), {"dtype": dtype, "place": "cuda", "__doc__": text})


CUDA_TENSOR_TYPES = {
    f"{title}Tensor": _cuda_tensor_type(title, dtype)
    for title, dtype in dtypes.TENSOR_NAMES.items()
}
TENSOR_TYPES = {
    f"{title}Tensor": _tensor_type(title, dtype) for title, dtype in dtypes.TENSOR_NAMES.items()
}
