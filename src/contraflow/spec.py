"""What is known of a value without its data, and the static parameters of a call."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from contraflow.dtypes import DType
from contraflow.errors import describe_spec
from contraflow.shapes import Shape

Params = Mapping[str, Any]
NO_PARAMS: Params = {}


class Spec(NamedTuple):
    """What is known of a value without its data."""

    shape: Shape
    dtype: DType

    def __str__(self) -> str:
        return describe_spec(self.dtype, self.shape)


Given = Spec | bool | int | float


@lru_cache(maxsize=8192)
def specs_of(*described: Any) -> tuple[Spec | None, ...]:
    """The specs of tensors, from the shape and dtype of each; None for two of None.

    They are kept with every node, so equal ones are one object.
    """
    pairs = zip(described[::2], described[1::2])
    return tuple(None if shape is None else Spec(shape, dtype) for shape, dtype in pairs)
