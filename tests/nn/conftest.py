"""What tests of modules share."""

from __future__ import annotations

import pytest

import contraflow as cf


@pytest.fixture
def seeded() -> None:
    """Initial values are the same in every test."""
    cf.manual_seed(0)
