"""Matrix products on the CPU, ours beside those of NumPy and PyTorch.

`python -m benchmarks.products bfloat16 float32 --threads 4 --json FILE` runs a product in every
library in turns, in one process on as many cores, and prints the best GFLOP/s of each; the JSON has
those of every round. Ours is a program of one kernel, which is run as compiled steps run theirs.
NumPy has as many threads as OPENBLAS_NUM_THREADS says. docs/processors.md has what was measured.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import contraflow as cf
from benchmarks import machine
from contraflow.compiler.kernel import Contraction, KernelCall
from contraflow.compiler.plan import Binding, KernelStep, Plan, Slot
from contraflow.devices.cpu import program

SHAPES = (
    (64, 784, 512), (512, 784, 512), (512, 128, 384), (2048, 384, 1536), (2048, 1536, 384),
    (1024, 1024, 1024), (2048, 2048, 2048),
)  # fmt: skip
BATCHES = ((65, 78, 49, 1), (32, 64, 64, 1), (1, 512, 512, 1), (64, 32, 64, 64))  # small ones
LAYOUTS = ("nn", "nt", "tn")
ROUNDS, SECONDS, LONG = 5, 0.006, 4e9  # LONG: operations of a product that runs twice in all
# Threads of a library spin for a while after its last product: so long that others wait for them.
PAUSE, NUMPY_PAUSE = 0.012, 0.15
TOLERANCE = {"bfloat16": 8e-3, "float32": 1e-5, "float64": 1e-13}  # of the largest element


def contenders(
    dtype: str, m: int, k: int, n: int, layout: str, batch: int
) -> dict[str, Callable[[], Any]]:
    """The product in every library, and an error if ours is another than PyTorch's."""
    kind = getattr(cf, dtype)
    generator = np.random.default_rng(0)

    def matrices(rows: int, columns: int, transposed: bool) -> tuple[np.ndarray, tuple[int, ...]]:
        shape = (columns, rows) if transposed else (rows, columns)
        values = generator.uniform(-0.5, 0.5, (batch, *shape)).astype(kind.numpy)
        strides = (0, rows * columns, *((1, rows) if transposed else (columns, 1)))
        return (values.swapaxes(1, 2) if transposed else values), strides

    a, a_strides = matrices(m, k, layout[0] == "t")
    b, b_strides = matrices(k, n, layout[1] == "t")
    out, out_strides = matrices(m, n, False)
    sizes = (1, batch, m, n, k)
    call = KernelCall(Contraction(kind, kind.compute), sizes, (a_strides, b_strides, out_strides))
    slots = [Slot("input", kind, a.size), Slot("input", kind, b.size)]
    step = KernelStep(call, (Binding(0), Binding(1), Binding(2)))
    loaded = program.load(Plan([*slots, Slot("output", kind, out.size)], [step], [0], []))
    loaded.replay([x if x.flags.c_contiguous else x.swapaxes(1, 2) for x in (a, b, out)], [])
    x, y, z = (_tensor(array) for array in (a, b, np.empty_like(out)))
    torch.matmul(x, y, out=z)
    error = np.abs(out.astype(np.float64) - z.double().numpy()).max() / z.abs().max().item()
    if not error < TOLERANCE[dtype]:
        raise ValueError(f"{dtype} {m}x{k}x{n} {layout}: ours differs by {error:.1e}")
    found: dict[str, Callable[[], Any]] = {
        "contraflow": lambda keep=(a, b, out): loaded.rerun(()),
        "torch": lambda: torch.matmul(x, y, out=z),
    }
    if dtype != "bfloat16":  # NumPy has no library for it
        result = np.empty_like(out)
        found["numpy"] = lambda: np.matmul(a, b, out=result)
    return found


def _tensor(array: np.ndarray) -> torch.Tensor:
    if not array.flags.c_contiguous:
        return _tensor(array.swapaxes(1, 2)).transpose(1, 2)
    if array.dtype.kind == "V":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def shortest(run: Callable[[], Any], seconds: float) -> float:
    """The least seconds of a call, after two that wake threads and fill caches."""
    run()
    run()
    least, end = float("inf"), time.perf_counter() + seconds
    while True:
        start = time.perf_counter()
        run()
        now = time.perf_counter()
        least = min(least, now - start)
        if now > end:
            return least


def measure(dtype: str, m: int, k: int, n: int, layout: str, batch: int) -> dict[str, list[float]]:
    """GFLOP/s of each library in each round."""
    found = contenders(dtype, m, k, n, layout, batch)
    operations = 2 * batch * m * k * n
    long = operations > LONG
    rounds: dict[str, list[float]] = {name: [] for name in found}
    for _ in range(2 if long else ROUNDS):
        for name, run in found.items():
            time.sleep(PAUSE)
            seconds = shortest(run, 0 if long else SECONDS)
            rounds[name].append(operations / seconds / 1e9)
        time.sleep(NUMPY_PAUSE if "numpy" in found else 0)
    return rounds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dtypes", nargs="+", choices=list(TOLERANCE))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", metavar="PATH")
    arguments = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))[-arguments.threads :]
    os.sched_setaffinity(0, cores)
    torch.set_num_threads(arguments.threads)
    cf.set_num_threads(arguments.threads)
    cases = [(*shape, layout, 1) for shape in SHAPES for layout in LAYOUTS]
    cases += [(m, k, n, "nn", batch) for m, k, n, batch in BATCHES]
    products: dict[str, dict[str, list[float]]] = {}
    for dtype in arguments.dtypes:
        ratios = []
        for m, k, n, layout, batch in cases:
            found = measure(dtype, m, k, n, layout, batch)
            name = f"{dtype} {m}x{k}x{n} {layout}" + (f" x {batch}" if batch > 1 else "")
            products[name] = found
            ours, others = max(found["contraflow"]), found.keys() - {"contraflow"}
            ratios.append(ours / max(max(found[other]) for other in others))
            listed = ", ".join(f"{library} {max(v):.0f}" for library, v in found.items())
            print(f"{name}: {listed}; ratio {ratios[-1]:.2f}", flush=True)
        print(f"{dtype}: geometric mean {statistics.geometric_mean(ratios):.2f}")
    if arguments.json:
        where = machine.describe() | {"threads": arguments.threads}
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"machine": where, "products": products}, file, indent=1)


if __name__ == "__main__":
    main()
