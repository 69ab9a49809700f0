"""The changes that a recorded function makes to places in the graph and to hooks from outside.

A recording undoes all of them. Of places in the graph each replay repeats the changes; hooks that a
function leaves or removes are refused. The tensors that backward finds there are noted for guards.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from contraflow.tensors.hooks import hooks_in, keys
from contraflow.tensors.node import Edge, Node, nodes_below
from contraflow.tensors.source_line import UserLine
from contraflow.tensors.tensor import Tensor


class GraphPlace(NamedTuple):
    """The place of a tensor in the graph before the function changed it."""

    tensor: Tensor
    node: Node | None
    output: int  # of the node
    needs: bool
    edits: int
    retains: bool
    tangents: Any
    retainers: dict[int, Any] | None  # of the node

    @staticmethod
    def of(t: Tensor) -> GraphPlace:
        """The place of a tensor as it is now."""
        watchers = None if t._node is None else t._node.watchers
        retainers = None if watchers is None else dict(watchers.retainers)
        return GraphPlace(
            t, t._node, t._index, t._needs, t._edits, t._retains, t._tangents, retainers
        )

    @property
    def edge(self) -> Edge | None:
        """Where the tensor's gradient went."""
        if self.node is not None:
            return self.node, self.output
        return (self.tensor, 0) if self.needs else None

    def restore(self) -> None:
        """Put the tensor back."""
        t = self.tensor
        t._node, t._index, t._needs, t._edits = self.node, self.output, self.needs, self.edits
        t._retains, t._tangents = self.retains, self.tangents
        if self.node is not None and self.node.watchers is not None:
            self.node.watchers.retainers = dict(self.retainers or {})


class TouchedHooks(NamedTuple):
    """A table of hooks from outside that the function changed."""

    owner: str  # for messages
    table: dict[int, Any]
    before: dict[int, Any]
    line: UserLine | None  # that changed it first


class ReachedResult(NamedTuple):
    """The result of an op outside at which backward has ended, as it was before the function."""

    tensor: Tensor
    hooks: tuple[Any, ...]
    retains: bool


class Search(NamedTuple):
    """The tensors from outside that backward looked for, and those that it met."""

    targets: list[Tensor]
    met: list[Tensor]


class GraphChanges:
    """The changes that one recording has made to the graph from outside, and what it found there.

    `first_node` is the number of its first node.
    """

    def __init__(self, first_node: int) -> None:
        self.first_node = first_node
        self.reached: dict[int, ReachedResult] = {}  # by id of the tensor
        self.searches: list[Search] = []
        self.places: dict[int, GraphPlace] = {}  # by id of the tensor
        self.methods: list[tuple[Tensor, str]] = []  # that changed them, as they came
        self.needs: dict[int, Tensor] = {}  # leaves whose `requires_grad` was set
        self.hooks: dict[int, TouchedHooks] = {}  # by id of the table
        self.first_hook = next(keys)

    def keep_place(self, tensor: Tensor) -> None:
        """Note the place of a tensor before it is changed."""
        if id(tensor) not in self.places:
            self.places[id(tensor)] = GraphPlace.of(tensor)

    def keep_hooks(self, owner: str, table: dict[int, Any], line: UserLine | None) -> None:
        """Note a table of hooks before it is changed."""
        if id(table) not in self.hooks:
            self.hooks[id(table)] = TouchedHooks(owner, table, dict(table), line)

    def set_needs(self, tensor: Tensor) -> None:
        """Whether a leaf requires grad is about to be set."""
        self.keep_place(tensor)
        self.needs[id(tensor)] = tensor

    def call(self, tensor: Tensor, method: str) -> None:
        """A method is about to change the place of a tensor, and every replay calls it too.

        A view whose base was written finds its place by itself, without a method.
        """
        self.keep_place(tensor)
        # To retain the gradient of a leaf that only the function lets require grad does nothing.
        if method and (id(tensor) not in self.needs or method == "detach_"):
            self.methods.append((tensor, method))

    @property
    def detached(self) -> dict[Tensor, bool]:
        """The tensors that `detach_` was called on; whether each was a leaf before."""
        found = [t for t, method in self.methods if method == "detach_"]
        return {t: self.places[id(t)].node is None for t in found}

    @property
    def as_leaves(self) -> dict[Tensor, bool]:
        """The tensors that became leaves, or had to be; whether each was a leaf before."""
        return dict.fromkeys(self.needs.values(), True) | self.detached

    def repeated(self) -> list[tuple[Tensor, str]]:
        """The calls of methods that every replay repeats."""
        again = [(t, "requires_grad_") for t in self.detached if t._needs]
        return [*self.methods, *again]

    def edges_of(self, tensor: Tensor) -> list[tuple[Edge, bool]]:
        """Where the gradient of a tensor went before, and goes now.

        With each edge, whether the function has detached the tensor by then.
        """
        place = self.places.get(id(tensor))
        edges = (
            (None if place is None else place.edge, False),
            (tensor.edge, tensor in self.detached),
        )
        return [(edge, placed) for edge, placed in edges if edge is not None]

    def hooks_before(self, leaf: Tensor) -> tuple[Any, ...]:
        """The hooks on a leaf as they were."""
        tables = (leaf._hooks, leaf._accumulated_hooks)
        known = (self.hooks.get(id(table)) for table in tables)
        return hooks_in(*(now if was is None else was.before for now, was in zip(tables, known)))

    def search(
        self, roots: Sequence[Tensor], targets: list[Tensor], known: Iterable[Tensor]
    ) -> Node | None:
        """Backward looks from roots for targets, which are from outside, as are those known.

        Gives a node from outside that it meets of which no tensor is known.
        """
        starts = [edge for root in roots if (edge := root.edge) is not None]
        nodes = nodes_below(starts, self.first_node)
        ends = {id(end): end for node in nodes for end in node.targets}
        ends |= {id(end): end for end, _ in starts}
        for inside in nodes:  # a view that the function made of a tensor from outside is not an end
            ends.pop(id(inside), None)
        met: dict[int, Tensor] = {}
        for t in (*targets, *known):  # values that were saved stand at the same places, later
            for (end, _), _ in self.edges_of(t):
                if id(end) in ends:
                    met.setdefault(id(end), t)
        self.searches.append(Search(targets, list(met.values())))
        for t in targets:
            node = t.node
            if node is not None and id(node) in met and id(t) not in self.reached:
                self.reached[id(t)] = self._reached(t, node)
        outside = (
            end for end in ends.values()
            if isinstance(end, Node) and end.sequence_nr < self.first_node and id(end) not in met
        )  # fmt: skip
        return next(outside, None)

    def _reached(self, t: Tensor, node: Node) -> ReachedResult:
        watchers, place = node.watchers, self.places.get(id(t))
        table = None if watchers is None else watchers.tensor_hooks.get(t._index)
        was = self.hooks.get(id(table))
        hooks = hooks_in(table if was is None else was.before)
        return ReachedResult(t, hooks, t._retains if place is None else place.retains)

    def restore(self) -> None:
        """Put everything back."""
        for place in self.places.values():
            place.restore()
        for _, table, before, _ in self.hooks.values():
            table.clear()  # handles refer to the dict itself
            table.update(before)
        self.places, self.methods, self.needs = {}, [], {}  # which keep tensors alive
        self.reached, self.searches = {}, []
