"""Modules that hold other modules: in sequence, in a list, in a dict."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self, overload

from contraflow.nn.module import Module, indented, layout


class _Numbered(Module):
    """Children under the names "0", "1", ...; what Sequential and ModuleList share."""

    def _checked(self, number: int, module: Any) -> Module:
        if not isinstance(module, Module):
            raise TypeError(
                f"{type(self).__name__}: child {number} is {type(module).__name__}, not a Module."
            )
        return module

    def _replace(self, modules: Iterable[Any]) -> None:
        """Number the children anew."""
        new = {str(number): self._checked(number, m) for number, m in enumerate(modules)}
        self._modules.clear()
        self._modules.update(new)
        self._restructured()

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter([child for child in self._modules.values() if child is not None])

    def _name(self, index: int) -> str:
        """The name of a child; negative numbers count from the end."""
        if not -len(self) <= index < len(self):
            raise IndexError(
                f"{type(self).__name__}: index {index} is out of range for {len(self)} modules."
            )
        return list(self._modules)[index]

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> Module | Self:
        if isinstance(index, slice):
            part = type(self)()
            part._modules.update(list(self._modules.items())[index])
            return part
        return self._checked(index, self._modules[self._name(index)])

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._name(index), self._checked(index, module))

    def __delitem__(self, index: int | slice) -> None:
        modules = list(self)
        del modules[index]
        self._replace(modules)

    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        self.add_module(str(len(self)), self._checked(len(self), module))
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end."""
        for module in modules:
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Add a module before the one at `index`."""
        modules = list(self)
        modules.insert(index, module)
        self._replace(modules)
        return self

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)


class Sequential(_Numbered):
    """Modules applied one after the other; given as arguments, or as a dict of names.

    >>> import contraflow as cf
    >>> cf.nn.Sequential(cf.nn.Linear(4, 8), cf.nn.ReLU())
    Sequential(
      (0): Linear(in_features=4, out_features=8, bias=True)
      (1): ReLU()
    )
    """

    def __init__(self, *modules: Module | Mapping[str, Module]) -> None:
        super().__init__()
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            for name, module in modules[0].items():
                self.add_module(name, module)
        else:
            self._replace(modules)

    def forward(self, input: Any) -> Any:
        for module in self:
            input = module(input)
        return input


class ModuleList(_Numbered):
    """A list whose modules belong to the module that holds it.

    >>> import contraflow as cf
    >>> cf.nn.ModuleList(cf.nn.Linear(4, 4) for _ in range(3))
    ModuleList(
      (0-2): 3 x Linear(in_features=4, out_features=4, bias=True)
    )
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self._replace(modules)

    def __repr__(self) -> str:
        children = []
        for text, run in itertools.groupby(enumerate(map(repr, self)), key=lambda pair: pair[1]):
            first, *others = (number for number, _ in run)
            if others:
                last = others[-1]
                text = f"({first}-{last}): {last - first + 1} x {indented(text)}"
            else:
                text = f"({first}): {indented(text)}"
            children.append(text)
        return layout(type(self).__name__, self.extra_repr(), children)


class ModuleDict(Module):
    """A dict whose modules belong to the module that holds it."""

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, name: str) -> Module:
        return self._modules[name]  # type: ignore[return-value]

    def __setitem__(self, name: str, module: Module) -> None:
        self.add_module(name, module)

    def __delitem__(self, name: str) -> None:
        self.pop(name)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, name: object) -> bool:
        return name in self._modules

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._modules.keys()

    def values(self) -> Iterable[Module]:
        """The modules."""
        return self._modules.values()  # type: ignore[return-value]

    def items(self) -> Iterable[tuple[str, Module]]:
        """Names and modules."""
        return self._modules.items()  # type: ignore[return-value]

    def update(self, modules: Mapping[str, Module]) -> None:
        """Add modules, or replace those that are there."""
        for name, module in modules.items():
            self[name] = module

    def pop(self, name: str) -> Module:
        """Take a module out."""
        child = self._modules.pop(name)
        self._restructured()
        return child  # type: ignore[return-value]

    def clear(self) -> None:
        """Take all modules out."""
        self._modules.clear()
        self._restructured()
