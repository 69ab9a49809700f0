"""The bottom of a stack of contexts, where nothing is passed on.

`runtime/eager.py` and `record.py` derive from it. Its methods are those of eager mode, which does
nothing in most of them; a recorder overrides those that a recording depends on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from typing import Any

from contraflow.contexts.applying import OpContext
from contraflow.errors import GradientError
from contraflow.tensors.host_scalar import HostScalar
from contraflow.tensors.storage import Storage
from contraflow.tensors.tensor import Tensor


class BottomContext(OpContext):
    """Applies ops, and has no context below."""

    def shared_array(self, array: Any) -> Tensor | None:
        """None: eager mode makes a tensor of an array at once."""
        return None

    def leave(self, tensor: Tensor, what: str) -> None:
        """Eager data may leave at any time, unless it is a recording's."""
        if tensor.storage.is_recorded:
            raise GradientError(
                f"{what}: {tensor!r} was recorded by compile and never had a value."
            )

    def stand_in(self, copy: Tensor, whole: Tensor, symbols: tuple[Any, ...], key: Any) -> None:
        """Eager mode has views."""

    def putting_back(self, whole: Tensor, key: Any, value: Any) -> AbstractContextManager[Any]:
        """Nothing is put back where there are views."""
        return nullcontext()

    def copied(self, tensor: Tensor) -> Storage:
        """The memory itself is copied."""
        self.leave(tensor, "deepcopy()")
        return deepcopy(tensor.storage)

    def touch_grad(self, tensor: Tensor, reading: bool) -> None:
        """Nothing to note in eager mode."""

    def touch_needs(self, tensor: Tensor) -> None:
        """Nothing to note in eager mode."""

    def touch_store(self, store: Any) -> None:
        """Nothing to note in eager mode."""

    def touch_place(self, tensor: Tensor, method: str) -> None:
        """Nothing to note in eager mode."""

    def touch_hooks(self, owner: Any, hooks: dict[int, Any]) -> None:
        """Nothing to note in eager mode."""

    def remove_hook(self, key: int, hooks: dict[int, Any]) -> None:
        """Nothing to note in eager mode."""

    def read_hooks(self, leaf: Tensor) -> None:
        """Nothing to note in eager mode."""

    def read_places(self, roots: Any, targets: Any) -> None:
        """Nothing to note in eager mode."""

    def draw(self, generator: Any, blocks: int) -> tuple[Any, Any]:
        """The generator's own numbers."""
        return generator.take(blocks)  # type: ignore[no-any-return]

    def replay(self, read: Iterable[Any], written: Iterable[Any], random: Iterable[Any]) -> None:
        """Nothing to note in eager mode."""

    def read_generator(self, generator: Any) -> None:
        """Nothing to note in eager mode."""

    def write_generator(self, generator: Any, saved: tuple[int, int]) -> None:
        """Nothing to note in eager mode."""

    def read_scalar(self, cell: HostScalar) -> int | float:
        """The Python number."""
        return cell.value

    def write_scalar(self, cell: HostScalar, value: int | float) -> None:
        """Keep the Python number."""
        cell.value = value

    def detached(self, tensor: Tensor, origin: Tensor) -> Tensor:
        """Nobody is outside of eager mode; what a recorder records has one graph."""
        return tensor

    def watches(self, tensor: Any) -> bool:
        """Only forward mode does."""
        return False

    def push(self, node: Any, inputs: Sequence[Any], outs: Sequence[Any]) -> None:
        """Only forward mode listens."""

    def enter_function(self, name: str, inputs: Sequence[Any]) -> None:
        """Its node is made where it runs."""

    def visit_module(self, module: Any) -> None:
        """Nothing depends on modules in eager mode."""

    def use_once(self) -> None:
        """Nothing is kept in eager mode."""
