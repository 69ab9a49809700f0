"""PyTorch's questions about Intel's GPUs, which webgpu serves: there is no such device here."""

from contraflow.mps import __all__
from contraflow.names import getter

__all__ = [*__all__]  # the names that both have

globals()["__getattr__"] = getter(__name__)
