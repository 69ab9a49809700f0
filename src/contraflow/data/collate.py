"""Batches of samples: tensors are stacked, containers kept around them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from contraflow.data.datasets import Rows
from contraflow.dtypes import float64
from contraflow.errors import describe
from contraflow.ops.creation.data import as_tensor, tensor
from contraflow.ops.shape.joining import stack
from contraflow.tensors.tensor import Tensor
from contraflow.tensors.tree import like, parts


def default_collate(batch: Sequence[Any]) -> Any:
    """A batch of samples: tensors and arrays stacked, numbers as a tensor, strings as they are.

    A batch of dicts is a dict of batches, and one of lists or tuples a list of batches.

    >>> default_collate([(1, "a"), (2, "b")])
    [tensor([1, 2]), ('a', 'b')]
    """
    if isinstance(batch, Rows):
        return list(batch.columns)
    first = batch[0]
    if isinstance(first, Tensor):
        stacked: Tensor = stack(list(batch))
        return stacked
    if isinstance(first, (np.ndarray, np.generic)):
        arrays = [np.asarray(sample) for sample in batch]
        if len({(array.shape, array.dtype) for array in arrays}) == 1:
            return as_tensor(np.stack(arrays))
        return default_collate([as_tensor(array) for array in arrays])
    if isinstance(first, float):
        return tensor(list(batch), dtype=float64)
    if isinstance(first, int):
        return tensor(list(batch))
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return like(first, [default_collate([sample[key] for sample in batch]) for key in first])
    if isinstance(first, Sequence):
        lengths = sorted({len(sample) for sample in batch})
        if len(lengths) > 1:
            raise ValueError(
                f"default_collate: the samples have different numbers of parts, {lengths}. "
                f"Write a collate_fn."
            )
        made = [default_collate(column) for column in zip(*batch)]
        return like(first, made) if hasattr(first, "_fields") else made
    raise TypeError(
        f"default_collate: cannot make a batch of {describe(first)}. It takes tensors, arrays, "
        f"numbers, strings, dicts, lists and tuples; for others write a collate_fn."
    )


def pinned(data: Any) -> Any:
    """A batch in pinned memory: its tensors, and objects of classes that have `pin_memory`."""
    inside = None if dataclasses.is_dataclass(data) else parts(data, Mapping)
    if inside is not None:
        return like(data, [pinned(value) for _, value in inside])
    if isinstance(data, Tensor) and (data.storage.device != "cpu" or data.requires_grad):
        return data
    pin = getattr(data, "pin_memory", None)
    return data if pin is None or isinstance(data, type) else pin()


def default_convert(data: Any) -> Any:
    """A sample with its NumPy arrays and scalars as tensors.

    >>> import numpy as np
    >>> default_convert({"a": np.ones(2, np.float32), "b": 3})
    {'a': tensor([1., 1.]), 'b': 3}
    """
    if isinstance(data, (np.ndarray, np.generic)) and data.dtype.kind not in "OSUV":
        return as_tensor(np.asarray(data))
    inside = parts(data, Mapping)
    if inside is None or dataclasses.is_dataclass(data):
        return data
    made = [default_convert(value) for _, value in inside]
    named = isinstance(data, Mapping) or hasattr(data, "_fields")
    return like(data, made) if named else made
