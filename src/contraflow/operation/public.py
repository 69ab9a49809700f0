"""The decorator of public functions that are not ops."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any, TypeVar, cast

from contraflow.errors import TRANSLATED, describe, hide_frames, retold, with_plain_numbers
from contraflow.operation.context import call_near, mixed, other_devices

F = TypeVar("F", bound=Callable[..., Any])

# PyTorch's arguments that have no effect here: results lie row-major, in memory of one kind.
WITHOUT_EFFECT = frozenset(("layout", "memory_format", "pin_memory"))


def public(function: F) -> F:
    """Decorator of a function that is not an op: errors inside are reworded by `retold`.

    Tensors that it makes lie where its arguments do.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return near(function, args, kwargs) if others else function(*args, **kwargs)
        except translated as error:
            plain = plainer(error, args, kwargs)
            if plain is not None:
                return call(*plain[0], **plain[1])
            told = tell(error, function.__name__, takes, args, kwargs)
            if told is error:
                hide(error)
                raise
            raise told  # noqa: B904 (it has its cause)

    takes = partial(_takes, function)
    translated, tell, near, others = tuple(TRANSLATED), retold, call_near, other_devices
    plainer, hide = with_plain_numbers, hide_frames
    # With the function's own globals it still counts as one of its module, as doctest asks.
    wrapper = FunctionType(call.__code__, function.__globals__, closure=call.__closure__)
    return cast(F, functools.update_wrapper(wrapper, function))


def _takes(function: Callable[..., Any]) -> str:
    """The parameters of a function, as a message lists them."""
    parameters = inspect.signature(function).parameters.values()
    return ", ".join(str(p.replace(annotation=p.empty)) for p in parameters)


def creation(function: F) -> F:
    """Decorator of a function that makes a tensor: `public`, with PyTorch's arguments about memory.

    `layout`, `memory_format` and `pin_memory` have no effect; `out` is a tensor that is written to.
    """
    inner = public(function)

    def call(*args: Any, **kwargs: Any) -> Any:
        if not kwargs and not others:
            try:
                return function(*args)
            except translated as error:
                plain = plainer(error, args, kwargs)
                if plain is not None:
                    return call(*plain[0])
                told = tell(error, function.__name__, takes, args, kwargs)
                if told is error:
                    hide(error)
                    raise
                raise told  # noqa: B904 (it has its cause)
        try:
            if not kwargs or kwargs.keys().isdisjoint(memory):
                return inner(*args, **kwargs)
            given = {name: value for name, value in kwargs.items() if name not in memory}
            return finish(function.__name__, kwargs.get("out"), inner(*args, **given))
        except Exception as error:
            hide(error)
            raise

    takes = partial(_takes, function)
    translated, tell, others = tuple(TRANSLATED), retold, other_devices
    plainer, hide = with_plain_numbers, hide_frames
    memory, finish = WITHOUT_EFFECT | {"out"}, written
    wrapper = FunctionType(call.__code__, function.__globals__, closure=call.__closure__)
    return cast(F, functools.update_wrapper(wrapper, inner))


def written(op: str, out: Any, value: Any) -> Any:
    """A result after it was written into `out`, which may be None, or several for several."""
    if out is None:
        return value
    if isinstance(value, tuple):
        if not isinstance(out, (tuple, list)) or len(out) != len(value):
            raise TypeError(f"{op}: out must be {len(value)} tensors.")
        return type(value)(*(written(op, to, part) for to, part in zip(out, value)))
    if not hasattr(out, "copy_"):
        raise TypeError(f"{op}: out must be a tensor, not {type(out).__name__}.")
    if out.device != value.device:
        operands = {"result": value, "out": out}
        raise mixed(op, operands, remedy="Move the result itself: out.copy_(result).")
    if out.shape != value.shape:
        if out.numel():
            raise ValueError(
                f"{op}: the result {describe(value)} does not fit into out, {describe(out)}."
            )
        out.resize_(value.shape)
    if value.dtype.category > out.dtype.category:
        raise TypeError(
            f"{op}: the result is {value.dtype} and cannot be written into out, {describe(out)}."
        )
    return out.copy_(value)
