"""Datasets, samplers and loaders under PyTorch's path; they are those of `contraflow.data`."""

import sys

from contraflow.data import *  # noqa: F403
from contraflow.data import __all__ as _names
from contraflow.data import collate, datasets, loader, samplers
from contraflow.names import getter

# PyTorch's names of the modules within, which programs import from too.
_MODULES = {
    "dataset": datasets, "dataloader": loader, "sampler": samplers, "distributed": samplers
}  # fmt: skip
for _name, _module in _MODULES.items():
    sys.modules[f"{__name__}.{_name}"] = globals()[_name] = _module
__path__: list[str] = []  # so that they can be imported

__all__ = [*_names, "collate"]

globals()["__getattr__"] = getter(__name__)
