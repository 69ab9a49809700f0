"""`compile`: a function, or a module, that is recorded and replayed.

The implementation (`capture/compiled.py`, and the compiler) is loaded with the first of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    NamedTuple,
    ParamSpec,
    Protocol,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

from contraflow import config, threads, thresholds
from contraflow.compiler import is_compiling as is_compiling
from contraflow.operation.context import other_devices, state
from contraflow.runtime.recorded import is_worth_a_program

if TYPE_CHECKING:
    from contraflow.capture.compiled import Compiled

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")
R_co = TypeVar("R_co", covariant=True)
M = TypeVar("M", bound="ModuleLike")


def runs_native(tensors: Sequence[Any]) -> bool:
    """Whether what eager mode does to all of these tensors is worth a program of its own.

    A program has one device; on another than the cpu it is always worth it.
    """
    current = state()
    replays = current.context.replays and not current.anomaly
    if not replays or config.compile_mode != "native":
        return False
    if other_devices:
        found = {t.storage.device for t in tensors}
        if found != {"cpu"}:
            return len(found) == 1
    return is_worth_a_program(tensors, thresholds.eager_kernel)


# Attributes that compiled functions, methods and modules have in common.
ANSWERS = (
    "tape", "kernels", "memory", "explain", "programs", "captures", "clear", "eager", "unobserved",
    "export_web",
)  # fmt: skip


class CompileOptions(NamedTuple):
    """How a function is compiled."""

    enabled: bool = True
    cache_size: int = 16
    name: str | None = None
    verify: int = 0
    warns: bool = True  # of many recordings


if TYPE_CHECKING:

    class ModuleLike(Protocol):
        """A module, for type checkers: `compile` gives a module for it."""

        def named_modules(self) -> Any: ...

    class CompileKeywords(TypedDict, total=False):
        """The options of `compile`."""

        verify: int
        enabled: bool
        cache_size: int
        name: str | None
        fullgraph: bool
        dynamic: bool | None
        backend: Any
        mode: str | None
        options: Mapping[str, Any] | None
        disable: bool

    class CompiledFunction(Protocol[P, R_co]):
        """A compiled function for type checkers: its signature, and what it says of itself."""

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
        @overload
        def __get__(self, instance: None, owner: type) -> CompiledFunction[P, R_co]: ...
        @overload
        def __get__(
            self: CompiledFunction[Concatenate[S, Q], R_co],
            instance: S,
            owner: type | None = None,
        ) -> CompiledFunction[Q, R_co]: ...
        @property
        def tape(self) -> Any: ...
        @property
        def kernels(self) -> list[str]: ...
        @property
        def memory(self) -> Any: ...
        @property
        def programs(self) -> list[Any]: ...
        @property
        def captures(self) -> int: ...
        @property
        def eager(self) -> Callable[P, R_co]: ...
        def explain(self) -> str: ...
        def export_web(self, *args: Any, **kwargs: Any) -> Any: ...
        def clear(self) -> None: ...


@overload
def compile(fn: M, **options: Unpack[CompileKeywords]) -> M: ...
@overload
def compile(fn: Callable[P, R], **options: Unpack[CompileKeywords]) -> CompiledFunction[P, R]: ...
@overload
def compile(
    fn: None = None, **options: Unpack[CompileKeywords]
) -> Callable[[Callable[P, R]], CompiledFunction[P, R]]: ...
def compile(
    fn: Any = None,
    *,
    verify: int = 0,
    enabled: bool = True,
    cache_size: int = 16,
    name: str | None = None,
    fullgraph: bool = True,
    dynamic: bool | None = None,
    backend: Any = "contraflow",
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """Record a function of tensors, or a module, and replay it as one program.

    The first `verify` calls also run eagerly, on the same state, and must agree. With
    `enabled=False` every call is eager. `cache_size` programs are kept.

    The others are PyTorch's. `disable=True` is `enabled=False`. The rest has no effect: functions
    are always captured whole, or a `CaptureError` names the line, sizes that change are symbols,
    and there is one compiler.

    >>> import contraflow as cf
    >>> @cf.compile
    ... def double(x):
    ...     return x + x
    >>> double(cf.ones(2))
    tensor([2., 2.])
    """
    if not isinstance(verify, int) or verify < 0:
        raise ValueError(f"compile: verify is {verify!r}; it must be a number of calls.")
    if not isinstance(cache_size, int) or cache_size < 1:
        raise ValueError(
            f"compile: cache_size is {cache_size!r}; it must be a number of programs, at least 1."
        )
    chosen = CompileOptions(enabled and not disable, cache_size, name, verify)
    if fn is None:
        return functools.partial(wrap, options=chosen)
    return wrap(fn, chosen)


@functools.singledispatch
def wrap(fn: Any, options: CompileOptions) -> Any:
    """The compiled form of something; modules register theirs."""
    if not callable(fn):
        raise TypeError(f"compile: {type(fn).__name__} is not callable.")
    return compiled_function(fn, options)


def compiled_function(fn: Callable[..., Any], options: CompileOptions) -> Compiled:
    """The compiled form of a function."""
    made: Compiled = threads.imported("contraflow.capture.compiled").Compiled(fn, options)
    return made
