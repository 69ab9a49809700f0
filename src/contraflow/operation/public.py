"""The decorator of public functions that are not ops: errors inside are told as the user's call."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, cast

from contraflow.errors import TRANSLATED, retold

F = TypeVar("F", bound=Callable[..., Any])


def public(function: F) -> F:
    """Decorator of a function that is not an op: errors inside are reworded by `retold`."""

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except translated as error:
            raise tell(error, function.__name__, takes, args, kwargs)  # noqa: B904

    def takes() -> str:
        parameters = inspect.signature(function).parameters.values()
        return ", ".join(str(p.replace(annotation=p.empty)) for p in parameters)

    translated, tell = tuple(TRANSLATED), retold
    # With the function's own globals it still counts as one of its module, as doctest asks.
    wrapper = FunctionType(call.__code__, function.__globals__, closure=call.__closure__)
    return cast(F, functools.update_wrapper(wrapper, function))
