"""What a new device touches: the list in docs/architecture.md is that of the code.

`python -m tests.devices.test_new_device` prints the table of members.
"""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

import contraflow
from contraflow import devices
from contraflow.devices import DeviceInterface, MemoryExchange, ProgramInterface

PACKAGE = Path(contraflow.__file__).parent
PAGE = PACKAGE.parents[1] / "docs" / "architecture.md"
# The devices whose places are looked for, by their names and those of the languages of kernels.
SAMPLES = {"webgpu": ("webgpu", "wgsl"), "cuda": ("cuda",)}
INTERFACES = (DeviceInterface, ProgramInterface, MemoryExchange)


def members(interface: type) -> dict[str, str]:
    """The members of an interface, each with the first sentence about it."""
    found = {}
    for name, comment in re.findall(
        r"^    (\w+): [^#\n]+# (.+)$", inspect.getsource(interface), re.MULTILINE
    ):
        found[name] = f"{comment[0].upper()}{comment[1:]}."
    for name, value in vars(interface).items():
        if inspect.isfunction(value) and not name.startswith("_"):
            text = " ".join((inspect.getdoc(value) or "").split())
            found[name] = re.split(r"(?<=\.) |: ", text)[0].rstrip(".") + "."
    return found


def table() -> str:
    """The members as the docs show them."""
    return "\n".join(
        f"| `{interface.__name__}.{name}` | {text} |"
        for interface in INTERFACES
        for name, text in members(interface).items()
    )


def section() -> str:
    page = PAGE.read_text(encoding="utf-8")
    return page.partition("### What a new device touches")[2].partition("\n## ")[0]


def names_device(path: Path, words: tuple[str, ...]) -> bool:
    """Whether a module has a device or the language of its kernels in a text, a name or an import.
    Docstrings and comments do not count."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    found = (named(node) for node in nodes if id(node) not in docstrings)
    return any(word in text.lower() for text in found for word in words)


def named(node: ast.AST) -> str:
    """What a node of a module's tree names, or the text that it is."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.ImportFrom(module=module, names=names):
            return " ".join([module or "", *(a.name for a in names)])
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
            return name
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.keyword(arg=str(name)):
            return name
    return ""


def modules_that_name(device: str) -> set[str]:
    """The modules outside of the folder of a device that name it."""
    folder = PACKAGE / "devices" / device
    return {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if folder not in path.parents and names_device(path, SAMPLES[device])
    }


def listed(device: str) -> set[str]:
    """The paths that the table of a device names."""
    rows = section().partition(f"\n| {device} | what is written there |\n")[2].partition("\n\n")[0]
    return set(re.findall(r"^\| `([\w/.]+)` \|", rows, re.MULTILINE))


def test_every_member_of_an_interface_is_in_the_list() -> None:
    for interface in INTERFACES:
        assert set(interface.__annotations__) <= set(members(interface))
    assert table() in section(), f"docs/architecture.md needs these rows:\n{table()}"


@pytest.mark.parametrize("device", SAMPLES)
def test_the_list_names_the_places_that_name_a_device(device: str) -> None:
    table = listed(device)
    folders = {name for name in table if not name.endswith(".py")}
    found = {
        name
        for name in modules_that_name(device) - {"__init__.py"}
        if not name.startswith(tuple(f"{folder}/" for folder in folders))
    }
    assert table - folders == found
    assert f"devices/{device}" in folders
    assert all((PACKAGE / name).exists() for name in table)


@pytest.mark.parametrize(
    "text",
    [
        "x = 'on webgpu:0'", "import_ = webgpu_kernels", "f(wgsl='abs({})')", "_WGSL_NAN = 1",
        "from contraflow.render.clike import wgsl", "def is_webgpu(x): ...", "x.webgpu()",
    ],
)  # fmt: skip
def test_a_name_of_a_device_is_found(text: str, tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(f'"""About webgpu."""\n# and wgsl\n{text}\n')
    assert names_device(module, SAMPLES["webgpu"])
    module.write_text('"""About webgpu."""\n# and wgsl\nx = 1\n')
    assert not names_device(module, SAMPLES["webgpu"])


def test_devices_are_known_by_the_same_names() -> None:
    assert list(devices.names.TYPES) == list(devices._openers)


if __name__ == "__main__":
    print(table())
