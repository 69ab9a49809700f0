"""Applied ops: nodes of the graph with the values that their gradient rules need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from contraflow.dispatch import changed, state
from contraflow.errors import GradientError, describe, describe_spec
from contraflow.node import Edge, Node, at, numbers
from contraflow.op import REGISTRY, Op
from contraflow.rules import Backward
from contraflow.shapes import numel
from contraflow.spec import Params, Spec
from contraflow.storage import Line, Place
from contraflow.tensor import Tensor


class Keeper(Protocol):
    """Who keeps a saved value; errors about it name the place."""

    @property
    def name(self) -> str: ...

    @property
    def line(self) -> Line | None: ...


class Saved:
    """A value kept for backward, and the version its storage had.

    What is kept is what the tensor was, not the tensor: were it the user's, writing to that in
    place could make a node and its input a cycle.
    """

    __slots__ = ("storage", "version", "layout", "dtype", "array", "edge", "tangents")

    def __init__(self, tensor: Tensor, edge: Edge | None) -> None:
        """Keep a tensor whose gradient goes along `edge`, None for an output of the keeper."""
        storage = self.storage = tensor.storage
        self.version = storage.version
        self.layout = tensor.layout
        self.dtype = tensor.dtype
        self.array = tensor._array
        self.edge = edge
        self.tangents = tensor._tangents
        if storage.inference:
            raise GradientError(
                f"inference_mode: {describe(tensor)} was made there and cannot be saved for "
                f"backward. Clone it outside, or use no_grad instead."
            )

    def get(self, keeper: Keeper) -> Tensor:
        """The value at its place in the graph, or a GradientError if it was overwritten since."""
        storage, edge = self.storage, self.edge
        if storage.version != self.version:
            writer, line = storage.writer or ("a write", None)
            raise GradientError(
                f"{keeper.name} saved {self}{at(keeper.line)} for its backward, but {writer} "
                f"overwrote it{at(line)}. Use the out-of-place form, or clone it before."
            )
        t = Tensor.of_storage(storage, self.layout, self.dtype)
        t._array = self.array
        if edge is not None:
            target, index = edge
            if not isinstance(target, Node):  # a leaf is its own place in the graph
                if target.storage is not storage:
                    raise GradientError(
                        f"{keeper.name} saved {self}{at(keeper.line)} for its backward, but its "
                        f"storage was replaced since. Run backward before assigning to .data."
                    )
                return target
            t._node, t._index, t._needs = target, index, True
        if self.tangents is not None:
            t._tangents = self.tangents
        return t

    @property
    def nbytes(self) -> int:
        """Bytes kept alive."""
        return numel(self.layout.shape) * self.dtype.itemsize

    def __str__(self) -> str:
        return describe_spec(self.dtype, self.layout.shape)


class Packed(Saved):
    """A value that a hook has packed away; another gives it back."""

    __slots__ = ("packed", "unpack")

    def __init__(
        self,
        tensor: Tensor,
        edge: Edge | None,
        pack: Callable[..., Any],
        unpack: Callable[..., Any],
    ) -> None:
        super().__init__(tensor, edge)
        self.unpack = unpack
        with changed(grad=False):
            self.packed = pack(tensor.alias())
        if tensor.storage.version != self.version:
            raise GradientError(
                f"saved_tensors_hooks: pack wrote to {describe(tensor)} in place; it must not."
            )
        self.array = None
        del self.storage, self.tangents

    def get(self, keeper: Keeper) -> Tensor:
        """What the hook gives back, at the place in the graph that was packed."""
        value = self.unpack(self.packed)
        if not isinstance(value, Tensor):
            raise TypeError(
                f"saved_tensors_hooks: unpack returned {describe(value)} for {keeper.name}; it "
                f"must return a Tensor."
            )
        if self.edge is None or not state().grad:
            return value
        target, index = self.edge
        if isinstance(target, Node):
            return value.attached(target, index)
        # Gradients go to the leaf that was packed, which is not the tensor that came back.
        return apart(value, self.edge, keeper.line)

    @property
    def nbytes(self) -> int:
        return 0


def keep(tensor: Tensor, edge: Edge | None) -> Saved:
    """Keep a tensor for backward, packed by the hooks that are set."""
    hooks = state().saved_hooks
    return Packed(tensor, edge, *hooks[-1]) if hooks else Saved(tensor, edge)


class OpNode(Node):
    """An applied op: its rules run when backward reaches it."""

    plan: Backward
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
        self.op = op
        self.params = params
        self.plan = plan
        self.edges = edges
        self.input_specs = input_specs
        self.place = place
        self.output_count = op.output_count
        self.sequence_nr = next(numbers)

    def save(self, inputs: Sequence[Any], outs: Sequence[Tensor]) -> None:
        """Keep what the bound rules name, and nothing else."""
        plan, edges = self.plan, self.edges
        make = keep if state().saved_hooks else Saved
        kept: tuple[Any, ...] = ()
        for i in plan.saved_inputs:
            x = inputs[i]
            kept += (make(x, edges[i]) if isinstance(x, Tensor) else x,)
        self.inputs = kept
        if plan.saved_outs:
            # Without an edge, so that this node and its own output form no reference cycle.
            self.outs = [make(outs[i], None) for i in plan.saved_outs]

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
        inputs, outs = self.inputs, self.outs
        if self.freed:  # asked after they were read: another thread may be at it, see `free`
            raise GradientError(
                f"backward: {self.name}{at(self.line)} has run already and its saved values were "
                f"freed. Pass retain_graph=True to the first backward."
            )
        named: list[Any] = [*cotangents]
        for x in inputs:
            named.append(x.get(self) if isinstance(x, Saved) else x)
        if outs:
            named += self._saved_outs(outs, named[len(cotangents) :])
        return state().context.derive(self, named)

    def _saved_outs(self, saved: Sequence[Saved], inputs: list[Any]) -> list[Tensor]:
        outs: list[Any] = [x.get(self) for x in saved]
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
            self.freed = True
            self.inputs, self.outs = (), ()


def apart(x: Tensor, edge: Edge | None, line: Line | None) -> Tensor:
    """The elements of `x` as the result of an op that hands gradients on along `edge`."""
    clone = REGISTRY["clone"]
    node = OpNode(clone, {}, clone.backward((True,)), (edge,), (x.spec,), line)
    return x.attached(node, 0)
