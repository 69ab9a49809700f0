"""Host scalars: numbers that optimizers keep and schedules change, without recompiling anything.

In eager mode a host scalar is a Python number. While a function is being recorded, reading one
gives a 0-d float64 or int64 tensor, so that arithmetic on it is recorded, and setting one is an
effect that every replay repeats.
"""

from __future__ import annotations

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
    """

    __slots__ = ()
