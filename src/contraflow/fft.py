"""The real parts of work with Fourier transforms: frequencies, and the order of their values.

The transforms themselves are refused: there are no complex numbers here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from contraflow.names import getter
from contraflow.ops.creation.create import arange
from contraflow.tensors.tensor import Tensor


def fftfreq(n: int, d: float = 1.0, **options: Any) -> Tensor:
    """The frequencies [n] of a transform of n values at distances d, negative ones last.

    >>> fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    turned: Tensor = (arange(float(n), **options) + n // 2) % n
    return (turned - n // 2) / (n * d)


def rfftfreq(n: int, d: float = 1.0, **options: Any) -> Tensor:
    """The frequencies [n // 2 + 1] of a transform of n real values at distances d.

    >>> rfftfreq(4)
    tensor([0.0000, 0.2500, 0.5000])
    """
    numbers: Tensor = arange(float(n // 2 + 1), **options)
    return numbers / (n * d)


def _dims(input: Tensor, dim: int | Sequence[int] | None) -> list[int]:
    if dim is None:
        return list(range(input.ndim))
    return [dim] if isinstance(dim, int) else list(dim)


def fftshift(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """The frequency zero moved to the middle, along each of some dims or all.

    >>> fftshift(fftfreq(4))
    tensor([-0.5000, -0.2500,  0.0000,  0.2500])
    """
    dims = _dims(input, dim)
    return input.roll([input.shape[d] // 2 for d in dims], dims)


def ifftshift(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """The inverse of `fftshift`.

    >>> ifftshift(fftshift(fftfreq(5)))
    tensor([ 0.0000,  0.2000,  0.4000, -0.4000, -0.2000])
    """
    dims = _dims(input, dim)
    return input.roll([-(input.shape[d] // 2) for d in dims], dims)


__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]

globals()["__getattr__"] = getter(__name__)
