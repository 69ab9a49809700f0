"""PyTorch's types of what several processes share, for annotations and `isinstance`: no objects."""

from contraflow.names import getter, without_objects

DeviceMesh = without_objects("DeviceMesh", "an arrangement of devices of several processes")

__all__ = ["DeviceMesh"]

globals()["__getattr__"] = getter(__name__)
