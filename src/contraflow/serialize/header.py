"""The header of a safetensors file: written, read, and checked before anything else is."""

from __future__ import annotations

import json
import os
import re
import warnings
import zlib
from collections import Counter
from collections.abc import Mapping
from typing import Any, BinaryIO, NamedTuple

import ml_dtypes
import numpy as np

from contraflow import dtypes
from contraflow.dtypes import DType
from contraflow.errors import DIM_LIMIT
from contraflow.shapes import Shape, numel

HEADER_LIMIT = 100_000_000  # bytes, the format's own limit
ALIGNMENT = 64  # the bytes of tensors begin at such an address of a mapped file

_DTYPES = {
    "BOOL": dtypes.bool_, "U8": dtypes.uint8, "I8": dtypes.int8, "I16": dtypes.int16,
    "I32": dtypes.int32, "I64": dtypes.int64, "F16": dtypes.float16, "BF16": dtypes.bfloat16,
    "F32": dtypes.float32, "F64": dtypes.float64,
}  # fmt: skip
_DTYPE_NAMES = {dtype: name for name, dtype in _DTYPES.items()}

# Types of elements in files that do not exist here, with the dtype that they become: the next
# wider one that has all of their values.
WIDENED: dict[str, tuple[np.dtype[Any], DType]] = {
    "uint16": (np.dtype(np.uint16), dtypes.int32),
    "uint32": (np.dtype(np.uint32), dtypes.int64),
    "float8_e4m3fn": (np.dtype(ml_dtypes.float8_e4m3fn), dtypes.float32),
    "float8_e5m2": (np.dtype(ml_dtypes.float8_e5m2), dtypes.float32),
    "float8_e4m3fnuz": (np.dtype(ml_dtypes.float8_e4m3fnuz), dtypes.float32),
    "float8_e5m2fnuz": (np.dtype(ml_dtypes.float8_e5m2fnuz), dtypes.float32),
}
_WIDENED_NAMES = {
    "U16": "uint16", "U32": "uint32", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
    "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz",
}  # fmt: skip


def widened(name: str, array: np.ndarray) -> np.ndarray:
    """Elements of a type that does not exist here, in the dtype that they become."""
    _, dtype = WIDENED[name]
    warnings.warn(f"load: tensors of {name} become {dtype}.", stacklevel=2)
    return array.astype(dtype.numpy)


# The header of every file of ours begins with this; the checksum of the header follows.
_BEGINNING = b'{"__metadata__":{"format":"contraflow","checksum":"'
NO_CHECKSUM = "0" * 8


class Damaged(ValueError):
    """The damage of a file."""


class FileTensor(NamedTuple):
    """A tensor in a file: `begin` counts from the beginning of the file."""

    name: str
    dtype: DType
    shape: Shape
    begin: int
    nbytes: int
    checksum: str | None  # None in a file that is not ours
    stored: str = ""  # the type of its elements in the file, if that is one of WIDENED


class Header(NamedTuple):
    """The tensors in the order of their bytes, and the structure if the file is one of ours."""

    entries: list[FileTensor]
    is_ours: bool
    structure: Any
    copies: Mapping[str, str]  # tensors that are there for other readers
    devices: Mapping[str, str]  # that tensors lay on, but for the cpu


def checksum_of(data: Any) -> str:
    """The CRC-32 of bytes, in hexadecimal."""
    return f"{zlib.crc32(data):08x}"


def header_bytes(
    structure: Any,
    regions: list[tuple[str, np.ndarray]],
    checksums: Mapping[str, str],
    copies: Mapping[str, str],
    devices: Mapping[str, str] | None = None,
) -> bytes:
    """The header with its length, of the same number of bytes for any checksums."""
    end = 0
    entries: dict[str, Any] = {}
    for name, array in regions:
        begin, end = end, end + array.nbytes
        dtype = _DTYPE_NAMES[dtypes.from_numpy(array.dtype)]
        entries[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": [begin, end]}
    given = {"structure": structure, "checksums": dict(checksums), "copies": dict(copies)}
    ours = _compact({**given, "devices": dict(devices)} if devices else given)
    rest = b'","contraflow":' + _compact(ours.decode()) + b"}"
    rest += b"," + _compact(entries)[1:] if entries else b"}"
    length = len(_BEGINNING) + len(NO_CHECKSUM) + len(rest)
    rest += b" " * (-(8 + length) % ALIGNMENT)
    checksum = checksum_of(_BEGINNING + NO_CHECKSUM.encode() + rest)
    text = _BEGINNING + checksum.encode() + rest
    if len(text) > HEADER_LIMIT:
        raise ValueError(
            f"save: names, numbers and strings take {len(text)} bytes; the format allows "
            f"{HEADER_LIMIT}. Put long lists of numbers into tensors."
        )
    return len(text).to_bytes(8, "little") + text


def _compact(x: Any) -> bytes:
    return json.dumps(x, separators=(",", ":"), allow_nan=False).encode()


def read_header(file: BinaryIO) -> Header:
    """The header of a file, checked as a whole."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > size - 8:
        raise Damaged(f"its header should have {length} bytes, but the file has {size}")
    if length > HEADER_LIMIT:
        raise Damaged(f"its header has {length} bytes; the format allows {HEADER_LIMIT}")
    text = file.read(length)
    # Other programs pad headers to 8 bytes, and may write our metadata in the order that is ours.
    is_padded = (8 + length) % ALIGNMENT == 0
    is_ours = is_padded and text.startswith(_BEGINNING)
    if is_ours:
        at = len(_BEGINNING)
        found, rest = text[at : at + 8], text[at + 8 :]
        if found.decode("latin-1") != checksum_of(_BEGINNING + NO_CHECKSUM.encode() + rest):
            raise Damaged("its header does not have the checksum that stands there")
    content = _parse(text)
    metadata = content.pop("__metadata__", {})
    if not isinstance(metadata, dict):
        raise Damaged("its metadata are not an object")
    was_ours = "contraflow" in metadata or metadata.get("format") == "contraflow"
    if was_ours and not is_ours and is_padded and _is_nearly_ours(text):
        # A damaged beginning does not make another format of a file: the mark stands there twice.
        raise Damaged("its header is damaged")
    structure: Any = None
    checksums: Any = {}
    copies: Any = {}
    devices: Any = {}
    if is_ours:
        ours = _parse(str(metadata.get("contraflow")).encode())
        structure, checksums = ours.get("structure"), ours.get("checksums")
        copies, devices = ours.get("copies", {}), ours.get("devices", {})
        if not isinstance(copies, dict) or not copies.keys() <= content.keys():
            raise Damaged("it has copies of tensors that are not there")
        names = devices.values() if isinstance(devices, dict) else [None]
        if not all(isinstance(x, str) for x in names) or not devices.keys() <= content.keys():
            raise Damaged("it has devices of tensors that are not there")
        if not isinstance(checksums, dict) or checksums.keys() != content.keys():
            raise Damaged("its checksums are not those of its tensors")
    entries = [
        _entry(name, given, 8 + length, checksums.get(name)) for name, given in content.items()
    ]
    entries.sort(key=lambda entry: (entry.begin, entry.nbytes))
    _check_ranges(entries, 8 + length, size)
    if was_ours and not is_ours:
        warnings.warn(
            "load: another program has rewritten the metadata of this file, so its tensors are "
            "given under their names, without the structure that they were saved in.",
            stacklevel=3,
        )
    return Header(entries, is_ours, structure, copies, devices)


def _is_nearly_ours(text: bytes) -> bool:
    """Whether a header begins as ours do but for a few bytes; another program orders it anew."""
    same = sum(a == b for a, b in zip(text, _BEGINNING))
    return 2 * same > len(_BEGINNING) or _BEGINNING[20:] in text[: 2 * len(_BEGINNING)]


def _parse(text: bytes) -> dict[str, Any]:
    """A JSON object, read strictly."""
    try:
        found = json.loads(
            text.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse_constant
        )
    except Damaged:
        raise
    except (ValueError, RecursionError) as error:
        raise Damaged(f"its header is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise Damaged("its header is not a JSON object")
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        twice = next(
            name for name, count in Counter(name for name, _ in pairs).items() if count > 1
        )
        raise Damaged(f"its header holds the name {twice!r:.80} twice")
    return made


def _refuse_constant(text: str) -> Any:
    raise Damaged(f"its header is not JSON: {text} is not a number")


def _entry(name: str, given: Any, start: int, checksum: str | None) -> FileTensor:
    """A checked entry of the header; whether ranges lie in the file is seen for all together."""
    parts = re.split(r"[/\\]", name)
    if ".." in parts or (len(parts) > 1 and not parts[0]) or "\0" in name:
        raise Damaged(f"a tensor is called {name!r:.80}, a path out of the file's folder")
    if not isinstance(given, dict) or not {"dtype", "shape", "data_offsets"} <= given.keys():
        raise Damaged(f"tensor {name!r:.80} has no dtype, shape or data_offsets")
    dtype, shape, ends = given["dtype"], given["shape"], given["data_offsets"]
    if not isinstance(dtype, str) or (dtype not in _DTYPES and dtype not in _WIDENED_NAMES):
        known = ", ".join((*_DTYPES, *_WIDENED_NAMES))
        raise Damaged(f"tensor {name!r:.80} has dtype {dtype!r:.20}; supported are {known}")
    if not are_sizes(shape):
        raise Damaged(f"tensor {name!r:.80} has the shape {shape!r:.60}")
    if not (are_sizes(ends) and len(ends) == 2 and ends[0] <= ends[1]):
        raise Damaged(f"tensor {name!r:.80} has the range {ends!r:.60}")
    begin, end = ends
    stored = _WIDENED_NAMES.get(dtype, "")
    found = WIDENED[stored][1] if stored else _DTYPES[dtype]
    itemsize = WIDENED[stored][0].itemsize if stored else found.itemsize
    # NumPy multiplies the sizes beside a zero too.
    if numel(n for n in shape if n) * found.itemsize >= 1 << 63:
        raise Damaged(f"tensor {name!r:.80} has the shape {shape!r:.60}, too large for anything")
    if numel(shape) * itemsize != end - begin:
        raise Damaged(
            f"tensor {name!r:.80} is {stored or found}{shape!r:.60}, but its range {begin} to "
            f"{end} has {end - begin} bytes"
        )
    return FileTensor(name, found, tuple(shape), start + begin, end - begin, checksum, stored)


def _check_ranges(entries: list[FileTensor], start: int, size: int) -> None:
    """Refuse ranges that overlap, leave gaps, or do not end where the file does."""
    end = start
    for entry in entries:
        if entry.begin != end:
            problem = "overlaps the one before" if entry.begin < end else "leaves a gap before it"
            raise Damaged(f"the range of tensor {entry.name!r:.80} {problem}")
        end += entry.nbytes
    if end != size:
        raise Damaged(f"its tensors end at byte {end}, but the file has {size} bytes")


def are_sizes(x: Any) -> bool:
    """Whether this is a list of what shapes are made of."""
    return (
        isinstance(x, list)
        and len(x) <= DIM_LIMIT
        and all(type(n) is int and 0 <= n < 1 << 63 for n in x)
    )
