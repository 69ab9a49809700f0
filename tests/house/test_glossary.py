"""One meaning per name: no two types of the package share one, and docs/architecture.md is true.

Its glossary names types where they are defined, and its text files and attributes that exist. Types
are the classes and the aliases (`Edge = tuple[...]`) at the top of a module.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import contraflow

SOURCE = Path(contraflow.__file__).parent
ROOT = SOURCE.parents[1]
FOLDERS = ("src", "docs", "tests", "benchmarks")
PAGE = ROOT / "docs" / "architecture.md"


def types(text: str) -> Iterator[str]:
    """The names of the types that a module defines, as they are written."""
    for node in ast.parse(text).body:
        match node:
            case ast.ClassDef(name=name):
                yield name
            case (
                ast.Assign(targets=[ast.Name(id=name)])
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr())
            ) if re.fullmatch(r"_*[A-Z]\w*[a-z]\w*", name):
                yield name


def defined() -> dict[str, list[str]]:
    """The modules that define a type of each name; leading underscores do not count."""
    found = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for name in types(path.read_text(encoding="utf-8")):
            found[name.lstrip("_")].append(path.relative_to(SOURCE).as_posix())
    return found


def rows() -> list[tuple[str, str, str]]:
    """The glossary: noun, sentence and module of each row."""
    section = PAGE.read_text(encoding="utf-8").split("\n## Glossary\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \| (.+) \| `([\w/.]+)` \|$", section, re.MULTILINE)


def test_types_are_found_as_they_are_written():
    text = "class A: ...\n_Pair = tuple[A, A]\nX: type = A\nLIMIT = 1\nxs = []\nEdge: type = A\n"
    assert list(types(text)) == ["A", "_Pair", "Edge"]


def test_no_two_types_share_a_name():
    shared = [f"{name}: {', '.join(where)}" for name, where in defined().items() if len(where) > 1]
    assert not shared, "\n".join(["types that share a name:", *shared])


def test_glossary_names_what_exists_where_it_says():
    found, table = defined(), rows()
    assert len(table) > 50
    wrong = [f"{noun}: in {found.get(noun)}" for noun, _, at in table if [at] != found.get(noun)]
    assert not wrong, "\n".join(["the glossary in docs/architecture.md is stale:", *wrong])


def test_glossary_has_a_sentence_for_each_noun_once():
    nouns = [noun for noun, _, _ in rows()]
    assert len(nouns) == len(set(nouns))
    assert not [noun for noun, sentence, _ in rows() if not re.fullmatch(r"[A-Z].*\.", sentence)]


def missing(text: str) -> list[str]:
    """The files and attributes that a page names between backticks, and that do not exist."""
    files = [f"/{path.as_posix()}" for top in FOLDERS for path in (ROOT / top).rglob("*.*")]
    modules = defaultdict(str)
    for path in SOURCE.rglob("*.py"):
        modules[path.stem] += path.read_text(encoding="utf-8")
    found, wrong = defined(), []
    for code in re.findall(r"`([^`\n]+)`", text):
        for name in re.findall(r"[\w/]+\.(?:pyi?|md|txt)\b", code):
            if not any(file.endswith(f"/{name}") for file in files):
                wrong.append(name)
        for owner, name in re.findall(r"^(\w+)\.([A-Za-z_]\w*)\b(?!\.)", code):
            text = modules.get(owner, "")
            if owner in found:
                text = (SOURCE / found[owner][0]).read_text(encoding="utf-8")
            if text and name not in ("py", "pyi") and not re.search(rf"\b{name}\b", text):
                wrong.append(code)
    return wrong


def test_architecture_names_what_exists():
    page = PAGE.read_text(encoding="utf-8").replace("`Tensor.squareplus`", "")  # its worked example
    assert not missing(page)


def test_names_that_do_not_exist_are_found():
    text = "`plan.py`, `compiler/plan.py`, `Plan.steps`, `op.Op`, `plam.py`, `Plan.stops`, `op.Ob`"
    assert missing(text) == ["plam.py", "Plan.stops", "op.Ob"]
