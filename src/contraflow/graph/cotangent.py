"""The representation of cotangents in backward: how they are added up, handed on, and shown.

Here they are tensors and a sum is an op, so that it is recorded, differentiated, and heard by every
context. A context may represent them in another way (`Context.cotangents`), of which a pass knows
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from contraflow.operation.context import state
from contraflow.spec import Spec
from contraflow.tensors.node import Edge

if TYPE_CHECKING:
    from contraflow.graph.engine import Pass
    from contraflow.graph.op_node import OpNode
    from contraflow.tensors.tensor import Tensor

Cotangent = Any  # a tensor, or what only the `Cotangents` that made it knows
Sent = tuple[Edge, Cotangent]  # a cotangent, and the edge along which it goes


class Cotangents:
    """Cotangents that are tensors."""

    # Whether some nodes can be gone through without their `backward`, by `advance` and `move`.
    has_shortcuts = False

    def tensor(self, g: Cotangent) -> Tensor:
        """A cotangent as a tensor that may be shown to users and other contexts."""
        found: Tensor = g
        return found

    def add(self, held: Cotangent, g: Cotangent) -> Cotangent:
        """The sum of two cotangents. Neither is used again."""
        return held + g

    def adopt(self, sent: list[Sent], mark: int) -> list[Sent]:
        """The gradients that the rules of a node have returned, as cotangents of this pass.

        One in a storage whose number is above `mark` was made by the rules, and the pass may be the
        only one that refers to it.
        """
        return sent

    def join(
        self, whole: Spec, dim: int, ends: Sequence[int], drops: bool, parts: Sequence[Any]
    ) -> Tensor | None:
        """The cotangent of a tensor that was cut along a dim (`PartsNode`), from those of parts.

        None where ops have to join them.
        """
        return None

    def advance(self, task: Pass, elsewhere: bool) -> None:
        """Go through the nodes that come next in a pass as far as there is a shortcut for them.

        On the cpu, whether there is one is noted in the form of a node (`Form.shortcut`), and the
        pass asks no more where there is none. The pass visits a node that is left. `elsewhere` if
        the pass began with tensors of another device.
        """
        raise NotImplementedError

    def move(self, node: OpNode, g: Cotangent) -> list[Sent] | None:
        """The gradients of a node whose form `moves`; None where its `backward` must run."""
        raise NotImplementedError


TENSORS = Cotangents()


def cotangents_of(create_graph: bool) -> Cotangents:
    """The representation of cotangents on this thread: tensors, if these are to have a graph."""
    found = None if create_graph else state().context.cotangents
    return found or TENSORS
