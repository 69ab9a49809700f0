"""PyTorch's question whether a model is being written as ONNX, which it never is; and no exporter.

Packages tell the exporter how their ops are written. That is accepted, and without effect.
"""

from typing import Any

from contraflow.names import getter


def is_in_onnx_export() -> bool:
    """Whether a model is being written as ONNX: never."""
    return False


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Any, opset_version: int) -> None:
    """Nothing: there is no exporter to tell."""


__all__ = ["is_in_onnx_export", "register_custom_op_symbolic"]

globals()["__getattr__"] = getter(__name__, "symbolic_helper", "symbolic_opset11")
