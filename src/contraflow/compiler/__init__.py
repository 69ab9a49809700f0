"""The compiler: from tapes of ops to plans of kernels, for any device.

PyTorch has names of its compiler at this path; those that programs use are here.
"""

from __future__ import annotations

from contraflow.names import getter
from contraflow.operation.context import state


def is_compiling() -> bool:
    """Whether the running function is being recorded."""
    return state().context.is_recording


is_dynamo_compiling = is_compiling  # PyTorch's older name


def is_exporting() -> bool:
    """Whether a function is being recorded for a file: never."""
    return False


def cudagraph_mark_step_begin() -> None:
    """Nothing: results of compiled functions are never overwritten by the next call."""


__all__ = ["cudagraph_mark_step_begin", "is_compiling", "is_dynamo_compiling", "is_exporting"]

globals()["__getattr__"] = getter(__name__)
