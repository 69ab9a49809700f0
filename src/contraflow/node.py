"""Nodes of the autograd graph: typed fields, no closures, so a graph can be walked and printed."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from contraflow.errors import GradientError, describe
from contraflow.hooks import Handle
from contraflow.op import (
    ALL_INPUTS,
    ALL_SPECS,
    COTANGENT,
    KEPT_INPUT,
    KEPT_OUT,
    PARAM,
    REGISTRY,
    SPEC,
    Backward,
    Op,
    Params,
    Spec,
    changed,
    state,
)
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

    # Defaults live on the class, which keeps construction cheap.
    tensor: Tensor | None = None
    storage: Storage | None = None
    edge: Edge | None = None
    packed: Any = None
    unpack: Callable[[Any], Tensor] | None = None

    def __init__(self, tensor: Tensor, own: bool = False) -> None:
        """Keep a tensor; `own` says that it is an output of the node that keeps it."""
        hooks = state().saved_hooks
        storage = tensor.storage
        if storage.inference:
            raise GradientError(
                f"inference_mode: {describe(tensor)} was made there and cannot be saved for "
                f"backward. Clone it outside, or use no_grad instead."
            )
        self.version = storage.version
        if hooks:
            pack, self.unpack = hooks[-1]
            self.edge = None if own else tensor.edge
            with changed(grad=False):
                self.packed = pack(tensor.alias())
            if storage.version != self.version:
                raise GradientError(
                    f"saved_tensors_hooks: pack wrote to {describe(tensor)} in place; it must not."
                )
            return
        self.storage = storage
        node = None if own else tensor.node
        if node is not None:
            self.tensor = tensor.attached(node, tensor._index)
        else:  # a leaf that requires grad is its own place in the graph
            self.tensor = tensor if tensor._needs and not own else tensor.alias()

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
        identity = OpNode(REGISTRY["clone"], {}, (True,), (self.edge,), (target.spec,), node.line)
        return value.attached(identity, 0)

    @property
    def nbytes(self) -> int:
        """Bytes kept alive, zero where a hook packed the value away."""
        return 0 if self.tensor is None else self.tensor.nbytes


class Keeper(Protocol):
    """Who keeps a saved value; errors about it name the place."""

    @property
    def name(self) -> str: ...

    line: Line | None


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
        line: Line | None,
    ) -> None:
        self.edges = edges
        self.input_specs = input_specs
        self.output_count = output_count
        self.line = line
        self.sequence_nr = next(numbers)

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

    inputs: tuple[Any, ...] = ()  # as plan.saved_inputs numbers them
    outs: tuple[Saved, ...] = ()
    freed = False
    pushed = False  # forward mode watches, so that residuals too must be functions of the inputs

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
        self.plan = op.backward(needs)

    def save(self, inputs: Sequence[Any], outs: Sequence[Tensor]) -> None:
        """Keep what the bound rules name, and nothing else."""
        _, wanted, wanted_outs, _ = self.plan
        if wanted:
            given = [inputs[i] for i in wanted]
            self.inputs = tuple([Saved(x) if hasattr(x, "storage") else x for x in given])
        if wanted_outs:
            # Detached, so that this node and its own output form no reference cycle.
            self.outs = tuple([Saved(outs[i], own=True) for i in wanted_outs])

    @property
    def name(self) -> str:
        return self.op.name

    @property
    def saved(self) -> dict[str, Any]:
        plan, op = self.plan, self.op
        names = [str(i) if op.variadic else op.inputs[i] for i in plan.saved_inputs]
        made = op.outs + op.residuals
        names += [made[i] for i in plan.saved_outs]
        return dict(zip(names, self.inputs + self.outs))

    def backward(self, cotangents: list[Tensor | None]) -> Sequence[Tensor | None]:
        if self.freed:
            raise GradientError(
                f"backward: {self.name}{at(self.line)} has run already and its saved values were "
                f"freed. Pass retain_graph=True to the first backward."
            )
        _, _, wanted_outs, recomputes = self.plan
        inputs = [x.get(self) if type(x) is Saved else x for x in self.inputs]
        outs: list[Any] = [x.get(self) for x in self.outs]
        if state().grad or self.pushed:
            made = len(self.op.outs)
            # Residuals have no history of their own: under create_graph they are computed again.
            again = self.op.body(*inputs, **self.params) if recomputes else ()
            for k, i in enumerate(wanted_outs):
                outs[k] = outs[k].attached(self, i) if i < made else again[i]
        return run_rules(
            self.op, self.plan, cotangents, inputs, outs, self.params, self.input_specs, self.needs
        )

    def free(self) -> None:
        # A node that saved nothing can run again at no cost, so it may.
        if self.inputs or self.outs:
            self.inputs, self.outs = (), ()
            self.freed = True


def run_rules(
    op: Op,
    plan: Backward,
    cotangents: Sequence[Any],
    inputs: Sequence[Any],  # as plan.saved_inputs numbers them
    outs: Sequence[Any],  # as plan.saved_outs numbers them
    params: Params,
    specs: Sequence[Spec | None],
    needs: tuple[bool, ...],
) -> list[Any]:
    """Hand each bound rule what it names; the gradient of each input, None where none is needed."""
    grads: list[Any] = [None] * len(specs)
    for targets, function, arguments in plan.rules:
        found: list[Any] = []
        for where, which in arguments:
            if where == COTANGENT:
                found.append(cotangents[which])
            elif where == KEPT_INPUT:
                found.append(inputs[which])
            elif where == KEPT_OUT:
                found.append(outs[which])
            elif where == PARAM:
                found.append(params[which])
            elif where == SPEC:
                found.append(specs[which])
            elif where == ALL_INPUTS:
                found.append(tuple(inputs))
            else:
                found.append(specs if where == ALL_SPECS else needs)
        result = function(*found)
        if len(targets) == 1 and not isinstance(result, (tuple, list)):
            grads[targets[0]] = result
        else:
            _spread(op, result, targets, grads)
    return grads


def _spread(op: Op, result: Any, targets: tuple[int, ...], grads: list[Any]) -> None:
    """Take the several gradients that a rule returned."""
    targets = targets or tuple(range(len(grads)))
    results = result if isinstance(result, (tuple, list)) else (result,)
    if len(results) != len(targets):
        raise GradientError(
            f"backward: the gradient rule of {op.name} returned {len(results)} gradients "
            f"for {len(targets)} inputs."
        )
    for i, grad in zip(targets, results):
        grads[i] = grad
