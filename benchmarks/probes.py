"""Measurements that are no steps: single operations, a very long chain, imports."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.channel import SOURCE, Child, ChildError, environment
from benchmarks.overhead import OPERATIONS
from benchmarks.timing import quartiles

TIMEOUT = 120.0


def measure_operations(libraries: Sequence[str], rounds: int, seconds: float) -> dict[str, Any]:
    """Seconds per call by operation and library, in turns."""
    found: dict[str, dict[str, list[float]]] = {}
    with ExitStack() as stack:
        children = {
            library: stack.enter_context(Child(library, "-m", "benchmarks.overhead", library))
            for library in OPERATIONS
            if library in libraries
        }
        for child in children.values():
            child.ask("start", timeout=TIMEOUT)
        for _ in range(rounds):
            for library, child in children.items():
                time.sleep(seconds)
                for operation in OPERATIONS[library]:
                    took = child.ask("per_call", operation, seconds, timeout=TIMEOUT)
                    found.setdefault(operation, {}).setdefault(library, []).append(took)
    return {
        operation: {library: quartiles(times) for library, times in by_library.items()}
        for operation, by_library in found.items()
    }


def measure_long_chain(length: int) -> dict[str, Any]:
    """Seconds and peak memory of contraflow's longest chain."""
    with Child("contraflow", "-m", "benchmarks.overhead", "contraflow") as child:
        return {"length": length, **child.ask("long_chain", length, timeout=TIMEOUT)}


def measure_imports(modules: Sequence[str], repeats: int) -> dict[str, Any]:
    """Seconds of `import module` in a new process whose files have been read and compiled."""
    found: dict[str, Any] = {}
    for module in modules:
        time_import(module)
        found[module] = quartiles([time_import(module) for _ in range(repeats)])
    return found


def time_import(module: str, source: Path = SOURCE) -> float:
    """Seconds of one import in a new process."""
    code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(source=source), text=True,
        capture_output=True, check=False, timeout=TIMEOUT,
    )  # fmt: skip
    if done.returncode:
        raise ChildError(f"import {module} failed: {done.stderr}")
    return float(done.stdout.splitlines()[-1])
