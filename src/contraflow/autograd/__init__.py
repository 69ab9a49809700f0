"""Reverse mode for users: gradients as values, modes, hooks on saved values, custom functions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from contraflow import engine
from contraflow.autograd.modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    no_grad,
    set_grad_enabled,
)
from contraflow.node import Node
from contraflow.op import changed, state
from contraflow.tensor import Tensor

Tensors = Tensor | Sequence[Tensor]


def _tuple(x: Any) -> tuple[Any, ...]:
    return (x,) if isinstance(x, Tensor) or x is None else tuple(x)


def backward(
    tensors: Tensors,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensors | None = None,
) -> None:
    """Accumulate the gradients of several tensors into the leaves."""
    roots = _tuple(tensors)
    gradients = (None,) * len(roots) if grad_tensors is None else _tuple(grad_tensors)
    targets = None if inputs is None else _tuple(inputs)
    engine.backward(roots, gradients, retain_graph, create_graph, targets)


def grad(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of `outputs` with respect to `inputs`; `.grad` is not touched.

    >>> import contraflow as cf
    >>> x = cf.tensor([1.0, 2.0], requires_grad=True)
    >>> cf.autograd.grad((x * x).sum(), x)
    (tensor([2., 4.]),)
    """
    roots = _tuple(outputs)
    gradients = (None,) * len(roots) if grad_outputs is None else _tuple(grad_outputs)
    return engine.grad(roots, _tuple(inputs), gradients, retain_graph, create_graph, allow_unused)


@contextlib.contextmanager
def saved_tensors_hooks(
    pack: Callable[[Tensor], Any], unpack: Callable[[Any], Tensor]
) -> Iterator[None]:
    """Pass each value saved for backward through `pack`, and through `unpack` when needed."""
    with changed(saved_hooks=(*state().saved_hooks, (pack, unpack))):
        yield


__all__ = [
    "Node",
    "backward",
    "enable_grad",
    "grad",
    "inference_mode",
    "is_grad_enabled",
    "no_grad",
    "saved_tensors_hooks",
    "set_grad_enabled",
]
