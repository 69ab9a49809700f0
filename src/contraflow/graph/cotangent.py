"""How backward deals in cotangents: how they are added up, handed on, and shown.

Here they are tensors and a sum is an op, so that it is recorded, differentiated, and heard by every
context. A context may have a way of its own (`Context.cotangents`): to a pass, what travels then is
opaque.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from contraflow.operation.context import state
from contraflow.spec import Spec
from contraflow.tensors.node import Edge

if TYPE_CHECKING:
    from contraflow.graph.op_node import OpNode
    from contraflow.tensors.tensor import Tensor

Cotangent = Any  # a tensor, or what only the `Cotangents` that made it knows
Sent = tuple[Edge, Cotangent]  # a cotangent, and the edge along which it goes


class Cotangents:
    """Cotangents that are tensors."""

    # Whether some nodes can be gone through without their `backward`: the last four methods do it.
    has_shortcuts = False
    plain: frozenset[type] = frozenset()  # types of numbers: nobody owns one, and `+` adds them

    def tensor(self, g: Cotangent) -> Tensor:
        """A cotangent as somebody else may see it: itself, if others may have it already."""
        found: Tensor = g
        return found

    def add(self, held: Cotangent, g: Cotangent) -> Cotangent:
        """The sum of two cotangents. Neither is used again."""
        return held + g

    def take(self, sent: list[Sent], mark: int) -> list[Sent]:
        """The gradients that a node's rules have made, for nobody else.

        Storages with a number above `mark` are new.
        """
        return sent

    def place(
        self, whole: Spec, dim: int, ends: Sequence[int], drops: bool, parts: Sequence[Any]
    ) -> Tensor | None:
        """The cotangent of a tensor that was cut along a dim (`PartsNode`); None: ops join it."""
        return None

    def run(self, sweep: Callable[[], None]) -> None:
        """Call a function that runs the rules of several nodes on what they name (`named`)."""
        raise NotImplementedError

    def named(self, node: OpNode, g: Cotangent) -> list[Any] | None:
        """The values that the rules of a node name; None where `backward` must run."""
        raise NotImplementedError

    def owned(self, made: Any, came: Any) -> Cotangent:
        """The result of a rule as a cotangent that nothing else refers to."""
        raise NotImplementedError

    def move(self, node: OpNode, g: Cotangent) -> list[Sent] | None:
        """The gradients of a node whose form `moves`; None where its `backward` must run."""
        raise NotImplementedError


TENSORS = Cotangents()


def cotangents_of(create_graph: bool) -> Cotangents:
    """How this thread deals in cotangents: as tensors, if these are to have a graph."""
    found = None if create_graph else state().context.cotangents
    return found or TENSORS
