"""First calls of long functions: `python -m benchmarks.compile_time`.

Each row is a function in a process of its own, with an empty cache of machine code: the ops that it
recorded, the seconds of its first call from start to end, and the most memory that the process had.
A chain is recorded alone; a GRU is unrolled step by step, with its backward.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any

import contraflow as cf
from benchmarks import machine
from benchmarks.worker import memory

CHAINS = (1_000, 10_000, 100_000)  # ops
STEPS = (200, 800)


def chain(length: int) -> Callable[[cf.Tensor], cf.Tensor]:
    """So many elementwise ops, one after the other."""

    def function(x: cf.Tensor) -> cf.Tensor:
        for _ in range(length // 2):
            x = (x * 1.001).sin()
        return x

    return function


def gru(length: int) -> Callable[[cf.Tensor], list[Any]]:
    """So many steps of a cell, and the gradients of its parameters."""
    cell = cf.nn.GRUCell(4, 4)
    parameters = list(cell.parameters())

    def function(x: cf.Tensor) -> list[Any]:
        h = cf.zeros(3, 4)
        for _ in range(length):
            h = cell(x, h)
        return list(cf.autograd.grad(h.sum(), parameters))

    return function


FUNCTIONS: dict[str, Callable[[int], Callable[[cf.Tensor], Any]]] = {"chain": chain, "gru": gru}


def first_call(name: str, length: int) -> dict[str, float | None]:
    """What the first call took, in this process."""
    function, x = cf.compile(FUNCTIONS[name](length)), cf.ones(3, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of long tapes
        start = time.perf_counter()
        function(x)
    seconds = time.perf_counter() - start
    return {"ops": len(function.tape.lines), "seconds": seconds, "megabytes": memory("VmHWM")}


def measured(name: str, length: int) -> dict[str, float]:
    """The same of a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.compile_time", name, str(length)],
            env={**os.environ, "CONTRAFLOW_CACHE_DIR": folder},
            stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Print a row for each function, or measure the one that is named."""
    if len(sys.argv) == 3:
        print(json.dumps(first_call(sys.argv[1], int(sys.argv[2]))))
        return
    watch, described = machine.Watch(), machine.describe()
    print(f"{'first call, cold':28}{'ops':>10}{'seconds':>10}{'us per op':>12}{'MB':>8}")
    for name, lengths in (("chain", CHAINS), ("gru", STEPS)):
        for length in lengths:
            found = measured(name, length)
            label = f"chain of {length:,}" if name == "chain" else f"GRU of {length} steps"
            each = found["seconds"] / found["ops"] * 1e6
            row = f"{found['ops']:10,}{found['seconds']:10.2f}{each:12.1f}"
            print(f"{label:28}{row}{found['megabytes'] or 0:8.0f}", flush=True)
    print(machine.summary(described, watch))


if __name__ == "__main__":
    main()
