"""DataLoader: the batches of a dataset, made ahead by workers and given in order."""

from __future__ import annotations

import itertools
import multiprocessing
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from types import GenericAlias
from typing import Any

from contraflow.data.collate import default_collate, default_convert, pinned
from contraflow.data.datasets import IterableDataset
from contraflow.data.samplers import (
    BatchSampler,
    RandomSampler,
    SequentialSampler,
    check_count,
    draw_seed,
)
from contraflow.data.workers import Duty, Fetcher, Job, Order, Team, Worker
from contraflow.tensors.generator import Generator

_epochs = itertools.count()


class DataLoader:
    """Batches of a dataset; order and random numbers do not depend on the number of workers.

    `num_workers` threads, or processes with `worker_type="process"`, make `prefetch_factor` batches
    each ahead of the loop. Threads share the dataset, processes get a copy of it; they are started
    by "spawn" or "forkserver", the `multiprocessing_context`. Workers end with the loop, or soon
    after one that is left early, unless they are `persistent_workers`: those stay for the next loop
    and end with the loader. With `pin_memory` the tensors of batches lie in pinned memory
    (`Tensor.pin_memory`), if a device that copies from it is open; `pin_memory_device` has no
    effect.

    >>> import contraflow as cf
    >>> data = cf.data.TensorDataset(cf.arange(5))
    >>> for (x,) in cf.data.DataLoader(data, batch_size=2, num_workers=2):
    ...     print(x)
    tensor([0, 1])
    tensor([2, 3])
    tensor([4])
    """

    __class_getitem__: Any = classmethod(
        GenericAlias
    )  # `DataLoader[T]`, in annotations and as a base

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        worker_type: str = "thread",
    ) -> None:
        self.dataset, self.pin_memory, self.generator = dataset, pin_memory, generator
        self._streams = isinstance(dataset, IterableDataset)
        if self._streams:
            _exclude(
                "an IterableDataset has its own order",
                shuffle=bool(shuffle),
                sampler=sampler is not None,
                batch_sampler=batch_sampler is not None,
            )
        else:
            _check_dataset(dataset, ordered=sampler is not None or batch_sampler is not None)
        if batch_sampler is not None:
            _exclude(
                "batch_sampler decides what is in a batch",
                batch_size=batch_size != 1,
                shuffle=bool(shuffle),
                sampler=sampler is not None,
                drop_last=drop_last,
            )
            batch_size = None
        elif batch_size is None:
            _exclude("without a batch_size there are no batches", drop_last=drop_last)
        else:
            check_count("DataLoader", "batch_size", batch_size)
        if sampler is not None:
            _exclude("sampler decides the order", shuffle=bool(shuffle))
        elif not self._streams:
            if shuffle:
                sampler = RandomSampler(dataset, generator=generator)
            else:
                sampler = SequentialSampler(dataset)
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last
        if batch_size is not None and sampler is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_sampler = batch_sampler
        self._batched = batch_size is not None or batch_sampler is not None
        self.collate_fn = collate_fn or (default_collate if self._batched else default_convert)
        self._set_workers(
            num_workers, timeout, prefetch_factor, persistent_workers, worker_type,
            multiprocessing_context,
        )  # fmt: skip
        self.worker_init_fn = worker_init_fn
        # Persistent workers, and a reference to the loop that uses them.
        self._persistent: tuple[Team, Callable[[], Any]] | None = None

    def _set_workers(
        self, num_workers: int, timeout: float, prefetch_factor: int | None, persistent: bool,
        worker_type: str, context: Any,
    ) -> None:  # fmt: skip
        if not isinstance(num_workers, int) or num_workers < 0:
            raise ValueError(
                f"DataLoader: num_workers is {num_workers!r}; it must be a whole number, 0 or more."
            )
        if not timeout >= 0:
            raise ValueError(f"DataLoader: timeout is {timeout!r}; it must not be negative.")
        if worker_type not in ("thread", "process"):
            raise ValueError(
                f'DataLoader: worker_type is {worker_type!r}; it must be "thread" or "process".'
            )
        if not num_workers:
            _exclude(
                "there are no workers",
                timeout=timeout,
                prefetch_factor=prefetch_factor is not None,
                persistent_workers=persistent,
                multiprocessing_context=context is not None,
            )
        if prefetch_factor is not None:
            check_count("DataLoader", "prefetch_factor", prefetch_factor)
        self.num_workers, self.timeout, self.worker_type = num_workers, timeout, worker_type
        self.prefetch_factor = prefetch_factor or (2 if num_workers else None)
        self.persistent_workers = persistent
        self.multiprocessing_context = _context(worker_type, context)

    def __iter__(self) -> Iterator[Any]:
        return _WorkerLoop(self) if self.num_workers else self._alone()

    def _alone(self) -> Iterator[Any]:
        fetcher = self._fetcher()
        for job in self.jobs():
            batches = fetcher(job)
            if not batches:
                return
            yield pinned(batches.pop()) if job.pins else batches.pop()

    def jobs(self) -> Iterator[Job]:
        """The batches of one loop."""
        epoch, seed = next(_epochs), draw_seed(self.generator)
        found = enumerate(self._indices())
        return (Job(epoch, seed, number, i, self.pin_memory) for number, i in found)

    def take_team(self, loop: _WorkerLoop) -> Team:
        """The workers of a loop: those that are persistent, if no other loop uses them."""
        if self._persistent is not None:
            team, user = self._persistent
            if team.news.failure is None and (user() is None or user() is loop):
                self._persistent = team, weakref.ref(loop)
                return team
        team = self._new_team()
        if self.persistent_workers and self._persistent is None:
            self._persistent = team, weakref.ref(loop)
        return team

    def leave_team(self, team: Team) -> None:
        """A loop is over."""
        if self._persistent is not None and self._persistent[0] is team:
            if team.news.failure is None:
                self._persistent = team, _nobody
                return
            self._persistent = None
        team.close()

    def _new_team(self) -> Team:
        duties = [
            Duty(self._fetcher(), i, self.num_workers, self.worker_init_fn)
            for i in range(self.num_workers)
        ]
        return Team(duties, self.multiprocessing_context)

    def _fetcher(self) -> Fetcher:
        return Fetcher(self.dataset, self.collate_fn, self._batched, self.drop_last)

    def _indices(self) -> Iterator[Any]:
        """The indices of each batch."""
        if self._streams:
            return itertools.repeat(self.batch_size)
        source = self.sampler if self.batch_sampler is None else self.batch_sampler
        assert source is not None
        return iter(source)

    def __len__(self) -> int:
        """The number of batches."""
        if not self._streams:
            source: Any = self.sampler if self.batch_sampler is None else self.batch_sampler
            return len(source)
        if self.batch_size is None:
            return len(self.dataset)
        return len(BatchSampler(self.dataset, self.batch_size, self.drop_last))


def _nobody() -> None:
    """Stands for the reference to a loop that is over."""


class _WorkerLoop:
    """The batches that workers make.

    It is not a generator: the finalizer of one would run Python code when a loop is left early, in
    which an interrupt would be lost. Workers learn by weak references that the loop is gone.
    """

    def __init__(self, loader: DataLoader) -> None:
        self._loader = loader
        self._jobs: Iterator[Job] | None = None  # until the first batch is asked for
        self._team: Team | None = None
        self._waiting: deque[tuple[Worker, Order]] = deque()

    def __iter__(self) -> _WorkerLoop:
        return self

    def __next__(self) -> Any:
        try:
            if self._jobs is None:
                self._begin()
            while self._team is not None and self._waiting:
                worker, order = self._waiting.popleft()
                batches = self._team.result(order, self._loader.timeout)
                if batches:
                    self._assign(worker)
                    return batches.pop()
        except StopIteration as error:
            self.close()
            text = "DataLoader: a dataset raised StopIteration, which does not end the loop."
            raise RuntimeError(text) from error
        except Exception:
            self.close()
            raise
        except BaseException:  # an interrupt does not wait for workers
            self._team = None
            raise
        self.close()
        raise StopIteration

    def _begin(self) -> None:
        self._jobs = self._loader.jobs()
        self._team = self._loader.take_team(self)
        for worker in self._team.workers * (self._loader.prefetch_factor or 1):
            self._assign(worker)

    def _assign(self, worker: Worker) -> None:
        assert self._jobs is not None
        job = next(self._jobs, None)
        if job is not None:
            self._waiting.append((worker, worker.submit(job, weakref.ref(self))))

    def close(self) -> None:
        """End the loop, and wait for its workers to end, unless they are persistent."""
        team, self._team = self._team, None
        self._jobs = iter(())
        for _, order in self._waiting:
            order.loop = _nobody
        self._waiting.clear()
        if team is not None:
            self._loader.leave_team(team)


# PyTorch's names for loops over a loader, which are not public there but asked about by packages.
_BaseDataLoaderIter = _MultiProcessingDataLoaderIter = _WorkerLoop


def _check_dataset(dataset: Any, ordered: bool) -> None:
    """Refuse a dataset without `__getitem__`, or without `__len__` where that is needed."""
    needed = ["__getitem__"] if ordered else ["__getitem__", "__len__"]
    for method in needed:
        if not hasattr(dataset, method):
            raise TypeError(
                f"DataLoader: the dataset, {type(dataset).__name__}, has no {method}. A dataset "
                f"has __getitem__ and __len__, or is an IterableDataset."
            )


def _exclude(why: str, **given: Any) -> None:
    """Refuse arguments that contradict others."""
    for name, is_given in given.items():
        if is_given:
            raise ValueError(f"DataLoader: {name} cannot be given, since {why}.")


def _context(worker_type: str, given: Any) -> Any:
    """The multiprocessing context of process workers; None for threads."""
    if worker_type == "thread":
        _exclude('worker_type is "thread"', multiprocessing_context=given is not None)
        return None
    method = getattr(given, "get_start_method", lambda: given)() if given else "spawn"
    if method not in ("spawn", "forkserver"):
        raise ValueError(
            f"DataLoader: multiprocessing_context is {method!r}; it must be 'spawn' or "
            f"'forkserver', since a forked process inherits locks of threads that it lacks."
        )
    return multiprocessing.get_context(method)
