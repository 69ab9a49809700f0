"""The collectives of `contraflow.distributed.nn` under PyTorch's other path."""

from contraflow.distributed.nn import all_gather, all_reduce, broadcast

__all__ = ["all_gather", "all_reduce", "broadcast"]
