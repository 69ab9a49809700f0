"""PyTorch's type of results that come later, for annotations and `isinstance`: there are none."""

from contraflow.names import getter, without_objects

Future = without_objects("Future", "a result of PyTorch's that comes later")

__all__ = ["Future"]

globals()["__getattr__"] = getter(__name__)
