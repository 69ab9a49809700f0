"""Nodes of the autograd graph: typed fields, no closures, so a graph can be walked and printed."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from contraflow.hooks import Handle
from contraflow.rules import Backward
from contraflow.spec import Spec
from contraflow.storage import Line, Place

if TYPE_CHECKING:
    from contraflow.tensor import Tensor

# Newer nodes have higher numbers, and a node is always newer than what it was computed from:
# descending numbers are an order in which backward may run.
numbers = itertools.count(1)

# Where a gradient goes: output `index` of a node, or a leaf tensor (index is then 0).
Edge = tuple["Node | Tensor", int]


def at(line: Line | None) -> str:
    """Where something happened, for a message."""
    return "" if line is None else f" at {line}"


class Watchers:
    """Who looks on when backward comes to a node. Most nodes have none."""

    def __init__(self) -> None:
        self.tensor_hooks: dict[int, dict[int, Any]] = {}  # of outputs, by their number
        self.pre_hooks: dict[int, Any] = {}
        self.post_hooks: dict[int, Any] = {}
        # Outputs whose gradient goes into their `.grad`, once all hooks have run.
        self.retainers: dict[int, weakref.ref[Tensor]] = {}
        self.metadata: dict[str, Any] = {}
        self.pushed = False  # forward mode: residuals too must be functions of the inputs


class Node:
    """One applied operation: where gradients of its inputs go, and what its rules need.

    Graphs are long, and Python's collector looks at every object: so targets and numbers of their
    outputs are two tuples and no pairs, and what most nodes do not have is in `watchers`.
    """

    __slots__ = (
        "targets", "indices", "input_specs", "output_count", "place", "sequence_nr", "done",
        "watchers", "__weakref__",
    )  # fmt: skip
    plan: Backward | None = None  # the rules of an op's node
    hands_over = True  # nobody keeps what its backward makes, so the engine may add to it in place

    def __init__(
        self,
        edges: Sequence[Edge | None],
        input_specs: Sequence[Spec | None],
        output_count: int,
        place: Place | None,
    ) -> None:
        self.targets = tuple([None if e is None else e[0] for e in edges])
        self.indices = tuple([0 if e is None else e[1] for e in edges])
        self.input_specs = input_specs
        self.output_count = output_count
        self.place = place
        self.sequence_nr = next(numbers)
        self.done = False  # backward has run and was not asked to retain the graph
        self.watchers: Watchers | None = None

    def watched(self) -> Watchers:
        """The watchers, to which one is about to be added."""
        if self.watchers is None:
            self.watchers = Watchers()
        return self.watchers

    @property
    def edges(self) -> list[Edge | None]:
        """Where the gradient of each input goes, None where none is needed."""
        pairs = zip(self.targets, self.indices)
        return [None if target is None else (target, index) for target, index in pairs]

    @property
    def name(self) -> str:
        """What was applied."""
        return type(self).__name__

    @property
    def line(self) -> Line | None:
        """Where the user applied it."""
        return None if self.place is None else Line(*self.place)

    @property
    def next_functions(self) -> tuple[Edge | None, ...]:
        """Where the gradients of the inputs go: nodes, leaf tensors, or None."""
        return tuple(self.edges)

    @property
    def saved(self) -> dict[str, Any]:
        """What is kept for backward, by name."""
        return {}

    @property
    def metadata(self) -> dict[str, Any]:
        """A place for users to keep what they like."""
        return self.watched().metadata

    def register_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call `hook(grad_inputs, grad_outputs)` after this node; it may return other inputs'."""
        return Handle(self.watched().post_hooks, hook)

    def register_prehook(self, hook: Callable[..., Any]) -> Handle:
        """Call `hook(grad_outputs)` before this node; it may return others."""
        return Handle(self.watched().pre_hooks, hook)

    def backward(self, cotangents: list[Tensor | None]) -> Sequence[Tensor | None]:
        """The gradient of each input, None where none is needed."""
        raise NotImplementedError

    def free(self) -> None:
        """Drop what was saved; a second backward through this node is an error then."""

    def __repr__(self) -> str:
        return f"<{self.name} #{self.sequence_nr}{at(self.line)}>"


def below(edges: Iterable[Edge], first: int = 0) -> list[Node | Tensor]:
    """The nodes since number `first`, and the leaves, that edges lead to: each once."""
    found: dict[int, Node | Tensor] = {}
    stack: list[Node | Tensor | None] = [target for target, _ in edges]
    while stack:
        end = stack.pop()
        if end is None or id(end) in found:
            continue
        if isinstance(end, Node):
            if end.sequence_nr < first:
                continue
            stack.extend(end.targets)
        found[id(end)] = end
    return list(found.values())


def nodes_below(edges: Iterable[Edge], first: int = 0) -> list[Node]:
    """The nodes among them, oldest first."""
    nodes = [end for end in below(edges, first) if isinstance(end, Node)]
    return sorted(nodes, key=lambda node: node.sequence_nr)
