"""`torch.autograd.functional`: vjp, jvp, Jacobians and Hessians as wrappers of `contraflow.func`.

`inputs` is a tensor or a tuple of tensors, and results are structured alike. With `create_graph`
results can be differentiated further; without, they have no graph. With `strict` an output that
does not depend on an input is an error, else the derivative is zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from contraflow import func as transforms
from contraflow.errors import GradientError, NotScalarError, describe
from contraflow.graph import engine
from contraflow.names import getter
from contraflow.operation.context import changed
from contraflow.ops.creation.create import ones_like
from contraflow.tensors.tensor import Tensor
from contraflow.tensors.tree import leaves_of, map_leaves


class _FunctionalCall:
    """The part that the functions here share: inputs, how they were given, what is returned."""

    def __init__(
        self, caller: str, func: Callable[..., Any], inputs: Any, create_graph: bool, strict: bool
    ) -> None:
        self.caller, self.create_graph = caller, create_graph
        self.single = isinstance(inputs, Tensor)
        given: tuple[Tensor, ...] = (inputs,) if self.single else tuple(inputs)
        if strict:
            _check_dependence(caller, func, given)
        self.primals = given if create_graph else tuple(x.detach() for x in given)

    @property
    def argnums(self) -> Any:
        """The numbers of the arguments to differentiate by: one, or all of a tuple."""
        return 0 if self.single else tuple(range(len(self.primals)))

    def like_inputs(self, values: Sequence[Any]) -> Any:
        """One value for one input, a tuple for a tuple."""
        return values[0] if self.single else tuple(values)

    def direction(self, v: Any, like: Any) -> Any:
        """The given tangents or cotangents, ones for a single element."""
        if v is not None:
            return v
        for x in leaves_of(like):
            if x.numel() != 1:
                raise NotScalarError(
                    f"{self.caller}: {describe(x)} is not a scalar, so v must be given.",
                    op=self.caller,
                    shape=x.shape,
                )
        return map_leaves(ones_like, like)

    def tangents(self, v: Any) -> tuple[Tensor, ...]:
        """A direction for the inputs, as a tuple."""
        along = self.direction(v, self.primals)
        return (along,) if isinstance(along, Tensor) else tuple(along)

    def finish(self, result: Any) -> Any:
        """A result without a graph, unless that was asked for."""
        return result if self.create_graph else map_leaves(lambda x: x.detach(), result)


def _check_dependence(caller: str, func: Callable[..., Any], inputs: Sequence[Tensor]) -> None:
    """Refuse an output that does not depend on some input."""
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
    """The value of `func`, and `v` times its Jacobian.

    >>> import contraflow as cf
    >>> value, product = vjp(lambda x: x**2.0, cf.tensor([1.0, 2.0]), cf.tensor([1.0, 10.0]))
    >>> product
    tensor([ 2., 40.])
    """
    call = _FunctionalCall("vjp", func, inputs, create_graph, strict)
    value, pull = transforms.vjp(func, *call.primals)
    found = pull(call.direction(v, value))
    return call.finish(value), call.finish(call.like_inputs(found))


def jvp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The value of `func`, and its Jacobian times `v`.

    >>> import contraflow as cf
    >>> value, product = jvp(lambda x: x**2.0, cf.tensor([1.0, 2.0]), cf.tensor([1.0, 10.0]))
    >>> product
    tensor([ 2., 40.])
    """
    call = _FunctionalCall("jvp", func, inputs, create_graph, strict)
    value, found = transforms.jvp(func, call.primals, call.tangents(v))
    return call.finish(value), call.finish(found)


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian: for a tuple of outputs a tuple, for a tuple of inputs a tuple in each.

    It is computed at once for all elements, whatever `vectorize` says.

    >>> import contraflow as cf
    >>> jacobian(lambda x: x**2.0, cf.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if strategy not in ("reverse-mode", "forward-mode"):
        raise ValueError(
            f"jacobian: strategy is {strategy!r}; it must be 'reverse-mode' or 'forward-mode'."
        )
    call = _FunctionalCall("jacobian", func, inputs, create_graph, strict)
    make = transforms.jacrev if strategy == "reverse-mode" else transforms.jacfwd
    return call.finish(make(func, call.argnums)(*call.primals))


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The second derivatives of a scalar function.

    They are computed at once for all elements, and the outer ones in forward mode, whatever
    `vectorize` and `outer_jacobian_strategy` say.

    >>> import contraflow as cf
    >>> hessian(lambda x: (x**3.0).sum(), cf.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    call = _FunctionalCall("hessian", func, inputs, create_graph, strict)
    return call.finish(transforms.hessian(func, call.argnums)(*call.primals))


def hvp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The value of a scalar function, and its Hessian times `v`.

    >>> import contraflow as cf
    >>> value, product = hvp(lambda x: (x**3.0).sum(), cf.tensor([1.0, 2.0]), cf.ones(2))
    >>> product
    tensor([ 6., 12.])
    """
    call = _FunctionalCall("hvp", func, inputs, create_graph, strict)
    both = transforms.value_and_grad(func, tuple(range(len(call.primals))))
    (value, _), (_, found) = transforms.jvp(both, call.primals, call.tangents(v))
    return call.finish(value), call.finish(call.like_inputs(found))


def vhp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The value of a scalar function, and `v` times its Hessian, backward twice.

    >>> import contraflow as cf
    >>> value, product = vhp(lambda x: (x**3.0).sum(), cf.tensor([1.0, 2.0]), cf.ones(2))
    >>> product
    tensor([ 6., 12.])
    """
    call = _FunctionalCall("vhp", func, inputs, create_graph, strict)
    both = transforms.value_and_grad(func, tuple(range(len(call.primals))))
    _, pull, value = transforms.vjp(
        lambda *xs: tuple(reversed(both(*xs))), *call.primals, has_aux=True
    )
    found = pull(call.tangents(v))
    return call.finish(value), call.finish(call.like_inputs(found))


globals()["__getattr__"] = getter(__name__)
