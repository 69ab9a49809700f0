"""Datasets: samples by index, or one after the other."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from types import GenericAlias
from typing import Any

from contraflow.dtypes import int64
from contraflow.errors import describe
from contraflow.ops.creation.data import tensor
from contraflow.ops.creation.sampling import randperm
from contraflow.tensors.generator import Generator
from contraflow.tensors.tensor import Tensor


class Dataset:
    """A dataset of samples by index. Write `__getitem__`, and `__len__`, which samplers need.

    A DataLoader asks a dataset that has `__getitems__(indices)` for all samples of a batch at once.

    >>> class Squares(Dataset):
    ...     def __len__(self):
    ...         return 3
    ...
    ...     def __getitem__(self, i):
    ...         return i * i
    >>> (Squares() + Squares())[4]
    1
    """

    __class_getitem__: Any = classmethod(GenericAlias)  # `Dataset[T]`, in annotations and as a base

    keeps_for_users = True  # compiled functions observe what they read of it

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__}: __getitem__ is not implemented.")

    def __add__(self, other: Any) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset):
    """A dataset that is iterated over. Write `__iter__`.

    Each worker of a DataLoader iterates over the dataset, and `get_worker_info` tells it which
    share of the samples it should give.

    >>> import contraflow as cf
    >>> class Countdown(IterableDataset):
    ...     def __iter__(self):
    ...         return iter([3, 2, 1])
    >>> [batch.tolist() for batch in cf.data.DataLoader(Countdown(), batch_size=2)]
    [[3, 2], [1]]
    """

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__}: __iter__ is not implemented.")

    def __add__(self, other: Any) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])


class Rows(Sequence[tuple[Tensor, ...]]):
    """Samples that are stacked already: sample i is the tuple of elements i of some tensors."""

    def __init__(self, columns: tuple[Tensor, ...]) -> None:
        self.columns = columns

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return Rows(tuple(x[index] for x in self.columns))
        return tuple(x[index] for x in self.columns)

    def __len__(self) -> int:
        return len(self.columns[0])


class TensorDataset(Dataset):
    """Tensors of the same length: sample i is the tuple of their elements i.

    >>> import contraflow as cf
    >>> TensorDataset(cf.arange(3), cf.ones(3, 2))[1]
    (tensor(1), tensor([1., 1.]))
    """

    def __init__(self, *tensors: Tensor) -> None:
        for x in tensors:
            if not isinstance(x, Tensor) or not x.ndim or len(x) != len(tensors[0]):
                given = ", ".join(map(describe, tensors))
                raise ValueError(f"TensorDataset: ({given}) are not tensors of the same length.")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(x[index] for x in self.tensors)

    def __getitems__(self, indices: Sequence[Any]) -> Sequence[Any]:
        """The samples at several indices, by one op for each tensor."""
        plain = type(self).__getitem__ is TensorDataset.__getitem__
        if not plain or not self.tensors or not all(isinstance(i, int) for i in indices):
            return [self[i] for i in indices]
        at = tensor(indices, dtype=int64, device="cpu")
        return Rows(tuple(x[at] for x in self.tensors))

    def __len__(self) -> int:
        return len(self.tensors[0]) if self.tensors else 0


class StackDataset(Dataset):
    """Datasets of the same length: sample i holds their samples i, in a tuple or by name.

    >>> StackDataset(x="abc", y=[1, 2, 3])[1]
    {'x': 'b', 'y': 2}
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            raise ValueError(
                "StackDataset: give datasets either in order or by name, and at least one."
            )
        self.datasets: Any = kwargs or args
        lengths = [len(dataset) for dataset in (*args, *kwargs.values())]
        if len(set(lengths)) > 1:
            raise ValueError(f"StackDataset: the datasets have different lengths, {lengths}.")
        self._length = lengths[0]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __getitems__(self, indices: Sequence[Any]) -> list[Any]:
        """The samples at several indices, as its datasets give them."""
        if type(self).__getitem__ is not StackDataset.__getitem__:
            return [self[i] for i in indices]
        named = isinstance(self.datasets, dict)
        parts = self.datasets.values() if named else self.datasets
        samples = zip(*(samples_of(dataset, indices) for dataset in parts), strict=True)
        return [dict(zip(self.datasets, x)) for x in samples] if named else list(samples)

    def __len__(self) -> int:
        return self._length


class Subset(Dataset):
    """The samples of a dataset at given indices.

    >>> list(Subset("abcdef", [4, 0]))
    ['e', 'a']
    """

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: Any) -> Any:
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: Sequence[Any]) -> Sequence[Any]:
        """The samples at several indices, as the dataset gives them."""
        if type(self).__getitem__ is not Subset.__getitem__:
            return [self[i] for i in indices]
        return samples_of(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)


class ConcatDataset(Dataset):
    """Datasets concatenated.

    >>> ConcatDataset(["ab", "cde"])[-1]
    'e'
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise ValueError("ConcatDataset: there are no datasets.")
        for dataset in self.datasets:
            if isinstance(dataset, IterableDataset):
                raise ValueError(
                    f"ConcatDataset: {type(dataset).__name__} is an IterableDataset. "
                    f"Use ChainDataset."
                )
        self.cumulative_sizes = list(itertools.accumulate(map(len, self.datasets)))

    def __getitem__(self, index: int) -> Any:
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(f"ConcatDataset: index {index} is beyond its {len(self)} samples.")
        number = bisect_right(self.cumulative_sizes, position)
        before = self.cumulative_sizes[number - 1] if number else 0
        return self.datasets[number][position - before]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]


class ChainDataset(IterableDataset):
    """Iterable datasets one after the other.

    >>> class Countdown(IterableDataset):
    ...     def __iter__(self):
    ...         return iter([3, 2, 1])
    >>> list(ChainDataset([Countdown(), Countdown()]))
    [3, 2, 1, 3, 2, 1]
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise TypeError(
                    f"ChainDataset: {type(dataset).__name__} is not an IterableDataset. "
                    f"Use ConcatDataset."
                )

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(self.datasets)

    def __len__(self) -> int:
        return sum(map(len, self.datasets))


def samples_of(dataset: Any, indices: Sequence[Any]) -> Sequence[Any]:
    """The samples at several indices: at once where a dataset has `__getitems__`."""
    several = getattr(dataset, "__getitems__", None)
    samples: Sequence[Any] = several(indices) if several else [dataset[i] for i in indices]
    return samples


def random_split(
    dataset: Any, lengths: Sequence[int | float], generator: Generator | None = None
) -> list[Subset]:
    """A random split of a dataset into disjoint parts of given lengths or fractions.

    >>> [len(part) for part in random_split(range(10), [0.75, 0.25])]
    [8, 2]
    """
    size = len(dataset)
    counts = [int(n) for n in lengths]
    if math.isclose(sum(lengths), 1):
        counts = [math.floor(size * fraction) for fraction in lengths]
        for i in range(size - sum(counts)):  # what rounding left goes round
            counts[i % len(counts)] += 1
    elif counts != list(lengths):
        counts = []
    if any(n < 0 for n in lengths) or sum(counts) != size:
        raise ValueError(
            f"random_split: the lengths {list(lengths)} must be fractions of 1, or whole numbers "
            f"that sum to the {size} samples."
        )
    order = iter(randperm(size, generator=generator, device="cpu").tolist())
    return [Subset(dataset, list(itertools.islice(order, count))) for count in counts]
