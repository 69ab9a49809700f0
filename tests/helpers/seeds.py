"""Writes docs/seeds.md: the state of each line of "Engine behaviour", per device and mode.

python -m tests.helpers.seeds            run the tests and rewrite the page
python -m tests.helpers.seeds --print    print it instead
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parents[1]
PAGE = TESTS.parent / "docs" / "seeds.md"
COLUMNS = ("cpu-eager", "cpu-compiled", "cuda", "webgpu")

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

# Tried at another size than the line asks for.
SMALLER = {
    (2, "cpu-compiled"): "works for 64,000, compiled in seconds; the time grows with the length",
}


class Collect:
    """Keeps the outcome of every test, by line and column."""

    def __init__(self) -> None:
        self.outcomes: dict[tuple[int, str], list[str]] = defaultdict(list)

    def pytest_runtest_logreport(self, report: Any) -> None:
        found = re.search(r"test_line_(\d+)_[^\[]*(?:\[(\w+-\w+))?", report.nodeid)
        if found and (report.when == "call" or report.outcome != "passed"):
            column = found[2] if found[2] in COLUMNS else "cpu-eager"
            self.outcomes[int(found[1]), column].append(report.outcome)

    def cell(self, line: int, column: str) -> str:
        """The state of a line in one column."""
        outcomes = self.outcomes.get((line, column), [])
        if "failed" in outcomes:
            return "fails"
        if "passed" in outcomes:
            return SMALLER.get((line, column), "works")
        return "" if column.startswith("cpu") else "not yet"  # it does not apply


def page(collected: Collect) -> str:
    """The page as markdown."""
    rows = [
        "# What the five originals promise",
        "",
        "Contraflow starts from five Rust autograd engines. Each line of their behaviour, gaps",
        "included, has tests in `tests/seeds/`; `make seeds` runs them and writes this page. An",
        "empty cell means that the line does not apply there.",
        "",
        "| | line | cpu, eager | cpu, compiled | cuda | webgpu |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for line, text in LINES.items():
        cells = " | ".join(collected.cell(line, column) for column in COLUMNS)
        rows.append(f"| {line} | {text} | {cells} |")
    return "\n".join(rows) + "\n"


def main(arguments: list[str]) -> int:
    """Run the tests and write the page."""
    collected = Collect()
    status = pytest.main(["-q", str(TESTS / "seeds")], plugins=[collected])
    text = page(collected)
    if "--print" in arguments:
        print(text)
    else:
        PAGE.write_text(text)
    return int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
