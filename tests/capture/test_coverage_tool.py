"""coverage.py beside compiled functions: the lines of the user are covered as in eager."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.helpers.scripts import LIMIT, environment

PROGRAM = """\
import sys
import contraflow as cf

config = {"scale": 2.0, "twice": False}
class Layer:
    def __init__(self):
        self.count = 0
    @property
    def rate(self):
        return config["scale"] * 0.5
    def __call__(self, x):
        self.count += 1
        if config["twice"]:
            x = x * 2  # never
        return helper(x) * self.rate
def helper(x):
    parts = [
        part * 2
        for part in numbers(x)
    ]
    try:
        return sum(parts) / config["none"]
    except KeyError:
        return sum(parts)
def numbers(x):
    for n in range(2):
        yield x * n
layer = Layer()
def step(x):
    y = layer(x)
    return (
        y.sin()
        + 1.0
    )
if sys.argv[1] == "compiled":
    step = cf.compile(step)
for _ in range(3):
    step(cf.ones(3))
"""
CORES = ["ctrace", pytest.param("sysmon", marks=pytest.mark.skipif(
    sys.version_info < (3, 12), reason="Python 3.11 has no sys.monitoring"
))]  # fmt: skip


def covered(core: str, how: str, folder: Path) -> list[int]:
    """The lines of the program that coverage.py saw."""
    program, data, found = folder / "program.py", folder / how, folder / f"{how}.json"
    program.write_text(PROGRAM)
    start = [sys.executable, "-m", "coverage"]
    for arguments in (
        ["run", f"--data-file={data}", f"--include={program}", str(program), how],
        ["json", f"--data-file={data}", "-q", "-o", str(found)],
    ):
        done = subprocess.run(
            [*start, *arguments], env=environment(COVERAGE_CORE=core), cwd=folder,
            capture_output=True, text=True, timeout=LIMIT, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "not supported" not in done.stderr + done.stdout
    (file,) = json.loads(found.read_text())["files"].values()
    return [*file["executed_lines"]]


@pytest.mark.skipif(
    importlib.util.find_spec("coverage") is None, reason="coverage.py is not installed"
)
@pytest.mark.parametrize("core", CORES)
def test_lines_are_covered_as_in_eager(core: str, tmp_path: Path) -> None:
    compiled, eager = covered(core, "compiled", tmp_path), covered(core, "eager", tmp_path)
    switch = 1 + PROGRAM.splitlines().index("    step = cf.compile(step)")
    assert [line for line in compiled if line != switch] == eager
    never = {number for number, line in enumerate(PROGRAM.splitlines(), 1) if "# never" in line}
    assert never.isdisjoint(compiled)
    assert len(compiled) >= 27
