"""Host scalars: numbers that optimizers keep and schedules change, without recompiling anything.

In eager mode a host scalar is a Python number. While a function is being recorded, reading one
gives a 0-d float64 or int64 tensor, so that arithmetic on it is recorded, and setting one is an
effect that every replay repeats.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from numbers import Real
from typing import Any

from contraflow.operation.context import state
from contraflow.tensors.storage import serials


class HostScalar:
    """A number that may change between the calls of a compiled function."""

    __slots__ = ("value", "serial", "__weakref__")

    def __init__(self, value: int | float) -> None:
        self.value, self.serial = value, next(serials)

    def get(self) -> Any:
        """The number, or its symbol while recording."""
        return state().context.read_scalar(self)

    def set(self, value: Any) -> None:
        """Set its value, which may be computed from other host scalars."""
        state().context.write_scalar(self, value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.value})"


class StepScalar(HostScalar):
    """A counter that a step advances unless the step is skipped (`amp.GradScaler`).

    Whether it is skipped is known only when the step has run, so a replay may set the counter from
    elements of tensors; every other host scalar is known before a replay.

    Programs compute with it as with its number: PyTorch has a 0-d tensor in its place.

    >>> import contraflow as cf
    >>> w = cf.ones(2, requires_grad=True)
    >>> step = cf.optim.Adam([w]).state[w]["step"]
    >>> step == 0, step + 1, step.item(), float(step)
    (True, 1, 0, 0.0)
    """

    __slots__ = ()

    def item(self) -> Any:
        """The number, as the `item` of a tensor."""
        return self.get()

    def __float__(self) -> float:
        return float(self.get())

    def __int__(self) -> int:
        return int(self.get())

    def __bool__(self) -> bool:
        return bool(self.get())

    def __eq__(self, other: object) -> Any:
        # Among each other they are places, which dicts hold by their identity.
        return self.get() == other if isinstance(other, Real) else NotImplemented

    __hash__ = HostScalar.__hash__


def _binary(function: Callable[[Any, Any], Any], reflected: bool = False) -> Any:
    def method(self: HostScalar, other: Any) -> Any:
        mine, others = self.get(), other.get() if isinstance(other, HostScalar) else other
        return function(others, mine) if reflected else function(mine, others)

    return method


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    setattr(StepScalar, f"__{_name}__", _binary(getattr(operator, _name)))
    setattr(StepScalar, f"__r{_name}__", _binary(getattr(operator, _name), reflected=True))
for _name in ("lt", "le", "gt", "ge"):
    setattr(StepScalar, f"__{_name}__", _binary(getattr(operator, _name)))
