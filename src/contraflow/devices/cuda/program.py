"""Plans as programs of a GPU: kernels launched one after the other on the device's stream."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from contraflow.compiler.plan import SCALARS, HostStep, KernelStep, Plan, Slot
from contraflow.devices.cuda.compiler import text_of
from contraflow.devices.cuda.runs import CALLS, OPS
from contraflow.devices.failures import LateFailure
from contraflow.operation.context import state
from contraflow.render.clike import cuda, source

if TYPE_CHECKING:
    from contraflow.devices.cuda.device import CudaDevice


def variants(steps: Sequence[KernelStep], slots: Sequence[Slot]) -> list[cuda.TextVariant]:
    """The variant of the text of each step.

    Steps behind the last that may fail are guarded where they write what others see: a failed call
    leaves state and gradients as they were.
    """
    last_risk = max((i for i, step in enumerate(steps) if step.may_fail), default=-1)
    found = []
    for i, step in enumerate(steps):
        written = set(step.writes)
        guarded = i > last_risk and any(slots[slot].kind != "temp" for slot in written)
        operands = enumerate(zip(step.call.kernel.operands, step.bindings))
        apart = frozenset(i for i, (o, b) in operands if o.mode == "in" and b.slot not in written)
        found.append(cuda.TextVariant(cuda.index_bits(step.call), guarded, frozenset(), apart))
    return found


class CudaProgram:
    """A plan that is ready to run."""

    def __init__(self, device: CudaDevice, plan: Plan) -> None:
        self._device, self._plan = device, plan
        assert not any(isinstance(step, HostStep) for step in plan.steps)
        self._steps = [step for step in plan.steps if isinstance(step, KernelStep)]
        self._may_fail = any(step.may_fail for step in self._steps)
        external = [i for i, slot in enumerate(plan.slots) if slot.kind != "temp"]
        self._outputs = [n for n, i in enumerate(external) if plan.slots[i].kind == "output"]
        # Per word of the launches that is not fixed, where it lies among them.
        self._of_slot: dict[int, list[int]] = {i: [] for i in range(len(plan.slots))}
        self._of_scalar: list[list[int]] = [[] for _ in plan.scalar_dtypes]
        self._of_failure: list[int] = []
        self._of_line: list[tuple[int, int]] = []  # and the tape line
        self._external = external
        self._temporary = [i for i, slot in enumerate(plan.slots) if slot.kind == "temp"]
        kinds = ("d" if dtype.is_floating_point else "q" for dtype in plan.scalar_dtypes)
        self._pack = struct.Struct("=" + "".join(kinds)).pack
        self._scalars: tuple[float | int, ...] | None = None  # that the words hold
        self._given = [0] * len(external)
        self._placed = [0] * len(external)  # addresses that the words hold
        self._arena = self._failure = 0
        self._launches = self._build()
        self.put: Callable[[int, int], None] = self._given.__setitem__

    def _build(self) -> list[tuple[str, Callable[[], int]]]:
        """The launches, with a name for each."""
        slots = self._plan.slots
        chosen = variants(self._steps, slots)
        functions = self._device.kernels.functions(
            [text_of(step.call.kernel, v) for step, v in zip(self._steps, chosen)]
        )
        words = bytearray()
        found = []
        for step, variant, function in zip(self._steps, chosen, functions):
            grid, block = cuda.launch(step.call)
            if grid[0]:
                first = len(words) // 8
                words += self._packed(step, variant.guarded, first)
                found.append((step.call.kernel.name, function, grid, block, first))
        self._words = (ctypes.c_uint64 * (len(words) // 8)).from_buffer(words)
        at = ctypes.addressof(self._words)
        self._table = (ctypes.c_void_p * len(self._words))(*range(at, at + 8 * len(self._words), 8))
        table, stream = ctypes.addressof(self._table), self._device.stream_handle
        launch = self._device.driver.quick("cuLaunchKernel")
        nothing = ctypes.c_void_p(0)
        launches: list[tuple[str, Callable[[], int]]] = []
        for name, function, grid, block, first in found:
            extents = [ctypes.c_uint(n) for n in (*grid, *block, 0)]
            arguments = ctypes.c_void_p(table + 8 * first)
            handle = ctypes.c_void_p(int(function))
            launches.append((name, partial(launch, handle, *extents, stream, arguments, nothing)))
        return launches

    def _packed(self, step: KernelStep, guarded: bool, first: int) -> bytes:
        """The words of a launch, which lie at `first`; those that are not fixed are noted."""
        kernel, at = step.call.kernel, first
        for operand, binding in zip(kernel.operands, step.bindings):
            if operand.mode == "scalar":
                assert binding.slot == SCALARS
                self._of_scalar[binding.offset].append(at)
            elif operand.mode != "position":
                self._of_slot[binding.slot].append(at)
            at += operand.mode != "position"
        offsets = [binding.offset for binding in step.bindings]
        bound = [0] * len(step.bindings)
        words = cuda.pack(step.call, bound, offsets, step.line, 0, guarded)
        if cuda.takes_failure(kernel, guarded):
            self._of_failure.append(at)
        if source.checks_indices(kernel):
            self._of_line.append((first + len(words) // 8 - 1, step.line))
        return words

    # --- runs -----------------------------------------------------------------------------

    def replay(self, buffers: Sequence[Any], scalars: Sequence[float | int]) -> None:
        """Run all steps. `buffers` are those of the input and output slots, in slot order."""
        address = self._device.address
        self.run([b if type(b) is int else address(b) for b in buffers], tuple(scalars))

    def run(
        self,
        addresses: Sequence[int],
        scalars: tuple[float | int, ...],
        late: LateFailure | None = None,
    ) -> None:
        """The same, with buffers given by their addresses."""
        with self._device.lock:
            self._given[:] = addresses
            self.rerun(scalars, late)

    def rerun(self, scalars: tuple[float | int, ...], late: LateFailure | None = None) -> None:
        """The same, with buffers at the addresses of the last run, or those set by `put` since."""
        device = self._device
        with device.lock:
            device.driver.enter()
            device.pending.check()
            device.runs += 1
            self._place(scalars, late)
            if state().context.timeline is not None:
                self._run_noted(state().context.timeline)
                return
            for name, launch in self._launches:
                status = launch()
                if status:
                    device.driver.fail(name, status)

    def _place(self, scalars: tuple[float | int, ...], late: LateFailure | None) -> None:
        """Write the words of the launches that are new."""
        words, device = self._words, self._device
        if self._given != self._placed:
            for i, address, before in zip(self._external, self._given, self._placed):
                if address != before:
                    for at in self._of_slot[i]:
                        words[at] = address
            self._placed[:] = self._given
        if self._temporary:
            arena = device.arena(self._plan.arena_bytes)
            if arena != self._arena:
                for i in self._temporary:
                    for at in self._of_slot[i]:
                        words[at] = arena + self._plan.slots[i].offset
                self._arena = arena
        if scalars is not self._scalars and self._of_scalar:
            bits = struct.unpack(f"={len(scalars)}Q", self._pack(*scalars))
            for places, word in zip(self._of_scalar, bits):
                for at in places:
                    words[at] = word
            self._scalars = scalars
        if self._of_failure:
            is_call = late is not None and late.undo is not None
            failure = device.pending.words(CALLS if is_call else OPS)
            if failure != self._failure:
                for at in self._of_failure:
                    words[at] = failure
                self._failure = failure
        results = []
        if self._may_fail and late is not None and late.undo is None:
            loans = device.memory.loans
            found = [loans.get(self._given[n]) for n in self._outputs]
            results = [loan for loan in found if loan is not None]
        number = device.pending.begin(late, self._may_fail, results)
        for at, line in self._of_line:
            words[at] = number | line

    def _run_noted(self, timeline: Any) -> None:
        """Run kernels one at a time, and note each."""
        for name, launch in self._launches:
            with timeline.event(name, "kernel", None):
                status = launch()
                if status:
                    self._device.driver.fail(name, status)
                self._device.driver("cuStreamSynchronize", self._device.stream)
