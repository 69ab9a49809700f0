"""Bundles: the programs of compiled functions as files that `contraflow.js` runs in a browser.

    plan.json       buffers, host scalars, and each program: its tensors, its dispatches with their
                    bindings and arguments, the arithmetic among its host scalars
    kernels.wgsl    the texts of all kernels, in the order of the plan
    weights.bin     the contents of state and constants
    contraflow.js   the module that runs them; its head says how it is used

A program of a bundle is one that a call was recorded as, on webgpu. Its state lives on in the
bundle, and programs that were exported together share it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from contraflow.capture.state.trees import OBJECT
from contraflow.capture.web.names import StateNames, roots_of
from contraflow.capture.web.numbers import json_number
from contraflow.capture.web.program import WORD, ExportedFunction, ProgramWriter, tensor_entry
from contraflow.compiler.plan import KernelStep
from contraflow.dtypes import DType, bool_, int64
from contraflow.render.clike import wgsl
from contraflow.shapes import View
from contraflow.tensors.generator import Generator, default_generator
from contraflow.tensors.host_scalar import HostScalar
from contraflow.tensors.storage import Storage

FORMAT = 1
SEPARATOR = "// ---- "  # before each text of kernels.wgsl
RUNTIME = "contraflow.js"
_SMALLEST = 16  # bytes of a buffer
_WORDS = {bool_: np.uint32, int64: np.int32}  # how elements are stored, where not as they are


class WebBundle:
    """The files of some functions."""

    def __init__(self, functions: Sequence[ExportedFunction]) -> None:
        roots: dict[str, Any] = {}
        for function in functions:
            for name, x in (*_objects(function).items(), *_roots(function).items()):
                roots.setdefault(name, x)
        self.names = StateNames(roots)
        self.buffers: list[dict[str, Any]] = []
        self.cells: list[dict[str, Any]] = []
        self.state: dict[str, Any] = {}
        self.kernels: list[dict[str, Any]] = []
        self.texts: list[str] = []
        self.weights = bytearray()
        self._known: dict[Any, int] = {}  # positions of buffers, host scalars and kernels
        self._generators: list[Generator] = []
        self.programs: dict[str, Any] = {}
        for function in functions:
            name = function.owner.name
            if name in self.programs:
                raise ValueError(
                    f"export_web: two functions are called {name}; name one of them otherwise: "
                    "compile(f, name=...)."
                )
            self.programs[name] = ProgramWriter(self, function).write()

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Write the files into a folder, which is made if it is not there."""
        plan = {
            "format": FORMAT,
            "kernels": self.kernels,
            "buffers": self.buffers,
            "cells": self.cells,
            "state": self.state,
            "programs": self.programs,
        }
        runtime = resources.files("contraflow.capture.web").joinpath(RUNTIME).read_text()
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        path.joinpath("plan.json").write_text(_json(plan))
        path.joinpath("kernels.wgsl").write_text("".join(self.texts))
        path.joinpath("weights.bin").write_bytes(self.weights)
        path.joinpath(RUNTIME).write_text(runtime)

    # --- what programs share --------------------------------------------------------------

    def buffer(self, nbytes: int, content: bytes | None = None) -> int:
        """The position of a new buffer, of these bytes at first, or of zeros."""
        size = max(-(-nbytes // WORD) * WORD, _SMALLEST)
        self.buffers.append({"bytes": size})
        if content:
            self.buffers[-1]["weights"] = [len(self.weights), len(content)]
            self.weights += content
        return len(self.buffers) - 1

    def stored(self, storage: Storage, dtype: DType) -> int:
        """The position of the buffer with the elements of a storage."""
        key = "storage", id(storage)
        if key not in self._known:
            words = np.ascontiguousarray(storage.fetched(), _WORDS.get(dtype, dtype.numpy))
            self._known[key] = self.buffer(words.nbytes, words.tobytes())
        return self._known[key]

    def name_state(self, name: str, buffer: int, view: View, dtype: DType) -> None:
        """Let a tensor of state be found by its name."""
        self.state.setdefault(name, tensor_entry(buffer, view, dtype))

    def cell(self, cell: HostScalar) -> int:
        """The position of a host scalar."""
        key = "cell", id(cell)
        if key not in self._known:
            name = self.names.of(cell, f"number{len(self.cells)}")
            self._known[key] = self._new_cell(name, cell.value)
        return self._known[key]

    def random(self, generator: Generator, field: str) -> int:
        """The position of the seed or the offset of a generator."""
        key = "random", id(generator), field
        if key not in self._known:
            if generator not in self._generators:
                self._generators.append(generator)
            number = self._generators.index(generator)
            name = "random" if generator is default_generator else f"random{number}"
            name = self.names.unique(f"{name}.{field}")
            self._known[key] = self._new_cell(name, getattr(generator, field))
        return self._known[key]

    def argument(self, name: str, dtype: DType) -> int:
        """The position of a number among the arguments of a function, which each call gives."""
        self.cells.append({"name": name, "kind": "int" if dtype is int64 else "float"})
        return len(self.cells) - 1

    def _new_cell(self, name: str, value: int | float) -> int:
        whole = isinstance(value, int)
        kind, number = ("int", str(value)) if whole else ("float", json_number(value))
        self.cells.append({"name": name, "kind": kind, "value": number})
        return len(self.cells) - 1

    def kernel(self, step: KernelStep) -> int:
        """The position of the kernel of a step."""
        kernel, variant = step.call.kernel, wgsl.variant_of(step.call)
        key = "kernel", kernel.identity, variant
        if key not in self._known:
            self._known[key] = len(self.kernels)
            bindings = list(wgsl.bindings(kernel).items())
            self.kernels.append({"name": kernel.name, "bindings": bindings})
            self.texts.append(f"{SEPARATOR}{kernel.name}\n{wgsl.render(kernel, variant)}")
        return self._known[key]


def export(folder: str | os.PathLike[str], functions: Sequence[ExportedFunction]) -> None:
    """Write the bundle of some functions, whose state they share, into a folder."""
    WebBundle(functions).write(folder)


def _json(plan: dict[str, Any]) -> str:
    """As JSON, with a line for each innermost list or object: rows, tensors, dispatches."""
    text = json.dumps(plan, indent=1, allow_nan=False)
    joined = re.sub(r"\[\n\s*([^\[\]{}]*?)\n\s*\]", lambda m: f"[{_one_line(m[1])}]", text)
    return re.sub(r"\{\n\s*([^{}]*?)\n\s*\}", lambda m: f"{{{_one_line(m[1])}}}", joined) + "\n"


def _one_line(text: str) -> str:
    return re.sub(r"\s*\n\s*", " ", text)


def _roots(function: ExportedFunction) -> dict[str, Any]:
    owner = function.owner
    return roots_of(owner.function, owner.instance)


def _objects(function: ExportedFunction) -> dict[str, Any]:
    """The objects among the arguments, such as that of a method; its own name is left out."""
    _, ((_, positional), (_, named), _) = function.key.structure
    names = function.parameter_names(len(positional))
    given = (*zip(names, positional), *named)
    found = {name: part[2]() for name, part in given if part[0] == OBJECT}
    return {"" if name == "self" else name: x for name, x in found.items()}
