"""What the project wants of itself, next to what was measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.contender import COMPILED, TORCH
from benchmarks.overhead import REPLAY

SPEEDS = {
    "small": (5, 8),
    "mlp": (1.2, 1.5),
    "cnn": (1.2, 1.5),
    "gpt": (1.2, 1.5),
    "ewise": (1.3, 1.5),
}
FIRST_CALLS = {"gpt": (2.5, 0.4), "small": (0.5, 0.15)}  # seconds: cold, warm
CHAIN_LENGTH = 1_000_000


@dataclass(frozen=True)
class Target:
    """One wish: `must` is owed, `aim` is hoped for."""

    name: str
    measured: float | None
    must: float
    aim: float | None = None
    unit: str = "x"
    at_least: bool = True  # else at most

    def meets(self, wish: float) -> bool:
        """Whether what was measured is as good as a wish."""
        assert self.measured is not None
        return self.measured >= wish if self.at_least else self.measured <= wish

    @property
    def state(self) -> str:
        """In words: whether it is met, and by how much not."""
        if self.measured is None:
            return "not measured"
        if not self.meets(self.must):
            worse = self.must / self.measured if self.at_least else self.measured / self.must
            return f"missed by {worse:.2f}x"
        if self.aim is None:
            return "met"
        return "met, and the aim" if self.meets(self.aim) else "met, not the aim"


def targets(results: dict[str, Any]) -> Iterator[Target]:
    """All of them, with what a run has measured."""
    for step, (must, aim) in SPEEDS.items():
        yield Target(
            f"{step}: best peer / compiled", _ratio(results, step, "best_peer_over_compiled"),
            must, aim,
        )  # fmt: skip
    for step in ("small", "mlp", "cnn", "gpt"):
        yield Target(
            f"{step} of modules: best peer / compiled",
            _ratio(results, step, "best_peer_over_modules"),
            *SPEEDS[step],
        )
    for step in ("mlp", "cnn", "gpt"):
        yield Target(
            f"{step}: torch eager / eager",
            _ratio(results, step, "torch_eager_over_eager"),
            0.8,
            1.0,
        )
    chain = _ratio(results, "chain", "torch_eager_over_eager")
    yield Target("chain: eager / torch eager", chain and 1 / chain, 1.5, 1.0, at_least=False)
    for step, (cold, warm) in FIRST_CALLS.items():
        ours = _contender(results, step, COMPILED.name)
        yield Target(
            f"{step}: first call, cold", ours.get("cold_s"), cold, unit=" s", at_least=False
        )
        yield Target(
            f"{step}: first call, warm", ours.get("warm_s"), warm, unit=" s", at_least=False
        )
    new_size = _contender(results, "gpt", COMPILED.name).get("new_size_s")
    yield Target("gpt: new batch size", new_size, 0.15, unit=" s", at_least=False)
    for step in ("cnn", "gpt"):
        yield Target(
            f"{step}: peak memory / torch eager's, imports excluded", _memory_ratio(results, step),
            0.9, at_least=False,
        )  # fmt: skip
    long = results.get("long_chain", {})
    if long.get("length") != CHAIN_LENGTH:
        long = {}
    yield Target("1,000,000 operations: time", long.get("seconds"), 20, unit=" s", at_least=False)
    gigabytes = long.get("peak_mb") and long["peak_mb"] / 1024
    yield Target("1,000,000 operations: memory", gigabytes, 1.5, unit=" GB", at_least=False)
    imports = results.get("imports", {}).get("contraflow", {})
    yield Target("import contraflow", imports.get("median"), 0.25, unit=" s", at_least=False)
    # One addition takes no time, so the whole call is what Python costs outside the program.
    replay = results.get("operations", {}).get(REPLAY, {}).get("contraflow", {})
    microseconds = replay and replay["median"] * 1e6
    yield Target(REPLAY, microseconds or None, 10, unit=" us", at_least=False)


def _contender(results: dict[str, Any], step: str, name: str) -> dict[str, Any]:
    return results["steps"].get(step, {}).get("contenders", {}).get(name, {})


def _ratio(results: dict[str, Any], step: str, name: str) -> float | None:
    return results["steps"].get(step, {}).get("ratios", {}).get(name, {}).get("median")


def _memory_ratio(results: dict[str, Any], step: str) -> float | None:
    """Of what a step needs beside the library itself: PyTorch is large, which would flatter us."""
    found = [_contender(results, step, name) for name in (COMPILED.name, TORCH.name)]
    if not all(c.get("peak_mb") for c in found):
        return None
    ours, theirs = (c["peak_mb"] - c["imported_mb"] for c in found)
    return ours / theirs
