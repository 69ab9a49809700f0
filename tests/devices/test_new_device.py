"""What a new device touches: the list in docs/architecture.md is that of the code.

`python -m tests.devices.test_new_device` prints the table of members.
"""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import contraflow
from contraflow import devices
from contraflow.devices import DeviceInterface, MemoryExchange, ProgramInterface

PACKAGE = Path(contraflow.__file__).parent
PAGE = PACKAGE.parents[1] / "docs" / "architecture.md"
SAMPLE = "webgpu"  # the device whose places are looked for
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


def names_device(path: Path) -> bool:
    """Whether a module has the device in a text or a name, or imports its renderer. Docstrings and
    comments do not count."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    return any(speaks(node) for node in nodes if id(node) not in docstrings)


def speaks(node: ast.AST) -> bool:
    """Whether a node of a module's tree names the device."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and SAMPLE in node.value.lower()
    if isinstance(node, ast.ImportFrom):
        return "wgsl" in (node.module or "") or any(a.name == "wgsl" for a in node.names)
    if isinstance(node, (ast.Name, ast.Attribute)):
        name = node.id if isinstance(node, ast.Name) else node.attr
        return SAMPLE in name.lower()
    return False


def test_every_member_of_an_interface_is_in_the_list() -> None:
    for interface in INTERFACES:
        assert set(interface.__annotations__) <= set(members(interface))
    assert table() in section(), f"docs/architecture.md needs these rows:\n{table()}"


def test_the_list_names_the_places_that_name_a_device() -> None:
    folder = PACKAGE / "devices" / SAMPLE
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if folder not in path.parents and names_device(path)
    }
    listed = set(re.findall(r"^\| `([\w/.]+)` \|", section(), re.MULTILINE))
    listed = {name for name in listed if not name.partition(".")[0].endswith(("face", "Exchange"))}
    files = {name for name in listed if name.endswith(".py")}
    assert files == found - {"__init__.py"} | {"render/clike/wgsl.py", f"{SAMPLE}.py"}
    assert listed - files == {f"devices/{SAMPLE}"}
    assert all((PACKAGE / name).exists() for name in listed)


def test_devices_are_known_by_the_same_names() -> None:
    assert list(devices.names.TYPES) == list(devices._openers)


if __name__ == "__main__":
    print(table())
