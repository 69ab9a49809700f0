"""Nodes of the autograd graph: typed fields, no closures, so a graph can be walked and printed."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from contraflow.dispatch import changed, state
from contraflow.errors import GradientError, describe
from contraflow.hooks import Handle
from contraflow.op import REGISTRY, Op
from contraflow.rules import Backward
from contraflow.spec import Params, Spec
from contraflow.storage import Line, Place, Storage

if TYPE_CHECKING:
    from contraflow.tensor import Tensor

# Newer nodes have higher numbers, and a node is always newer than what it was computed from:
# descending numbers are an order in which backward may run.
numbers = itertools.count(1)

# Where a gradient goes: output `index` of a node, or a leaf tensor (index is then 0).
Edge = tuple["Node | Tensor", int]


class Saved:
    """A value kept for backward, and the version its storage had.

    What is kept is another handle on the same elements with the same place in the graph: were it
    the user's tensor itself, writing to that in place could make a node and its input a cycle.
    """

    # Defaults live on the class, which keeps construction cheap.
    tensor: Tensor | None = None
    storage: Storage | None
    edge: Edge | None = None
    packed: Any = None
    unpack: Callable[[Any], Tensor] | None = None

    def __init__(self, tensor: Tensor, edge: Edge | None) -> None:
        """Keep a tensor whose gradient goes along `edge`, None for an output of the keeper."""
        storage = self.storage = tensor.storage
        self.version = storage.version
        if storage.inference:
            raise GradientError(
                f"inference_mode: {describe(tensor)} was made there and cannot be saved for "
                f"backward. Clone it outside, or use no_grad instead."
            )
        hooks = state().saved_hooks
        if hooks:
            self._pack(tensor, edge, *hooks[-1])
        elif edge is None:
            self.tensor = tensor.alias()
        else:  # a leaf that requires grad is its own place in the graph
            target, index = edge
            self.tensor = tensor.attached(target, index) if isinstance(target, Node) else tensor

    def _pack(
        self,
        tensor: Tensor,
        edge: Edge | None,
        pack: Callable[..., Any],
        unpack: Callable[..., Any],
    ) -> None:
        self.edge, self.unpack = edge, unpack
        with changed(grad=False):
            self.packed = pack(tensor.alias())
        if tensor.storage.version != self.version:
            raise GradientError(
                f"saved_tensors_hooks: pack wrote to {describe(tensor)} in place; it must not."
            )
        self.storage = None

    def get(self, node: Keeper) -> Tensor:
        """The value, or a GradientError if it has been overwritten since."""
        if self.unpack is not None:
            return self._unpacked(node)
        tensor, storage = self.tensor, self.storage
        assert tensor is not None and storage is not None
        if tensor.storage is not storage:
            raise GradientError(
                f"{node.name} saved {describe(tensor)}{at(node.line)} for its backward, but its "
                f"storage was replaced since. Run backward before assigning to .data."
            )
        if storage.version != self.version:
            writer, line = storage.writer or ("a write", None)
            raise GradientError(
                f"{node.name} saved {describe(tensor)}{at(node.line)} for its backward, but "
                f"{writer} overwrote it{at(line)}. Use the out-of-place form, or clone it before."
            )
        return tensor

    def _unpacked(self, node: Keeper) -> Tensor:
        """What the hook gives back, at the place in the graph that was packed."""
        assert self.unpack is not None
        value = self.unpack(self.packed)
        if not hasattr(value, "storage"):
            raise TypeError(
                f"saved_tensors_hooks: unpack returned {describe(value)} for {node.name}; it must "
                f"return a Tensor."
            )
        if self.edge is None or not state().grad:
            return value
        target, index = self.edge
        if isinstance(target, Node):
            return value.attached(target, index)
        # Gradients go to the leaf that was packed, which is not the tensor that came back.
        clone = REGISTRY["clone"]
        plan = clone.backward((True,))
        identity = OpNode(clone, {}, plan, (self.edge,), (target.spec,), node.line)
        return value.attached(identity, 0)

    @property
    def nbytes(self) -> int:
        """Bytes kept alive, zero where a hook packed the value away."""
        return 0 if self.tensor is None else self.tensor.nbytes


class Keeper(Protocol):
    """Who keeps a saved value; errors about it name the place."""

    @property
    def name(self) -> str: ...

    @property
    def line(self) -> Line | None: ...


def at(line: Line | None) -> str:
    """Where something happened, for a message."""
    return "" if line is None else f" at {line}"


class Node:
    """One applied operation: where gradients of its inputs go, and what its rules need."""

    # Defaults of rare fields live on the class, which keeps construction cheap.
    region = 0
    done = False  # backward has run and was not asked to retain the graph
    hands_over = True  # nobody keeps what its backward makes, so the engine may add to it in place
    tensor_hooks: dict[int, dict[int, Any]] | None = None
    pre_hooks: dict[int, Any] | None = None
    post_hooks: dict[int, Any] | None = None
    # Outputs whose gradient goes into their `.grad`, once all hooks have run.
    retainers: dict[int, weakref.ref[Tensor]] | None = None
    _metadata: dict[str, Any] | None = None

    def __init__(
        self,
        edges: Sequence[Edge | None],
        input_specs: Sequence[Spec | None],
        output_count: int,
        place: Place | None,
    ) -> None:
        self.edges = edges
        self.input_specs = input_specs
        self.output_count = output_count
        self.place = place
        self.sequence_nr = next(numbers)

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
        if self._metadata is None:
            self._metadata = {}
        return self._metadata

    def register_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call `hook(grad_inputs, grad_outputs)` after this node; it may return other inputs'."""
        if self.post_hooks is None:
            self.post_hooks = {}
        return Handle(self.post_hooks, hook)

    def register_prehook(self, hook: Callable[..., Any]) -> Handle:
        """Call `hook(grad_outputs)` before this node; it may return others."""
        if self.pre_hooks is None:
            self.pre_hooks = {}
        return Handle(self.pre_hooks, hook)

    def backward(self, cotangents: list[Tensor | None]) -> Sequence[Tensor | None]:
        """The gradient of each input, None where none is needed."""
        raise NotImplementedError

    def free(self) -> None:
        """Drop what was saved; a second backward through this node is an error then."""

    def __repr__(self) -> str:
        return f"<{self.name} #{self.sequence_nr}{at(self.line)}>"


class OpNode(Node):
    """An applied op: its rules run when backward reaches it."""

    inputs: Sequence[Any] = ()  # as plan.saved_inputs numbers them
    outs: Sequence[Saved] = ()
    freed = False
    pushed = False  # forward mode watches, so that residuals too must be functions of the inputs

    def __init__(
        self,
        op: Op,
        params: Params,
        plan: Backward,
        edges: Sequence[Edge | None],
        input_specs: Sequence[Spec | None],
        place: Place | None,
    ) -> None:
        self.op, self.params, self.plan = op, params, plan
        self.edges, self.input_specs, self.place = edges, input_specs, place
        self.output_count = op.output_count
        self.sequence_nr = next(numbers)

    def save(self, inputs: Sequence[Any], outs: Sequence[Tensor]) -> None:
        """Keep what the bound rules name, and nothing else."""
        plan, edges = self.plan, self.edges
        kept = []
        for i in plan.saved_inputs:
            x = inputs[i]
            kept.append(Saved(x, edges[i]) if hasattr(x, "storage") else x)
        self.inputs = kept
        if plan.saved_outs:
            # Without an edge, so that this node and its own output form no reference cycle.
            self.outs = [Saved(outs[i], None) for i in plan.saved_outs]

    @property
    def name(self) -> str:
        return self.op.name

    @property
    def saved(self) -> dict[str, Any]:
        plan, op = self.plan, self.op
        names = [str(i) if op.variadic else op.inputs[i] for i in plan.saved_inputs]
        made = op.outs + op.residuals
        names += [made[i] for i in plan.saved_outs]
        return dict(zip(names, [*self.inputs, *self.outs]))

    def backward(self, cotangents: list[Tensor | None]) -> Sequence[Tensor | None]:
        if self.freed:
            raise GradientError(
                f"backward: {self.name}{at(self.line)} has run already and its saved values were "
                f"freed. Pass retain_graph=True to the first backward."
            )
        named: list[Any] = [*cotangents]
        for x in self.inputs:
            named.append(x.get(self) if type(x) is Saved else x)
        if self.outs:
            named += self._saved_outs(named[len(cotangents) :])
        return state().context.derive(self, named)

    def _saved_outs(self, inputs: list[Any]) -> list[Tensor]:
        outs: list[Any] = [x.get(self) for x in self.outs]
        if state().grad or self.pushed:
            made = self.op.output_count
            # Residuals have no history of their own: under create_graph they are computed again.
            again = self.op.body(*inputs, **self.params) if self.plan.recomputes else ()
            for k, i in enumerate(self.plan.saved_outs):
                outs[k] = outs[k].attached(self, i) if i < made else again[i]
        return outs

    def free(self) -> None:
        # A node that saved nothing can run again at no cost, so it may.
        if self.inputs or self.outs:
            self.inputs, self.outs = (), ()
            self.freed = True
