"""The cache of object code on disk, shared by processes of this machine: a folder per device.

An entry is the digest of the object code and the code itself, in a file named by everything that
decides about it. Files appear under their final name only when complete, and one that does not
match its digest counts as absent. The entries used longest ago make room for new ones. A folder
that others can write to is not used: its code would be run in the name of whoever loads it.
"""

from __future__ import annotations

import functools
import hashlib
import os
import stat
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path

from contraflow import config

MOST_BYTES = 256 << 20  # of all entries; a kernel takes a few thousand
_KEPT = 0.75  # the part of these that is left when the oldest entries go
_LOOKS = 32  # the folder is measured again after this part of them was written
_DIGEST_BYTES = 32

_written: dict[Path, int] = {}  # bytes written by this process since a folder was measured


def read(device: str, name: str) -> bytes | None:
    """The object code of that name for a device, None if there is none."""
    return read_all(device, [name])[0]


def read_all(device: str, names: Sequence[str]) -> list[bytes | None]:
    """The object codes of those names for a device, None for each that is not there."""
    folder = Path(config.cache_folder, device)
    if not _is_ours(folder):
        return [None] * len(names)
    return [_read(os.path.join(folder, name)) for name in names]


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb", buffering=0) as file:
            content = file.read()
        os.utime(path)  # used just now
    except OSError:
        return None
    digest, code = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    return code if hashlib.sha256(code).digest() == digest else None


def write(device: str, name: str, code: bytes) -> None:
    """Keep object code for a device under a name."""
    folder = Path(config.cache_folder, device)
    try:
        for made in (folder.parent, folder):
            made.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_ours(folder):
            return
        handle, temporary = tempfile.mkstemp(dir=folder)
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(code).digest() + code)
        os.replace(temporary, folder / name)
        _written[folder] = _written.get(folder, MOST_BYTES) + len(code)
        if _written[folder] > MOST_BYTES // _LOOKS:
            _make_room(folder)
            _written[folder] = 0
    except OSError:
        return  # a cache that cannot be written costs time, not correctness


def _is_ours(folder: Path) -> bool:
    """Whether nobody else can put files into a folder, or another folder in its place."""
    if not hasattr(os, "getuid"):
        return True
    try:
        own, above = folder.stat(), folder.parent.stat()
    except OSError:
        return False
    user, shared = os.getuid(), stat.S_IWGRP | stat.S_IWOTH
    ours = own.st_uid == user and not own.st_mode & shared
    # In a sticky folder, as /tmp is, only owners rename.
    fixed = not above.st_mode & shared or above.st_mode & stat.S_ISVTX
    if ours and fixed and above.st_uid in (0, user):
        return True
    _warn(folder)
    return False


@functools.cache
def _warn(folder: Path) -> None:
    """Say once why machine code is compiled again in every process."""
    warnings.warn(
        f"cache: others can write to {folder}, so no machine code is kept there. Make it and the "
        f"folder above writable for yourself alone, or set CONTRAFLOW_CACHE_DIR.",
        RuntimeWarning,
        stacklevel=2,
    )


def _make_room(folder: Path) -> None:
    """Remove the entries used longest ago if there are too many."""
    entries = []
    for entry in os.scandir(folder):
        try:
            found = entry.stat()
        except FileNotFoundError:  # another process makes room too
            continue
        entries.append((found.st_mtime, found.st_size, entry.path))
    total = sum(size for _, size, _ in entries)
    if total <= MOST_BYTES:
        return
    for _, size, path in sorted(entries):
        Path(path).unlink(missing_ok=True)
        total -= size
        if total <= _KEPT * MOST_BYTES:
            return
