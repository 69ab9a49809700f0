"""Where it was measured: versions, processor, and whether others were using the machine."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import sys
import time
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from benchmarks.contender import version

PACKAGES = ("contraflow", "numpy", "llvmlite", "torch", "jax", "tinygrad")
FEATURES = ("avx", "avx2", "fma", "avx512f", "avx512bf16", "amx-bf16", "neon", "sve", "sve2")
THREAD_VARIABLES = (
    "CONTRAFLOW_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS",
)  # fmt: skip
BUSY = 0.05  # a share of the cores' time above this makes a result unfit to keep


def describe() -> dict[str, Any]:
    """Versions, processor and thread settings: what numbers depend on."""
    present = llvm.get_host_cpu_features()
    versions = {package: version(package) for package in PACKAGES}
    return {
        "versions": {"python": platform.python_version()}
        | {k: v for k, v in versions.items() if v},
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _processor(),
        "cpu_target": llvm.get_host_cpu_name(),
        "cpu_features": [name for name in FEATURES if present.get(name)],
        "cores": os.cpu_count(),
        "load_average": os.getloadavg()[0],
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


_ADOPT_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER


class Watch:
    """What others took of the machine since this was made.

    Processes that those measured started and left behind (compilers have helpers) come to this one,
    so that their time is not taken for somebody else's.
    """

    def __init__(self) -> None:
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_ADOPT_ORPHANS, 1)
        self._start = time.perf_counter()
        self._machine = _machine_seconds()
        self._own = _own_seconds()

    def others(self) -> float | None:
        """Their share of all cores' time; None where the system does not tell."""
        if self._machine is None:
            return None
        _reap()
        passed = (time.perf_counter() - self._start) * (os.cpu_count() or 1)
        machine = (_machine_seconds() or 0) - self._machine
        return max(0.0, machine - (_own_seconds() - self._own)) / passed


def summary(described: dict[str, Any], watch: Watch) -> str:
    """A line with the processor, the version of Python, and whether others used the machine."""
    others = watch.others()
    text = f"{described['cpu']}, {described['cores']} cores"
    text += f", Python {described['versions']['python']}"
    return text if others is None else f"{text}; others took {others:.0%} of the cores"


def _machine_seconds() -> float | None:
    """The time all cores have worked since the machine started."""
    statistics = Path("/proc/stat")
    if not statistics.exists():
        return None
    user, nice, system, _idle, _waiting, *rest = map(
        int, statistics.read_text().splitlines()[0].split()[1:9]
    )
    return (user + nice + system + sum(rest)) / os.sysconf("SC_CLK_TCK")


def _reap() -> None:
    """Take note of children that have ended, whoever started them."""
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        pass  # there are no more


def _own_seconds() -> float:
    """The same of this process and those it started that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)
