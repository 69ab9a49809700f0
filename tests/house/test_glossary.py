"""One meaning per name: no two types of the package share one, and the glossary is true.

The glossary is the table of that section in docs/architecture.md. Types are the classes and the
aliases (`Edge = tuple[...]`) at the top of a module.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import contraflow

SOURCE = Path(contraflow.__file__).parent
PAGE = SOURCE.parents[1] / "docs" / "architecture.md"


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
