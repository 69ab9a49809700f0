"""Modules that learn the shapes of their parameters from their first inputs."""

from __future__ import annotations

from typing import Any, ClassVar

from contraflow.nn.module import Module
from contraflow.nn.parameter import is_lazy
from contraflow.operation.context import state


class LazyModuleMixin(Module):
    """The base of lazy modules; it comes before the class of the module that it makes lazy.

    Such a module assigns an UninitializedParameter where it does not know a shape, and writes
    `initialize_parameters`, which gets the arguments of the first call and materializes them. Then
    the module is of the class `cls_to_become`, where there is one.
    """

    cls_to_become: ClassVar[type[Module] | None] = None
    _inferred = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # A compiled module has this method of the class that its module had.
        if isinstance(self, LazyModuleMixin) and not self._inferred:
            self._infer(args, kwargs)
        return Module.__call__(self, *args, **kwargs)

    def _infer(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.initialize_parameters(*args, **kwargs)
        if self.has_uninitialized_params():
            raise RuntimeError(
                f"{type(self).__name__}: initialize_parameters left a parameter or buffer without "
                f"a shape. Call its materialize(shape)."
            )
        state().context.use_once()  # the next call draws no initial values
        self._inferred = True
        if self.cls_to_become is not None:
            del self._inferred
            self.__class__ = self.cls_to_become  # type: ignore[assignment]

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Materialize the parameters and buffers, given the arguments of the first call."""
        raise NotImplementedError(
            f"{type(self).__name__}: initialize_parameters is not implemented."
        )

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or a buffer has no shape yet."""
        return any(map(is_lazy, (*self._parameters.values(), *self._buffers.values())))
