"""Hooks of optimizers: around `step`, and around saving and loading what they keep."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from contraflow.operation.context import state as thread_state
from contraflow.tensors.epoch import Every, Structure
from contraflow.tensors.hooks import Hook, HookHandle, Hooks
from contraflow.tensors.storage import serials


class EveryOptimizer(Every):
    """The hooks of all optimizers."""

    def __init__(self) -> None:
        super().__init__()
        self.step_pre_hooks: Hooks = {}
        self.step_post_hooks: Hooks = {}


EVERY = EveryOptimizer()


def register_optimizer_step_pre_hook(hook: Hook) -> HookHandle:
    """Call `hook(optimizer, args, kwargs)` before each step of every optimizer."""
    return HookHandle(EVERY, EVERY.step_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Hook) -> HookHandle:
    """Call `hook(optimizer, args, kwargs)` after each step of every optimizer."""
    return HookHandle(EVERY, EVERY.step_post_hooks, hook)


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """A `step` with the hooks around it; one that is called by another goes without."""

    @functools.wraps(step)
    def hooked(self: HookedOptimizer, *given: Any, **kwargs: Any) -> Any:
        thread_state().context.visit_module(EVERY)
        before = [*EVERY.step_pre_hooks.values(), *self._step_pre_hooks.values()]
        after = [*self._step_post_hooks.values(), *EVERY.step_post_hooks.values()]
        if self._stepping or not (before or after):
            return step(self, *given, **kwargs)
        args: tuple[Any, ...] = (self, *given)
        self._stepping = True
        try:
            for hook in before:
                replaced = hook(self, args, kwargs)
                if replaced is None:
                    continue
                if not isinstance(replaced, tuple) or len(replaced) != 2:
                    raise TypeError(
                        f"{type(self).__name__}.step: a pre-hook must return None or "
                        f"(args, kwargs), not {replaced!r:.60}."
                    )
                args, kwargs = replaced
            out = step(*args, **kwargs)
            for hook in after:
                hook(self, args, kwargs)
        finally:
            self._stepping = False
        return out

    return hooked


class HookedOptimizer:
    """The hooks of an optimizer. Subclasses write `step`, which is called with them."""

    _stepping = False
    _hooked_at = 0  # the structure epoch of the last change

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "step" in cls.__dict__:
            cls.step = _with_hooks(cls.__dict__["step"])  # type: ignore[attr-defined]

    def __init__(self) -> None:
        self._born = next(serials)
        self._step_pre_hooks: Hooks = {}
        self._step_post_hooks: Hooks = {}
        self._state_dict_pre_hooks: Hooks = {}
        self._state_dict_post_hooks: Hooks = {}
        self._load_state_dict_pre_hooks: Hooks = {}
        self._load_state_dict_post_hooks: Hooks = {}

    def _restructured(self) -> None:
        self._hooked_at = Structure.epoch + 1
        Structure.changed()

    def hook_tables(self) -> dict[str, Hooks]:
        """The hooks of each kind, by the method that registers them; see `registered_hooks`."""
        return {
            "register_step_pre_hook": self._step_pre_hooks,
            "register_step_post_hook": self._step_post_hooks,
            "register_state_dict_pre_hook": self._state_dict_pre_hooks,
            "register_state_dict_post_hook": self._state_dict_post_hooks,
            "register_load_state_dict_pre_hook": self._load_state_dict_pre_hooks,
            "register_load_state_dict_post_hook": self._load_state_dict_post_hooks,
        }

    def register_step_pre_hook(self, hook: Hook) -> HookHandle:
        """Call `hook(optimizer, args, kwargs)` before each step; it may return others.

        The first of `args` is the optimizer. In a compiled function the hook runs while it is
        recorded, and what it does to tensors is repeated.
        """
        return HookHandle(self, self._step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Hook) -> HookHandle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return HookHandle(self, self._step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> HookHandle:
        """Call `hook(optimizer)` before `state_dict`."""
        return HookHandle(self, self._state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> HookHandle:
        """Call `hook(optimizer, state_dict)` after `state_dict`; it may return another."""
        return HookHandle(self, self._state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> HookHandle:
        """Call `hook(optimizer, state_dict)` before loading; it may return another."""
        return HookHandle(self, self._load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> HookHandle:
        """Call `hook(optimizer)` when all is loaded."""
        return HookHandle(self, self._load_state_dict_post_hooks, hook, prepend)
