"""The identity of generators of text: what their texts depend on beside the kernel."""

from __future__ import annotations

import functools
import hashlib
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
    """A digest of the modules that decide which text a kernel becomes, which are imported."""
    found = hashlib.sha256()
    for name in modules:
        module = sys.modules[f"contraflow.{name}"]
        loader: Any = module.__loader__
        found.update(loader.get_data(module.__file__))
    return found.hexdigest()
