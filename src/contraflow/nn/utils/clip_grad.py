"""Gradient clipping, written with ops, so that it compiles."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from contraflow.autograd.modes import no_grad
from contraflow.capture.compile import CompileOptions, compiled_function, runs_native
from contraflow.errors import GradientError
from contraflow.operation.context import other_devices
from contraflow.operation.public import public
from contraflow.ops.creation.data import tensor
from contraflow.ops.elementwise.arithmetic import clamp_max, isfinite
from contraflow.ops.linalg.norms import vector_norm
from contraflow.ops.shape.joining import stack
from contraflow.tensors.tensor import Tensor

if TYPE_CHECKING:
    from contraflow.capture.compiled import Compiled

TensorIterable = Tensor | Iterable[Tensor]


def _listed(tensors: TensorIterable) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _gradients(parameters: TensorIterable) -> list[Tensor]:
    return [p.grad for p in _listed(parameters) if p.grad is not None]


# --- all tensors in one program where they are large --------------------------------------------


def _norm(tensors: list[Tensor], norm_type: float) -> Tensor:
    norms = [vector_norm(t, norm_type) for t in tensors]
    if other_devices:  # the norm lies where the first gradient does
        norms = [norm.to(tensors[0].device) for norm in norms]
    total: Tensor = vector_norm(stack(norms), norm_type)
    return total


def _scale(tensors: list[Tensor], factor: Tensor) -> None:
    for t in tensors:
        t.mul_(factor.to(t) if other_devices else factor.to(t.dtype))


def _clamp(tensors: list[Tensor], limit: float) -> None:
    for t in tensors:
        t.clamp_(-limit, limit)


def _apply(function: Callable[..., Any], tensors: list[Tensor], value: Any) -> Any:
    """A function of all the tensors, without a start for each of them."""
    run = _program(function) if runs_native(tensors) else function
    return run(tensors, value)


@cache
def _program(function: Callable[..., Any]) -> Compiled:
    # Models come and go, which is nothing to warn about.
    return compiled_function(
        function, CompileOptions(name=function.__name__.strip("_"), warns=False)
    )


# --- what users call -----------------------------------------------------------------------------


@public
@no_grad()
def get_total_norm(
    tensors: TensorIterable,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of all elements together. `foreach` changes nothing.

    >>> import contraflow as cf
    >>> get_total_norm([cf.tensor([3.0]), cf.tensor([4.0])])
    tensor(5.)
    """
    listed = _listed(tensors)
    total: Tensor = _apply(_norm, listed, norm_type) if listed else tensor(0.0)
    if error_if_nonfinite and not bool(isfinite(total)):
        raise GradientError(
            f"get_total_norm: the norm of order {norm_type} is {total.item()}. Pass "
            f"error_if_nonfinite=False to go on."
        )
    return total


@public
@no_grad()
def clip_grads_with_norm_(
    parameters: TensorIterable, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale the gradients, in place, as if their norm were `total_norm`, down to `max_norm`."""
    # Always multiplied, by one where nothing is to be done: a test would need the value.
    factor = clamp_max(max_norm / (total_norm + 1e-6), 1.0)
    _apply(_scale, _gradients(parameters), factor)


@public
def clip_grad_norm_(
    parameters: TensorIterable,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale the gradients, in place, to a norm of at most `max_norm`; give the norm before.

    >>> import contraflow as cf
    >>> p = cf.nn.Parameter(cf.zeros(2))
    >>> p.grad = cf.tensor([3.0, 4.0])
    >>> clip_grad_norm_([p], max_norm=1.0), p.grad
    (tensor(5.), tensor([0.6000, 0.8000]))
    """
    listed = _listed(parameters)
    total = get_total_norm(_gradients(listed), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(listed, max_norm, total)
    return total


@public
@no_grad()
def clip_grad_value_(
    parameters: TensorIterable, clip_value: float, foreach: bool | None = None
) -> None:
    """Limit every element of the gradients, in place, to [-clip_value, clip_value]."""
    _apply(_clamp, _gradients(parameters), clip_value)
