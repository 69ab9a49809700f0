"""PyTorch's question whether a model is being written as ONNX; it never is."""

from contraflow.names import getter


def is_in_onnx_export() -> bool:
    """Whether a model is being written as ONNX: never."""
    return False


__all__ = ["is_in_onnx_export"]

globals()["__getattr__"] = getter(__name__)
