"""The processor under the names that PyTorch gives every kind of device."""

from __future__ import annotations

from typing import Any

from contraflow.names import getter


def is_available() -> bool:
    """Whether there is a processor: there is."""
    return True


def device_count() -> int:
    """The number of devices called "cpu": 1."""
    return 1


def current_device() -> str:
    """The name of the device."""
    return "cpu"


def set_device(device: Any) -> None:
    """Nothing: there is one."""


def synchronize(device: Any = None) -> None:
    """Nothing: work is done when a call returns."""


__all__ = ["current_device", "device_count", "is_available", "set_device", "synchronize"]

globals()["__getattr__"] = getter(__name__)
