"""Failures that kernels find: wrong indices, on the spot or after a call has returned."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class IndexOutOfRange(IndexError):
    """An index that a kernel found out of range; `line` is the tape line it belongs to."""

    def __init__(self, value: int, line: int) -> None:
        super().__init__(f"index {value} is out of range")
        self.value, self.line = value, line


class LateFailure(NamedTuple):
    """How a program that failed after its call had returned is reported, and taken back.

    Without `undo` it is an op of eager mode, whose results are zeros then.
    """

    described: Callable[[IndexError], Exception]  # the error of a kernel as the user's
    undo: Callable[[], None] | None = None
