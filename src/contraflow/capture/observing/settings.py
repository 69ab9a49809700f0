"""Settings of a thread or of the process that a function may change, but not leave changed.

A replay does not call the functions that set them. A recording runs with a setting that its
function changes for a while.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from contraflow.capture.observing.observer import Observer
from contraflow.devices import get_default_device, set_default_device
from contraflow.errors import CaptureError
from contraflow.operation.context import change, state


class Setting(NamedTuple):
    """A setting: its name, how it is read, and how it is set back."""

    name: str
    get: Callable[[], Any]
    put: Callable[[Any], Any]


def _set_filters(found: Any) -> None:
    warnings.filters[:] = found  # type: ignore[index]


SETTINGS = (
    Setting("whether gradients are recorded", lambda: state().grad, lambda on: change(grad=on)),
    Setting("the default device", get_default_device, set_default_device),
    Setting("the filters of warnings", lambda: list(warnings.filters), _set_filters),
)


@contextmanager
def unchanged_settings(observer: Observer) -> Iterator[None]:
    """Put the settings back after the block, and refuse a function that has left one changed."""
    before = [setting.get() for setting in SETTINGS]
    left = []
    try:
        yield
        left = [s.name for s, then in zip(SETTINGS, before) if s.get() != then]
    finally:
        for setting, then in zip(SETTINGS, before):
            if setting.get() != then:
                setting.put(then)
    if left:
        raise CaptureError(
            f"compile({observer.recorder.name}): {left[0]} is not what it was after "
            f"{observer.set_at}, and a replay would not set it. Set it outside, or for a "
            f"with-block."
        )
