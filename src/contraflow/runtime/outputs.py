"""The memory of a program's outputs: blocks that are used again once nobody holds them.

Whether somebody does is seen from the counts of references.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from sys import getrefcount
from types import SimpleNamespace
from typing import Any

import numpy as np

from contraflow import devices
from contraflow.devices.cpu import memory
from contraflow.spec import Spec
from contraflow.tensors.grad_slot import Block, Notice, put_blocks, slots_lock
from contraflow.tensors.tensor import Tensor


class OutputRoom:
    """Blocks for one output, used in turn: the older of two is reused unless something holds it.

    Memory that was written before is faster to write than fresh pages.
    """

    __slots__ = ("idle", "recent", "_spec", "_device")

    def __init__(self, spec: Spec, device: devices.DeviceInterface) -> None:
        self._spec, self._device = (spec.shape, spec.dtype.numpy), device
        self.idle = self.recent = Block(None)

    def refill(self) -> Block:
        """A new block, in the place of one that is held."""
        array = memory.empty(*self._spec)
        block = Block(array, self._device.address(array))
        self.idle, self.recent = self.recent, block
        return block


def take(rooms: Sequence[OutputRoom], addresses: list[Any]) -> list[Block]:
    """A free block for each output; its address is appended to a list."""
    blocks = []
    for room in rooms:
        block = room.idle
        if getrefcount(block) == HELD_BY_ROOM and getrefcount(block.array) == HELD_BY_BLOCK:
            room.idle, room.recent = room.recent, block
        else:
            block = room.refill()
        blocks.append(block)
        addresses.append(block.address)
    return blocks


def take_written(room: str, block: str, place: int) -> list[str]:
    """The work of `take` for one output, as lines: its block is a variable, and where it lies goes
    to a place among the buffers of the program."""
    return [
        f"{block} = {room}.idle",
        f"if count({block}) == {HELD_BY_ROOM} and count({block}.array) == {HELD_BY_BLOCK}:",
        f"  {room}.idle = {room}.recent; {room}.recent = {block}",
        f"else: {block} = {room}.refill()",
        f"put({place}, {block}.address)",
    ]


class Standing:
    """Outputs that stay in one block from replay to replay, while nothing looks at them.

    `places` are their numbers among a program's buffers, and `owners` the tensors whose gradients
    they are.
    """

    def __init__(
        self,
        program: devices.ProgramInterface,
        places: Sequence[int],
        rooms: Sequence[OutputRoom],
        owners: Sequence[weakref.ref[Tensor]],
    ) -> None:
        self.notice = Notice()
        self.rooms = rooms
        self._program, self._all = program, list(zip(places, rooms, owners))
        self._fresh = False

    def take(self) -> None:
        """Switch to blocks that nothing looks at."""
        addresses: list[int] = []
        take(self.rooms, addresses)
        for (place, _, _), address in zip(self._all, addresses):
            self._program.put(place, address)
        self._fresh = True

    def give(self) -> None:
        """Give the blocks to their owners, now that they are filled.

        A block that was looked at meanwhile stays as it is, and its owner gets a copy.
        """
        with slots_lock:
            given: list[tuple[Tensor, Block]] = []
            for place, room, owner_ref in self._all:
                block = room.recent
                if not self._fresh and getrefcount(block.array) > HELD_BY_BLOCK:
                    filled, block = block.array, room.refill()
                    np.copyto(block.array, filled)
                    self._program.put(place, block.address)
                block.notice = self.notice
                owner = owner_ref()
                if owner is not None:
                    given.append((owner, block))
            put_blocks(given)
            self._fresh = False
            self.notice.given = False  # last: the call after an interrupted one does all this again


def _references() -> tuple[int, int]:
    """How many references `take` counts to a block that only a room holds, and to its array."""
    room = SimpleNamespace(idle=Block(np.empty(0)))
    block = room.idle
    return getrefcount(block), getrefcount(block.array)


HELD_BY_ROOM, HELD_BY_BLOCK = _references()
