"""An NVIDIA GPU as a device: one stream, in whose order everything is done, for all threads."""

from __future__ import annotations

import contextlib
import ctypes
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from contraflow import threads
from contraflow.compiler.plan import Plan
from contraflow.devices.cuda import matrices
from contraflow.devices.cuda.compiler import Kernels
from contraflow.devices.cuda.driver import Driver, bindings, count_devices
from contraflow.devices.cuda.exchange import CudaExchange
from contraflow.devices.cuda.memory import CudaBuffer, Memory, Transfers, in_words
from contraflow.devices.cuda.products import Products
from contraflow.devices.cuda.program import CudaProgram
from contraflow.devices.cuda.runs import CudaRuns
from contraflow.devices.cuda.shown import ShownNumbers
from contraflow.devices.cuda.timing import StepTimer
from contraflow.dtypes import DType, from_numpy
from contraflow.errors import DeviceError
from contraflow.render.clike import cuda
from contraflow.shapes import Shape

if TYPE_CHECKING:
    from contraflow.devices.cuda.graph import PlanGraph

ARENA_GRAIN = 2 << 20  # arenas are multiples of this
_NO_TIMING, _NOT_READY = 2, 600  # a flag of events, and the status of one to come
_NOT_BLOCKING = 1  # a stream that does not wait for the legacy one, which others use


class KeptHandle(weakref.ref[Any]):
    """An object of the driver, or a place, as long as its owner lives."""

    __slots__ = ("end", "handle")

    end: Callable[[Any], Any]
    handle: Any


class CudaDevice:
    """One GPU."""

    holds_arrays = False
    asynchronous = True

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.name = "cuda" if driver.index == 0 else f"cuda:{driver.index}"
        # Whether the library is there is asked when it is needed: loading it takes long.
        library = frozenset(matrices.OPS if driver.is_real else ())
        self.limits = cuda.LIMITS._replace(host=False, library=library)
        self.lock = threads.recursive_lock()
        self.undisturbed = threads.Undisturbed(self.lock)
        self.stream = driver("cuStreamCreate", _NOT_BLOCKING)
        self.stream_handle = ctypes.c_void_p(int(self.stream))
        self.memory = Memory(driver, self.stream, self)
        self.allocate: Callable[[Shape, DType], CudaBuffer] = self.memory.allocate
        self.address: Callable[[CudaBuffer], int] = attrgetter("pointer")  # where one begins
        self.memory.make_room = self._drop_arena
        self.exchange = CudaExchange(self)
        self.kernels = Kernels(driver)
        self.outcomes = CudaRuns(driver, self.stream, self.memory)
        self._transfers = Transfers(driver, self.stream)
        self.products = Products(driver.is_real)
        self._arena = (0, 0)  # where it lies, and its size
        self._arena_users = 0  # programs that are running
        self._workspace = 0
        self.shown = ShownNumbers(driver, self.memory)
        # The graph that was launched last, and the number of that run: nothing was written since.
        self.latest: tuple[PlanGraph, int] | None = None
        self._kept: set[KeptHandle] = set()
        self._ended: deque[KeptHandle] = deque()  # those whose owners are gone
        self.uploads = self.downloads = self.runs = 0

    @property
    def properties(self) -> tuple[str, int, int, int, int]:
        """The name, compute capability, bytes of memory and number of multiprocessors."""
        name = self.driver("cuDeviceGetName", 256, self.driver.handle)
        attribute = self.driver.attribute
        return (
            name.split(b"\0")[0].decode(),
            attribute("COMPUTE_CAPABILITY_MAJOR"),
            attribute("COMPUTE_CAPABILITY_MINOR"),
            int(self.driver("cuMemGetInfo")[1]),
            attribute("MULTIPROCESSOR_COUNT"),
        )

    @property
    def description(self) -> str:
        """The GPU, for people."""
        return f"{self.properties[0]}, {self.driver.architecture}"

    # --- memory ---------------------------------------------------------------------------

    def upload(self, array: np.ndarray, non_blocking: bool = False) -> CudaBuffer:
        """Memory with a copy of an array, which is made in the order of the stream."""
        buffer = self.allocate(array.shape, from_numpy(array.dtype))
        with self.lock:
            self.uploads += 1
            if self.latest is not None and self.latest[0].shows(buffer.pointer) is not None:
                self.latest = None
            self._transfers.upload(buffer.pointer, array)
        return buffer

    def pinned(self, shape: Shape, dtype: DType) -> None:
        """Nothing: uploads go through pinned memory of the device's own, and wait for nothing."""

    def download(self, buffer: CudaBuffer) -> np.ndarray:
        """A copy of a buffer, when everything before it is done; or as soon as it is there, if it
        is a number that the last program shows."""
        with self.lock:
            self.downloads += 1
            # Memory of other libraries is theirs again when the caller has waited.
            if buffer.size == 1 and self.latest is not None and not self.memory.has_guests:
                graph, number = self.latest
                place = graph.shows(buffer.pointer)
                found = None if place is None else self.shown.read(place, buffer)
                if found is not None:
                    self.outcomes.ended(number)
                    return found
            array = self.read(buffer)
            self.outcomes.finish()
        return array

    def read(self, buffer: CudaBuffer) -> np.ndarray:
        """A copy of a buffer, when everything before it is done, whether or not that was well."""
        array = np.empty(buffer.shape, buffer.dtype.numpy)
        self._transfers.download(buffer.pointer, array)
        return array

    def write(self, array: np.ndarray, buffer: CudaBuffer) -> None:
        """Overwrite a buffer with the elements of a C-contiguous array."""
        self._transfers.upload(buffer.pointer, array)

    def copy(self, source: CudaBuffer, target: CudaBuffer) -> None:
        """Overwrite a buffer with the elements of another one."""
        with self.lock:
            self.latest = None
            if source.nbytes:
                self.driver(
                    "cuMemcpyDtoDAsync", target.pointer, source.pointer, source.nbytes, self.stream
                )

    def synchronize(self) -> None:
        """Wait until everything that was asked for is done."""
        with self.lock:
            self.driver("cuStreamSynchronize", self.stream)
            self.outcomes.finish()

    def arena(self, size: int) -> int:
        """Memory for the temporaries of the program that runs next: programs run one after the
        other, so all share it."""
        pointer, held = self._arena
        if size > held:
            self._drop_arena()
            size = -(-size // ARENA_GRAIN) * ARENA_GRAIN
            pointer = self.memory.take(size)
            self._arena = (pointer, size)
        return pointer

    def workspace(self, size: int) -> int:
        """Memory for a library, as long as one call of it is running."""
        if not self._workspace:
            with self.arena_in_use():  # by the program that asks
                self._workspace = self.memory.take(size)
        return self._workspace

    @contextlib.contextmanager
    def arena_in_use(self) -> Iterator[None]:
        """A block in which the arena stays, though memory is needed for other things."""
        self._arena_users += 1
        try:
            yield
        finally:
            self._arena_users -= 1

    def _drop_arena(self) -> None:
        if self._arena_users:
            return
        (pointer, size), self._arena = self._arena, (0, 0)
        if size:
            self.memory.give(pointer, size)

    def memory_summary(self) -> str:
        """The memory of the GPU, for people."""
        with self.lock:
            self.memory.collect()
            free, total = self.driver("cuMemGetInfo")
            rows = [
                ("tensors and programs", self.memory.allocated),
                ("most since the start", self.memory.peak),
                ("arena of temporaries", self._arena[1]),
                ("held by this process", self.memory.reserved()),
                ("free on the GPU", free),
                ("all of the GPU", total),
            ]
            lines = [f"{self.name}: {self.properties[0]}"]
            lines += [f"  {name:22}{in_words(size):>12}" for name, size in rows]
            return "\n".join([*lines, f"  largest: {self.memory.largest(5)}"])

    # --- events ---------------------------------------------------------------------------

    def new_event(self, owner: Any, timing: bool) -> Any:
        """An event of the driver, as long as its owner lives."""
        with self.lock:
            event = self.driver("cuEventCreate", 0 if timing else _NO_TIMING)
            self._keep(owner, partial(self.driver, "cuEventDestroy"), event)
        return event

    def record(self, event: Any) -> None:
        """Place an event behind everything that was asked for so far."""
        with self.lock:  # the stream may be that of a graph which is recorded
            self.driver("cuEventRecord", event, self.stream)

    def is_reached(self, event: Any) -> bool:
        """Whether the work before an event is done."""
        self.driver.enter()
        status = int(self.driver.library.cuEventQuery(event)[0])
        if status not in (0, _NOT_READY):
            self.driver.fail("cuEventQuery", status)
        return status == 0

    # --- programs -------------------------------------------------------------------------

    def keep_executable(self, owner: Any, handle: Any) -> None:
        """Keep a graph that can be launched as long as its owner lives."""
        self._keep(owner, partial(self.driver, "cuGraphExecDestroy"), handle)

    def keep_shown(self, owner: Any, place: int) -> None:
        """Keep the place of a number that is shown as long as the owner lives."""
        self._keep(owner, self.shown.give, place)

    def _keep(self, owner: Any, end: Callable[[Any], Any], handle: Any) -> None:
        """Keep something as long as its owner lives; `end` is called with it after that."""
        while self._ended:
            ended = self._ended.popleft()
            ended.end(ended.handle)
            self._kept.discard(ended)
        kept = KeptHandle(owner, self._ended.append)
        kept.end, kept.handle = end, handle
        self._kept.add(kept)

    def load(self, plan: Plan) -> CudaProgram:
        """Compile a plan's kernels."""
        with self.lock:
            self.driver.enter()  # libraries of products are opened for this GPU
            return CudaProgram(self, plan)

    @cached_property
    def timer(self) -> StepTimer:
        """How long steps of programs take."""
        return StepTimer(self)

    @cached_property
    def solver(self) -> matrices.MatrixSolver:
        """Decompositions of matrices, by cuSOLVER."""
        return matrices.MatrixSolver(self)


def open_device(index: int = 0) -> CudaDevice:
    """A GPU, by its index."""
    count = count_devices()
    if index >= count:
        raise DeviceError(f"this machine has {count} NVIDIA GPU{'s' * (count > 1)}.")
    return threads.run(lambda: CudaDevice(Driver(index, bindings())))
