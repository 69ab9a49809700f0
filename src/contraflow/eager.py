"""Eager execution: run an op over NumPy where it is small, as generated code where it is not.

This context stands at the bottom of every thread's stack.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from contraflow import native
from contraflow.dispatch import apply, set_base_context, state
from contraflow.dtypes import DType, float32, float64
from contraflow.node import OpNode
from contraflow.op import Op
from contraflow.reference import quiet, run_reference
from contraflow.rules import Backward
from contraflow.run import Run, specs
from contraflow.spec import Params
from contraflow.tensor import Tensor


class Eager(Run):
    """Run ops over NumPy."""

    replays = True

    def apply(self, op: Op, inputs: tuple[Any, ...], params: Params) -> Any:
        """Apply an op; elementwise ones of one dtype, most of all, take a short way.

        float32 with float32 or a Python float stays float32, so no rule need be asked and no array
        be cast. This is where small ops spend their time, hence few calls and no helper functions.
        """
        if not op.direct:
            return Run.apply(self, op, inputs, params)
        dtype: DType | None = None
        arrays: list[Any] = []
        for x in inputs:
            if isinstance(x, Tensor):
                if x.dtype is not dtype:
                    if dtype is not None:
                        return Run.apply(self, op, inputs, params)
                    dtype = x.dtype
                array = x._array
                arrays.append(x.array if array is None else array)
            elif type(x) is float:
                arrays.append(x)
            else:
                return Run.apply(self, op, inputs, params)
        if dtype is not float32 and dtype is not float64:
            return Run.apply(self, op, inputs, params)
        ref: Any = op.ref
        try:
            if params or type(ref) is not np.ufunc:
                # A ref may compute with a number alone, and NumPy takes the result for a float64.
                number = dtype.numpy.type
                arrays = [number(x) if type(x) is float else x for x in arrays]
                array = np.asarray(quiet.run(ref, *arrays, **params))
            elif len(arrays) == 2:
                array = quiet.call(ref, arrays[0], arrays[1], out=...)
            else:
                array = quiet.call(ref, *arrays, out=...)
        except (ValueError, TypeError):
            op.infer(specs(op, inputs), params)  # raises the message a user can read
            raise
        if not array.flags.c_contiguous:
            array = np.ascontiguousarray(array)
        out = Tensor.of_array(array)
        current = state()
        if current.grad:
            if op.rules:
                self._attach(op, inputs, params, (out,))
        elif current.inference:
            out.storage.inference = True
        return out

    def execute(self, op: Op, inputs: tuple[Any, ...], params: Params) -> tuple[Tensor, ...]:
        # NumPy joins parts one after the other, where a kernel looks for each element's part.
        has_kernel = op.kind.lowering != "opaque" and not op.dynamic and not op.variadic
        if has_kernel and native.is_large(inputs):
            results = native.call(
                op.name, native.exactly(params), lambda *xs: apply(op, xs, params), inputs
            )
            if results is not None:
                return tuple(results)
        given = specs(op, inputs)
        expected = op.infer(given, params)
        arrays = [x.array if isinstance(x, Tensor) else x for x in inputs]
        outs = run_reference(op, arrays, given, params)
        if not op.dynamic:
            for out, spec in zip(outs, expected):
                assert out.shape == spec.shape, f"{op.name}: {out.shape} is not {spec.shape}"
        return tuple(Tensor.of_array(out) for out in outs)

    def evaluate(self, op: Op, inputs: tuple[Any, ...], params: Params) -> Any:
        if native.is_large(inputs) and "by_parts" not in op.extra:
            function = functools.partial(op.body, **params)
            results = native.call(op.name, native.exactly(params), function, inputs)
            if results is not None:
                return tuple(results) if len(results) > 1 else results[0]
        return op.body(*inputs, **params)

    def derive(self, node: OpNode, named: list[Any]) -> list[Any]:
        """Arithmetic on small tensors is that of arrays, and rules on large ones are a program."""
        plan = node.plan
        if state().grad:
            return super().derive(node, named)
        if plan.arithmetic:
            dtype: DType | None = None
            arrays = []
            total = 0
            for x in named:
                if not isinstance(x, Tensor) or (x.dtype is not dtype and dtype is not None):
                    break
                dtype = x.dtype
                array = x._array
                if array is None:
                    array = x.array
                total += array.size
                arrays.append(array)
            else:
                if total < native.SMALL and (dtype is float32 or dtype is float64):
                    found: list[Any] = quiet.call(_arithmetic, plan, arrays, len(node.edges))
                    return found
        if native.is_large(named):
            op, params, specs = node.op, node.params, tuple(node.input_specs)
            key = ("backward", plan.needs, specs, native.exactly(params))
            results = native.call(
                op.name, key, lambda *xs: plan.run(op, list(xs), params, specs), named
            )
            if results is not None:
                return results
        return super().derive(node, named)

    def add_to(self, total: Tensor, value: Tensor) -> None:
        into = total.array
        quiet.call(np.add, into, value.array, into)

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


def _arithmetic(plan: Backward, arrays: Sequence[np.ndarray], count: int) -> list[Any]:
    """Run rules on arrays; the gradient of each of `count` inputs."""
    grads: list[Any] = [None] * count
    for (i,), function, pick in plan.rules:
        grads[i] = Tensor.of_array(np.asarray(function(*pick(arrays)), order="C"))
    return grads


set_base_context(Eager())
