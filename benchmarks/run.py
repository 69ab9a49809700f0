"""Measure and print: `python -m benchmarks.run [--quick] [--steps small mlp] [--publish]`.

`--against COMMIT ...` measures this working tree against other commits instead (`against.py`).

The JSON holds what is printed, and more; times are in seconds, and a distribution is its median,
q1, q3 and samples:

- `machine`: versions, system, cpu, cpu_target, cpu_features, cores, load_average, thread_variables
- `others_share`: what others took of the cores' time meanwhile
- `absent`: contenders that cannot run here, and why
- `settings`: how often things ran
- `steps`: by name: description; contenders (`seconds`, a distribution; cold_s, warm_s, new_size_s:
  first calls; peak_mb, imported_mb; threads; values, those of the first steps); errors by
  contender; ratios (distributions over rounds, `of` whom)
- `operations`: by name, by library: distributions
- `long_chain`: length, seconds, peak_mb
- `imports`: by module: distributions
- `errors`: what went wrong with the last three

It goes to benchmarks/results/scratch/, which git ignores, or to the path given. `--publish` also
replaces benchmarks/results/latest.json, the figure beside it and the README's tables, unless the
machine was busy or something failed. The status is 1 if a contender failed or computed something
else.
"""

from __future__ import annotations

import argparse
import json
import signal
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import against, compare, figure, machine, models, probes, report
from benchmarks.channel import ROOT, ChildError
from benchmarks.contender import ENTRIES, OURS, TORCH_STEP, Entry, absent
from benchmarks.targets import CHAIN_LENGTH

RESULTS = ROOT / "benchmarks" / "results"
SCRATCH = RESULTS / "scratch" / "latest.json"


def measure(quick: bool, contenders: list[str], steps: list[str]) -> dict[str, Any]:
    """Everything, as what the JSON holds."""
    watch = machine.Watch()
    where = machine.describe()
    settings = compare.QUICK if quick else compare.FULL
    reasons = {
        name: absent(entry) if name in contenders else "left out" for name, entry in ENTRIES.items()
    }
    present = [entry for name, entry in ENTRIES.items() if reasons[name] is None]
    libraries = list(dict.fromkeys(entry.library for entry in present))
    rounds, seconds = (3, 0.002) if quick else (15, 0.02)
    errors: list[str] = []

    def attempt(probe: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
        """A probe's results, or none and its error: minutes of other results are worth keeping."""
        try:
            return probe(*arguments)
        except ChildError as error:
            errors.append(str(error))
            return {}

    return {
        "machine": where,
        "absent": {name: reason for name, reason in reasons.items() if reason}
        | _impatience(present),
        "settings": {"quick": quick, **asdict(settings)},
        "steps": {name: compare.measure_step(name, present, settings) for name in steps},
        "operations": attempt(probes.measure_operations, libraries, rounds, seconds),
        "long_chain": attempt(
            probes.measure_long_chain, CHAIN_LENGTH // 100 if quick else CHAIN_LENGTH
        ),
        "imports": attempt(probes.measure_imports, ["numpy", *libraries], 2 if quick else 5),
        "errors": errors,
        "others_share": watch.others(),
    }


def _impatience(present: Sequence[Entry]) -> dict[str, str]:
    """Which compilers are not asked to compile everything, and why."""
    found = {}
    for entry in present:
        if entry.name in OURS:
            continue
        for work, reason in (
            (models.STEPS, "compiling it would take minutes"),
            (models.LOOPS, "it is not written for that"),
        ):
            left = [s for s in work if s not in entry.steps and s not in models.EAGER_ONLY]
            if left:
                found[f"{entry.name} for {', '.join(left)}"] = reason
    if TORCH_STEP in present:
        found["torch.compile reduce-overhead"] = (
            "records CUDA graphs, so on a cpu it is the default"
        )
    return found


def publish(results: dict[str, Any]) -> None:
    """Keep results for others to read, if they are worth it."""
    doubts = list(report.warnings(results))
    if left := [name for name in models.WORK if name not in results["steps"]]:
        doubts.append(f"without {', '.join(left)}")
    if doubts:
        raise SystemExit("not published: " + "; ".join(doubts))
    write(results, RESULTS / "latest.json")
    readme = ROOT / "README.md"
    readme.write_text(report.insert(readme.read_text(), "\n".join(report.markdown(results))))


def write(results: dict[str, Any], path: Path) -> None:
    """The JSON, and the figure beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=2) + "\n")
    path.with_suffix(".svg").write_text(figure.draw(results))
    print(f"written to {path}")


def main() -> None:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(description="Measure contraflow, and its peers if installed.")
    parser.add_argument("--quick", action="store_true", help="only shows that it works")
    parser.add_argument("--json", type=Path, default=SCRATCH, metavar="PATH", help="where to write")
    parser.add_argument("--publish", action="store_true", help="replace results and README tables")
    parser.add_argument("--against", nargs="+", metavar="COMMIT", help="other commits, or folders")
    for option, known in (("--steps", models.WORK), ("--contenders", ENTRIES)):
        parser.add_argument(
            option, nargs="+", default=list(known), choices=list(known), metavar="NAME",
            help=f"of {', '.join(known)}",
        )  # fmt: skip
    given = parser.parse_args()
    # Told to end, end what was started as well: an exception does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if given.against:
        if given.publish:
            parser.error("--against compares commits, and --publish publishes one.")
        against.run(given.against, given.quick, given.contenders, given.steps, given.json)
        return
    results = measure(given.quick, given.contenders, given.steps)
    print("\n".join(report.text(results)))
    write(results, given.json)
    if given.publish:
        publish(results)
    if any(report.errors(results)):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
