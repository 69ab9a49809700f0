"""PyTorch's names for types of arguments."""

import os
from collections.abc import Sequence
from typing import IO, Any

from contraflow.devices.names import Device
from contraflow.dtypes import DType
from contraflow.expressions.expression import Number
from contraflow.names import getter

FileLike = str | os.PathLike[str] | IO[Any]

# Names that packages import, torchvision among them.
_device, _dtype, _size = Device, DType, Sequence[int]

__all__ = ["Device", "FileLike", "Number"]

globals()["__getattr__"] = getter(__name__)
