"""Names of devices: "cpu", "cuda", "cuda:1", "webgpu"; `devices` knows which are available."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from contraflow.operation.modes import F, Mode

TYPES: dict[str, None] = dict.fromkeys(("cpu", "cuda", "webgpu"))  # in this order
# Devices of PyTorch's that programs name in comparisons; no tensor can be there.
ONLY_NAMED = frozenset(("meta", "mps", "xpu"))


class Device:
    """A device: a kind of machine and, where there are several, an index.

    >>> Device("cuda:1")
    device(type='cuda', index=1)
    >>> Device("cuda", 1) == Device("cuda:1") == "cuda:1"
    True

    A with-block over one makes tensors there, unless they are asked for elsewhere, and so does a
    function that is decorated with one:

    >>> import contraflow as cf
    >>> with cf.device("cpu"):
    ...     cf.zeros(2).device
    device(type='cpu')
    """

    __slots__ = ("type", "index")

    type: str
    index: int | None

    def __init__(self, type: str | Device, index: int | None = None) -> None:
        if isinstance(type, Device):
            type = str(type)
        if not isinstance(type, str):
            raise TypeError(f"device: expected a name such as 'cpu', not {type!r}.")
        kind, colon, number = type.partition(":")
        numbered = number.isdecimal() and index is None if colon else True
        known = kind in TYPES or kind in ONLY_NAMED
        if not known or not numbered or (index is not None and index < 0):
            names = ", ".join(map(repr, TYPES))
            asked = repr(type) if index is None else f"{type!r} with index {index}"
            raise ValueError(
                f"device: {asked} is not a device. Use {names}, or one of several: 'cuda:1'."
            )
        self.type = kind
        self.index = int(number) if colon else index

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type={self.type!r}{index})"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return str(self) == other
        if not isinstance(other, Device):
            return NotImplemented
        return (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash(str(self))  # a device equals its name

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Device, (str(self),)

    @property
    def _block(self) -> DeviceMode:
        """The with-block of all objects that name this device."""
        return _blocks.setdefault(str(self), DeviceMode(self))

    def __enter__(self) -> Device:
        self._block.__enter__()
        return self

    # That of the block, which is written in C: no interrupt comes before its end.
    __exit__: Any = property(attrgetter("_block.__exit__"))

    def __call__(self, function: F) -> F:
        return self._block(function)


class DeviceMode(Mode):
    """Tensors are made on a device."""

    def __init__(self, device: Device) -> None:
        super().__init__()
        self._device = device

    def changes(self) -> Mapping[str, Any]:
        """The field of the state that says so; a device that is absent is an error."""
        return {"device": str(find("device", self._device))}


_blocks: dict[str, DeviceMode] = {}


def find(op: str, device: Any) -> Device:
    """A device, once it was opened: `devices`, which opens them, puts its own function here."""
    raise NotImplementedError


CPU = Device("cpu")
