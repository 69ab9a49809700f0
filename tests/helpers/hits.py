"""Compiled functions whose calls hit."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import contraflow as cf
from contraflow.capture.hit import MISS, misses


def warmed(function: Callable[..., Any], *args: cf.Tensor) -> Any:
    """The compiled function, after calls enough for a hit to be written."""
    compiled = cf.compile(function)
    for _ in range(3):
        compiled(*args)
    assert compiled._hit is not misses
    assert compiled._hit(args) is not MISS
    return compiled


def python_calls(function: Callable[[], Any], *inside: str) -> list[str]:
    """The functions of Python's that a call enters, but not those that functions `inside` call."""
    entered: list[str] = []
    within: list[types.FrameType] = []

    def note(frame: types.FrameType, event: str, _: Any) -> None:
        if event == "call" and not within:
            entered.append(frame.f_code.co_qualname)
            if frame.f_code.co_qualname in inside:
                within.append(frame)
        elif event == "return" and within and frame is within[0]:
            within.clear()

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
    return entered
