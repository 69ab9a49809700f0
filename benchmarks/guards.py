"""What guards cost in the calls of compiled functions: `python -m benchmarks.guards [ROUNDS]`.

Each row compares two functions that compute the same, one of which also reads Python state. Both
run in one process, in turns, and the ratio is that of one round: medians with quartiles.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import contraflow as cf
from benchmarks import machine, models
from benchmarks.timing import quartiles
from benchmarks.with_contraflow import functions

ROUNDS = 60
SECONDS = 0.1  # of one function in one round, about
READS = 1000
Function = Callable[[], Any]
Settings = dict[str, Any]


def no_items(settings: Settings) -> None:
    """Reads nothing."""


def ten_items(settings: Settings) -> None:
    """Reads ten items of a dict, as programs read their settings."""
    for scale in (settings["rate"], settings["decay"], settings["clip"], settings["smoothing"]):
        assert scale is None or scale >= 0
    assert settings["device"] == "cpu"
    assert settings["dtype"] == "float32"
    assert not any((settings["accumulate"], settings["checkpoint"], settings["log"]))
    assert settings["seed"] == 1


def training(name: str, optimizer: str, read: Callable[[Settings], None]) -> Function:
    """A call of the compiled step of that name, whose loss is read."""
    step = models.STEPS[name]()
    weights = {k: cf.tensor(v, requires_grad=True) for k, v in step.weights.items()}
    updates = getattr(cf.optim, optimizer)(list(weights.values()), lr=step.learning_rate)
    settings = dict.fromkeys(("rate", "decay", "clip", "smoothing"), 0.5)
    settings |= {"device": "cpu", "dtype": "float32", "accumulate": False, "checkpoint": False}
    settings |= {"log": False, "seed": 1}

    @cf.compile
    def train_step(*batch: cf.Tensor) -> cf.Tensor:
        read(settings)
        updates.zero_grad()
        loss = step.loss(functions, weights, *batch)
        loss.backward()
        updates.step()
        return loss.detach()

    batch = tuple(map(cf.tensor, step.batches[0]))
    return lambda: train_step(*batch).item()


class Item:
    """An object with an attribute."""

    def __init__(self, scale: float) -> None:
        self.scale = scale


def reading(state: Any, read: Callable[[Any], None]) -> Function:
    """A call of a compiled function that reads some state and adds one."""
    x = cf.ones(3)

    @cf.compile
    def add(x: cf.Tensor) -> cf.Tensor:
        read(state)
        return x + 1

    return lambda: add(x)


def nothing(state: Any) -> None:
    """Reads nothing."""


def items_by_number(items: dict[int, float]) -> None:
    """Reads the items of one dict."""
    for i in range(READS):
        items[i]


def items_by_key(items: dict[int, float]) -> None:
    """Reads the items of one dict by its own keys, which are guarded too."""
    for key in items:
        items[key]


def attributes(objects: list[Item]) -> None:
    """Reads an attribute of each object in a list, whose elements are guarded too."""
    for x in objects:
        x.scale  # noqa: B018


def pairs() -> dict[str, tuple[Callable[[], Function], Callable[[], Function]]]:
    """What is compared by name: without the reads, and with them."""
    numbers = {i: i * 0.5 for i in range(READS)}
    objects = [Item(i * 0.5) for i in range(READS)]

    def reads(state: Any, read: Callable[[Any], None]) -> Any:
        return lambda: reading(state, nothing), lambda: reading(state, read)

    def steps(name: str, optimizer: str) -> Any:
        return tuple(
            lambda read=read: training(name, optimizer, read) for read in (no_items, ten_items)
        )

    return {
        "small, ten items of a dict": steps("small", "Adam"),
        "gpt with AdamW, ten items of a dict": steps("gpt", "AdamW"),
        f"{READS} items of a dict": reads(numbers, items_by_number),
        f"{READS} items of a dict, and its keys": reads(numbers, items_by_key),
        f"attributes of {READS} objects, and their list": reads(objects, attributes),
    }


def seconds(function: Function, count: int) -> float:
    """Seconds of one call among so many."""
    start = time.perf_counter()
    for _ in range(count):
        function()
    return (time.perf_counter() - start) / count


def compare(without: Function, reading: Function, rounds: int) -> list[tuple[float, float]]:
    """Seconds of one call of each, round by round."""
    for _ in range(8):  # what only the first calls do
        without(), reading()
    count = max(3, int(SECONDS / seconds(reading, 5)))
    found = []
    for number in range(rounds):
        if number % 2:
            found.append((seconds(without, count), seconds(reading, count)))
        else:
            found.append((seconds(reading, count), seconds(without, count))[::-1])
    return found


def main() -> None:
    """Print a row for each pair."""
    watch, described = machine.Watch(), machine.describe()
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    print(f"{'us of a call':48}{'without':>12}{'with':>12}{'more':>10}{'with / without':>28}")
    for name, (without, reading) in pairs().items():
        found = compare(without(), reading(), rounds)
        first, second = (quartiles([pair[i] * 1e6 for pair in found]) for i in (0, 1))
        more = quartiles([(b - a) * 1e6 for a, b in found])
        ratio = quartiles([b / a for a, b in found])
        text = f"{ratio['median']:.3f} ({ratio['q1']:.3f} - {ratio['q3']:.3f})"
        row = f"{first['median']:12.2f}{second['median']:12.2f}{more['median']:10.2f}{text:>28}"
        print(f"{name:48}{row}", flush=True)
    print(machine.summary(described, watch))


if __name__ == "__main__":
    main()
