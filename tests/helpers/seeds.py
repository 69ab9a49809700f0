"""Writes docs/seeds.md: the state of each line of "Engine behaviour", per device and mode.

python -m tests.helpers.seeds                          run the tests and rewrite the page
python -m tests.helpers.seeds --devices walled cuda    the columns of these devices alone
python -m tests.helpers.seeds --print                  print it instead

The columns of a device that this machine does not have stay as they are.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parents[1]
PAGE = TESTS.parent / "docs" / "seeds.md"
DEVICES = ("cpu", "walled", "cuda", "webgpu")
MODES = ("eager", "compiled")
COLUMNS = [f"{device}, {mode}" for device in DEVICES for mode in MODES]

# What a line asks, in a few words; the tests say the rest.
LINES = {
    1: "gradients accumulate; a diamond of depth 60 takes linear work",
    2: "a chain of 1,000,000 ops differentiates",
    3: "a broadcast operand's gradient has the operand's shape",
    4: "layer_norm, batch_norm, conv2d and dropout have real gradients",
    5: "mse_loss uses the incoming gradient and differentiates its target",
    6: "conv2d whose stride does not divide its input",
    7: "pow leaks no NaN",
    8: "PyTorch's conventions at kinks and ties",
    9: "checkpoints drop activations, repeat dropout, change no bit, notice overwritten tensors",
    10: "a root that is not a scalar needs a gradient of its shape",
    11: "a rule's wrong gradients are errors that name the op",
    12: "tensor hooks and post-accumulate hooks",
    13: "parallel backward: same bits, no races, errors surface",
    14: "accumulation in place only where nobody sees it, in every dtype",
    15: "an overwritten saved value raises and names both lines",
    16: "indices stay integers",
    17: "the graph is data: walked, printed, drawn, shared between threads",
    18: "a store of gradients, of every tensor on request, that adds up",
    19: "a tape can be read and drawn, and verifies itself",
    20: "nothing of a backward on a GPU goes through the host",
    21: "pooling, unfold and fold, cat, gather, pad and conv1d have real gradients",
}

ASKED = {2: 1_000_000}  # the size that a line asks for

Cells = dict[tuple[int, str], str]  # by line and column


class Collect:
    """Keeps the outcome of every test, by line and column: a device and a mode."""

    def __init__(self, devices: Iterable[str] = ()) -> None:
        self.only = set(devices)  # none: all
        self.outcomes: dict[tuple[int, str], list[str]] = defaultdict(list)
        self.sizes: dict[tuple[int, str], int] = {}  # the largest that has passed
        self.tried: set[str] = set()

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        wanted, others = [], []
        for item in items:
            place = place_of(item.nodeid)
            fits = place is not None and self._wants(place[1])
            (wanted if fits else others).append(item)
        config.hook.pytest_deselected(items=others)
        items[:] = wanted

    def _wants(self, column: str) -> bool:
        return not self.only or column.partition(",")[0] in self.only

    def pytest_runtest_logreport(self, report: Any) -> None:
        place = place_of(report.nodeid)
        if place is None or (report.when != "call" and report.outcome == "passed"):
            return
        self.outcomes[place].append(report.outcome)
        if report.outcome == "skipped":
            return
        self.tried.add(place[1])
        if report.outcome == "passed":
            sizes = [value for name, value in report.user_properties if name == "size"]
            self.sizes[place] = max([self.sizes.get(place, 0), *sizes])

    def cell(self, line: int, column: str) -> str:
        """The state of a line in a column of a device that was tried."""
        place = line, column
        outcomes = self.outcomes.get(place, [])
        if "failed" in outcomes:
            return "fails"
        if "passed" not in outcomes:
            return ""  # it does not apply
        size = self.sizes[place]
        return f"works for {size:,}" if size < ASKED.get(line, 0) else "works"


def place_of(test: str) -> tuple[int, str] | None:
    """The line that a test is for, and the column that it is tried in."""
    found = re.search(r"test_line_(\d+)_.*\b([a-z]+)-(eager|compiled)\b", test)
    return None if found is None else (int(found[1]), f"{found[2]}, {found[3]}")


def read_page(text: str) -> Cells:
    """The cells of a page that was written before."""
    rows = [row.split("|")[1:-1] for row in text.splitlines() if row.startswith("| ")]
    (_, _, *columns), _, *lines = [[cell.strip() for cell in row] for row in rows]
    return {
        (int(number), column): cell
        for number, _, *cells in lines
        for column, cell in zip(columns, cells)
    }


def page(collected: Collect, before: Cells) -> str:
    """The page as markdown; what was not tried is as it was before."""
    rows = [
        "# What the five originals promise",
        "",
        "Contraflow starts from five Rust autograd engines. Each line of their behaviour, gaps",
        "included, has tests in `tests/seeds/`; `make seeds` runs them on the devices that there",
        'are and writes this page (`make seeds ARGS="--devices webgpu"`: the columns of one). An',
        "empty cell means that the line does not apply there. The walled device has no machine:",
        "its kernels are interpreted, and nothing of it can reach the memory of the host.",
        "",
        f"| | line | {' | '.join(COLUMNS)} |",
        f"| --- | --- |{' --- |' * len(COLUMNS)}",
    ]
    for line, text in LINES.items():
        cells = [
            collected.cell(line, column)
            if column in collected.tried
            else before.get((line, column), "not yet")
            for column in COLUMNS
        ]
        rows.append(f"| {line} | {text} | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def main(arguments: list[str]) -> int:
    """Run the tests and write the page."""
    parser = argparse.ArgumentParser(description="Write docs/seeds.md.")
    parser.add_argument("--devices", nargs="+", choices=DEVICES, default=())
    parser.add_argument("--print", action="store_true", help="print the page instead")
    given = parser.parse_args(arguments)
    collected = Collect(given.devices)
    # The assertions of a module that runs already are not rewritten; those of the tests are.
    quiet = ["-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning"]
    status = pytest.main(["-q", *quiet, str(TESTS / "seeds")], plugins=[collected])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        return int(status)
    text = page(collected, read_page(PAGE.read_text()))
    if given.print:
        print(text)
    else:
        PAGE.write_text(text)
    return int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
