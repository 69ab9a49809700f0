"""Results: how each replay finds or makes what a function returns or keeps."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import NamedTuple

from contraflow.capture.state.effects import EffectWriter
from contraflow.capture.state.places import Place
from contraflow.compiler.tape import Value
from contraflow.dtypes import DType
from contraflow.errors import GradientError
from contraflow.shapes import View
from contraflow.tensors.node import Form, Node
from contraflow.tensors.source_line import UserLine, at
from contraflow.tensors.storage import Storage
from contraflow.tensors.tensor import Tensor


class Fresh(NamedTuple):
    """A tensor over one of the program's outputs."""

    position: int
    view: View
    dtype: DType


class SharedResult(NamedTuple):
    """A view of the storage of an input: a new one, or the tensor itself if it lives on."""

    origin: Value  # the input
    view: View
    dtype: DType
    tensor: weakref.ref[Tensor]

    def over(self, storage: Storage) -> Tensor:
        """The tensor, over the storage that the input has in this call."""
        t = self.tensor()
        if t is not None and t.storage is storage and t.layout == self.view:
            return t
        return Tensor.of_storage(storage, self.view, self.dtype)

    def source(self, writer: EffectWriter) -> str:
        """The tensor as an expression."""
        return f"{writer.name(self.over)}({writer.storage(self.origin)})"


class ArgumentResult(NamedTuple):
    """One of the arguments itself."""

    argument: int

    def source(self, writer: EffectWriter) -> str:
        """The argument in the function of a call that hits."""
        return f"a{self.argument}"


class NumberResult(NamedTuple):
    """A number."""

    value: int | float

    def source(self, writer: EffectWriter) -> str:
        """The number as an expression."""
        return writer.name(self.value)


class ComputedNumber(NamedTuple):
    """A number that Python computes from others in every call."""

    position: int  # among all numbers of a call


class HostNumber(NamedTuple):
    """A number that a program computes from host scalars, such as a learning rate."""

    position: int
    kind: type

    def source(self, writer: EffectWriter) -> str:
        """The number as an expression."""
        return f"{writer.name(self.kind)}({writer.number(self.position)})"


class Found(NamedTuple):
    """The Python value at a place when the call is made."""

    place: Place

    def source(self, writer: EffectWriter) -> str:
        """The variable that holds the value."""
        return writer.place(self.place)


class Graded(NamedTuple):
    """A result with a place in the graph: an output of the call's node, or a leaf of its own."""

    result: Fresh | SharedResult
    output: int  # of the node, -1 for a leaf
    writable: bool


class SameResult(NamedTuple):
    """The same tensor as another result."""

    original: int  # the position of that one

    def source(self, writer: EffectWriter) -> str:
        """The variable that holds the tensor; see `hit.py`."""
        return f"leaf{self.original}"


class StoreKey(NamedTuple):
    """A key of a store of gradients: a tensor inside the function that is not a result."""

    node: weakref.ref[Node]  # as recorded; it lives on where somebody keeps the tensor
    sequence_nr: int  # of the node
    output: int  # of that
    name: str
    label: str
    line: UserLine | None
    form: Form
    input_names: tuple[str, ...]

    def stand_in(self) -> Node:
        """The node that stands for it in a store."""
        return self.node() or Inside(self)


class Inside(Node):
    """A node inside a call of a compiled function: a key of stores, without its graph."""

    __slots__ = ("key",)

    def __init__(self, key: StoreKey) -> None:
        specs, count = key.form.input_specs, key.form.output_count
        super().__init__([None] * len(specs), specs, count, key.line)
        self.key = key

    @property
    def name(self) -> str:
        return self.key.name

    @property
    def label(self) -> str:
        return self.key.label

    @property
    def input_names(self) -> Sequence[str]:
        return self.key.input_names

    def backward(self, cotangents: list[Tensor | None]) -> Sequence[Tensor | None]:
        raise GradientError(
            f"backward: {self.name}{at(self.line)} was applied inside a compiled function, which "
            f"keeps no graph of its parts. Call backward on its results."
        )


# Results that the function of a call that hits makes itself, beside new tensors.
HitResult = SharedResult | ArgumentResult | NumberResult | HostNumber | Found | SameResult
Result = (
    Fresh
    | SharedResult
    | ArgumentResult
    | NumberResult
    | ComputedNumber
    | HostNumber
    | Found
    | Graded
    | SameResult
    | StoreKey
)
