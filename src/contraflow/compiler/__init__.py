"""The compiler: from tapes of ops to plans of kernels, for any device.

PyTorch has names of its compiler at this path; those that programs use are here.
"""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

from contraflow.names import getter, without_objects
from contraflow.operation.context import state


def is_compiling() -> bool:
    """Whether the running function is being recorded.

    >>> import contraflow as cf
    >>> cf.compiler.is_compiling()
    False
    """
    return state().context.is_recording


is_dynamo_compiling = is_compiling  # PyTorch's older name


def is_exporting() -> bool:
    """Whether a function is being recorded for a file: never.

    >>> import contraflow as cf
    >>> cf.compiler.is_exporting()
    False
    """
    return False


def cudagraph_mark_step_begin() -> None:
    """Nothing: results of compiled functions are never overwritten by the next call.

    >>> import contraflow as cf
    >>> cf.compiler.cudagraph_mark_step_begin()
    """


def reset() -> None:
    """Nothing: a compiled function notices by itself when it has to be recorded again.

    `f.clear()` forgets the programs of a compiled function.

    >>> import contraflow as cf
    >>> cf.compiler.reset()
    """


def disable(fn: Any = None, recursive: bool = True, **options: Any) -> Any:
    """The function itself, by `@disable` and `@disable(recursive=False)`.

    A call inside of a compiled function is recorded with it: functions are captured whole.

    >>> import contraflow as cf
    >>> @cf.compiler.disable
    ... def double(x):
    ...     return x * 2
    >>> double(cf.ones(2))
    tensor([2., 2.])
    """
    return fn if callable(fn) else (lambda function: function)


def is_compile_supported(device_type: str) -> bool:
    """Whether PyTorch's own compiler could compile for a device: it is not here."""
    return False


def allow_in_graph(fn: Any) -> Any:
    """The function itself: every function is allowed.

    >>> import contraflow as cf
    >>> cf.compiler.allow_in_graph(cf.tanh) is cf.tanh
    True
    """
    return fn


def assume_constant_result(fn: Any) -> Any:
    """The function itself: what it reads is guarded.

    >>> import contraflow as cf
    >>> cf.compiler.assume_constant_result(len) is len
    True
    """
    return fn


def mark_static_address(t: Any, guard: bool = True) -> None:
    """Nothing: a compiled function notices by itself which tensors stay where they are."""


# PyTorch's class of compiled modules; here `contraflow.compile` gives none of that kind.
eval_frame = SimpleNamespace(OptimizedModule=without_objects("OptimizedModule", "such a module"))
TransformGetItemToIndex = nullcontext  # PyTorch's mode for `x[i]` in vmap, which works as it is


# PyTorch's settings of its compiler: programs may set them, and nothing reads them.
config = SimpleNamespace(
    suppress_errors=False, verbose=False, cache_size_limit=8, recompile_limit=8,
    accumulated_cache_size_limit=256, capture_scalar_outputs=False, optimize_ddp=True,
    capture_dynamic_output_shape_ops=False, assume_static_by_default=True, disable=False,
    automatic_dynamic_shapes=True, inline_inbuilt_nn_modules=True,
)  # fmt: skip


def is_fake(x: Any) -> bool:
    """False: tensors have elements, in functions that are compiled too."""
    return False


def get_proxy_mode() -> None:
    """None: nothing traces with stand-ins that PyTorch knows."""


__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "cudagraph_mark_step_begin",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "reset",
]

globals()["__getattr__"] = getter(__name__)
