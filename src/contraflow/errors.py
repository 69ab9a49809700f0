"""The three errors of wrong state, and the one way a tensor is named in a message.

Wrong arguments raise Python's own TypeError, ValueError and IndexError. What is wrong with the
state of the program (the graph, a recording, a machine) raises one of these. Every message reads
`op: what was asked; what is wrong; what would work`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class GradientError(RuntimeError):
    """The autograd graph cannot give the gradient that was asked for."""


class CaptureError(RuntimeError):
    """A function being compiled does something that cannot be recorded."""


class DeviceError(RuntimeError):
    """A device is absent, full, or has no kernel for what was asked."""


def describe(x: Any) -> str:
    """Name a tensor-like value as `float32[32, 128]`, with its device unless that is the cpu."""
    if isinstance(x, (bool, int, float)):
        return repr(x)
    if hasattr(x, "dtype") and hasattr(x, "shape"):
        device = str(getattr(x, "device", "cpu"))
        return describe_spec(x.dtype, x.shape) + ("" if device == "cpu" else f" on {device}")
    return type(x).__name__


def describe_spec(dtype: object, shape: Sequence[int]) -> str:
    """Write a dtype and a shape the way every message and every tape does."""
    return f"{dtype}[{', '.join(map(str, shape))}]"
