"""The decorator of public functions that are not ops."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, cast

from contraflow.errors import TRANSLATED, retold
from contraflow.operation.context import call_near, other_devices

F = TypeVar("F", bound=Callable[..., Any])


def public(function: F) -> F:
    """Decorator of a function that is not an op: errors inside are reworded by `retold`.

    Tensors that it makes lie where its arguments do.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return near(function, args, kwargs) if others else function(*args, **kwargs)
        except translated as error:
            raise tell(error, function.__name__, takes, args, kwargs)  # noqa: B904

    def takes() -> str:
        parameters = inspect.signature(function).parameters.values()
        return ", ".join(str(p.replace(annotation=p.empty)) for p in parameters)

    translated, tell, near, others = tuple(TRANSLATED), retold, call_near, other_devices
    # With the function's own globals it still counts as one of its module, as doctest asks.
    wrapper = FunctionType(call.__code__, function.__globals__, closure=call.__closure__)
    return cast(F, functools.update_wrapper(wrapper, function))
