"""The order of the package: who may import whom, checked on the source text.

A module imports from its own layer or a lower one, at the top of the file. A new module fails here
until it stands in LAYERS. The checker is a function of a module's name and text, so each rule is
also shown to catch what it forbids.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = "contraflow"
SOURCE = Path(__file__).resolve().parent.parent / "src" / PACKAGE

# "name.*" is a package with everything below it.
LAYERS = (
    ("vocabulary", "errors dtypes device shapes config printing threads"),
    (
        "meaning",
        "scalar mathematics trigonometry transcendental philox spec dispatch promotion rules "
        "samples op kinds reference",
    ),
    (
        "programs",
        "tape passes spans kernel folds pattern layouts sequence lower fuse arena plan interpret",
    ),
    ("machines", "render.* devices.*"),
    (
        "tensors",
        "memory hostscalar symbol storage hooks structure convert node engine parallel tensor "
        "applied retrace forward run batch record random executable routine native eager",
    ),
    ("operations", "ops.*"),
    ("transformations", "autograd.* func capture.* compile"),
    ("library", "nn.* optim.* about linalg special data.* amp.* serialize testing profiler stubs"),
)

# These stand above every layer: they may import anything, and nothing below imports them.
TOP = ("__init__", "__main__")

# Folders beside the package that use it, and that it never uses.
USERS = ("benchmarks", "examples", "tests")

# An optional dependency and the one folder that may import it.
OPTIONAL = {
    "llvmlite": "devices.cpu",
    "wgpu": "devices.webgpu",
    "cuda": "devices.cuda",
    "nvmath": "devices.cuda",
    "cudnn": "devices.cuda",
}

ENVIRONMENT = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"}
ENVIRONMENT_READER = "config"


class Violation(NamedTuple):
    """What is wrong, and where."""

    module: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{PACKAGE}.{self.module}, line {self.line}: {self.what}"


class Import(NamedTuple):
    """One imported module, by its full name."""

    line: int
    target: str
    in_function: bool
    for_types: bool


def within(module: str, package: str) -> bool:
    """Whether `module` is `package` or lies below it."""
    return module == package or module.startswith(package + ".")


def layer_of(module: str) -> int | None:
    """The layer of a module named relative to the package; None if it has no place."""
    if module in TOP:
        return len(LAYERS)
    for number, (_, members) in enumerate(LAYERS):
        for member in members.split():
            if module == member or (member.endswith(".*") and within(module, member[:-2])):
                return number
    return None


def title(layer: int) -> str:
    return "the top" if layer == len(LAYERS) else f"layer {layer} ({LAYERS[layer][0]})"


def is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def from_targets(node: ast.ImportFrom, module: str, is_package: bool) -> Iterator[str]:
    """The modules that `from a import b` reaches: a.b where that may be a module, else a."""
    base = node.module or ""
    if node.level:
        folder = [PACKAGE, *module.split(".")]
        if module == "__init__":
            folder = [PACKAGE]
        elif not is_package:
            folder = folder[:-1]
        folder = folder[: len(folder) - node.level + 1]
        base = ".".join([*folder, base] if base else folder)
    for name in node.names:
        if base == PACKAGE and layer_of(name.name) is not None:
            yield f"{base}.{name.name}"
        else:
            yield base


def on_demand(node: ast.Call) -> str | None:
    """The module that import_module("a.b") or __import__("a.b") names, "" if it is computed."""
    name = getattr(node.func, "attr", getattr(node.func, "id", None))
    if name not in ("import_module", "__import__"):
        return None
    first = node.args[0] if node.args else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""


def imports(tree: ast.Module, module: str, is_package: bool) -> Iterator[Import]:
    def walk(node: ast.AST, in_function: bool, for_types: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            for name in node.names:
                yield Import(node.lineno, name.name, in_function, for_types)
        elif isinstance(node, ast.ImportFrom):
            for target in from_targets(node, module, is_package):
                yield Import(node.lineno, target, in_function, for_types)
        elif isinstance(node, ast.Call) and (target := on_demand(node)):
            # Loading on demand is what importlib is for, so it counts as an import at the top.
            yield Import(node.lineno, target, getattr(node.func, "id", "") == "__import__", False)
        if isinstance(node, ast.If) and is_type_checking(node.test):
            for child in node.body:
                yield from walk(child, in_function, True)
            for child in node.orelse:
                yield from walk(child, in_function, for_types)
            return
        inside = in_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for child in ast.iter_child_nodes(node):
            yield from walk(child, inside, for_types)

    return walk(tree, False, False)


def check_placed(module: str) -> Iterator[Violation]:
    if layer_of(module) is None:
        yield Violation(module, 1, "stands in no layer; give it a place in tests/test_layers.py")


def check_import(module: str, found: Import) -> Iterator[Violation]:
    def violation(what: str) -> Violation:
        return Violation(module, found.line, what)

    if found.in_function:
        yield violation(f"imports {found.target} inside a function")

    root = found.target.split(".")[0]
    if root in OPTIONAL and not within(module, OPTIONAL[root]):
        yield violation(f"imports {root}, which only {OPTIONAL[root]} may")
    if root in USERS:
        yield violation(f"imports {root}, which is no part of the package")

    if root == PACKAGE and not found.for_types:
        target = found.target.removeprefix(PACKAGE).removeprefix(".") or "__init__"
        own, other = layer_of(module), layer_of(target)
        if other is None:
            yield violation(f"imports {found.target}, which stands in no layer")
        elif own is not None and other > own:
            yield violation(f"{title(own)} imports upward: {found.target} is in {title(other)}")


def check_environment(module: str, tree: ast.Module) -> Iterator[Violation]:
    if module == ENVIRONMENT_READER:
        return
    names = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == "os"
    }
    for node in ast.walk(tree):
        used: set[str] = set()
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            used = {node.attr} if node.value.id in names else set()
        elif isinstance(node, ast.ImportFrom) and node.module == "os":
            used = {alias.name for alias in node.names}
        for name in sorted(used & ENVIRONMENT):
            yield Violation(module, node.lineno, f"uses os.{name}; only config.py may")


def check(module: str, text: str, is_package: bool = False) -> list[Violation]:
    """Every violation in a module, given its name relative to the package and its text."""
    tree = ast.parse(text)
    found = list(check_placed(module))
    for one in imports(tree, module, is_package):
        found.extend(check_import(module, one))
    found.extend(check_environment(module, tree))
    return sorted(set(found), key=lambda violation: (violation.line, violation.what))


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def test_package_keeps_its_layers():
    files = sorted(SOURCE.rglob("*.py"))
    assert files, f"no source found in {SOURCE}"
    found = [
        violation
        for path in files
        for violation in check(
            module_name(path), path.read_text(encoding="utf-8"), path.name == "__init__.py"
        )
    ]
    assert not found, "\n" + "\n".join(map(str, found))


def test_import_loads_no_optional_dependency():
    program = f"import sys, {PACKAGE}; print(*sorted({set(OPTIONAL)!r} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=SOURCE.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


def test_table_places_each_module_once():
    members = [member for _, layer in LAYERS for member in layer.split()]
    assert len(members) == len(set(members))
    assert [layer_of("errors"), layer_of("render"), layer_of("devices.cpu.pool")] == [0, 3, 3]
    assert layer_of("rendering") is None
    assert layer_of("errors.more") is None


def test_table_names_what_exists():
    for member in (member for _, layer in LAYERS for member in layer.split()):
        path = SOURCE / member.removesuffix(".*").replace(".", "/")
        assert path.is_dir() if member.endswith(".*") else path.with_suffix(".py").is_file(), member


def test_table_stands_in_the_docs():
    page = (SOURCE.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    for number, (name, members) in enumerate(LAYERS):
        assert f"| {number} {name} | `{members.replace('.*', '/')}` |" in page


ALLOWED = {
    "own layer": ("shapes", "from contraflow.errors import describe"),
    "lower layer": ("nn.linear", "from contraflow import ops, tensor\nimport contraflow.errors"),
    "render reads plan and kernel": ("render.llvm", "from contraflow import kernel, plan"),
    "devices read interpret": ("devices.cpu.device", "from contraflow.interpret import run"),
    "relative import": ("ops.reduce", "from . import view\nfrom ..errors import describe"),
    "the top imports anything": ("__init__", "from contraflow.nn import Linear\nfrom . import nn"),
    "upward for types": (
        "op",
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from contraflow.tensor import Tensor",
    ),
    "optional dependency at home": ("devices.cuda.blas", "import nvmath\nfrom cuda import core"),
    "optional dependency on demand": (
        "devices.webgpu",
        "import importlib\ndef load():\n    return importlib.import_module('wgpu')",
    ),
    "computed name on demand": (
        "devices",
        "import importlib\n"
        "def load(name):\n    return importlib.import_module(f'contraflow.devices.{name}')",
    ),
    "config reads the environment": ("config", "import os\nthreads = os.environ.get('THREADS')"),
    "os for other things": ("storage", "import os\npage = os.sysconf('SC_PAGE_SIZE')"),
    "another environ": ("storage", "def first(request):\n    return request.environ"),
}


@pytest.mark.parametrize(("module", "text"), ALLOWED.values(), ids=ALLOWED.keys())
def test_allowed(module, text):
    assert check(module, text) == []


FORBIDDEN = {
    "upward": (
        "kernel",
        "import numpy\nfrom contraflow.tensor import Tensor",
        "contraflow.kernel, line 2: layer 2 (programs) imports upward: "
        "contraflow.tensor is in layer 4 (tensors)",
    ),
    "upward by module name": (
        "op",
        "from contraflow import tape",
        "contraflow.op, line 1: layer 1 (meaning) imports upward: "
        "contraflow.tape is in layer 2 (programs)",
    ),
    "upward by plain import": (
        "errors",
        "import contraflow.op as op",
        "contraflow.errors, line 1: layer 0 (vocabulary) imports upward: "
        "contraflow.op is in layer 1 (meaning)",
    ),
    "upward by relative import": (
        "ops.reduce",
        "from ..autograd import grad",
        "contraflow.ops.reduce, line 1: layer 5 (operations) imports upward: "
        "contraflow.autograd is in layer 6 (transformations)",
    ),
    "upward in the else of TYPE_CHECKING": (
        "op",
        "import typing\nif typing.TYPE_CHECKING:\n    pass\nelse:\n    from contraflow import tape",
        "contraflow.op, line 5: layer 1 (meaning) imports upward: "
        "contraflow.tape is in layer 2 (programs)",
    ),
    "upward in try": (
        "op",
        "try:\n    from contraflow import tape\nexcept ImportError:\n    pass",
        "contraflow.op, line 2: layer 1 (meaning) imports upward: "
        "contraflow.tape is in layer 2 (programs)",
    ),
    "upward on demand": (
        "op",
        "from importlib import import_module\n"
        "def later():\n    import_module('contraflow.compile')",
        "contraflow.op, line 3: layer 1 (meaning) imports upward: "
        "contraflow.compile is in layer 6 (transformations)",
    ),
    "the package from within": (
        "nn.linear",
        "import contraflow as cf",
        "contraflow.nn.linear, line 1: layer 7 (library) imports upward: contraflow is in the top",
    ),
    "a public name from within": (
        "nn.linear",
        "from contraflow import Tensor",
        "contraflow.nn.linear, line 1: layer 7 (library) imports upward: contraflow is in the top",
    ),
    "inside a function": (
        "engine",
        "def run():\n    import threading",
        "contraflow.engine, line 2: imports threading inside a function",
    ),
    "inside a method": (
        "engine",
        "class Engine:\n    async def run(self):\n        from contraflow import node",
        "contraflow.engine, line 3: imports contraflow.node inside a function",
    ),
    "by __import__": (
        "engine",
        "threading = __import__('threading')",
        "contraflow.engine, line 1: imports threading inside a function",
    ),
    "optional dependency in another device": (
        "devices.cuda.device",
        "import wgpu.backends",
        "contraflow.devices.cuda.device, line 1: imports wgpu, which only devices.webgpu may",
    ),
    "optional dependency in a renderer": (
        "render.llvm",
        "from llvmlite import binding",
        "contraflow.render.llvm, line 1: imports llvmlite, which only devices.cpu may",
    ),
    "optional dependency on demand elsewhere": (
        "tensor",
        "import importlib\ndef load():\n    return importlib.import_module('cuda.core')",
        "contraflow.tensor, line 3: imports cuda, which only devices.cuda may",
    ),
    "a user of the package": (
        "testing",
        "from benchmarks import run",
        "contraflow.testing, line 1: imports benchmarks, which is no part of the package",
    ),
    "os.environ": (
        "storage",
        "import os\nlimit = os.environ['LIMIT']",
        "contraflow.storage, line 2: uses os.environ; only config.py may",
    ),
    "os.getenv under another name": (
        "storage",
        "import os as system\nlimit = system.getenv('LIMIT')",
        "contraflow.storage, line 2: uses os.getenv; only config.py may",
    ),
    "environ by name": (
        "__init__",
        "from os import environ, path",
        "contraflow.__init__, line 1: uses os.environ; only config.py may",
    ),
    "a module without a place": (
        "utilities",
        "import math",
        "contraflow.utilities, line 1: stands in no layer; give it a place in tests/test_layers.py",
    ),
    "import of a module without a place": (
        "tensor",
        "import contraflow.utilities",
        "contraflow.tensor, line 1: imports contraflow.utilities, which stands in no layer",
    ),
}


@pytest.mark.parametrize(("module", "text", "message"), FORBIDDEN.values(), ids=FORBIDDEN.keys())
def test_forbidden(module, text, message):
    assert [str(violation) for violation in check(module, text)] == [message]


def test_relative_import_in_a_package_starts_at_the_package():
    text = "from .engine import run"
    assert check("autograd", text, is_package=True) == []
    assert [violation.what for violation in check("tape", text, is_package=False)] == [
        "layer 2 (programs) imports upward: contraflow.engine is in layer 4 (tensors)"
    ]
