"""Python's `multiprocessing`, and `spawn` as PyTorch has it. Tensors are copied between processes.

>>> with Pool(2) as pool:  # doctest: +SKIP
...     pool.map(abs, [-1, 2])
[1, 2]
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing import *  # noqa: F403
from multiprocessing import get_context
from typing import Any

__all__ = [
    *multiprocessing.__all__,
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]


def get_all_sharing_strategies() -> set[str]:
    """The ways in which processes get tensors."""
    return {"copy"}


def get_sharing_strategy() -> str:
    """The way in which processes get tensors: as copies."""
    return "copy"


def set_sharing_strategy(new_strategy: str) -> None:
    """Nothing: tensors are copied in any case."""


def start_processes(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True,
    daemon: bool = False, start_method: str = "spawn",
) -> list[Any] | None:  # fmt: skip
    """Call `fn(i, *args)` in `nprocs` processes; with `join` wait, and raise if one fails."""
    context: Any = get_context(start_method)
    started = [context.Process(target=fn, args=(i, *args), daemon=daemon) for i in range(nprocs)]
    for process in started:
        process.start()
    if not join:
        return started
    for process in started:
        process.join()
    failed = [i for i, process in enumerate(started) if process.exitcode]
    if failed:
        raise RuntimeError(f"start_processes: processes {failed} have failed; see what they said.")
    return None


def spawn(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True,
    daemon: bool = False, start_method: str = "spawn",
) -> list[Any] | None:  # fmt: skip
    """Call `fn(i, *args)` in `nprocs` new processes."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)
