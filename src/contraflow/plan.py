"""Where everything lies: slots for values, and the order of steps. No device is named here.

A `Plan` is what a device loads: steps over slots. A slot is a whole value; temporaries also get
an offset in one arena, chosen so that values alive at the same time do not overlap. A device may
use those offsets, or pool buffers by slot instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from contraflow.dtypes import DType
from contraflow.kernel import Call

ALIGNMENT = 64  # bytes; a cache line, and the widest vector


class Binding(NamedTuple):
    """What a kernel operand is bound to: a slot, from an element offset on.

    A scalar operand is bound to `(SCALARS, i)`: word i of the block of host scalars.
    """

    slot: int
    offset: int = 0


SCALARS = -1


@dataclass
class Slot:
    """Room for one value. `kind` is temp (in the arena), input or output (given per replay)."""

    kind: str
    dtype: DType
    numel: int
    offset: int = 0  # in bytes within the arena, for temps

    @property
    def nbytes(self) -> int:
        """Bytes of the value."""
        return self.numel * self.dtype.itemsize


@dataclass
class KernelStep:
    """Run a kernel. `line` is the number of the tape line that errors are blamed on."""

    call: Call
    bindings: tuple[Binding, ...]
    line: int = 0


@dataclass
class HostStep:
    """Run Python over arrays: an op without a kernel. Arrays are contiguous, in slot order."""

    name: str
    run: Callable[..., Any]  # arrays of `reads` in, arrays for `writes` out
    reads: tuple[int, ...]  # slots
    writes: tuple[int, ...]
    shapes: dict[int, tuple[int, ...]] = field(default_factory=dict)
    line: int = 0


@dataclass
class Plan:
    """Steps in order over slots, the size of the arena, and the number of host scalars."""

    slots: list[Slot]
    steps: list[KernelStep | HostStep]
    arena_bytes: int
    scalar_dtypes: list[DType]  # per word of the scalar block: a float (float64) or int (int64)
