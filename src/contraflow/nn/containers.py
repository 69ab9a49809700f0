"""Modules that hold other modules, or parameters: in sequence, in a list, in a dict."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Generic, Self, TypeVar, overload

from contraflow.errors import describe
from contraflow.nn.module import Module, indented, layout
from contraflow.nn.parameter import Parameter
from contraflow.tensors.tensor import Tensor


class _Numbered(Module):
    """Children under the names "0", "1", ...; what Sequential and ModuleList share."""

    _has_gaps: ClassVar[bool] = False  # whether None may stand where a module could

    def _checked(self, number: int, module: Any) -> Any:
        if not isinstance(module, Module) and not (module is None and self._has_gaps):
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
        children: list[Any] = list(self._modules.values())
        return iter(children if self._has_gaps else [c for c in children if c is not None])

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
        found: Module = self._checked(index, self._modules[self._name(index)])
        return found

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

    def pop(self, index: int | slice) -> Module | Self:
        """Take a module out, or several."""
        taken = self[index]
        del self[index]
        return taken

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
            self.extend(modules)  # type: ignore[arg-type]

    def forward(self, input: Any) -> Any:
        for module in self:
            input = module(input)
        return input


class ModuleList(_Numbered):
    """A list whose modules belong to the module that holds it; None may stand among them.

    >>> import contraflow as cf
    >>> cf.nn.ModuleList(cf.nn.Linear(4, 4) for _ in range(3))
    ModuleList(
      (0-2): 3 x Linear(in_features=4, out_features=4, bias=True)
    )
    """

    _has_gaps = True

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

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


V = TypeVar("V")


class _Named(Module, Generic[V]):
    """The base of ModuleDict and ParameterDict: a dict of the entries that `_held` names."""

    _held: ClassVar[str]

    def _entries(self) -> dict[str, V]:
        entries: dict[str, V] = self.__dict__[self._held]
        return entries

    def __getitem__(self, name: str) -> V:
        return self._entries()[name]

    def __setitem__(self, name: str, value: V) -> None:
        raise NotImplementedError

    def __delitem__(self, name: str) -> None:
        self.pop(name)

    def __len__(self) -> int:
        return len(self._entries())

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries())

    def __contains__(self, name: object) -> bool:
        return name in self._entries()

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._entries().keys()

    def values(self) -> Iterable[V]:
        """The values."""
        return self._entries().values()

    def items(self) -> Iterable[tuple[str, V]]:
        """Names and what they name."""
        return self._entries().items()

    def update(self, entries: Mapping[str, V] | Iterable[tuple[str, V]]) -> None:
        """Add entries, or replace those that are there."""
        for name, value in dict(entries).items():
            self[name] = value

    def get(self, name: str, default: Any = None) -> Any:
        """An entry, or another value where there is none."""
        return self._entries().get(name, default)

    def pop(self, name: str) -> V:
        """Take an entry out."""
        value = self._entries().pop(name)
        self._restructured()
        return value

    def clear(self) -> None:
        """Take all entries out."""
        self._entries().clear()
        self._restructured()


class ModuleDict(_Named[Module]):
    """A dict whose modules belong to the module that holds it.

    >>> import contraflow as cf
    >>> layers = cf.nn.ModuleDict({"first": cf.nn.Linear(3, 4), "last": cf.nn.Linear(4, 2)})
    >>> layers["last"](layers["first"](cf.ones(5, 3))).shape
    (5, 2)
    """

    _held = "_modules"

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        self.update(modules or {})

    def __setitem__(self, name: str, module: Module) -> None:
        self.add_module(name, module)


# --- parameters --------------------------------------------------------------------------------


def _parameter(owner: str, name: object, value: Any) -> Parameter:
    """A tensor as a parameter; a parameter stays itself."""
    if isinstance(value, Parameter):
        return value
    if not isinstance(value, Tensor):
        raise TypeError(f"{owner}: {name!r} is {type(value).__name__}, not a tensor.")
    return Parameter(value)


class ParameterDict(_Named[Parameter]):
    """A dict whose parameters belong to the module that holds it; tensors become parameters.

    >>> import contraflow as cf
    >>> cf.nn.ParameterDict({"scale": cf.ones(2)})
    ParameterDict(
      (scale): Parameter float32[2]
    )
    """

    _held = "_parameters"

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self.update(parameters or {})

    def __setitem__(self, name: str, parameter: Tensor) -> None:
        self.register_parameter(name, _parameter("ParameterDict", name, parameter))

    def setdefault(self, name: str, default: Any = None) -> Parameter:
        """An entry, which becomes another one where there is none."""
        if name not in self:
            self[name] = default
        return self[name]

    def popitem(self) -> tuple[str, Parameter]:
        """Take the last entry out, with its name."""
        name = next(reversed(list(self.keys())))
        return name, self.pop(name)

    def copy(self) -> ParameterDict:
        """Another dict of the same parameters."""
        return ParameterDict(dict(self.items()))

    def __repr__(self) -> str:
        entries = [f"({name}): Parameter {describe(p)}" for name, p in self.items()]
        return layout(type(self).__name__, "", entries)


class ParameterList(Module):
    """A list whose parameters belong to the module that holds it; tensors become parameters.

    >>> import contraflow as cf
    >>> cf.nn.ParameterList([cf.ones(2), cf.zeros(3, 1)])
    ParameterList(
      (0): Parameter float32[2]
      (1): Parameter float32[3, 1]
    )
    """

    def __init__(self, values: Iterable[Tensor] | None = None) -> None:
        super().__init__()
        self.extend(values or ())

    def _replace(self, values: Iterable[Parameter]) -> None:
        """Number the parameters anew."""
        new = {str(number): value for number, value in enumerate(values)}
        self._parameters.clear()
        self._parameters.update(new)
        self._restructured()

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Parameter]:
        return iter([p for p in self._parameters.values() if p is not None])

    @overload
    def __getitem__(self, index: int) -> Parameter: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> Parameter | Self:
        values = list(self)
        if isinstance(index, slice):
            return type(self)(values[index])
        return values[self._checked(index)]

    def _checked(self, index: int) -> int:
        if not -len(self) <= index < len(self):
            raise IndexError(
                f"ParameterList: index {index} is out of range for {len(self)} parameters."
            )
        return index

    def __setitem__(self, index: int, parameter: Tensor) -> None:
        values = list(self)
        values[self._checked(index)] = _parameter("ParameterList", index, parameter)
        self._replace(values)

    def append(self, value: Tensor) -> Self:
        """Add a parameter at the end."""
        number = len(self)
        self.register_parameter(str(number), _parameter("ParameterList", number, value))
        return self

    def extend(self, values: Iterable[Tensor]) -> Self:
        """Add parameters at the end."""
        for value in values:
            self.append(value)
        return self

    def __iadd__(self, values: Iterable[Tensor]) -> Self:
        return self.extend(values)

    def __repr__(self) -> str:
        entries = [f"({i}): Parameter {describe(p)}" for i, p in enumerate(self)]
        return layout(type(self).__name__, "", entries)
