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
from contraflow.spec import Spec
from contraflow.tensors.grad_slot import Block, Notice, put_blocks, slots_lock
from contraflow.tensors.tensor import Tensor


class BlockPair:
    """Two blocks for one output, used in turn: the older is reused unless something holds it.

    Memory that was written before is faster to write than fresh pages.
    """

    __slots__ = ("idle", "recent", "_spec", "_device")

    def __init__(self, spec: Spec, device: devices.DeviceInterface) -> None:
        self._spec, self._device = spec, device
        self.idle = self.recent = Block(None)

    def copy(self, source: Any, target: Any) -> None:
        """Overwrite the memory of a block."""
        self._device.copy(source, target)

    def refill(self) -> Block:
        """A new block, in the place of one that is held."""
        array = self._device.allocate(self._spec.shape, self._spec.dtype)
        block = Block(array, self._device.address(array))
        self.idle, self.recent = self.recent, block
        return block


def number_of(output: Any) -> Any:
    """An output of a program that is a number, or whose block holds one."""
    if type(output) is not Block:
        return output
    buffer = output.array
    return buffer if isinstance(buffer, np.ndarray) else buffer.device.download(buffer)


def take(pairs: Sequence[BlockPair], addresses: list[Any]) -> list[Block]:
    """A free block for each output; its address is appended to a list."""
    blocks = []
    for pair in pairs:
        block = pair.idle
        if getrefcount(block) == HELD_BY_PAIR and getrefcount(block.array) == HELD_BY_BLOCK:
            pair.idle, pair.recent = pair.recent, block
        else:
            block = pair.refill()
        blocks.append(block)
        addresses.append(block.address)
    return blocks


def take_lines(pair: str, block: str, index: int) -> list[str]:
    """The work of `take` for one output, as lines: its block is a variable, and its address becomes
    the buffer of the program with this index."""
    return [
        f"{block} = {pair}.idle",
        f"if count({block}) == {HELD_BY_PAIR} and count({block}.array) == {HELD_BY_BLOCK}:",
        f"  {pair}.idle = {pair}.recent; {pair}.recent = {block}",
        f"else: {block} = {pair}.refill()",
        f"put({index}, {block}.address)",
    ]


class Standing:
    """Outputs that stay in one block from replay to replay, while nothing looks at them.

    `indices` are those of the program's buffers that they are, and `owners` the tensors whose
    gradients they are.
    """

    def __init__(
        self,
        program: devices.ProgramInterface,
        indices: Sequence[int],
        pairs: Sequence[BlockPair],
        owners: Sequence[weakref.ref[Tensor]],
    ) -> None:
        self.notice = Notice()
        self.pairs = pairs
        self._program, self._all = program, list(zip(indices, pairs, owners))
        self._fresh = False

    def take(self) -> None:
        """Switch to blocks that nothing refers to."""
        addresses: list[int] = []
        take(self.pairs, addresses)
        for (index, _, _), address in zip(self._all, addresses):
            self._program.put(index, address)
        self._fresh = True

    def give(self) -> None:
        """Give the blocks to their owners, now that they are filled.

        A block that was looked at meanwhile stays as it is, and its owner gets a copy.
        """
        with slots_lock:
            given: list[tuple[Tensor, Block]] = []
            for index, pair, owner_ref in self._all:
                block = pair.recent
                if not self._fresh and getrefcount(block.array) > HELD_BY_BLOCK:
                    filled, block = block.array, pair.refill()
                    pair.copy(filled, block.array)
                    self._program.put(index, block.address)
                block.notice = self.notice
                owner = owner_ref()
                if owner is not None:
                    given.append((owner, block))
            put_blocks(given)
            self._fresh = False
            self.notice.given = False  # last: the call after an interrupted one does all this again


def _references() -> tuple[int, int]:
    """How many references `take` counts to a block that only a pair holds, and to its array."""
    pair = SimpleNamespace(idle=Block(np.empty(0)))
    block = pair.idle
    return getrefcount(block), getrefcount(block.array)


HELD_BY_PAIR, HELD_BY_BLOCK = _references()
