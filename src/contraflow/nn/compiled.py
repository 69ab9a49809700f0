"""`compile` of a module: the same module, whose calls are recorded and replayed."""

from __future__ import annotations

import functools
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from contraflow.capture.compile import (
    ANSWERS,
    CompileOptions,
    compile,
    compiled_function,
    wrap,
)
from contraflow.nn.module import Module

if TYPE_CHECKING:
    from contraflow.capture.compiled import Compiled


class CompiledModule(Module):
    """A module over the attributes of another: same parameters, modes, hooks and state_dict keys.

    >>> import contraflow as cf
    >>> model = cf.nn.Linear(2, 1)
    >>> fast = cf.compile(model)
    >>> fast(cf.ones(3, 2)).shape
    (3, 1)
    >>> fast.weight is model.weight
    True
    """

    __slots__ = ("compiled", "module", "options")

    compiled: Compiled
    module: Module
    options: CompileOptions

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.compiled(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name not in ANSWERS:
                raise
        return getattr(self.compiled, name)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return wrap(deepcopy(self.module, memo), self.options)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return wrap, (self.module, self.options)

    def __repr__(self) -> str:
        return repr(self.module)


@functools.cache
def _compiled_class(kind: Any) -> type[CompiledModule]:
    """A subclass of a module's class, so that it passes for one of them."""
    return type(kind.__name__, (CompiledModule, kind), {"__slots__": (), "__doc__": kind.__doc__})


@wrap.register
def _wrap_module(module: Module, options: CompileOptions) -> Any:
    if isinstance(module, CompiledModule):
        return module
    kind: Any = type(module)
    made = object.__new__(_compiled_class(kind))
    object.__setattr__(made, "__dict__", module.__dict__)
    options = options._replace(name=options.name or kind.__name__)
    call = functools.partial(kind.__call__, module)
    for name, value in (
        ("module", module), ("options", options), ("compiled", compiled_function(call, options)),
    ):  # fmt: skip
        object.__setattr__(made, name, value)
    return made


class CompiledInPlace(Module):
    """A module whose class was exchanged by `Module.compile`: calls of it are compiled."""

    _compiled: Any

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__dict__["_compiled"](*args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        compiled = self.__dict__["_compiled"]
        copy = memo[id(self)] = object.__new__(compiled.kind)
        state = {name: value for name, value in self.__dict__.items() if name != "_compiled"}
        copy.__setstate__(deepcopy(state, memo))
        compile_in_place(copy, **compiled.options)
        return copy

    def __reduce_ex__(self, protocol: Any) -> Any:
        compiled = self.__dict__["_compiled"]
        state = {name: value for name, value in self.__dict__.items() if name != "_compiled"}
        return _rebuilt, (compiled.kind, state, compiled.options)


class _InPlace:
    """The compiled calls of a module, with its class and the options of `compile`."""

    def __init__(self, kind: Any, call: Any, options: dict[str, Any]) -> None:
        self.kind, self.options = kind, options
        self.compiled = compile(call, **{"name": kind.__name__, **options})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.compiled(*args, **kwargs)


@functools.cache
def _in_place_class(kind: Any) -> type[Module]:
    return type(kind.__name__, (CompiledInPlace, kind), {"__doc__": kind.__doc__})


def compile_in_place(module: Any, **options: Any) -> None:
    """Exchange the class of a module for one whose calls are compiled."""
    if isinstance(module, (CompiledInPlace, CompiledModule)):
        return
    kind: Any = type(module)
    call = functools.partial(kind.__call__, module)
    module.__dict__["_compiled"] = _InPlace(kind, call, options)
    module.__class__ = _in_place_class(kind)
    module._restructured()


def _rebuilt(kind: Any, state: dict[str, Any], options: dict[str, Any]) -> Any:
    module = object.__new__(kind)
    module.__setstate__(state)
    compile_in_place(module, **options)
    return module
