"""Results in words: for the terminal, and as the tables of the README.

`python -m benchmarks.report JSON [README]` prints them, or puts them between the README's markers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.contender import ENTRIES
from benchmarks.machine import BUSY
from benchmarks.targets import targets

BEGIN, END = "<!-- benchmarks: begin -->", "<!-- benchmarks: end -->"


def duration(seconds: float) -> str:
    """Three digits and a unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def spread(found: dict[str, Any]) -> str:
    """A median time and its quartiles."""
    low, high = duration(found["q1"]), duration(found["q3"])
    return f"{duration(found['median'])} ({low} - {high})"


def ratio(found: dict[str, Any]) -> str:
    """A ratio, its quartiles and whose it is."""
    return f"{found['median']:.2f}x ({found['q1']:.2f} - {found['q3']:.2f}, {found['of']})"


def errors(results: dict[str, Any]) -> Iterator[str]:
    """Who failed, and how."""
    for name, step in results["steps"].items():
        yield from (f"error in {name}: {error}" for error in step["errors"].values())
    yield from (f"error: {error}" for error in results["errors"])


def warnings(results: dict[str, Any]) -> Iterator[str]:
    """Why these numbers should not be trusted."""
    others = results["others_share"]
    if others is not None and others > BUSY:
        yield f"others took {others:.0%} of the machine while it measured: this is noise"
    if results["settings"]["quick"]:
        yield "a quick run: it shows that everything works, not how fast"
    yield from errors(results)


# --- the terminal ------------------------------------------------------------------------------


def machine(where: dict[str, Any]) -> Iterator[str]:
    """Where it was measured."""
    yield "  ".join(f"{name} {version}" for name, version in where["versions"].items())
    features = ", ".join(where["cpu_features"])
    yield f"{where['cpu']} ({where['cpu_target']}; {features}), {where['cores']} cores"
    variables = "".join(f", {k}={v}" for k, v in where["thread_variables"].items())
    yield f"load average at the start {where['load_average']:.2f}{variables}"


def text(results: dict[str, Any]) -> Iterator[str]:
    """Line by line."""
    yield from machine(results["machine"])
    yield from (f"absent: {name} ({reason})" for name, reason in results["absent"].items())
    for name, step in results["steps"].items():
        yield from _step_text(name, step)
    yield "\noperations"
    for operation, by_library in results["operations"].items():
        for library, found in by_library.items():
            yield f"  {operation:36}{library:12}{spread(found)}"
    yield "\nimports"
    yield from (f"  {name:48}{spread(found)}" for name, found in results["imports"].items())
    yield "\ntargets"
    for t in targets(results):
        measured = "" if t.measured is None else f"{t.measured:.3g}{t.unit}"
        bound = f"{'at least' if t.at_least else 'at most'} {t.must:g}{t.unit}"
        yield f"  {t.name:56}{measured:>12}   {bound:18}{t.state}"
    yield ""
    yield from (f"WARNING: {warning}" for warning in warnings(results))


def _step_text(name: str, step: dict[str, Any]) -> Iterator[str]:
    yield f"\n{name}: {step['description']}"
    for contender, found in step["contenders"].items():
        calls = ", ".join(
            f"{word} {duration(found[key])}"
            for word, key in (("cold", "cold_s"), ("warm", "warm_s"), ("new size", "new_size_s"))
            if key in found
        )
        peak = f"{found['peak_mb']:.0f} MB" if found.get("peak_mb") else ""
        threads = f"{found['threads']} threads" if found["threads"] else ""
        line = f"  {contender:28}{spread(found['seconds']):32}{peak:>8}  {threads:11}{calls}"
        yield line.rstrip()
    yield from (f"  {pair}: {ratio(found)}" for pair, found in step["ratios"].items())
    yield from (f"  ERROR {error}" for error in step["errors"].values())


# --- the README --------------------------------------------------------------------------------


def markdown(results: dict[str, Any]) -> Iterator[str]:
    """Two tables: times, and targets."""
    where = results["machine"]
    versions = ", ".join(f"{k} {v}" for k, v in where["versions"].items())
    yield f"Measured on {where['cpu']} with {where['cores']} cores; {versions}."
    for warning in warnings(results):
        yield f"\n**{warning[0].upper()}{warning[1:]}.**"
    contenders = [
        c for c in ENTRIES if any(c in s["contenders"] for s in results["steps"].values())
    ]
    yield "\n![The time of a step, as a multiple of contraflow's](benchmarks/results/latest.svg)"
    yield f"\n| step | best peer / compiled (quartiles) | {' | '.join(contenders)} |"
    yield "| --- " * (len(contenders) + 2) + "|"
    for name, step in results["steps"].items():
        best = step["ratios"].get("best_peer_over_compiled")
        cells = [name, ratio(best) if best else ""]
        for contender in contenders:
            found = step["contenders"].get(contender)
            cells.append(duration(found["seconds"]["median"]) if found else "")
        yield f"| {' | '.join(cells)} |"
    yield "\n| target | measured | must | aim | state |"
    yield "| --- | --- | --- | --- | --- |"
    for t in targets(results):
        measured = "" if t.measured is None else f"{t.measured:.3g}{t.unit}"
        sign = "≥" if t.at_least else "≤"
        aim = "" if t.aim is None else f"{sign} {t.aim:g}{t.unit}"
        yield f"| {t.name} | {measured} | {sign} {t.must:g}{t.unit} | {aim} | {t.state} |"
    if results["absent"]:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in results["absent"].items())
        yield f"\nNot compared with: {reasons}."


def insert(readme: str, table: str) -> str:
    """The README with what stands between its markers replaced."""
    before, found, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (found and end):
        raise ValueError(f"report: the README has no {BEGIN} ... {END}.")
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def main() -> None:
    """Print the tables, or write them into a README."""
    path, *readme = map(Path, sys.argv[1:])
    table = "\n".join(markdown(json.loads(path.read_text())))
    if readme:
        readme[0].write_text(insert(readme[0].read_text(), table))
    else:
        print(table)


if __name__ == "__main__":
    main()
