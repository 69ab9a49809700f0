"""The machines that run kernels of the GPU renderers, or skips that say what is missing."""

from __future__ import annotations

import importlib
from typing import Any

import pytest


def runner(name: str, needs: str) -> Any:
    """A module of tests that runs kernels, or a skip that says what is missing."""
    pytest.importorskip(needs, reason=f"{needs} is not installed")
    return importlib.import_module(f"tests.helpers.{name}")


@pytest.fixture
def webgpu() -> Any:
    found = runner("webgpu_runner", "wgpu")
    if found.open_device() is None:
        pytest.skip("no WebGPU adapter; Mesa's is in the package mesa-vulkan-drivers")
    return found


@pytest.fixture
def nvrtc() -> Any:
    found = runner("cuda_runner", "cuda.bindings.nvrtc")
    try:
        found.nvrtc.nvrtcVersion()
    except RuntimeError as error:  # the library is a wheel of its own
        pytest.skip(f"NVRTC is not installed: {error}")
    return found


@pytest.fixture
def gpu(nvrtc: Any) -> Any:
    if nvrtc.open_device() is None:
        pytest.skip("no CUDA GPU")
    return nvrtc
