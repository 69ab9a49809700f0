"""PyTorch's names about what a file may hold. Files are read without running code in any case."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from contraflow.names import getter
from contraflow.serialize import load, save

DEFAULT_PROTOCOL = 2  # of pickles, which are not written here


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Nothing: classes of a file are never made, whichever they are."""


def get_safe_globals() -> list[Any]:
    """The classes that a file may make: none."""
    return []


def clear_safe_globals() -> None:
    """Nothing."""


@contextmanager
def safe_globals(safe_globals: list[Any]) -> Iterator[None]:
    """A block like any other."""
    yield


__all__ = [
    "DEFAULT_PROTOCOL",
    "add_safe_globals",
    "clear_safe_globals",
    "get_safe_globals",
    "load",
    "safe_globals",
    "save",
]

globals()["__getattr__"] = getter(__name__)
