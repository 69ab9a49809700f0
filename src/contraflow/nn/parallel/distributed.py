"""PyTorch's path to `DistributedDataParallel`."""

from contraflow.names import getter
from contraflow.nn.parallel import DistributedDataParallel

__all__ = ["DistributedDataParallel"]

globals()["__getattr__"] = getter(__name__)
