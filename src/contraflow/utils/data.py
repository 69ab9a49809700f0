"""Datasets, samplers and loaders under PyTorch's path; they are those of `contraflow.data`."""

import sys

from contraflow.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    WorkerInfo,
    collate,
    datasets,
    default_collate,
    default_convert,
    get_worker_info,
    loader,
    random_split,
    samplers,
)
from contraflow.names import getter

# PyTorch's names of the modules within, which programs import from too.
_MODULES = {
    "dataset": datasets, "dataloader": loader, "sampler": samplers, "distributed": samplers
}  # fmt: skip
for _name, _module in _MODULES.items():
    sys.modules[f"{__name__}.{_name}"] = globals()[_name] = _module
__path__: list[str] = []  # so that they can be imported

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "WorkerInfo",
    "collate",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "random_split",
]

globals()["__getattr__"] = getter(__name__)
