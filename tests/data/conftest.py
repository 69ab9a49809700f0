"""What tests of loaders share: each ends in time and leaves no worker behind."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest
from tests.helpers.loaders import SECONDS, left


@pytest.fixture(autouse=True)
def ends_and_cleans_up() -> Iterator[None]:
    """Fail a test that takes too long, or after which workers are left."""

    def fail_late(number: int, frame: Any) -> None:
        raise TimeoutError(f"the test took more than {SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, fail_late)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
    assert left() == []


@pytest.fixture
def impatient(monkeypatch):
    """Processes that do not end by themselves are ended soon."""
    monkeypatch.setattr("contraflow.data.workers.GRACE", 0.3)


@pytest.fixture
def patient(monkeypatch):
    """Workers have longer to end than a test may take: one that does not end by itself fails it."""
    monkeypatch.setattr("contraflow.data.workers.GRACE", 10.0 * SECONDS)
