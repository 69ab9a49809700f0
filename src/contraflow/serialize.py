"""Files: tensors and whole training states as safetensors, with their structure as JSON.

A file is one of the safetensors format: eight bytes with the length of a header, the header as JSON
(for each tensor its dtype, its shape and its range of bytes), and the bytes. So PyTorch's files of
that format are read here, and those written here are read elsewhere, as tensors under dotted names.
Tensors that share memory are written once for us, and for other readers under each of their names.
The rest of an object (keys, lists, numbers, strings, views of one storage) is JSON in the header.

A file holds data and nothing that could run: reading one makes tensors and Python's own containers
of what was checked. Everything is checked before memory is asked for, and what is asked for is no
more than the file has. The header and each tensor carry a checksum.

A new file is written beside the old one and takes its place when it is whole and on the disk, so a
crash leaves one or the other.
"""

from __future__ import annotations

import json
import mmap as memory
import os
import re
import secrets
import time
import zlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from contraflow import dtypes
from contraflow.devices.cpu.memory import empty
from contraflow.dtypes import DType
from contraflow.errors import DIM_LIMIT
from contraflow.operation.context import state
from contraflow.shapes import Shape, View, contiguous, numel
from contraflow.tensors.storage import Storage
from contraflow.tensors.tensor import Tensor
from contraflow.tensors.tree import parts

HEADER_LIMIT = 100_000_000  # bytes, the format's own limit
DEPTH_LIMIT = 100  # containers within containers
ALIGNMENT = 64  # the bytes of tensors begin at such an address of a mapped file
LEFT_OVER = 3600.0  # seconds after which an unfinished file is taken to be abandoned

_DTYPES = {
    "BOOL": dtypes.bool_, "U8": dtypes.uint8, "I8": dtypes.int8, "I16": dtypes.int16,
    "I32": dtypes.int32, "I64": dtypes.int64, "F16": dtypes.float16, "BF16": dtypes.bfloat16,
    "F32": dtypes.float32, "F64": dtypes.float64,
}  # fmt: skip
_DTYPE_NAMES = {dtype: name for name, dtype in _DTYPES.items()}

# The header of every file of ours begins with this; the checksum of the header follows.
_BEGINNING = b'{"__metadata__":{"format":"contraflow","checksum":"'
_NO_CHECKSUM = "0" * 8

FilePath = str | os.PathLike[str]


class _Damaged(ValueError):
    """The damage of a file."""


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
    packed = _FileContents(obj)
    # The widest first, so that each lies at a multiple of its element's size.
    regions = sorted(packed.regions.items(), key=lambda item: -item[1].itemsize)
    checksums = dict.fromkeys(packed.regions, _NO_CHECKSUM)

    def write(file: BinaryIO) -> None:
        file.write(_header(packed.structure, regions, checksums, packed.copies))
        for name, array in regions:
            data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
            checksums[name] = _checksum(data)
            file.write(data)
        file.seek(0)
        file.write(_header(packed.structure, regions, checksums, packed.copies))

    _replace(target, write)


def load(path: FilePath, mmap: bool = False) -> Any:
    """Read what `save` has written, or the tensors of any other safetensors file as a dict.

    With `mmap` tensors lie in the file itself: they are read when they are used, cannot be written
    to, and their checksums are not looked at. A `save` to the same path does not disturb them.

    >>> import contraflow as cf, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "weights.safetensors")
    ...     cf.save({"bias": cf.zeros(2), "sizes": (3, 4)}, path)
    ...     cf.load(path)
    {'bias': tensor([0., 0.]), 'sizes': (3, 4)}
    """
    source = _as_path("load", path)
    try:
        with source.open("rb") as file:
            header = _read_header(file)
            read = _mapped(file) if mmap else _copied(file)
            tensors: dict[str, Tensor] = {}
            for entry in header.entries:
                storage = read(entry)
                if entry.name not in header.copies:
                    view = contiguous(entry.shape)
                    tensors[entry.name] = Tensor.of_storage(storage, view, entry.dtype)
        return _unpack(header.structure, tensors) if header.is_ours else tensors
    except _Damaged as error:
        raise ValueError(f"load: {source} is not a whole safetensors file: {error}.") from None


def _as_path(op: str, path: Any) -> Path:
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{op}: {type(path).__name__} is not the path of a file.")
    return Path(path)


# --- from objects to structure and arrays ------------------------------------------------------


class _FileContents:
    """An object taken apart: `structure` is JSON, `regions` are arrays by the names in it.

    Numbers, strings, None and lists are themselves in JSON. All else is an object with one key that
    says what it is, `{"tuple": [1, 2]}`, and for tensors more that say how they lie in the region.
    """

    def __init__(self, obj: Any) -> None:
        self.regions: dict[str, np.ndarray] = {}
        self.copies: dict[str, str] = {}  # for other readers, and what they are part of
        self._sharing: dict[object, list[tuple[str, Tensor, dict[str, Any]]]] = {}
        self._names = {"__metadata__"}
        self.structure = self._pack(obj, ())
        for members in self._sharing.values():
            self._place(members)

    def _pack(self, x: Any, path: tuple[Any, ...]) -> Any:
        if len(path) > DEPTH_LIMIT:
            raise ValueError(
                f"save: {_dotted(path[:3])}… is nested more than {DEPTH_LIMIT} deep; "
                f"perhaps it contains itself."
            )
        if x is None or isinstance(x, (bool, str)):
            return x
        if isinstance(x, int):
            return int(x)
        if isinstance(x, float):
            return float(x) if np.isfinite(x) else {"float": str(float(x))}
        if isinstance(x, Tensor):
            return self._pack_tensor(x, path)
        if isinstance(x, DType):
            return {"dtype": x.name}
        if isinstance(x, (Mapping, list, tuple)):
            inside = parts(x, Mapping) or ()
            packed = [(key, self._pack(value, (*path, key))) for key, value in inside]
            if isinstance(x, Mapping):
                kind = type(x).__name__ if type(x) in _MAPPINGS.values() else "dict"
                return {kind: [[_pack_key(key, path), value] for key, value in packed]}
            items = [value for _, value in packed]
            return {"tuple": items} if isinstance(x, tuple) else items
        if callable(getattr(x, "state_dict", None)) and not isinstance(x, type):
            return self._pack(x.state_dict(), path)
        raise TypeError(
            f"save: {_dotted(path)} is {type(x).__name__}. Files hold tensors, numbers, strings, "
            f"None, dicts, lists, tuples, and what has a state_dict."
        )

    def _pack_tensor(self, x: Tensor, path: tuple[Any, ...]) -> dict[str, Any]:
        state().context.leave(x, "save()")
        leaf: dict[str, Any] = {"tensor": None}
        if x.requires_grad:
            leaf["requires_grad"] = True
        # Two empty tensors have nothing to share.
        key = (id(x.storage), x.dtype) if numel(x.shape) else id(leaf)
        self._sharing.setdefault(key, []).append((self._name(path), x, leaf))
        return leaf

    def _name(self, path: tuple[Any, ...]) -> str:
        """A name that no other tensor has, without what a reader may take for a folder."""
        plain = ".".join(re.sub(r"[^\w.-]", "_", str(key)) for key in path) or "tensor"
        name, number = plain, 1
        while name in self._names:
            number += 1
            name = f"{plain}.{number}"
        self._names.add(name)
        return name

    def _place(self, members: list[tuple[str, Tensor, dict[str, Any]]]) -> None:
        """Give the tensors of one storage their region: their elements, if they have the same.

        Tensors that see different parts of a storage get the span that all of them lie in.
        """
        region, first, _ = members[0]
        alike = all(x.layout == first.layout for _, x, _ in members)
        seen = [(name, x) for name, x, _ in members if not x.layout.overlaps_itself()]
        if alike and seen:
            self.regions[region] = first.array
            for _, _, leaf in members:
                leaf["tensor"] = region
            self._copy(region, seen[1:])
            return
        region = self._name((region, "storage"))  # no tensor's elements, to other readers
        ends = [x.layout.extent() for _, x, _ in members]
        low, high = min(low for low, _ in ends), max(high for _, high in ends)
        self.regions[region] = first.storage.data[low:high]
        for _, x, leaf in members:
            shape, strides, offset = x.layout
            leaf["tensor"] = region
            leaf["view"] = [list(shape), list(strides), offset - low]
        self._copy(region, seen)

    def _copy(self, region: str, members: list[tuple[str, Tensor]]) -> None:
        """Write tensors that lie in a region under their own names too.

        Ranges of bytes must not overlap in the format, and other readers know nothing but names.
        """
        for name, x in members:
            self.regions[name] = x.array
            self.copies[name] = region


_MAPPINGS: dict[str, Callable[[dict[Any, Any]], Any]] = {
    "dict": dict,
    "OrderedDict": OrderedDict,
    "Counter": Counter,
}


def _pack_key(key: Any, path: tuple[Any, ...]) -> Any:
    if isinstance(key, tuple):
        return {"tuple": [_pack_key(part, path) for part in key]}
    if key is None or isinstance(key, (bool, str, int)):
        return key
    if isinstance(key, float):
        return float(key) if np.isfinite(key) else {"float": str(float(key))}
    raise TypeError(
        f"save: {_dotted(path)} has a key of type {type(key).__name__}. Keys are strings, numbers, "
        f"None and tuples of these."
    )


def _dotted(path: tuple[Any, ...]) -> str:
    return repr(".".join(map(str, path))) if path else "the object"


# --- and back ----------------------------------------------------------------------------------


def _unpack(x: Any, tensors: Mapping[str, Tensor], depth: int = 0) -> Any:
    """The object that a structure describes."""
    if depth > DEPTH_LIMIT:
        raise _Damaged(f"its structure is nested more than {DEPTH_LIMIT} deep")
    if isinstance(x, list):
        return [_unpack(item, tensors, depth + 1) for item in x]
    if not isinstance(x, dict):
        return x
    kind, content = next(iter(x.items()), ("nothing", None))
    if kind == "tensor":
        return _unpack_tensor(x, tensors)
    if kind == "tuple" and isinstance(content, list):
        return tuple(_unpack(item, tensors, depth + 1) for item in content)
    if kind == "float" and content in ("nan", "inf", "-inf"):
        return float(content)
    if kind == "dtype" and content in {dtype.name for dtype in dtypes.ALL}:
        return dtypes.by_name(content)
    if kind in _MAPPINGS and isinstance(content, list):
        return _MAPPINGS[kind](_unpack_pairs(content, tensors, depth))
    raise _Damaged(f"its structure holds something unknown, {kind!r:.40}")


def _unpack_pairs(pairs: list[Any], tensors: Mapping[str, Tensor], depth: int) -> dict[Any, Any]:
    made: dict[Any, Any] = {}
    for pair in pairs:
        if not (isinstance(pair, list) and len(pair) == 2):
            raise _Damaged("its structure holds a dict without keys")
        key = _unpack(pair[0], tensors, depth + 1)
        try:
            known = key in made
        except TypeError:
            raise _Damaged(f"its structure holds a key of type {type(key).__name__}") from None
        if known:
            raise _Damaged(f"its structure holds the key {key!r:.40} twice")
        made[key] = _unpack(pair[1], tensors, depth + 1)
    return made


def _unpack_tensor(leaf: dict[str, Any], tensors: Mapping[str, Tensor]) -> Tensor:
    name = leaf["tensor"]
    if not isinstance(name, str) or name not in tensors:
        raise _Damaged(f"its structure names a tensor {name!r:.40} that it does not hold")
    whole = tensors[name]
    view = _view(name, leaf["view"], numel(whole.shape)) if "view" in leaf else whole.layout
    made = Tensor.of_storage(whole.storage, view, whole.dtype)
    if "requires_grad" not in leaf:
        return made
    if leaf["requires_grad"] is not True or not whole.dtype.is_floating_point:
        raise _Damaged(f"tensor {name!r} cannot require grad")
    return made.requires_grad_()


def _view(name: str, given: Any, size: int) -> View:
    """A checked view of a region of `size` elements."""
    if isinstance(given, list) and len(given) == 3:
        shape, strides, offset = given
        if _are_sizes(shape) and _are_sizes(strides) and _are_sizes([offset]):
            view = View(tuple(shape), tuple(strides), offset)
            low, high = view.extent()
            if len(shape) == len(strides) and 0 <= low <= high <= size:
                return view
    raise _Damaged(f"tensor {name!r} has no view within its {size} elements")


def _are_sizes(x: Any) -> bool:
    """Whether this is a list of what shapes are made of."""
    return (
        isinstance(x, list)
        and len(x) <= DIM_LIMIT
        and all(type(n) is int and 0 <= n < 1 << 63 for n in x)
    )


# --- the format --------------------------------------------------------------------------------


class _FileTensor(NamedTuple):
    """A tensor in a file: `begin` counts from the beginning of the file."""

    name: str
    dtype: DType
    shape: Shape
    begin: int
    nbytes: int
    checksum: str | None  # None in a file that is not ours


class _Header(NamedTuple):
    """The tensors in the order of their bytes, and the structure if the file is one of ours."""

    entries: list[_FileTensor]
    is_ours: bool
    structure: Any
    copies: Mapping[str, str]  # tensors that are there for other readers


def _checksum(data: Any) -> str:
    return f"{zlib.crc32(data):08x}"


def _header(
    structure: Any,
    regions: list[tuple[str, np.ndarray]],
    checksums: Mapping[str, str],
    copies: Mapping[str, str],
) -> bytes:
    """The header with its length, of the same number of bytes for any checksums."""
    end = 0
    entries: dict[str, Any] = {}
    for name, array in regions:
        begin, end = end, end + array.nbytes
        dtype = _DTYPE_NAMES[dtypes.from_numpy(array.dtype)]
        entries[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": [begin, end]}
    ours = _compact({"structure": structure, "checksums": dict(checksums), "copies": dict(copies)})
    rest = b'","contraflow":' + _compact(ours.decode()) + b"}"
    rest += b"," + _compact(entries)[1:] if entries else b"}"
    length = len(_BEGINNING) + len(_NO_CHECKSUM) + len(rest)
    rest += b" " * (-(8 + length) % ALIGNMENT)
    checksum = _checksum(_BEGINNING + _NO_CHECKSUM.encode() + rest)
    text = _BEGINNING + checksum.encode() + rest
    if len(text) > HEADER_LIMIT:
        raise ValueError(
            f"save: names, numbers and strings take {len(text)} bytes; the format allows "
            f"{HEADER_LIMIT}. Put long lists of numbers into tensors."
        )
    return len(text).to_bytes(8, "little") + text


def _compact(x: Any) -> bytes:
    return json.dumps(x, separators=(",", ":"), allow_nan=False).encode()


def _read_header(file: BinaryIO) -> _Header:
    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > size - 8:
        raise _Damaged(f"its header should have {length} bytes, but the file has {size}")
    if length > HEADER_LIMIT:
        raise _Damaged(f"its header has {length} bytes; the format allows {HEADER_LIMIT}")
    text = file.read(length)
    is_ours = text.startswith(_BEGINNING)
    if is_ours:
        at = len(_BEGINNING)
        found, rest = text[at : at + 8], text[at + 8 :]
        if found.decode("latin-1") != _checksum(_BEGINNING + _NO_CHECKSUM.encode() + rest):
            raise _Damaged("its header does not have the checksum that stands there")
    content = _parse(text)
    metadata = content.pop("__metadata__", {})
    if not isinstance(metadata, dict):
        raise _Damaged("its metadata are not an object")
    # A damaged beginning does not make another format of a file: the mark stands there twice.
    if not is_ours and ("contraflow" in metadata or metadata.get("format") == "contraflow"):
        raise _Damaged("its header is damaged, or somebody has rewritten it")
    structure: Any = None
    checksums: Any = {}
    copies: Any = {}
    if is_ours:
        ours = _parse(str(metadata.get("contraflow")).encode())
        structure, checksums = ours.get("structure"), ours.get("checksums")
        copies = ours.get("copies", {})
        if not isinstance(copies, dict) or not copies.keys() <= content.keys():
            raise _Damaged("it has copies of tensors that are not there")
        if not isinstance(checksums, dict) or checksums.keys() != content.keys():
            raise _Damaged("its checksums are not those of its tensors")
    entries = [
        _entry(name, given, 8 + length, checksums.get(name)) for name, given in content.items()
    ]
    entries.sort(key=lambda entry: (entry.begin, entry.nbytes))
    _check_ranges(entries, 8 + length, size)
    return _Header(entries, is_ours, structure, copies)


def _parse(text: bytes) -> dict[str, Any]:
    """A JSON object, read strictly."""
    try:
        found = json.loads(
            text.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse_constant
        )
    except _Damaged:
        raise
    except (ValueError, RecursionError) as error:
        raise _Damaged(f"its header is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise _Damaged("its header is not a JSON object")
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        twice = next(
            name for name, count in Counter(name for name, _ in pairs).items() if count > 1
        )
        raise _Damaged(f"its header holds the name {twice!r:.80} twice")
    return made


def _refuse_constant(text: str) -> Any:
    raise _Damaged(f"its header is not JSON: {text} is not a number")


def _entry(name: str, given: Any, start: int, checksum: str | None) -> _FileTensor:
    """A checked entry of the header; whether ranges lie in the file is seen for all together."""
    parts = re.split(r"[/\\]", name)
    if ".." in parts or (len(parts) > 1 and not parts[0]) or "\0" in name:
        raise _Damaged(f"a tensor is called {name!r:.80}, a path out of the file's folder")
    if not isinstance(given, dict) or not {"dtype", "shape", "data_offsets"} <= given.keys():
        raise _Damaged(f"tensor {name!r:.80} has no dtype, shape or data_offsets")
    dtype, shape, ends = given["dtype"], given["shape"], given["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise _Damaged(
            f"tensor {name!r:.80} has dtype {dtype!r:.20}; supported are {', '.join(_DTYPES)}"
        )
    if not _are_sizes(shape):
        raise _Damaged(f"tensor {name!r:.80} has the shape {shape!r:.60}")
    if not (_are_sizes(ends) and len(ends) == 2 and ends[0] <= ends[1]):
        raise _Damaged(f"tensor {name!r:.80} has the range {ends!r:.60}")
    begin, end = ends
    found = _DTYPES[dtype]
    # NumPy multiplies the sizes beside a zero too.
    if numel(n for n in shape if n) * found.itemsize >= 1 << 63:
        raise _Damaged(f"tensor {name!r:.80} has the shape {shape!r:.60}, too large for anything")
    if numel(shape) * found.itemsize != end - begin:
        raise _Damaged(
            f"tensor {name!r:.80} is {found}{shape!r:.60}, but its range {begin} to {end} has "
            f"{end - begin} bytes"
        )
    return _FileTensor(name, found, tuple(shape), start + begin, end - begin, checksum)


def _check_ranges(entries: list[_FileTensor], start: int, size: int) -> None:
    """Refuse ranges that overlap, leave gaps, or do not end where the file does."""
    end = start
    for entry in entries:
        if entry.begin != end:
            problem = "overlaps the one before" if entry.begin < end else "leaves a gap before it"
            raise _Damaged(f"the range of tensor {entry.name!r:.80} {problem}")
        end += entry.nbytes
    if end != size:
        raise _Damaged(f"its tensors end at byte {end}, but the file has {size} bytes")


# --- memory ------------------------------------------------------------------------------------


def _copied(file: BinaryIO) -> Callable[[_FileTensor], Storage]:
    """A reader of entries, in their order, into new memory."""

    def read(entry: _FileTensor) -> Storage:
        array = empty((entry.nbytes,), np.dtype(np.uint8))
        if file.readinto(array.data) != entry.nbytes:  # type: ignore[attr-defined]
            raise _Damaged(f"it ended while tensor {entry.name!r:.80} was read")
        if entry.checksum is not None and entry.checksum != _checksum(array.data):
            raise _Damaged(f"tensor {entry.name!r:.80} does not have its checksum")
        return _storage(entry, array)

    return read


def _mapped(file: BinaryIO) -> Callable[[_FileTensor], Storage]:
    """A reader of entries that leaves them in the file."""
    mapping = memory.mmap(file.fileno(), 0, access=memory.ACCESS_READ)
    whole = np.frombuffer(mapping, np.uint8)

    def read(entry: _FileTensor) -> Storage:
        array = whole[entry.begin : entry.begin + entry.nbytes]
        if not entry.nbytes or array.ctypes.data % entry.dtype.itemsize:
            return _storage(entry, array.copy())
        storage = _storage(entry, array)
        storage.frozen = True
        return storage

    return read


def _storage(entry: _FileTensor, array: np.ndarray) -> Storage:
    if entry.dtype is dtypes.bool_ and array.size and array.max() > 1:
        raise _Damaged(f"tensor {entry.name!r:.80} is bool, but has bytes other than 0 and 1")
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
