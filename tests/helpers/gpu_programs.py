"""Runs the kernels of a tape one after the other, each checked against its meaning."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from tests.helpers.gpu_case import GUARD

from contraflow import dtypes
from contraflow.compiler.fuse import fuse
from contraflow.compiler.host_numbers import host_values
from contraflow.compiler.interpret import BoundOperand, run_call, run_tape
from contraflow.compiler.kernel import KernelCall, Limits
from contraflow.compiler.lower import HostUse, KernelUse
from contraflow.compiler.tape import Tape, Value
from contraflow.operation.op import REGISTRY
from contraflow.operation.reference import run_reference, strided
from contraflow.shapes import numel
from contraflow.spec import Spec

Run = Callable[..., Any]


def tape_of(name: str, arrays: Sequence[Any], params: Mapping[str, Any]) -> tuple[Tape, Any]:
    """The tape of one op, and what its inputs hold; an array may come in a pair with a view."""
    tape, given = Tape(), {}
    inputs: list[Any] = []
    for x in arrays:
        array, view = x if isinstance(x, tuple) else (x, None)
        if isinstance(array, np.ndarray):
            value = tape.add_input(Spec(array.shape, dtypes.from_numpy(array.dtype)), "arg")
            given[value] = array
            if view is not None:
                (value,) = tape.add(REGISTRY["strided"], (value,), view._asdict())
            x = value
        inputs.append(x)
    tape.outputs += tape.add(REGISTRY[name], tuple(inputs), params)
    return tape, given


class KernelRun:
    """The values of a tape while its kernels run, with elements before them that must stay."""

    def __init__(self, tape: Tape, given: Mapping[Value, Any], limits: Limits) -> None:
        self.tape = tape
        host = host_values(tape)
        prologue = [line for line in tape.lines if host.issuperset(line.outs)]
        self.numbers = {v: x for v, x in run_tape(tape, given, prologue).items() if v in host}
        self.uses = fuse(tape, host, limits)
        self.held = {
            v: np.concatenate([np.zeros(GUARD, x.dtype), x.reshape(-1)])
            for v, x in given.items()
            if v not in host
        }

    def run(self, run: Run, compare: Callable[..., None]) -> list[KernelCall]:
        """Run every kernel, and give what ran; the results of the meaning are used further on."""
        calls = []
        for use in self.uses:
            if isinstance(use, HostUse):
                self._run_on_host(use)
            else:
                self._run_kernel(use, run, compare)
                calls.append(use.call)
        return calls

    def result(self, v: Value) -> Any:
        """What a value holds in the end."""
        if v in self.numbers:
            return np.asarray(self.numbers[v])
        return self.held[v][GUARD:].reshape(self.tape.specs[v].shape)

    def _run_on_host(self, use: HostUse) -> None:
        line = use.tape_line
        inputs = [
            strided(self.held[x[0]][GUARD:], x[1]) if type(x) is tuple else x for x in use.inputs
        ]
        outs = run_reference(line.op, inputs, self.tape.given(line.inputs), line.params)
        for v, out in zip(line.outs, outs):
            self.held[v] = np.concatenate([np.zeros(GUARD, out.dtype), out.reshape(-1)])

    def _run_kernel(self, use: KernelUse, run: Run, compare: Callable[..., None]) -> None:
        wanted, scalars = self.bind(use)
        found, _ = self._bound(use, {v: x.copy() for v, x in self.held.items()})
        run_call(use.call, wanted, scalars)
        run(use.call, found, scalars)
        for i, operand in enumerate(use.call.kernel.operands):
            if operand.mode in ("out", "inout"):
                compare(use.call, i, found[i][0], wanted[i][0])

    def bind(self, use: KernelUse) -> tuple[list[BoundOperand], Any]:
        """The operands of a kernel that runs next, and its scalars."""
        for v in use.writes:
            shape, dtype = self.tape.specs[v]
            if v not in self.held:  # several kernels may write parts of one value
                self.held[v] = np.full(numel(shape) + GUARD, 99, dtype.numpy)
            if use.rest is not None:
                self.held[v] = self.held[use.rest].copy()
        return self._bound(use, self.held)

    def _bound(self, use: KernelUse, held: Mapping[Value, Any]) -> tuple[list[BoundOperand], Any]:
        bound: list[BoundOperand] = []
        scalars: list[Any] = []
        for operand, place in zip(use.call.kernel.operands, use.places):
            value: Any = place.value
            if operand.mode == "scalar":
                bound.append((None, len(scalars)))
                number = self.numbers.get(value, value) if isinstance(value, Value) else value
                scalars.append(np.asarray(number).item())
            elif operand.mode == "position":
                bound.append((None, place.offset))
            else:
                bound.append((held[value], GUARD + place.offset))
        return bound, scalars


RELATIVE = {"float64": 1e-12, "float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}


def compare(call: KernelCall, operand: int, found: np.ndarray, wanted: np.ndarray) -> None:
    """Assert that an operand holds what the interpreter left in it."""
    dtype, message = call.kernel.operands[operand].dtype, f"{call.kernel.name}, operand {operand}"
    if not dtype.is_floating_point:
        np.testing.assert_array_equal(found, wanted, err_msg=message)
        return
    wide = wanted.astype(np.float64)
    scale = np.abs(wide[np.isfinite(wide)]).max(initial=1.0)
    np.testing.assert_allclose(
        found.astype(np.float64), wide, rtol=RELATIVE[dtype.name],
        atol=RELATIVE[dtype.name] * scale, err_msg=message,
    )  # fmt: skip


def compare_bits(call: KernelCall, operand: int, found: np.ndarray, wanted: np.ndarray) -> None:
    """Assert that an operand holds exactly what the interpreter left in it."""
    np.testing.assert_array_equal(found, wanted, f"{call.kernel.name}, operand {operand}")


def check_op(
    name: str,
    arrays: Sequence[Any],
    params: Mapping[str, Any],
    run: Run,
    limits: Limits,
    compare: Callable[..., None] = compare,
) -> list[KernelCall]:
    """Assert that an op's kernels, run one by one, give what its reference does."""
    tape, given = tape_of(name, arrays, params)
    program = KernelRun(tape, given, limits)
    calls = program.run(run, compare)
    for v, wanted in run_tape(tape, given).items():
        if tape.specs[v].dtype.is_floating_point:
            np.testing.assert_allclose(program.result(v), wanted, rtol=1e-4, atol=1e-4)
        else:
            np.testing.assert_array_equal(program.result(v), wanted)
    return calls
