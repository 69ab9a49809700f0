"""One contender at one step, in a process of its own: `python -m benchmarks.worker NAME STEP`.

Libraries in one process disturb each other: their thread pools spin on the same cores, and JAX's
callback of the garbage collector slows everybody's Python. So each gets a process, which says over
a pipe (`channel.py`) what it measured.
"""

from __future__ import annotations

import importlib
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import channel, models
from benchmarks.contender import ENTRIES, Contender

UNCOUNTED = 2  # steps of a burst that wake threads and fill caches which others emptied


def memory(field: str) -> float | None:
    """Megabytes of this process, VmRSS now or VmHWM at most; None where Linux is not."""
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    lines = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
    return int(lines[field].split()[0]) / 1024


class Worker:
    """The handlers of requests."""

    def __init__(self, entry: str, step: str) -> None:
        self._entry = ENTRIES[entry]
        self._step = step
        self._contender: Contender
        self._turns = 0

    def configuration(self) -> list[str]:
        """Our processor, vectors and threads, in the library's own words."""
        library: Any = importlib.import_module("contraflow")
        lines = library.show_config().splitlines()
        return [line for line in lines if line.startswith(("cpu:", "threads:"))]

    def start(self) -> dict[str, Any]:
        """Import the library and give it weights and batches."""
        library: Any = importlib.import_module(f"benchmarks.with_{self._entry.library}")
        imported = memory("VmRSS")
        work = models.WORK[self._step]()
        make = library.begin if isinstance(work, models.Loop) else library.make
        self._contender = make(work, self._entry.mode)
        return {"imported_mb": imported, "threads": library.threads}

    def first(self) -> dict[str, Any]:
        """The first step: seconds, and the values it gave."""
        start = time.perf_counter()
        values = self._contender.values(0)
        self._turns = 1
        return {"seconds": time.perf_counter() - start, "values": values}

    def values(self, count: int) -> list[list[float]]:
        """The values of the next steps."""
        found = [self._contender.values(self._turns + i) for i in range(count)]
        self._turns += count
        return found

    def burst(self, seconds: float, least: int) -> list[float]:
        """The seconds of each of some steps: as many as fit, but a few."""
        times: list[float] = []
        end = time.perf_counter() + seconds
        for i in range(1_000_000):
            start = time.perf_counter()
            if start > end and len(times) >= least:
                break
            self._contender.turn(self._turns)
            self._turns += 1
            if i >= UNCOUNTED:
                times.append(time.perf_counter() - start)
        return times

    def new_size(self) -> float:
        """The seconds of the first step with another size of batch: the median of three sizes."""
        seconds = []
        for quarters in (2, 3, 1):
            batch = tuple(x[: len(x) * quarters // 4] for x in self._contender.batches[0])
            start = time.perf_counter()
            self._contender.read(self._contender.run(*batch)[0])
            seconds.append(time.perf_counter() - start)
        return statistics.median(seconds)

    def peak(self) -> float | None:
        """The most memory this process has had, in megabytes."""
        return memory("VmHWM")


def main() -> None:
    """Serve the process that started this one."""
    worker = Worker(*sys.argv[1:])
    names = ("configuration", "start", "first", "values", "burst", "new_size", "peak")
    channel.serve({name: getattr(worker, name) for name in names})


if __name__ == "__main__":
    main()
