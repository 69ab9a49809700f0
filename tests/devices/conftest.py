"""What tests of devices share."""

from __future__ import annotations

from typing import Any

import pytest

from contraflow import config, devices
from contraflow.devices.cpu.pool import pool
from contraflow.devices.cpu.pool_code import has_futex
from contraflow.errors import DeviceError


@pytest.fixture(scope="session")
def webgpu() -> Any:
    """The webgpu device, or a skip that says why there is none."""
    try:
        return devices.lookup("webgpu")
    except DeviceError as error:
        pytest.skip(str(error))


@pytest.fixture
def threads(monkeypatch):
    def use(n: int) -> None:
        monkeypatch.setattr(config, "num_threads", n)

    return use


@pytest.fixture(params=["futex", "condition"])
def sleeping(request, monkeypatch):
    """Workers that sleep in one of the two ways; before and after, the system's own."""
    if request.param == "futex" and not has_futex():
        pytest.skip("this system has no futex that we know")
    pool.stop()
    monkeypatch.setattr(
        "contraflow.devices.cpu.pool_code.has_futex", lambda: request.param == "futex"
    )
    yield request.param
    pool.stop()
