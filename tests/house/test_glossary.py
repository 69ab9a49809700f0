"""One meaning per name: no two types of the package share one, and docs/architecture.md is true.

Its glossary names types where they are defined, and its text files and attributes that exist. Types
are the classes and the aliases (`Edge = tuple[...]`) at the top of a module.
"""

from __future__ import annotations

import ast
import functools
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import contraflow
from contraflow.operation.kinds import Kind
from contraflow.operation.op import REGISTRY

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


@functools.cache
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
    return _rows(section.split("| word |")[0])


def words() -> list[tuple[str, str, str]]:
    """The words of capture that are not types: word, sentence and a module that uses it."""
    return _rows(PAGE.read_text(encoding="utf-8").split("| word |")[1].split("\n## ")[0])


def _rows(table: str) -> list[tuple[str, str, str]]:
    return re.findall(r"^\| `(\w+)` \| (.+) \| `([\w/.]+)` \|$", table, re.MULTILINE)


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


# The modules whose every public type is a noun of this page.
NOUNS = (
    "compiler/kernel.py", "compiler/lower.py", "compiler/plan.py", "operation/op.py",
    "operation/kinds.py", "capture/key.py",
)  # fmt: skip
# Types of these that have no row, and why.
WITHOUT_ROW = {
    "Comparison": "the type of one field of `KeyPart`",
    "Difference": "the type of one field of `KeyPart`",
}


def test_glossary_has_the_public_types_of_the_central_modules():
    public = {
        name
        for module in NOUNS
        for name in types((SOURCE / module).read_text(encoding="utf-8"))
        if not name.startswith("_")
    }
    assert public >= WITHOUT_ROW.keys()
    assert public - {noun for noun, _, _ in rows()} == WITHOUT_ROW.keys()


def test_glossary_has_a_sentence_for_each_noun_once():
    table = [*rows(), *words()]
    nouns = [noun for noun, _, _ in table]
    assert len(nouns) == len(set(nouns))
    assert not [noun for noun, sentence, _ in table if not re.fullmatch(r"[A-Z].*\.", sentence)]


def test_modules_use_the_words_that_the_glossary_gives_them():
    assert len(words()) > 10
    wrong = [
        f"{word}: not in {at}"
        for word, _, at in words()
        if not re.search(rf"(\b|_){word}\b", (SOURCE / at).read_text(encoding="utf-8"))
    ]
    assert not wrong, "\n".join(wrong)


@functools.cache
def files_there() -> str:
    """The paths of all files, one per line."""
    paths = [path.as_posix() for top in FOLDERS for path in (ROOT / top).rglob("*.*")]
    return "\n".join(path for path in paths if "__pycache__" not in path)


@functools.cache
def modules_there() -> dict[str, str]:
    """The texts of all modules of a name, joined."""
    modules: dict[str, str] = defaultdict(str)
    for path in SOURCE.rglob("*.py"):
        modules[path.stem] += path.read_text(encoding="utf-8")
    return modules


def missing(text: str) -> list[str]:
    """The files and attributes that a page names between backticks, and that do not exist."""
    files, modules, found = files_there(), modules_there(), defined()
    wrong = []
    for code in re.findall(r"`([^`\n]+)`", text):
        for name in re.findall(r"[\w/*]+\.(?:pyi?|md|txt)\b", code):
            pattern = re.escape(name).replace(r"\*", r"[^/\n]*")  # a glob, within one folder
            if not re.search(f"/{pattern}$", files, re.MULTILINE):
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


def ambiguous(text: str) -> list[str]:
    """The bare names of modules between backticks that lie in several folders, none at the top."""
    paths = [path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py")]
    named = re.findall(r"(?<![\w/*])(\w+\.py)\b", " ".join(re.findall(r"`([^`\n]+)`", text)))
    found = {name: [path for path in paths if path.split("/")[-1] == name] for name in named}
    return [name for name, places in found.items() if len(places) > 1 and name not in places]


def test_architecture_names_the_folder_of_a_module_that_others_share_the_name_of():
    assert not ambiguous(PAGE.read_text(encoding="utf-8"))


def test_names_that_modules_share_are_found():
    assert ambiguous("`compiler/ordered.py`, `random.py`, `plan.py`, `see ordered.py`") == [
        "ordered.py"
    ]


def test_names_that_do_not_exist_are_found():
    text = "`plan.py`, `compiler/plan.py`, `Plan.steps`, `op.Op`, `plam.py`, `Plan.stops`, `op.Ob`"
    assert missing(text) == ["plam.py", "Plan.stops", "op.Ob"]
    assert missing("`render/llvm/*.py`, `render/llvm*.py`, `test_acc*.py`") == ["render/llvm*.py"]


def prose(text: str) -> str:
    """The docstrings and comments of a module."""
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, owners)]
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = [token.string for token in tokens if token.type == tokenize.COMMENT]
    return "\n".join([*(ast.get_docstring(node) or "" for node in nodes), *comments])


# What docstrings write as `module.name` and is not one, though there is a module of that name.
FOREIGN = {
    "cuda.bindings": "a package of NVIDIA's",
    "cuda.FloatTensor": "PyTorch's",
    "cuda.LongTensor": "PyTorch's",
    "module.parametrizations": "an attribute of a module of a network",
    "module.weight": "an attribute of a module of a network",
}


def missing_modules(text: str) -> list[str]:
    """The modules that the prose of a module names, between backticks or not, and that are not."""
    text = prose(text)
    named = re.findall(r"[\w/*]+\.pyi?\b", text)
    named += [name for name in re.findall(r"`([a-z]\w*\.\w+)`", text) if name not in FOREIGN]
    return missing(" ".join(f"`{name}`" for name in named)) if named else []


def test_docstrings_and_comments_name_modules_that_exist():
    for path in sorted(SOURCE.rglob("*.py")):
        assert not missing_modules(path.read_text(encoding="utf-8")), path


def test_a_folder_that_lists_its_modules_lists_them_all():
    for path in SOURCE.rglob("__init__.py"):
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        if re.search(r"^ +\w+\.py ", text, re.MULTILINE):
            there = {module.name for module in path.parent.glob("*.py")} - {"__init__.py"}
            assert set(re.findall(r"\b\w+\.py\b", text)) == there, path


def test_modules_that_do_not_exist_are_found_in_docstrings_and_comments():
    text = '''"""See `plan.py`, plam.py."""\nx = "plem.py"  # as `render/llvm.py` says\n'''
    assert missing_modules(text) == ["plam.py", "render/llvm.py"]
    text = '"""As `eager._learn_rules` and `eager.learn_rules`."""'
    assert missing_modules(text) == ["eager.learn_rules"]


def test_the_tables_of_kinds_name_the_fields_of_each():
    section = PAGE.read_text(encoding="utf-8").split("### Kinds")[1].split("\n## ")[0]
    rows = {
        name.strip(" `"): row
        for row in re.findall(r"^\|.*\|$", section, re.MULTILINE)
        for name in row.split("|")[1].split(",")
    }
    decorated = {op.kind.name: op.kind for op in REGISTRY.values()}
    assert len(decorated) > 12
    # Tape lines and messages name these kinds otherwise than the decorators of bodies.
    decorators = {"assign": "assigning", "attention": "attending"}
    for name, kind in decorated.items():
        name = decorators.get(name, name)
        own = {*kind.required, *kind.optional} - {"ref", *Kind.optional}
        assert own <= set(re.findall(r"\w+", rows[name])), name
