"""Results: how each replay finds or makes what a function returns or keeps.

Each kind has two faces: `get` from the values of a replay, and `source`, the same as source text
in the function of a call that hits (`hit.py`). Kinds that such a function cannot make have only
the first.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from contraflow import devices
from contraflow.capture.call import FunctionCall
from contraflow.capture.state.effects import EffectWriter
from contraflow.capture.state.guards import Held
from contraflow.capture.state.places import Place
from contraflow.compiler.tape import Value
from contraflow.dtypes import DType
from contraflow.errors import GradientError
from contraflow.operation.context import state
from contraflow.runtime.outputs import number_of
from contraflow.shapes import View
from contraflow.spec import Spec
from contraflow.tensors.grad_slot import Block
from contraflow.tensors.node import Form, Node
from contraflow.tensors.source_line import UserLine, at
from contraflow.tensors.storage import Storage
from contraflow.tensors.tensor import Tensor


class ReplayValues:
    """The values of one replay, of which its results are made."""

    def __init__(
        self,
        call: FunctionCall,
        storages: Sequence[Storage],
        inputs: dict[Value, int],
        outputs: Sequence[Any],
        specs: Callable[[int], Spec],
        device: str,
    ) -> None:
        self.call, self.outputs = call, outputs
        self._storages, self._inputs = storages, inputs  # by position, and positions by value
        self._specs = specs  # of the outputs
        self._device = device  # that they lie on
        self.node: Node | None = None  # of the call, where it has a backward
        self.numbers: Sequence[Any] = ()  # the leaves, and what Python computes of them
        self._made: dict[int, Storage] = {}
        self._moved: dict[tuple[int, str], Storage] = {}
        self._inside: dict[int, Node] = {}  # one node for all outputs of what was applied

    def storage(self, value: Value) -> Storage:
        """The storage of an input."""
        return self._storages[self._inputs[value]]

    def memory(self, position: int) -> Storage:
        """The storage of an output: results that were views of one storage stay so."""
        if position not in self._made:
            self._made[position] = storage = Storage(self._buffer(position), self._device)
            if state().inference:
                storage.inference = True
        return self._made[position]

    def moved(self, position: int, device: str) -> Storage:
        """The storage of a copy of an output on another device, one for all results over it."""
        key = position, device
        if key not in self._moved:
            array = devices.lookup(self._device).download(self._buffer(position))
            self._moved[key] = Storage(devices.lookup(device).upload(array), device)
        return self._moved[key]

    def fill(self, storage: Storage, position: int) -> None:
        """Give a storage that was recorded the memory of an output."""
        storage.receive(self._buffer(position))
        self._made[position] = storage

    def _buffer(self, position: int) -> Any:
        """The memory of an output, of one that is a number too."""
        output = self.outputs[position]
        if type(output) is Block:
            return output.array
        number = np.array(output, self._specs(position).dtype.numpy)
        return number if self._device == "cpu" else devices.lookup(self._device).upload(number)

    def number(self, position: int) -> Any:
        """An output as a number, or as an array of one."""
        return number_of(self.outputs[position])

    def node_inside(self, key: StoreKey) -> Node:
        """The node that stands for one inside the call."""
        if key.sequence_nr not in self._inside:
            self._inside[key.sequence_nr] = key.stand_in()
        return self._inside[key.sequence_nr]


class Fresh(NamedTuple):
    """A tensor over one of the program's outputs."""

    position: int
    view: View
    dtype: DType

    def get(self, values: ReplayValues) -> Tensor:
        """The tensor of this call."""
        return Tensor.of_storage(values.memory(self.position), self.view, self.dtype)


class ViewOf(NamedTuple):
    """How a view came from a tensor: by which ops, and whether it may be written under grad."""

    ops: tuple[Any, ...]
    writable: bool

    def attach(self, t: Tensor, x: Tensor) -> Tensor:
        """Make `t` that view of `x`."""
        t._base = base = x if x._base is None else x._base
        t._view_ops, t._edits = (*x.view_ops, *self.ops), base._edits
        if not self.writable:
            t._writable = False
        return t


class MovedResult(NamedTuple):
    """A tensor over a copy of one of the program's outputs, on another device."""

    position: int
    view: View
    dtype: DType
    device: str

    def get(self, values: ReplayValues) -> Tensor:
        """The tensor of this call."""
        return Tensor.of_storage(values.moved(self.position, self.device), self.view, self.dtype)


class SharedResult(NamedTuple):
    """A view of the storage of an input: a new one, or the tensor itself if it lives on."""

    origin: Value  # the input
    view: View
    dtype: DType
    tensor: weakref.ref[Tensor]
    viewed: tuple[Held, ViewOf] | None = None  # the tensor that it is a view of

    def get(self, values: ReplayValues) -> Tensor:
        """The tensor, over the storage that the input has in this call."""
        viewed = None if self.viewed is None else self.viewed[0].get(values.call.arguments)
        return self.over(values.storage(self.origin), viewed)

    def over(self, storage: Storage, viewed: Tensor | None = None) -> Tensor:
        """The tensor itself if it has this storage, or another one over the storage, as a view of
        the tensor that it was one of."""
        t = self.tensor()
        if t is not None and t.storage is storage and t.layout == self.view:
            return t
        t = Tensor.of_storage(storage, self.view, self.dtype)
        return t if self.viewed is None or viewed is None else self.viewed[1].attach(t, viewed)

    def source(self, writer: EffectWriter) -> str:
        """The tensor as an expression."""
        given = [writer.storage(self.origin)]
        if self.viewed is not None:
            argument, tensor, _ = self.viewed[0]
            given.append(f"a{argument}" if argument >= 0 else f"{writer.name(tensor)}()")
        return f"{writer.name(self.over)}({', '.join(given)})"


class ArgumentResult(NamedTuple):
    """One of the arguments itself."""

    argument: int

    def get(self, values: ReplayValues) -> Tensor:
        """The argument of this call."""
        return values.call.arguments[self.argument]

    def source(self, writer: EffectWriter) -> str:
        """The argument in the function of a call that hits."""
        return f"a{self.argument}"


class NumberResult(NamedTuple):
    """A number."""

    value: int | float

    def get(self, values: ReplayValues) -> int | float:
        """The number."""
        return self.value

    def source(self, writer: EffectWriter) -> str:
        """The number as an expression."""
        return writer.name(self.value)


class ComputedNumber(NamedTuple):
    """A number that Python computes from others in every call."""

    position: int  # among all numbers of a call

    def get(self, values: ReplayValues) -> Any:
        """The number of this call."""
        return values.numbers[self.position]


class HostNumber(NamedTuple):
    """A number that a program computes from host scalars, such as a learning rate."""

    position: int
    kind: type

    def get(self, values: ReplayValues) -> Any:
        """The number of this call."""
        return self.kind(values.number(self.position))

    def source(self, writer: EffectWriter) -> str:
        """The number as an expression."""
        return f"{writer.name(self.kind)}({writer.number(self.position)})"


class Found(NamedTuple):
    """The Python value at a place when the call is made."""

    place: Place

    def get(self, values: ReplayValues) -> Any:
        """The value in this call."""
        return self.place.get(values.call.given)

    def source(self, writer: EffectWriter) -> str:
        """The variable that holds the value."""
        return writer.place(self.place)


class Graded(NamedTuple):
    """A result with a place in the graph: an output of the call's node, or a leaf of its own."""

    result: Fresh | MovedResult | SharedResult
    output: int  # of the node, -1 for a leaf
    writable: bool

    def get(self, values: ReplayValues) -> Tensor:
        """The tensor of this call, with its place in the graph."""
        t = self.result.get(values)
        if self.output < 0:
            t._needs = True
            return t
        node = values.node
        assert node is not None
        if isinstance(self.result, (Fresh, MovedResult)):
            t._node, t._index, t._needs = node, self.output, True
        else:  # which may be the user's own
            t = t.attached(node, self.output)
        if not self.writable:
            t._writable = False
        return t


class SameResult(NamedTuple):
    """A result that is the same tensor as another result."""

    original: int  # the position of that one

    def get(self, values: ReplayValues) -> None:
        """None: the program puts the other result there, once that is built."""

    def source(self, writer: EffectWriter) -> str:
        """The variable that holds the tensor; see `hit.py`."""
        return f"leaf{self.original}"


class GradientResult(NamedTuple):
    """The gradient that a tensor has when the call begins."""

    held: Held

    def get(self, values: ReplayValues) -> Any:
        """The gradient, which no effect has replaced yet."""
        owner = self.held.get(values.call.arguments)
        return None if owner is None else owner._grad


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

    def get(self, values: ReplayValues) -> tuple[Node, int]:
        """The key: the node that stands for this one, and its output."""
        return values.node_inside(self), self.output

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
# A gradient that a replay puts into `.grad`: a new tensor, or one of the results.
SlotResult = Fresh | SameResult
Result = (
    Fresh
    | MovedResult
    | SharedResult
    | ArgumentResult
    | NumberResult
    | ComputedNumber
    | HostNumber
    | Found
    | Graded
    | SameResult
    | GradientResult
    | StoreKey
)
