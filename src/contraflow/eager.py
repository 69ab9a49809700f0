"""Eager execution: run an op's `ref` over NumPy, and put a Node into the graph.

This context stands at the bottom of every thread's stack. `record.py` derives from it and only
replaces how results come about, so that a recording has eager's meaning by construction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from contraflow import dtypes
from contraflow.dtypes import DType
from contraflow.errors import GradientError
from contraflow.hostscalar import HostScalar
from contraflow.node import Edge, OpNode
from contraflow.op import (
    DTYPE_RULES,
    Context,
    Given,
    Op,
    Params,
    Spec,
    changed,
    set_base_context,
    state,
)
from contraflow.reference import quiet, run_reference
from contraflow.storage import user_line
from contraflow.tensor import Tensor


class Run(Context):
    """Apply an op: views and composites here, everything else by `execute`, then the graph."""

    def apply(self, op: Op, inputs: tuple[Any, ...], params: Params) -> Any:
        lowering = op.kind.lowering
        if lowering == "view":
            return self._view(op, inputs, params)
        if lowering == "composite":
            return self._composite(op, inputs, params)
        outs = self.execute(op, inputs, params)
        current = state()
        if current.grad:
            if op.rules:
                self._attach(op, inputs, params, outs)
        elif current.inference:
            for out in outs:
                out.storage.inference = True
        return op.pack(outs)

    def execute(self, op: Op, inputs: tuple[Any, ...], params: Params) -> tuple[Tensor, ...]:
        """Compute the results of an op that is neither a view nor a composite."""
        raise NotImplementedError

    def leave(self, tensor: Tensor, what: str) -> None:
        """Eager data may leave at any time, unless it is a recording's."""
        if tensor.storage.is_recorded:
            raise GradientError(
                f"{what}: {tensor!r} was recorded by compile and never had a value."
            )

    def touch_grad(self, tensor: Tensor, reading: bool) -> None:
        """Nothing to note in eager mode."""

    def draw(self, generator: Any, blocks: int) -> tuple[Any, Any]:
        """The generator's own numbers."""
        return generator.take(blocks)  # type: ignore[no-any-return]

    def read_generator(self, generator: Any) -> None:
        """Nothing to note in eager mode."""

    def write_generator(self, generator: Any, saved: tuple[int, int]) -> None:
        """Nothing to note in eager mode."""

    def read_scalar(self, cell: HostScalar) -> int | float:
        """The Python number."""
        return cell.value

    def write_scalar(self, cell: HostScalar, value: int | float) -> None:
        """Keep the Python number."""
        cell.value = value

    def watches(self, tensor: Any) -> bool:
        """Only forward mode does."""
        return False

    def push(self, node: Any, inputs: Sequence[Any], outs: Sequence[Any]) -> None:
        """Only forward mode listens."""

    def visit_module(self, module: Any) -> None:
        """Nothing depends on modules in eager mode."""

    def _view(self, op: Op, inputs: tuple[Any, ...], params: Params) -> Tensor:
        x = inputs[0]
        if not isinstance(x, Tensor):
            raise TypeError(f"{op.name}: expected a tensor, not {type(x).__name__}.")
        t = Tensor.of_storage(x.storage, op.body(x.layout, **params), x.dtype)
        grad = state().grad
        base = x._base
        t._base = x if base is None else base
        t._moves = (*x._moves, (op, params)) if base is not None else ((op, params),)
        t._edits = t._base._edits
        # A view of a view that may not be written to may not either.
        refused = op.extra.get("several", False) or not x._writable
        t._writable = (grad or not t._base._needs) and not refused
        if grad and x.requires_grad:
            self._attach(op, inputs, params, (t,))
        return t

    def _composite(self, op: Op, inputs: tuple[Any, ...], params: Params) -> Any:
        current = state()
        needs = current.grad and any(isinstance(x, Tensor) and x.requires_grad for x in inputs)
        if not op.rules or not needs or current.anomaly:
            outs = op.body(*inputs, **params)
            return op.pack(outs) if op.residuals or op.results else outs
        with changed(grad=False):
            outs = op.body(*inputs, **params)
            outs = outs if isinstance(outs, tuple) else (outs,)
            # A composite may return an input or a view of one: the node must have its own output.
            outs = tuple(o.alias() for o in outs)
            self._attach(op, inputs, params, outs)
        return op.pack(outs)

    def _attach(
        self, op: Op, inputs: tuple[Any, ...], params: Params, outs: Sequence[Tensor]
    ) -> None:
        """Make `outs` the outputs of a node, if some input needs gradients."""
        edges: list[Edge | None] = []
        given: list[Spec | None] = []
        some = False
        for x in inputs:
            edge = None
            if isinstance(x, Tensor):
                if x._base is not None:
                    edge = x.edge
                elif x._needs:
                    edge = (x, 0) if x._node is None else (x._node, x._index)
                given.append(_new_spec(Spec, (x.layout.shape, x.dtype)))
            else:
                given.append(None)
            edges.append(edge)
            some = some or edge is not None
        if not some:
            return
        needs = tuple([e is not None for e in edges])
        current = state()
        node = OpNode(op, params, needs, edges, given, current.line or user_line(4))
        if current.region:
            node.region = current.region
        node.save(inputs, outs)
        for i in range(len(op.outs)):
            out = outs[i]
            if out.dtype.is_floating_point:
                out._node, out._index, out._needs = node, i, True


# What Spec(...) does, without the cost of a Python-level __new__.
_new_spec: Any = tuple.__new__


class Eager(Run):
    """Run ops over NumPy."""

    replays = True

    def execute(self, op: Op, inputs: tuple[Any, ...], params: Params) -> tuple[Tensor, ...]:
        dtype: DType | None = None
        same = op.kind.name == "elementwise"
        arrays = []
        for x in inputs:
            if isinstance(x, Tensor):
                if dtype is None:
                    dtype = x.dtype
                elif x.dtype is not dtype:
                    same = False
                array = x._array
                arrays.append(x.array if array is None else array)
            else:
                same = same and type(x) is float
                arrays.append(x)
        # One dtype throughout needs no rule: float32 with float32 or a Python float stays float32.
        if same and dtype in _DIRECT and op.types in _PLAIN:
            return (self._directly(op, inputs, arrays, params),)
        given = specs(op, inputs)
        expected = op.infer(given, params)
        outs = run_reference(op, arrays, given, params)
        if not op.dynamic:
            for out, spec in zip(outs, expected):
                assert out.shape == spec.shape, f"{op.name}: {out.shape} is not {spec.shape}"
        return tuple(Tensor.of_array(out) for out in outs)

    def _directly(self, op: Op, inputs: Any, arrays: list[Any], params: Params) -> Tensor:
        """Run an elementwise `ref` on arrays that need no cast, before or after."""
        ref = op.ref
        try:
            if type(ref) is np.ufunc and not params:
                out = quiet.run_ufunc(ref, arrays)
            else:
                assert ref is not None
                out = quiet.run(ref, *arrays, **params)
        except (ValueError, TypeError):
            op.infer(specs(op, inputs), params)  # raises the message a user can read
            raise
        if type(out) is not np.ndarray:
            out = np.asarray(out)
        elif not out.flags.c_contiguous:
            out = np.ascontiguousarray(out)
        return Tensor.of_array(out)

    def write(self, target: Tensor, value: Tensor, op: str, line: Any) -> None:
        if target.storage is value.storage:
            if target.layout == value.layout:
                target.storage.wrote(op, line)
                return
            source = value.array.copy()
        else:
            source = value.array
        np.copyto(target.array, source)
        target.storage.wrote(op, line)


_DIRECT = frozenset((dtypes.float32, dtypes.float64))
_PLAIN = frozenset(DTYPE_RULES[name] for name in ("promote", "float", "bool"))


def specs(op: Op, inputs: Sequence[Any]) -> list[Given]:
    """Shapes and dtypes of an op's inputs, or the error for an input that is no tensor."""
    given: list[Given] = []
    for x in inputs:
        if isinstance(x, Tensor):
            given.append(Spec(x.layout.shape, x.dtype))
        elif isinstance(x, (bool, int, float)):
            given.append(x)
        else:
            raise TypeError(
                f"{op.name}: expected a tensor or a number, not {type(x).__name__}. "
                f"Make it one: contraflow.tensor(x)."
            )
    return given


set_base_context(Eager())
