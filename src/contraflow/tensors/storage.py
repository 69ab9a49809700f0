"""Storages: the memory behind tensors, and the count of its writes.

Views share a storage. Every write through a tensor raises `version`, so that a value saved for
backward and then overwritten is noticed; `writer` says what wrote last and where.
"""

from __future__ import annotations

import itertools
import os
import sys
import weakref
from functools import partial
from itertools import compress
from operator import not_
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

from contraflow import threads
from contraflow.devices.cpu import memory
from contraflow.errors import Location

_PACKAGE = str(Path(__file__).parent.parent) + os.sep


Instruction = tuple[CodeType, int]  # an instruction of a frame


class UserLine(NamedTuple):
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
# Methods of tensors that are not ops stand here.
OWNERS: dict[str, str] = {
    "__getitem__": "getitem", "__setitem__": "setitem", "copy_": "copy_", "to": "to",
}  # fmt: skip
# Whose a file is: every op of a graph asks for those of its callers.
OURS, STANDARD, THEIRS = "this package", "the standard library", "the user"
_owners_of_files: dict[str, str] = {}
MOST_FILES = 10_000  # of which this is remembered: generated code may have a name for each run
_STANDARD = os.path.dirname(os.__file__) + os.sep
_INSTALLED = ("site-packages" + os.sep, "dist-packages" + os.sep)


def is_standard(file: str) -> bool:
    """Whether a file is one of the standard library, which users do not take for theirs."""
    if not file.startswith(_STANDARD):
        return file.startswith("<frozen ")
    return not file[len(_STANDARD) :].startswith(_INSTALLED)


def _owner_of_file(file: str) -> str:
    """Whose a file is that was not met before."""
    if len(_owners_of_files) >= MOST_FILES:
        _owners_of_files.clear()
    owner = OURS if file.startswith(_PACKAGE) else STANDARD if is_standard(file) else THEIRS
    _owners_of_files[file] = owner
    return owner


# An instruction of the user's, and what it called, as a key of `OWNERS`.
UserCall = tuple[CodeType | None, int, str | None]


def user_call(skip: int = 1) -> UserCall:
    """The nearest caller outside this package and the standard library, and what it called.

    `skip` frames are known to be inside. Every node of a graph comes through here: what is called
    is found by the names of code, with no function call for each frame.
    """
    called = None
    try:
        frame = sys._getframe(skip)
    except ValueError:  # C has called the library, and no Python is below it
        return None, 0, None
    while frame is not None:
        code = frame.f_code
        file = code.co_filename
        owner = _owners_of_files.get(file) or _owner_of_file(file)
        if owner is THEIRS:
            return code, frame.f_lasti, called
        if owner is OURS and code.co_name in OWNERS:
            called = code.co_name
        frame = frame.f_back  # type: ignore[assignment]
    return None, 0, called


def user_place(skip: int = 1) -> Instruction | None:
    """The nearest caller outside this package; `skip` frames are known to be inside."""
    code, instruction, _ = user_call(skip + 1)
    return None if code is None else (code, instruction)


def user_line(skip: int = 1) -> UserLine | None:
    """The user's line that led here; every line of a recording asks."""
    try:
        frame = sys._getframe(skip)
    except ValueError:
        return None
    while frame is not None:
        file = frame.f_code.co_filename
        if (_owners_of_files.get(file) or _owner_of_file(file)) is THEIRS:
            return UserLine(frame.f_code, frame.f_lasti)
        frame = frame.f_back  # type: ignore[assignment]
    return None


serials = itertools.count()


class Notice:
    """Tells whether somebody has looked at blocks, or put something else in their place."""

    __slots__ = ("given",)

    def __init__(self) -> None:
        self.given = True


_NOBODY = Notice()  # whom that does not concern


# For `.grad` slots: a slot is changed, and notice given, in the same moment.
slots_lock = threads.recursive_lock()


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
    writer: tuple[str, UserLine | None] | None = None
    inference = False  # made in inference mode, so nothing may be differentiated through it
    frozen = False  # somebody else's memory, which may not be written to
    address = 0  # where the memory begins, once a program has asked
    # Nodes that keep this memory, and want a copy before it is overwritten: see `lend`.
    borrowers: dict[int, weakref.ref[Any]] | None = None  # by their ids

    def __init__(self, data: Any, device: str = "cpu") -> None:
        """Over a C-contiguous array of any shape; it is flattened when that is first asked for."""
        self._data = data
        if device != "cpu":
            self.device = device
        self.serial = next(serials)  # later storages have higher numbers

    def lend(self, node: Any) -> None:
        """Let a node keep this memory until it is overwritten, and have a copy from then on."""
        if self.borrowers is None:
            self.borrowers = {}
        # The callback is C: an interrupt in one of Python's, which a WeakSet has, would be lost.
        self.borrowers[id(node)] = weakref.ref(node, partial(self.borrowers.pop, id(node)))

    def recall(self) -> None:
        """Give copies to the nodes that keep this memory, which is about to be overwritten."""
        borrowers, self.borrowers = self.borrowers, None
        for ref in list(borrowers.values()) if borrowers else ():
            node = ref()
            if node is not None:
                node.keep_copies(self)

    def wrote(self, op: str, line: UserLine | None) -> None:
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

    def counts(self, writes: Writes, writer: tuple[str, UserLine | None]) -> None:
        """Count the writes of a program's replays from now on."""
        with _counting:
            if type(self) is Storage:
                self.log = _Log(self.version, self.writer, 0, ())
                self.__class__ = _Replayed  # whose methods other threads may call at once
            assert isinstance(self, _Replayed)
            log = self.log.folded()
            self.log = log._replace(replays=(*log.replays, (writes, writer)))


moments = itertools.count(1)


class Writes:
    """The writes of a program, counted once per replay for all storages that it writes to."""

    __slots__ = ("count", "last", "owner")

    def __init__(self, owner: weakref.ref[Any]) -> None:
        self.count = self.last = 0  # how often, and when
        self.owner = owner


class _Log(NamedTuple):
    """The writes to a storage that programs write to.

    Never changed, only replaced as a whole: other threads read it meanwhile.
    """

    own: int  # writes that were not replays
    own_writer: tuple[str, UserLine | None] | None
    moment: int  # of the last of them
    replays: tuple[tuple[Writes, tuple[str, UserLine | None]], ...]

    @property
    def version(self) -> int:
        """The number of writes."""
        return self.own + sum(writes.count for writes, _ in self.replays)

    def last(self) -> tuple[int, tuple[str, UserLine | None] | None]:
        """The moment of the last write, and its writer."""
        when, writer = self.moment, self.own_writer
        for writes, other in self.replays:
            if writes.last > when:
                when, writer = writes.last, other
        return when, writer

    def folded(self) -> _Log:
        """The same, with the counts of programs that are gone as writes of its own."""
        alive = [entry[0].owner() is not None for entry in self.replays]
        if all(alive):
            return self
        gone = self._replace(replays=tuple(compress(self.replays, map(not_, alive))))
        return _Log(
            gone.version, gone.last()[1], gone.last()[0], tuple(compress(self.replays, alive))
        )


_counting = threads.recursive_lock()  # held while a log is replaced


class _Replayed(Storage):
    """A storage that programs write to. What they count is added up when somebody asks."""

    log: _Log

    def wrote(self, op: str, line: UserLine | None) -> None:
        with _counting:
            log = self.log
            self.log = _Log(log.own + 1, (op, line), next(moments), log.replays)

    @property
    def version(self) -> int:
        """The number of writes."""
        return self.log.version

    @version.setter
    def version(self, number: int) -> None:
        with _counting:
            log = self.log
            self.log = log._replace(own=log.own + number - log.version)

    @property
    def writer(self) -> tuple[str, UserLine | None] | None:
        """Who wrote last."""
        return self.log.last()[1]

    @writer.setter
    def writer(self, writer: tuple[str, UserLine | None] | None) -> None:
        with _counting:
            self.log = self.log._replace(own_writer=writer, moment=next(moments))
