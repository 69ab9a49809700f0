"""PyTorch's types of what several processes share, for annotations and `isinstance`: no objects."""

from contraflow.names import getter, without_objects

FullyShardedDataParallel = without_objects(
    "FullyShardedDataParallel", "a module that several processes share"
)

__all__ = ["FullyShardedDataParallel"]

globals()["__getattr__"] = getter(__name__)
