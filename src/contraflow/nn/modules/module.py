"""Global module hooks, under PyTorch's path.

They are called before the hooks of the module itself. A compiled function notices when one comes
or goes.
"""

from __future__ import annotations

from contraflow.nn.call import EVERY, ForwardHook
from contraflow.nn.load import EXTRA_STATE as _EXTRA_STATE_KEY_SUFFIX  # noqa: F401
from contraflow.nn.load import IncompatibleKeys as _IncompatibleKeys  # noqa: F401
from contraflow.nn.module import Module as Module
from contraflow.tensors.hooks import Hook, HookHandle


def register_module_forward_pre_hook(hook: Hook) -> HookHandle:
    """Call `hook(module, args)` before each `forward`; it may return other arguments.

    >>> import contraflow as cf
    >>> with register_module_forward_pre_hook(lambda module, args: print(module)):
    ...     out = cf.nn.ReLU()(cf.ones(2))
    ReLU()
    """
    return HookHandle(EVERY, EVERY._forward_pre_hooks, ForwardHook(hook))


def register_module_forward_hook(
    hook: Hook, *, with_kwargs: bool = False, always_call: bool = False
) -> HookHandle:
    """Call `hook(module, args, output)` after each `forward`; it may return another output.

    The options are those of Module.register_forward_hook.
    """
    kept = ForwardHook(hook, with_kwargs, always_call)
    return HookHandle(EVERY, EVERY._forward_hooks, kept)


def register_module_full_backward_pre_hook(hook: Hook) -> HookHandle:
    """Call `hook(module, grad_output)` before the backward of each call of a module."""
    return HookHandle(EVERY, EVERY._backward_pre_hooks, hook)


def register_module_full_backward_hook(hook: Hook) -> HookHandle:
    """Call `hook(module, grad_input, grad_output)` after the backward of each call of a module."""
    return HookHandle(EVERY, EVERY._backward_hooks, hook)


def register_module_parameter_registration_hook(hook: Hook) -> HookHandle:
    """Call `hook(module, name, parameter)` when one is assigned; it may return another."""
    return HookHandle(EVERY, EVERY._registration_hooks["_parameters"], hook)


def register_module_buffer_registration_hook(hook: Hook) -> HookHandle:
    """Call `hook(module, name, buffer)` when one is assigned; it may return another."""
    return HookHandle(EVERY, EVERY._registration_hooks["_buffers"], hook)


def register_module_module_registration_hook(hook: Hook) -> HookHandle:
    """Call `hook(module, name, submodule)` when one is assigned; it may return another."""
    return HookHandle(EVERY, EVERY._registration_hooks["_modules"], hook)
