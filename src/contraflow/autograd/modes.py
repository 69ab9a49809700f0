"""Modes of the graph, per thread: with-blocks that are decorators too, restored in `finally`."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from contraflow.dispatch import change, changed, state

F = TypeVar("F", bound=Callable[..., Any])


class Entered(threading.local):
    """The with-blocks that a thread has entered with a mode."""

    def __init__(self) -> None:
        self.blocks: list[Any] = []


class Mode:
    """A with-block over fields of the thread's state; as a decorator it wraps each call."""

    fields: Mapping[str, Any]

    def __init__(self) -> None:
        self._entered = Entered()

    def __enter__(self) -> None:
        block = changed(**self.fields)
        block.__enter__()
        self._entered.blocks.append(block)

    def __exit__(self, *error: Any) -> None:
        self._entered.blocks.pop().__exit__(*error)

    def __call__(self, function: F) -> F:
        if inspect.isgeneratorfunction(function):
            return self._around_each_step(function)

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with changed(**self.fields):
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
                        with changed(**self.fields):
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
                with changed(**self.fields):
                    generator.close()

        return wrapped  # type: ignore[return-value]


class no_grad(Mode):
    """Record nothing in the graph."""

    fields = MappingProxyType({"grad": False})


class enable_grad(Mode):
    """Record again inside no_grad."""

    fields = MappingProxyType({"grad": True})


class inference_mode(Mode):
    """Record nothing in the graph; what is made here can neither be saved for backward later nor
    written in place."""

    def __init__(self, mode: bool = True) -> None:
        super().__init__()
        self.fields = {"grad": False, "inference": True} if mode else {"inference": False}


class set_grad_enabled(Mode):
    """Record, or not, by a flag: from now on, or until the end of a with-block.

    >>> import contraflow as cf
    >>> with cf.set_grad_enabled(False):
    ...     cf.is_grad_enabled()
    False
    """

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self.fields = {"grad": bool(mode)}
        self._before = state().grad
        change(grad=bool(mode))

    def __enter__(self) -> None:
        super().__enter__()  # again, since the object may be entered later or twice

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        if not self._entered.blocks:
            change(grad=self._before)

    def __call__(self, function: F) -> F:
        change(grad=self._before)  # a decorator concerns its function only
        return super().__call__(function)


def is_grad_enabled() -> bool:
    """Whether ops are being recorded in the graph."""
    return state().grad


def is_inference_mode_enabled() -> bool:
    """Whether inference mode is on."""
    return state().inference
