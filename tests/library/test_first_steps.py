"""docs/first_steps.md shows what a new user types and sees; its programs print just that."""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "first_steps.md").read_text(encoding="utf-8")
PROGRAMS = dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE, re.DOTALL))
COMMANDS = [
    command
    for block in re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    for command in re.findall(r"^\$ ([^\n]*)\n(.*?)(?=^\$ |\Z)", block, re.DOTALL | re.MULTILINE)
]


def test_the_page_shows_each_kind_of_thing() -> None:
    typed = [command for command, _ in COMMANDS]
    assert len(typed) == 10
    assert {command.split()[0] for command in typed} == {"pip", "python"}


@pytest.mark.parametrize(("command", "shown"), COMMANDS, ids=[command for command, _ in COMMANDS])
def test_a_command_prints_what_is_shown(command: str, shown: str, tmp_path: Path) -> None:
    program, *arguments = shlex.split(command)
    if program == "pip":
        pytest.skip("it needs the package index")
    name = arguments[-1]
    if name == "digits.py":
        pytest.importorskip("sklearn", reason="`make test` installs it")
        blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
        text = blocks[0]
    else:  # lines are counted from after the one with the name
        text = PROGRAMS[name]
    (tmp_path / name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, *arguments], cwd=tmp_path, text=True, encoding="utf-8", timeout=240,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert doctest.OutputChecker().check_output(shown, done.stdout, options), done.stdout
