"""PyTorch's names for types of arguments."""

import os
from typing import IO, Any

from contraflow.devices.names import Device
from contraflow.expressions.expression import Number
from contraflow.names import getter

FileLike = str | os.PathLike[str] | IO[Any]

__all__ = ["Device", "FileLike", "Number"]

globals()["__getattr__"] = getter(__name__)
