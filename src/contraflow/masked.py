"""Reductions of the elements where a mask is True, under PyTorch's names."""

from __future__ import annotations

import math
from typing import Any

from contraflow.names import getter
from contraflow.ops.creation.create import ones_like
from contraflow.tensors.tensor import Tensor


def _with(input: Tensor, mask: Tensor | None, other: float, dtype: Any = None) -> Tensor:
    """The elements in a dtype, with others where the mask is False."""
    x = input if dtype is None else input.to(dtype)
    return x if mask is None else x.masked_fill(~mask, other)


def _count(input: Tensor, dim: Any, keepdim: bool, mask: Tensor | None) -> Tensor:
    counted = ones_like(input) if mask is None else mask.expand(input.shape).to(input.dtype)
    return counted.sum(dim, keepdim=keepdim)


def sum(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The sum of the elements that the mask shows; 0 where it shows none.

    >>> import contraflow as cf
    >>> cf.masked.sum(cf.tensor([1.0, 2.0, 3.0]), mask=cf.tensor([True, False, True]))
    tensor(4.)
    """
    return _with(input, mask, 0, dtype).sum(dim, keepdim=keepdim)


def mean(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The mean of the elements that the mask shows; nan where it shows none.

    >>> import contraflow as cf
    >>> cf.masked.mean(cf.tensor([1.0, 2.0, 3.0]), mask=cf.tensor([True, False, True]))
    tensor(2.)
    """
    x = input if dtype is None else input.to(dtype)
    return sum(x, dim, keepdim=keepdim, mask=mask) / _count(x, dim, keepdim, mask)


def var(
    input: Tensor, dim: Any = None, unbiased: bool = True, *, keepdim: bool = False,
    dtype: Any = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The variance of the elements that the mask shows.

    >>> import contraflow as cf
    >>> cf.masked.var(cf.tensor([1.0, 2.0, 3.0]), mask=cf.tensor([True, False, True]))
    tensor(2.)
    """
    x = input if dtype is None else input.to(dtype)
    apart = x - mean(x, dim, keepdim=True, mask=mask)
    squares = sum(apart * apart, dim, keepdim=keepdim, mask=mask)
    count = _count(x, dim, keepdim, mask)
    return squares / (count - 1 if unbiased else count).clamp(min=0)


def std(
    input: Tensor, dim: Any = None, unbiased: bool = True, *, keepdim: bool = False,
    dtype: Any = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The standard deviation of the elements that the mask shows.

    >>> import contraflow as cf
    >>> cf.masked.std(cf.tensor([1.0, 9.0, 1.0]), mask=cf.tensor([True, False, True]))
    tensor(0.)
    """
    return var(input, dim, unbiased, keepdim=keepdim, dtype=dtype, mask=mask).sqrt()


def amax(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The largest of the elements that the mask shows; -inf where it shows none.

    >>> import contraflow as cf
    >>> cf.masked.amax(cf.tensor([1.0, 9.0, 3.0]), mask=cf.tensor([True, False, True]))
    tensor(3.)
    """
    return _with(input, mask, -math.inf, dtype).amax(() if dim is None else dim, keepdim=keepdim)


def amin(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The smallest of the elements that the mask shows; inf where it shows none.

    >>> import contraflow as cf
    >>> cf.masked.amin(cf.tensor([1.0, 0.0, 3.0]), mask=cf.tensor([True, False, True]))
    tensor(1.)
    """
    return _with(input, mask, math.inf, dtype).amin(() if dim is None else dim, keepdim=keepdim)


def softmax(
    input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:  # fmt: skip
    """Exponentials of the elements that the mask shows, over their sum; 0 elsewhere.

    >>> import contraflow as cf
    >>> cf.masked.softmax(cf.zeros(3), 0, mask=cf.tensor([True, False, True]))
    tensor([0.5000, 0.0000, 0.5000])
    """
    return _with(input, mask, -math.inf, dtype).softmax(dim)


def log_softmax(
    input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:  # fmt: skip
    """The logarithm of `softmax`; -inf where the mask shows nothing.

    >>> import contraflow as cf
    >>> cf.masked.log_softmax(cf.zeros(2), 0, mask=cf.tensor([True, False]))
    tensor([0., -inf])
    """
    return _with(input, mask, -math.inf, dtype).log_softmax(dim)


__all__ = ["amax", "amin", "log_softmax", "mean", "softmax", "std", "sum", "var"]

globals()["__getattr__"] = getter(__name__)
