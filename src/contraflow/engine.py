"""The backward pass: newest node first, without recursion.

A node is newer than everything it was computed from, so taking the newest of the nodes that hold
a cotangent is an order in which all cotangents of a node have arrived when its turn comes. They
arrive in the order of their consumers' sequence numbers, newest first, so sums are always formed
in the same order and the bits repeat.

A sum is formed in place only where the engine made the buffer itself and nobody else has seen it.
"""

from __future__ import annotations

import heapq
import threading
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from contraflow.dtypes import DType
from contraflow.errors import GradientError, describe, describe_spec
from contraflow.node import Edge, Node
from contraflow.op import REGISTRY, changed
from contraflow.shapes import Shape, numel
from contraflow.storage import serials

if TYPE_CHECKING:
    from contraflow.tensor import Tensor


def backward(
    roots: Sequence[Tensor],
    gradients: Sequence[Tensor | None],
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Sequence[Tensor] | None = None,
) -> None:
    """Accumulate gradients into the `.grad` of the leaves, or of `inputs` only."""
    starts = _start(roots, gradients)
    retain = create_graph if retain_graph is None else retain_graph
    if inputs is None:
        _run(starts, retain, create_graph, None)
        return
    wanted = {id(x): x for x in inputs}.values()  # each once, however often it is named
    found = _run(starts, retain, create_graph, _targets("backward", list(wanted)))
    with changed(grad=create_graph):
        for x, g in zip(wanted, found):
            if g is not None:
                _accumulate(x, g, False, create_graph)


def grad(
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    gradients: Sequence[Tensor | None],
    retain_graph: bool | None,
    create_graph: bool,
    allow_unused: bool,
) -> tuple[Tensor | None, ...]:
    """The gradients of `inputs`, `.grad` untouched."""
    starts = _start(outputs, gradients)
    retain = create_graph if retain_graph is None else retain_graph
    found = _run(starts, retain, create_graph, _targets("grad", inputs))
    if not allow_unused:
        for x, g in zip(inputs, found):
            if g is None:
                raise GradientError(
                    f"grad: {describe(x)} was not used to compute the output. Pass "
                    f"allow_unused=True to get None for it."
                )
    return tuple(found)


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
                raise GradientError(
                    f"backward: {describe(root)} is not a scalar, so it needs a gradient. Call "
                    f"out.sum().backward(), or out.backward(g) with g of shape {root.shape}."
                )
            g = REGISTRY["full"](root.shape, 1.0, dtype=root.dtype)
        elif not hasattr(g, "storage"):
            raise TypeError(f"backward: the gradient must be a Tensor, not {type(g).__name__}.")
        elif g.shape != root.shape:
            raise GradientError(
                f"backward: the gradient has shape {g.shape}, but the tensor {describe(root)} "
                f"has shape {root.shape}."
            )
        edge = root.edge
        assert edge is not None
        starts.append((edge, g))
    return starts


def _targets(caller: str, inputs: Sequence[Tensor]) -> list[Edge]:
    edges = []
    for x in inputs:
        edge = x.edge
        if edge is None:
            raise GradientError(
                f"{caller}: {describe(x)} does not require grad, so it has no gradient."
            )
        edges.append(edge)
    return edges


def _needed(starts: Sequence[tuple[Edge, Any]], targets: Sequence[Edge]) -> set[int]:
    """The ids of the nodes from which some target can be reached."""
    goals = {id(t) for t, _ in targets}
    order: list[Node] = []
    seen: set[int] = set()
    stack = [t for (t, _), _ in starts if isinstance(t, Node)]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        order.append(node)
        stack.extend(e[0] for e in node.edges if e is not None and isinstance(e[0], Node))
    order.sort(key=lambda n: n.sequence_nr)
    needed: set[int] = set()
    for node in order:  # oldest first: what a node leads to is decided before the node
        if any(e is not None and (id(e[0]) in goals or id(e[0]) in needed) for e in node.edges):
            needed.add(id(node))
    return needed


class _Sum:
    """A cotangent being summed. `owned` is whether its buffer is the engine's alone."""

    __slots__ = ("value", "owned")

    def __init__(self, value: Tensor, owned: bool) -> None:
        self.value, self.owned = value, owned

    def add(self, value: Tensor, recording: bool) -> None:
        if self.owned and not recording:
            self.value.add_(value)
        else:
            self.value, self.owned = self.value + value, True


def _run(
    starts: Sequence[tuple[Edge, Tensor]],
    retain: bool,
    create_graph: bool,
    targets: list[Edge] | None,
) -> list[Tensor | None]:
    """Send cotangents through the graph. With targets, collect theirs and touch no leaf."""
    needed = None if targets is None else _needed(starts, targets)
    collected: dict[tuple[int, int], Tensor] = {}
    wanted = {(id(t), i) for t, i in targets or ()}
    arrived: dict[int, list[_Sum | None]] = {}  # per node, a slot per output
    leaves: dict[int, tuple[Tensor, _Sum]] = {}
    heap: list[tuple[int, Node]] = []

    def deliver(edge: Edge, g: Tensor, owned: bool) -> None:
        target, index = edge
        if needed is not None and id(target) not in needed and (id(target), index) not in wanted:
            return
        if not isinstance(target, Node):
            leaf = leaves.get(id(target))
            if leaf is None:
                leaves[id(target)] = (target, _Sum(g, owned))
            else:
                leaf[1].add(g, create_graph)
            return
        slots = arrived.get(id(target))
        if slots is None:
            slots = arrived[id(target)] = [None] * target.output_count
            heapq.heappush(heap, (-target.sequence_nr, target))
        held = slots[index]
        if held is None:
            slots[index] = _Sum(g, owned)
        else:
            held.add(g, create_graph)

    with changed(grad=create_graph) as current:
        context = current.context
        for start, seed in starts:
            deliver(start, seed, False)
        while heap:
            _, node = heapq.heappop(heap)
            if node.sequence_nr < context.first_node:
                context.refuse_node(node)
            slots = arrived.pop(id(node))
            cotangents = [None if held is None else held.value for held in slots]
            if node.tensor_hooks is not None:
                for index, hooks in node.tensor_hooks.items():
                    g_index = cotangents[index]
                    if g_index is not None:
                        cotangents[index] = _call_hooks(hooks, g_index)
            for index, g_out in enumerate(cotangents):
                if g_out is not None and (id(node), index) in wanted:
                    collected[id(node), index] = g_out
            if node.retainers is not None:
                for index, kept in node.retainers.items():
                    g_kept, output = cotangents[index], kept()
                    if g_kept is not None and output is not None:
                        _accumulate(output, g_kept, False, create_graph)
            if needed is not None and id(node) not in needed:
                continue
            if node.pre_hooks:
                for hook in list(node.pre_hooks.values()):
                    replaced = hook(tuple(cotangents))
                    if replaced is not None:
                        cotangents = list(replaced)
            mark = next(serials)
            grads = node.backward(cotangents)
            if len(grads) != len(node.edges):
                raise GradientError(
                    f"backward: {node.name} returned {len(grads)} gradients for "
                    f"{len(node.edges)} inputs."
                )
            if node.post_hooks:
                for hook in list(node.post_hooks.values()):
                    replaced = hook(tuple(grads), tuple(cotangents))
                    if replaced is not None:
                        grads = list(replaced)
            if not retain:
                node.done = True
                node.free()
            # A buffer is the engine's alone if it is newer than `mark`, so the rule made it, and
            # neither handed out twice nor seen by a hook.
            hooked = bool(node.post_hooks)
            fitted = [
                None if e is None or g_in is None or spec is None else _fit(node, g_in, *spec)
                for e, spec, g_in in zip(node.edges, node.input_specs, grads)
            ]
            uses = Counter(g.storage.serial for g in fitted if g is not None)
            for edge, g in zip(node.edges, fitted):
                if edge is not None and g is not None:
                    serial = g.storage.serial
                    made_here = serial > mark and uses[serial] == 1 and g.view.is_contiguous
                    deliver(edge, g, made_here and not hooked)
        for leaf, total in leaves.values():
            value = total.value
            if leaf._hooks:
                value = _call_hooks(leaf._hooks, value)
            if (id(leaf), 0) in wanted:
                collected[id(leaf), 0] = value
            if targets is None:
                _accumulate(leaf, value, total.owned and not leaf._hooks, create_graph)
    if targets is None:
        return []
    return [collected.get((id(t), i)) for t, i in targets]


def _call_hooks(hooks: dict[int, Any], g: Tensor) -> Tensor:
    """Run hooks in order; each may replace the gradient with one of the same shape."""
    for hook in list(hooks.values()):
        replaced = hook(g)
        if replaced is not None:
            if replaced.shape != g.shape:
                raise GradientError(
                    f"hook: returned {describe(replaced)} for a gradient {describe(g)}."
                )
            g = replaced
    return g


def _fit(node: Node, g: Tensor, shape: Shape, dtype: DType) -> Tensor:
    """Sum a cotangent to its input's shape (what broadcasting needs) and cast it."""
    if g.shape != shape:
        lead = len(g.shape) - len(shape)
        dims = tuple(range(lead)) + tuple(
            lead + i for i, n in enumerate(shape) if n == 1 and lead >= 0 and g.shape[lead + i] != 1
        )
        kept = g.shape[lead:] if lead >= 0 else ()
        if lead < 0 or any(n not in (1, m) for n, m in zip(shape, kept)):
            raise GradientError(
                f"backward: the gradient rule of {node.name} gave {describe(g)} for an input "
                f"{describe_spec(dtype, shape)}."
            )
        g = REGISTRY["sum"](g, dim=dims, keepdim=True)
        if lead:
            g = REGISTRY["reshape"](g, shape)
    if g.dtype is not dtype:
        g = REGISTRY["to_dtype"](g, dtype=dtype)
    return g


# Two threads may run backward into the same leaves: one lock for each, shared by some.
_locks = tuple(threading.Lock() for _ in range(64))


def _accumulate(leaf: Tensor, g: Tensor, owned: bool, create_graph: bool) -> None:
    """Add to `.grad`: in place where a gradient is there, else the buffer itself if it is ours."""
    with _locks[id(leaf) // 64 % len(_locks)]:
        held = leaf.grad
        if held is None:
            # A gradient with a graph may be an input's own tensor, or another leaf's gradient too.
            leaf.grad = g if owned and not create_graph else REGISTRY["clone"](g)
        elif create_graph:
            leaf.grad = held + g
        else:
            held.add_(g)
    if leaf._accumulated_hooks:
        for hook in list(leaf._accumulated_hooks.values()):
            hook(leaf)
