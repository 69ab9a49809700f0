"""What single operations cost, on data so small that the library itself is what one measures.

`python -m benchmarks.overhead LIBRARY` serves one library, in a process of its own.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import channel
from benchmarks.worker import memory

Functions = dict[str, Callable[[], Any]]
ADD = "add two scalars"
ADD_TRACKED = "add two scalars, one requires grad"
MATMUL = "matmul 64x64"
REPLAY = "compiled replay of x + 1"
OPERATIONS = {
    "contraflow": (ADD, ADD_TRACKED, MATMUL, REPLAY),
    "torch": (ADD, ADD_TRACKED, MATMUL),
    "jax": (REPLAY,),
}


def _eager(library: Any) -> Functions:
    """The eager operations of a library with PyTorch's names."""
    plain, other = library.tensor(1.5), library.tensor(2.5)
    tracked = library.tensor(1.5, requires_grad=True)
    square = library.tensor(np.random.default_rng(0).standard_normal((64, 64), np.float32))
    return {
        ADD: lambda: plain + other,
        ADD_TRACKED: lambda: tracked + other,
        MATMUL: lambda: square @ square,
    }


def _functions(name: str) -> Functions:
    library: Any = importlib.import_module(name)
    if name == "jax":
        theirs, number = library.jit(lambda x: x + 1.0), library.numpy.float32(1.5)
        return {REPLAY: lambda: theirs(number).block_until_ready()}
    found = _eager(library)
    if name == "contraflow":
        ours, scalar = library.compile(lambda x: x + 1.0), library.tensor(1.5)
        found[REPLAY] = lambda: ours(scalar)
    return found


def _time_loop(function: Callable[[], Any], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        function()
    return time.perf_counter() - start


def long_chain(length: int) -> dict[str, float | None]:
    """Seconds and memory of so many multiplications of a scalar and their backward."""
    library: Any = importlib.import_module("contraflow")
    x = library.tensor(1.0, requires_grad=True)
    start = time.perf_counter()
    y = x
    for _ in range(length):
        y = y * x
    y.backward()
    assert x.grad.item() == length + 1, "the gradient is wrong"
    del y
    return {"seconds": time.perf_counter() - start, "peak_mb": memory("VmHWM")}


def main() -> None:
    """Serve the process that started this one."""
    functions: Functions = {}

    def start() -> None:
        functions.update(_functions(sys.argv[1]))

    def per_call(operation: str, seconds: float) -> float:
        """Seconds of one call, among as many as about fit into the time given."""
        function = functions[operation]
        function()  # what only the first call does
        count = 1
        while _time_loop(function, count) < seconds / 4:
            count *= 2
        return _time_loop(function, 4 * count) / (4 * count)

    channel.serve({"start": start, "per_call": per_call, "long_chain": long_chain})


if __name__ == "__main__":
    main()
