"""Calling a module: the hooks around `forward`, its own and those of every module."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from contraflow.nn.backward_hooks import BackwardWatch
from contraflow.tensors.epoch import Every
from contraflow.tensors.hooks import Hooks
from contraflow.tensors.source_line import stacklevel


class ForwardHook(NamedTuple):
    """A hook before or after `forward`, and how it is called."""

    function: Callable[..., Any]
    with_kwargs: bool = False
    always_call: bool = False

    def before(self, module: Any, args: Any, kwargs: Any) -> tuple[tuple[Any, ...], Any]:
        """The arguments that the hook leaves."""
        if not self.with_kwargs:
            replaced = self.function(module, args)
            if replaced is None:
                return args, kwargs
            return replaced if isinstance(replaced, tuple) else (replaced,), kwargs
        replaced = self.function(module, args, kwargs)
        if replaced is None:
            return args, kwargs
        if not isinstance(replaced, tuple) or len(replaced) != 2:
            raise TypeError(
                f"{type(module).__name__}: a forward pre-hook with_kwargs must return None or "
                f"(args, kwargs), not {replaced!r:.60}."
            )
        return replaced

    def after(self, module: Any, args: Any, kwargs: Any, out: Any) -> Any:
        """The output that the hook leaves."""
        given = (args, kwargs, out) if self.with_kwargs else (args, out)
        replaced = self.function(module, *given)
        return out if replaced is None else replaced


class EveryModule(Every):
    """The hooks of all modules."""

    def __init__(self) -> None:
        super().__init__()
        self._forward_hooks: Hooks = {}
        self._forward_pre_hooks: Hooks = {}
        self._backward_hooks: Hooks = {}
        self._backward_pre_hooks: Hooks = {}
        self._registration_hooks: dict[str, Hooks] = {
            "_parameters": {}, "_buffers": {}, "_modules": {},
        }  # fmt: skip

    def registered(self, kind: str, module: Any, name: str, value: Any) -> Any:
        """The value to register in place of a given one."""
        for hook in list(self._registration_hooks[kind].values()) if value is not None else ():
            replaced = hook(module, name, value)
            value = value if replaced is None else replaced
        return value


EVERY = EveryModule()


def has_hooks(owner: Any) -> bool:
    """Whether a call has anything to do but `forward`."""
    return bool(
        owner._forward_hooks
        or owner._forward_pre_hooks
        or owner._backward_hooks
        or owner._backward_pre_hooks
    )


def _together(module: Any, kind: str) -> list[Any]:
    """The hooks of every module, then those of one."""
    return [*getattr(EVERY, kind).values(), *getattr(module, kind).values()]


def call_hooked(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call `forward` with the hooks around it."""
    waiting = _together(module, "_forward_hooks")
    out: Any = None
    try:
        for hook in _together(module, "_forward_pre_hooks"):
            args, kwargs = hook.before(module, args, kwargs)
        pre_hooks, hooks = (_together(module, f"_backward_{kind}hooks") for kind in ("pre_", ""))
        watch = BackwardWatch(module, pre_hooks, hooks) if pre_hooks or hooks else None
        if watch is not None:
            args = watch.before(args)
        out = module.forward(*args, **kwargs)
        while waiting:
            out = waiting.pop(0).after(module, args, kwargs, out)
        return out if watch is None else watch.after(out)
    except Exception:
        for hook in waiting:
            if hook.always_call:
                _call_anyway(hook, module, args, kwargs, out)
        raise


def _call_anyway(hook: ForwardHook, module: Any, args: Any, kwargs: Any, out: Any) -> None:
    """Call a hook while another error is on its way, which one of the hook must not hide."""
    try:
        hook.after(module, args, kwargs, out)
    except Exception as error:
        warnings.warn(
            f"{type(module).__name__}: a forward hook with always_call raised "
            f"{type(error).__name__}: {error}; the error before it is raised.",
            stacklevel=stacklevel(),
        )


class ModulePlace(NamedTuple):
    """Where an error was raised: the module that it has come to, and the way down to the first."""

    module: int  # its id
    path: str
    kind: str  # the class of the first

    def text(self, module: Any) -> str:
        """The note of the error: `in Sequential.1 (Linear)`."""
        outer = type(module).__name__
        return f"in {outer}.{self.path} ({self.kind})" if self.path else f"in {outer}"


def note_module(error: Exception, module: Any) -> None:
    """Note on an error, on its way up, in which module of a model it was raised."""
    found: ModulePlace | None = getattr(error, "_raised_in", None)
    if found is None:
        place = ModulePlace(id(module), "", type(module).__name__)
        error.add_note(place.text(module))
    else:
        names = (name for name, child in module._modules.items() if id(child) == found.module)
        name = next(names, None)
        if name is None:  # a module that this one calls and does not hold
            return
        place = found._replace(module=id(module), path=f"{name}.{found.path}".rstrip("."))
        error.__notes__[-1] = place.text(module)
    error._raised_in = place  # type: ignore[attr-defined]
