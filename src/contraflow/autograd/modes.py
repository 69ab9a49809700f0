"""Gradient modes (`no_grad`, `inference_mode`, ...): per thread, with-blocks and decorators."""

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

from contraflow.operation.context import change, changed, state

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


class no_grad(Mode):
    """Record no ops in the graph."""

    fields = MappingProxyType({"grad": False, "stopped": True})


class enable_grad(Mode):
    """Record ops in the graph again, inside no_grad."""

    fields = MappingProxyType({"grad": True, "stopped": False})


class inference_mode(Mode):
    """Record nothing in the graph; what is made here can neither be saved for backward later nor
    written in place."""

    def __init__(self, mode: bool = True) -> None:
        super().__init__()
        self.fields = {**no_grad.fields, "inference": True} if mode else {"inference": False}


class set_grad_enabled(Mode):
    """Turn recording in the graph on or off, from now on or until the end of a with-block.

    >>> import contraflow as cf
    >>> with cf.set_grad_enabled(False):
    ...     cf.is_grad_enabled()
    False
    """

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self.fields = (enable_grad if mode else no_grad).fields
        before = state()
        self._before = {"grad": before.grad, "stopped": before.stopped}
        change(**self.fields)

    def __enter__(self) -> Any:
        if self._entered.end is None:
            change(**self._before)  # to which the end of the block returns
        super().__enter__()

    def __call__(self, function: F) -> F:
        change(**self._before)  # a decorator concerns its function only
        return super().__call__(function)


def is_grad_enabled() -> bool:
    """Whether ops are being recorded in the graph."""
    return state().grad


def is_inference_mode_enabled() -> bool:
    """Whether inference mode is on."""
    return state().inference
