"""Programs of several processes: there are none here yet, and programs that ask are told so."""

from contraflow.names import getter


def is_available() -> bool:
    """Whether processes can work together: not yet."""
    return False


def is_initialized() -> bool:
    """Whether processes work together now: never."""
    return False


def is_torchelastic_launched() -> bool:
    """Whether PyTorch's launcher has started this process: never."""
    return False


__all__ = ["is_available", "is_initialized", "is_torchelastic_launched"]

globals()["__getattr__"] = getter(__name__)
