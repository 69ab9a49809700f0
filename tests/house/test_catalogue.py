"""docs/compile.md says what is captured; each of its lines names a test, and the test exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PAGE = TESTS.parent / "docs" / "compile.md"


def named(text: str) -> list[tuple[str, str]]:
    return re.findall(r"`(test_\w+\.py)::(test_\w+)`", text)


def test_every_named_test_exists() -> None:
    found = named(PAGE.read_text())
    assert len(found) > 60
    known: dict[str, set[str]] = {}
    for file, name in found:
        if file not in known:
            (path,) = TESTS.rglob(file)
            tree = ast.parse(path.read_text())
            known[file] = {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
        assert name in known[file], f"{file} has no {name}"


def test_every_line_names_a_test() -> None:
    for row in PAGE.read_text().splitlines():
        assert not row.startswith("- ") or named(row), row


def test_every_named_form_exists() -> None:
    """Of the table of hostile trials, whose forms are in files of their own."""
    rows = re.findall(r"^\| (.+?) \|.*\| `state/(\w+\.txt)` \|$", PAGE.read_text(), re.MULTILINE)
    assert len(rows) > 30
    for form, file in rows:
        text = (TESTS / "capture" / "state" / file).read_text()
        assert re.search(rf"^=== {re.escape(form)}( ::.*)?$", text, re.MULTILINE), (form, file)
