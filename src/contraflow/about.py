"""A description of this installation: versions, devices, processor, threads, cache."""

from __future__ import annotations

import importlib.metadata
import platform
import sys

from contraflow import config
from contraflow.devices import lookup
from contraflow.errors import DeviceError

_REQUIRED = ("numpy", "ml_dtypes", "llvmlite")
_PACKAGES = {"webgpu": "wgpu", "cuda": "cuda-bindings"}


def show_config() -> str:
    """Versions, devices, processor features, threads and the cache folder, as text.

    >>> import contraflow as cf
    >>> print(cf.show_config())
    contraflow ...
    """
    # The package is above this module, so it is not imported here; it is loaded all the same.
    own = sys.modules["contraflow"].__version__
    rows = [f"contraflow {own}, Python {platform.python_version()}"]
    rows += [f"{name} {_version(name)}" for name in _REQUIRED]
    rows.append(f"machine: {platform.system()} {platform.machine()}")
    try:
        cpu = lookup("cpu")
        rows.append(f"cpu: {getattr(cpu, 'description', cpu.limits)}")
    except (DeviceError, ImportError) as error:
        rows.append(f"cpu: no compiler ({error})")
    for device, package in _PACKAGES.items():
        rows.append(f"{device}: {package} {_version(package)}; {_described(device)}")
    rows.append(f"threads: {config.get_num_threads()}")
    rows.append(f"compile: {config.compile_mode}")
    rows.append(f"cache: {config.cache_folder}")
    return "\n".join(rows)


def _described(device: str) -> str:
    """The name of a device, or why there is none."""
    try:
        found = lookup(device)
    except DeviceError as error:
        return str(error)
    return str(getattr(found, "description", device))


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "is not installed"
