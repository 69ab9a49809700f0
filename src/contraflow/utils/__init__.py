"""PyTorch's paths to data, checkpoints and DLPack: `contraflow.utils.data.DataLoader`."""

from contraflow.names import getter
from contraflow.utils import checkpoint, data, dlpack, hooks

__all__ = ["checkpoint", "data", "dlpack", "hooks"]

globals()["__getattr__"] = getter(__name__, "_pytree", "model_zoo", "tensorboard")
