"""One way to run a step, and the list of those there are.

Nothing here imports a library: a contender runs in a process of its own, which imports only the
`with_*` module it needs.
"""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import models

ADAM = (0.9, 0.999, 1e-8)  # PyTorch's defaults, for libraries that have others or none


@dataclass
class Contender:
    """A step in the hands of a library, at the beginning of its training."""

    run: Callable[..., tuple[Any, Any]]  # (*batch) -> the loss, and the gradient or None
    read: Callable[[Any], float]  # the loss as a number, which waits for it
    to_numpy: Callable[[Any], np.ndarray]
    batches: list[tuple[Any, ...]]

    def turn(self, number: int) -> None:
        """Step `number`, over the batch whose turn it is."""
        loss, _ = self.run(*self.batches[number % len(self.batches)])
        self.read(loss)

    def values(self, number: int) -> list[float]:
        """The same, and what must be equal everywhere: the loss and the gradient's length."""
        loss, gradient = self.run(*self.batches[number % len(self.batches)])
        values = [float(self.read(loss))]
        if gradient is not None:
            values.append(float(np.linalg.norm(self.to_numpy(gradient))))
        return values


@dataclass(frozen=True)
class Entry:
    """A line in the list of contenders."""

    name: str
    library: str  # the module that runs it is benchmarks.with_<library>
    mode: str
    compiles: bool = True
    steps: tuple[str, ...] = tuple(models.WORK)  # those worth the minutes it compiles

    def runs(self, step: str) -> bool:
        """Whether it takes part in a step."""
        return step in self.steps and not (self.compiles and step in models.EAGER_ONLY)


COMPILED = Entry("contraflow compiled", "contraflow", "compiled")
MODULES = Entry(
    "contraflow modules", "contraflow", "modules",
    steps=("small", "mlp", "cnn", "resnet18", "gpt", "lstm"),
)  # fmt: skip
EAGER = Entry("contraflow eager", "contraflow", "eager", compiles=False)
TORCH = Entry("torch eager", "torch", "eager", compiles=False)
TORCH_MODEL = Entry(
    "torch.compile model", "torch", "model",
    steps=tuple(name for name in models.STEPS if not name.startswith("lstm")),
)  # fmt: skip
TORCH_STEP = Entry(
    "torch.compile step", "torch", "step",
    steps=("small", "mlp", "cnn", "gpt", "gpt-bf16", *models.LOOPS),
)  # fmt: skip
TORCH_TUNED = Entry("torch.compile max-autotune", "torch", "max-autotune", steps=("mlp", "gpt"))
JAX = Entry("jax jit", "jax", "jit", steps=tuple(models.STEPS))
TINYGRAD = Entry(
    "tinygrad jit", "tinygrad", "jit", steps=("small", "mlp", "cnn", "gpt", "ewise"),
)  # fmt: skip
ENTRIES = {
    entry.name: entry
    for entry in (
        COMPILED,
        MODULES,
        EAGER,
        TORCH,
        TORCH_MODEL,
        TORCH_STEP,
        TORCH_TUNED,
        JAX,
        TINYGRAD,
    )
}
OURS = {COMPILED.name, MODULES.name, EAGER.name}


def version(package: str) -> str | None:
    """Which version is installed, if any; found without importing it."""
    if util.find_spec(package) is None:
        return None
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "from its source"


def absent(entry: Entry) -> str | None:
    """Why a contender cannot run here, if it cannot."""
    if version(entry.library) is None:
        return "not installed; `make bench-peers` installs it"
    if entry.library == "torch" and entry.compiles:
        return _cpp_compiler_trouble()
    if entry.library == "tinygrad" and shutil.which("clang") is None:
        return "it needs clang, which is not installed"
    return None


def _cpp_compiler_trouble() -> str | None:
    """What keeps torch.compile from making C++ into a library, if anything."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        return "it needs a C++ compiler, which is not installed"
    include = sysconfig.get_paths()["include"]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.cpp")
        source.write_text("#include <Python.h>\n#include <omp.h>\nint main() { return 0; }\n")
        command = [compiler, "-fopenmp", "-fPIC", "-shared", f"-I{include}", str(source)]
        done = subprocess.run(
            [*command, "-o", f"{folder}/probe.so"], capture_output=True, text=True, check=False
        )
    if done.returncode:
        return f"the C++ compiler fails: {done.stderr.strip().splitlines()[0]}"
    return None
