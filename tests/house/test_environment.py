"""Environment variables are read in config.py alone, and docs/environment.md lists them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "contraflow"


def reads_environment(path: Path) -> bool:
    """Whether a module names os.environ or os.getenv."""
    return any(
        isinstance(node, ast.Attribute)
        and node.attr in ("environ", "getenv")
        and isinstance(node.value, ast.Name)
        and node.value.id == "os"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    )


def test_config_alone_reads_the_environment() -> None:
    found = [str(p.relative_to(SOURCE)) for p in SOURCE.rglob("*.py") if reads_environment(p)]
    assert found == ["config.py"]


def test_the_page_lists_each_variable() -> None:
    page = (ROOT / "docs" / "environment.md").read_text()
    listed = set(re.findall(r"^\| `(\w+)`", page, re.M))
    read = set(re.findall(r'"(CONTRAFLOW_\w+)"', (SOURCE / "config.py").read_text()))
    assert listed == read
