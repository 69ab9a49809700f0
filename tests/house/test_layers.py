"""The order of the package: who may import whom, checked on the source text.

A module imports from its own layer or a lower one, at the top of the file. Layers are folders, so a
new file has its layer by where it lies. The checker is a function of a module's name and text, so
each rule is also shown to catch what it forbids.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = "contraflow"
SOURCE = Path(__file__).resolve().parents[2] / "src" / PACKAGE

# From the lowest: modules and folders. Whatever is not named here is the library, above them all.
LAYERS = (
    "gil absent errors names config thresholds dtypes shapes spec collector threads",
    "expressions",
    "operation",
    "compiler",
    "render",
    "devices",
    "tensors",
    "graph",
    "contexts",
    "runtime",
    "ops",
    "autograd capture func",
)

# These stand above every layer: they may import anything, and nothing below imports them.
TOP = ("__init__", "__main__", "as_torch", "stubs")

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


def layer_of(module: str) -> int:
    """The layer of a module named relative to the package."""
    if module in TOP:
        return len(LAYERS) + 1
    first = module.split(".")[0]
    return next((i for i, names in enumerate(LAYERS) if first in names.split()), len(LAYERS))


def title(layer: int) -> str:
    if layer >= len(LAYERS):
        return "the library" if layer == len(LAYERS) else "the top"
    return f"layer {layer} ({LAYERS[layer]})"


def is_module(name: str) -> bool:
    """Whether a name of the package is one of its modules or folders."""
    return (SOURCE / name).is_dir() or (SOURCE / f"{name}.py").is_file()


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
        if base == PACKAGE and is_module(name.name):
            yield f"{base}.{name.name}"
        else:
            yield base


def on_demand(node: ast.Call) -> str | None:
    """The module that import_module("a.b"), __import__("a.b") or threads.imported("a.b") names,
    "" if it is computed."""
    name = getattr(node.func, "attr", getattr(node.func, "id", None))
    if name not in ("import_module", "__import__", "imported"):
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


def check_import(module: str, found: Import) -> Iterator[Violation]:
    def violation(what: str) -> Violation:
        return Violation(module, found.line, what)

    if found.in_function:
        yield violation(f"imports {found.target} inside a function")

    root = found.target.split(".")[0]
    if root in OPTIONAL and not within(module, OPTIONAL[root]):
        yield violation(f"imports {root}, which only {OPTIONAL[root]} may")
    if root in USERS:
        yield violation(f"imports {root}, which is not part of the package")

    if root == PACKAGE and not found.for_types:
        target = found.target.removeprefix(PACKAGE).removeprefix(".") or "__init__"
        own, other = layer_of(module), layer_of(target)
        if other > own:
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
    found: list[Violation] = []
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


# Modules above devices/ that ask the CPU for memory, beside the way of the other devices. The list
# may only become shorter; docs/architecture.md names them too.
KNOW_THE_CPU = {
    "graph.saved",
    "ops.creation.create",
    "runtime.array_cotangents",
    "runtime.eager",
    "runtime.routine",
    "serialize.files",
    "tensors.convert",
    "tensors.storage",
    "tensors.tensor",
}


def imports_the_cpu(module: str, text: str, is_package: bool = False) -> bool:
    """Whether a module imports devices/cpu or a module of it."""
    tree = ast.parse(text)
    folder = f"{PACKAGE}.devices"
    named = any(
        isinstance(node, ast.ImportFrom)
        and node.module == folder
        and any(alias.name == "cpu" for alias in node.names)
        for node in ast.walk(tree)
    )
    found = imports(tree, module, is_package)
    return named or any(within(one.target, f"{folder}.cpu") for one in found)


def test_no_further_module_knows_the_cpu():
    found = {
        module_name(path)
        for path in SOURCE.rglob("*.py")
        if not within(module_name(path), "devices")
        and imports_the_cpu(
            module_name(path), path.read_text(encoding="utf-8"), path.name == "__init__.py"
        )
    }
    assert found == KNOW_THE_CPU
    page = (SOURCE.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    (listed,) = re.findall(r"the importers of `devices\.cpu\.memory`.*?may only shrink", page, re.S)
    assert set(re.findall(r"`([\w/]+)\.py`", listed)) == {
        *(module.replace(".", "/") for module in KNOW_THE_CPU),
        "tests/house/test_layers",
    }


def test_the_graph_does_not_know_numpy():
    """Cotangents that are arrays are the business of the CPU's eager context, in runtime/."""
    for path in (SOURCE / "graph").glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found = imports(tree, module_name(path), path.name == "__init__.py")
        assert not [one for one in found if within(one.target, "numpy")], path


def sets_a_slot(text: str) -> bool:
    """Whether a module stores into the `_slot` of a tensor, which holds its gradient."""
    return any(
        isinstance(node, ast.Attribute) and node.attr == "_slot" and isinstance(node.ctx, ast.Store)
        for node in ast.walk(ast.parse(text))
    )


def test_one_module_sets_the_slot_of_a_gradient():
    """It gives notice to programs whose blocks are looked at or replaced."""
    paths = [path for path in SOURCE.rglob("*.py") if sets_a_slot(path.read_text(encoding="utf-8"))]
    assert [module_name(path) for path in paths] == ["tensors.grad_slot"]


@pytest.mark.parametrize(
    "text",
    [
        "from contraflow.devices.cpu import memory",
        "from contraflow.devices.cpu.memory import empty",
        "from contraflow.devices import cpu",
        "import contraflow.devices.cpu.pool",
        "threads.imported('contraflow.devices.cpu.jit')",
    ],
)
def test_importers_of_the_cpu_are_found(text):
    assert imports_the_cpu("nn.linear", text)
    assert not imports_the_cpu("nn.linear", text.replace("cpu", "names"))


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


# Beside what NumPy imports: each takes longer than a module of ours.
LATER = {"dataclasses", "fractions", "llvmlite", "ml_dtypes", "pathlib", "pkgutil", "string"}


def test_import_loads_no_module_that_takes_long():
    program = (
        f"import sys, numpy; before = set(sys.modules); import {PACKAGE}; "
        f"print(*sorted({LATER!r} & set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=SOURCE.parent, capture_output=True, text=True
    )
    assert (done.stderr, done.stdout.split()) == ("", [])


def test_table_names_what_exists():
    names = [name for layer in LAYERS for name in layer.split()]
    assert len(names) == len(set(names))
    assert all(map(is_module, names))


def described(name: str) -> str:
    """The first sentence of a module's or a folder's text."""
    folder = SOURCE / name
    file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return " ".join(text.split("\n\n")[0].split())


def table() -> str:
    """The layers as architecture.md shows them."""
    library = [
        path.stem
        for path in sorted(SOURCE.iterdir())
        if (path / "__init__.py").is_file() or path.suffix == ".py"
        if layer_of(path.stem) == len(LAYERS)
    ]
    rows = ["| layer | where | what |", "| --- | --- | --- |"]
    for number, names in enumerate([*LAYERS, " ".join(library), " ".join(TOP)]):
        for name in names.split():
            where = f"{name}/" if (SOURCE / name).is_dir() else f"{name}.py"
            rows.append(f"| {number} | `{where}` | {described(name)} |")
    return "\n".join(rows)


def test_table_stands_in_the_docs():
    page = (SOURCE.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert table() in page, f"docs/architecture.md needs this table:\n{table()}"


ALLOWED = {
    "own layer": ("shapes", "from contraflow.errors import describe"),
    "lower layer": ("nn.linear", "from contraflow import ops, tensors\nimport contraflow.errors"),
    "render reads plan and kernel": (
        "render.llvm.loops",
        "from contraflow.compiler import kernel, plan",
    ),
    "devices read interpret": (
        "devices.cpu.device",
        "from contraflow.compiler.interpret import run",
    ),
    "relative import": ("ops.shape.parts", "from . import view\nfrom ...errors import describe"),
    "the top imports anything": ("__init__", "from contraflow.nn import Linear\nfrom . import nn"),
    "upward for types": (
        "operation.op",
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from contraflow.tensors.tensor import Tensor",
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
    "lower layer by threads.imported": (
        "runtime.recorded",
        "from contraflow import threads\n"
        "def later():\n    return threads.imported('contraflow.contexts.record').Recorder",
    ),
    "config reads the environment": ("config", "import os\nthreads = os.environ.get('THREADS')"),
    "os for other things": ("tensors.storage", "import os\npage = os.sysconf('SC_PAGE_SIZE')"),
    "another environ": ("tensors.storage", "def first(request):\n    return request.environ"),
}


@pytest.mark.parametrize(("module", "text"), ALLOWED.values(), ids=ALLOWED.keys())
def test_allowed(module, text):
    assert check(module, text) == []


FORBIDDEN = {
    "upward": (
        "compiler.kernel",
        "import numpy\nfrom contraflow.tensors.tensor import Tensor",
        "contraflow.compiler.kernel, line 2: layer 3 (compiler) imports upward: "
        "contraflow.tensors.tensor is in layer 6 (tensors)",
    ),
    "upward by module name": (
        "operation.op",
        "from contraflow import compiler",
        "contraflow.operation.op, line 1: layer 2 (operation) imports upward: "
        "contraflow.compiler is in layer 3 (compiler)",
    ),
    "upward by plain import": (
        "errors",
        "import contraflow.operation.op as op",
        "contraflow.errors, line 1: layer 0 (gil absent errors names config thresholds dtypes "
        "shapes spec collector threads) imports upward: contraflow.operation.op is in layer 2 "
        "(operation)",
    ),
    "upward by relative import": (
        "ops.custom",
        "from ..autograd import grad",
        "contraflow.ops.custom, line 1: layer 10 (ops) imports upward: "
        "contraflow.autograd is in layer 11 (autograd capture func)",
    ),
    "upward in the else of TYPE_CHECKING": (
        "operation.op",
        "import typing\nif typing.TYPE_CHECKING:\n    pass\n"
        "else:\n    from contraflow import compiler",
        "contraflow.operation.op, line 5: layer 2 (operation) imports upward: "
        "contraflow.compiler is in layer 3 (compiler)",
    ),
    "upward in try": (
        "operation.op",
        "try:\n    from contraflow import compiler\nexcept ImportError:\n    pass",
        "contraflow.operation.op, line 2: layer 2 (operation) imports upward: "
        "contraflow.compiler is in layer 3 (compiler)",
    ),
    "upward on demand": (
        "operation.op",
        "from importlib import import_module\n"
        "def later():\n    import_module('contraflow.capture.compile')",
        "contraflow.operation.op, line 3: layer 2 (operation) imports upward: "
        "contraflow.capture.compile is in layer 11 (autograd capture func)",
    ),
    "upward by threads.imported": (
        "contexts.record",
        "from contraflow import threads\n"
        "def later():\n    return threads.imported('contraflow.runtime.executable').Native",
        "contraflow.contexts.record, line 3: layer 8 (contexts) imports upward: "
        "contraflow.runtime.executable is in layer 9 (runtime)",
    ),
    "the package from within": (
        "nn.linear",
        "import contraflow as cf",
        "contraflow.nn.linear, line 1: the library imports upward: contraflow is in the top",
    ),
    "a public name from within": (
        "nn.linear",
        "from contraflow import Tensor",
        "contraflow.nn.linear, line 1: the library imports upward: contraflow is in the top",
    ),
    "inside a function": (
        "graph.engine",
        "def run():\n    import threading",
        "contraflow.graph.engine, line 2: imports threading inside a function",
    ),
    "inside a method": (
        "graph.engine",
        "class Engine:\n    async def run(self):\n        from contraflow.tensors import node",
        "contraflow.graph.engine, line 3: imports contraflow.tensors inside a function",
    ),
    "by __import__": (
        "graph.engine",
        "threading = __import__('threading')",
        "contraflow.graph.engine, line 1: imports threading inside a function",
    ),
    "optional dependency in another device": (
        "devices.cuda.device",
        "import wgpu.backends",
        "contraflow.devices.cuda.device, line 1: imports wgpu, which only devices.webgpu may",
    ),
    "optional dependency in a renderer": (
        "render.llvm.loops",
        "from llvmlite import binding",
        "contraflow.render.llvm.loops, line 1: imports llvmlite, which only devices.cpu may",
    ),
    "optional dependency on demand elsewhere": (
        "tensors.tensor",
        "import importlib\ndef load():\n    return importlib.import_module('cuda.core')",
        "contraflow.tensors.tensor, line 3: imports cuda, which only devices.cuda may",
    ),
    "a user of the package": (
        "testing",
        "from benchmarks import run",
        "contraflow.testing, line 1: imports benchmarks, which is not part of the package",
    ),
    "os.environ": (
        "tensors.storage",
        "import os\nlimit = os.environ['LIMIT']",
        "contraflow.tensors.storage, line 2: uses os.environ; only config.py may",
    ),
    "os.getenv under another name": (
        "tensors.storage",
        "import os as system\nlimit = system.getenv('LIMIT')",
        "contraflow.tensors.storage, line 2: uses os.getenv; only config.py may",
    ),
    "environ by name": (
        "__init__",
        "from os import environ, path",
        "contraflow.__init__, line 1: uses os.environ; only config.py may",
    ),
}


@pytest.mark.parametrize(("module", "text", "message"), FORBIDDEN.values(), ids=FORBIDDEN.keys())
def test_forbidden(module, text, message):
    assert [str(violation) for violation in check(module, text)] == [message]


def test_relative_import_in_a_package_starts_at_the_package():
    text = "from .capture import compile"
    assert check("hub", text, is_package=False) == []
    assert [violation.what for violation in check("tape", text, is_package=True)] == []
    assert [
        violation.what for violation in check("ops", "from ..capture import compile", True)
    ] == [
        "layer 10 (ops) imports upward: contraflow.capture is in layer 11 (autograd capture func)"
    ]


def test_what_is_not_named_is_the_library():
    assert check("new", "from contraflow.nn import Linear") == []
    assert [str(violation) for violation in check("ops.custom", "import contraflow.new")] == [
        "contraflow.ops.custom, line 1: layer 10 (ops) imports upward: "
        "contraflow.new is in the library"
    ]
