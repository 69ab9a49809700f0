"""`save` and `load`: the bytes of tensors, and new files in the place of old ones."""

from __future__ import annotations

import mmap as memory
import os
import re
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from contraflow import devices, dtypes
from contraflow.devices.cpu.memory import empty
from contraflow.devices.names import Device
from contraflow.operation.context import state
from contraflow.serialize.header import (
    NO_CHECKSUM,
    Damaged,
    FileTensor,
    checksum_of,
    header_bytes,
    read_header,
)
from contraflow.serialize.structure import FileContents, unpack
from contraflow.shapes import contiguous
from contraflow.tensors.storage import Storage
from contraflow.tensors.tensor import Tensor

LEFT_OVER = 3600.0  # seconds after which an unfinished file is taken to be abandoned

FilePath = str | os.PathLike[str]


def save(obj: Any, path: FilePath) -> None:
    """Write tensors, numbers, strings and None, in dicts, lists and tuples, to a safetensors file.

    Whatever has a `state_dict` is asked for it. Tensors that share memory still do when loaded. The
    file appears whole or not at all, in place of an older one.

    >>> import contraflow as cf, pathlib, tempfile
    >>> model = cf.nn.Linear(3, 2)
    >>> optimizer = cf.optim.Adam(model.parameters())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "run.safetensors")
    ...     cf.save({"model": model, "optimizer": optimizer, "random": cf.get_rng_state()}, path)
    ...     loaded = cf.load(path)
    >>> model.load_state_dict(loaded["model"])
    IncompatibleKeys(missing_keys=[], unexpected_keys=[])
    >>> optimizer.load_state_dict(loaded["optimizer"])
    >>> cf.set_rng_state(loaded["random"])
    """
    target = _as_path("save", path).resolve()
    packed = FileContents(obj)
    # The widest first, so that each lies at a multiple of its element's size.
    regions = sorted(packed.regions.items(), key=lambda item: -item[1].itemsize)
    checksums = dict.fromkeys(packed.regions, NO_CHECKSUM)

    def write(file: BinaryIO) -> None:
        file.write(header_bytes(packed.structure, regions, checksums, packed.copies))
        for name, array in regions:
            data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
            checksums[name] = checksum_of(data)
            file.write(data)
        file.seek(0)
        file.write(header_bytes(packed.structure, regions, checksums, packed.copies))

    _replace(target, write)


def load(path: FilePath, mmap: bool = False, *, map_location: Device | str | None = None) -> Any:
    """Read what `save` has written, or the tensors of any other safetensors file as a dict.

    Files do not say where tensors lay: they are read to the cpu, or to the device that
    `map_location` names. With `mmap` tensors lie in the file itself: they are read when they are
    used, cannot be written to, and their checksums are not looked at. A `save` to the same path
    does not disturb them.

    >>> import contraflow as cf, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "weights.safetensors")
    ...     cf.save({"bias": cf.zeros(2), "sizes": (3, 4)}, path)
    ...     cf.load(path)
    {'bias': tensor([0., 0.]), 'sizes': (3, 4)}
    """
    source = _as_path("load", path)
    device = "cpu" if map_location is None else str(devices.find("load", map_location))
    if mmap and device != "cpu":
        raise ValueError(f"load: tensors on {device} cannot lie in the file. Leave out mmap.")
    try:
        with source.open("rb") as file:
            header = read_header(file)
            read = _mapped(file) if mmap else _copied(file)
            tensors: dict[str, Tensor] = {}
            for entry in header.entries:
                storage = read(entry)
                if device != "cpu":
                    storage = Storage(devices.lookup(device).upload(storage.data), device)
                    storage.inference = state().inference
                if entry.name not in header.copies:
                    view = contiguous(entry.shape)
                    tensors[entry.name] = Tensor.of_storage(storage, view, entry.dtype)
        return unpack(header.structure, tensors) if header.is_ours else tensors
    except Damaged as error:
        raise ValueError(f"load: {source} is not a whole safetensors file: {error}.") from None


def _as_path(op: str, path: Any) -> Path:
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{op}: {type(path).__name__} is not the path of a file.")
    return Path(path)


# --- memory ------------------------------------------------------------------------------------


def _copied(file: BinaryIO) -> Callable[[FileTensor], Storage]:
    """A reader of entries, in their order, into new memory."""

    def read(entry: FileTensor) -> Storage:
        array = empty((entry.nbytes,), np.dtype(np.uint8))
        if file.readinto(array.data) != entry.nbytes:  # type: ignore[attr-defined]
            raise Damaged(f"it ended while tensor {entry.name!r:.80} was read")
        if entry.checksum is not None and entry.checksum != checksum_of(array.data):
            raise Damaged(f"tensor {entry.name!r:.80} does not have its checksum")
        return _storage(entry, array)

    return read


def _mapped(file: BinaryIO) -> Callable[[FileTensor], Storage]:
    """A reader of entries that leaves them in the file."""
    mapping = memory.mmap(file.fileno(), 0, access=memory.ACCESS_READ)
    whole = np.frombuffer(mapping, np.uint8)

    def read(entry: FileTensor) -> Storage:
        array = whole[entry.begin : entry.begin + entry.nbytes]
        if not entry.nbytes or array.ctypes.data % entry.dtype.itemsize:
            return _storage(entry, array.copy())
        storage = _storage(entry, array)
        storage.frozen = True
        return storage

    return read


def _storage(entry: FileTensor, array: np.ndarray) -> Storage:
    if entry.dtype is dtypes.bool_ and array.size and array.max() > 1:
        raise Damaged(f"tensor {entry.name!r:.80} is bool, but has bytes other than 0 and 1")
    storage = Storage(array.view(entry.dtype.numpy))
    if state().inference:
        storage.inference = True
    return storage


def _replace(target: Path, write: Callable[[BinaryIO], None]) -> None:
    """Write a new file that then takes the place of `target`, and is gone if that fails."""
    _remove_left_overs(target)
    unfinished = target.with_name(f".{target.name}.{secrets.token_hex(8)}.unfinished")
    try:
        with unfinished.open("xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(target)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink()
        raise
    if os.name == "posix":  # the new name is on the disk when the folder is
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _remove_left_overs(target: Path) -> None:
    """Remove what runs that were killed while they saved have left beside `target`."""
    pattern = re.compile(re.escape(f".{target.name}.") + r"[0-9a-f]{16}\.unfinished")
    for path in target.parent.iterdir():
        if pattern.fullmatch(path.name):
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > LEFT_OVER:
                    path.unlink()
