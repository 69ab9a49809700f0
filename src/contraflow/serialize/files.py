"""`save` and `load`: the bytes of tensors, and new files in the place of old ones."""

from __future__ import annotations

import json
import mmap as memory
import os
import re
import secrets
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from contraflow import devices, dtypes
from contraflow.devices.cpu.memory import empty
from contraflow.devices.names import Device
from contraflow.dtypes import DType
from contraflow.errors import describe
from contraflow.operation.context import state
from contraflow.serialize.header import (
    NO_CHECKSUM,
    WIDENED,
    Damaged,
    FileTensor,
    checksum_of,
    header_bytes,
    read_header,
    widened,
)
from contraflow.serialize.structure import FileContents, unpack
from contraflow.serialize.torch_files import Locator, is_torch_file, read_torch_file
from contraflow.shapes import contiguous
from contraflow.tensors.storage import Storage
from contraflow.tensors.tensor import Tensor

LEFT_OVER = 3600.0  # seconds after which an unfinished file is taken to be abandoned

FilePath = str | os.PathLike[str]
MapLocation = (
    Device | str | Mapping[str, Device | str] | Callable[[Tensor, str], Tensor | None] | None
)


def save(obj: Any, path: FilePath | BinaryIO) -> None:
    """Write tensors, numbers, strings and None, in dicts, lists and tuples, to a safetensors file.

    Whatever has a `state_dict` is asked for it. Tensors that share memory still do when loaded. The
    file appears whole or not at all, in place of an older one. A file object, such as a BytesIO, is
    written to as it is.

    >>> import contraflow as cf, pathlib, tempfile
    >>> model = cf.nn.Linear(3, 2)
    >>> optimizer = cf.optim.Adam(model.parameters())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "run.safetensors")
    ...     cf.save({"model": model, "optimizer": optimizer, "random": cf.get_rng_state()}, path)
    ...     loaded = cf.load(path)
    >>> model.load_state_dict(loaded["model"])
    <All keys matched successfully>
    >>> optimizer.load_state_dict(loaded["optimizer"])
    >>> cf.set_rng_state(loaded["random"])
    """
    if DType.prefix and hasattr(obj, "forward") and callable(getattr(obj, "state_dict", None)):
        warnings.warn(
            f"save: of a {type(obj).__name__} its state dict is saved, not the object: load gives "
            f"a dict. Save model.state_dict(), and load it into a model that the program makes.",
            stacklevel=2,
        )
    target = None if _is_file(path, "write") else _as_path("save", path).resolve()
    packed = FileContents(obj)
    # The widest first, so that each lies at a multiple of its element's size.
    regions = sorted(packed.regions.items(), key=lambda item: -item[1].itemsize)
    checksums = dict.fromkeys(packed.regions, NO_CHECKSUM)

    def header(checksums: dict[str, str]) -> bytes:
        return header_bytes(packed.structure, regions, checksums, packed.copies, packed.devices)

    def write(file: BinaryIO) -> None:
        begin = file.tell()
        file.write(header(checksums))
        for name, array in regions:
            data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
            checksums[name] = checksum_of(data)
            file.write(data)
        end = file.tell()
        file.seek(begin)
        file.write(header(checksums))
        file.seek(end)

    if target is None:
        write(path)  # type: ignore[arg-type]
    else:
        _replace(target, write)


def load(
    path: FilePath | BinaryIO,
    map_location: MapLocation | bool = None,
    *,
    mmap: bool | None = None,
    weights_only: bool | None = None,
) -> Any:
    """Read what `save` has written, the tensors of any other safetensors file, or a PyTorch file.

    Tensors are read to the cpu, or to the device that `map_location` names. A dict of devices gives
    those for the devices that tensors lay on; tensors of others come back to theirs. So do those
    for which a function gives None: it is called with the memory of each, as a flat tensor on the
    cpu, and the name of the device, and gives a tensor of the same elements anywhere. With `mmap`
    tensors lie in the file itself: they are read when they are used, cannot be written to, and
    their checksums are not looked at. A `save` to the same path does not disturb them. Files of
    PyTorch's are read whole all the same.

    An index of a model that lies in several files ("*.index.json") is read with all of them.
    PyTorch's own files (.pt, .pth, .bin) are read without running anything they say, whatever
    `weights_only` is: tensors, containers and numbers are made, and all else is refused by name.

    >>> import contraflow as cf, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "weights.safetensors")
    ...     cf.save({"bias": cf.zeros(2), "sizes": (3, 4)}, path)
    ...     cf.load(path)
    {'bias': tensor([0., 0.]), 'sizes': (3, 4)}
    """
    if isinstance(map_location, bool):  # `load(path, True)` asks for mmap
        map_location, mmap = None, map_location
    located = _locator(map_location)
    if _is_file(path, "read"):
        if mmap:
            raise ValueError("load: tensors cannot lie in a file object. Leave out mmap.")
        return _read("the file object", path, located, False)  # type: ignore[arg-type]
    source = _as_path("load", path)
    if source.is_dir():
        raise IsADirectoryError(
            f"load: {source} is a folder. Name a file in it: *.safetensors, *.index.json, *.pt or "
            f"*.bin."
        )
    if source.name.endswith(".index.json"):
        return _read_parts(source, located, bool(mmap))
    with source.open("rb") as file:
        return _read(str(source), file, located, bool(mmap))


def _read(name: str, file: BinaryIO, located: Locator, mmap: bool) -> Any:
    start = file.read(8)
    file.seek(0)
    if is_torch_file(start):
        try:  # with `mmap` too, which is a promise about memory alone: it is read whole
            return read_torch_file(file, located)
        except Damaged as error:
            raise ValueError(
                f"load: {name} is a PyTorch file, but it cannot be read: {error}."
            ) from None
    try:
        header = read_header(file)
        read = _mapped(file) if mmap else _copied(file)
        tensors: dict[str, Tensor] = {}
        for entry in header.entries:
            storage = read(entry)
            if entry.name not in header.copies:
                storage = located(storage, entry.dtype, header.devices.get(entry.name, "cpu"))
                if mmap and storage.device != "cpu":
                    raise ValueError(
                        f"load: tensors on {storage.device} cannot lie in the file. Leave out mmap."
                    )
                view = contiguous(entry.shape)
                tensors[entry.name] = Tensor.of_storage(storage, view, entry.dtype)
        return unpack(header.structure, tensors) if header.is_ours else tensors
    except Damaged as error:
        # A pickle begins with its protocol and a frame. As lengths of headers these are 10 MB.
        if start[:3] in (b"\x80\x04\x95", b"\x80\x05\x95"):
            raise ValueError(
                f"load: {name} is not one of PyTorch's files, but a pickle. Read it with pickle, "
                f"which runs what it says."
            ) from None
        raise ValueError(f"load: {name} is not a whole safetensors file: {error}.") from None


def _read_parts(index: Path, located: Locator, mmap: bool) -> dict[str, Tensor]:
    """The tensors of a model that lies in several files beside an index."""
    try:
        names = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        parts = sorted(set(names.values()))
        safe = all(isinstance(part, str) and part == Path(part).name for part in parts)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(f"load: {index} is not an index of a model in several files.") from None
    if not safe:
        raise ValueError(f"load: {index} names files that do not lie beside it.")
    found: dict[str, Tensor] = {}
    for part in parts:
        with index.with_name(part).open("rb") as file:
            held = _read(str(index.with_name(part)), file, located, mmap)
        lacking = [name for name, where in names.items() if where == part and name not in held]
        if lacking:
            raise ValueError(f"load: {part} does not hold {lacking[0]!r}, which the index names.")
        found.update((name, held[name]) for name, where in names.items() if where == part)
    return {name: found[name] for name in names}


def _locator(map_location: MapLocation) -> Locator:
    """How memory that was read is moved to its device: a function of it, its dtype, and where it
    lay."""
    if map_location is None or isinstance(map_location, (str, Device)):
        device = "cpu" if map_location is None else str(devices.find("load", map_location))
        return lambda storage, dtype, lay: _moved(storage, device)
    if isinstance(map_location, Mapping):
        known = {_first(key): value for key, value in map_location.items()}
        return lambda storage, dtype, lay: _moved(storage, known.get(_first(lay), lay))
    if not callable(map_location):
        raise TypeError(
            f"load: map_location is {describe(map_location)}. It is a device, a dict of devices, "
            f"or a function of a tensor and the name of a device."
        )

    def call(storage: Storage, dtype: DType, lay: str) -> Storage:
        view = contiguous((storage.data.size,))
        found = map_location(Tensor.of_storage(storage, view, dtype), lay)
        if found is None:
            return _moved(storage, lay)
        if not isinstance(found, Tensor) or (found.shape, found.dtype) != (view.shape, dtype):
            raise ValueError(
                f"load: map_location gave {describe(found)} for memory of {dtype}{list(view.shape)}"
                f". It gives a tensor of the same elements, or None."
            )
        return found.storage if found.storage.shows(found.layout) else found.clone().storage

    return call


def _first(device: Device | str) -> str:
    """The name of a device, the first of a kind without its index."""
    found = Device(device)
    return str(found) if found.index else found.type


def _moved(storage: Storage, device: Device | str) -> Storage:
    """Memory that was read, on its device."""
    name = str(devices.find("load", device))
    if name == "cpu":
        return storage
    moved = Storage(devices.lookup(name).upload(storage.data), name)
    moved.inference = state().inference
    return moved


def _is_file(x: Any, method: str) -> bool:
    return hasattr(x, method) and hasattr(x, "seek")


def _as_path(op: str, path: Any) -> Path:
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{op}: {type(path).__name__} is neither a path nor a file.")
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
        if not entry.nbytes or entry.stored or array.ctypes.data % entry.dtype.itemsize:
            return _storage(entry, array.copy())
        storage = _storage(entry, array)
        storage.frozen = True
        return storage

    return read


def _storage(entry: FileTensor, array: np.ndarray) -> Storage:
    if entry.dtype is dtypes.bool_ and array.size and array.max() > 1:
        raise Damaged(f"tensor {entry.name!r:.80} is bool, but has bytes other than 0 and 1")
    if entry.stored:
        array = widened(entry.stored, array.view(WIDENED[entry.stored][0]))
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
