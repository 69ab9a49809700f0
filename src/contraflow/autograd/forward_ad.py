"""Forward mode by hand, under PyTorch's names: tensors that carry a tangent along.

`contraflow.func.jvp` does the same for a function, without levels.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, NamedTuple

from contraflow.contexts.forward import Forward
from contraflow.errors import GradientError, describe
from contraflow.operation.context import apply, changed, state
from contraflow.ops.elementwise.basic import clone
from contraflow.tensors.tensor import Tensor


class UnpackedDualTensor(NamedTuple):
    """A tensor, and its tangent or None."""

    primal: Tensor
    tangent: Tensor | None


_level: ContextVar[Forward | None] = ContextVar("contraflow_dual_level", default=None)


class dual_level:
    """A block in which tensors can carry tangents; they are gone when it ends. It does not nest.

    >>> import contraflow as cf
    >>> with dual_level():
    ...     x = make_dual(cf.tensor([1.0, 2.0]), cf.tensor([1.0, 0.0]))
    ...     print(unpack_dual(x * x).tangent)
    tensor([2., 0.])
    """

    def __enter__(self) -> dual_level:
        if _level.get() is not None:
            raise GradientError("dual_level: one is open already, and levels do not nest.")
        context = Forward(state().context)
        self._token = _level.set(context)
        self._block = changed(context=context)
        self._block.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._block.__exit__(*error)
        _level.reset(self._token)


def _context(caller: str) -> Forward:
    found = _level.get()
    if found is None:
        raise GradientError(f"{caller}: no dual_level is open. Use `with dual_level():`.")
    return found


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A tensor with these elements that carries a tangent of the same shape."""
    context = _context("make_dual")
    if not tensor.dtype.is_floating_point or tensor.shape != tangent.shape:
        raise ValueError(
            f"make_dual: the tangent {describe(tangent)} does not fit {describe(tensor)}, which "
            f"must be floating-point."
        )
    made: Tensor = apply(clone, (tensor,))
    context.set_tangent(made, tangent if tangent.dtype is made.dtype else tangent.to(made.dtype))
    return made


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """A tensor without its tangent, and the tangent; None stands for zero."""
    context = _context("unpack_dual")
    tangent = context.tangent(tensor)
    primal = tensor.alias()
    context.set_tangent(primal, None)
    return UnpackedDualTensor(primal, tangent)


__all__ = ["UnpackedDualTensor", "dual_level", "make_dual", "unpack_dual"]
