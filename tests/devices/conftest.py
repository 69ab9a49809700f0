"""What tests of the cpu device share."""

from __future__ import annotations

import pytest

from contraflow import config
from contraflow.devices.cpu.pool import has_futex, pool


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
    monkeypatch.setattr("contraflow.devices.cpu.pool.has_futex", lambda: request.param == "futex")
    yield request.param
    pool.stop()
