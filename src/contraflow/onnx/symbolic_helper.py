"""PyTorch's decorators of functions for its ONNX exporter: the functions themselves."""

from collections.abc import Callable
from typing import TypeVar

from contraflow.names import getter

F = TypeVar("F")


def parse_args(*arg_descriptors: str) -> Callable[[F], F]:
    """A decorator that gives the function itself."""
    return lambda function: function


__all__ = ["parse_args"]

globals()["__getattr__"] = getter(__name__)
