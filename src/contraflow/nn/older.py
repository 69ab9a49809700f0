"""PyTorch's older functions: resizing under other names, and pooling that gives indices."""

from __future__ import annotations

from typing import Any

from contraflow.nn.fractional import fractional_max_pool2d, fractional_max_pool3d
from contraflow.operation.public import public
from contraflow.ops.nn.max_pool import (
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from contraflow.ops.nn.resample import interpolate
from contraflow.tensors.tensor import Tensor


@public
def upsample(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:  # fmt: skip
    """Images resized; PyTorch deprecates it: use `interpolate`.

    >>> import contraflow as cf
    >>> cf.nn.functional.upsample(cf.ones(1, 1, 2, 2), scale_factor=2).shape
    (1, 1, 4, 4)
    """
    out: Tensor = interpolate(input, size, scale_factor, mode, align_corners)
    return out


@public
def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Images resized by their nearest pixels; PyTorch deprecates it: use `interpolate`.

    >>> import contraflow as cf
    >>> cf.nn.functional.upsample_nearest(cf.ones(1, 1, 2, 2), scale_factor=2).shape
    (1, 1, 4, 4)
    """
    return upsample(input, size, scale_factor)


@public
def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Images resized with `align_corners`; PyTorch deprecates it: use `interpolate`.

    >>> import contraflow as cf
    >>> cf.nn.functional.upsample_bilinear(cf.ones(1, 1, 2, 2), scale_factor=2).shape
    (1, 1, 4, 4)
    """
    return upsample(input, size, scale_factor, "bilinear", True)


def _with_indices(pool: Any) -> Any:
    @public
    def with_indices(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        return pool(input, *args, **{**kwargs, "return_indices": True})

    name = getattr(pool, "name", None) or pool.__name__
    with_indices.__name__ = with_indices.__qualname__ = f"{name}_with_indices"
    dims = ", ".join(["1", "2"] + ["4"] * int(name[-2]))
    sizes = "2" if "adaptive" in name else "2, 2"  # of the window, and its step or the output
    with_indices.__doc__ = (
        f"`{name}` with `return_indices=True`.\n\n>>> import contraflow as cf\n"
        f">>> values, indices = cf.nn.functional.{name}_with_indices(cf.ones({dims}), {sizes})\n"
        f">>> values.shape == indices.shape\nTrue\n"
    )
    return with_indices


max_pool1d_with_indices = _with_indices(max_pool1d)
max_pool2d_with_indices = _with_indices(max_pool2d)
max_pool3d_with_indices = _with_indices(max_pool3d)
adaptive_max_pool1d_with_indices = _with_indices(adaptive_max_pool1d)
adaptive_max_pool2d_with_indices = _with_indices(adaptive_max_pool2d)
adaptive_max_pool3d_with_indices = _with_indices(adaptive_max_pool3d)
fractional_max_pool2d_with_indices = _with_indices(fractional_max_pool2d)
fractional_max_pool3d_with_indices = _with_indices(fractional_max_pool3d)
