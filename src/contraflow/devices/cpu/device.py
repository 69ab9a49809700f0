"""The CPU as a device."""

from __future__ import annotations

import numpy as np

from contraflow.compiler.kernel import Limits
from contraflow.compiler.plan import Plan
from contraflow.devices.cpu import jit, memory, tiles
from contraflow.devices.cpu.program import CpuProgram, address_of, load
from contraflow.dtypes import DType
from contraflow.shapes import Shape

# A kernel of attention computes the weights once more in backward, which is one more product than
# its parts have. The half that a causal mask hides outweighs that from 96 queries on (a block has
# 48), the memory of weights that are not stored from 512 on: measured on Zen 4 with 20 to 64
# columns. The scratch memory of its kernels, on the stack of a thread, grows with the columns: to
# 2 MiB for these.
ATTENTION_ROWS, ATTENTION_COLUMNS = (96, 512), 512


class CpuDevice:
    """The cpu as a Device."""

    name = "cpu"
    holds_arrays = True
    asynchronous = False
    exchange = None  # NumPy does it

    def __init__(self) -> None:
        kernels = frozenset(("scatter", "scan", "sort", "attention"))
        self.limits = Limits(
            windows=True, narrow=16, kernels=kernels, doubles=True,
            attention_rows=ATTENTION_ROWS, attention_columns=ATTENTION_COLUMNS,
        )  # fmt: skip
        # Tiles are asked for here, before threads start and have stacks for signals.
        self.description = jit.describe_processor() + (" amx" if tiles.permitted() else "")

    def load(self, plan: Plan) -> CpuProgram:
        """Compile a plan's kernels and lay out its memory."""
        return load(plan)

    def allocate(self, shape: Shape, dtype: DType) -> np.ndarray:
        """An uninitialised array."""
        return memory.empty(shape, dtype.numpy)

    def upload(self, array: np.ndarray, non_blocking: bool = False) -> np.ndarray:
        """A copy."""
        return memory.copy(array)

    def pinned(self, shape: Shape, dtype: DType) -> None:
        """Nothing: the memory of the host is its own."""

    def download(self, buffer: np.ndarray) -> np.ndarray:
        """A copy."""
        return memory.copy(buffer)

    def copy(self, source: np.ndarray, target: np.ndarray) -> None:
        """Overwrite an array with the elements of another one."""
        np.copyto(target, source)

    def address(self, array: np.ndarray) -> int:
        """The address of the first element of an array."""
        return address_of(array)

    def synchronize(self) -> None:
        """Nothing is ever pending here."""


def open_device() -> CpuDevice:
    """The one cpu device."""
    return CpuDevice()
