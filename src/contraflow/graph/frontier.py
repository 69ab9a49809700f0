"""The frontier of a backward pass: nodes and leaves at which cotangents have arrived."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

from contraflow.tensors.node import Node

if TYPE_CHECKING:
    from contraflow.tensors.tensor import Tensor


class Frontier:
    """Cotangents that wait for the turn of their node, or for the end if they are a leaf's.

    An entry is a list: a node or leaf, and for each of its outputs the sum of the cotangents that
    have arrived, None before the first.
    """

    __slots__ = ("nodes", "leaves", "heap")

    def __init__(self) -> None:
        self.nodes: dict[int, list[Any]] = {}  # entries by the sequence number of the node
        self.leaves: dict[int, list[Any]] = {}  # entries by the id of the tensor
        self.heap: list[int] = []  # their sequence numbers, negated: the newest is the least

    def entry(self, target: Node | Tensor) -> list[Any]:
        """The entry of a node or leaf, made when the first cotangent arrives."""
        if isinstance(target, Node):
            number = target.sequence_nr
            found = self.nodes.get(number)
            if found is None:
                found = self.nodes[number] = [target, *(None,) * target.form.output_count]
                heapq.heappush(self.heap, -number)
        else:
            found = self.leaves.get(id(target))
            if found is None:
                found = self.leaves[id(target)] = [target, None]
        return found
