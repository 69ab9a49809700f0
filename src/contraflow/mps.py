"""PyTorch's questions about Apple's GPUs, which webgpu serves: there is no such device here."""

from contraflow.names import getter


def is_available() -> bool:
    """Whether there is such a device: there is not."""
    return False


def device_count() -> int:
    """The number of such devices: 0."""
    return 0


def empty_cache() -> None:
    """Do nothing: there is no memory of such a device."""


def manual_seed(seed: int) -> None:
    """Do nothing: there is no generator of such a device."""


def synchronize(device: object = None) -> None:
    """Do nothing: there is no work on such a device."""


__all__ = ["device_count", "empty_cache", "is_available", "manual_seed", "synchronize"]

globals()["__getattr__"] = getter(__name__)
