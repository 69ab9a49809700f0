"""PyTorch's calls of functions in other processes: there is one process, so they are refused."""

from __future__ import annotations

from contraflow.names import getter


def is_available() -> bool:
    """Whether functions of other processes can be called: no.

    >>> is_available()
    False
    """
    return False


__all__ = ["is_available"]

globals()["__getattr__"] = getter(__name__)
