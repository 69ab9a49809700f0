"""Saved values: tensors kept for backward, with the versions that their storages had."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from contraflow.devices.cpu import memory
from contraflow.dtypes import DType, from_numpy
from contraflow.errors import (
    GradientError,
    OverwrittenError,
    bytes_text,
    describe,
    describe_spec,
)
from contraflow.operation import core
from contraflow.operation.context import changed, state
from contraflow.shapes import numel
from contraflow.spec import Spec
from contraflow.tensors.node import Edge, Node
from contraflow.tensors.source_line import UserLine, at, location
from contraflow.tensors.storage import Storage
from contraflow.tensors.tensor import Tensor


class Keeper(Protocol):
    """The keeper of a saved value, whose name and place errors about the value mention."""

    @property
    def name(self) -> str: ...

    @property
    def line(self) -> UserLine | None: ...


def overwritten(keeper: Keeper, spec: Spec, version: int, storage: Storage) -> OverwrittenError:
    """The error for a value that was written to since its keeper kept it."""
    writer, line = storage.writer or ("a write", None)
    return OverwrittenError(
        f"{keeper.name} saved {spec}{at(keeper.line)} for its backward, but {writer} overwrote "
        f"it{at(line)}. Use the out-of-place form, or clone it before.",
        op=keeper.name, line=location(keeper.line), shape=spec.shape, dtype=str(spec.dtype),
        saved_version=version, version=storage.version, writer=writer, written=location(line),
    )  # fmt: skip


class Saved:
    """A value kept for backward, and the version its storage had.

    The state of the tensor is kept, not the tensor: were it the user's, writing to that in
    place could make a node and its input a cycle.
    """

    __slots__ = ("storage", "version", "layout", "dtype", "array", "edge", "tangents")

    def __init__(self, tensor: Tensor, edge: Edge | None) -> None:
        """Keep a tensor whose gradient goes along `edge`, None for an output of the keeper."""
        storage = self.storage = tensor.storage
        self.version = storage.version
        self.layout = tensor.layout
        self.dtype = tensor.dtype
        self.array = tensor._array
        self.edge = edge
        self.tangents = tensor._tangents
        if storage.inference:
            raise GradientError(
                f"inference_mode: {describe(tensor)} was made there and cannot be saved for "
                f"backward. Clone it outside, or use no_grad instead."
            )

    @staticmethod
    def of(kept: Sequence[Any], edge: Edge | None) -> Saved:
        """The four entries that a node keeps; see `OpNode.kept`."""
        saved: Saved = object.__new__(Saved)
        saved.storage, saved.version, array, saved.layout = kept
        if isinstance(array, DType):
            saved.array, saved.dtype = None, array
        else:
            saved.array, saved.dtype = array, from_numpy(array.dtype)
        saved.edge, saved.tangents = edge, None
        return saved

    def get(self, keeper: Keeper) -> Tensor:
        """The value at its place in the graph, or a GradientError if it was overwritten since."""
        storage, edge = self.storage, self.edge
        if storage.version != self.version:
            raise overwritten(keeper, Spec(self.layout.shape, self.dtype), self.version, storage)
        t = Tensor.of_storage(storage, self.layout, self.dtype)
        t._array = self.array
        if self.tangents is not None:
            t._tangents = self.tangents
        if edge is None:
            return t
        target, index = edge
        if isinstance(target, Node):
            t._node, t._index, t._needs = target, index, True
            return t
        # A leaf is its own place in the graph, unless it was given other memory since.
        return target if target.storage is storage else apart(t, edge, keeper.line)

    def copied(self) -> Saved:
        """A saved copy, in memory of its own."""
        value = Tensor.of_storage(self.storage, self.layout, self.dtype)
        if self.storage.device == "cpu":
            copy = Saved(Tensor.of_array(memory.copy(value.array)), self.edge)
        else:
            with changed(grad=False):
                copy = Saved(core.clone(value), self.edge)
        copy.tangents = self.tangents
        return copy

    def carry(self, tangents: dict[Any, Tensor] | None) -> None:
        """Keep tangents with the value."""
        self.tangents = tangents

    @property
    def memory(self) -> Any:
        """The memory that is kept alive: several values may share it."""
        return self.storage

    @property
    def nbytes(self) -> int:
        """Bytes kept alive."""
        return numel(self.layout.shape) * self.dtype.itemsize

    @property
    def size(self) -> str:
        """The bytes, for a listing."""
        return bytes_text(self.nbytes)

    def __str__(self) -> str:
        return describe_spec(self.dtype, self.layout.shape)


class Packed(Saved):
    """A value that a hook has packed away; another gives it back."""

    __slots__ = ("packed", "unpack")

    def __init__(
        self,
        tensor: Tensor,
        edge: Edge | None,
        pack: Callable[..., Any],
        unpack: Callable[..., Any],
    ) -> None:
        super().__init__(tensor, edge)
        self.unpack = unpack
        with changed(grad=False):
            self.packed = pack(tensor.alias())
        if tensor.storage.version != self.version:
            raise GradientError(
                f"saved_tensors_hooks: pack wrote to {describe(tensor)} in place; it must not."
            )
        self.array = None
        del self.storage, self.tangents

    def get(self, keeper: Keeper) -> Tensor:
        """The value that the hook gives back, at the place in the graph that was packed."""
        value = self.unpack(self.packed)
        if not isinstance(value, Tensor):
            raise TypeError(
                f"saved_tensors_hooks: unpack returned {describe(value)} for {keeper.name}; it "
                f"must return a Tensor."
            )
        if self.edge is None or not state().grad:
            return value
        target, index = self.edge
        if isinstance(target, Node):
            return value.attached(target, index)
        # Gradients go to the leaf that was packed, which is not the tensor that came back.
        return apart(value, self.edge, keeper.line)

    def carry(self, tangents: dict[Any, Tensor] | None) -> None:
        if isinstance(self.packed, Tensor):
            self.packed._tangents = tangents

    @property
    def memory(self) -> Any:
        return self.packed.storage if isinstance(self.packed, Tensor) else self.packed

    @property
    def nbytes(self) -> int:
        """Bytes of what the hook made of it, where that says."""
        found = getattr(self.packed, "nbytes", 0)
        return found if isinstance(found, int) else 0

    @property
    def size(self) -> str:
        return f"packed {bytes_text(self.nbytes)}" if self.nbytes else "packed"


class SavedHooks(NamedTuple):
    """Hooks of the user's on the values that are saved for backward."""

    pack: Callable[[Tensor], Any]
    unpack: Callable[[Any], Tensor]


def keep(tensor: Tensor, edge: Edge | None) -> Saved:
    """Keep a tensor for backward, packed by the hooks that are set."""
    hooks = state().saved_hooks
    return Packed(tensor, edge, *hooks[-1]) if hooks else Saved(tensor, edge)


class Relay(Node):
    """A place in the graph of its own for what lies elsewhere: it hands gradients on unchanged."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return "clone"

    @property
    def input_names(self) -> Sequence[str]:
        return ("x",)

    @property
    def output_specs(self) -> Sequence[Spec | None]:
        return self.input_specs

    def backward(self, cotangents: list[Tensor | None]) -> Sequence[Tensor | None]:
        return cotangents


def apart(x: Tensor, edge: Edge | None, line: UserLine | None) -> Tensor:
    """The elements of `x` at a place of their own, from where gradients go along `edge`."""
    return x.attached(Relay([edge], [x.spec], 1, line), 0)
