"""Measure and print: `python -m benchmarks.run [--quick] [--json PATH]`.

The JSON holds what is printed, and more:

- `environment`: versions, system, cpu, cpu_target, cpu_features, cores,
  load_average, threads, thread_variables
- `absent`: libraries not compared with, and why
- `settings`: how often things ran
- `steps`: by name: description; ratios (`best_peer`, `best_peer_over_compiled`,
  `eager_over_compiled`); contenders (median_us, q1_us, q3_us, samples, losses); first_call (by
  contender, cold_s and warm_s)
- `operations`: by name, by library: median_us, q1_us, q3_us, samples
- `imports`: by module: median_us, q1_us, q3_us, samples

Without --json it goes to benchmarks/results/scratch/, which git ignores. Results worth keeping are
measured on a quiet machine with `--json benchmarks/results/latest.json`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks import measure, models, overhead, peers
from benchmarks.measure import ROOT
from benchmarks.peers import COMPILED, EAGER, JAX, TORCH_COMPILE

SCRATCH = ROOT / "benchmarks" / "results" / "scratch" / "latest.json"
FULL = {
    "rounds": 40, "burst": 20, "pause_seconds": 0.05,
    "call_rounds": 30, "call_seconds": 0.02, "imports": 9,
}  # fmt: skip
QUICK = {
    "rounds": 3, "burst": 5, "pause_seconds": 0.005,
    "call_rounds": 5, "call_seconds": 0.002, "imports": 2,
}  # fmt: skip
BUSY = 0.5  # a load average above this, before anything ran, is somebody else's


# --- measuring ---------------------------------------------------------------------------------


def measure_step(name: str, contenders: list[str], settings: dict[str, Any]) -> dict[str, Any]:
    """Check that all contenders compute the same, then time them."""
    step = models.STEPS[name]()
    made = [peers.make(step, contender) for contender in contenders]
    losses = measure.check(made)
    timings = measure.alternate(
        made, settings["rounds"], settings["burst"], settings["pause_seconds"]
    )
    found = {c: {**t.as_dict(), "losses": losses[c]} for c, t in timings.items()}
    compiling = [c for c in contenders if c in (COMPILED, TORCH_COMPILE, JAX)]
    return {
        "description": step.description,
        "ratios": _ratios({c: t.median_us for c, t in timings.items()}),
        "contenders": found,
        "first_call": {c: measure.time_first_call(name, c) for c in compiling},
    }


def _ratios(medians: dict[str, float]) -> dict[str, Any]:
    compiled = medians[COMPILED]
    others = {c: t for c, t in medians.items() if c not in (COMPILED, EAGER)}
    best = min(others, key=others.__getitem__, default=None)
    return {
        "best_peer": best,
        "best_peer_over_compiled": None if best is None else others[best] / compiled,
        "eager_over_compiled": medians[EAGER] / compiled,
    }


def measure_all(quick: bool, with_peers: bool, torch_compile: bool) -> dict[str, Any]:
    """Everything, as what the JSON holds."""
    settings = QUICK if quick else FULL
    contenders = peers.names(with_peers, torch_compile)
    absent = peers.absent() if with_peers else dict.fromkeys(("torch", "jax"), "left out")
    modules = ["numpy", "contraflow", *(m for m in ("torch", "jax") if m not in absent)]
    return {
        "environment": measure.describe_environment(),
        "absent": absent,
        "settings": {**settings, "quick": quick},
        "steps": {name: measure_step(name, contenders, settings) for name in models.STEPS},
        "operations": {
            operation: {
                library: timing.as_dict()
                for library, timing in measure.time_calls(
                    functions, settings["call_rounds"], settings["call_seconds"]
                ).items()
            }
            for operation, functions in overhead.operations(with_peers).items()
        },
        "imports": {
            module: measure.time_import(module, settings["imports"]).as_dict() for module in modules
        },
    }


# --- printing ----------------------------------------------------------------------------------


def _duration(microseconds: float) -> str:
    for unit, size in (("s ", 1e6), ("ms", 1e3)):
        if microseconds >= size:
            return f"{microseconds / size:.3g} {unit}"
    return f"{microseconds:.3g} us"


def _spread(timing: dict[str, Any]) -> str:
    low, high = _duration(timing["q1_us"]).strip(), _duration(timing["q3_us"]).strip()
    return f"{_duration(timing['median_us']):>9}   {low} - {high}"


def print_environment(results: dict[str, Any]) -> None:
    """Where this was measured."""
    where = results["environment"]
    print("  ".join(f"{name} {version}" for name, version in where["versions"].items()))
    features = ", ".join(where["cpu_features"])
    print(f"{where['cpu']} ({where['cpu_target']}; {features}), {where['cores']} cores")
    threads = ", ".join(f"{library} {n}" for library, n in where["threads"].items())
    variables = "".join(f", {k}={v}" for k, v in where["thread_variables"].items())
    print(f"threads: {threads}{variables}")
    for library, reason in results["absent"].items():
        print(f"absent: {library} ({reason})")
    if (where["load_average"] or 0) > BUSY:
        print(f"load average {where['load_average']:.1f}: the machine was busy, so this is noise")


def print_steps(results: dict[str, Any]) -> None:
    """Ratios first, then every contender."""
    print(f"\n{'step':8}{'best peer / compiled':44}eager / compiled")
    for name, step in results["steps"].items():
        ratios = step["ratios"]
        best = "no peer"
        if ratios["best_peer"] is not None:
            best = f"{ratios['best_peer_over_compiled']:.2f}x ({ratios['best_peer']})"
        print(f"{name:8}{best:44}{ratios['eager_over_compiled']:.2f}x")
    for name, step in results["steps"].items():
        print(f"\n{name}: {step['description']}")
        print(f"  {'':30}{'median':>9}   {'quartiles':24}first call: cold, warm cache")
        for contender, timing in step["contenders"].items():
            first = step["first_call"].get(contender)
            calls = f"{first['cold_s']:.2f} s, {first['warm_s']:.2f} s" if first else ""
            print(f"  {contender:30}{_spread(timing):36}{calls}".rstrip())


def print_calls(results: dict[str, Any]) -> None:
    """Single operations and imports."""
    print("\noperations")
    for operation, timings in results["operations"].items():
        print(f"  {operation}")
        for library, timing in timings.items():
            print(f"    {library:28}{_spread(timing)}")
    print("\nimport, in a new process")
    for module, timing in results["imports"].items():
        print(f"    {module:28}{_spread(timing)}")


def main() -> None:
    """Measure, print, and write the JSON."""
    parser = argparse.ArgumentParser(description="Measure contraflow, and its peers if installed.")
    parser.add_argument(
        "--quick", action="store_true", help="few samples: only shows that it works"
    )
    parser.add_argument("--json", type=Path, default=SCRATCH, metavar="PATH", help="where to write")
    parser.add_argument("--no-peers", action="store_true", help="leave PyTorch and JAX out")
    parser.add_argument("--torch-compile", action="store_true", help="needs a C++ compiler")
    given = parser.parse_args()
    results = measure_all(given.quick, not given.no_peers, given.torch_compile)
    print_environment(results)
    print_steps(results)
    print_calls(results)
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps(results, indent=2) + "\n")
    print(f"\nwritten to {given.json}")


if __name__ == "__main__":
    main()
