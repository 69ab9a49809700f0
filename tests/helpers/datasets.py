"""Datasets for the tests of loaders. Worker processes import this module."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import contraflow as cf
from contraflow.data import Dataset, IterableDataset, get_worker_info


class Numbers(Dataset):
    """0 to n - 1, each after a while."""

    def __init__(self, n: int, seconds: float = 0.0) -> None:
        self.n, self.seconds = n, seconds

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> Any:
        time.sleep(self.seconds)
        return i


class Arrays(Numbers):
    """Batches of arrays and tensors that have little in common."""

    @staticmethod
    def together(samples: list[int]) -> dict[str, Any]:
        n = len(samples)
        return {
            "large": cf.arange(300_000.0) + n,
            "empty": cf.zeros(0, 3),
            "half": cf.ones(n, dtype=cf.bfloat16),
            "view": cf.arange(12).reshape(3, 4)[:, 1:3],
            "transposed": np.arange(6 * n).reshape(2, 3 * n).T,
            "strided": np.arange(10)[::2],
            "scalar": np.array(n),
        }


class Noisy(Numbers):
    """Each number with random ones beside it."""

    def __getitem__(self, i: int) -> Any:
        return i, cf.rand(2), cf.nn.functional.dropout(cf.ones(4))


class Where(Numbers):
    """For each number the worker, its process and its thread."""

    def __getitem__(self, i: int) -> Any:
        info = get_worker_info()
        return (i, None if info is None else info.id, os.getpid(), threading.get_ident())


class Awkward(Exception):
    """An error that cannot be unpickled."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a} and {b}")


class Failing(Numbers):
    """Raises at one number."""

    def __init__(self, n: int, at: int, error: BaseException) -> None:
        super().__init__(n)
        self.at, self.error = at, error

    def __getitem__(self, i: int) -> Any:
        if i == self.at:
            raise self.error
        return i


class FailingAwkwardly(Numbers):
    def __getitem__(self, i: int) -> Any:
        raise Awkward(1, 2)


class Dying(Numbers):
    """Ends its process at one number, while the first worker is long busy with another."""

    def __init__(self, n: int, at: int, how: str) -> None:
        super().__init__(n)
        self.at, self.how = at, how

    def __getitem__(self, i: int) -> Any:
        if i == self.at and self.how == "exit":
            os._exit(3)
        if i == self.at:
            os.kill(os.getpid(), signal.SIGKILL)
        if i == 0:
            time.sleep(100)
        return i


class Unpicklable(Numbers):
    """Gives what cannot be sent to another process."""

    def __getitem__(self, i: int) -> Any:
        return threading.Lock()


class Shares(IterableDataset):
    """0 to n - 1, a share for each worker; with random numbers."""

    def __init__(self, n: int, is_shared: bool = True) -> None:
        self.n, self.is_shared = n, is_shared

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        begin, step = (0, 1) if info is None or not self.is_shared else (info.id, info.num_workers)
        for i in range(begin, self.n, step):
            yield i, cf.rand(()).item()


def numbers_of(samples: list[Any]) -> list[Any]:
    return samples


def use_float64(worker: int) -> None:
    cf.set_default_dtype(cf.float64)


def fail(worker: int) -> None:
    raise KeyError(f"worker {worker}")
