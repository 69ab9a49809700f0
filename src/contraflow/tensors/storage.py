"""Storages: the memory behind tensors, with versions that count writes.

The memory is a buffer of a device: on the cpu a NumPy array, elsewhere what the device gives out.

Views share a storage. Every write through a tensor raises `version`, so that a value saved for
backward and then overwritten is noticed; `writer` says what wrote last and where.
"""

from __future__ import annotations

import itertools
import weakref
from functools import partial
from typing import Any, NamedTuple

from contraflow import devices
from contraflow.devices.cpu import memory
from contraflow.shapes import View, contiguous, numel
from contraflow.tensors.source_line import UserLine

serials = itertools.count()


class Storage:
    """Memory of one device. On the cpu `data` is a flat array, elsewhere a buffer of the device; a
    recorded storage has None."""

    # Defaults live on the class, which keeps construction cheap: there is one of these per op.
    device = "cpu"
    version = 0
    writer: tuple[str, UserLine | None] | None = None
    inference = False  # made in inference mode, so nothing may be differentiated through it
    frozen = False  # memory of a read-only array
    pinned = ""  # memory of the host that this device copies from by itself
    unchecked = False  # made by an op that may have failed, on a device that says so later
    address = 0  # where the memory begins, once a program has asked
    # Nodes that keep this memory, and want a copy before it is overwritten: see `lend`.
    borrowers: dict[int, weakref.ref[Any]] | None = None  # by their ids

    def __init__(self, data: Any, device: str = "cpu") -> None:
        """Over a C-contiguous array of any shape, which is flattened when that is first asked for,
        or over a buffer of another device."""
        self._data = data
        if device != "cpu":
            self.device = device
        self.serial = next(serials)  # later storages have higher numbers

    def lend(self, node: Any) -> None:
        """Let a node refer to this memory until it is overwritten, and give it a copy then."""
        if self.borrowers is None:
            self.borrowers = {}
        # The callback is C: an interrupt in one of Python's, which a WeakSet has, would be lost.
        self.borrowers[id(node)] = weakref.ref(node, partial(self.borrowers.pop, id(node)))

    def recall(self) -> None:
        """Give copies to the nodes that keep this memory, which is about to be overwritten."""
        borrowers, self.borrowers = self.borrowers, None
        for ref in list(borrowers.values()) if borrowers else ():
            node = ref()
            if node is not None:
                node.keep_copies(self)

    def wrote(self, op: str, line: UserLine | None) -> None:
        """Count a write."""
        self.version += 1
        self.writer = (op, line)

    def written(self) -> Any:
        """The writes so far, for `forget_since`."""
        return self.version, self.writer

    def forget_since(self, written: Any) -> None:
        """Forget later writes, which did not happen: they were recorded, or undone."""
        self.version, self.writer = written

    @property
    def data(self) -> Any:
        """The memory as a flat array or a buffer, None where only a program will compute it."""
        data = self._data
        if data is not None and self.device == "cpu" and data.ndim != 1:
            data = self._data = data.reshape(-1)
        return data

    def receive(self, data: Any) -> None:
        """Give memory to a storage that has none: it was recorded, or its size was not known.

        That happens once. Memory never moves: programs ask for an address and keep it.
        """
        assert self._data is None or not self._data.size, "a storage that has memory keeps it"
        self._data, self.address = data, 0

    def __deepcopy__(self, memo: dict[int, Any]) -> Storage:
        copy = memo[id(self)] = Storage(self.copied(), self.device)
        return copy

    def fetched(self) -> Any:
        """The memory on the host: on the cpu the flat array itself, from elsewhere a copy."""
        if self.device == "cpu":
            return self.data
        return devices.lookup(self.device).download(self.data).reshape(-1)

    def copied(self) -> Any:
        """A copy of the memory as it is now, for `restore` or for another storage."""
        if self.device == "cpu":
            return memory.copy(self.data)
        device, data = devices.lookup(self.device), self.data
        copy = device.allocate(data.shape, data.dtype)
        device.copy(data, copy)
        return copy

    def restore(self, copied: Any) -> None:
        """Write the elements of a copy back."""
        devices.lookup(self.device).copy(copied, self.data)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.device == "cpu":
            return Storage, (self.data,)
        return _uploaded, (devices.lookup(self.device).download(self.data), self.device)

    def data_ptr(self) -> int:
        """The address of the memory."""
        if self.device == "cpu":
            return int(self.data.ctypes.data)
        return devices.lookup(self.device).address(self.data)

    def nbytes(self) -> int:
        """Bytes of the memory."""
        return int(self.data.nbytes)

    def look_around(self) -> None:
        """Something depends on where in this memory a tensor lies, or on what else is there."""

    def shows(self, layout: View) -> bool:
        """Whether a layout is that of the whole buffer, and of nothing beside it."""
        whole = layout == contiguous(layout.shape) and numel(layout.shape) == self.data.size
        return whole and type(self.data) is not BufferPart

    @property
    def on_host(self) -> bool:
        """Whether the elements can be read by the host, as they are."""
        return self._data is not None and self.device == "cpu"

    @property
    def is_recorded(self) -> bool:
        """Whether this stands for a value that only a program will compute."""
        return self._data is None


def _uploaded(array: Any, device: str) -> Storage:
    """A storage of a device with the elements of an array."""
    return Storage(devices.lookup(device).upload(array), device)


class BufferPart(NamedTuple):
    """A stretch of a device's buffer. Programs reach it by its address, and nothing else does."""

    whole: Any
    size: int

    @property
    def shape(self) -> tuple[int, ...]:
        """One dim."""
        return (self.size,)

    @property
    def dtype(self) -> Any:
        """The dtype of the whole."""
        return self.whole.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of the stretch."""
        return self.size * int(self.dtype.itemsize)


class PartStorage(Storage):
    """A stretch of the memory of another storage, which counts the writes to both."""

    looked_around = False

    def __init__(self, whole: Storage, start: int, stop: int) -> None:
        if whole.device == "cpu":
            super().__init__(whole.data[start:stop])
        else:
            part = BufferPart(whole.data, stop - start)
            super().__init__(part, whole.device)
            first = start * part.dtype.itemsize
            self.address = devices.lookup(whole.device).address(whole.data) + first
        self.whole = whole
        self.inference, self.frozen = whole.inference, whole.frozen

    def look_around(self) -> None:
        self.looked_around = True

    def copied(self) -> Any:
        return super().copied() if self.device == "cpu" else self.whole.copied()

    def restore(self, copied: Any) -> None:
        if self.device == "cpu":
            super().restore(copied)
        else:
            self.whole.restore(copied)

    def fetched(self) -> Any:
        if self.device == "cpu":
            return self.data
        first = self.address - devices.lookup(self.device).address(self.whole.data)
        start = first // self.data.dtype.itemsize
        return self.whole.fetched()[start : start + self.data.size]


def _of_whole(name: str) -> Any:
    """An attribute that a part has in common with the whole."""

    def get(part: PartStorage) -> Any:
        return getattr(part.whole, name)

    def put(part: PartStorage, value: Any) -> None:
        setattr(part.whole, name, value)

    return property(get, put)


for _name in ("version", "writer", "borrowers"):
    setattr(PartStorage, _name, _of_whole(_name))
