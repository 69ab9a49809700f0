"""The order of the tests: folders that mirror the package's, short files, helpers apart."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath

import contraflow

TESTS = Path(__file__).resolve().parents[1]
PACKAGE = Path(contraflow.__file__).parent
APART = {"helpers", "house", "library", "seeds"}  # have no counterpart in the package
LONGEST = 600  # lines


def problems(files: Mapping[PurePath, int], folders: set[str]) -> Iterator[str]:
    """What is wrong with files, given their paths in `tests` and their lengths."""
    names = Counter(path.name for path in files)
    for path, lines in files.items():
        if lines > LONGEST:
            yield f"{path} has {lines} lines: divide it by subject"
        if path.name == "conftest.py":
            continue
        if names[path.name] > 1:
            yield f"{path}: another file has that name, and pages name tests by their files"
        if len(path.parts) != 2 or path.parts[0] not in folders | APART:
            yield f"{path} is in no folder of the package, nor one of {sorted(APART)}"
        elif path.name.startswith("test_") == (path.parts[0] == "helpers"):
            yield f"{path}: tests/helpers holds what is not a test, and nothing else does"


def test_tests_are_in_order() -> None:
    files = {p.relative_to(TESTS): len(p.read_text().splitlines()) for p in TESTS.rglob("*.py")}
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert len(files) > 100
    assert len(folders) > 10
    found = list(problems(files, folders))
    assert not found, "\n".join(found)


def test_disorder_is_found() -> None:
    given = {
        "ops/test_ops.py": 600,
        "helpers/loaders.py": 1,
        "nn/conftest.py": 9,
        "ops/test_long.py": 601,
        "nn/test_same.py": 1,
        "ops/test_same.py": 1,
        "nowhere/test_lost.py": 1,
        "test_top.py": 1,
        "ops/shared.py": 1,
        "helpers/test_apart.py": 1,
    }
    files = {PurePath(path): lines for path, lines in given.items()}
    found = [text.split(" ")[0].rstrip(":") for text in problems(files, {"ops", "nn"})]
    assert found == list(given)[3:]


def test_the_makefile_has_the_targets_that_it_names() -> None:
    text = (TESTS.parent / "Makefile").read_text()
    told = re.search(r"^\.PHONY: (.*)", text, re.MULTILINE)
    assert told is not None
    made = set(re.findall(r"^([a-z][a-z-]*):", text, re.MULTILINE))
    assert set(told[1].split()) == made
    named = re.findall(r"`make ([a-z -]+)`", text)
    assert {target for targets in named for target in targets.split()} <= made
