"""One step, all contenders: are their values equal, and how long do they take in turns?"""

from __future__ import annotations

import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from benchmarks import models
from benchmarks.channel import Child, ChildError
from benchmarks.contender import COMPILED, EAGER, MODULES, OURS, TORCH, Entry
from benchmarks.models import TOLERANCE, Loop, Step
from benchmarks.timing import quartiles

CHECKED_STEPS = 5
LONG_CALL = 2.0  # seconds: what takes longer varies less, and nobody waits for it twice
Bursts = dict[str, list[list[float]]]  # by contender, by round


@dataclass(frozen=True)
class Settings:
    """How often and how long."""

    rounds: int
    burst_seconds: float
    pause_seconds: float
    least: int = 3
    start_timeout: float = 120.0
    first_timeout: float = 240.0
    burst_timeout: float = 60.0


FULL = Settings(rounds=15, burst_seconds=0.1, pause_seconds=0.03)
QUICK = Settings(rounds=2, burst_seconds=0.02, pause_seconds=0.0, least=2)


def measure_step(name: str, entries: Sequence[Entry], settings: Settings) -> dict[str, Any]:
    """Everything about one step, as what the JSON holds."""
    step = models.WORK[name]()
    entries = [entry for entry in entries if entry.runs(name)]
    found: dict[str, dict[str, Any]] = {e.name: {} for e in entries}
    errors: dict[str, str] = {}
    with ExitStack() as stack:
        children: dict[str, Child] = {}
        for entry in entries:
            try:
                children[entry.name] = _begin(stack, entry, name, found[entry.name], settings)
            except ChildError as error:
                errors[entry.name] = str(error)
        errors |= mismatches({c: found[c]["values"] for c in children}, step.tolerance)
        for contender in errors:
            children.pop(contender, None)
        bursts = alternate(children, settings, errors)
        for contender, child in children.items():
            _finish(child, found[contender], step, settings, errors)
    for contender, times in bursts.items():
        found[contender]["seconds"] = quartiles(list(itertools.chain(*times)))
    return {
        "description": step.description,
        "contenders": {c: found[c] for c in bursts},
        "errors": errors,
        "ratios": ratios(bursts),
    }


def _begin(
    stack: ExitStack, entry: Entry, step: str, found: dict[str, Any], settings: Settings
) -> Child:
    """Start a contender and run its first steps.

    What compiles begins more than once, each time in a new process: with an empty cache folder, and
    with the folder that this has left. Larger sizes begin once: they show speed, not first calls.
    """
    print(f"{step}: {entry.name} ...", file=sys.stderr, flush=True)
    begin = ("-m", "benchmarks.worker", entry.name, step)

    def child(folder: str) -> Child:
        return Child(entry.name, *begin, variables=cache_variables(folder))

    def first_call(folder: str) -> float:
        with child(folder) as process:
            process.ask("start", timeout=settings.start_timeout)
            seconds: float = process.ask("first", timeout=settings.first_timeout)["seconds"]
            return seconds

    folder = _new_folder(stack)
    repeated = entry.compiles and step not in models.LARGER
    if repeated:
        found["cold_s"] = _usual(lambda: first_call(_new_folder(stack)), first_call(folder))
    process = stack.enter_context(child(folder))
    found |= process.ask("start", timeout=settings.start_timeout)
    first = process.ask("first", timeout=settings.first_timeout)
    if repeated:
        found["warm_s"] = _usual(lambda: first_call(folder), first["seconds"])
    else:
        found["cold_s"] = first["seconds"]
    rest = process.ask("values", CHECKED_STEPS - 1, timeout=settings.first_timeout)
    found["values"] = [first["values"], *rest]
    return process


def _new_folder(stack: ExitStack) -> str:
    return stack.enter_context(tempfile.TemporaryDirectory(prefix="contraflow-bench-"))


def _usual(measure: Callable[[], float], first: float) -> float:
    """The median of three first calls, unless the first one was long."""
    return first if first > LONG_CALL else statistics.median([first, measure(), measure()])


def cache_variables(folder: str) -> dict[str, str]:
    """Where each library keeps what it compiled, that it keeps all of it, and runs on the cpu."""
    return {
        "CONTRAFLOW_CACHE_DIR": f"{folder}/contraflow",
        "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
        "JAX_COMPILATION_CACHE_DIR": f"{folder}/jax",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "CACHEDB": f"{folder}/tinygrad.db",
        "JAX_PLATFORMS": "cpu",
        "DEV": "CPU",  # tinygrad's
    }


def mismatches(
    values: Mapping[str, list[list[float]]], tolerance: float = TOLERANCE
) -> dict[str, str]:
    """Who computed something else than most, and what: nobody may leave work out."""
    errors: dict[str, str] = {}
    names = list(values)
    for number, steps in enumerate(zip(*values.values())):
        expected = [statistics.median(column) for column in zip(*steps)]
        for name, given in zip(names, steps):
            wrong = any(not abs(a - b) <= tolerance * abs(b) for a, b in zip(given, expected))
            if wrong:
                errors.setdefault(
                    name, f"{name}: step {number} gave {given}, where most have {expected}"
                )
    return errors


def alternate(children: dict[str, Child], settings: Settings, errors: dict[str, str]) -> Bursts:
    """Time contenders in turns, so that a slow minute falls on all; who is first changes.

    Idle threads of a BLAS spin for a while on the cores of whoever comes next: so each turn begins
    with a pause. Who fails is taken out of `children` and put into `errors`.
    """
    bursts: Bursts = {name: [] for name in children}
    for number in range(settings.rounds):
        names = list(children)
        first = number % max(1, len(names))
        for name in [*names[first:], *names[:first]]:
            time.sleep(settings.pause_seconds)
            request = ("burst", settings.burst_seconds, settings.least)
            try:
                bursts[name].append(children[name].ask(*request, timeout=settings.burst_timeout))
            except ChildError as error:
                errors[name] = str(error)
                del children[name], bursts[name]
    return bursts


def _finish(
    child: Child,
    found: dict[str, Any],
    step: Step | Loop,
    settings: Settings,
    errors: dict[str, str],
) -> None:
    """Memory, and for our own compiler how long another size takes."""
    try:
        found["peak_mb"] = child.ask("peak", timeout=settings.burst_timeout)
        if child.name == COMPILED.name and step.trains:
            found["new_size_s"] = child.ask("new_size", timeout=settings.burst_timeout)
    except ChildError as error:
        errors[child.name] = str(error)


def ratios(bursts: Bursts) -> dict[str, Any]:
    """Whose time is how many times whose: of the best peer and compiled, and of eager ones.

    A ratio is one of neighbours in time: of medians within each round, and then their median.
    """
    medians = {c: statistics.median(itertools.chain(*times)) for c, times in bursts.items()}
    best = min((c for c in medians if c not in OURS), key=medians.__getitem__, default=None)
    pairs = {
        "best_peer_over_compiled": (best, COMPILED.name),
        "best_peer_over_modules": (best, MODULES.name),
        "torch_eager_over_eager": (TORCH.name, EAGER.name),
        "eager_over_compiled": (EAGER.name, COMPILED.name),
    }
    found: dict[str, Any] = {}
    for name, (slow, fast) in pairs.items():
        if slow in bursts and fast in bursts:
            found[name] = quartiles(neighbours(bursts[slow], bursts[fast])) | {"of": slow}
    return found


def neighbours(above: Sequence[Sequence[float]], below: Sequence[Sequence[float]]) -> list[float]:
    """The ratio of medians in each round."""
    return [statistics.median(a) / statistics.median(b) for a, b in zip(above, below)]
