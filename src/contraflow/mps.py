"""PyTorch's questions about Apple's GPUs, which webgpu serves: there is no such device here."""

from contraflow.names import getter


def is_available() -> bool:
    """Whether `device="mps"` works: it does not."""
    return False


def device_count() -> int:
    """The number of such devices: 0."""
    return 0


def empty_cache() -> None:
    """Nothing."""


def manual_seed(seed: int) -> None:
    """Nothing: there is no such device to seed."""


def synchronize(device: object = None) -> None:
    """Nothing: there is nothing to wait for."""


__all__ = ["device_count", "empty_cache", "is_available", "manual_seed", "synchronize"]

globals()["__getattr__"] = getter(__name__)
