"""PyTorch's path to quantisation; of it only the marks in models, which do nothing."""

from contraflow.ao import quantization

__all__ = ["quantization"]
