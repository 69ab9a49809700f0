"""cuDNN's switches. Kernels are contraflow's own, and results repeat bit for bit in any case."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

enabled = True
benchmark = False
benchmark_limit = 10
deterministic = False
allow_tf32 = True


def is_available() -> bool:
    """Whether kernels of cuDNN are used: no."""
    return False


def version() -> int | None:
    """The version of cuDNN: None."""
    return None


def is_acceptable(tensor: object) -> bool:
    """Whether cuDNN would take a tensor: no."""
    return False


@contextmanager
def flags(
    enabled: bool = False, benchmark: bool = False, benchmark_limit: int = 10,
    deterministic: bool = False, allow_tf32: bool = True,
) -> Iterator[None]:  # fmt: skip
    """A block with other switches. None has an effect."""
    yield
