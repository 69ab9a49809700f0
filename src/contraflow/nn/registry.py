"""The dicts in which a module registers: they tell their module of every change.

Modules register what is assigned to them. Some programs change the dicts behind that by hand:
`net._modules["0"] = nn.Identity()`, `layer._forward_hooks.clear()`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any


class ModuleRegistry(dict[Any, Any]):
    """Parameters, buffers, children or hooks of a module, by name or number."""

    __slots__ = ("_module",)

    def __init__(self, module: Any, entries: Any = ()) -> None:
        super().__init__(entries)
        self._module = weakref.ref(module)

    @property
    def registered_in(self) -> Any:
        """The module of this registry; None if it no longer exists."""
        return self._module()

    def __reduce__(self) -> Any:  # a module makes registries of dicts
        return dict, (), None, None, iter(self.items())


def _telling(name: str) -> Callable[..., Any]:
    """A method of dicts that changes them, and then tells the module."""
    change = getattr(dict, name)

    def method(self: ModuleRegistry, *args: Any, **kwargs: Any) -> Any:
        result = change(self, *args, **kwargs)
        module = self._module()
        if module is not None:
            module._restructured()
        return result

    method.__name__, method.__doc__ = name, change.__doc__
    return method


for _name in (
    "__setitem__", "__delitem__", "__ior__", "clear", "pop", "popitem", "setdefault", "update",
):  # fmt: skip
    setattr(ModuleRegistry, _name, _telling(_name))
