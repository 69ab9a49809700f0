"""Switches for products and attention on CUDA devices. They have no effect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

matmul = SimpleNamespace(
    allow_tf32=False,
    allow_fp16_reduced_precision_reduction=True,
    allow_bf16_reduced_precision_reduction=True,
    allow_fp16_accumulation=False,
)
_sdp = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def is_built() -> bool:
    """Whether this installation can compile code for CUDA devices: every one can."""
    return True


def flash_sdp_enabled() -> bool:
    """The value that `enable_flash_sdp` was last given."""
    return _sdp["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    """Allow a kind of attention. The kernel is chosen by the compiler in any case."""
    _sdp["flash"] = bool(enabled)


def mem_efficient_sdp_enabled() -> bool:
    """The value that `enable_mem_efficient_sdp` was last given."""
    return _sdp["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Allow a kind of attention. The kernel is chosen by the compiler in any case."""
    _sdp["mem_efficient"] = bool(enabled)


def math_sdp_enabled() -> bool:
    """The value that `enable_math_sdp` was last given."""
    return _sdp["math"]


def enable_math_sdp(enabled: bool) -> None:
    """Allow a kind of attention. The kernel is chosen by the compiler in any case."""
    _sdp["math"] = bool(enabled)


def cudnn_sdp_enabled() -> bool:
    """The value that `enable_cudnn_sdp` was last given."""
    return _sdp["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Allow a kind of attention. The kernel is chosen by the compiler in any case."""
    _sdp["cudnn"] = bool(enabled)


@contextmanager
def sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[Any]:  # fmt: skip
    """A block with other kinds of attention. It has no effect; PyTorch deprecates it."""
    yield {}
