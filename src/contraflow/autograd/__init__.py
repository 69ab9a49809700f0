"""Reverse mode for users: gradients as values, modes, hooks, custom functions, checks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from contraflow.autograd.anomaly import detect_anomaly, is_anomaly_enabled, set_detect_anomaly
from contraflow.autograd.modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from contraflow.autograd.store import Gradients
from contraflow.errors import brief, describe
from contraflow.graph import engine, parallel
from contraflow.names import listing, missing
from contraflow.ops.creation.create import zeros_like
from contraflow.ops.shape.joining import stack
from contraflow.tensors.tensor import Tensor

if TYPE_CHECKING:
    from contraflow.autograd import forward_ad, functional, graph
    from contraflow.autograd.function import Function, once_differentiable
    from contraflow.autograd.gradient_checks import gradcheck, gradgradcheck
    from contraflow.autograd.graph import Node, saved_tensors_hooks

Tensors = Tensor | Sequence[Tensor]

# Names that few programs use and whose modules take a while to import: where they are.
_LATER_MODULES = {
    "forward_ad": "forward_ad", "function": "function", "functional": "functional",
    "grad_mode": "modes", "graph": "graph",
}  # fmt: skip
_LATER = {
    "Function": "function",
    "Node": "graph",
    "gradcheck": "gradient_checks",
    "gradgradcheck": "gradient_checks",
    "once_differentiable": "function",
    "saved_tensors_hooks": "graph",
}


def _is_several(x: Any) -> bool:
    return isinstance(x, Iterable) and not isinstance(x, (Tensor, np.ndarray))


def _tensors(name: str, x: Any, *, some: bool = False) -> tuple[Any, ...]:
    """One tensor or a sequence of them as a tuple; with `some`, None may stand in its place."""
    given = tuple(x) if _is_several(x) else (x,)
    for t in given:
        if not (isinstance(t, Tensor) or (some and t is None)):
            raise TypeError(f"{name}: expected a tensor or a sequence of them, not {brief(t)}.")
    return given


def _gradients_of(name: str, roots: tuple[Any, ...], given: Any) -> tuple[Any, ...]:
    """A gradient, or None, for each root."""
    return (None,) * len(roots) if given is None else _tensors(name, given, some=True)


def backward(
    tensors: Tensors,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensors | None = None,
    workers: int = 1,
) -> None:
    """Accumulate the gradients of several tensors into the leaves.

    Several `workers` are threads that share the nodes; see `docs/autograd.md` for when that helps.

    >>> import contraflow as cf
    >>> x = cf.tensor([1.0, 2.0], requires_grad=True)
    >>> cf.autograd.backward([(x * x).sum(), x.sum()])
    >>> x.grad
    tensor([3., 5.])
    """
    roots = _tensors("backward", tensors)
    given = _gradients_of("backward", roots, grad_tensors)
    targets = None if inputs is None else _tensors("backward", inputs)
    order = parallel.order(workers)
    engine.backward(roots, given, retain_graph, create_graph, targets, order)


def grad(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
    *,
    workers: int = 1,
) -> tuple[Tensor, ...]:
    """The gradients of `outputs` with respect to `inputs`; `.grad` is not touched.

    With `allow_unused` an input that was not used has None there, which the type leaves out, as
    PyTorch's does; `materialize_grads` gives zeros instead. Where
    `is_grads_batched`, the first dim of each of `grad_outputs` counts vectors, for each of which
    there is a gradient. Several `workers` are threads that share the nodes; see `docs/autograd.md`
    for when that helps.

    >>> import contraflow as cf
    >>> x = cf.tensor([1.0, 2.0], requires_grad=True)
    >>> cf.autograd.grad((x * x).sum(), x)
    (tensor([2., 4.]),)
    """
    if materialize_grads and allow_unused is False:
        raise ValueError("grad: allow_unused cannot be False where materialize_grads is True.")
    roots, targets = _tensors("grad", outputs), _tensors("grad", inputs)
    given = _gradients_of("grad", roots, grad_outputs)
    unused = materialize_grads if allow_unused is None else allow_unused
    order = parallel.order(workers, "grad")
    if is_grads_batched:
        found = _batched(roots, targets, given, retain_graph, create_graph, unused)
    else:
        found = engine.grad(roots, targets, given, retain_graph, create_graph, unused, order)
    if materialize_grads:
        return tuple(zeros_like(x) if g is None else g for x, g in zip(targets, found))
    return cast(tuple[Tensor, ...], found)


def _batched(
    roots: tuple[Any, ...], targets: tuple[Any, ...], given: tuple[Any, ...],
    retain_graph: bool | None, create_graph: bool, unused: bool,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """The gradients for each of the vectors along the first dim of some cotangents."""
    counts = {0 if g is None or not g.ndim else g.shape[0] for g in given}
    if len(counts) != 1 or counts == {0}:
        raise ValueError("grad: with is_grads_batched, all grad_outputs need one first dim.")
    (count,) = counts
    rows = [
        engine.grad(
            roots, targets, tuple(g[i] for g in given),
            True if i + 1 < count else retain_graph, create_graph, unused,
        )
        for i in range(count)
    ]  # fmt: skip
    return tuple(None if row[0] is None else stack(row) for row in zip(*rows))


class _TensorsAreInstances(type):
    """The type of a class whose instances are the tensors."""

    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, Tensor)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, Tensor)


class Variable(metaclass=_TensorsAreInstances):
    """Tensors, which PyTorch's variables have become: detached, and requiring grad if asked.

    >>> import contraflow as cf
    >>> x = Variable(cf.ones(2), requires_grad=True)
    >>> x
    tensor([1., 1.], requires_grad=True)
    >>> isinstance(x, Variable)
    True
    """

    def __new__(cls, data: Tensor, requires_grad: bool = False) -> Tensor:  # type: ignore[misc]
        made = data.detach()
        return made.requires_grad_() if requires_grad else made


def gradients(
    tensors: Tensors,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    *,
    all: bool = False,
    into: Gradients | None = None,
    workers: int = 1,
) -> Gradients:
    """The gradient of every leaf, as a mapping from tensor to gradient; `.grad` is not touched.

    With `all` it has the gradient of every tensor of the graph, which keeps them in memory. With
    `into` gradients are added to those of a store, which is given back.

    >>> import contraflow as cf
    >>> x = cf.tensor([1.0, 2.0], requires_grad=True)
    >>> h = x * x
    >>> found = cf.autograd.gradients((h * 3).sum(), all=True)
    >>> found[x]
    tensor([ 6., 12.])
    >>> found[h]
    tensor([3., 3.])
    >>> x.grad is None
    True
    """
    roots = _tensors("gradients", tensors)
    given = _gradients_of("gradients", roots, grad_tensors)
    if not isinstance(into, Gradients | None):
        raise TypeError(f"gradients: into must be a Gradients, not {describe(into)}.")
    order = parallel.order(workers, "gradients")
    pairs = engine.gradients(roots, given, retain_graph, create_graph, all, order)
    store = Gradients() if into is None else into
    for end, g in pairs:
        store.accumulate(end, g)
    return store


def __getattr__(name: str) -> Any:
    if name in _LATER_MODULES:
        return import_module(f"contraflow.autograd.{_LATER_MODULES[name]}")
    if name in _LATER:
        return getattr(import_module(f"contraflow.autograd.{_LATER[name]}"), name)
    raise missing("contraflow.autograd", name)


__dir__ = listing(__name__, *_LATER_MODULES, *_LATER)

__all__ = [
    "Function",
    "Gradients",
    "Node",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "gradients",
    "graph",
    "inference_mode",
    "is_anomaly_enabled",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "once_differentiable",
    "saved_tensors_hooks",
    "set_detect_anomaly",
    "set_grad_enabled",
]
