"""PyTorch's declarations of ops for its own compiler: accepted, and without effect.

Packages tell PyTorch's compiler the shapes of their ops in these ways. Here functions are captured
as they run; `contraflow.custom_op` makes an op of a function over NumPy arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from contraflow.names import getter


def register_fake(op: Any, func: Any = None, /, **options: Any) -> Any:
    """The function itself, which would say the shape of an op's results.

    >>> @register_fake("package::op")
    ... def shape_of(x):
    ...     return x
    >>> shape_of(1)
    1
    """
    return _itself if func is None else func


def impl(qualname: Any, types: Any, func: Any = None, *, lib: Any = None) -> Any:
    """The function itself, which would be an op's implementation for devices."""
    return _itself if func is None else func


def register_autocast(op: Any, device_type: str, cast_inputs: Any, /, **options: Any) -> None:
    """Nothing: PyTorch's ops by name are not here."""


def register_kernel(op: Any, device_types: Any = None, func: Any = None, /, **options: Any) -> Any:
    """The function itself, which would be an op's implementation for a device."""
    return _itself if func is None else func


def register_autograd(op: Any, backward: Any, /, **options: Any) -> None:
    """Nothing: PyTorch's ops by name are not here."""


def _itself(function: Any) -> Any:
    return function


class Library:
    """A namespace of ops of PyTorch's, into which nothing goes."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema: str, alias_analysis: str = "", **options: Any) -> str:
        """The name of the op."""
        return schema.partition("(")[0]

    def impl(self, op_name: Any, fn: Callable[..., Any], *args: Any, **options: Any) -> None:
        """Nothing."""


__all__ = [
    "Library",
    "impl",
    "register_autocast",
    "register_autograd",
    "register_fake",
    "register_kernel",
]

globals()["__getattr__"] = getter(__name__)
