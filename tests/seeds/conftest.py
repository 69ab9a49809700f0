"""How a line of "Engine behaviour" is tried: on each device, eager and compiled."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.helpers.trials import TRIALS, Trial, placed


@pytest.fixture(params=TRIALS, ids=str)
def run(request: pytest.FixtureRequest) -> Iterator[Trial]:
    """Calls a function of tensors on one of the devices, one way or the other."""
    with placed(request.param.device):
        yield request.param
