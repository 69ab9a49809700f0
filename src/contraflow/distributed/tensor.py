"""PyTorch's types of what several processes share, for annotations and `isinstance`: no objects."""

from contraflow.names import getter, without_objects

DTensor = without_objects("DTensor", "a tensor that several processes share")
Placement = without_objects("Placement", "a way to share a tensor")
Replicate = without_objects("Replicate", "a way to share a tensor")
Shard = without_objects("Shard", "a way to share a tensor")

__all__ = ["DTensor", "Placement", "Replicate", "Shard"]

globals()["__getattr__"] = getter(__name__)
