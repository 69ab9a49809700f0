"""Words of a run: what differs from one run of a program to the next, packed into one block.

Kernels find it there, in place of arguments that are passed by value: a graph of launches, recorded
once, would keep those of its first run.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from contraflow.compiler.plan import Plan

WORD = 8  # bytes


def addresses_of(address: Callable[[Any], int], buffers: Iterable[Any]) -> list[int]:
    """The addresses of buffers, by the function of their device; integers are addresses already."""
    return [b if type(b) is int else address(b) for b in buffers]


class RunWords:
    """The addresses of the caller's buffers, in slot order, and behind them the host scalars: a
    float64 or an int64 each.

    They lie in `block`, an array of c_uint64, from the word `first` on. All that changes them are
    functions of C: a call that hits sets them.
    """

    def __init__(self, plan: Plan, block: Any = None, first: int = 0) -> None:
        self.slots = [i for i, slot in enumerate(plan.slots) if slot.kind != "temp"]
        addresses, scalars = len(self.slots), len(plan.scalar_dtypes)
        self.block = (ctypes.c_uint64 * (addresses + scalars))() if block is None else block
        self.first, self.first_scalar = first, first + addresses
        given = (ctypes.c_uint64 * addresses).from_buffer(self.block, WORD * first)
        self.put: Callable[[int, int], None] = given.__setitem__
        self.set_addresses: Callable[..., None] = partial(
            struct.Struct(f"={addresses}Q").pack_into, self.block, WORD * first
        )
        kinds = ("d" if dtype.is_floating_point else "q" for dtype in plan.scalar_dtypes)
        self._scalars = struct.Struct("=" + "".join(kinds))
        self.set_scalars: Callable[..., None] = partial(
            self._scalars.pack_into, self.block, WORD * self.first_scalar
        )

    @staticmethod
    def size(plan: Plan) -> int:
        """The number of words that a plan needs."""
        return sum(slot.kind != "temp" for slot in plan.slots) + len(plan.scalar_dtypes)

    @property
    def addresses(self) -> list[int]:
        """The addresses."""
        found: list[int] = self.block[self.first : self.first_scalar]
        return found

    @property
    def scalars(self) -> tuple[float | int, ...]:
        """The host scalars."""
        return self._scalars.unpack_from(self.block, WORD * self.first_scalar)
