"""PyTorch's names for its other compiler, TorchScript: functions stay as they are.

Models are written with decorators such as `@torch.jit.script`, and ask whether they are being
scripted. Here they run as Python; `contraflow.compile` makes them fast.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any, Dict, Final, List, Optional, Tuple, TypeVar  # noqa: F401, UP035

from contraflow.names import getter, without_objects

T = TypeVar("T")


def script(obj: T, *args: Any, **kwargs: Any) -> T:
    """The function or module itself. Use `contraflow.compile` to make it fast.

    >>> @script
    ... def double(x):
    ...     return x + x
    >>> double(2)
    4
    """
    return obj


def trace(func: T, example_inputs: Any = None, **options: Any) -> T:
    """The function or module itself; it is not called with the examples."""
    return func


def trace_module(mod: T, inputs: Any = None, **options: Any) -> T:
    """The module itself."""
    return mod


def script_if_tracing(fn: T) -> T:
    """The function itself."""
    return fn


_script_if_tracing = script_if_tracing  # which packages use, though they are not public
_overload = _overload_method = script_if_tracing


def ignore(fn: Any = None, *, drop: bool = False) -> Any:
    """The function itself, by `@ignore` and `@ignore(drop=True)`."""
    return fn if callable(fn) else (lambda function: function)


def unused(fn: T) -> T:
    """The function itself."""
    return fn


def export(fn: T) -> T:
    """The function itself."""
    return fn


def interface(obj: T) -> T:
    """The class itself."""
    return obj


def annotate(the_type: Any, the_value: T) -> T:
    """The value itself."""
    return the_value


def is_scripting() -> bool:
    """Whether a script is being made: never."""
    return False


def is_tracing() -> bool:
    """Whether a trace is being made by PyTorch's tracer: never."""
    return False


def isinstance_(obj: Any, target_type: Any) -> bool:
    """Python's isinstance."""
    return builtins.isinstance(obj, target_type)


def freeze(mod: T, *args: Any, **kwargs: Any) -> T:
    """The module itself."""
    return mod


def optimize_for_inference(mod: T, *args: Any, **kwargs: Any) -> T:
    """The module itself."""
    return mod


def wait(future: Any) -> Any:
    """The result that `fork` gave."""
    return future


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result of a call, made at once."""
    return func(*args, **kwargs)


def enable_onednn_fusion(enabled: bool) -> None:
    """Nothing: there is no oneDNN here."""


def onednn_fusion_enabled() -> bool:
    """Whether oneDNN fuses ops: never."""
    return False


# Lists of one, two or three numbers, in annotations.
BroadcastingList1, BroadcastingList2, BroadcastingList3 = list, list, list
ScriptModule = without_objects("ScriptModule", "a module of TorchScript")
ScriptFunction = without_objects("ScriptFunction", "a function of TorchScript")
RecursiveScriptModule = without_objects("RecursiveScriptModule", "a module of TorchScript")


class TracerWarning(Warning):
    """A warning of PyTorch's tracer, which is never given here."""


__all__ = [
    "Final",
    "RecursiveScriptModule",
    "ScriptFunction",
    "ScriptModule",
    "TracerWarning",
    "annotate",
    "enable_onednn_fusion",
    "export",
    "fork",
    "freeze",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "onednn_fusion_enabled",
    "optimize_for_inference",
    "script",
    "script_if_tracing",
    "trace",
    "trace_module",
    "unused",
    "wait",
]

globals()["isinstance"] = isinstance_  # PyTorch's name
globals()["__getattr__"] = getter(__name__)
