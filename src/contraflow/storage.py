"""Storages: the memory behind tensors, and the count of its writes.

Views share a storage. Every write through a tensor raises `version`, so that a value saved for
backward and then overwritten is noticed; `writer` says what wrote last and where.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from types import CodeType
from typing import Any

_PACKAGE = str(Path(__file__).parent)


class Line:
    """A place in the user's code: the instruction of a frame, resolved to a line when printed."""

    __slots__ = ("code", "instruction")

    def __init__(self, code: CodeType, instruction: int) -> None:
        self.code, self.instruction = code, instruction

    @property
    def number(self) -> int:
        """The line number in the file."""
        for start, stop, line in self.code.co_lines():
            if start <= self.instruction < stop and line is not None:
                return line
        return self.code.co_firstlineno

    def __str__(self) -> str:
        return f"{Path(self.code.co_filename).name}:{self.number}"


def user_line() -> Line | None:
    """The nearest caller outside this package."""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(_PACKAGE):
            return Line(code, frame.f_lasti)
        frame = frame.f_back  # type: ignore[assignment]
    return None


serials = itertools.count()


class Storage:
    """Memory of one device. On the cpu `data` is a flat array; a recorded storage has None."""

    __slots__ = ("data", "device", "serial", "version", "writer", "__weakref__")

    def __init__(self, data: Any, device: str = "cpu") -> None:
        self.data = data
        self.device = device
        self.serial = next(serials)  # later storages have higher numbers
        self.version = 0
        self.writer: tuple[str, Line | None] | None = None

    def wrote(self, op: str, line: Line | None) -> None:
        """Count a write."""
        self.version += 1
        self.writer = (op, line)

    @property
    def is_recorded(self) -> bool:
        """Whether this stands for a value that only a program will compute."""
        return self.data is None
