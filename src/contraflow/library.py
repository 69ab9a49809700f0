"""PyTorch's declarations of ops: `custom_op` with its gradient, and those for its compiler.

Packages tell PyTorch's compiler the shapes of their ops in these ways, which has no effect: here
functions are captured as they run. `contraflow.custom_op` makes an op of a function over NumPy
arrays, which compiled functions record as one.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from contraflow.autograd.function import Function
from contraflow.errors import GradientError
from contraflow.names import getter
from contraflow.tensors.tensor import Tensor

OPS: dict[str, CustomOpDef] = {}  # the ops of `custom_op`, by their names "package::op"


class CustomOpDef:
    """An op that `custom_op` made: a function of tensors, with a gradient once one is registered.

    >>> import contraflow as cf
    >>> @custom_op("example::cube", mutates_args=())
    ... def cube(x: cf.Tensor) -> cf.Tensor:  # [n] to [n]
    ...     return cf.from_numpy(x.numpy() ** 3)
    >>> def keep(ctx, inputs, output):
    ...     ctx.save_for_backward(*inputs)
    >>> cube.register_autograd(lambda ctx, g: 3 * ctx.saved_tensors[0] ** 2 * g, setup_context=keep)
    >>> x = cf.tensor([1.0, 2.0], requires_grad=True)
    >>> cube(x).sum().backward()
    >>> x.grad
    tensor([ 3., 12.])
    """

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self._qualname = name
        self._signature = inspect.signature(function)
        self._kernels: dict[str | None, Callable[..., Any]] = {None: function}  # by kind of device
        self._backward: Callable[..., Any] | None = None
        self._setup: Callable[..., Any] | None = None
        self._applied: Any = type(name.rpartition(":")[2], (_CustomFunction,), {"op": self})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        if any(isinstance(each, Tensor) and each.requires_grad for each in bound.args):
            return self._applied.apply(*bound.args)
        return self.run(bound.args)

    def run(self, args: tuple[Any, ...]) -> Any:
        """The results of the implementation for the device of the first tensor."""
        kind = next((each.device.type for each in args if isinstance(each, Tensor)), None)
        return self._kernels.get(kind, self._kernels[None])(*args)

    @property
    def default(self) -> CustomOpDef:
        """PyTorch's name of an op's first overload: the op itself."""
        return self

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """Set the gradient: `backward(ctx, *grads)`, after `setup_context(ctx, inputs, output)`."""
        self._backward, self._setup = backward, setup_context

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """The function itself, which would say the shapes of results to PyTorch's compiler."""
        return fn

    def register_kernel(
        self, device_types: str | Iterable[str] | None, fn: Callable[..., Any] | None = None, /
    ) -> Any:
        """Set the implementation for a kind of device, or for all; a decorator without `fn`."""
        if fn is None:
            return functools.partial(self.register_kernel, device_types)
        alone = device_types is None or isinstance(device_types, str)
        kinds: Any = (device_types,) if alone else device_types
        self._kernels.update(dict.fromkeys(kinds, fn))
        return fn


class _CustomFunction(Function):
    """The base of the functions that put an op of `custom_op` into the graph."""

    op: CustomOpDef

    @classmethod
    def forward(cls, ctx: Any, *args: Any) -> Any:
        out = cls.op.run(tuple([a.detach() if isinstance(a, Tensor) else a for a in args]))
        if cls.op._setup is not None:
            cls.op._setup(ctx, args, out)
        return out

    @classmethod
    def backward(cls, ctx: Any, *grads: Any) -> Any:
        if cls.op._backward is None:
            raise GradientError(
                f"{cls.op._qualname}: it has no gradient. Give it one by register_autograd."
            )
        return cls.op._backward(ctx, *grads)


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Iterable[str] | None = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """An op of a function of tensors, under a name "package::op"; a decorator without `fn`.

    The function itself is not differentiated: `register_autograd` says its gradient.
    `mutates_args`, `schema` and `tags` inform PyTorch's compiler and have no effect.

    >>> import contraflow as cf
    >>> @custom_op("example::doubled", mutates_args=())
    ... def doubled(x: cf.Tensor) -> cf.Tensor:
    ...     return x * 2
    >>> doubled(cf.ones(2))
    tensor([2., 2.])
    """
    if fn is None:
        return functools.partial(
            custom_op, name, mutates_args=mutates_args, device_types=device_types, schema=schema
        )
    if "::" not in name:
        raise ValueError(f"custom_op: {name!r} must have the form 'package::op'.")
    OPS[name] = made = CustomOpDef(name, fn)
    return made


def register_fake(op: Any, func: Any = None, /, **options: Any) -> Any:
    """The function itself, which would say the shape of an op's results.

    >>> @register_fake("package::op")
    ... def shape_of(x):
    ...     return x
    >>> shape_of(1)
    1
    """
    return _itself if func is None else func


def impl(qualname: Any, types: Any, func: Any = None, *, lib: Any = None) -> Any:
    """The function itself, which would be an op's implementation for devices."""
    return _itself if func is None else func


def register_autocast(op: Any, device_type: str, cast_inputs: Any, /, **options: Any) -> None:
    """Nothing: PyTorch's ops by name are not here."""


def register_kernel(op: Any, device_types: Any = None, func: Any = None, /, **options: Any) -> Any:
    """Set the implementation of an op of `custom_op` for a device, and return it."""
    found = OPS.get(op) if isinstance(op, str) else op
    if isinstance(found, CustomOpDef):
        return found.register_kernel(device_types, func)
    return _itself if func is None else func


def register_autograd(
    op: Any, backward: Any, /, *, setup_context: Any = None, **options: Any
) -> None:
    """Set the gradient of an op of `custom_op`; PyTorch's other ops by name are not here."""
    found = OPS.get(op) if isinstance(op, str) else op
    if isinstance(found, CustomOpDef):
        found.register_autograd(backward, setup_context=setup_context)


def _itself(function: Any) -> Any:
    return function


class Library:
    """A namespace of ops of PyTorch's, into which nothing goes."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema: str, alias_analysis: str = "", **options: Any) -> str:
        """The name of the op."""
        return schema.partition("(")[0]

    def impl(self, op_name: Any, fn: Callable[..., Any], *args: Any, **options: Any) -> None:
        """Nothing."""


__all__ = [
    "CustomOpDef",
    "Library",
    "custom_op",
    "impl",
    "register_autocast",
    "register_autograd",
    "register_fake",
    "register_kernel",
]

globals()["__getattr__"] = getter(__name__)
