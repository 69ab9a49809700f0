"""Specs: the shape and dtype of a value, and the static parameters of a call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from contraflow.dtypes import DType
from contraflow.errors import describe_spec
from contraflow.shapes import Shape

Params = Mapping[str, Any]
NO_PARAMS: Params = {}


class Spec(NamedTuple):
    """The shape and dtype of a value."""

    shape: Shape
    dtype: DType

    def __str__(self) -> str:
        return describe_spec(self.dtype, self.shape)


Given = Spec | bool | int | float
