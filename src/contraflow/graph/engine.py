"""The backward pass: newest node first, without recursion.

A node is newer than everything it was computed from, so taking the newest of the nodes that hold
a cotangent is an order in which all cotangents of a node have arrived when its turn comes. They
arrive in the order of their consumers' sequence numbers, newest first, so sums are always formed
in the same order and the bits repeat.

The context decides what cotangents are (`cotangent.py`), and may have shortcuts through nodes.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from contraflow import threads
from contraflow.errors import (
    GradientError,
    GradientShapeError,
    NotScalarError,
    describe,
)
from contraflow.graph.cotangent import Cotangent, Cotangents, Sent, cotangents_of
from contraflow.graph.frontier import Frontier
from contraflow.operation import core
from contraflow.operation.context import changed, mixed, other_devices, state
from contraflow.shapes import numel
from contraflow.tensors.node import Edge, Node, Watchers, below, cast, fit, nodes_below
from contraflow.tensors.source_line import at
from contraflow.tensors.storage import serials

if TYPE_CHECKING:
    from contraflow.tensors.tensor import Tensor

_NOBODY = Watchers()


def backward(
    roots: Sequence[Tensor],
    gradients: Sequence[Tensor | None],
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Sequence[Tensor] | None = None,
    order: Callable[..., Pass] | None = None,
) -> None:
    """Accumulate gradients into the `.grad` of the leaves, or of `inputs` only.

    `order` is how the nodes are gone through, one after the other unless given.
    """
    if inputs is not None and not inputs:
        raise ValueError("backward: inputs is empty. Name tensors, or leave it out for all leaves.")
    starts = _start(roots, gradients)
    retain = create_graph if retain_graph is None else retain_graph
    if inputs is None:
        (order or Pass)(retain, create_graph, None).run(starts)
        return
    wanted = {id(x): x for x in inputs}.values()  # each once, however often it is named
    task = (order or Pass)(retain, create_graph, _targets("backward", roots, list(wanted)))
    for x in wanted:
        if x.node is not None:
            x.retain_grad()  # by which its gradient is accumulated, now and by later passes
    task.run(starts)
    found = task.found()
    with changed(grad=create_graph):
        for x, g in zip(wanted, found):
            if g is not None and x.node is None:
                _accumulate(x, g, False, create_graph)


def grad(
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    gradients: Sequence[Tensor | None],
    retain_graph: bool | None,
    create_graph: bool,
    allow_unused: bool,
    order: Callable[..., Pass] | None = None,
) -> tuple[Tensor | None, ...]:
    """The gradients of `inputs`, `.grad` untouched."""
    starts = _start(outputs, gradients)
    retain = create_graph if retain_graph is None else retain_graph
    task = (order or Pass)(retain, create_graph, _targets("grad", outputs, inputs))
    task.run(starts)
    found = task.found()
    if not allow_unused:
        for x, g in zip(inputs, found):
            if g is None:
                raise GradientError(
                    f"grad: {describe(x)} was not used to compute the output. Pass "
                    f"allow_unused=True to get None for it."
                )
    return tuple(found)


def gradients(
    roots: Sequence[Tensor],
    given: Sequence[Tensor | None],
    retain_graph: bool | None,
    create_graph: bool,
    everything: bool = False,
    order: Callable[..., Pass] | None = None,
) -> list[tuple[Node | Tensor | Edge, Tensor]]:
    """Every leaf with its gradient, `.grad` untouched; with `everything`, every node's output too.

    Nodes come first, the newest first, as backward comes to them.
    """
    starts = _start(roots, given)
    retain = create_graph if retain_graph is None else retain_graph
    task = (order or Pass)(retain, create_graph, None)
    task.collect(everything)
    task.run(starts)
    outputs = sorted((task.outputs or {}).values(), key=lambda found: -found[0][0].sequence_nr)
    return [*outputs, *(task.pairs or ())]


def _start(
    roots: Sequence[Tensor], gradients: Sequence[Tensor | None]
) -> list[tuple[Edge, Tensor]]:
    """Check the roots and their gradients before anything runs."""
    if len(roots) != len(gradients):
        raise ValueError(f"backward: {len(gradients)} gradients for {len(roots)} tensors.")
    starts = []
    for root, g in zip(roots, gradients):
        if not root.requires_grad:
            raise GradientError(
                f"backward: {describe(root)} does not require grad and was not computed from a "
                f"tensor that does. Call x.requires_grad_() on an input first."
            )
        if g is None:
            if numel(root.shape) != 1:
                raise NotScalarError(
                    f"backward: {describe(root)} is not a scalar, so it needs a gradient. Call "
                    f"out.sum().backward(), or out.backward(g) with g of shape {root.shape}.",
                    op="backward",
                    shape=root.shape,
                )
            if not other_devices:
                g = core.full(root.shape, 1.0, dtype=root.dtype)
            else:
                with changed(device=root.storage.device):
                    g = core.full(root.shape, 1.0, dtype=root.dtype)
        elif not hasattr(g, "storage"):
            raise TypeError(f"backward: the gradient must be a Tensor, not {type(g).__name__}.")
        elif g.shape != root.shape:
            raise GradientShapeError(
                f"backward: the gradient has shape {g.shape}, but the tensor {describe(root)} "
                f"has shape {root.shape}.",
                op="backward",
                shape=g.shape,
                expected=root.shape,
            )
        elif other_devices and g.storage.device != root.storage.device:
            raise mixed("backward", {"tensor": root, "gradient": g}, move="gradient")
        edge = root.edge
        assert edge is not None
        starts.append((edge, cast(g, root.dtype)))
    return starts


def _targets(caller: str, roots: Sequence[Tensor], inputs: Sequence[Tensor]) -> list[Edge]:
    edges = []
    for x in inputs:
        edge = x.edge
        if edge is None:
            raise GradientError(
                f"{caller}: {describe(x)} does not require grad, so it has no gradient."
            )
        edges.append(edge)
    context = state().context
    if context.is_recording:
        context.read_places(roots, inputs)
    return edges


def _needed(starts: Sequence[tuple[Edge, Any]], targets: Sequence[Edge]) -> set[int]:
    """The ids of the nodes from which some target can be reached."""
    needed: set[int] = set()
    leading = {id(t) for t, _ in targets}
    for node in nodes_below(edge for edge, _ in starts):  # what a node leads to is decided before
        if not leading.isdisjoint(map(id, node.targets)):
            needed.add(id(node))
            leading.add(id(node))
    return needed


class Pass:
    """One backward pass: cotangents on their way, and where they are collected.

    `run` takes the newest node off the frontier, `visit` runs it, and `deliver` adds the gradients
    of its inputs to the frontier, until there are no nodes; `finish_leaf` ends each leaf.

    The context decides what cotangents are (`Cotangents`). They are tensors where somebody
    looks: hooks, gradient rules of any kind, `.grad`. Where nobody looks, the context may have
    shortcuts: it goes through several nodes by itself (`Cotangents.advance`), or hands on the
    elements of a node that only moves them (`Cotangents.move`).
    """

    def __init__(self, retain: bool, create_graph: bool, targets: list[Edge] | None) -> None:
        self.retain, self.create_graph, self.targets = retain, create_graph, targets
        self.wanted = {(id(t), i) for t, i in targets or ()}
        self.collected: dict[tuple[int, int], Tensor] = {}
        self.needed: set[int] | None = None
        self.frontier = Frontier()
        self.starts: Sequence[tuple[Edge, Tensor]] = ()
        self.context = state().context
        self.anomaly = state().anomaly
        self.deal_in(cotangents_of(create_graph))
        # The gradients collected instead of accumulated: leaves, and outputs of nodes by place.
        self.pairs: list[tuple[Tensor, Tensor]] | None = None
        self.outputs: dict[tuple[int, int], tuple[tuple[Node, int], Tensor]] | None = None

    def deal_in(self, cotangents: Cotangents) -> None:
        """Represent cotangents in this way from now on."""
        self.cotangents = cotangents
        self.shortcuts = cotangents.has_shortcuts and not self.anomaly

    def collect(self, everything: bool) -> None:
        """Leave `.grad` alone and list the leaves; with `everything`, all outputs of nodes too."""
        self.pairs = []
        if everything:
            self.outputs = {}
            self.shortcuts = False  # every node is seen

    def run(self, starts: Sequence[tuple[Edge, Tensor]]) -> None:
        """Send the cotangents of the roots through the graph."""
        self.starts = starts
        if self.targets is not None:
            self.prepare(starts)
        heap, nodes, first = self.frontier.heap, self.frontier.nodes, self.context.first_node
        recording = self.context.is_recording
        advances = self.shortcuts
        elsewhere = bool(other_devices) and any(g.storage.device != "cpu" for _, g in starts)
        # The inside of a rule is not checked: infinities there may well cancel.
        with changed(grad=self.create_graph, anomaly=False, autocast=None, task=self):
            self.deliver(starts)
            while heap:
                if advances and (elsewhere or nodes[-heap[0]][0].form.shortcut is not False):
                    self.cotangents.advance(self, elsewhere)
                    if not heap:
                        break
                node, *cotangents = nodes.pop(-heapq.heappop(heap))
                if node.sequence_nr < first and self.runs(node):  # one that is a target need not
                    self.context.refuse_node(node)
                self.deliver(self.visit(node, cotangents))
            for leaf, value in self.frontier.leaves.values():
                if recording:
                    self.context.read_hooks(leaf)
                self.finish_leaf(leaf, value)

    def prepare(self, starts: Sequence[tuple[Edge, Tensor]]) -> None:
        """Find out which nodes lead to a target; the others need not run."""
        self.needed = _needed(starts, self.targets or ())

    def found(self) -> list[Tensor | None]:
        """The cotangents of the targets."""
        return [self.collected.get((id(t), i)) for t, i in self.targets or ()]

    def reaches(self, edge: Edge) -> bool:
        """Whether this pass will come to an edge's end, so that hooks there will run."""
        if self.needed is None:
            self.needed = {id(end) for end in below(start for start, _ in self.starts)}
        return self.goes_to(edge)

    def goes_to(self, edge: Edge) -> bool:
        """Whether cotangents are sent along an edge."""
        target, index = edge
        needed = self.needed
        return needed is None or id(target) in needed or (id(target), index) in self.wanted

    def runs(self, node: Node) -> bool:
        """Whether a node's rules are needed, and not only the cotangents that come to it."""
        return self.needed is None or id(node) in self.needed

    # --- cotangents -----------------------------------------------------------------------

    def deliver(self, sent: Iterable[Sent]) -> None:
        """Add cotangents to what has arrived at the ends of their edges."""
        everywhere = self.needed is None
        for edge, g in sent:
            if everywhere or self.goes_to(edge):
                target, index = edge
                entry = self.frontier.entry(target)
                held = entry[index + 1]
                entry[index + 1] = g if held is None else self.cotangents.add(held, g)

    # --- nodes ----------------------------------------------------------------------------

    def visit(self, node: Node, cotangents: list[Any]) -> Iterable[Sent]:
        """Visit a node: observers of its cotangents first, then its rules and hooks.

        Gives the gradients of its inputs, and where they go.
        """
        if self.shortcuts and node.form.moves and node.watchers is None:
            moved = self.moved(node, cotangents[0])
            if moved is not None:
                return moved
        for i, g in enumerate(cotangents):
            if g is not None:
                cotangents[i] = self.cotangents.tensor(g)
        watchers = node.watchers or _NOBODY
        if self.wanted or watchers is not _NOBODY or self.outputs is not None:
            self.observe(node, watchers, cotangents)
        if not self.runs(node):
            return ()
        if watchers.pre_hooks:
            cotangents = _call_prehooks(node, watchers.pre_hooks, cotangents)
        mark = next(serials)
        try:
            grads = node.backward(cotangents)
        except Exception as error:
            add_line(node, error)
            raise
        if len(grads) != len(node.targets):
            raise GradientError(
                f"backward: {node.name} returned {len(grads)} gradients for "
                f"{len(node.targets)} inputs."
            )
        if self.anomaly:
            _examine(node, cotangents, grads)
        shown = not node.hands_over
        if watchers.post_hooks:
            shown = True
            grads = _call_hooks_of(node, watchers.post_hooks, cotangents, grads)
        if not self.retain:
            node.done = True
            node.free()
        sent: list[Sent] = []
        form = node.form
        for target, index, spec, g in zip(node.targets, form.indices, form.input_specs, grads):
            if target is None or g is None or spec is None:
                continue
            if getattr(g, "dtype", None) is not spec[1] or g.layout.shape != spec[0]:
                g = fit(node, g, *spec)
            sent.append(((target, index), g))
        return sent if shown else self.cotangents.adopt(sent, mark)

    def moved(self, node: Any, g: Cotangent) -> Iterable[Sent] | None:
        """The gradients of a node that only moves elements, None where it must be visited."""
        if (id(node), 0) in self.wanted or not self.runs(node):
            return None
        sent = self.cotangents.move(node, g)
        if sent is not None and not self.retain:
            node.done = True
        return sent

    def observe(self, node: Node, watchers: Watchers, cotangents: list[Tensor | None]) -> None:
        """Show the cotangents of a node to tensor hooks, targets and retained gradients."""
        for index, hooks in watchers.tensor_hooks.items():
            g = cotangents[index]
            if g is not None:
                cotangents[index] = _call_hooks(hooks, g)
        for index, g in enumerate(cotangents):
            if g is not None and (id(node), index) in self.wanted:
                self.collected[id(node), index] = g
        if self.outputs is not None:
            for index, g in enumerate(cotangents):
                if g is not None:
                    self.outputs[id(node), index] = (node, index), g
        for index, kept in watchers.retainers.items():
            g, output = cotangents[index], kept()
            if g is not None and output is not None:
                _accumulate(output, g, False, self.create_graph)

    def finish_leaf(self, leaf: Tensor, value: Cotangent) -> None:
        """The gradient of a leaf is complete: its hooks, then `.grad` or the collection."""
        g = self.cotangents.tensor(value)
        owned = g is not value and not leaf._hooks
        if leaf._hooks:
            g = _call_hooks(leaf._hooks, g)
        if (id(leaf), 0) in self.wanted:
            self.collected[id(leaf), 0] = g
        if self.targets is None:
            self.give(leaf, g, owned)

    def give(self, leaf: Tensor, g: Tensor, owned: bool) -> None:
        """Accumulate or collect the gradient of a leaf; `owned` if nothing else refers to it."""
        if self.pairs is None:
            _accumulate(leaf, g, owned, self.create_graph)
        else:
            self.pairs.append((leaf, g))


def add_line(node: Node, error: Exception) -> None:
    """Add the line of a node to an error of its backward."""
    if node.line is not None:
        error.add_note(f"In the backward of {node.name}, applied at {node.line}.")


def _examine(
    node: Node, cotangents: Sequence[Tensor | None], grads: Sequence[Tensor | None]
) -> None:
    """In anomaly mode: refuse a NaN that a rule made, and say of which op."""
    if any(map(_has_nan, cotangents)):
        return  # it came from elsewhere: a hook, or the gradient that backward was given
    for i, g in enumerate(grads):
        if _has_nan(g):
            raise GradientError(
                f"backward: {node.name}{at(node.line)} made a NaN in the gradient of its input {i}."
            )


def _has_nan(g: Any) -> bool:
    return g is not None and not g.storage.is_recorded and bool(core.isnan(g).any())


def _call_prehooks(
    node: Node, hooks: dict[int, Any], cotangents: list[Tensor | None]
) -> list[Tensor | None]:
    """Run a node's hooks on the gradients of its outputs; each may return others."""
    for hook in list(hooks.values()):
        replaced = hook(tuple(cotangents))
        if replaced is not None:
            cotangents = _replaced(node, "prehook", replaced, cotangents)
    return cotangents


def _call_hooks_of(
    node: Node,
    hooks: dict[int, Any],
    cotangents: Sequence[Tensor | None],
    grads: Sequence[Tensor | None],
) -> list[Tensor | None]:
    """Run a node's hooks on the gradients of its inputs, summed to the inputs' shapes."""
    fitted: list[Tensor | None] = [
        None if g is None or spec is None else fit(node, g, *spec)
        for g, spec in zip(grads, node.input_specs)
    ]
    for hook in list(hooks.values()):
        replaced = hook(tuple(fitted), tuple(cotangents))
        if replaced is not None:
            fitted = _replaced(node, "hook", replaced, fitted)
    return fitted


def _replaced(
    node: Node, kind: str, given: Any, before: Sequence[Tensor | None]
) -> list[Tensor | None]:
    values = list(given) if isinstance(given, (tuple, list)) else [given]
    if len(values) != len(before):
        raise GradientError(
            f"{kind}: returned {len(values)} gradients for the {len(before)} of {node.name}."
        )
    return values


def _call_hooks(hooks: dict[int, Any], g: Tensor) -> Tensor:
    """Run hooks in order; each may replace the gradient with one of the same shape."""
    for hook in list(hooks.values()):
        replaced = hook(g)
        if replaced is not None:
            if getattr(replaced, "spec", None) != g.spec:
                message = (
                    f"hook: returned {describe(replaced)} for a gradient {describe(g)}; it must be "
                    f"a tensor of that shape, dtype and device, or None."
                )
                shape = getattr(replaced, "shape", g.shape)
                if shape == g.shape:
                    raise GradientError(message)
                raise GradientShapeError(message, op="hook", shape=shape, expected=g.shape)
            if other_devices and replaced.storage.device != g.storage.device:
                raise mixed("hook", {"gradient": g, "result": replaced}, move="result")
            g = replaced
    return g


# Two threads may run backward into the same leaves: one lock for each, shared by some.
_locks = tuple(threads.lock() for _ in range(64))


def _accumulate(leaf: Tensor, g: Tensor, owned: bool, create_graph: bool) -> None:
    """Add to `.grad`: in place where a gradient is there, else the buffer itself if it is ours."""
    context = state().context
    with _locks[id(leaf) // 64 % len(_locks)]:
        if not context.immediate:
            context.touch_grad(leaf, reading=True)
        held = leaf._grad
        if held is None:
            # A gradient with a graph may be an input's own tensor, or another leaf's gradient too.
            ours = owned and not create_graph and g.layout.is_contiguous
            found = g if ours else core.clone(g)
            if not context.immediate:
                context.touch_grad(leaf, reading=False)
            leaf._grad = found
        elif create_graph:
            leaf.grad = held + g
        else:
            held.add_(g)
    if leaf._accumulated_hooks:
        for hook in list(leaf._accumulated_hooks.values()):
            hook(leaf)
