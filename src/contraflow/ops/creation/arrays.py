"""Tensors of arrays and buffers, and with strides of their own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from contraflow import dtypes
from contraflow.devices.names import Device
from contraflow.dtypes import DType
from contraflow.expressions.expression import Number
from contraflow.operation.public import creation, public
from contraflow.ops.creation.create import arange, finish, full, of_doubles, zeros
from contraflow.ops.creation.data import as_tensor, from_numpy  # fmt: skip
from contraflow.tensors.tensor import Tensor


@public
def asarray(
    obj: Any, *, dtype: DType | None = None, device: Device | str | None = None,
    copy: bool | None = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """`obj` as a tensor: with the memory that it has where `copy` and the dtype allow it.

    `copy=True` copies always, `copy=False` never.

    >>> x = np.zeros(2)
    >>> asarray(x).add_(1.0)
    tensor([1., 1.], dtype=contraflow.float64)
    >>> x
    array([1., 1.])
    """
    made = as_tensor(obj, dtype, device)
    source = obj if isinstance(obj, Tensor) else None
    is_array = isinstance(obj, np.ndarray) and made.storage.on_host
    shares = made is source or (is_array and np.shares_memory(obj, made.array))
    if copy is False and not shares:
        raise ValueError(f"asarray: {type(obj).__name__} must be copied, and copy is False.")
    if copy and shares:
        made = made.detach().clone()
    elif source is not None and not requires_grad:
        return made if source.requires_grad is made.requires_grad else made.detach()
    return finish(made.detach() if requires_grad else made, requires_grad)


@public
def frombuffer(
    buffer: Any, *, dtype: DType, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A vector over the memory of an object that has Python's buffer interface.

    `count` elements are taken from byte `offset` on. A tensor over bytes, which cannot be written
    to, is a copy.

    >>> frombuffer(bytearray([1, 2, 3]), dtype=dtypes.uint8, offset=1)
    tensor([2, 3], dtype=contraflow.uint8)
    """
    if not isinstance(dtype, DType):
        raise TypeError(f"frombuffer: dtype {dtype!r} is not a dtype.")
    view = memoryview(buffer).cast("B")
    size = dtype.itemsize
    left = len(view) - offset
    if offset < 0 or left <= 0:
        raise ValueError(f"frombuffer: offset {offset} is not within the {len(view)} bytes.")
    if count < 0 and left % size:
        raise ValueError(
            f"frombuffer: the {left} bytes from offset {offset} on are not a whole number of "
            f"{dtype} elements."
        )
    if count == 0 or count * size > left:
        raise ValueError(f"frombuffer: {count} elements of {dtype} do not fit {left} bytes.")
    array = np.frombuffer(view, dtype.numpy, count, offset)
    made = from_numpy(array if array.flags.writeable else array.copy())
    return finish(made, requires_grad)


@creation
def scalar_tensor(
    s: Number, *, dtype: DType | None = None, device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A 0-d tensor of a number, in the default dtype unless another is given.

    >>> scalar_tensor(2)
    tensor(2.)
    """
    dtype = dtype or dtypes.get_default_dtype()
    made: Tensor = full((), s, dtype, device, requires_grad)
    return made


@creation
def empty_strided(
    size: Sequence[int], stride: Sequence[int], *, dtype: DType | None = None,
    device: Device | str | None = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor to be written to, with distances between neighbours; it starts with zeros.

    >>> empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    if len(size) != len(stride) or min((*size, *stride), default=0) < 0:
        raise ValueError(f"empty_strided: strides {tuple(stride)} do not fit {tuple(size)}.")
    last = 0 if 0 in size else 1 + sum((n - 1) * st for n, st in zip(size, stride))
    memory = zeros(last, dtype=dtype, device=device)
    made: Tensor = memory.as_strided(tuple(size), tuple(stride)).detach()
    return finish(made, requires_grad)


@creation
def empty_permuted(
    size: Sequence[int], physical_layout: Sequence[int], *, dtype: DType | None = None,
    device: Device | str | None = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor to be written to, whose dims lie in memory in an order; it starts with zeros.

    >>> empty_permuted((2, 3), (1, 0)).stride()
    (1, 2)
    """
    if sorted(physical_layout) != list(range(len(size))):
        raise ValueError(f"empty_permuted: {tuple(physical_layout)} is not an order of the dims.")
    stride, step = [0] * len(size), 1
    for dim in reversed(physical_layout):
        stride[dim], step = step, step * max(size[dim], 1)
    return empty_strided(size, stride, dtype=dtype, device=device, requires_grad=requires_grad)


@creation
def range_(
    start: Any = 0, end: Any = None, step: Any = 1, *, dtype: DType | None = None,
    device: Device | str | None = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Numbers from `start` to `end`, which is among them. PyTorch deprecates it: use `arange`.

    >>> range_(1, 3)
    tensor([1., 2., 3.])
    """
    if end is None:
        start, end = 0, start
    if step == 0 or (end - start) * step < 0:
        raise ValueError(f"range: step {step} does not lead from {start} to {end}.")
    count = math.floor((end - start) / step) + 1
    dtype = dtype or dtypes.get_default_dtype()

    def compute() -> Tensor:
        numbers: Tensor = arange(count, dtype=dtypes.float64) * step + start
        return numbers

    return finish(of_doubles("range", compute, dtype, device), requires_grad)
