"""Models of public packages run through `as_torch` with PyTorch's losses: docs/programs.md."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from tests.helpers import public_programs


def is_installed(package: str) -> bool:
    return importlib.util.find_spec(package.replace("-", "_")) is not None


@pytest.mark.slow
@pytest.mark.peers
@pytest.mark.parametrize("name", public_programs.PROGRAMS)
def test_a_program_has_pytorchs_losses(name: str, tmp_path: Path) -> None:
    package = name.partition(":")[0]
    for needed in ("torch", package):
        if not is_installed(needed):
            pytest.skip(f"{needed} is not installed: pip install {needed}")
    apart, torchs, ours = public_programs.difference(name, tmp_path)
    assert not torchs.error, torchs.error
    assert not ours.error, ours.error
    assert apart <= public_programs.TOLERANCE


def test_the_page_has_each_program() -> None:
    page = public_programs.PAGE.read_text()
    rows = [line.split(" | ")[0].removeprefix("| ") for line in page.splitlines() if ": " in line]
    shown = [row for row in rows if row in public_programs.PROGRAMS]
    assert shown == list(public_programs.PROGRAMS)
    assert len(shown) >= 20
