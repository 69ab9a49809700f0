"""What the buffers of a kernel call in WGSL hold: for tests that run kernels one by one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from contraflow.compiler.interpret import BoundOperand
from contraflow.compiler.kernel import KernelCall
from contraflow.dtypes import DType, bool_, int64
from contraflow.render.clike import source, wgsl


def contents(
    call: KernelCall,
    arrays: Sequence[BoundOperand],
    scalars: Sequence[float | int] = (),
    line: int = 0,
) -> dict[int, bytes]:
    """The bytes of each binding before the call runs; that of a failure is the last, if any."""
    kernel = call.kernel
    values = [
        scalars[at] if o.mode == "scalar" else 0 for o, (_, at) in zip(kernel.operands, arrays)
    ]
    found = {0: wgsl.pack_arguments(call, [at for _, at in arrays], line)}
    if source.scalars(kernel):
        found[1] = wgsl.pack_scalars(kernel, values)
    for binding, i in operands(call).items():
        array = arrays[i][0]
        assert array is not None
        found[binding] = array.astype(stored(kernel.operands[i].dtype)).tobytes() or bytes(4)
    if source.checks_indices(kernel):
        found[2 + len(operands(call))] = bytes(8)
    return found


def operands(call: KernelCall) -> dict[int, int]:
    """The operand that each binding of a kernel holds."""
    return dict(enumerate(source.in_memory(call.kernel), start=2))


def written(call: KernelCall) -> dict[int, int]:
    """The same of operands that the kernel writes."""
    modes = [operand.mode for operand in call.kernel.operands]
    return {binding: i for binding, i in operands(call).items() if modes[i] != "in"}


def take(call: KernelCall, arrays: Sequence[BoundOperand], results: dict[int, bytes]) -> None:
    """Copy what bindings hold after the call into its operands."""
    for binding, i in written(call).items():
        array = arrays[i][0]
        if array is not None:
            data = np.frombuffer(results[binding], stored(call.kernel.operands[i].dtype))
            array[:] = data[: array.size]


def stored(dtype: DType) -> np.dtype:
    """The NumPy dtype of what a buffer holds."""
    return np.dtype({bool_: np.uint32, int64: np.int32}.get(dtype, dtype.numpy))
