"""How time is taken: medians and quartiles, contenders in turns, first calls in new processes."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

import contraflow as cf
from benchmarks import peers
from benchmarks.peers import Contender

ROOT = Path(__file__).resolve().parents[1]
CHECKED_STEPS = 5
# float32 sums in another order, five Adam steps later; a step left out shows far above this.
RELATIVE_TOLERANCE = 1e-3
FEATURES = ("avx", "avx2", "fma", "avx512f", "avx512bf16", "amx-bf16", "neon", "sve", "sve2")
THREAD_VARIABLES = (
    "CONTRAFLOW_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS",
)  # fmt: skip


@dataclass(frozen=True)
class Timing:
    """The distribution of some times, in microseconds."""

    median_us: float
    q1_us: float
    q3_us: float
    samples: int

    @staticmethod
    def of(seconds: Sequence[float]) -> Timing:
        """The quartiles of some times."""
        q1, median, q3 = statistics.quantiles([s * 1e6 for s in seconds], method="inclusive")
        return Timing(median, q1, q3, len(seconds))

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


# --- steps -------------------------------------------------------------------------------------


def check(contenders: Sequence[Contender]) -> dict[str, list[float]]:
    """The losses of everybody's first steps, which must agree: then nobody left work out."""
    losses = {c.name: [c.turn(i) for i in range(CHECKED_STEPS)] for c in contenders}
    expected = losses[contenders[0].name]
    for name, found in losses.items():
        for number, (a, b) in enumerate(zip(expected, found)):
            if not abs(a - b) <= RELATIVE_TOLERANCE * abs(a):
                raise ValueError(
                    f"check: the loss of step {number} is {a} for {contenders[0].name} and {b} "
                    f"for {name}; they do not run the same step."
                )
    return losses


def alternate(
    contenders: Sequence[Contender], rounds: int, burst: int, pause: float
) -> dict[str, Timing]:
    """Time contenders in turns of `burst` steps, so that a slow minute falls on all of them.

    Who goes first changes from round to round. Idle threads of a BLAS spin for tens of
    milliseconds on the cores of whoever comes next: each turn begins with a pause of that length.
    Its first two steps are not counted; they wake threads and fill caches that others emptied.
    """
    seconds: dict[str, list[float]] = {c.name: [] for c in contenders}
    for number in range(rounds):
        first = number % len(contenders)
        for contender in [*contenders[first:], *contenders[:first]]:
            time.sleep(pause)
            for i in range(burst + 2):
                start = time.perf_counter()
                contender.turn(i)
                elapsed = time.perf_counter() - start
                if i >= 2:
                    seconds[contender.name].append(elapsed)
    return {name: Timing.of(times) for name, times in seconds.items()}


# --- calls -------------------------------------------------------------------------------------


def time_calls(
    functions: dict[str, Callable[[], Any]], rounds: int, seconds: float
) -> dict[str, Timing]:
    """Time short functions in turns, each called often enough for a turn to last `seconds`."""
    counts = {name: _calls_within(function, seconds) for name, function in functions.items()}
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            times[name].append(_time_loop(function, counts[name]) / counts[name])
    return {name: Timing.of(found) for name, found in times.items()}


def _time_loop(function: Callable[[], Any], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        function()
    return time.perf_counter() - start


def _calls_within(function: Callable[[], Any], seconds: float) -> int:
    function()  # what only the first call does
    count = 1
    while (elapsed := _time_loop(function, count)) < seconds / 4:
        count *= 2
    return max(1, round(count * seconds / elapsed))


# --- new processes -----------------------------------------------------------------------------


def _run_python(*arguments: str, **variables: str) -> str:
    paths = [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **variables}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)} failed:\n{done.stderr}")
    return done.stdout


def time_first_call(step: str, contender: str) -> dict[str, float]:
    """Seconds of the first step of a new process, with an empty and with a filled disk cache."""
    with tempfile.TemporaryDirectory(prefix="contraflow-bench-") as folder:
        caches = {"CONTRAFLOW_CACHE_DIR": folder, "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor"}
        arguments = ("-m", "benchmarks.first_call", step, contender)
        cold, warm = (json.loads(_run_python(*arguments, **caches)) for _ in range(2))
    return {"cold_s": cold, "warm_s": warm}


def time_import(module: str, repeats: int) -> Timing:
    """The time of `import module` in a new process whose files are in the page cache."""
    code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    _run_python("-c", code)  # writes bytecode, reads the files once
    return Timing.of([float(_run_python("-c", code)) for _ in range(repeats)])


# --- where -------------------------------------------------------------------------------------


def describe_environment() -> dict[str, Any]:
    """Versions, processor and thread settings: what numbers depend on."""
    present = llvm.get_host_cpu_features()
    versions = {"contraflow": cf.__version__, "python": platform.python_version()}
    for package in ("numpy", "llvmlite", "torch", "jax"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    threads = {"contraflow": cf.get_num_threads()}
    if peers.torch is not None:
        threads["torch"] = peers.torch.get_num_threads()
    return {
        "versions": versions,
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _processor(),
        "cpu_target": llvm.get_host_cpu_name(),
        "cpu_features": [name for name in FEATURES if present.get(name)],
        "cores": os.cpu_count(),
        "load_average": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "threads": threads,
        "thread_variables": {v: os.environ[v] for v in THREAD_VARIABLES if v in os.environ},
    }


def _processor() -> str:
    """The processor's name as its maker writes it, where the system tells."""
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        for line in listing.read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()
