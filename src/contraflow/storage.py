"""Storages: the memory behind tensors, and the count of its writes.

Views share a storage. Every write through a tensor raises `version`, so that a value saved for
backward and then overwritten is noticed; `writer` says what wrote last and where.
"""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path
from types import CodeType
from typing import Any

_PACKAGE = str(Path(__file__).parent) + os.sep


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


def user_line(skip: int = 1) -> Line | None:
    """The nearest caller outside this package; `skip` frames are known to be inside."""
    frame = sys._getframe(skip)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(_PACKAGE):
            return Line(code, frame.f_lasti)
        frame = frame.f_back  # type: ignore[assignment]
    return None


serials = itertools.count()


class Storage:
    """Memory of one device. On the cpu `data` is a flat array; a recorded storage has None."""

    # Defaults live on the class, which keeps construction cheap: there is one of these per op.
    device = "cpu"
    version = 0
    writer: tuple[str, Line | None] | None = None
    inference = False  # made in inference mode, so nothing may be differentiated through it

    def __init__(self, data: Any, device: str = "cpu") -> None:
        """Over a C-contiguous array of any shape; it is flattened when that is first asked for."""
        self._data = data
        if device != "cpu":
            self.device = device
        self.serial = next(serials)  # later storages have higher numbers

    def wrote(self, op: str, line: Line | None) -> None:
        """Count a write."""
        self.version += 1
        self.writer = (op, line)

    @property
    def data(self) -> Any:
        """The memory as a flat array, None where only a program will compute it."""
        data = self._data
        if data is not None and data.ndim != 1:
            data = self._data = data.reshape(-1)
        return data

    @data.setter
    def data(self, data: Any) -> None:
        self._data = data

    @property
    def is_recorded(self) -> bool:
        """Whether this stands for a value that only a program will compute."""
        return self._data is None
