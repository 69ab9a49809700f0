"""TensorBoard's writer, which is tensorboardX's: `pip install tensorboardX` before."""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """The class of another package, which is imported when it is asked for."""
    if name == "SummaryWriter":
        return import_module("tensorboardX").SummaryWriter
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
