"""Forward mode: a context that pushes tangents along with values.

The effect of an op on tangents follows from its declaration. An elementwise op's gradient rule
multiplies by the derivative, so the rule applied to the tangent is the tangent of the result; a
linear op acts on tangents as on values; and any other derivative is the transpose of its
backward, which is linear in the cotangent and so is transposed by differentiating it once more.

Tangents are ordinary tensors, computed by ordinary ops in the context below: they have graphs of
their own, and forward mode nests with itself, with backward and with capture.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from contraflow import devices
from contraflow.contexts.applying import on_one_device
from contraflow.graph import engine
from contraflow.graph.op_node import OpNode
from contraflow.operation import core
from contraflow.operation.context import (
    Context,
    apply,
    changed,
    other_devices,
    state,
)
from contraflow.operation.op import Op
from contraflow.shapes import contiguous
from contraflow.spec import Params, Spec
from contraflow.tensors.node import fit
from contraflow.tensors.tensor import Tensor
from contraflow.tensors.writing import region_of


class Forward(Context):
    """Pushes the tangents that tensors carry in its name."""

    def __init__(self, below: Context) -> None:
        super().__init__(below)
        self._written: dict[int, Tensor] = {}  # bases whose views must follow them

    # --- tangents of tensors --------------------------------------------------------------

    def tangent(self, x: Any) -> Tensor | None:
        """The tangent of a tensor; None is zero."""
        if not isinstance(x, Tensor):
            return None
        base = x._base
        if base is not None and id(base) in self._written:
            t = self.tangent(base)
            if t is not None:
                with changed(context=self.below):
                    for op, params in x.view_ops:
                        t = apply(op, (_in_order(t),), params)
            self.set_tangent(x, t)  # other handles on the view, which know no base, get it too
            return t
        return None if x._tangents is None else x._tangents.get(self)

    def set_tangent(self, x: Tensor, tangent: Tensor | None) -> None:
        """Let `x` carry a tangent. Other handles on its elements keep theirs."""
        others = {k: t for k, t in (x._tangents or {}).items() if k is not self}
        x._tangents = others if tangent is None else {**others, self: tangent}

    def watches(self, tensor: Any) -> bool:
        return self.tangent(tensor) is not None or self.below.watches(tensor)

    # --- ops ------------------------------------------------------------------------------

    def apply(self, op: Op, inputs: tuple[Any, ...], params: Params) -> Any:
        if op.is_composite and not op.rules:
            return self.below.apply(op, inputs, params)  # its parts come back here
        if other_devices:  # tangents move with what they belong to
            device, inputs = on_one_device(op, inputs)
            if device != devices.current():
                with changed(device=device):
                    return self.apply(op, inputs, params)
        tangents = [self.tangent(x) for x in inputs]
        with changed(context=self.below):
            out = apply(op, inputs, params)
            if not op.rules or all(t is None for t in tangents):
                return out
            outs = out if op.results is not None else (out,)
            pushed = _pushed(op, inputs, params, outs, tangents)
        for o, t in zip(outs, pushed):
            if t is not None:
                self.set_tangent(o, t)
        node = outs[0]._node
        if isinstance(node, OpNode) and node.op is op:
            node.carry(outs)  # a backward that runs here must see its values' tangents
        return out

    def push(self, node: Any, inputs: Sequence[Any], outs: Sequence[Any]) -> None:
        self.below.push(node, inputs, outs)
        tangents = [self.tangent(x) for x in inputs]
        with changed(context=self.below):
            pushed = _transposed(node.backward, node, node.input_specs, outs, tangents)
        for o, t in zip(outs, pushed):
            if isinstance(o, Tensor):
                self.set_tangent(o, t)

    def write(self, target: Tensor, value: Tensor, op: str, line: Any) -> None:
        base = target if target._base is None else target._base
        new, old = self.tangent(value), self.tangent(base)
        self.below.write(target, value, op, line)
        if new is None and old is None:
            return
        if base is not target:
            with changed(context=self.below):
                region = region_of(target, base, op)._asdict()
                parts = (_or_zeros(old, base.spec), _or_zeros(new, target.spec))
                new = apply(core.assign, parts, region)
        self.set_tangent(base, new)
        self._written[id(base)] = base


def _in_order(t: Tensor) -> Tensor:
    """The tensor with its elements in row-major order, so that any view of it is possible."""
    if t.layout == contiguous(t.shape):
        return t
    copy: Tensor = apply(core.clone, (t,))
    return copy


def _or_zeros(t: Tensor | None, spec: Spec) -> Tensor:
    zeros: Tensor = core.full(spec.shape, 0.0, dtype=spec.dtype) if t is None else t
    return zeros


def _cast(t: Tensor, spec: Spec) -> Tensor:
    if t.dtype is not spec.dtype:
        t = core.to_dtype(t, dtype=spec.dtype)
    return t if t.shape == spec.shape else core.expand(t, spec.shape)


Tangents = Sequence[Tensor | None]


def _pushed(
    op: Op, inputs: Sequence[Any], params: Params, outs: Sequence[Tensor], tangents: Tangents
) -> Tangents:
    """The tangents of an op's results."""
    if op.is_transfer:
        return (apply(op, (tangents[0],), params),)
    if op.is_elementwise and len(outs) == 1:
        return (_along(op, inputs, params, outs[0], tangents),)
    shown = op.is_view and inputs[0].layout != contiguous(inputs[0].shape)
    if op.linear and not shown:
        return (_of_linear(op, inputs, params, tangents),)
    needs = tuple(t is not None for t in tangents)
    bound = op.backward(needs)
    specs = [x.spec if isinstance(x, Tensor) else None for x in inputs]

    def rules(cotangents: Sequence[Any]) -> Sequence[Any]:
        made = op.body(*inputs, **params) if op.residuals else outs
        kept = [inputs[i] for i in bound.saved_inputs]
        kept_outs = [made[i] for i in bound.saved_outs]
        return bound.run(op, [*cotangents, *kept, *kept_outs], params, specs)

    return _transposed(rules, op, specs, outs, tangents)


def _along(
    op: Op, inputs: Sequence[Any], params: Params, out: Tensor, tangents: Tangents
) -> Tensor | None:
    """Elementwise: each rule multiplies what it is given by one partial derivative."""
    specs = [x.spec if isinstance(x, Tensor) else None for x in inputs]
    total: Tensor | None = None
    for i, t in enumerate(tangents):
        if t is None or not out.dtype.is_floating_point:
            continue
        needs = tuple(k == i for k in range(len(inputs)))
        bound = op.backward(needs)
        kept = [inputs[k] for k in bound.saved_inputs]
        named = [_cast(t, out.spec), *kept, *[out] * len(bound.saved_outs)]
        found = bound.run(op, named, params, specs)
        if found[i] is not None:
            part = _cast(found[i], out.spec)
            total = part if total is None else total + part
    return total


def _of_linear(op: Op, inputs: Sequence[Any], params: Params, tangents: Tangents) -> Any:
    """The op itself, on tangents; inputs without a rule (indices, weights) are constants."""
    every = any(not rule.inputs for rule in op.rules)
    linear = {i for rule in op.rules for i in rule.inputs}
    given: list[Any] = []
    for i, (x, t) in enumerate(zip(inputs, tangents)):
        if not every and i not in linear:
            given.append(x)
        elif isinstance(x, Tensor):
            given.append(_in_order(_or_zeros(t, x.spec)))
        else:
            given.append(0.0)
    return apply(op, tuple(given), params)


def _transposed(
    backward: Callable[[list[Tensor | None]], Sequence[Any]],
    owner: Any,
    specs: Sequence[Spec | None],
    outs: Sequence[Any],
    tangents: Tangents,
) -> Tangents:
    """The tangents of results: for every c, <c, J t> = <J'c, t>, so J t is the gradient of <J'c, t>
    with respect to c. `owner` is the node or op whose backward gives J'c."""
    create_graph = state().grad
    with changed(grad=True):
        cotangents: list[Tensor | None] = []
        for out in outs:
            c = None
            if isinstance(out, Tensor) and out.dtype.is_floating_point:
                c = _or_zeros(None, out.spec)
                c._needs = True
            cotangents.append(c)
        found = [
            (fit(owner, g, *spec), t)
            for g, spec, t in zip(backward(cotangents), specs, tangents)
            if g is not None and spec is not None and t is not None
        ]
    pairs = [(g, t) for g, t in found if g.requires_grad]
    wanted = [c for c in cotangents if c is not None]
    if not pairs:
        return [None] * len(outs)
    roots, seeds = [g for g, _ in pairs], [t for _, t in pairs]
    result = iter(engine.grad(roots, wanted, seeds, None, create_graph, True))
    return [None if c is None else next(result) for c in cotangents]
