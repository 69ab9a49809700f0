"""PyTorch's functions for its ONNX exporter, of which there are none here."""

from contraflow.names import getter

globals()["__getattr__"] = getter(__name__)
