"""The stand-in for a recorder where a recorded function runs once more, eagerly.

Only its writes are of interest then, to undo them.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from contraflow.contexts.record import refusal
from contraflow.errors import CaptureError
from contraflow.tensors.source_line import UserLine
from contraflow.tensors.storage import Storage, serials
from contraflow.tensors.symbol import Symbols
from contraflow.tensors.tensor import Tensor


class Unheard:
    """Answers an observer as a recorder does, and refuses and guards nothing.

    Questions about tensors were guarded, or refused, when the function was recorded.
    """

    first_node = -1  # all nodes are as if the function had made them

    def __init__(self, name: str) -> None:
        self.name, self.start = name, next(serials)
        self.arrays: dict[int, Any] = {}
        self.array_arguments: dict[int, Any] = {}
        self.modules: list[Any] = []
        self.symbols = Symbols()
        self.looks_around = False
        self.default_set_at: UserLine | None = None

    def outside(self) -> AbstractContextManager[None]:
        """The function runs outside of a recording already."""
        return nullcontext()

    def visit_module(self, module: Any) -> None:
        """Nothing is guarded."""

    def made_here(self, module: Any) -> bool:
        """Whether the function itself has made a module or an optimizer."""
        return bool(module.__dict__.get("_born", self.start) >= self.start)

    def is_from_outside(self, tensor: Tensor) -> bool:
        """Nothing is refused."""
        return True

    def is_from_before(self, storage: Storage) -> bool:
        """Nothing is refused."""
        return False

    def is_of_argument(self, storage: Storage) -> bool:
        """Nothing is refused."""
        return False

    def argument_of(self, tensor: Any) -> int | None:
        """Nothing is refused."""
        return None

    def bring_up_to_date(self, tensor: Tensor) -> None:
        """Tensors find their places in the graph by themselves."""

    def user_line(self) -> UserLine | None:
        """Nothing is reported."""
        return None

    def refusal(self, problem: str, remedy: str = "", line: UserLine | None = None) -> CaptureError:
        """The error for what could not have been recorded."""
        return refusal(self.name, problem, remedy, line)
