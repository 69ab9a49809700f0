"""Devices: the interface that each implements, and the lookup by name.

A device's folder is imported when a tensor or a program first needs it, never before, so an
optional dependency costs nothing until it is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from contraflow import threads
from contraflow.devices.names import CPU, Device
from contraflow.errors import DeviceError

if TYPE_CHECKING:
    from contraflow.compiler.kernel import Limits
    from contraflow.compiler.plan import Plan


class ProgramInterface(Protocol):
    """A plan loaded on a device, ready to be replayed."""

    def replay(self, buffers: Sequence[Any], scalars: Sequence[float | int]) -> None:
        """Run all steps. `buffers` holds the input and output slots' buffers, in slot order."""

    def run(self, addresses: Sequence[int], scalars: tuple[float | int, ...]) -> None:
        """The same, with buffers given by their addresses."""

    def put(self, number: int, address: int) -> None:
        """Set the address of one of the buffers from now on."""

    def rerun(self, scalars: tuple[float | int, ...]) -> None:
        """The same, with buffers at the addresses of the last run, or those set by `put` since."""


class DeviceInterface(Protocol):
    """One kind of machine: it runs plans."""

    name: str
    limits: Limits

    def load(self, plan: Plan) -> ProgramInterface:
        """Compile a plan's kernels and lay out its memory."""

    def address(self, array: Any) -> int:
        """The address of an array's memory, as programs are given it."""


_KNOWN = ("cpu",)
_loaded: dict[str, DeviceInterface] = {}


def lookup(name: str) -> DeviceInterface:
    """The device called `name`, loaded on first use."""
    if name not in _loaded:
        if name not in _KNOWN:
            raise DeviceError(f"device: {name!r} is not known; known are {', '.join(_KNOWN)}.")
        _loaded[name] = threads.imported(f"contraflow.devices.{name}.device").open_device()
    return _loaded[name]


_default = CPU


def find(op: str, device: Device | str | None) -> Device:
    """The device that `op` was asked for, the default one for None; an error if it is absent."""
    if device is None:
        return _default
    if device == "cpu":
        return CPU
    found = Device(device)
    if found.type not in _KNOWN or (found.type == "cpu" and found.index):
        raise DeviceError(
            f"{op}: device {str(found)!r} is not available; there is {', '.join(_KNOWN)}."
        )
    lookup(found.type)
    return found


def set_default_device(device: Device | str | None) -> None:
    """Set the device that new tensors lie on. The cpu unless changed; None changes it back."""
    global _default
    _default = CPU if device is None else find("set_default_device", device)


def get_default_device() -> Device:
    """The device that new tensors lie on."""
    return _default
