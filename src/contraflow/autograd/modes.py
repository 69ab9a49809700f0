"""Modes of the graph, per thread: with-blocks that are decorators too, restored in `finally`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from contraflow.op import changed, state

F = TypeVar("F", bound=Callable[..., Any])


class _Mode:
    """A with-block over fields of the thread's state; as a decorator it wraps each call."""

    fields: Mapping[str, Any]

    def __init__(self) -> None:
        self._open: list[Any] = []

    def __enter__(self) -> None:
        block = changed(**self.fields)
        block.__enter__()
        self._open.append(block)

    def __exit__(self, *error: Any) -> None:
        self._open.pop().__exit__(*error)

    def __call__(self, function: F) -> F:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with changed(**self.fields):
                return function(*args, **kwargs)

        return wrapped  # type: ignore[return-value]


class no_grad(_Mode):
    """Record nothing in the graph."""

    fields = MappingProxyType({"grad": False})


class enable_grad(_Mode):
    """Record again inside no_grad."""

    fields = MappingProxyType({"grad": True})


class inference_mode(_Mode):
    """Record nothing in the graph; results cannot be used in one later."""

    fields = MappingProxyType({"grad": False, "inference": True})


class set_grad_enabled(_Mode):
    """Record, or not, by a flag."""

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self.fields = {"grad": bool(mode)}


def is_grad_enabled() -> bool:
    """Whether ops are being recorded in the graph."""
    return state().grad
