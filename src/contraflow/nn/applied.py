"""Modules that apply a function with stored arguments: most activations, pools, pads and losses.

Such a class is declared as a dataclass is: what it annotates is what its constructor takes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar, dataclass_transform

from contraflow.nn.module import Module
from contraflow.operation.op import Op


@dataclass_transform(eq_default=False)
class Applied(Module):
    """A module that calls `function` with its inputs and, by name, with what its class annotates.

    A class is declared by the function it applies, or, as a base of others, by the names that its
    text leaves out. A subclass that says neither adds nothing to what the constructor takes.
    """

    function: ClassVar[Callable[..., Any]]
    hidden: ClassVar[tuple[str, ...]] = ()
    _taken: ClassVar[dict[str, inspect.Parameter]] = {}

    def __init_subclass__(
        cls,
        *,
        function: Callable[..., Any] | None = None,
        hidden: tuple[str, ...] | None = None,
    ) -> None:
        super().__init_subclass__()
        if function is not None:
            # An op does not bind, and would be asked for its docstring here.
            bare = isinstance(function, Op)
            cls.function = function if bare else staticmethod(function)
        if hidden is not None:
            cls.hidden = hidden
        if function is not None or hidden is not None:
            cls._taken = {**cls._taken, **_annotated(cls)}
            cls.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
                [*cls._taken.values()]
            )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        signature = inspect.Signature([*self._taken.values()])
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}: {error}. It takes {signature}.") from None
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            self._keep(name, value)
        self.__post_init__()

    def _keep(self, name: str, value: Any) -> None:
        """Store an argument."""
        setattr(self, name, value)

    def __post_init__(self) -> None:
        """Check the arguments, or complete them."""

    def forward(self, *inputs: Any, **named: Any) -> Any:
        kept = {name: getattr(self, name) for name in self._taken}
        return self.function(*inputs, **named, **kept)

    def extra_repr(self) -> str:
        kept = {name: getattr(self, name) for name in self._taken if name not in self.hidden}
        if kept.get("inplace") is False:
            del kept["inplace"]
        return ", ".join(f"{name}={value!r}" for name, value in kept.items())


def _annotated(cls: type) -> dict[str, inspect.Parameter]:
    """The parameters that a class annotates; those after a `KW_ONLY` go by name only.

    A default leaves the class, where it would hide a buffer of the same name.
    """
    kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
    found = {}
    for name, annotation in inspect.get_annotations(cls).items():
        if annotation == "KW_ONLY":
            kind = inspect.Parameter.KEYWORD_ONLY
        elif not annotation.startswith("ClassVar"):
            default = cls.__dict__.get(name, inspect.Parameter.empty)
            found[name] = inspect.Parameter(name, kind, default=default)
            if default is not inspect.Parameter.empty:
                delattr(cls, name)
    return found
