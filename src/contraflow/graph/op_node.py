"""Applied ops: nodes of the graph with the values that their gradient rules need."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from contraflow.errors import GradientError
from contraflow.graph.cotangent import cotangents_of
from contraflow.graph.saved import Saved, keep
from contraflow.operation import core
from contraflow.operation.context import changed, device_of, state
from contraflow.operation.gradient_rules import Backward
from contraflow.operation.op import Op
from contraflow.spec import Params, Spec
from contraflow.tensors.node import Form, Node, sequence_numbers
from contraflow.tensors.source_line import OWNERS, GradientLine, UserCall, UserLine, at, user_call
from contraflow.tensors.storage import Storage
from contraflow.tensors.tensor import Tensor


def called(op: Op) -> tuple[str, UserLine | None]:
    """The name of what the user called, for which an op is applied, and the user's line."""
    code, instruction, owner = user_call(2)
    line = state().line or (None if code is None else UserLine(code, instruction))
    return part_name(op, owner), line


def part_name(op: Op, owner: str | None) -> str:
    """The name of an applied op in a listing: `conv2d`, `batch_norm.mul`, `mul`.

    A part that users can apply by itself is named behind what it is part of; one that they cannot
    stands for that.
    """
    name = OWNERS.get(owner or op.name, op.name)
    return name if op.internal or name == op.name else f"{name}.{op.name}"


class OpNode(Node):
    """An applied op: its rules run when backward reaches it."""

    # `kept` is what the rules name, in order, in one flat tuple; None when it was freed. Four
    # entries per saved value: (storage, version, array, layout), with the dtype in place of the
    # array on another device than the cpu, or (Saved or number, None, None, None).
    # `owner` is what the user called, a key of `OWNERS`, where this is part of that.
    __slots__ = ("params", "kept", "owner")
    params: Params
    kept: tuple[Any, ...] | None
    owner: str | None

    @staticmethod
    def of(
        form: Form, params: Params, targets: tuple[Any, ...], call: UserCall, kept: tuple[Any, ...]
    ) -> OpNode:
        """A node of an op that keeps this: see `kept`."""
        node: OpNode = _new(OpNode)
        node.form, node.params, node.targets, node.kept = form, params, targets, kept
        node.code, node.instruction, node.owner = call
        node.sequence_nr = next(sequence_numbers)
        node.done, node.watchers = False, None
        return node

    def keep_copies(self, storage: Storage) -> None:
        """Keep copies of what lies in a storage, which is about to be overwritten."""
        kept = self.kept or ()
        entries: tuple[Any, ...] = ()
        for k, value in zip(range(0, len(kept), 4), self._values()):
            lies_there = type(value) is Saved and value.storage is storage
            if lies_there and value.version == storage.version:
                entries += (value.copied(), None, None, None)
            else:
                entries += kept[k : k + 4]
        if kept:
            self.kept = entries

    @property
    def op(self) -> Op:
        """The applied op."""
        assert self.form.op is not None
        return self.form.op

    @property
    def bound(self) -> Backward:
        """The rules that backward runs, bound for the inputs that need gradients."""
        assert self.form.backward is not None
        return self.form.backward

    def _values(self) -> list[Any]:
        """The kept values: Saved for tensors, and numbers."""
        kept, targets, indices = self.kept or (), self.targets, self.form.indices
        values: list[Any] = []
        for k, i in zip(range(0, len(kept), 4), self.form.saved):
            value = kept[k]
            if kept[k + 2] is not None:
                target = targets[i] if i < len(targets) else None
                edge = None if target is None else (target, indices[i])
                value = Saved.of(kept[k : k + 4], edge)
            values.append(value)
        return values

    @property
    def output_specs(self) -> Sequence[Spec | None]:
        made = self.form.made
        if made is None:
            # A number changes no dtype beside the floating-point input that has a gradient.
            given = [0 if spec is None else spec for spec in self.input_specs]
            made = self.op.infer(given, self.params)[: self.output_count]
        return [spec if spec.dtype.is_floating_point else None for spec in made]

    @property
    def name(self) -> str:
        return OWNERS.get(self.owner or self.op.name, self.op.name)

    @property
    def label(self) -> str:
        return part_name(self.op, self.owner)

    @property
    def gradient_line(self) -> GradientLine | None:
        if self.code is None:
            return None
        called = self.owner or self.op.name
        return GradientLine(self.code, self.instruction, called if called in OWNERS else None)

    @property
    def input_names(self) -> Sequence[str]:
        return super().input_names if self.op.variadic else self.op.inputs

    @property
    def saved(self) -> dict[str, Any]:
        bound, op = self.bound, self.op
        names = [self.input_names[i] for i in bound.saved_inputs]
        made = op.outs + op.residuals
        names += [made[i] for i in bound.saved_outs]
        return dict(zip(names, self._values()))

    def carry(self, outs: Sequence[Tensor]) -> None:
        """Let what is kept of the outputs carry the tangents that forward mode gave them."""
        self.watched().pushed = True
        count = len(self.bound.saved_inputs)
        values = self._values()[count:]
        for saved, i in zip(values, self.bound.saved_outs):
            if i < len(outs):
                saved.carry(outs[i]._tangents)
        self.kept = (self.kept or ())[: 4 * count] + tuple(
            entry for saved in values for entry in (saved, None, None, None)
        )

    def backward(self, cotangents: list[Tensor | None]) -> Sequence[Tensor | None]:
        values = self._values()
        if self.kept is None:  # asked after they were read: another thread may be at it
            raise GradientError(
                f"backward: {self.name}{at(self.line)} has run already and its saved values "
                f"were freed. Pass retain_graph=True to the first backward."
            )
        values = [x.get(self) if isinstance(x, Saved) else x for x in values]
        bound = self.form.backward
        assert bound is not None
        pushed = self.watchers is not None and self.watchers.pushed
        if bound.saved_outs and (state().grad or pushed):
            count = len(bound.saved_inputs)
            # Residuals have no history of their own: under create_graph they are computed again.
            again = self._again(values[:count]) if bound.recomputes else ()
            for k, i in enumerate(bound.saved_outs, count):
                made = i < self.op.output_count
                values[k] = values[k].attached(self, i) if made else again[i]
        return state().context.derive(self, [*cotangents, *values])

    def _again(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """The outputs and residuals, computed once more where the inputs lie."""
        with changed(device=device_of(inputs) or state().device):
            found: Sequence[Any] = self.op.body(*inputs, **self.params)
        return found

    def free(self) -> None:
        # A node that saved nothing can run again at no cost, so it may.
        if self.kept:
            self.kept = None


def kept_by(
    form: Form, targets: Sequence[Node | Tensor | None], values: Sequence[Any],
    hooks: tuple[Any, ...],
) -> tuple[Any, ...]:  # fmt: skip
    """The entries of `OpNode.kept` for a node whose inputs and outputs are `values`: those that its
    rules name, packed by `hooks` for saved values if there are any."""
    kept: tuple[Any, ...] = ()
    for i in form.saved:
        x = values[i]
        if isinstance(x, Tensor):
            storage = x.storage
            array: Any = x._array
            if array is None and storage.device != "cpu" and storage._data is not None:
                array = x.dtype
            odd = array is None or x._tangents is not None or storage.inference
            if not odd and not hooks:
                kept += (storage, storage.version, array, x.layout)
                continue
            # An output has no place, so that it and this node form no reference cycle.
            target = targets[i] if i < len(targets) else None
            x = keep(x, None if target is None else (target, form.indices[i]))
        kept += (x, None, None, None)
    return kept


_new: Any = object.__new__

# Frames from `user_call` to the op that names the node: `user_call`, `__init__`, and the functions
# `_cut_together` and `_cut` of `ops/shape/parts.py`.
_PARTS_FRAMES = 4


class PartsNode(Node):
    """Views of a tensor that were made together: one node, with an output for each of them."""

    __slots__ = ("owner", "dim", "ends", "drops")

    def __init__(self, x: Tensor, dim: int, ends: Sequence[int], drops: bool) -> None:
        """A dim cut at `ends`, from 0 to its size; if it `drops`, into single coordinates."""
        code, instruction, self.owner = user_call(_PARTS_FRAMES)
        applied = None if code is None else (code, instruction)
        super().__init__([x.edge], [x.spec], len(ends) - 1, applied)
        self.dim, self.ends, self.drops = dim, ends, drops

    @property
    def name(self) -> str:
        return OWNERS.get(self.owner or "split", "split")

    @property
    def input_names(self) -> Sequence[str]:
        return ("x",)

    @property
    def output_specs(self) -> Sequence[Spec | None]:
        (whole,) = self.input_specs
        assert whole is not None
        before, after = whole.shape[: self.dim], whole.shape[self.dim + 1 :]
        return [
            Spec((*before, *(() if self.drops else (b - a,)), *after), whole.dtype)
            for a, b in pairwise(self.ends)
        ]

    def backward(self, cotangents: list[Tensor | None]) -> Sequence[Tensor | None]:
        (whole,) = self.input_specs
        assert whole is not None
        dealt = cotangents_of(state().grad)
        joined = dealt.join(whole, self.dim, self.ends, self.drops, cotangents)
        if joined is None:
            with changed(device=device_of(cotangents)):
                joined = self._joined(whole, cotangents)
        return (joined,)

    def _joined(self, whole: Spec, cotangents: list[Tensor | None]) -> Tensor:
        """The same by ops; where no gradients came from one to the next, zeros in one piece."""
        full, unsqueeze = core.full, core.unsqueeze
        before, after = whole.shape[: self.dim], whole.shape[self.dim + 1 :]
        pieces, filled = [], 0

        def fill(end: int) -> None:
            if end > filled:
                pieces.append(full((*before, end - filled, *after), 0, dtype=whole.dtype))

        for a, b, g in zip(self.ends, self.ends[1:], cotangents):
            if g is not None:
                fill(a)
                pieces.append(unsqueeze(g, dim=self.dim) if self.drops else g)
                filled = b
        fill(self.ends[-1])
        joined: Tensor = core.cat(pieces, self.dim)
        return joined
