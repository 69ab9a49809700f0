"""The CPU as a device."""

from __future__ import annotations

import numpy as np

from contraflow.compiler.kernel import Limits
from contraflow.compiler.plan import Plan
from contraflow.devices.cpu import jit
from contraflow.devices.cpu.program import CpuProgram, address_of, load


class CpuDevice:
    """The cpu as a Device."""

    name = "cpu"

    def __init__(self) -> None:
        kernels = frozenset(("scatter", "scan", "sort"))
        self.limits = Limits(windows=True, narrow=16, kernels=kernels, doubles=True)
        self.description = jit.describe_processor()

    def load(self, plan: Plan) -> CpuProgram:
        """Compile a plan's kernels and lay out its memory."""
        return load(plan)

    def address(self, array: np.ndarray) -> int:
        """Where the first element of an array lies."""
        return address_of(array)


def open_device() -> CpuDevice:
    """The one cpu device."""
    return CpuDevice()
