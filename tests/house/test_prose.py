"""The English of the package: patterns that make a reader start again are not written.

Comments, docstrings, messages and pages are read as prose: lines are joined, code is left out. Each
pattern stands with an example, which is what the check is shown to catch, and with what to write.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

import contraflow

SOURCE = Path(contraflow.__file__).parent
ROOT = SOURCE.parents[1]
PAGES = [*sorted(ROOT.glob("docs/*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]

# A pattern, something that it catches, and what would be said instead.
PATTERNS = {
    r"(?<!\bthere )\b(is|are|was|were) no\b(?! (more|longer)\b)": (
        "float32[3] is no matrix.",
        "float32[3] is not a matrix.",
    ),
    r"\bhad better\b": (
        "columns had better lie side by side",
        "Columns are stored column-major: a row is shorter than a vector.",
    ),
    r"\bwhich stays\b": (
        "An array of zeros, and which stays.",
        "An array of zeros meant to live long.",
    ),
    r"(^|[.:;,] |\band )who(ever)?\b": (
        "Who holds the lock runs the program.",
        "The thread that holds the lock runs the program.",
    ),
    r"(?-i:(^|[.:] )What)\b(?! .*\?)": (
        "What a device can do.",
        "The capabilities of a device.",
    ),
    r"\bsuch(?=[.,;:)]|$| (that|are|is|by|alone)\b)": (
        "A few lines that make it, if there are such.",
        "A few lines that make it; None if there are none.",
    ),
    r"\b(its|their) (like|kin)\b": ("Adam and its kin.", "Adam and its variants."),
    r"\blines? of (a |the )?caches?\b": (
        "It begins with a line of a cache.",
        "It is aligned to a cache line.",
    ),
}


def joined(text: str) -> str:
    """A text on one line, without the code between backticks."""
    return re.sub(r"\s+", " ", re.sub(r"`[^`]*`", "`x`", text)).strip()


def paragraphs(line: int, text: str) -> Iterator[tuple[int, str]]:
    """The paragraphs of a text, each with the line on which it begins."""
    for part in re.split(r"(\n\s*\n)", text):
        if part.strip():
            yield line, joined(part)
        line += part.count("\n")


def comments(text: str) -> Iterator[tuple[int, str]]:
    """The comments of a module; those on lines of their own that follow each other are one."""
    start, last, words = 0, -1, ""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            line, said = token.start[0], token.string.lstrip("#")
            alone = token.line.lstrip().startswith("#")
            if alone and line == last + 1:
                words += said
            else:
                yield start, joined(words).strip()
                start, words = line, said
            last = line if alone else -1
    yield start, joined(words).strip()


def strings(text: str) -> Iterator[tuple[int, str]]:
    """The docstrings and messages of a module: constants of several words."""
    tree = ast.parse(text)
    parts = {id(v) for f in ast.walk(tree) if isinstance(f, ast.JoinedStr) for v in f.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            values = [v.value if isinstance(v, ast.Constant) else "x" for v in node.values]
            yield from paragraphs(node.lineno, "".join(values))
        elif isinstance(node, ast.Constant) and id(node) not in parts and " " in str(node.value):
            yield from paragraphs(node.lineno, str(node.value))


def prose(path: Path) -> Iterator[tuple[int, str]]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield from paragraphs(1, text)
    else:
        yield from comments(text)
        yield from strings(text)


def found(text: str) -> list[str]:
    """What the patterns catch in a text, with a few words around it."""
    return [
        text[max(0, match.start() - 30) : match.end() + 30]
        for pattern in PATTERNS
        for match in re.finditer(pattern, text, re.IGNORECASE)
    ]


@pytest.mark.parametrize(("caught", "instead"), PATTERNS.values(), ids=PATTERNS)
def test_patterns_catch_what_they_are_for(caught, instead):
    assert len(found(caught)) == 1
    assert not found(instead)


def test_comments_docstrings_messages_and_pages_are_read():
    text = '"""One\n\nand two."""\nx = f"three {4} five"  # six\n# seven\n# eight\n'
    assert [said for _, said in comments(text) if said] == ["six", "seven eight"]
    assert [said for _, said in strings(text)] == ["One", "and two.", "three x five"]


def test_prose_is_plain():
    wrong = [
        f"{path.relative_to(ROOT)}, line {line}: ...{text}..."
        for path in [*sorted(SOURCE.rglob("*.py")), *PAGES]
        for line, paragraph in prose(path)
        for text in found(paragraph)
    ]
    assert not wrong, "\n" + "\n".join(wrong)


def long_lines(text: str) -> list[str]:
    """The lines of prose that are longer than code may be: not rows of tables, and not examples."""
    lines = [line for line in text.splitlines() if not line.startswith(("|", "    "))]
    return [line for line in lines if len(line) > 100]


@pytest.mark.parametrize("name", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_lines_of_pages_are_no_longer_than_those_of_code(name):
    assert long_lines("a" * 101)
    assert not long_lines("a" * 100 + "\n| " + "b" * 101 + "\n    " + "c" * 101)
    assert not long_lines((ROOT / name).read_text(encoding="utf-8"))
