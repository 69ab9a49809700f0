"""Loaders over threads and processes, and their workers that are alive."""

from __future__ import annotations

import multiprocessing
import threading
import time
from typing import Any

import pytest
from tests.helpers.datasets import (
    numbers_of,
)

from contraflow.data import (
    DataLoader,
)

SECONDS = 60


def workers() -> list[Any]:
    """The threads and processes of loaders that are alive."""
    threads = [t for t in threading.enumerate() if t.name.startswith("DataLoader")]
    return threads + multiprocessing.active_children()


def left() -> list[Any]:
    """Those that have not ended soon after a loop that nobody waited for the end of."""
    deadline = time.monotonic() + 20
    while workers() and time.monotonic() < deadline:
        time.sleep(0.001)
    return workers()


def loader(dataset: Any, num_workers: int = 2, **options: Any) -> DataLoader:
    return DataLoader(dataset, num_workers=num_workers, collate_fn=numbers_of, **options)


THREADS: dict[str, Any] = {"worker_type": "thread"}
SPAWNED: dict[str, Any] = {"worker_type": "process"}
# The common ones: a server that has imported everything starts a process in no time.
PROCESSES: dict[str, Any] = {"worker_type": "process", "multiprocessing_context": "forkserver"}
multiprocessing.set_forkserver_preload(["tests.helpers.datasets"])
both = pytest.mark.parametrize("kind", [THREADS, PROCESSES], ids=["threads", "processes"])
