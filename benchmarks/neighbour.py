"""Compiled steps beside a busy process: `python -m benchmarks.neighbour [STEP ...]`.

Each step is a training step of `models.py`, on one thread and on two, alone and beside one process
that computes all the time. What runs changes after every round, and the median of the means of
rounds is printed, in microseconds. The last column is the step on two threads beside that process
over the step on one thread alone: a preempted thread holds up the other, so it can be far above 1.
"""

from __future__ import annotations

import itertools
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import contraflow as cf
from benchmarks import with_contraflow
from benchmarks.models import STEPS

ROUNDS = 9
SECONDS = 0.5  # of one round, about
SETTLED = 0.1  # seconds in which the scheduler spreads the processes
NAMES = ("small", "mlp")


@contextmanager
def busy(beside: bool) -> Iterator[None]:
    """A process that computes all the time, or none."""
    if not beside:
        yield
        return
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        time.sleep(SETTLED)
        yield
    finally:
        process.kill()
        process.wait()


def step_of(name: str, threads: int) -> Callable[[], Any]:
    """A compiled step that was recorded with so many threads, ready to be measured."""
    cf.set_num_threads(threads)
    contender = with_contraflow.make(STEPS[name](), "compiled")
    turns = itertools.count()
    for _ in range(3):
        contender.turn(next(turns))
    return lambda: contender.turn(next(turns))


def seconds(run: Callable[[], Any], threads: int) -> float:
    """The mean seconds of a call during one round.

    A preempted call takes as long as many others, so a median would not show that there are any.
    """
    cf.set_num_threads(threads)
    run()
    calls, start = 0, time.perf_counter()
    while (taken := time.perf_counter() - start) < SECONDS:
        run()
        calls += 1
    return taken / calls


def measure(name: str) -> dict[tuple[int, bool], float]:
    """The seconds of a step by the number of threads and whether the process ran."""
    steps = {threads: step_of(name, threads) for threads in (1, 2)}
    found: dict[tuple[int, bool], list[float]] = {}
    for _ in range(ROUNDS):
        for beside in (False, True):
            with busy(beside):
                for threads, run in steps.items():
                    found.setdefault((threads, beside), []).append(seconds(run, threads))
    return {key: statistics.median(rounds) for key, rounds in found.items()}


def main() -> None:
    """Print a line for each step, or for those that are named."""
    columns = ("1 thread", "beside", "2 threads", "beside", "2 beside / 1")
    print(f"{'us':10}" + "".join(f"{column:>14}" for column in columns))
    for name in sys.argv[1:] or NAMES:
        found = measure(name)
        times = [found[key] for key in ((1, False), (1, True), (2, False), (2, True))]
        shown = "".join(f"{t * 1e6:14.1f}" for t in times)
        print(f"{name:10}{shown}{times[3] / times[0]:14.2f}", flush=True)


if __name__ == "__main__":
    main()
