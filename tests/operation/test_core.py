"""The ops that layers below `ops/` apply (operation/core.py): each exists, and each is applied."""

from __future__ import annotations

import ast
from pathlib import Path

import contraflow
from contraflow.operation import core
from contraflow.operation.op import REGISTRY

SOURCE = Path(contraflow.__file__).parent
BELOW = ("compiler", "render", "devices", "tensors", "graph", "contexts", "runtime")


def trees() -> dict[str, ast.Module]:
    """The modules of the layers between the declarations of ops and the ops."""
    paths = [path for folder in BELOW for path in (SOURCE / folder).rglob("*.py")]
    return {str(path): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def test_each_name_is_the_op():
    assert core.NAMES
    assert {name: getattr(core, name) for name in core.NAMES} == {
        name: REGISTRY[name] for name in core.NAMES
    }


def test_each_op_is_applied_by_a_layer_below():
    used = {
        node.attr
        for tree in trees().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "core"
    }
    assert used == core.NAMES


def looks_up_by_name(tree: ast.Module) -> bool:
    """Whether a module has `REGISTRY["name"]`."""
    return any(
        isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == "REGISTRY"
        and isinstance(node.slice, ast.Constant)
        for node in ast.walk(tree)
    )


def test_no_layer_below_looks_up_an_op_by_name():
    assert looks_up_by_name(ast.parse("zeros = REGISTRY['full'](shape, 0.0)"))
    assert [path for path, tree in trees().items() if looks_up_by_name(tree)] == []
