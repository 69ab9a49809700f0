"""The parts of a recording: where inputs of its tape are found, and what each replay repeats."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from contraflow.compiler.tape import Tape, TapeOperand, Value
from contraflow.tensors.generator import Generator
from contraflow.tensors.host_scalar import HostScalar
from contraflow.tensors.source_line import UserLine
from contraflow.tensors.storage import Storage
from contraflow.tensors.symbol import NumberStep
from contraflow.tensors.tensor import Tensor


class RecordedEffects(NamedTuple):
    """The effects of a recording at one point of it, to be compared with a later one."""

    written: dict[Value, Value]  # inputs, and the values that they hold now
    gradients: dict[int, int]
    scalars: dict[HostScalar, int]
    generators: dict[Generator, tuple[int, int]]


@dataclass(eq=False, repr=False)
class InputSource:
    """Where an input of the tape is found at each replay."""

    role: str
    storage: weakref.ref[Storage] | None = None  # state
    constant: Storage | None = None  # made during the recording, so the program owns it
    argument: int = -1  # arg: the index of the tensor among the arguments; scalar: see Known
    owner: weakref.ref[Tensor] | None = None  # grad: its slot holds it; state: it showed it
    cell: weakref.ref[HostScalar] | None = None  # scalar
    generator: Generator | None = None  # scalar: its seed or its offset
    field: str = ""
    moved: str | None = None  # the device to which each replay copies it

    @property
    def is_argument(self) -> bool:
        """Whether it is a tensor among the arguments."""
        return self.role == "arg"

    @property
    def is_argument_number(self) -> bool:
        """Whether it is a number that follows from those among the arguments."""
        return self.role == "scalar" and self.cell is None and self.generator is None

    def find(self, arguments: Sequence[Tensor]) -> Storage | None:
        """The storage in a call with these arguments, None if it is gone."""
        if self.is_argument:
            return arguments[self.argument].storage
        if self.constant is not None:
            return self.constant
        if self.role == "grad":
            assert self.owner is not None
            owner = self.owner() if self.argument < 0 else arguments[self.argument]
            return None if owner is None or owner._grad is None else owner._grad.storage
        assert self.storage is not None
        return self.storage()

    def number(self, numbers: Sequence[Any]) -> int | float | None:
        """The host scalar in a call with these leaves and other numbers, None if it is gone."""
        if self.generator is not None:
            number: int = getattr(self.generator, self.field)
            return number
        if self.cell is None:
            return numbers[self.argument]  # type: ignore[no-any-return]
        cell = self.cell()
        return None if cell is None else cell.value


@dataclass(eq=False, repr=False)
class GradSlot:
    """A `.grad` slot that the function touched."""

    tensor: Tensor
    original: Tensor | None
    read_first: bool
    argument: int  # the index of the tensor among the arguments, -1 for state


@dataclass(eq=False, repr=False)
class TouchedGenerator:
    """A random generator that the function touched."""

    original: tuple[int, int]
    fixed: bool = False  # seeded by the function: the numbers are the same at every replay
    values: tuple[Value, Value] | None = None  # seed and offset as they were at the start
    # The states that the function was given, and whether each was fixed.
    known: dict[tuple[int, int], bool] = field(default_factory=dict)


@dataclass(eq=False, repr=False)
class Recording:
    """The parts of a finished recording, beside the tape."""

    tape: Tape
    sources: dict[Value, InputSource]
    slots: dict[int, GradSlot] = field(default_factory=dict)
    final_grads: dict[int, Tensor | None] = field(default_factory=dict)
    cells: dict[HostScalar, TapeOperand] = field(default_factory=dict)  # host scalars that were set
    own_cells: list[weakref.ref[HostScalar]] = field(default_factory=list)  # that the function made
    advances: dict[Generator, int] = field(default_factory=dict)  # blocks drawn
    reseeds: dict[Generator, tuple[int, int]] = field(default_factory=dict)
    modules: list[tuple[weakref.ref[Any], int]] = field(default_factory=list)
    writers: dict[Value, tuple[str, UserLine | None]] = field(default_factory=dict)
    needs: list[tuple[int, Tensor, bool]] = field(default_factory=list)  # requires_grad_ of leaves
    # Methods that change the place of a tensor from outside: detach_, retain_grad.
    placed: list[tuple[int, Tensor, str]] = field(default_factory=list)
    hooks: dict[int, tuple[Any, ...]] = field(default_factory=dict)  # of arguments, that ran
    looks_around: bool = False  # whether it matters that an argument is a part of a tensor
    once: bool = False  # what it depends on has changed meanwhile
    leaves: int = 0  # of the arguments
    steps: Sequence[NumberStep] = ()  # what Python computed of the numbers among them
