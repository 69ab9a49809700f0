"""Reads of places in the graph: where backward, inside the function, comes to tensors from outside.

Which hooks run there, and whether what it looks for can be reached on other ways.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from contraflow.capture.state.places import (
    NOTHING_THERE,
    ConditionWriter,
    GivenArguments,
    Place,
)
from contraflow.capture.state.reads import Read
from contraflow.tensors.hooks import hooks_in
from contraflow.tensors.node import Node, below
from contraflow.tensors.tensor import Tensor


class _HooksThatRan(Read):
    """The hooks on a tensor from outside that backward ran inside the function."""

    __slots__ = ("addresses", "kept")

    def __init__(self, place: Place, hooks: Sequence[Any], keep: Callable[[Any], Any]) -> None:
        super().__init__(place)
        self.addresses, self.kept = [*map(id, hooks)], [keep(hook) for hook in hooks]

    def are_there(self, hooks: Sequence[Any]) -> bool:
        """Whether hooks are those that ran."""
        return [*map(id, hooks)] == self.addresses

    def __str__(self) -> str:
        return f"hooks on {self.place}"


class LeafHooks(_HooksThatRan):
    """The hooks on an argument that is a leaf."""

    __slots__ = ()

    def fits(self, value: Any) -> bool:
        return value._node is None and self.are_there(
            hooks_in(value._hooks, value._accumulated_hooks)
        )

    def source(self, writer: ConditionWriter) -> str:
        here = writer.place(self.place)
        if len(self.addresses) == 2:  # the ends of both tables
            return f"not ({here}._node or {here}._hooks or {here}._accumulated_hooks)"
        return f"{writer.name(self.fits)}({here})"

    def change(self, given: GivenArguments) -> str:
        with suppress(*NOTHING_THERE):
            if self.place.get(given)._node is not None:
                return f"{self.place} was a leaf and is the result of an op"
        return f"the hooks on {self.place} have changed"


class ResultHooks(_HooksThatRan):
    """The hooks on the result of an op, whether its gradient is retained, and for which tensor."""

    __slots__ = ("retains",)

    def __init__(
        self, place: Place, hooks: Sequence[Any], retains: bool, keep: Callable[[Any], Any]
    ) -> None:
        super().__init__(place, hooks, keep)
        self.retains = retains

    def fits(self, value: Any) -> bool:
        node: Node | None = value.node
        if node is None or value._retains is not self.retains:
            return False
        watchers = node.watchers
        if watchers is None:
            return self.are_there(hooks_in(None))
        kept = watchers.retainers.get(value._index)
        if kept is not None and kept() not in (None, value):
            return False
        return self.are_there(hooks_in(watchers.tensor_hooks.get(value._index)))

    def source(self, writer: ConditionWriter) -> str:
        return f"{writer.name(self.fits)}({writer.place(self.place)})"

    def change(self, given: GivenArguments) -> str:
        with suppress(*NOTHING_THERE):
            value = self.place.get(given)
            if value.node is None:
                return f"{self.place} was the result of an op and is a leaf"
            if value._retains is not self.retains:
                return f"retains_grad of {self.place} was {self.retains} and is {value._retains}"
        return f"the hooks on {self.place} have changed"


class OutsideGraph(Read):
    """Nothing outside leads from where backward met tensors to those that it looked for.

    Otherwise it would go on there, and no recording knows those nodes.
    """

    __slots__ = ("met", "targets")

    def __init__(self, targets: Sequence[Place], met: Sequence[Place]) -> None:
        super().__init__(targets[0])
        self.targets, self.met = targets, met

    def holds(self, given: GivenArguments) -> bool:
        try:
            met = [place.get(given) for place in self.met]
            return ends_apart(met, [place.get(given) for place in self.targets])
        except NOTHING_THERE:
            return False

    def source(self, writer: ConditionWriter) -> str:
        met, targets = (
            "".join(f"{writer.place(place)}, " for place in places)
            for places in (self.met, self.targets)
        )
        return f"{writer.name(ends_apart)}(({met}), ({targets}))"

    def change(self, given: GivenArguments) -> str:
        return f"whether an argument was computed from {self.place} has changed"


def ends_apart(met: Sequence[Tensor], targets: Sequence[Tensor]) -> bool:
    """Whether no target can be reached from behind the tensors that were met."""
    nodes = [node for t in met if (node := t.node) is not None]
    if not nodes:
        return True
    wanted = {id(t if t.node is None else t.node) for t in targets}
    ends = [t.node for t in targets]
    oldest = 0 if None in ends else min(node.sequence_nr for node in ends if node is not None)
    behind = [edge for node in nodes for edge in node.edges if edge is not None]
    return wanted.isdisjoint(map(id, below(behind, oldest)))
