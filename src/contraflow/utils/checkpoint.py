"""Checkpointing under PyTorch's path; see `contraflow.checkpoint`."""

from contraflow.autograd.checkpoint import checkpoint, checkpoint_sequential
from contraflow.names import getter

__all__ = ["checkpoint", "checkpoint_sequential"]

globals()["__getattr__"] = getter(__name__)
