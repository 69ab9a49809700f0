"""Tensors of data from elsewhere: from Python, NumPy and other libraries."""

from __future__ import annotations

from typing import Any

import numpy as np

from contraflow import devices, dtypes
from contraflow.devices.names import CPU, Device
from contraflow.dtypes import DType
from contraflow.operation.context import state
from contraflow.operation.public import creation, public
from contraflow.shapes import contiguous
from contraflow.tensors import dlpack
from contraflow.tensors.methods import method
from contraflow.tensors.storage import Storage
from contraflow.tensors.tensor import Tensor


@creation
def tensor(
    data: Any, *, dtype: DType | None = None, device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A new tensor with a copy of `data`: numbers, nested lists, NumPy arrays or tensors.

    >>> import contraflow as cf
    >>> cf.tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    >>> cf.tensor([1.0, 2.0], requires_grad=True)
    tensor([1., 2.], requires_grad=True)
    """
    return Tensor.of_data("tensor", data, dtype, device, requires_grad)


@method
def new_tensor(
    self: Tensor, data: Any, *, dtype: DType | None = None, device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A copy of `data` in the dtype of this tensor.

    >>> import contraflow as cf
    >>> cf.ones(1).new_tensor([1, 2])
    tensor([1., 2.])
    """
    device = device or self.storage.device
    return Tensor.of_data("new_tensor", data, dtype or self.dtype, device, requires_grad)


def _over(array: np.ndarray) -> Tensor | None:
    """A tensor over the memory of an array, None where a stride is negative or not
    a multiple of the element's size."""
    dtype = dtypes.from_numpy(array.dtype)
    shared: Tensor | None = state().context.shared_array(array)
    if shared is not None:  # an argument of a function that is being recorded
        return shared.detach()
    if array.flags.c_contiguous:
        t = Tensor.of_array(array)
    elif any(st < 0 or st % array.itemsize for st in array.strides):
        return None
    else:
        strides = tuple(st // array.itemsize for st in array.strides)
        view = contiguous(array.shape)._replace(strides=strides)
        _, count = view.extent()
        window = np.lib.stride_tricks.as_strided(array, (count,), (array.itemsize,))
        t = Tensor.of_storage(Storage(window), view, dtype)
    if state().inference:
        t.storage.inference = True
    if not array.flags.writeable:
        t.storage.frozen = True
    return t


def _adopted(array: np.ndarray, device: str, exchange: devices.MemoryExchange) -> Tensor:
    """A tensor over memory of another device, whose address, strides and dtype an array has."""
    dtype, size = dtypes.from_numpy(array.dtype), array.itemsize
    if any(st < 0 or st % size for st in array.strides):
        raise ValueError("from_dlpack: the array has negative strides. Copy it first.")
    view = contiguous(array.shape)._replace(strides=tuple(st // size for st in array.strides))
    count = view.extent()[1] if array.size else 0
    address = array.__array_interface__["data"][0]
    t = Tensor.of_storage(
        Storage(exchange.adopt(address, count, dtype, array), device), view, dtype
    )
    t.storage.inference, t.storage.frozen = state().inference, not array.flags.writeable
    return t


@public
def from_numpy(array: np.ndarray) -> Tensor:
    """A tensor that shares memory with a NumPy array.

    >>> import contraflow as cf
    >>> import numpy as np
    >>> array = np.zeros(2)
    >>> shared = cf.from_numpy(array)
    >>> array[0] = 5
    >>> shared
    tensor([5., 0.], dtype=contraflow.float64)
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"from_numpy: expected a NumPy array, not {type(array).__name__}.")
    if not array.flags.writeable:
        raise ValueError("from_numpy: the array is read-only. Use contraflow.tensor(array).")
    shared = _over(array)
    if shared is None:
        raise ValueError(
            "from_numpy: the array has strides that are negative or no multiples of its "
            "item size. Use contraflow.tensor(array), a copy."
        )
    return shared


@public
def from_dlpack(x: Any, *, device: Device | str | None = None, copy: bool | None = None) -> Tensor:
    """A tensor over the memory of another library's array, by DLPack.

    It lies on the device of the array, which has to be one that shares memory; `device` moves it
    from there. A read-only array, such as JAX's are, gives a tensor that refuses writes. Memory
    with negative strides is copied. `copy=True` copies always, `copy=False` never.

    >>> x = np.ones(2)
    >>> from_dlpack(x).add_(1.0)
    tensor([2., 2.], dtype=contraflow.float64)
    >>> x
    array([2., 2.])
    """
    here = dlpack.device_of_dlpack(x)
    there = Device(here) if device is None else devices.find("from_dlpack", device)
    if str(there) != here and copy is False:
        raise ValueError(f"from_dlpack: the array does not lie on {there}; it must be copied.")
    exchange = None if here == "cpu" else devices.lookup(here).exchange
    array = dlpack.array_from_dlpack(x, exchange)
    if exchange is not None:
        return _adopted(array, here, exchange).to(there, copy=bool(copy))
    shared = None if copy or there != CPU else _over(array)
    if shared is None and copy is False:
        raise ValueError("from_dlpack: the array has negative strides; it must be copied.")
    return Tensor.of_data("from_dlpack", array, None, there) if shared is None else shared


@public
def as_tensor(data: Any, dtype: DType | None = None, device: Device | str | None = None) -> Tensor:
    """`data` as a tensor, sharing memory where that is possible.

    >>> import contraflow as cf
    >>> cf.as_tensor([1.0, 2.0])
    tensor([1., 2.])
    """
    there = devices.find("as_tensor", device)
    if isinstance(data, Tensor):
        return data.to(data.device if device is None else there, dtype=dtype)
    if isinstance(data, np.ndarray) and data.flags.writeable and there == CPU:
        shared = _over(data) if dtype is None or dtype.numpy == data.dtype else None
        if shared is not None:
            return shared
    return Tensor.of_data("as_tensor", data, dtype, there)
