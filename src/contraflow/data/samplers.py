"""Samplers: the indices of samples, in the order in which they are read."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from types import GenericAlias
from typing import Any

from contraflow.dtypes import float64
from contraflow.ops.creation.data import as_tensor
from contraflow.ops.creation.sampling import multinomial, randint, randperm
from contraflow.tensors.generator import Generator


class Sampler:
    """The base of samplers. Write `__iter__`, and `__len__` where it is known.

    >>> import contraflow as cf
    >>> class EverySecond(Sampler):
    ...     def __init__(self, n):
    ...         self.n = n
    ...
    ...     def __iter__(self):
    ...         return iter(range(0, self.n, 2))
    ...
    ...     def __len__(self):
    ...         return (self.n + 1) // 2
    >>> data = cf.data.TensorDataset(cf.arange(5))
    >>> [batch.tolist() for (batch,) in cf.data.DataLoader(data, sampler=EverySecond(5))]
    [[0], [2], [4]]
    """

    __class_getitem__: Any = classmethod(GenericAlias)  # `Sampler[T]`, in annotations and as a base

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__}: __iter__ is not implemented.")


class SequentialSampler(Sampler):
    """All indices in order.

    >>> list(SequentialSampler([3, 1, 2]))
    [0, 1, 2]
    """

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler):
    """Indices in random order, all or `num_samples` of them; with `replacement` they may repeat.

    >>> sorted(RandomSampler("abcd"))
    [0, 1, 2, 3]
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.data_source, self.replacement, self.generator = data_source, replacement, generator
        _check_flag("RandomSampler", "replacement", replacement)
        if num_samples is not None:
            check_count("RandomSampler", "num_samples", num_samples)
        self._num_samples = num_samples

    @property
    def num_samples(self) -> int:
        """The number of indices of one pass."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        # From a stream of its own, so that it does not matter when its numbers are asked for.
        generator = self.generator or Generator(draw_seed(None))
        size, left = len(self.data_source), self.num_samples
        if not size:
            return
        while left > 0:
            if self.replacement:
                chunk = randint(
                    size, (min(left, 1024),), generator=generator, device="cpu"
                ).tolist()
            else:
                chunk = randperm(size, generator=generator, device="cpu").tolist()[:left]
            left -= len(chunk)
            yield from chunk

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """The given indices in random order.

    >>> sorted(SubsetRandomSampler([3, 1, 2]))
    [1, 2, 3]
    """

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[int]:
        count = len(self.indices)
        for i in randperm(count, generator=self.generator, device="cpu").tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """Indices drawn with given weights, which need not sum to one.

    >>> list(WeightedRandomSampler([0.0, 2.0, 0.0], 3))
    [1, 1, 1]
    """

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        check_count("WeightedRandomSampler", "num_samples", num_samples)
        _check_flag("WeightedRandomSampler", "replacement", replacement)
        self.weights = as_tensor(weights, dtype=float64, device="cpu")
        if self.weights.ndim != 1:
            raise ValueError(
                f"WeightedRandomSampler: weights have the shape {list(self.weights.shape)}; "
                f"they must be a vector."
            )
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator

    def __iter__(self) -> Iterator[int]:
        drawn = multinomial(
            self.weights, self.num_samples, self.replacement, generator=self.generator
        )
        return iter(drawn.tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler):
    """Lists of `batch_size` indices of another sampler; the last may be shorter, or is dropped.

    >>> list(BatchSampler(range(5), 2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool) -> None:
        check_count("BatchSampler", "batch_size", batch_size)
        _check_flag("BatchSampler", "drop_last", drop_last)
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list[Any]]:
        numbers = iter(self.sampler)
        while batch := list(itertools.islice(numbers, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        size = len(self.sampler)  # type: ignore[arg-type]
        return size // self.batch_size if self.drop_last else -(-size // self.batch_size)


def draw_seed(generator: Generator | None) -> int:
    """A seed for another generator."""
    low, high = randint(1 << 32, (2,), generator=generator, device="cpu").tolist()
    return (int(high) << 31) ^ int(low)


def check_count(op: str, name: str, n: Any) -> None:
    """Refuse what is not a positive whole number."""
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        raise ValueError(f"{op}: {name} is {n!r}; it must be a positive whole number.")


def _check_flag(op: str, name: str, flag: Any) -> None:
    if not isinstance(flag, bool):
        raise TypeError(f"{op}: {name} is {flag!r}; it must be True or False.")


class DistributedSampler(Sampler):
    """A process's share of the indices: each `num_replicas`-th, from `rank` on.

    They are shuffled by `seed` and the number that `set_epoch` was last given, alike in all
    processes. Shares have one length: some indices are repeated, or dropped with `drop_last`.

    >>> list(DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False))
    [1, 3, 0]
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        count, number = 1 if num_replicas is None else num_replicas, rank or 0
        check_count("DistributedSampler", "num_replicas", count)
        if not 0 <= number < count:
            raise ValueError(
                f"DistributedSampler: rank {number} is not below the {count} processes."
            )
        self.dataset, self.num_replicas, self.rank = dataset, count, number
        self.shuffle, self.seed, self.drop_last, self.epoch = shuffle, seed, drop_last, 0
        whole, rest = divmod(len(dataset), count)
        self.num_samples = whole + (rest > 0 and not drop_last)
        self.total_size = self.num_samples * count

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch it is, so that each has an order of its own."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        order = list(range(len(self.dataset)))
        if self.shuffle:
            generator = Generator().manual_seed(self.seed + self.epoch)
            order = randperm(len(order), generator=generator).tolist()
        while 0 < len(order) < self.total_size:  # begin again
            order += order[: self.total_size - len(order)]
        return iter(order[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples
