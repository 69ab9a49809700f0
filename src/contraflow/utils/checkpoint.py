"""Checkpointing under PyTorch's path; see `contraflow.checkpoint`."""

from typing import Any

from contraflow.autograd.checkpoint import checkpoint, checkpoint_sequential
from contraflow.names import getter


def get_device_states(*args: Any) -> tuple[list[int], list[Any]]:
    """The devices of tensors that have a generator of their own, and its state: none has.

    >>> import contraflow as cf
    >>> get_device_states(cf.ones(2))
    ([], [])
    """
    return [], []


def set_device_states(devices: list[int], states: list[Any], **options: Any) -> None:
    """Nothing: one generator serves all devices, `contraflow.set_rng_state`.

    >>> import contraflow as cf
    >>> set_device_states([], [])
    """


__all__ = ["checkpoint", "checkpoint_sequential", "get_device_states", "set_device_states"]

globals()["__getattr__"] = getter(__name__)
