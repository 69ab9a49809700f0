"""How a line of "Engine behaviour" is tried: on each device, eager and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import contraflow as cf

Run = Callable[..., Any]


def eager(step: Callable[..., Any], *args: Any) -> Any:
    return step(*args)


def compiled(step: Callable[..., Any], *args: Any) -> Any:
    """What the second call gives, which replays what the first recorded."""
    function = cf.compile(step)
    function(*args)
    result = function(*args)
    assert function.captures == 1
    return result


@pytest.fixture(params=[("cpu", eager), ("cpu", compiled)], ids=lambda p: f"{p[0]}-{p[1].__name__}")
def run(request: pytest.FixtureRequest) -> Run:
    """Calls a function of tensors, one way or the other."""
    return request.param[1]
