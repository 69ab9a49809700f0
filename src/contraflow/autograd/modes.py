"""Gradient modes (`no_grad`, `inference_mode`, ...): per thread, with-blocks and decorators."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Self, overload

from contraflow.operation.context import change, state
from contraflow.operation.modes import F, Mode


class PlainMode(Mode):
    """A mode that decorates without parentheses too: `@no_grad` above a function."""

    @overload
    def __new__(cls, function: None = None) -> Self: ...
    @overload
    def __new__(cls, function: F) -> F: ...  # type: ignore[misc]
    def __new__(cls, function: Any = None) -> Any:
        return super().__new__(cls) if function is None else cls()(function)


class no_grad(PlainMode):
    """Record no ops in the graph.

    >>> import contraflow as cf
    >>> x = cf.ones(2, requires_grad=True)
    >>> with cf.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    fields = MappingProxyType({"grad": False, "stopped": True})


class enable_grad(PlainMode):
    """Record ops in the graph again, inside no_grad.

    >>> import contraflow as cf
    >>> x = cf.ones(2, requires_grad=True)
    >>> with cf.no_grad(), cf.enable_grad():
    ...     y = x * 2
    >>> y.requires_grad
    True
    """

    fields = MappingProxyType({"grad": True, "stopped": False})


class inference_mode(Mode):
    """Record nothing in the graph; what is made here can neither be saved for backward later nor
    written in place.

    >>> import contraflow as cf
    >>> x = cf.ones(2, requires_grad=True)
    >>> with cf.inference_mode():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    @overload
    def __new__(cls, mode: bool = True) -> Self: ...
    @overload
    def __new__(cls, mode: F) -> F: ...  # type: ignore[misc]
    def __new__(cls, mode: Any = True) -> Any:
        return cls()(mode) if callable(mode) else super().__new__(cls)

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
    """Whether ops are being recorded in the graph.

    >>> import contraflow as cf
    >>> with cf.no_grad():
    ...     cf.is_grad_enabled()
    False
    """
    return state().grad


def is_inference_mode_enabled() -> bool:
    """Whether inference mode is on.

    >>> import contraflow as cf
    >>> with cf.inference_mode():
    ...     cf.is_inference_mode_enabled()
    True
    """
    return state().inference
