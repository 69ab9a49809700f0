"""Steps of a plan that a library of NVIDIA's does, as calls among its launches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from contraflow.compiler.plan import HostStep, Plan
from contraflow.devices.cuda import matrices
from contraflow.devices.cuda.driver import INSTALL
from contraflow.devices.cuda.memory import CudaBuffer
from contraflow.devices.failures import StepRefused
from contraflow.errors import DeviceError, OutOfMemoryError
from contraflow.operation import context

if TYPE_CHECKING:
    from contraflow.devices.cuda.device import CudaDevice


def library_steps(plan: Plan) -> list[HostStep]:
    """The steps of a plan that the library does; or the error if it is not installed."""
    found = [step for step in plan.steps if isinstance(step, HostStep)]
    if found and matrices.library() is None:
        raise StepRefused(f"cuSOLVER does it, which is not installed: {INSTALL}", found[0].line)
    return found


class LibraryCall:
    """The call of one step, with the buffers that lie in its slots when it is made.

    The host runs the op where the library cannot: it says what is wrong with a matrix, and knows
    the results of empty ones.
    """

    def __init__(
        self, device: CudaDevice, step: HostStep, plan: Plan, address: Callable[[int], int]
    ) -> None:
        """`address` gives the address of a slot."""
        self._device, self._step, self._plan, self._address = device, step, plan, address

    def __call__(self) -> int:
        """Do the step; the status, as launches have it."""
        device, step = self._device, self._step
        inputs, results = map(self._buffers, (step.reads, step.writes))
        found = None
        try:
            with device.arena_in_use():
                if all(x.size for x in inputs):
                    found = device.solver.run(step.name, inputs, step.params)
        except OutOfMemoryError:
            raise
        except DeviceError as error:
            blamed = self._plan.blame(step.line, str(error), context.user_line())
            raise DeviceError(blamed) from error
        if found is None:
            self._run_on_host(inputs, results)
        else:
            for source, target in zip(found, results, strict=True):
                assert source.shape == target.shape
                device.copy(source, target)
        return 0

    def _buffers(self, slots: Sequence[int]) -> list[CudaBuffer]:
        return [
            CudaBuffer(
                self._step.shapes[i], self._plan.slots[i].dtype, self._device, self._address(i)
            )
            for i in slots
        ]

    def _run_on_host(self, inputs: Sequence[CudaBuffer], results: Sequence[CudaBuffer]) -> None:
        found: Any = self._step.run(*map(self._device.read, inputs))
        for array, target in zip(found if isinstance(found, tuple) else (found,), results):
            self._device.write(np.ascontiguousarray(array, target.dtype.numpy), target)
