"""Tensors out of nothing: constants and ranges, and data from Python and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from contraflow import dtypes
from contraflow import scalar as s
from contraflow.dtypes import DType, float32, int64
from contraflow.op import LINEAR, Failure, Sample, apply, create
from contraflow.shapes import contiguous
from contraflow.storage import Storage
from contraflow.tensor import Tensor


def _full_ref(value: Any, shape: Any, dtype: DType) -> np.ndarray:
    if isinstance(value, float) and not dtype.is_floating_point:
        value = s.saturating_cast(value, dtype)
    return np.full(shape, value, dtype.numpy)


@create(
    ref=_full_ref,
    dtype="param",
    method=False,
    samples=lambda: (
        Sample((2.5,), {"shape": (2, 3), "dtype": float32}),
        Sample((7,), {"shape": (), "dtype": int64}),
        Sample((1.0,), {"shape": (0, 2), "dtype": float32}),
        Sample((float("nan"),), {"shape": (2,), "dtype": int64}),
        Sample((-1e30,), {"shape": (2,), "dtype": int64}),
    ),
    failures=lambda: (
        Failure((1.0,), {"shape": (-1,), "dtype": float32}, ValueError, "full: size -1"),
    ),
    normalize=lambda value, shape, dtype: _checked(shape),
)
def full(value, *, shape, dtype):
    """A tensor of one value."""
    return s.cast(value, dtype.compute)


def _checked(shape: Any) -> dict[str, Any]:
    shape = tuple(shape)
    for n in shape:
        if n < 0:
            raise ValueError(f"full: size {n} in shape {shape} is negative.")
    return {"shape": shape}


@full.signature
def _full(
    shape: Any, value: Any, dtype: DType | None = None, requires_grad: bool = False
) -> Tensor:
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    dtype = dtypes.of_number(value) if dtype is None else dtype
    params = {"shape": shape, "dtype": dtype, **_checked(shape)}
    return _finish(apply(full, (value,), params), requires_grad)


@create(
    ref=lambda start, step, shape, dtype: (start + step * np.arange(shape[0])).astype(dtype.numpy),
    dtype="param",
    method=False,
    samples=lambda: (
        Sample((0, 1), {"shape": (5,), "dtype": int64}),
        Sample((1.0, 0.5), {"shape": (4,), "dtype": float32}),
    ),
)
def arange(start, step, *, shape, dtype):
    """start, start + step, ..., as many as `shape` says."""
    return s.cast(start + step * s.cast(LINEAR, step.dtype), dtype.compute)


@arange.signature
def _arange(
    start: Any, end: Any = None, step: Any = 1, *, dtype: DType | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    if end is None:
        start, end = 0, start
    if step == 0:
        raise ValueError("arange: step is 0.")
    if dtype is None:
        floating = any(isinstance(v, float) for v in (start, end, step))
        dtype = dtypes.get_default_dtype() if floating else int64
    count = max(0, int(np.ceil((end - start) / step)))
    if isinstance(start, float) or isinstance(step, float):
        start, step = float(start), float(step)  # the body adds them, and has no mixed dtypes
    return _finish(apply(arange, (start, step), {"shape": (count,), "dtype": dtype}), requires_grad)


def _finish(t: Tensor, requires_grad: bool) -> Tensor:
    return t.requires_grad_() if requires_grad else t


def _shape(given: tuple[Any, ...]) -> tuple[int, ...]:
    if len(given) == 1 and isinstance(given[0], (tuple, list)):
        return tuple(given[0])
    return tuple(given)


def zeros(*shape: Any, dtype: DType | None = None, requires_grad: bool = False) -> Tensor:
    """A tensor of zeros."""
    return _full(_shape(shape), 0, dtype or dtypes.get_default_dtype(), requires_grad)


def ones(*shape: Any, dtype: DType | None = None, requires_grad: bool = False) -> Tensor:
    """A tensor of ones."""
    return _full(_shape(shape), 1, dtype or dtypes.get_default_dtype(), requires_grad)


def zeros_like(x: Tensor, *, dtype: DType | None = None) -> Tensor:
    """Zeros with the shape and dtype of `x`."""
    return _full(x.shape, 0, dtype or x.dtype)


def ones_like(x: Tensor, *, dtype: DType | None = None) -> Tensor:
    """Ones with the shape and dtype of `x`."""
    return _full(x.shape, 1, dtype or x.dtype)


def full_like(x: Tensor, value: Any, *, dtype: DType | None = None) -> Tensor:
    """A constant with the shape and dtype of `x`."""
    return _full(x.shape, value, dtype or x.dtype)


def tensor(data: Any, *, dtype: DType | None = None, requires_grad: bool = False) -> Tensor:
    """A new tensor with a copy of `data`: numbers, nested lists, NumPy arrays or tensors."""
    if isinstance(data, Tensor):
        array = data.detach().array
    elif isinstance(data, (np.ndarray, np.generic)):
        array = np.asarray(data)
    else:
        array = np.asarray(_plain(data))
        if array.dtype == np.float64:
            array = array.astype(dtypes.get_default_dtype().numpy)
        elif array.dtype.kind == "O" or array.dtype.kind in "US":
            raise TypeError(f"tensor: cannot make a tensor of {type(data).__name__} {data!r:.60}.")
        elif array.dtype.kind in "iu":
            array = array.astype(np.int64)
    target = dtypes.from_numpy(array.dtype).numpy if dtype is None else dtype.numpy
    copy = np.array(array, dtype=target, order="C", copy=True)
    return _finish(Tensor.of_array(copy), requires_grad)


def _plain(data: Any) -> Any:
    """Nested sequences with the tensors in them turned into numbers."""
    if isinstance(data, Tensor):
        return data.detach().tolist()
    if isinstance(data, (list, tuple)):
        return [_plain(x) for x in data]
    return data


def from_numpy(array: np.ndarray) -> Tensor:
    """A tensor that shares memory with a NumPy array."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"from_numpy: expected a NumPy array, not {type(array).__name__}.")
    dtype = dtypes.from_numpy(array.dtype)
    if not array.flags.writeable:
        raise ValueError("from_numpy: the array is read-only. Use contraflow.tensor(array).")
    if array.flags.c_contiguous:
        return Tensor.of_array(array)
    if any(st < 0 for st in array.strides):
        raise ValueError(
            "from_numpy: the array has negative strides. Use contraflow.tensor(array), a copy."
        )
    if any(st % array.itemsize for st in array.strides):
        raise ValueError("from_numpy: the array's elements are not aligned. Copy it first.")
    view = contiguous(array.shape)._replace(
        strides=tuple(st // array.itemsize for st in array.strides)
    )
    _, count = view.extent()
    window = np.lib.stride_tricks.as_strided(array, (count,), (array.itemsize,))
    return Tensor.of_storage(Storage(window), view, dtype)


def as_tensor(data: Any, *, dtype: DType | None = None) -> Tensor:
    """`data` as a tensor, sharing memory where that is possible."""
    if isinstance(data, Tensor):
        return data if dtype is None or dtype is data.dtype else data.to(dtype)
    shareable = isinstance(data, np.ndarray) and data.flags.c_contiguous and data.flags.writeable
    if shareable and (dtype is None or dtype.numpy == data.dtype):
        return from_numpy(data)
    return tensor(data, dtype=dtype)
