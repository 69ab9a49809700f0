"""Files of weights by their addresses, kept in a folder: PyTorch's `hub`, without its models."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlparse
from urllib.request import Request, urlopen

from contraflow import config
from contraflow.names import getter
from contraflow.serialize import load as _load

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")  # the beginning of a file's hash, in its name
_folder: str | None = None


def get_dir() -> str:
    """The folder of files: that of `set_dir`, or `hub` in the folder of compiled kernels."""
    return _folder or os.path.join(os.fspath(config.cache_folder), "hub")


def _get_torch_home() -> str:
    """The folder above that of files; not public in PyTorch, but used by packages."""
    return os.path.dirname(get_dir())


def set_dir(d: str | os.PathLike[str]) -> None:
    """Keep files in another folder."""
    global _folder
    _folder = os.path.expanduser(os.fspath(d))


def download_url_to_file(
    url: str, dst: str, hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Write what an address gives to a file, whole or not at all; its SHA-256 may be checked."""
    folder = os.path.dirname(os.path.abspath(dst))
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
        try:
            request = Request(url, headers={"User-Agent": "contraflow"})
            with urlopen(request) as answer:
                shutil.copyfileobj(answer, file)
            file.close()
            found = hashlib.sha256(Path(file.name).read_bytes()).hexdigest()
            if hash_prefix and not found.startswith(hash_prefix):
                raise RuntimeError(
                    f"download_url_to_file: {url} gives a file whose hash begins with "
                    f"{found[: len(hash_prefix)]}, not with {hash_prefix}."
                )
            os.replace(file.name, dst)
        finally:
            if os.path.exists(file.name):
                os.remove(file.name)


def load_state_dict_from_url(
    url: str, model_dir: str | None = None, map_location: Any = None, progress: bool = True,
    check_hash: bool = False, file_name: str | None = None, weights_only: bool = True,
) -> Any:  # fmt: skip
    """The weights in the file at an address; the file is kept for the next time.

    >>> load_state_dict_from_url("https://example.org/resnet-5c106cde.pth")  # doctest: +SKIP
    """
    folder = model_dir or os.path.join(get_dir(), "checkpoints")
    os.makedirs(folder, exist_ok=True)
    name = file_name or os.path.basename(urlparse(url).path)
    file = os.path.join(folder, name)
    if not os.path.exists(file):
        found = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, file, found[1] if found else None, progress)
    return _load(file, map_location=map_location)


__all__ = ["HASH_REGEX", "download_url_to_file", "get_dir", "load_state_dict_from_url", "set_dir"]

globals()["__getattr__"] = getter(__name__)
