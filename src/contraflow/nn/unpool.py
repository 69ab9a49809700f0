"""Unpooling as functions: the inverse of max pooling, by the indices that it returned."""

from __future__ import annotations

from typing import Any

from contraflow.errors import describe
from contraflow.operation.public import public
from contraflow.ops.nn.max_pool import (
    max_unpool,
)
from contraflow.tensors.tensor import Tensor


def _unpool(
    n: int, input: Tensor, indices: Tensor, kernel_size: Any, stride: Any, padding: Any, size: Any
) -> Tensor:
    def each(given: Any) -> tuple[int, ...]:
        return tuple(given) if isinstance(given, (tuple, list)) else (given,) * n

    if input.ndim not in (n + 1, n + 2):
        raise ValueError(
            f"max_unpool{n}d: {describe(input)} has {input.ndim} dims; it needs [n, channels] or "
            f"[channels], then {n} sizes."
        )
    kernel, pads = each(kernel_size), each(padding)
    steps = kernel if stride is None else each(stride)
    plain = [
        (old - 1) * step - 2 * pad + width
        for old, step, pad, width in zip(input.shape[-n:], steps, pads, kernel)
    ]
    sizes = plain if size is None else list(size)[-n:]
    if len(sizes) != n or any(abs(a - b) >= step for a, b, step in zip(sizes, plain, steps)):
        raise ValueError(
            f"max_unpool{n}d: output_size {size} is not within a stride of {plain}, which "
            f"{describe(input)} gives by itself."
        )
    out: Tensor = max_unpool(input, indices, size=tuple(sizes))
    return out


@public
def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: int | tuple[int, ...],
    stride: int | tuple[int, ...] | None = None,
    padding: int | tuple[int, ...] = 0,
    output_size: tuple[int, ...] | None = None,
) -> Tensor:
    """Largest elements [n, c, l] put back where max_pool1d found them, zeros elsewhere.

    >>> import contraflow as cf
    >>> pooled, indices = cf.nn.functional.max_pool1d_with_indices(cf.tensor([[1.0, 3.0]]), 2)
    >>> cf.nn.functional.max_unpool1d(pooled, indices, 2)
    tensor([[0., 3.]])
    """
    return _unpool(1, input, indices, kernel_size, stride, padding, output_size)


@public
def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: int | tuple[int, ...],
    stride: int | tuple[int, ...] | None = None,
    padding: int | tuple[int, ...] = 0,
    output_size: tuple[int, ...] | None = None,
) -> Tensor:
    """Largest elements [n, c, h, w] put back where max_pool2d found them, zeros elsewhere.

    >>> import contraflow as cf
    >>> pooled, indices = cf.nn.functional.max_pool2d_with_indices(cf.ones(1, 4, 4), 2)
    >>> cf.nn.functional.max_unpool2d(pooled, indices, 2).shape
    (1, 4, 4)
    """
    return _unpool(2, input, indices, kernel_size, stride, padding, output_size)


@public
def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: int | tuple[int, ...],
    stride: int | tuple[int, ...] | None = None,
    padding: int | tuple[int, ...] = 0,
    output_size: tuple[int, ...] | None = None,
) -> Tensor:
    """Largest elements [n, c, d, h, w] put back where max_pool3d found them, zeros elsewhere.

    >>> import contraflow as cf
    >>> pooled, indices = cf.nn.functional.max_pool3d_with_indices(cf.ones(1, 4, 4, 4), 2)
    >>> cf.nn.functional.max_unpool3d(pooled, indices, 2).shape
    (1, 4, 4, 4)
    """
    return _unpool(3, input, indices, kernel_size, stride, padding, output_size)
