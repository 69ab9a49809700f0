"""The names of PyTorch's that a program uses, found in its text without running it."""

from __future__ import annotations

import ast
import io
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from contraflow.names import OF_TENSORS


class NameUse(NamedTuple):
    """A name of PyTorch's in a program."""

    file: str
    line: int
    path: str  # without `torch.`


def uses(text: str, file: str) -> Iterator[NameUse]:
    """The names of PyTorch's that a program uses, by its imports and the attributes of those."""
    tree = ast.parse(text, file)
    known: dict[str, str] = {}  # names of the program, and the paths of PyTorch's they stand for
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "torch":
                    known[alias.asname or "torch"] = alias.name if alias.asname else "torch"
                    if alias.name != "torch":
                        yield NameUse(file, node.lineno, alias.name.removeprefix("torch."))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch":
            if node.level:
                continue
            for alias in node.names:
                path = f"{node.module}.{alias.name}"
                if alias.name != "*":
                    known[alias.asname or alias.name] = path
                    yield NameUse(file, node.lineno, path.removeprefix("torch."))
    inner: set[int] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or id(node) in inner:
            continue
        parts, at = [node.attr], node.value
        while isinstance(at, ast.Attribute):
            inner.add(id(at))
            parts.append(at.attr)
            at = at.value
        if isinstance(at, ast.Name) and at.id in known:
            path = ".".join([known[at.id], *reversed(parts)])
            yield NameUse(file, node.lineno, path.removeprefix("torch."))


# Names that Python's own types and arrays have too: most uses are of those, not of tensors.
_OF_OTHERS = frozenset(
    name
    for kind in (dict, str, slice, complex, Path, io.TextIOWrapper, np.ndarray, np.dtype)
    for name in dir(kind)
)
_ABSENT_METHODS = frozenset(OF_TENSORS) - _OF_OTHERS


def method_uses(text: str, file: str) -> Iterator[NameUse]:
    """The attributes that tensors have in PyTorch and not here, of anything that may be a tensor.

    Attributes of modules are left out, and names that the program itself defines.
    """
    tree = ast.parse(text, file)
    modules, defined = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            defined.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            defined.add(node.target.id)  # a field of a dataclass
        elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            defined.add(node.attr)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in _ABSENT_METHODS - defined:
            at: ast.expr = node.value
            while isinstance(at, ast.Attribute):
                at = at.value
            if not (isinstance(at, ast.Name) and at.id in modules):
                yield NameUse(file, node.lineno, f"Tensor.{node.attr}")
