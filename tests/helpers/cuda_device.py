"""A GPU for tests, or a skip that says what is missing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from tests.helpers.walled import opened

from contraflow.devices.cuda.device import open_device
from contraflow.errors import DeviceError


def gpu() -> Any:
    """The first GPU of the machine."""
    try:
        return open_device()
    except DeviceError as error:
        pytest.skip(str(error))


@contextlib.contextmanager
def opened_gpu(name: str) -> Iterator[Any]:
    """The GPU under a name of its own, known in a block only."""
    device = gpu()
    device.name = name
    with opened(lambda: device, name) as found:
        yield found
        found.synchronize()
