"""Parametrizations: parameters that are functions of others, recomputed at every use.

A parametrized module becomes of a class of its own, with a property in the parameter's place. The
originals are in `module.parametrizations.<name>`, and so in the state dict under these names.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from contraflow.autograd.modes import no_grad
from contraflow.errors import describe
from contraflow.names import getter
from contraflow.nn.containers import ModuleDict, ModuleList
from contraflow.nn.module import Module
from contraflow.nn.parameter import Parameter
from contraflow.operation.context import state
from contraflow.tensors.tensor import Tensor


class ParametrizationList(ModuleList):
    """Parametrizations applied in turn to the original, the first of them to all originals.

    They are kept as `original`, or as `original0`, `original1`, ... if `right_inverse` gives
    several.

    >>> import contraflow as cf
    >>> layer = cf.nn.utils.parametrizations.weight_norm(cf.nn.Linear(2, 3))
    >>> layer.parametrizations.weight.original1.shape
    (3, 2)
    """

    def __init__(self, parametrization: Module, original: Tensor) -> None:
        super().__init__([parametrization])
        invert = getattr(parametrization, "right_inverse", None)
        with no_grad():
            kept = original if invert is None else invert(original)
        self.several = isinstance(kept, (tuple, list))
        if not self.several and kept is original:
            self.original = original
            return
        for name, tensor in zip(self._names(kept), kept if self.several else (kept,)):
            made = tensor.detach()
            if isinstance(original, Parameter):
                setattr(self, name, Parameter(made, original.requires_grad))
            else:
                self.register_buffer(name, made)

    def _names(self, kept: Any) -> list[str]:
        return [f"original{i}" for i in range(len(kept))] if self.several else ["original"]

    def _originals(self) -> list[Tensor]:
        tensors = (*self._parameters.values(), *self._buffers.values())
        return [tensor for tensor in tensors if tensor is not None]

    def forward(self) -> Tensor:
        first, *others = self
        out: Tensor = first(*self._originals())
        for parametrization in others:
            out = parametrization(out)
        return out

    def assign(self, value: Tensor) -> None:
        """Set the originals so that the parametrized value is `value`."""
        with no_grad():
            for parametrization in reversed(list(self)):
                invert = getattr(parametrization, "right_inverse", None)
                if invert is None:
                    raise NotImplementedError(
                        f"parametrize: {type(parametrization).__name__} has no right_inverse, so "
                        f"the parameter cannot be assigned."
                    )
                value = invert(value)
            values = value if self.several else (value,)
            for original, new in zip(self._originals(), values):
                original.copy_(new)


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a module, or one parameter of it, is a function of others.

    >>> import contraflow as cf
    >>> layer = cf.nn.utils.parametrizations.weight_norm(cf.nn.Linear(2, 3))
    >>> is_parametrized(layer, "weight"), is_parametrized(layer, "bias")
    (True, False)
    """
    held = module._modules.get("parametrizations")
    if not isinstance(held, ModuleDict):
        return False
    return len(held) > 0 if tensor_name is None else tensor_name in held


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Make a parameter or buffer a function of itself: `parametrization(original)`.

    A parametrization with `right_inverse` says which original, or originals, a value comes of.
    Unless `unsafe`, it must keep shape and dtype.

    >>> import contraflow as cf
    >>> class Symmetric(cf.nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).T
    >>> layer = register_parametrization(cf.nn.Linear(3, 3), "weight", Symmetric())
    >>> bool((layer.weight == layer.weight.T).all())
    True
    """
    if is_parametrized(module, tensor_name):
        applied: Any = module.parametrizations[tensor_name]
        _check(module, tensor_name, parametrization(getattr(module, tensor_name)), unsafe)
        applied.append(parametrization)
        return module
    original = {**module._parameters, **module._buffers}.get(tensor_name)
    if original is None:
        raise ValueError(
            f"register_parametrization: {type(module).__name__} has no parameter or buffer "
            f"{tensor_name!r}."
        )
    made = ParametrizationList(parametrization, original)
    _check(module, tensor_name, made(), unsafe, original)
    delattr(module, tensor_name)
    if is_parametrized(module):
        module.parametrizations[tensor_name] = made
        _give_class(module, type(module).__bases__[0])
    else:
        base = type(module)
        module.parametrizations = ModuleDict({tensor_name: made})
        _give_class(module, base)
    return module


def _give_class(module: Module, base: type[Module]) -> None:
    """Make a module's class a new one: `base` with a property for each parametrized name.

    Its class is never changed in place: copies of the module share it.
    """
    properties = {name: _property(name) for name in module.parametrizations}
    module.__class__ = type(f"Parametrized{base.__name__}", (base,), properties)


def _check(
    module: Module, name: str, value: Tensor, unsafe: bool, original: Tensor | None = None
) -> None:
    before = getattr(module, name) if original is None else original
    if not unsafe and (value.shape, value.dtype) != (before.shape, before.dtype):
        raise ValueError(
            f"register_parametrization: {name!r} is {describe(before)} and would become "
            f"{describe(value)}. Pass unsafe=True if that is meant."
        )


# The values that the block of `cached` has made, by their parametrizations; None outside of one.
_values: ContextVar[dict[tuple[int, bool], tuple[Module, Tensor]] | None] = ContextVar(
    "contraflow_parametrized", default=None
)


@contextmanager
def cached() -> Iterator[None]:
    """A block in which each parametrized value is computed once, when it is first used.

    Steps of an optimizer belong outside of it. Compiled functions compute values as ever.

    >>> import contraflow as cf
    >>> layer = cf.nn.utils.parametrizations.orthogonal(cf.nn.Linear(3, 3))
    >>> with cached():
    ...     layer.weight is layer.weight
    True
    """
    outer = _values.get()
    token = _values.set({} if outer is None else outer)
    try:
        yield
    finally:
        _values.reset(token)


def _property(name: str) -> property:
    def get(module: Any) -> Tensor:
        made: Module = module.parametrizations[name]
        known, current = _values.get(), state()
        if known is None or current.context.is_recording:
            value: Tensor = made()
            return value
        key = id(made), current.grad
        if key not in known:
            known[key] = made, made()  # which keeps it alive, so that no other has its id
        return known[key][1]

    def set_(module: Any, value: Tensor) -> None:
        if _values.get() is not None:
            raise RuntimeError(
                f"parametrize: {name!r} is assigned in a block of cached(), which would keep its "
                f"old value. Assign it outside."
            )
        module.parametrizations[name].assign(value)

    return property(get, set_)


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """Make a parameter an ordinary one again, with its present value or its original one.

    >>> import contraflow as cf
    >>> layer = cf.nn.utils.parametrizations.weight_norm(cf.nn.Linear(2, 3))
    >>> remove_parametrizations(layer, "weight")
    Linear(in_features=2, out_features=3, bias=True)
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(
            f"remove_parametrizations: {tensor_name!r} of {type(module).__name__} is not "
            f"parametrized."
        )
    applied: Any = module.parametrizations[tensor_name]
    if not leave_parametrized and applied.several:
        raise ValueError(
            f"remove_parametrizations: {tensor_name!r} has several originals; leave it "
            f"parametrized."
        )
    originals = applied._originals()
    with no_grad():
        value = applied().detach() if leave_parametrized else originals[0].detach()
    del module.parametrizations[tensor_name]
    base = type(module).__bases__[0]
    if is_parametrized(module):
        _give_class(module, base)
    else:
        del module.parametrizations
        module.__class__ = base
    if isinstance(originals[0], Parameter):
        setattr(module, tensor_name, Parameter(value, originals[0].requires_grad))
    else:
        module.register_buffer(tensor_name, value)
    return module


globals()["__getattr__"] = getter(__name__)
