"""The thread pool: threads run a table of kernels together, each its share.

A job is a table of rows, the bases that they refer to, and a number of shares, one per thread.
A row of the table is (function, arguments, flags, tickets), and a share of it is a call of its
function. The rows up to one behind which threads have to meet (MEET) are a phase: its shares are
done in any order, and the thread that does the last one opens the next phase. Behind the last row
that may have found a wrong index (CHECK) it ends the job instead if one was. The loops of the
threads are generated code as well, so a replay enters Python once.

Threads are not equally fast: others use the processor too, and its cores may differ. In each phase
a thread does its own share, whose data its caches have from the phases before. A share that nobody
has begun some microseconds later belongs to a thread that the system has stopped, or that has not
woken up yet: a thread that waits takes it, so that no job waits for a thread that does nothing. The
work of a long row (DEAL) is cut into more parts, which threads take as they come for them: in every
round half of what is left, evenly, so that the pieces are large at first and small at the end.
Which thread does a share or a part changes nothing about its bits.

Workers wait for a job spinning, because the next one usually follows within microseconds, then
asleep: on Linux by a futex, on other POSIX systems by a condition variable. Windows has other
functions for that, which nothing here has tried: there are no workers there, and one thread runs
all shares of a row before it goes on to the next, which gives the same bits.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import threading
from collections.abc import Callable
from contextlib import suppress

from contraflow import threads
from contraflow.devices.cpu import jit
from contraflow.devices.cpu.pool_code import (
    BLOCK_BYTES,
    MOST_SHARES,
    alone_text,
    together_text,
)

_pointer, _word, _int = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32


def has_workers() -> bool:
    """Whether this system has what workers need to sleep."""
    return os.name == "posix"


_TOGETHER_NAMES = ("prepare", "run_together", "run_worker", "stop_workers")


class Pool:
    """Worker threads, started when first needed and stopped at exit. One job at a time."""

    # The code of the workers, which the first of them brings.
    _together: Callable[[int, ctypes.c_void_p], int]
    _worker: Callable[[int, int, int], None]
    _stop: Callable[[int], None]

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start afresh without workers: a forked child has none of its parent's threads."""
        self._memory = ctypes.create_string_buffer(BLOCK_BYTES + 64)
        self._block = -(-ctypes.addressof(self._memory) // 64) * 64
        self._threads: list[threading.Thread] = []

    def source(self, shares: int) -> jit.FunctionSource:
        """The functions that run jobs of so many shares; workers start as soon as theirs exist."""
        if shares == 1 or shares > MOST_SHARES or not has_workers():
            return jit.FunctionSource(["run_alone"], alone_text(), alone_text)
        start = functools.partial(self._grow, shares - 1)
        return jit.FunctionSource(_TOGETHER_NAMES, together_text(), together_text, start)

    @functools.cached_property
    def run_alone(self) -> Callable[[ctypes.c_void_p], int]:
        """Run a job on this thread. Keeps the interpreter lock."""
        return ctypes.PYFUNCTYPE(_int)(*jit.functions([self.source(1)]))

    def run(self, job: ctypes.c_void_p, shares: int) -> int:
        """Run a job; other Python threads may run meanwhile.

        Not zero if a row that checks for errors found one: those after it did not run.
        """
        if shares == 1 or shares > MOST_SHARES or not has_workers():
            return self._alone(job)
        if len(self._threads) < shares - 1:
            threads.run(self._grow, shares - 1)
            if not self._threads:  # the interpreter ends, and starts no threads any more
                return self._alone(job)
        return self._together(self._block, job)

    @functools.cached_property
    def _alone(self) -> Callable[[ctypes.c_void_p], int]:
        return ctypes.CFUNCTYPE(_int)(*jit.functions([self.source(1)]))

    def _prepare(self) -> None:
        prepare, together, worker, stop = jit.functions([self.source(2)])
        ctypes.CFUNCTYPE(None, _pointer)(prepare)(self._block)
        self._together = ctypes.CFUNCTYPE(_int, _pointer, _pointer)(together)
        self._worker = ctypes.CFUNCTYPE(None, _pointer, _word, _int)(worker)
        self._stop = ctypes.CFUNCTYPE(None, _pointer)(stop)

    def _grow(self, count: int) -> None:
        """Start workers until there are that many."""
        if not self._threads:
            self._prepare()
        with suppress(RuntimeError):  # no thread can be started: those that are there do
            while len(self._threads) < count:
                self._start()

    def _start(self) -> None:
        share = len(self._threads) + 1
        jobs = _int.from_address(self._block).value  # so far, which are not for this worker
        thread = threading.Thread(
            target=self._worker,
            args=(self._block, share, jobs),
            name=f"contraflow-{share}",
            daemon=True,
        )
        thread.start()
        self._threads.append(thread)

    def stop(self) -> None:
        """End the workers; the next job starts new ones."""
        if self._threads:
            self._stop(self._block)
            for thread in self._threads:
                thread.join()
            self.forget()


pool = Pool()
atexit.register(pool.stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=pool.forget)
