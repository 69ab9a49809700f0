"""Guards on globals and closure variables, read ahead of the call where code is not rewritten.

On a Python that `bytecode.py` does not know nothing else is noticed: neither reads of their
attributes, nor reads by other functions, nor writes.
"""

from __future__ import annotations

import sys
import types
import warnings
from collections.abc import Iterator
from typing import Any

from contraflow.capture.observing.observer import Observer
from contraflow.capture.rewriting.bytecode import globals_of

LIMITS = "only globals and closure variables that a compiled function itself reads are noticed"

_warned = [False]  # once per process


def read_ahead(observer: Observer, function: Any) -> None:
    """Read the variables that a function reads, as if it had done so at its beginning."""
    while not isinstance(function, types.FunctionType):
        function = getattr(function, "__wrapped__", None) or getattr(function, "__func__", None)
        if function is None:
            return
    namespace = function.__globals__
    for name in dict.fromkeys(_globals_within(function.__code__)):
        if name in namespace:
            observer.global_(namespace, name, namespace[name])
    for cell in function.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:
            continue
        observer.cell(cell, value)


def _globals_within(code: types.CodeType) -> Iterator[str]:
    """The global variables that code reads, or code within it."""
    yield from sorted(globals_of(code))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _globals_within(constant)


def warn_once() -> None:
    """Say that this Python is not known, at the first recording."""
    if _warned[0]:
        return
    _warned[0] = True
    warnings.warn(
        f"compile: {sys.implementation.name} {sys.version_info[0]}.{sys.version_info[1]} is not "
        f"one of those whose code can be observed, CPython 3.11 to 3.13, so that {LIMITS} when "
        f"they change. Pass other state as arguments, or compare the first n calls with eager: "
        f"cf.compile(f, verify=n).",
        stacklevel=8,
    )
