"""The handles of hooks, under PyTorch's path and name."""

from contraflow.tensors.hooks import Handle as RemovableHandle

__all__ = ["RemovableHandle"]
