"""Lines of a test's own code, found by the comments at their ends."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any


def lines_of(function: Any) -> dict[str, str]:
    """The lines of a function that end in a comment, as `file.py:12`, by that comment."""
    rows, first = inspect.getsourcelines(function)
    marked = (row.partition("  # ") for row in rows)
    name = Path(inspect.getsourcefile(function) or "").name
    return {mark.strip(): f"{name}:{i}" for i, (_, _, mark) in enumerate(marked, first) if mark}
