"""The backend of einops for tensors: `import contraflow.utils.einops` once, before its functions.

>>> from contraflow.utils import einops as _  # doctest: +SKIP
>>> from einops import rearrange  # doctest: +SKIP
>>> rearrange(cf.ones(2, 3, 4), "a b c -> b (a c)").shape  # doctest: +SKIP
Size([3, 8])

`einops.array_api` needs no backend. Programs that run through `as_torch` do not either: einops then
takes contraflow for PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from einops._backends import AbstractBackend

from contraflow.ops.creation.create import arange
from contraflow.ops.creation.data import from_numpy
from contraflow.ops.linalg.einsum import einsum
from contraflow.ops.shape.joining import cat, stack
from contraflow.tensors.tensor import Tensor


class ContraflowBackend(AbstractBackend):  # type: ignore[misc]
    """The functions that einops needs of a library of tensors."""

    framework_name = "contraflow"

    def is_appropriate_type(self, tensor: Any) -> bool:
        return isinstance(tensor, Tensor)

    def from_numpy(self, x: np.ndarray) -> Tensor:
        return from_numpy(x)

    def to_numpy(self, x: Tensor) -> np.ndarray:
        return x.detach().cpu().numpy()

    def arange(self, start: int, stop: int) -> Tensor:
        out: Tensor = arange(start, stop)
        return out

    def transpose(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        return x.permute(tuple(axes))

    def reduce(self, x: Tensor, operation: str, axes: Sequence[int]) -> Tensor:
        if operation in ("min", "max"):
            operation = f"a{operation}"
        if operation == "prod":  # of one dim at a time; the last first, so that numbers stay
            for axis in sorted(axes, reverse=True):
                x = x.prod(axis)
            return x
        out: Tensor = getattr(x, operation)(tuple(axes))
        return out

    def stack_on_zeroth_dimension(self, tensors: Sequence[Tensor]) -> Tensor:
        out: Tensor = stack(tuple(tensors))
        return out

    def add_axis(self, x: Tensor, new_position: int) -> Tensor:
        return x.unsqueeze(new_position)

    def tile(self, x: Tensor, repeats: Sequence[int]) -> Tensor:
        return x.repeat(*repeats)

    def concat(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        out: Tensor = cat(tuple(tensors), axis)
        return out

    def is_float_type(self, x: Tensor) -> bool:
        return x.is_floating_point()

    def einsum(self, pattern: str, *x: Tensor) -> Tensor:
        out: Tensor = einsum(pattern, *x)
        return out
