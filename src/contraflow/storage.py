"""Storages: the memory behind tensors, and the count of its writes.

Views share a storage. Every write through a tensor raises `version`, so that a value saved for
backward and then overwritten is noticed; `writer` says what wrote last and where.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import weakref
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

from contraflow import memory
from contraflow.errors import Location

_PACKAGE = str(Path(__file__).parent) + os.sep


Place = tuple[CodeType, int]  # an instruction of a frame


class Line(NamedTuple):
    """A place in the user's code, resolved to a line when printed."""

    code: CodeType
    instruction: int

    @property
    def number(self) -> int:
        """The line number in the file."""
        for start, stop, line in self.code.co_lines():
            if start <= self.instruction < stop and line is not None:
                return line
        return self.code.co_firstlineno

    @property
    def location(self) -> Location:
        """File and number, which can be kept where the code cannot."""
        return Location(self.code.co_filename, self.number)

    def __str__(self) -> str:
        return str(self.location)


# What users know as one operation, by the names of code: ops, and functions of several ops.
# Methods of tensors that are no ops stand here.
OWNERS: dict[str, str] = {
    "__getitem__": "getitem", "__setitem__": "setitem", "copy_": "copy_", "to": "to",
}  # fmt: skip
_inside: set[str] = set()  # files of this package


def user_call(skip: int = 1) -> tuple[CodeType | None, int, str | None]:
    """The nearest caller outside this package, and what it called, as a key of `OWNERS`.

    `skip` frames are known to be inside. Every node of a graph comes through here: what is called
    is found by the names of code, with no function call for each frame.
    """
    owner = None
    try:
        frame = sys._getframe(skip)
    except ValueError:  # C has called the library, and no Python is below it
        return None, 0, None
    while frame is not None:
        code = frame.f_code
        file = code.co_filename
        if file not in _inside:
            if not file.startswith(_PACKAGE):
                return code, frame.f_lasti, owner
            _inside.add(file)
        if code.co_name in OWNERS:
            owner = code.co_name
        frame = frame.f_back  # type: ignore[assignment]
    return None, 0, owner


def user_place(skip: int = 1) -> Place | None:
    """The nearest caller outside this package; `skip` frames are known to be inside."""
    code, instruction, _ = user_call(skip + 1)
    return None if code is None else (code, instruction)


def user_line(skip: int = 1) -> Line | None:
    """The user's line that led here."""
    code, instruction, _ = user_call(skip + 1)
    return None if code is None else Line(code, instruction)


serials = itertools.count()


class Notice:
    """Tells whether somebody has looked at blocks, or put something else in their place."""

    __slots__ = ("given",)

    def __init__(self) -> None:
        self.given = True


_NOBODY = Notice()  # whom that does not concern


class _Slots:
    """The lock for `.grad` slots: who changes one gives notice in the same moment."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start afresh: a forked child may find the lock taken by a thread it does not have."""
        self.lock = threading.RLock()


slots = _Slots()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=slots.forget)


class Block:
    """Memory that a program fills: an array, where it begins, and who wants notice."""

    __slots__ = ("array", "address", "notice")

    def __init__(self, array: Any, address: int = 0) -> None:
        self.array, self.address, self.notice = array, address, _NOBODY


class Storage:
    """Memory of one device. On the cpu `data` is a flat array; a recorded storage has None."""

    # Defaults live on the class, which keeps construction cheap: there is one of these per op.
    device = "cpu"
    version = 0
    writer: tuple[str, Line | None] | None = None
    inference = False  # made in inference mode, so nothing may be differentiated through it
    frozen = False  # somebody else's memory, which may not be written to
    address = 0  # where the memory begins, once a program has asked
    # Nodes that keep what is here, and want a copy before it is overwritten: see `lend`.
    borrowers: weakref.WeakSet[Any] | None = None

    def __init__(self, data: Any, device: str = "cpu") -> None:
        """Over a C-contiguous array of any shape; it is flattened when that is first asked for."""
        self._data = data
        if device != "cpu":
            self.device = device
        self.serial = next(serials)  # later storages have higher numbers

    def lend(self, node: Any) -> None:
        """Let a node keep what is here until it is overwritten, and have a copy from then on."""
        if self.borrowers is None:
            self.borrowers = weakref.WeakSet()
        self.borrowers.add(node)

    def recall(self) -> None:
        """Give copies to those that keep what is about to be overwritten."""
        borrowers, self.borrowers = self.borrowers, None
        for node in borrowers or ():
            node.keep_copies(self)

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
        self._data, self.address = data, 0

    def __deepcopy__(self, memo: dict[int, Any]) -> Storage:
        copy = memo[id(self)] = Storage(memory.copy(self.data))
        return copy

    def __reduce__(self) -> tuple[Any, ...]:
        return Storage, (self.data,)

    @property
    def is_recorded(self) -> bool:
        """Whether this stands for a value that only a program will compute."""
        return self._data is None

    def counts(self, writes: Writes, writer: tuple[str, Line | None]) -> None:
        """Count the writes of a program's replays from now on."""
        if type(self) is Storage:
            self.__class__ = _Replayed
            self.replays = []
        assert isinstance(self, _Replayed)
        self.fold()
        self.replays.append((writes, writer))


moments = itertools.count(1)


class Writes:
    """The writes of a program, counted once per replay for all storages that it writes to."""

    __slots__ = ("count", "last", "owner")

    def __init__(self, owner: weakref.ref[Any]) -> None:
        self.count = self.last = 0  # how often, and when
        self.owner = owner


class _Replayed(Storage):
    """A storage that programs write to. What they count is added up when somebody asks."""

    replays: list[tuple[Writes, tuple[str, Line | None]]]
    moment = 0  # of the last write that was no replay

    @property
    def version(self) -> int:
        """The number of writes."""
        own: int = self.__dict__.get("version", 0)
        return own + sum(writes.count for writes, _ in self.replays)

    @version.setter
    def version(self, number: int) -> None:
        self.__dict__["version"] = number - sum(writes.count for writes, _ in self.replays)

    @property
    def writer(self) -> tuple[str, Line | None] | None:
        """Who wrote last."""
        when, writer = self.moment, self.__dict__.get("writer")
        for writes, other in self.replays:
            if writes.last > when:
                when, writer = writes.last, other
        return writer

    @writer.setter
    def writer(self, writer: tuple[str, Line | None] | None) -> None:
        self.__dict__["writer"], self.moment = writer, next(moments)

    def fold(self) -> None:
        """Take over what programs counted that are gone."""
        for entry in [entry for entry in self.replays if entry[0].owner() is None]:
            writes, writer = entry
            self.replays.remove(entry)
            self.__dict__["version"] = self.__dict__.get("version", 0) + writes.count
            if writes.last > self.moment:
                self.moment, self.__dict__["writer"] = writes.last, writer
