"""PyTorch's older names for products with Jacobians: thin wrappers around `contraflow.func`.

`inputs` is a tensor or a tuple of tensors, and results are structured alike. With `create_graph`
results can be differentiated further; without, they have no graph. With `strict` an output that
does not depend on an input is an error, else the derivative is zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from contraflow import engine
from contraflow import func as transforms
from contraflow.dispatch import changed
from contraflow.errors import GradientError, describe
from contraflow.ops.create import ones_like
from contraflow.structure import leaves_of, map_leaves
from contraflow.tensor import Tensor


def _prepare(inputs: Any, create_graph: bool) -> tuple[Any, ...]:
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    return given if create_graph else tuple(x.detach() for x in given)


def _finish(result: Any, create_graph: bool) -> Any:
    detach = (lambda x: x) if create_graph else (lambda x: x.detach())
    return map_leaves(detach, result)


def _like(values: Any, inputs: Any) -> Any:
    return values[0] if isinstance(inputs, Tensor) else tuple(values)


def _direction(caller: str, v: Any, like: Any) -> Any:
    """The given tangents or cotangents, ones for a single element."""
    if v is not None:
        return v
    for x in leaves_of(like):
        if x.numel() != 1:
            raise GradientError(f"{caller}: {describe(x)} is not a scalar, so v must be given.")
    return map_leaves(ones_like, like)


def _check_dependence(caller: str, func: Callable[..., Any], inputs: Sequence[Tensor]) -> None:
    """Refuse an output that some input has no part in."""
    with changed(grad=True):
        fresh = [x.detach().requires_grad_() for x in inputs]
        outs = leaves_of(func(*fresh))
    for i, out in enumerate(outs):
        found: Sequence[Any] = (None,) * len(fresh)
        if out.requires_grad:
            found = engine.grad([out], fresh, [ones_like(out.detach())], None, False, True)
        for j, g in enumerate(found):
            if g is None:
                raise GradientError(f"{caller}: output {i} does not depend on input {j}.")


def vjp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The value of `func`, and `v` times its Jacobian."""
    if strict:
        _check_dependence("vjp", func, _prepare(inputs, False))
    value, pull = transforms.vjp(func, *_prepare(inputs, create_graph))
    found = pull(_direction("vjp", v, value))
    return _finish(value, create_graph), _finish(_like(found, inputs), create_graph)


def jvp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The value of `func`, and its Jacobian times `v`."""
    if strict:
        _check_dependence("jvp", func, _prepare(inputs, False))
    primals = _prepare(inputs, create_graph)
    along = _direction("jvp", v, primals)
    tangents = (along,) if isinstance(along, Tensor) else tuple(along)
    value, found = transforms.jvp(func, primals, tangents)
    return _finish(value, create_graph), _finish(found, create_graph)


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    *,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian: for a tuple of outputs a tuple, for a tuple of inputs a tuple in each."""
    if strict:
        _check_dependence("jacobian", func, _prepare(inputs, False))
    if strategy not in ("reverse-mode", "forward-mode"):
        raise ValueError(
            f"jacobian: strategy is {strategy!r}; it must be 'reverse-mode' or 'forward-mode'."
        )
    primals = _prepare(inputs, create_graph)
    argnums: Any = 0 if isinstance(inputs, Tensor) else tuple(range(len(primals)))
    make = transforms.jacrev if strategy == "reverse-mode" else transforms.jacfwd
    return _finish(make(func, argnums)(*primals), create_graph)


def hessian(
    func: Callable[..., Any], inputs: Any, create_graph: bool = False, strict: bool = False
) -> Any:
    """The second derivatives of a scalar function."""
    if strict:
        _check_dependence("hessian", func, _prepare(inputs, False))
    primals = _prepare(inputs, create_graph)
    argnums: Any = 0 if isinstance(inputs, Tensor) else tuple(range(len(primals)))
    return _finish(transforms.hessian(func, argnums)(*primals), create_graph)


def hvp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The value of a scalar function, and its Hessian times `v`."""
    if strict:
        _check_dependence("hvp", func, _prepare(inputs, False))
    primals = _prepare(inputs, create_graph)
    along = _direction("hvp", v, primals)
    tangents = (along,) if isinstance(along, Tensor) else tuple(along)
    both = transforms.value_and_grad(func, tuple(range(len(primals))))
    (value, _), (_, found) = transforms.jvp(both, primals, tangents)
    return _finish(value, create_graph), _finish(_like(found, inputs), create_graph)
