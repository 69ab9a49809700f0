"""Settings of a thread or of the process that a function may change, but not leave changed.

A replay does not call the functions that set them. A recording runs with a setting that its
function changes for a while.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from contraflow import devices
from contraflow.capture.observing.observer import Observer
from contraflow.operation.context import change, state


class Setting(NamedTuple):
    """A setting: what is said where it is left changed, how it is read, and how it is set back."""

    changed: str
    get: Callable[[], Any]
    put: Callable[[Any], Any]


def _set_filters(found: Any) -> None:
    warnings.filters[:] = found  # type: ignore[index]


SETTINGS = (
    Setting("the grad mode is another", lambda: state().grad, lambda on: change(grad=on)),
    Setting("the default device is another", lambda: devices._default, devices.set_default_device),
    Setting("the filters of warnings are others", lambda: list(warnings.filters), _set_filters),
)


@contextmanager
def unchanged_settings(observer: Observer) -> Iterator[None]:
    """Put the settings back after the block, and refuse a function that has left one changed."""
    before = [setting.get() for setting in SETTINGS]
    left = []
    try:
        yield
        left = [s.changed for s, then in zip(SETTINGS, before) if s.get() != then]
    finally:
        for setting, then in zip(SETTINGS, before):
            if setting.get() != then:
                setting.put(then)
    if left:
        raise observer.recorder.refusal(
            f"{left[0]} when the function returns, and a replay would not change that",
            "Set that outside, or for a with-block.",
            observer.set_at,
        )
