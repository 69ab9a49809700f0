"""Loading a state dict into a module: everything or nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from contraflow.autograd.modes import no_grad
from contraflow.errors import MismatchError, describe
from contraflow.nn.parameter import Parameter, UninitializedTensorMixin, is_lazy
from contraflow.ops.creation.data import as_tensor
from contraflow.tensors.tensor import Tensor

EXTRA_STATE = "_extra_state"  # the name of what `get_extra_state` gives


class IncompatibleKeys(NamedTuple):
    """The keys that `load_state_dict(strict=False)` could not match."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        keys = f"missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys}"
        return f"IncompatibleKeys({keys})"


def load_state(
    module: Any, state_dict: Mapping[str, Any], strict: bool, assign: bool
) -> IncompatibleKeys:
    """Write the values of a state dict into a module, if they fit."""
    if not isinstance(state_dict, Mapping):
        raise TypeError(
            f"load_state_dict: expected a dict of tensors, not {type(state_dict).__name__}."
        )
    state = dict(state_dict)  # which hooks may change
    keys, problems = IncompatibleKeys([], []), list[str]()
    for prefix, part in _parts(module):
        for hook in list(part._load_state_dict_pre_hooks.values()):
            hook(part, state, prefix, {}, strict, *keys, problems)
    own = {
        prefix + name: (part, name, tensor)
        for prefix, part in _parts(module)
        for name, tensor in part.own_state()
    }
    extra = {prefix + EXTRA_STATE: part for prefix, part in _parts(module) if part.has_extra_state}
    keys.missing_keys.extend(name for name in (*own, *extra) if name not in state)
    keys.unexpected_keys.extend(name for name in state if name not in own and name not in extra)
    given = {name: _tensor(name, state[name]) for name in own if name in state}
    problems += [
        f"{name} is {describe(given[name])} and should be {describe(own[name][2])}"
        for name in given
        if not _fits(given[name], own[name][2])
    ]
    hooks = [
        (part, hook)
        for _, part in _parts(module, children_first=True)
        for hook in part._load_state_dict_post_hooks.values()
    ]
    # Hooks that are called afterwards may find that nothing is missing after all.
    _refuse(module, problems + (_named(keys) if strict and not hooks else []))
    for name, tensor in given.items():
        _write(*own[name], tensor, assign)
    for name, part in extra.items():
        if name in state:
            part.set_extra_state(state[name])
    for part, hook in hooks:
        hook(part, keys)
    _refuse(module, _named(keys) if strict else [])
    return keys


def _parts(module: Any, prefix: str = "", children_first: bool = False) -> Iterator[Any]:
    """The module and all below it with their prefixes, under each of their names."""
    if not children_first:
        yield prefix, module
    for name, child in module._modules.items():
        if child is not None:
            yield from _parts(child, f"{prefix}{name}.", children_first)
    if children_first:
        yield prefix, module


def _tensor(name: str, value: Any) -> Tensor:
    if is_lazy(value):
        return value  # type: ignore[no-any-return]
    try:
        return as_tensor(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"load_state_dict: {name} is not a tensor: {error}") from None


def _fits(given: Tensor, own: Tensor) -> bool:
    """A tensor without a shape takes any; what has one does not lose it."""
    return is_lazy(own) or (not is_lazy(given) and given.shape == own.shape)


def _named(keys: IncompatibleKeys) -> list[str]:
    missing, unexpected = keys
    return [f"{n} is missing" for n in missing] + [f"{n} is unexpected" for n in unexpected]


def _refuse(module: Any, problems: list[str]) -> None:
    if problems:
        raise MismatchError(
            f"load_state_dict: the state does not fit {type(module).__name__}: "
            f"{'; '.join(problems)}."
        )


def _write(module: Any, name: str, own: Tensor, given: Tensor, assign: bool) -> None:
    if is_lazy(given):
        return
    if assign:
        tensor = given.detach()
        setattr(
            module, name, Parameter(tensor, own._needs) if isinstance(own, Parameter) else tensor
        )
        return
    if isinstance(own, UninitializedTensorMixin):
        own.materialize(given.shape)
    with no_grad():
        own.copy_(given)
