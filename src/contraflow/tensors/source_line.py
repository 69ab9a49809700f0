"""Source positions: the line of user code that led to an op, and the function it called.

A line is kept as code and instruction, since most are never printed. A frame belongs to this
package, to the standard library or to the user, by the name of its file.
"""

from __future__ import annotations

import os
import sys
from types import CodeType
from typing import NamedTuple

from contraflow import thresholds
from contraflow.errors import Location
from contraflow.operation import context

PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep


# An instruction of a frame, and perhaps what it called.
Instruction = tuple[CodeType, int] | tuple[CodeType, int, str | None]
_new = tuple.__new__  # of a named tuple, as its class does it, which takes twice as long
# Stands in for the source position of a node that has none.
NOWHERE: tuple[CodeType | None, int] = (None, 0)


class UserLine(NamedTuple):
    """A place in the user's code, resolved to a line when printed."""

    code: CodeType
    instruction: int
    called: str | None = None  # what it called, as a key of `OWNERS`

    @property
    def op(self) -> str | None:
        """The name of the op that was called, as users know it."""
        return None if self.called is None else OWNERS[self.called]

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


class GradientLine(UserLine):
    """The place of an op, for what its gradient rules do: as a tape has it of a backward pass."""

    __slots__ = ()

    @property
    def op(self) -> str | None:
        """The name of that op, and that this is its backward."""
        name = super().op
        return None if name is None else f"{name} backward"


def at(line: UserLine | None) -> str:
    """The words of a message that name a user's line."""
    return "" if line is None else f" at {line}"


def location(line: Instruction | None) -> Location | None:
    """The same as data, for an error."""
    return None if line is None else UserLine(*line).location


# Code name -> the operation name shown to users: of ops, and of functions made of several. Methods
# of tensors that are not ops are listed here; ops add themselves.
OWNERS: dict[str, str] = {
    "__getitem__": "getitem", "__setitem__": "setitem", "copy_": "copy_", "to": "to",
    "equal": "equal", "allclose": "allclose", "fill_": "fill_",
}  # fmt: skip
# Whose a file is: every op of a graph asks for those of its callers.
OURS, STANDARD, THEIRS = "this package", "the standard library", "the user"
_owners_of_files: dict[str, str] = {}
_STANDARD = os.path.dirname(os.__file__) + os.sep
_INSTALLED = ("site-packages" + os.sep, "dist-packages" + os.sep)


def is_standard(file: str) -> bool:
    """Whether a file is one of the standard library, which users do not take for theirs."""
    if not file.startswith(_STANDARD):
        return file.startswith("<frozen ")
    return not file[len(_STANDARD) :].startswith(_INSTALLED)


def _owner_of_file(file: str) -> str:
    """Whose a file is that was not met before."""
    if len(_owners_of_files) >= thresholds.kept_file_names:
        _owners_of_files.clear()
    owner = OURS if file.startswith(PACKAGE) else STANDARD if is_standard(file) else THEIRS
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
    owner_of = _owners_of_files.get
    while frame is not None:
        code = frame.f_code
        owner = owner_of(code.co_filename) or _owner_of_file(code.co_filename)
        if owner is OURS:
            if code.co_name in OWNERS:
                called = code.co_name
        elif owner is THEIRS:
            return code, frame.f_lasti, called
        frame = frame.f_back  # type: ignore[assignment]
    return None, 0, called


def user_line(skip: int = 1) -> UserLine | None:
    """The user's line that led here; every line of a recording asks."""
    code, instruction, called = user_call(skip + 1)
    return None if code is None else _new(UserLine, (code, instruction, called))


context.user_line = user_line


def arguments_of(called: str) -> dict[str, object]:
    """The arguments, by their names, of the function of this package that the user called: the
    nearest to the user of those with that name. Nothing where none is running."""
    found: dict[str, object] = {}
    frame = sys._getframe(1)
    while frame is not None and _owner_of_file(frame.f_code.co_filename) is not THEIRS:
        code = frame.f_code
        if code.co_name == called and code.co_filename.startswith(PACKAGE):
            names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            found = {name: frame.f_locals.get(name) for name in names}
        frame = frame.f_back  # type: ignore[assignment]
    return found


def stacklevel() -> int:
    """The `stacklevel` with which `warnings.warn`, called beside this, names the user's line."""
    level, frame = 1, sys._getframe(1)
    while frame.f_code.co_filename.startswith(PACKAGE) and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    return level
