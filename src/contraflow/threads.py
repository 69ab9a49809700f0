"""Work that no interrupt ends halfway, and locks that a forked child finds free.

Python raises KeyboardInterrupt in the main thread, after any call that it makes there. Work that
must not end halfway, such as work with LLVM, whose objects have locks and owners, is done by a
thread of its own. The caller only waits: an interrupt ends the waiting, and the work is finished.
Where a thread would take longer than the work, interrupts wait until it is done (`Undisturbed`).
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` makes enums, which take microseconds
import _thread
import atexit
import importlib
import os
import sys
import threading
from _thread import get_ident
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import ModuleType
from typing import Any, TypeVar

from contraflow import collector

T = TypeVar("T")

_gate = threading.RLock()  # held by the one piece of work that `run` does in another thread
_running: set[Task] = set()
_local = threading.local()
_own = threading.RLock()  # guards `_locks`
_STARTING = 1.0  # seconds within which a thread that was started begins


# --- work of other threads ---------------------------------------------------------------------


class Task:
    """A call in a thread of its own."""

    __slots__ = ("_call", "_inside", "_begun", "_finished", "_result", "_error")

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._call: tuple[Callable[..., Any] | None, tuple[Any, ...]] = function, args
        self._inside = getattr(_local, "inside", False)  # started by work that `run` does
        self._begun = False
        self._result: Any = None
        self._error: BaseException | None = None
        # No condition or event: an interrupt in their Python code can leave their locks taken.
        self._finished = _thread.allocate_lock()
        self._finished.acquire()

    def start(self) -> Task:
        """Begin, once."""
        _running.add(self)  # here: an interrupt may come before the thread has begun
        try:
            _thread.start_new_thread(self._run, ())
        except RuntimeError:  # the interpreter ends, and starts no threads any more
            inside = getattr(_local, "inside", False)
            self._run()
            _local.inside = inside
        return self

    def _run(self) -> None:
        function: Any = None
        args: Any = None
        try:  # of everything: an interrupt may come where this runs in the main thread
            self._begun = True
            _local.inside = self._inside
            (function, args), self._call = self._call, (None, ())
            self._result = function(*args)
        except BaseException as error:
            _clear_frames(error)  # what they hold goes here, not elsewhere
            self._error = error
        finally:
            del function, args
            _running.discard(self)
            self._finished.release()

    def join(self) -> None:
        """Wait for the end."""
        with self._finished:
            pass

    def settle(self) -> None:
        """Wait for the end, but not for a thread that an interrupt has kept from being started."""
        if not self._begun and self._finished.acquire(timeout=_STARTING):
            self._finished.release()  # it has begun meanwhile, and ended
        elif self._begun:
            self.join()
        else:
            _running.discard(self)

    def wait(self) -> Any:
        """The result of the call; an error is raised here."""
        self.join()
        if self._error is not None:
            raise self._error
        return self._result


def _clear_frames(error: BaseException) -> None:
    """Forget the variables of the frames that an error has left."""
    at = error.__traceback__
    while at is not None:
        with suppress(RuntimeError):  # a frame that still runs
            at.tb_frame.clear()
        at = at.tb_next


def start(function: Callable[..., Any], *args: Any) -> Task:
    """Call a function in a thread of its own."""
    return Task(function, args).start()


def finish(tasks: Sequence[Task]) -> None:
    """Wait for all, then raise what the first of them has raised."""
    for task in tasks:
        task.join()
    for task in tasks:
        task.wait()


def together(calls: Sequence[Callable[[], T]], most: int) -> list[T]:
    """The results of calls, made by so many threads at most; the error of one that fails."""
    results: dict[int, T] = {}
    waiting = iter(list(enumerate(calls)))  # a free thread takes the next

    def make_some() -> None:
        for number, call in waiting:
            results[number] = call()

    count = min(len(calls), most)
    if count > 1:
        finish([start(make_some) for _ in range(count)])
    else:
        make_some()
    return [results[number] for number in range(len(calls))]


def run(function: Callable[..., T], *args: Any) -> T:
    """Call a function in a thread of its own, one such function at a time, and give its result.

    An interrupt of the caller lets the function end in the background.
    """
    if getattr(_local, "inside", False):
        return function(*args)
    result: T = start(_run_alone, function, args).wait()
    return result


def _run_alone(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    with _gate:
        _local.inside = True
        return function(*args)


def imported(name: str) -> ModuleType:
    """A module, imported now if it has not been.

    Python itself loses an interrupt that comes at the end of an import: its locks for modules have
    callbacks of weak references.
    """
    found = sys.modules.get(name)
    if found is not None and not getattr(found.__spec__, "_initializing", False):
        return found
    return run(_import, name)


def _import(name: str) -> ModuleType:
    found = importlib.import_module(name)
    collector.make_old()  # modules stay
    return found


def _finish() -> None:
    """Wait for what is done in the background: LLVM may not be at work when it is unloaded."""
    while _running:
        for task in list(_running):
            task.settle()


atexit.register(_finish)


# --- interrupts that wait ----------------------------------------------------------------------


class Undisturbed:
    """A with-block that holds a lock, and that no signal ends halfway.

    Handlers of Python, such as the one that raises KeyboardInterrupt, are called at its end. Python
    calls them in the main thread only, so others just take the lock.
    """

    __slots__ = ("_lock", "_depth", "_handlers", "_arrived", "_waits")

    # Those whose handlers raise errors, in programs that have any: interrupts, and limits of time.
    _SIGNALS = tuple(
        int(getattr(_signal, name))
        for name in ("SIGINT", "SIGTERM", "SIGALRM")
        if hasattr(_signal, name)
    )

    def __init__(self, lock: Any) -> None:
        self._lock = lock
        self._depth = 0  # of blocks of the main thread
        self._handlers: dict[int, Any] = {}  # while they wait
        self._arrived: list[tuple[int, Any]] = []  # signals, with the frames they came in
        self._waits = self._wait  # one object, which is compared

    def __enter__(self) -> None:
        if get_ident() == _main_thread:
            if not self._depth:
                self._hold()
            self._depth += 1
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()
        if get_ident() == _main_thread:
            self._depth -= 1
            if not self._depth:
                self._let_go()

    def _hold(self) -> None:
        handlers, waits = self._handlers, self._waits
        try:
            for number in self._SIGNALS:
                handler = _signal.getsignal(number)
                if callable(handler) and handler is not waits:
                    handlers[number] = handler
                    _signal.signal(number, waits)
        except ValueError:  # not in the main interpreter, where alone handlers are called
            handlers.clear()
        except BaseException:  # of another signal than the first
            self._put_back()
            raise

    def _wait(self, number: int, frame: Any) -> None:
        self._arrived.append((number, frame))

    def _let_go(self) -> None:
        handlers = self._handlers.copy()
        self._put_back()
        while self._arrived:
            number, frame = self._arrived.pop(0)
            handlers[number](number, frame)

    def _put_back(self) -> None:
        handlers = self._handlers
        try:
            while handlers:
                number = next(iter(handlers))
                _signal.signal(number, handlers[number])
                del handlers[number]
        finally:
            if handlers:  # a signal came in between
                self._put_back()


def _note_main_thread() -> None:
    global _main_thread
    _main_thread = threading.main_thread().ident


_main_thread: int | None
_note_main_thread()


# --- locks -------------------------------------------------------------------------------------


_locks = collector.WeakList[Any]()


def lock() -> Any:
    """A lock that a forked child finds free, even if another thread held it."""
    return _noted(_thread.allocate_lock())


def recursive_lock() -> Any:
    """A lock like `lock`, which the thread that holds it may take again."""
    return _noted(threading.RLock())


def _noted(made: Any) -> Any:
    with _own:
        _locks.add(made)
    return made


def _free_locks() -> None:
    """In a forked child, whose other threads are gone with what they held."""
    _running.clear()
    _own._at_fork_reinit()  # type: ignore[attr-defined]
    for made in _locks.alive():
        made._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    # `run` does nothing while a process forks: a child could not go on with half of it.
    os.register_at_fork(
        before=_gate.acquire, after_in_parent=_gate.release, after_in_child=_gate.release
    )
    os.register_at_fork(after_in_child=_free_locks)
    os.register_at_fork(after_in_child=_note_main_thread)
