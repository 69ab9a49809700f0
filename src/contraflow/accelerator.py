"""Devices other than the cpu, under PyTorch's names that do not say which."""

from __future__ import annotations

from types import ModuleType

from contraflow import devices, threads
from contraflow.devices.names import Device
from contraflow.names import getter


def current_accelerator(check_available: bool = False) -> Device | None:
    """The device that new tensors are made on, unless that is the cpu; None then.

    >>> import contraflow as cf
    >>> print(current_accelerator())  # where the cpu is the default
    None
    """
    device = devices.get_default_device()
    return None if device.type == "cpu" else device


def is_available() -> bool:
    """Whether the default device is another one than the cpu.

    >>> import contraflow as cf
    >>> is_available()  # where the cpu is the default
    False
    """
    return current_accelerator() is not None


def device_count() -> int:
    """The number of devices of that kind that are used: one, or none.

    >>> import contraflow as cf
    >>> device_count()  # where the cpu is the default
    0
    """
    return int(is_available())


def current_device_index() -> int:
    """The index of the device in use.

    >>> import contraflow as cf
    >>> current_device_index()
    0
    """
    device = current_accelerator()
    return 0 if device is None else device.index or 0


def synchronize(device: Device | str | int | None = None) -> None:
    """Wait until everything that was asked of the device is done.

    >>> import contraflow as cf
    >>> synchronize()
    """
    found = current_accelerator() if device is None or isinstance(device, int) else Device(device)
    if found is not None:
        devices.lookup(str(found)).synchronize()


def get_device_module(device: Device | str | None = None) -> ModuleType:
    """The module of a kind of device, such as `contraflow.cuda`; without one, of the default's.

    >>> get_device_module("cpu").__name__
    'contraflow.cpu'
    """
    found = devices.get_default_device() if device is None else Device(device)
    return threads.imported(f"contraflow.{found.type}")


__all__ = [
    "current_accelerator", "current_device_index", "device_count", "get_device_module",
    "is_available", "synchronize",
]  # fmt: skip

globals()["__getattr__"] = getter(__name__)
