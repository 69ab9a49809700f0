"""Names of state in a bundle: the way from a variable of the function to a tensor or a number.

`model.0.weight` is a parameter, `model.0.weight.exp_avg` what an optimizer keeps for it, and
`optimizer.lr` a hyper-parameter. A method's own object is left out: `self.model` is `model`.
"""

from __future__ import annotations

import functools
import types
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from contraflow.tensors.host_scalar import HostScalar
from contraflow.tensors.tensor import Tensor

_DEPTH = 4  # containers and objects around what is named
_OPAQUE = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, str, bytes)


class StateNames:
    """The names of storages and host scalars that are found from some roots."""

    def __init__(self, roots: Mapping[str, Any]) -> None:
        self._names: dict[int, str] = {}  # by id of a storage or a host scalar
        self._kept: list[Any] = []  # so that ids stay those of what was found
        self._taken: set[str] = set()
        self._walk(roots)

    def _walk(self, roots: Mapping[str, Any]) -> None:
        waiting = deque((name, x, 0) for name, x in roots.items())
        seen: set[int] = set()
        while waiting:
            name, x, depth = waiting.popleft()
            if isinstance(x, Tensor):
                self._note(name, x.storage)
            elif isinstance(x, HostScalar):
                self._note(name, x)
            elif id(x) not in seen and not isinstance(x, _OPAQUE):
                seen.add(id(x))
                self._kept.append(x)
                if hasattr(type(x), "named_parameters"):
                    self._module(name, x)
                elif hasattr(x, "param_groups") and hasattr(x, "state"):
                    waiting.append((name, _WaitingOptimizer(x), depth))
                elif isinstance(
                    x, _WaitingOptimizer
                ):  # behind the modules, whose parameters it names
                    self._optimizer(name, x.optimizer)
                elif depth < _DEPTH:
                    waiting.extend((_joined(name, k), v, depth + 1) for k, v in _inside(x))

    def _note(self, name: str, x: Any) -> None:
        if id(x) not in self._names:
            self._names[id(x)] = self.unique(name or "value")
            self._kept.append(x)

    def _module(self, name: str, module: Any) -> None:
        for own, t in (*module.named_parameters(), *module.named_buffers()):
            self._note(_joined(name, own), t.storage)

    def _optimizer(self, name: str, optimizer: Any) -> None:
        groups = optimizer.param_groups
        for number, group in enumerate(groups):
            prefix = name if len(groups) == 1 else _joined(name, number)
            for key, held in dict.items(group):  # the host scalars themselves
                for end, x in _numbers(held):
                    self._note(f"{_joined(prefix, key)}{end}", x)
            for position, p in enumerate(group["params"]):
                whose = self._names.get(id(p.storage), f"{_joined(prefix, 'params')}.{position}")
                for key, held in dict.items(optimizer.state.get(p, {})):
                    if isinstance(held, Tensor):
                        self._note(f"{whose}.{key}", held.storage)
                    elif isinstance(held, HostScalar):  # which parameters share
                        self._note(_joined(prefix, key), held)

    def of(self, x: Any, otherwise: str) -> str:
        """The name of a storage or a host scalar; another one if it has none."""
        if id(x) not in self._names:
            self._note(otherwise, x)
        return self._names[id(x)]

    def unique(self, name: str) -> str:
        """A name that nothing else has: this one, or this one with a number."""
        found = name if name not in self._taken else ""
        numbers = count(2)
        while not found:
            numbered = f"{name}_{next(numbers)}"
            found = numbered if numbered not in self._taken else ""
        self._taken.add(found)
        return found


class _WaitingOptimizer:
    """An optimizer that waits until parameters have their names."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer


def _joined(name: str, key: Any) -> str:
    return f"{name}.{key}" if name else str(key)


def _numbers(held: Any) -> Iterator[tuple[str, HostScalar]]:
    if isinstance(held, HostScalar):
        yield "", held
    elif isinstance(held, tuple):
        yield from ((f".{i}", x) for i, x in enumerate(held) if isinstance(x, HostScalar))


def _inside(x: Any) -> Iterator[tuple[Any, Any]]:
    """The contents of a container, or the attributes of an object; no code of its class runs."""
    if isinstance(x, dict):
        yield from ((k, v) for k, v in dict.items(x) if isinstance(k, (str, int)))
    elif isinstance(x, (list, tuple)):
        yield from enumerate(x)
    else:
        yield from (getattr(x, "__dict__", None) or {}).items()


def roots_of(function: Any, instance: Any) -> dict[str, Any]:
    """The variables through which a function finds its state: its globals and its closure."""
    if isinstance(function, functools.partial):
        own = getattr(function.func, "__code__", None)
        names = () if own is None else own.co_varnames
        bound = {**dict(zip(names, function.args)), **function.keywords}
        return {"" if k == "self" else k: v for k, v in bound.items()}
    code = getattr(function, "__code__", None)
    if code is None:  # an object that is called
        return {"": function if instance is None else instance}
    roots = {} if instance is None else {"": instance}
    cells = zip(code.co_freevars, function.__closure__ or ())
    for name, cell in cells:
        try:
            roots[name] = cell.cell_contents
        except ValueError:  # which was not filled yet
            continue
    for name in _names_in(code):
        if name in function.__globals__:
            roots.setdefault(name, function.__globals__[name])
    return roots


def _names_in(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _names_in(inner)
