"""Devices: the interface that each implements, and the lookup by name.

A device's folder is imported when a tensor or a program first needs it, never before, so an
optional dependency costs nothing until it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from contraflow import threads
from contraflow.devices import names
from contraflow.devices.failures import LateFailure
from contraflow.devices.names import CPU, Device
from contraflow.dtypes import DType, from_numpy
from contraflow.errors import DeviceError
from contraflow.operation.context import other_devices, state
from contraflow.shapes import Shape

if TYPE_CHECKING:
    from contraflow.compiler.kernel import Limits
    from contraflow.compiler.plan import Plan

# The memory of one storage: on the cpu a NumPy array, elsewhere an object of the device with the
# attributes `shape`, `dtype` (a DType), `size` (elements), `nbytes` and `device`. Calls that hit
# compare `size`: none of these is a property.
DeviceBuffer = Any


def dtype_of(buffer: DeviceBuffer) -> DType:
    """The dtype of the elements that a buffer was made for."""
    found = buffer.dtype
    return found if isinstance(found, DType) else from_numpy(found)


class ProgramInterface(Protocol):
    """A plan loaded on a device, ready to be replayed, by several threads at the same time too."""

    def replay(self, buffers: Sequence[Any], scalars: Sequence[float | int]) -> None:
        """Run all steps. `buffers` holds the input and output slots' buffers, in slot order."""

    def run(
        self,
        addresses: Sequence[int],
        scalars: tuple[float | int, ...],
        late: LateFailure | None = None,
    ) -> None:
        """The same, with buffers given by their addresses.

        `late` is for an asynchronous device, where a wrong index is found after this has returned.
        The steps behind it in the program, and the programs behind that whose `late` has `undo`,
        write nothing to the caller's buffers then, neither inputs nor outputs: `.grad` of earlier
        calls may stay in the output that this one fills. When the error surfaces, in
        `synchronize`, `download` or another `run`, all of them are undone, the last one first, and
        results that are still there become zeros (`PendingRuns`).
        """

    def put(self, number: int, address: int) -> None:
        """Set the address of one of the buffers from now on. A function of C where that counts: a
        call that hits has one for each argument and result (`RunWords.put`)."""

    def rerun(self, scalars: tuple[float | int, ...], late: LateFailure | None = None) -> None:
        """The same, with buffers at the addresses of the last run, or those set by `put` since."""

    @property
    def notes(self) -> Sequence[str]:
        """Lines for `explain()` about how the steps are run."""


class MemoryExchange(Protocol):
    """How a device shares memory with other libraries (DLPack), where its addresses are theirs."""

    kind: tuple[int, int]  # the device as DLPack has it: 2 is CUDA, and its index
    stream: int  # the stream that the device works on, as DLPack has it

    def adopt(self, address: int, count: int, dtype: DType, owner: object) -> DeviceBuffer:
        """A buffer over memory of another library. It refers to `owner`, which keeps the memory, as
        long as something that was asked for may use it."""

    def hand_over(self, stream: Any) -> None:
        """Have a stream of another library, as `__dlpack__` was given it, wait for everything that
        was asked for."""


class DeviceInterface(Protocol):
    """One machine that has memory and runs plans.

    An address is a number: that of a buffer plus a number of bytes is the address of what lies so
    many bytes into it.
    """

    name: str  # as users write it
    limits: Limits  # all that the compiler learns of it
    holds_arrays: bool  # its buffers are NumPy arrays, which programs take as they are
    asynchronous: bool  # programs may run after `run` has returned
    exchange: MemoryExchange | None  # None where other libraries cannot reach its memory

    def allocate(self, shape: Shape, dtype: DType) -> DeviceBuffer:
        """Uninitialised memory."""

    def upload(self, array: Any, non_blocking: bool = False) -> DeviceBuffer:
        """Memory with a copy of a C-contiguous NumPy array, which may be changed from here on. If
        it is `non_blocking` the array is one that `pinned` gave, and may still be read."""

    def pinned(self, shape: Shape, dtype: DType) -> Any:
        """An uninitialised NumPy array in memory of the host that the device copies from by itself;
        None if it does not."""

    def download(self, buffer: DeviceBuffer) -> Any:
        """A NumPy array with a copy of a buffer; it waits for what will be written there."""

    def copy(self, source: DeviceBuffer, target: DeviceBuffer) -> None:
        """Overwrite a buffer with the elements of another one of its size."""

    def address(self, buffer: DeviceBuffer) -> int:
        """The address of a buffer, as programs are given it."""

    def load(self, plan: Plan) -> ProgramInterface:
        """Compile a plan's kernels and lay out its memory."""

    def synchronize(self) -> None:
        """Wait until everything that was asked for is done; its errors surface here."""


def _open(module: str) -> Callable[..., DeviceInterface]:
    """How the device in a folder of this package is opened; of several, the one of an index."""
    return lambda *index: threads.imported(f"contraflow.devices.{module}.device").open_device(
        *index
    )


_openers: dict[str, Callable[..., DeviceInterface]] = {
    "cpu": _open("cpu"),
    "cuda": _open("cuda"),
    "webgpu": _open("webgpu"),
}
_SEVERAL = ("cuda",)  # kinds of which there may be more than one
_loaded: dict[str, DeviceInterface] = {}
# Folders of the packages by which devices are driven: their code is not the user's.
driven_by: list[str] = []
_lock = threads.recursive_lock()


def register(name: str, opener: Callable[[], DeviceInterface]) -> None:
    """Make a device known by a name; it is opened when something first needs it."""
    names.TYPES.setdefault(name)
    _openers[name] = opener


def lookup(name: str) -> DeviceInterface:
    """The device called `name`, loaded on first use."""
    found = _loaded.get(name)
    return _opened(name) if found is None else found


def _opened(name: str) -> DeviceInterface:
    """Open a device, once: threads that come at the same time wait for the first."""
    kind, _, index = name.partition(":")
    if kind not in _openers or (index and kind not in _SEVERAL):
        raise DeviceError(f"device: {name!r} is not known; known are {', '.join(_openers)}.")
    with _lock:
        if name not in _loaded:
            found = _openers[kind](int(index)) if index else _openers[kind]()
            if name != "cpu":
                other_devices[name] = found
            _loaded[name] = found
        return _loaded[name]


_default, _default_name = CPU, str(CPU)


def current() -> str:
    """The name of the device that tensors are made on here."""
    return state().device or _default_name


def find(op: str, device: Device | str | None) -> Device:
    """The device that `op` was asked for, that of new tensors for None; or the error for one that
    is absent."""
    if device is None:
        device = state().device
        if device is None:
            return _default
    if device == "cpu":
        return CPU
    found = Device(device)
    if found.type not in _openers or (found.index and found.type not in _SEVERAL):
        raise DeviceError(
            f"{op}: device {str(found)!r} is not available; there is {', '.join(_openers)}."
        )
    if found.index == 0:
        found = Device(found.type)  # the first of a kind
    try:
        lookup(str(found))
    except DeviceError as error:
        raise DeviceError(f"{op}: device {str(found)!r} is not available: {error}") from error
    return found


names.find = find


def set_default_device(device: Device | str | None) -> None:
    """Set the device that new tensors lie on. The cpu unless changed; None changes it back.

    >>> import contraflow as cf
    >>> cf.set_default_device("cpu")
    >>> cf.get_default_device()
    device(type='cpu')
    """
    global _default, _default_name
    _default = CPU if device is None else find("set_default_device", device)
    _default_name = str(_default)


def get_default_device() -> Device:
    """The device that new tensors lie on.

    >>> import contraflow as cf
    >>> cf.get_default_device()
    device(type='cpu')
    """
    return find("get_default_device", None)
