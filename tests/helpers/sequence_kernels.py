"""Run one op as the kernels it is lowered to, each checked against its meaning, share by share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tests.helpers.native import WIDTHS, assert_close, check

from contraflow import dtypes
from contraflow.compiler.fuse import fuse
from contraflow.compiler.interpret import run_call
from contraflow.compiler.kernel import Kernel
from contraflow.compiler.lower import KernelUse
from contraflow.compiler.tape import Tape, Value
from contraflow.devices import lookup
from contraflow.dtypes import DType, bool_, float32
from contraflow.operation.op import REGISTRY
from contraflow.operation.reference import run_reference
from contraflow.shapes import View, numel
from contraflow.spec import Spec

GUARD = 10  # elements before and behind every array that nobody may touch


def values(shape: Any, dtype: DType = float32, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    if dtype is bool_:
        return random.integers(0, 2, shape).astype(bool)
    if dtype.is_floating_point:  # far apart, so that another order of additions shows
        return (random.standard_normal(shape) * 10.0 ** random.integers(-3, 4, shape)).astype(
            dtype.numpy
        )
    return random.integers(0, 50, shape).astype(dtype.numpy)


def strided(x: np.ndarray) -> np.ndarray:
    """The same elements, every second one of a larger transposed array."""
    room = np.zeros((*[2 * n for n in reversed(x.shape)],), x.dtype)
    view = room.T[tuple(slice(1, None, 2) for _ in x.shape)]
    view[...] = x
    return view


def kernel_uses(name: str, arrays: Sequence[Any], params: Mapping[str, Any]) -> Any:
    """The kernels that an op on arrays, which may have any strides, is lowered to on the cpu.

    Beside them come the tape, and the flat memory of its inputs.
    """
    tape, inputs, memory = Tape(), [], {}
    for x in arrays:
        if not isinstance(x, np.ndarray):
            inputs.append(x)
            continue
        flat = x if x.base is None else x.base
        dtype = dtypes.from_numpy(x.dtype)
        value = tape.add_input(Spec(flat.shape, dtype), "arg")
        memory[value] = flat.reshape(-1)
        if x is not flat:
            start = (x.ctypes.data - flat.ctypes.data) // x.itemsize
            strides = tuple(n // x.itemsize for n in x.strides)
            view = View(x.shape, strides, start)._asdict()
            (value,) = tape.add(REGISTRY["strided"], (value,), view)
        inputs.append(value)
    tape.outputs += tape.add(REGISTRY[name], tuple(inputs), params)
    return fuse(tape, set(), lookup("cpu").limits), tape, memory


def run_op(
    name: str,
    arrays: Sequence[Any],
    params: Mapping[str, Any],
    *,
    ulps: float = 0,
    widths: Sequence[int] = WIDTHS,
) -> list[Kernel]:
    """Assert that an op's kernels give what its reference does, at all widths and in any shares."""
    uses, tape, memory = kernel_uses(name, arrays, params)
    held = {v: np.pad(x, GUARD) for v, x in memory.items()}
    for use in uses:
        assert isinstance(use, KernelUse), use
        for v in use.writes:
            spec = tape.specs[v]
            held[v] = np.zeros(numel(spec.shape) + 2 * GUARD, spec.dtype.numpy)
            if use.rest is not None:
                held[v][:] = held[use.rest]
        bound: list[tuple[Any, int]] = []
        scalars: list[Any] = []
        for operand, place in zip(use.call.kernel.operands, use.places):
            if operand.mode == "scalar":
                bound.append((None, len(scalars)))
                scalars.append(place.value)
            elif operand.mode == "position":
                bound.append((None, place.offset))
            else:
                assert isinstance(place.value, Value)
                bound.append((held[place.value], GUARD + place.offset))
        check(use.call, bound, scalars, widths=widths, ulps=ulps)
        run_call(use.call, bound, scalars)
    line = tape.lines[-1]
    expected = run_reference(line.op, arrays, tape.given(line.inputs), params)
    for v, want in zip(tape.outputs, expected):
        got = held[v][GUARD : held[v].size - GUARD]
        assert_close(got, want.reshape(-1), ulps)
    return [use.call.kernel for use in uses]
