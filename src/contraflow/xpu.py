"""PyTorch's questions about Intel's GPUs, which webgpu serves: there is no such device here."""

from contraflow.mps import *  # noqa: F403
from contraflow.mps import __all__ as _names
from contraflow.names import getter

__all__ = [*_names]

globals()["__getattr__"] = getter(__name__)
