"""Random generators and their state under PyTorch's names: `contraflow.random.manual_seed`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from contraflow.names import getter
from contraflow.tensors.generator import (
    Generator,
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)


@contextmanager
def fork_rng(
    devices: Iterable[Any] | None = None, enabled: bool = True, device_type: str = "cuda"
) -> Iterator[None]:
    """A block after which the default generator stands where it stood before.

    One generator serves all devices, so those that are named have no effect.

    >>> import contraflow as cf
    >>> with fork_rng():
    ...     a = cf.rand(2)
    >>> bool((cf.rand(2) == a).all())
    True
    """
    saved = get_rng_state()
    try:
        yield
    finally:
        if enabled:
            set_rng_state(saved)


__all__ = [
    "Generator",
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
]

globals()["__getattr__"] = getter(__name__)
