"""Detection of user functions that run unobserved during a recording, by `sys.monitoring`.

Functions come into sight before they run (`sight.py`), and run observed from then on. One that was
kept where nobody looks, in an object of C's for instance, runs as it is: what it reads is not
guarded. From Python 3.12 on the interpreter tells of every function that is entered, at no cost
that can be measured, since each is heard of once. Before, nothing that is cheap enough does.
"""

from __future__ import annotations

import functools
import inspect
import operator
import sys
import types
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any

from contraflow import threads
from contraflow.capture.rewriting import rewrite
from contraflow.capture.rewriting.library import OBSERVED, is_library_code
from contraflow.errors import Location

_monitoring: Any = getattr(sys, "monitoring", None)  # from 3.12 on
HEARS = _monitoring is not None

_NAME = "contraflow"
_TOOLS = (4, 3)  # the others are for debuggers, coverage, profilers and optimizers
_ASIDE = ("logging", "warnings", "bdb", "pdb")
_RECORDING = "contraflow.capture.trace"

# The code that was entered unobserved, by the threads that are recording.
_heard: dict[int, dict[types.CodeType, None]] = {}
_tools: list[int] = []  # the one that is ours
_lock = threads.recursive_lock()


@contextmanager
def alarmed() -> Iterator[dict[types.CodeType, None]]:
    """The code of functions that are entered unobserved by this thread meanwhile.

    There is none where other tools have taken all numbers that this one may have.
    """
    found: dict[types.CodeType, None] = {}
    if not HEARS or not rewrite.KNOWN:
        yield found
        return
    thread = get_ident()
    try:
        with _lock:
            _heard[thread] = found
            _listen()
        yield found
    finally:
        try:
            _leave(thread)
        except KeyboardInterrupt:  # it must be done all the same
            _leave(thread)
            raise


def describe_code(code: types.CodeType) -> str:
    """The name of a function and where it stands."""
    return f"{code.co_qualname} at {Location(code.co_filename, code.co_firstlineno)}"


def _listen() -> None:
    """Hear of every function, those that were heard of before included."""
    if not _tools:
        for tool in _TOOLS:
            if _monitoring.get_tool(tool) is None:
                _tools.append(tool)
                _monitoring.use_tool_id(tool, _NAME)
                break
    for tool in _tools:
        _monitoring.register_callback(tool, _monitoring.events.PY_START, _entered)
        _monitoring.set_events(tool, _monitoring.events.PY_START)
        _monitoring.restart_events()


def _leave(thread: int) -> None:
    """Hear of nothing that a thread does; after the last one give the number of the tool back.

    That is done by calls of C alone, which no interrupt can end halfway.
    """
    with _lock:
        _heard.pop(thread, None)
        if not _heard:
            deque(map(operator.call, _endings()), 0)


def _endings() -> list[Any]:
    steps: list[Any] = []
    for tool in _tools:
        if _monitoring.get_tool(tool) == _NAME:
            steps += (
                functools.partial(_monitoring.set_events, tool, 0),
                functools.partial(
                    _monitoring.register_callback, tool, _monitoring.events.PY_START, None
                ),
                functools.partial(_monitoring.free_tool_id, tool),
            )
    return [*steps, _tools.clear]


def _entered(code: types.CodeType, offset: int) -> Any:
    """A function begins to run, on any thread."""
    disable = _monitoring.DISABLE  # this code is not heard of again until the next recording
    if rewrite.is_observed(code) or not code.co_flags & inspect.CO_OPTIMIZED:
        return disable  # the bodies of modules and classes are not functions
    frame = sys._getframe(1)
    if is_library_code(code, frame.f_globals) or _is_standard(code, frame.f_globals):
        return disable
    found = _heard.get(get_ident())
    if found is None or _is_aside(frame):
        return None
    found[code] = None
    return disable if len(_heard) == 1 else None


def _is_standard(code: types.CodeType, namespace: dict[str, Any]) -> bool:
    """Whether code is of the standard library's containers, what `namedtuple` makes, or of the
    compiler of kernels.

    User code that they call is reported by itself.
    """
    name = str(namespace.get("__name__"))
    return name.startswith(("namedtuple_", "llvmlite.")) or code.co_filename in OBSERVED


def _is_aside(frame: types.FrameType | None) -> bool:
    """Whether a function is called by an import, or for a message: both happen once.

    Or by the interpreter, when an object goes.
    """
    while frame is not None:
        name, code = frame.f_globals.get("__name__"), frame.f_code
        if name == _RECORDING:
            return False
        if name in _ASIDE or code.co_filename.startswith("<frozen importlib"):
            return True
        first = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
        if first is not None and (first is sys.stdout or first is sys.stderr):
            return True
        if type(first) is str and first == "__path__":  # an import asks a module's `__getattr__`
            return True
        if code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False
