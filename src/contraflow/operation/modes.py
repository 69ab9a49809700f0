"""Modes: with-blocks over fields of the thread's state, which are decorators too."""

from __future__ import annotations

import functools
import inspect
import threading
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from io import IOBase
from operator import attrgetter, call
from types import MappingProxyType
from typing import Any, TypeVar

from contraflow.operation.context import changed

F = TypeVar("F", bound=Callable[..., Any])


class Entered(threading.local):
    """The exit of the innermost with-block of a mode that a thread is in, None outside of one."""

    end: Any = None


class Mode(IOBase):
    """A with-block over fields of the thread's state; as a decorator it wraps each call.

    Like the block of `changed`, this one ends in C, where no interrupt comes: the `__exit__` of
    IOBase calls `close`. An object may be entered again before it is left, and by several threads.
    """

    fields: Mapping[str, Any] = MappingProxyType({})
    closed = True  # so the object itself has nothing to close
    close: Any = property(attrgetter("_entered.end"))

    def __init__(self) -> None:
        self._entered: Any = Entered()

    def changes(self) -> Mapping[str, Any]:
        """The fields of the state that a block replaces, asked for where it begins."""
        return self.fields

    def __enter__(self) -> Any:
        entered, outer = self._entered, self._entered.end
        block = changed(**self.changes())
        block.__enter__()
        try:
            steps = (block.close, partial(setattr, entered, "end", outer))
            entered.end = partial(deque, map(call, steps), 0)
        except BaseException:
            block.close()
            raise

    def __call__(self, function: F) -> F:
        if inspect.isgeneratorfunction(function):
            return self._around_each_step(function)

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with changed(**self.changes()):
                return function(*args, **kwargs)

        return wrapped  # type: ignore[return-value]

    def _around_each_step(self, function: F) -> F:
        """A generator function that runs in this mode, while its caller between steps does not."""

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            generator = function(*args, **kwargs)
            step, sent = generator.send, None
            try:
                while True:
                    try:
                        with changed(**self.changes()):
                            value = step(sent)
                    except StopIteration as end:
                        return end.value
                    try:
                        sent = yield value
                        step = generator.send
                    except GeneratorExit:
                        raise
                    except BaseException as error:
                        step, sent = generator.throw, error
            finally:
                with changed(**self.changes()):
                    generator.close()

        return wrapped  # type: ignore[return-value]
