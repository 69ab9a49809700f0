"""This tree against other commits, in turns: `python -m benchmarks.run --against COMMIT ...`.

A folder that holds the package of another side does as well: a machine without the repository
can measure then.

All sides run these benchmarks, each in processes of its own with the library of its side, and
neighbours in time are compared: a slow minute falls on all. Measured are the time of a step in
every way of running it, first calls with an empty and a filled cache, a new size, single
operations, a long chain and the import.

A thing is `slower` if its median now lies above the upper quartile of the times before. With 11
samples from one normal distribution on both sides that is so by chance in 13 % of cases, with 33 in
2 % (simulated): what looks slower is measured again, three times as long, and judged by that. The
status is 1 if anything is slower, or if this working tree failed or computed something else.
"""

from __future__ import annotations

import io
import itertools
import json
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from benchmarks import compare, machine, models, probes, report
from benchmarks.channel import ROOT, SOURCE, Child, ChildError
from benchmarks.contender import COMPILED, ENTRIES, OURS, Entry
from benchmarks.overhead import OPERATIONS
from benchmarks.targets import CHAIN_LENGTH
from benchmarks.timing import quartiles

BEFORE, AFTER = "before", "now"  # of a row; the working tree's processes are called so too
Rounds = list[list[float]]  # seconds, by round
T = TypeVar("T")
AGAIN = 3  # times as many rounds for what looked slower


@dataclass(frozen=True)
class Side:
    """One of them: what its processes are called, and where its library is."""

    name: str
    source: Path

    def child(self, *arguments: str, folder: str | None = None) -> Child:
        """A process of this side, whose compiled kernels are kept in `folder`."""
        variables = compare.cache_variables(folder) if folder else None
        return Child(self.name, "-m", *arguments, variables=variables, source=self.source)


@dataclass
class Comparison:
    """What was measured, by the name of the other side and of the thing, and what went wrong."""

    sides: Sequence[Side]
    settings: compare.Settings
    quick: bool
    rows: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    patience: int = 1  # times as many rounds as usual

    def keep(self, name: str, times: dict[str, Rounds]) -> None:
        """Judge one thing by its seconds before and now, for each side that has any."""
        again = {"again": True} if self.patience > 1 else {}
        for side, before in times.items():
            if side != AFTER and AFTER in times:
                self.rows.setdefault(side, {})[name] = judge(before, times[AFTER]) | again

    def attempt(self, name: str, measure: Callable[[], None]) -> None:
        """Measure, again and longer if something looks slower; go on where a process fails."""
        known = {name for rows in self.rows.values() for name in rows}
        try:
            for self.patience in (1, AGAIN):
                print(f"{name}{' again' * (self.patience > 1)} ...", file=sys.stderr, flush=True)
                measure()
                if self.quick or not any(name not in known for name in self.slower()):
                    break
        except ChildError as error:
            self.errors.append(f"{name}: {error}")

    def slower(self) -> list[str]:
        """What is slower than on one of the other sides."""
        return [n for rows in self.rows.values() for n, row in rows.items() if row["slower"]]

    def in_turns(self, rounds: int, measure: Callable[[Side], dict[str, float]]) -> None:
        """Things that need a new process each time: seconds by name, from all sides in turns."""
        found: dict[str, dict[str, Rounds]] = {}
        for number in range(rounds * self.patience):
            for side in turned(self.sides, number):
                for name, seconds in measure(side).items():
                    found.setdefault(name, {}).setdefault(side.name, []).append([seconds])
        for name, times in found.items():
            self.keep(name, times)


def turned(sides: Sequence[T], number: int) -> list[T]:
    """Everybody, in an order in which another one is first each time."""
    first = number % len(sides)
    return [*sides[first:], *sides[:first]]


def judge(before: Rounds, after: Rounds) -> dict[str, Any]:
    """Two distributions, the ratio of neighbours in time, and whether the second is slower."""
    old, new = (quartiles(list(itertools.chain(*times))) for times in (before, after))
    ratio = quartiles(compare.neighbours(after, before))
    return {BEFORE: old, AFTER: new, "ratio": ratio, "slower": new["median"] > old["q3"]}


# --- what is measured --------------------------------------------------------------------------


def measure_step(found: Comparison, entry: Entry, step: str) -> None:
    """The time of a step, and that all sides compute the same."""
    settings, errors = found.settings, dict[str, str]()
    settings = replace(settings, rounds=settings.rounds * found.patience)
    with ExitStack() as stack:
        children, values = {}, {}
        for side in found.sides:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="contraflow-bench-"))
            child = side.child("benchmarks.worker", entry.name, step, folder=folder)
            children[side.name] = stack.enter_context(child)
            child.ask("start", timeout=settings.start_timeout)
            request = ("values", compare.CHECKED_STEPS)
            values[side.name] = child.ask(*request, timeout=settings.first_timeout)
        errors |= compare.mismatches(values, models.WORK[step]().tolerance)
        found.keep(f"{step}, {entry.mode}", compare.alternate(children, settings, errors))
    found.errors += [f"{step}, {entry.mode}: {error}" for error in errors.values()]


def measure_first_calls(found: Comparison, entry: Entry, step: str) -> None:
    """The first call with an empty cache and with the one that this leaves, and of a new size."""

    def first_calls(side: Side) -> dict[str, float]:
        times = {}
        with tempfile.TemporaryDirectory(prefix="contraflow-bench-") as folder:
            for state in ("cold", "warm"):
                with side.child("benchmarks.worker", entry.name, step, folder=folder) as child:
                    child.ask("start", timeout=found.settings.start_timeout)
                    first = child.ask("first", timeout=found.settings.first_timeout)
                    times[f"{step}, {entry.mode}: first call, {state}"] = first["seconds"]
                    if state == "warm" and models.WORK[step]().trains:
                        seconds = child.ask("new_size", timeout=found.settings.first_timeout)
                        times[f"{step}, {entry.mode}: new size"] = seconds
        return times

    found.in_turns(2 if found.quick else 11, first_calls)


def measure_operations(found: Comparison) -> None:
    """Single operations on small data."""
    rounds, seconds = (2, 0.002) if found.quick else (15 * found.patience, 0.02)
    times: dict[str, dict[str, Rounds]] = {name: {} for name in OPERATIONS["contraflow"]}
    with ExitStack() as stack:
        children = {
            side.name: stack.enter_context(side.child("benchmarks.overhead", "contraflow"))
            for side in found.sides
        }
        for child in children.values():
            child.ask("start", timeout=probes.TIMEOUT)
        for number in range(rounds):
            for name in turned(list(children), number):
                time.sleep(seconds)
                for operation, by_side in times.items():
                    request = ("per_call", operation, seconds)
                    took = children[name].ask(*request, timeout=probes.TIMEOUT)
                    by_side.setdefault(name, []).append([took])
    for operation, by_side in times.items():
        found.keep(operation, by_side)


def measure_long_chain(found: Comparison) -> None:
    """A chain of very many eager operations and its backward."""
    length = CHAIN_LENGTH // 100 if found.quick else CHAIN_LENGTH

    def long_chain(side: Side) -> dict[str, float]:
        with side.child("benchmarks.overhead", "contraflow") as child:
            answer = child.ask("long_chain", length, timeout=probes.TIMEOUT)
        return {f"chain of {length:,}": answer["seconds"]}

    found.in_turns(2 if found.quick else 3, long_chain)


def measure_import(found: Comparison) -> None:
    """`import contraflow`, whose files have been read and compiled."""
    for side in found.sides:
        probes.time_import("contraflow", side.source)
    found.in_turns(
        2 if found.quick else 9,
        lambda side: {"import": probes.time_import("contraflow", side.source)},
    )


def measure(found: Comparison, entries: Sequence[Entry], steps: Sequence[str]) -> None:
    """Everything."""
    for step in steps:
        for entry in entries:
            if not entry.runs(step):
                continue
            name = f"{step}, {entry.mode}"
            found.attempt(name, partial(measure_step, found, entry, step))
            if entry.compiles and step not in models.LARGER:
                found.attempt(
                    f"{name}: first call", partial(measure_first_calls, found, entry, step)
                )
    found.attempt("operations", partial(measure_operations, found))
    found.attempt("long chain", partial(measure_long_chain, found))
    found.attempt("import", partial(measure_import, found))


# --- the sides ---------------------------------------------------------------------------------


def _git(*arguments: str) -> bytes:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"--against: git {arguments[0]}: {done.stderr.decode().strip()}")
    return done.stdout


def check_out(commit: str, folder: Path) -> Path:
    """The library of a commit, as files in a folder; the repository is only read."""
    with tarfile.open(fileobj=io.BytesIO(_git("archive", commit, "src"))) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


def source_of(commit: str, folder: Path) -> Path:
    """Where the library of the other side is: in the folder that was named, or checked out."""
    return Path(commit).resolve() if _is_source(commit) else check_out(commit, folder)


def describe(commit: str) -> str:
    """A commit's number and first line, or the folder."""
    if _is_source(commit):
        return f"the folder {commit}"
    return _git("log", "-1", "--format=%h %s", commit).decode().strip()


def describe_here() -> str:
    """The commit of this working tree, as far as git knows it."""
    if not (ROOT / ".git").exists():
        return f"the folder {SOURCE.relative_to(ROOT)}"
    return describe("HEAD") + (" (changed)" if _git("status", "--porcelain") else "")


def _is_source(commit: str) -> bool:
    return (Path(commit) / "contraflow").is_dir()


def run(
    commits: list[str], quick: bool, contenders: list[str], steps: list[str], path: Path
) -> None:
    """Measure, print, write the JSON, and end with status 1 after a loss."""
    before, after = {commit: describe(commit) for commit in commits}, describe_here()
    watch, where = machine.Watch(), machine.describe()
    settings = compare.QUICK if quick else compare.FULL
    entries = [ENTRIES[name] for name in contenders if name in OURS]
    with tempfile.TemporaryDirectory(prefix="contraflow-against-") as folder:
        here = Side(AFTER, SOURCE)
        sides = [
            Side(name, source_of(name, Path(folder) / str(n))) for n, name in enumerate(before)
        ]
        found = Comparison([*sides, here], settings, quick)
        with here.child("benchmarks.worker", COMPILED.name, "small") as child:
            configuration = child.ask("configuration", timeout=settings.start_timeout)
        measure(found, entries, steps)
    results = {
        "machine": where,
        "configuration": configuration,
        AFTER: after,
        "quick": quick,
        "against": [
            {BEFORE: described, "rows": found.rows.get(commit, {})}
            for commit, described in before.items()
        ],
        "errors": found.errors,
        "others_share": watch.others(),
    }
    print("\n".join(text(results)))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=2) + "\n")
    print(f"written to {path}")
    if found.errors or found.slower():
        raise SystemExit(1)


def text(results: dict[str, Any]) -> Iterator[str]:
    """Line by line: what was compared, where, and for each commit a line for each thing."""
    yield f"now:    {results[AFTER]}"
    yield from report.machine(results["machine"])
    yield from results["configuration"]
    for comparison in results["against"]:
        yield from _table(comparison[BEFORE], comparison["rows"])
    others = results["others_share"]
    if others is not None and others > machine.BUSY:
        yield f"WARNING: others took {others:.0%} of the machine while it measured: this is noise"
    if results["quick"]:
        yield "WARNING: a quick run: it shows that everything works, not how fast"
    yield from (f"ERROR {error}" for error in results["errors"])


def _table(before: str, rows: dict[str, dict[str, Any]]) -> Iterator[str]:
    yield f"\nbefore: {before}"
    yield f"{'':38}{'before (quartiles)':32}{'now (quartiles)':32}now / before (quartiles)"
    for name, row in rows.items():
        ratio = "{median:.3f} ({q1:.3f} - {q3:.3f})".format(**row["ratio"])
        line = f"{name:38}{report.spread(row[BEFORE]):32}{report.spread(row[AFTER]):32}{ratio}"
        yield line + " again" * row.get("again", False) + "   SLOWER" * row["slower"]
    if any(row.get("again") for row in rows.values()):
        yield "again: it, or what is measured with it, looked slower at first: measured longer"
    slower = sum(row["slower"] for row in rows.values())
    yield f"{slower} of {len(rows)} slower: the median now above the quartiles before"
