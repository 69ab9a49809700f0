"""The session of a recording: its thread's observer, and the functions that run observed code."""

from __future__ import annotations

import functools
import itertools
import types
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any

from contraflow.capture.rewriting import rewrite

# The observers of recordings that are going on, by thread. Code that other threads run meanwhile
# goes through the hooks as well, and is not observed.
listening: dict[int, Any] = {}

# Functions that run other code for the time of recordings, with the code that they had.
_swapped: list[Any] = [None]


@contextmanager
def unheard() -> Iterator[None]:
    """A block in which this thread is not observed, though its recording goes on."""
    thread = get_ident()
    aside = ~thread  # of no thread: functions keep the code that they run meanwhile
    listening[aside] = listening.pop(thread)
    try:
        yield
    finally:
        listening[thread] = listening.pop(aside)


def swap(f: types.FunctionType, tells: bool = False) -> None:
    """Let a function run observed until the last recording has ended; it may tell that it runs."""
    if rewrite.KNOWN and not rewrite.is_observed(f.__code__):
        code = rewrite.observed(f.__code__, tells)
        _swapped.append((f, "__code__", f.__code__))
        f.__code__ = code


def give_back_later(f: types.FunctionType) -> None:
    """A function that was made by observed code gets its own code when the recordings end."""
    _swapped.append((f, "__code__", rewrite.original(f.__code__)))


def putting_back() -> Callable[[], Any]:
    """A call that gives all functions their own code again: C throughout, as `Observer.undo`."""
    restored = itertools.starmap(setattr, iter(_swapped.pop, None))
    return functools.partial(deque, itertools.chain(restored, map(_swapped.append, (None,))), 0)
