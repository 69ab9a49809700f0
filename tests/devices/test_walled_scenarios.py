"""The scenarios of the engine on the walled device, beside the cpu."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
from tests.capture import test_compiled_engine
from tests.helpers.scenario import CALLS, SCENARIOS, Notes, compare, observe
from tests.helpers.walled import AsynchronousDevice, GraphDevice, WalledDevice, opened

import contraflow as cf

assert test_compiled_engine.DECLARED_BY  # which declares them


@functools.cache
def on_cpu(name: str) -> Notes:
    return observe(name, "eager")


def without_device(notes: Notes) -> Notes:
    """Notes in which messages do not name the device."""

    def plain(x: Any) -> Any:
        if isinstance(x, tuple) and len(x) == 2 and isinstance(x[1], str):
            return x[0], x[1].replace(" on walled", "")
        return x

    return [(place, plain(x)) for place, x in notes]


def check(name: str, make: Callable[[], WalledDevice], mode: str) -> None:
    scenario = SCENARIOS[name]
    expected = on_cpu(name)
    with opened(make) as device:
        cf.set_default_device("walled")
        try:
            found = without_device(observe(name, mode))
            device.synchronize()
        finally:
            cf.set_default_device(None)
    if mode != "eager" and (scenario.refuses or scenario.words):
        for place, (kind, text) in found:
            assert place.startswith("call")
            assert kind is cf.CaptureError if scenario.refuses else issubclass(kind, Exception)
            assert (scenario.refuses or scenario.words) in text
        assert len(found) == CALLS
        return
    compare(found, expected, exact=False, through=scenario.through)


@pytest.mark.parametrize("mode", ["eager", "native"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_plain(name: str, mode: str) -> None:
    check(name, WalledDevice, mode)
