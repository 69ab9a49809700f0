"""Nodes of the autograd graph: typed fields, no closures, so a graph can be walked and printed."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from contraflow.errors import GradientError, describe
from contraflow.op import REGISTRY, Op, Params, Spec, changed, state
from contraflow.storage import Line, Storage

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

    __slots__ = ("tensor", "storage", "version", "packed", "unpack", "edge")

    def __init__(self, tensor: Tensor, own: bool = False) -> None:
        """Keep a tensor; `own` says that it is an output of the node that keeps it."""
        hooks = state().saved_hooks
        self.storage: Storage | None = None
        self.version = tensor.storage.version
        self.edge: Edge | None = None
        self.tensor: Tensor | None = None
        self.packed: Any = None
        self.unpack: Callable[[Any], Tensor] | None = None
        if hooks:
            pack, self.unpack = hooks[-1]
            self.edge = None if own else tensor.edge
            with changed(grad=False):
                self.packed = pack(tensor.detach())
            if tensor.storage.version != self.version:
                raise GradientError(
                    f"saved_tensors_hooks: pack wrote to {describe(tensor)} in place; it must not."
                )
            return
        self.storage = tensor.storage
        node = None if own else tensor.node
        if node is not None:
            self.tensor = tensor.attached(node, tensor._index)
        else:  # a leaf that requires grad is its own place in the graph
            self.tensor = tensor if tensor._needs and not own else tensor.alias()

    def get(self, node: Node) -> Tensor:
        """The value, or a GradientError if it has been overwritten since."""
        if self.unpack is not None:
            return self._unpacked(node)
        tensor, storage = self.tensor, self.storage
        assert tensor is not None and storage is not None
        if tensor.storage is not storage:
            raise GradientError(
                f"{node.name} saved {describe(tensor)}{_at(node.line)} for its backward, but its "
                f"storage was replaced since. Run backward before assigning to .data."
            )
        if storage.version != self.version:
            writer, line = storage.writer or ("a write", None)
            raise GradientError(
                f"{node.name} saved {describe(tensor)}{_at(node.line)} for its backward, but "
                f"{writer} overwrote it{_at(line)}. Use the out-of-place form, or clone it before."
            )
        return tensor

    def _unpacked(self, node: Node) -> Tensor:
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
        identity = OpNode(REGISTRY["clone"], {}, (True,), (self.edge,), (target.spec,), node.line)
        return value.attached(identity, 0)

    @property
    def nbytes(self) -> int:
        """Bytes kept alive, zero where a hook packed the value away."""
        return 0 if self.tensor is None else self.tensor.nbytes


def _at(line: Line | None) -> str:
    return "" if line is None else f" at {line}"


class Node:
    """One applied operation: where gradients of its inputs go, and what its rules need."""

    __slots__ = (
        "edges", "input_specs", "line", "sequence_nr", "output_count", "tensor_hooks",
        "pre_hooks", "post_hooks", "retainers", "region", "done", "__weakref__",
    )  # fmt: skip

    def __init__(
        self,
        edges: Sequence[Edge | None],
        input_specs: Sequence[Spec | None],
        output_count: int,
        line: Line | None,
    ) -> None:
        self.edges = edges
        self.input_specs = input_specs
        self.output_count = output_count
        self.line = line
        self.sequence_nr = next(numbers)
        self.region = 0
        self.done = False  # backward has run and was not asked to retain the graph
        # Hooks are rare: the containers exist only once one was registered.
        self.tensor_hooks: dict[int, dict[int, Any]] | None = None
        self.pre_hooks: dict[int, Any] | None = None
        self.post_hooks: dict[int, Any] | None = None
        # Outputs whose gradient goes into their `.grad`, once all hooks have run.
        self.retainers: dict[int, weakref.ref[Tensor]] | None = None

    @property
    def name(self) -> str:
        """What was applied."""
        return type(self).__name__

    @property
    def next_functions(self) -> tuple[Edge | None, ...]:
        """Where the gradients of the inputs go: nodes, leaf tensors, or None."""
        return tuple(self.edges)

    @property
    def saved(self) -> dict[str, Any]:
        """What is kept for backward, by name."""
        return {}

    def backward(self, cotangents: list[Tensor | None]) -> Sequence[Tensor | None]:
        """The gradient of each input, None where none is needed."""
        raise NotImplementedError

    def free(self) -> None:
        """Drop what was saved; a second backward through this node is an error then."""

    def __repr__(self) -> str:
        return f"<{self.name} #{self.sequence_nr}{_at(self.line)}>"


class OpNode(Node):
    """An applied op: its rules run when backward reaches it."""

    __slots__ = ("op", "params", "needs", "inputs", "outs", "freed")

    def __init__(
        self,
        op: Op,
        params: Params,
        needs: tuple[bool, ...],
        edges: Sequence[Edge | None],
        input_specs: Sequence[Spec | None],
        line: Line | None,
    ) -> None:
        super().__init__(edges, input_specs, len(op.outs), line)
        self.op, self.params, self.needs = op, params, needs
        self.inputs: dict[int, Any] = {}
        self.outs: dict[int, Saved] = {}
        self.freed = False

    def save(self, inputs: Sequence[Any], outs: Sequence[Tensor]) -> None:
        """Keep what the bound rules name, and nothing else."""
        plan = self.op.backward(self.needs)
        for i in plan.saved_inputs:
            x = inputs[i]
            self.inputs[i] = Saved(x) if hasattr(x, "storage") else x
        for i in plan.saved_outs:
            # Detached, so that this node and its own output form no reference cycle.
            self.outs[i] = Saved(outs[i], own=True)

    @property
    def name(self) -> str:
        return self.op.name

    @property
    def saved(self) -> dict[str, Any]:
        names = self.op.inputs or tuple(map(str, self.inputs))
        kept = {names[i]: x for i, x in self.inputs.items()}
        out_names = self.op.outs + self.op.residuals
        return kept | {out_names[i]: x for i, x in self.outs.items()}

    def backward(self, cotangents: list[Tensor | None]) -> Sequence[Tensor | None]:
        if self.freed:
            raise GradientError(
                f"backward: {self.name}{_at(self.line)} has run already and its saved values were "
                f"freed. Pass retain_graph=True to the first backward."
            )
        op = self.op
        grads: list[Tensor | None] = [None] * len(self.edges)
        values: dict[str, Any] = dict(self.params)
        if len(op.outs) == 1:
            values["g"] = cotangents[0]
        else:
            values.update(zip((f"g_{o}" for o in op.outs), cotangents))
        names = op.inputs
        unpacked = {i: x.get(self) if type(x) is Saved else x for i, x in self.inputs.items()}
        if op.variadic:
            values[op.variadic] = tuple(unpacked.values())
            values["specs"], values["needs"] = self.input_specs, self.needs
        else:
            for i, x in unpacked.items():
                values[names[i]] = x
            for name, spec in zip(names, self.input_specs):
                values[f"{name}_spec"] = spec
        recording = state().grad
        plan = op.backward(self.needs)
        for i, x in self.outs.items():
            if i < len(op.outs):
                out = x.get(self)
                values[op.outs[i]] = out.attached(self, i) if recording else out
            elif not recording:
                values[op.residuals[i - len(op.outs)]] = x.get(self)
        if recording and plan.recomputes:
            # Residuals have no history of their own: under create_graph they are computed again.
            again = op.body(*unpacked.values(), **self.params)
            values.update(zip(op.residuals, again[len(op.outs) :]))
        for rule in plan.rules:
            result = rule.function(*[values[n] for n in rule.names])
            targets = rule.inputs or tuple(range(len(self.edges)))
            results = result if isinstance(result, (tuple, list)) else (result,)
            if len(results) != len(targets):
                raise GradientError(
                    f"backward: the gradient rule of {self.name} returned {len(results)} gradients "
                    f"for {len(targets)} inputs."
                )
            for i, grad in zip(targets, results):
                grads[i] = grad
        return grads

    def free(self) -> None:
        # A node that saved nothing can run again at no cost, so it may.
        if self.inputs or self.outs:
            self.inputs, self.outs = {}, {}
            self.freed = True
