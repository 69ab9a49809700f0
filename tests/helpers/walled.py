"""The walled device: a device without a machine, on which nothing can reach the host unasked.

Its buffers hide their arrays, and its programs are run by the interpreter of kernels. Whatever
would read or write its memory by any other way than `upload`, `download` and programs is an error,
so code that takes the host's memory for granted fails here on any machine.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from contraflow import devices, dtypes
from contraflow.capture.rewriting import library
from contraflow.compiler.interpret import run_call
from contraflow.compiler.kernel import WRITES, Limits
from contraflow.compiler.plan import SCALARS, HostStep, Plan
from contraflow.compiler.tape import Tape, Value
from contraflow.devices import names
from contraflow.devices.failures import IndexOutOfRange, LateFailure, PendingRuns
from contraflow.devices.narrow_values import check_elements, packed_scalars
from contraflow.devices.run_words import RunWords
from contraflow.devices.segments import kernel_steps, segments, step_event
from contraflow.dtypes import DType
from contraflow.errors import DeviceError, OutOfRange
from contraflow.nn.utils import clip_grad
from contraflow.operation.context import other_devices, state
from contraflow.operation.op import REGISTRY
from contraflow.render.clike import source, wgsl
from contraflow.runtime import eager_programs
from contraflow.shapes import Shape, numel

# This stands for a part of the library: a function that is recorded is not asked about it.
library._files[__file__] = True

SPAN = 1 << 40  # addresses of one buffer: no buffer is as large

PLAIN = Limits(host=False, kernels=source.KERNELS, doubles=True)
INEXACT = PLAIN._replace(exact=False)  # the interpreter contracts products and sums then


# As WebGPU's, with the kernels that its texts have. Programs of `WalledDevice` hold them to these.
WEBGPU = wgsl.LIMITS._replace(host=False)


class WalledBuffer:
    """Memory of the device. Its elements are in the device's own table."""

    __slots__ = (
        "shape", "dtype", "size", "nbytes", "number", "device", "first", "owner", "__weakref__",
    )  # fmt: skip

    def __init__(
        self, shape: Shape, dtype: DType, number: int, device: WalledDevice, first: int = 0,
        owner: object = None,
    ) -> None:  # fmt: skip
        self.shape, self.dtype, self.number, self.device = tuple(shape), dtype, number, device
        self.first, self.owner = first, owner  # bytes into memory that another buffer may have
        self.size = numel(shape)
        self.nbytes = self.size * dtype.itemsize

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        raise AssertionError("a buffer of the walled device was read by the host")

    def __len__(self) -> int:
        raise AssertionError("a buffer of the walled device was taken for an array")


class WalledDevice:
    """A device that computes by the interpreter."""

    holds_arrays = False
    asynchronous = False
    exchange: WalledExchange | None = None

    def __init__(self, name: str = "walled", limits: Limits = PLAIN, choice: int = 0) -> None:
        self.name, self.limits = name, limits
        self.contracts = None if limits.exact else choice  # as `run_call` takes it
        self.uploads = self.downloads = self.runs = self.binds = self.unblocked = 0
        self.lock = threading.RLock()  # several threads may run one program
        self._numbers = itertools.count(1)
        self._memory: dict[int, np.ndarray] = {}  # by the numbers of buffers: bytes
        self.pins: list[np.ndarray] = []

    # --- memory ---------------------------------------------------------------------------

    def allocate(self, shape: Shape, dtype: DType) -> WalledBuffer:
        buffer = WalledBuffer(shape, dtype, next(self._numbers), self)
        # All bits set: a NaN, or -1, where something reads what was never written.
        self._memory[buffer.number] = np.full(buffer.nbytes, 255, np.uint8)
        weakref.finalize(buffer, self._memory.pop, buffer.number)
        return buffer

    def upload(self, array: np.ndarray, non_blocking: bool = False) -> WalledBuffer:
        self.uploads += 1
        assert not non_blocking or any(np.shares_memory(array, pin) for pin in self.pins)
        self.unblocked += non_blocking
        if array.dtype.name in self.limits.lacks:
            raise DeviceError(f"to: {array.dtype} is not a dtype of {self.name}. Cast it before.")
        assert type(array) is np.ndarray
        assert array.flags.c_contiguous
        if array.dtype == np.int64 and self.limits.int64_bits < 64:
            check_elements(self.name, array)
        buffer = self.allocate(array.shape, _dtype(array))
        self._memory[buffer.number][:] = np.frombuffer(array.tobytes(), np.uint8)
        return buffer

    def pinned(self, shape: Shape, dtype: DType) -> np.ndarray:
        self.pins.append(np.empty(shape, dtype.numpy))
        return self.pins[-1]

    def download(self, buffer: WalledBuffer) -> np.ndarray:
        self.downloads += 1
        return self._bytes(buffer).copy().view(buffer.dtype.numpy).reshape(buffer.shape)

    def copy(self, source: WalledBuffer, target: WalledBuffer) -> None:
        self._bytes(target)[:] = self._bytes(source)

    def _bytes(self, buffer: WalledBuffer) -> np.ndarray:
        return self._memory[buffer.number][buffer.first : buffer.first + buffer.nbytes]

    def address(self, buffer: WalledBuffer) -> int:
        assert type(buffer) is WalledBuffer, "the address of something that is not a buffer"
        return buffer.number * SPAN + buffer.first

    def synchronize(self) -> None:
        pass

    # --- programs -------------------------------------------------------------------------

    def load(self, plan: Plan) -> WalledProgram:
        return WalledProgram(self, plan)

    def submit(self, run: WalledRun, late: LateFailure | None) -> None:
        """Run a program."""
        run.execute()

    def view(self, address: int, dtype: DType, count: int) -> np.ndarray:
        """The elements at an address."""
        if not count:  # such a view may start beyond the end of its buffer
            return np.empty(0, dtype.numpy)
        number, start = divmod(address, SPAN)
        stop = start + count * dtype.itemsize
        memory = self._memory[number]
        assert stop <= memory.size, f"{stop} bytes of a buffer of {memory.size}"
        return memory[start:stop].view(dtype.numpy)


class WalledExchange:
    """Shares memory with another library, which is the same device."""

    kind = (12, 0)  # one of DLPack's numbers, which no device here has
    stream = 7

    def __init__(self, device: WalledDevice) -> None:
        self._device = device
        self.streams: list[Any] = []  # that memory was handed over to

    def adopt(self, address: int, count: int, dtype: DType, owner: object) -> WalledBuffer:
        number, first = divmod(address, SPAN)
        return WalledBuffer((count,), dtype, number, self._device, first, owner)

    def hand_over(self, stream: Any) -> None:
        self._device.synchronize()
        self.streams.append(stream)


class WalledRun(NamedTuple):
    """A run of a program that was asked for."""

    program: WalledProgram
    given: dict[int, np.ndarray]
    scalars: Sequence[Any]
    number: int = 0  # among those that may fail later

    def execute(self) -> None:
        self.program.execute(self.given, self.scalars)

    def clear(self) -> None:
        """Give an op that failed zeros for results."""
        for i, array in self.given.items():
            if self.program.plan.slots[i].kind == "output":
                array[...] = 0


class AsynchronousDevice(WalledDevice):
    """One on which programs run when something waits for them, or when many are waiting."""

    asynchronous = True
    most = 16  # programs that wait

    def __init__(self, name: str = "walled", limits: Limits = PLAIN) -> None:
        super().__init__(name, limits)
        self.queue: list[WalledRun] = []
        self.pending = PendingRuns()

    def submit(self, run: WalledRun, late: LateFailure | None) -> None:
        if len(self.queue) >= self.most:
            self.synchronize()
        if self.pending.concerns(late, any(step.may_fail for step in run.program.plan.steps)):
            assert late is not None
            run = run._replace(number=self.pending.add(late, run.clear))
        self.queue.append(run)
        if any(isinstance(step, HostStep) for step in run.program.plan.steps):
            self.synchronize()  # what a library finds is raised by the call itself

    def download(self, buffer: WalledBuffer) -> np.ndarray:
        self.synchronize()
        return super().download(buffer)

    def copy(self, source: WalledBuffer, target: WalledBuffer) -> None:
        self.synchronize()
        super().copy(source, target)

    def synchronize(self) -> None:
        with self.lock:
            self._run_all()

    def _run_all(self) -> None:
        while self.queue:
            run = self.queue.pop(0)
            try:
                run.execute()
            except IndexOutOfRange as error:
                assert run.number, "a program that may fail was not told so"
                gone = self.pending.failed(run.number, error)
                self.queue = [other for other in self.queue if other.number not in gone]
            self.pending.ended_well(run.number)
        self.pending.raise_first()


class WalledProgram:
    """A plan that the interpreter runs."""

    notes = ()

    def __init__(self, device: WalledDevice, plan: Plan) -> None:
        self.device, self.plan = device, plan
        hosts = [step.name for step in segments(plan) if isinstance(step, HostStep)]
        assert device.limits.library.issuperset(hosts), f"host steps on the walled device: {hosts}"
        self.words = RunWords(plan)
        self.put = self.words.put
        for step in kernel_steps(plan):
            memory = [o for o in step.call.kernel.operands if o.mode not in ("scalar", "position")]
            assert len(memory) <= device.limits.bindings

    def replay(self, buffers: Sequence[Any], scalars: Sequence[float | int]) -> None:
        address = self.device.address
        self.run([b if type(b) is int else address(b) for b in buffers], tuple(scalars))

    def run(
        self,
        addresses: Sequence[int],
        scalars: tuple[float | int, ...],
        late: LateFailure | None = None,
    ) -> None:
        with self.device.lock:
            self.words.set_addresses(*addresses)
            self.rerun(scalars, late)

    def rerun(self, scalars: tuple[float | int, ...], late: LateFailure | None = None) -> None:
        with self.device.lock:
            self._check_scalars(scalars)
            self.words.set_scalars(*scalars)
            self.device.submit(WalledRun(self, self._given(), self.words.scalars), late)

    def _check_scalars(self, scalars: Sequence[float | int]) -> None:
        """Refuse host scalars that the kernels of WebGPU could not have."""
        if self.device.limits.int64_bits < 64:
            for step in kernel_steps(self.plan):
                if source.count_groups(step.call):  # it has points
                    packed_scalars(step, scalars, wgsl.pack_scalars)

    def _given(self) -> dict[int, np.ndarray]:
        slots = self.plan.slots
        return {
            i: self.device.view(address, slots[i].dtype, slots[i].numel)
            for i, address in zip(self.words.slots, self.words.addresses)
        }

    def execute(self, given: dict[int, np.ndarray], scalars: Sequence[Any]) -> None:
        """Run all steps over the buffers that were given."""
        self.device.runs += 1
        slots, arrays = self.plan.slots, dict(given)
        # What a slot counts is what its elements take on the device that is stood in for.
        room = 8 // self.device.limits.element_bytes(dtypes.int64)
        arenas = [np.full(size * room, 255, np.uint8) for size in self.plan.arenas]
        for i, slot in enumerate(slots):
            if slot.kind == "temp":
                stop = slot.offset + slot.numel * slot.dtype.itemsize
                arrays[i] = arenas[slot.arena][slot.offset : stop].view(slot.dtype.numpy)
        timeline = state().context.timeline
        for step in self.plan.steps:
            noted = timeline and timeline.program_step(*step_event(self.plan, step))
            with noted or contextlib.nullcontext():
                self._run_step(step, arrays, scalars)

    def _run_step(self, step: Any, arrays: dict[int, np.ndarray], scalars: Sequence[Any]) -> None:
        if isinstance(step, HostStep):
            self._run_library(step, arrays)
            return
        bound: list[tuple[np.ndarray | None, int]] = []
        for operand, binding in zip(step.call.kernel.operands, step.bindings):
            plain = operand.mode == "position" or binding.slot == SCALARS
            bound.append((None if plain else arrays[binding.slot], binding.offset))
        if not self.device.limits.aliasing:
            self._check_apart(step, bound)
        try:
            limits = self.device.limits
            run_call(step.call, bound, scalars, self.device.contracts, limits.int64_bits)
        except OutOfRange as error:
            # The interpreter says it in words, which begin with the index.
            (index,) = re.findall(r"^index (-?\d+) ", str(error))
            raise IndexOutOfRange(int(index), step.line) from error

    def _run_library(self, step: HostStep, arrays: dict[int, np.ndarray]) -> None:
        """What a library of the device would do: it takes buffers as they lie, and casts none."""
        op, given = REGISTRY[step.name], [arrays[i].reshape(step.shapes[i]) for i in step.reads]
        assert op.ref is not None
        results = op.ref(*given, **step.params)
        for i, result in zip(step.writes, results if isinstance(results, tuple) else (results,)):
            assert result.shape == step.shapes[i]
            arrays[i].reshape(result.shape)[...] = result

    def _check_apart(self, step: Any, bound: Sequence[tuple[np.ndarray | None, int]]) -> None:
        """What one operand writes no other one may touch."""
        memory = [(o.mode, a) for o, (a, _) in zip(step.call.kernel.operands, bound)]
        for i, (mode, written) in enumerate(memory):
            others = [a for j, (_, a) in enumerate(memory) if j != i and a is not None]
            if mode in WRITES and written is not None:
                assert not any(np.may_share_memory(written, other) for other in others)


class GraphProgram(WalledProgram):
    """A plan bound to addresses, as a CUDA graph is: only the block of scalars is read anew."""

    def __init__(self, device: WalledDevice, plan: Plan) -> None:
        super().__init__(device, plan)
        self._bound: dict[tuple[int, ...], dict[int, np.ndarray]] = {}

    def rerun(self, scalars: tuple[float | int, ...], late: LateFailure | None = None) -> None:
        with self.device.lock:
            self.words.set_scalars(*scalars)
            key = tuple(self.words.addresses)
            if key not in self._bound:
                self._bound[key] = self._given()
                self.device.binds += 1
            self.execute(self._bound[key], self.words.scalars)


class GraphDevice(WalledDevice):
    """One whose programs freeze everything but the scalars when they are bound."""

    def load(self, plan: Plan) -> WalledProgram:
        return GraphProgram(self, plan)


def _dtype(array: np.ndarray) -> DType:
    return dtypes.from_numpy(array.dtype)


def no_values(tape: Tape, limits: Limits) -> set[Value]:
    """Stands for a part of the compiler that finds nothing."""
    return set()


@contextlib.contextmanager
def opened(
    make: Callable[[], WalledDevice] = WalledDevice, name: str = "walled"
) -> Iterator[WalledDevice]:
    """The device under a name, known in a block only."""
    device = make()
    devices.register(name, lambda: device)
    devices.lookup(name)
    try:
        yield device
    finally:
        names.TYPES.pop(name)
        devices._openers.pop(name)
        devices._loaded.pop(name)
        other_devices.pop(name)
        eager_programs.forget()
        clip_grad._program.cache_clear()
