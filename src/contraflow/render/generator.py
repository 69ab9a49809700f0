"""The identity of generators of text: what their texts depend on beside the kernel."""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from typing import Any

# The modules that every renderer reads.
SHARED = (
    "dtypes", "expressions.intrinsics", "expressions.expression", "expressions.evaluate",
    "expressions.elementary", "expressions.trigonometry", "expressions.special_functions",
    "compiler.kernel", "render.generator",
)  # fmt: skip


@functools.cache
def digest(modules: tuple[str, ...]) -> str:
    """A digest of the modules that decide which text a kernel becomes. None of them is imported."""
    found = hashlib.sha256()
    package = sys.modules["contraflow"]
    loader: Any = package.__loader__
    for name in modules:
        path = os.path.join(package.__path__[0], *name.split("."))
        found.update(loader.get_data(f"{path}.py"))
    return found.hexdigest()
