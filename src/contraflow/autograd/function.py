"""Custom autograd functions: a forward and a backward written by the user."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from contraflow.errors import (
    GradientError,
    GradientShapeError,
    describe,
    describe_spec,
)
from contraflow.graph.saved import Saved, keep
from contraflow.operation.context import changed, device_of, mixed, other_devices, state
from contraflow.ops.creation.create import full
from contraflow.spec import Spec
from contraflow.tensors.node import Node
from contraflow.tensors.source_line import UserLine, at, location, user_line
from contraflow.tensors.tensor import Tensor
from contraflow.tensors.writing import take_place


class FunctionCtx:
    """The context that `forward` passes to `backward`: saved tensors, and attributes you set."""

    needs_input_grad: tuple[bool, ...] = ()  # which arguments of `apply` need a gradient

    def __init__(self) -> None:
        self._to_save: tuple[Any, ...] = ()
        self._dirty: tuple[Tensor, ...] = ()
        self._constant: tuple[Tensor, ...] = ()
        self._materialize = True
        self._node: weakref.ref[FunctionNode] | None = None  # weakly: the node holds this

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep inputs, outputs or other tensors; a write to one of them is noticed."""
        for x in tensors:
            if x is not None and not isinstance(x, Tensor):
                raise TypeError(
                    f"save_for_backward: takes tensors and None, not {type(x).__name__}. Set an "
                    f"attribute instead: ctx.x = x."
                )
        self._to_save = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say which inputs `forward` wrote to in place; it must return them."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say which outputs have no gradient."""
        self._constant = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether `backward` gets zeros (the default) or None where no gradient came."""
        self._materialize = bool(value)

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """The tensors kept by `save_for_backward`."""
        node = None if self._node is None else self._node()
        if node is None:
            return self._to_save
        return node.restore()


class FunctionNode(Node):
    """An applied Function."""

    freed = False
    hands_over = False  # the user's code may have kept it

    def __init__(
        self,
        function: type[Function],
        ctx: FunctionCtx,
        edges: Sequence[Any],
        specs: Sequence[Spec | None],
        line: UserLine | None,
    ) -> None:
        super().__init__(edges, specs, 0, line)
        self.function, self.ctx = function, ctx
        self.kept: tuple[tuple[Saved | None, int], ...] = ()  # with the number of an own output
        self.outputs: list[Spec | None] = []  # those that may have a gradient
        self.made: list[Spec | None] = []  # all that are tensors
        self.devices: list[str | None] = []  # of the arguments, where there are several
        ctx._node = weakref.ref(self)

    @property
    def output_specs(self) -> Sequence[Spec | None]:
        return self.outputs

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def saved(self) -> dict[str, Any]:
        return {str(i): value for i, (value, _) in enumerate(self.kept) if value is not None}

    def keep(self, outs: Sequence[Any]) -> None:
        """Save what `forward` asked for; own outputs without their place in the graph."""
        numbers = {id(out): i for i, out in enumerate(outs)}
        kept: list[tuple[Saved | None, int]] = []
        for x in self.ctx._to_save:
            number = -1 if x is None else numbers.get(id(x), -1)
            saved = None if x is None else keep(x, x.edge if number < 0 else None)
            kept.append((saved, number))
        self.kept = tuple(kept)
        self.ctx._to_save = ()

    def restore(self) -> tuple[Tensor | None, ...]:
        """The saved tensors, each where it stood in the graph."""
        if self.freed:
            raise GradientError(
                f"backward: {self.name}{at(self.line)} has run already and its saved values were "
                f"freed. Pass retain_graph=True to the first backward."
            )
        found: list[Tensor | None] = []
        for saved, number in self.kept:
            value = None if saved is None else saved.get(self)
            if value is not None and number >= 0 and state().grad:
                value = value.attached(self, number)
            found.append(value)
        return tuple(found)

    def backward(self, cotangents: list[Tensor | None]) -> Sequence[Tensor | None]:
        if self.ctx._materialize:
            device = device_of(cotangents)
            cotangents = [
                full(spec.shape, 0.0, spec.dtype, device) if g is None and spec is not None else g
                for g, spec in zip(cotangents, self.made)
            ]
        result = self.function.backward(self.ctx, *cotangents)
        grads = list(result) if isinstance(result, (tuple, list)) else [result]
        count = len(self.edges)
        while len(grads) > count and grads[-1] is None:
            grads.pop()
        if len(grads) != count:
            raise GradientError(
                f"{self.name}.backward: returned {len(grads)} gradients for the {count} arguments "
                f"of {self.name}.apply{at(self.line)}. Return one for each, None where there is "
                f"none."
            )
        for i, (g, spec) in enumerate(zip(grads, self.input_specs)):
            self._check(i, g, spec)
        return grads

    def _check(self, i: int, g: Any, spec: Spec | None) -> None:
        """Refuse a value that cannot be the gradient of argument `i`."""
        where = f"argument {i} of {self.name}.apply{at(self.line)}"
        if g is None:
            return
        if not isinstance(g, Tensor):
            raise GradientError(
                f"{self.name}.backward: returned {describe(g)} as the gradient of {where}. Return "
                f"a tensor or None."
            )
        if spec is None:
            raise GradientError(
                f"{self.name}.backward: returned {describe(g)} for {where}, which is not a "
                f"tensor with a gradient. Return None."
            )
        lead = g.ndim - len(spec.shape)
        fits = lead >= 0 and all(n in (1, m) for n, m in zip(spec.shape, g.shape[lead:]))
        if not fits:
            raise GradientShapeError(
                f"{self.name}.backward: returned {describe(g)} for {where}, which is "
                f"{describe_spec(spec.dtype, spec.shape)}.",
                op=self.name, line=location(self.line), shape=g.shape, expected=spec.shape,
            )  # fmt: skip
        if self.devices and g.storage.device != self.devices[i]:
            argument = SimpleNamespace(**spec._asdict(), device=self.devices[i])
            raise mixed(f"{self.name}.backward", {where: argument, "gradient": g}, move="gradient")

    def free(self) -> None:
        if self.kept:
            self.kept, self.freed = (), True


class Function:
    """An operation with its own backward: subclass it, and call `apply`.

    `forward(ctx, *args)`, or `forward(*args)` with `setup_context(ctx, inputs, output)`, computes
    the result; `backward(ctx, *grads)` gets the gradient of each output and returns one for each
    argument. Written with ops, backward is differentiable again.

    >>> import contraflow as cf
    >>> class Cube(cf.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x * x
    ...
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         (x,) = ctx.saved_tensors
    ...         return g * 3.0 * x * x
    >>> x = cf.tensor(2.0, requires_grad=True)
    >>> Cube.apply(x).backward()
    >>> x.grad
    tensor(12.)
    """

    def __init__(self) -> None:
        raise TypeError(
            f"{type(self).__name__}: a Function cannot be instantiated; call "
            f"{type(self).__name__}.apply(...)."
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the result."""
        raise NotImplementedError("Function: forward is not implemented.")

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Any, ...], output: Any) -> Any:
        """Prepare `ctx` for backward, where forward does not take it."""
        raise NotImplementedError("Function: setup_context is not implemented.")

    @staticmethod
    def backward(ctx: FunctionCtx, *grads: Any) -> Any:
        """The gradients of the arguments, given those of the outputs."""
        raise NotImplementedError("Function: backward is not implemented.")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run `forward` on the arguments and make the results part of the graph."""
        ctx, current = FunctionCtx(), state()
        edges = [x.edge if isinstance(x, Tensor) and current.grad else None for x in args]
        watched = [isinstance(x, Tensor) and current.context.watches(x) for x in args]
        ctx.needs_input_grad = tuple(e is not None or w for e, w in zip(edges, watched))
        line = current.line or user_line()
        current.context.enter_function(cls.__name__, args)
        with changed(grad=False):
            if cls.setup_context is not Function.setup_context:
                result = cls.forward(*args)
                cls.setup_context(ctx, args, result)
            else:
                result = cls.forward(ctx, *args)
        several = isinstance(result, (tuple, list))
        outs: list[Any] = list(result) if several else [result]
        _check_dirty(cls, ctx, outs)
        if any(ctx.needs_input_grad):
            specs = [x.spec if _has_gradient(x) else None for x in args]
            node = FunctionNode(cls, ctx, edges, specs, line)
            if other_devices:
                node.devices = [x.storage.device if isinstance(x, Tensor) else None for x in args]
            outs = _place(node, args, outs)
            if any(watched):
                current.context.push(node, args, outs)
        ctx._dirty = ctx._constant = ()  # or an output and its node would be a cycle
        return tuple(outs) if several else outs[0]


def _check_dirty(cls: type[Function], ctx: FunctionCtx, outs: list[Any]) -> None:
    for x in ctx._dirty:
        if not any(x is out for out in outs):
            raise GradientError(
                f"{cls.__name__}.forward: {describe(x)} was marked as dirty but not returned."
            )
        leaf = x.requires_grad and x.is_leaf
        if any(ctx.needs_input_grad) and (leaf or x._base is not None):
            what = "a leaf that requires grad" if leaf else "a view"
            raise GradientError(
                f"{cls.__name__}.forward: {describe(x)} is {what} and cannot be written in place. "
                f"Write to a copy."
            )


def _has_gradient(x: Any) -> bool:
    return isinstance(x, Tensor) and x.dtype.is_floating_point


def _place(node: FunctionNode, args: Sequence[Any], outs: list[Any]) -> list[Any]:
    """Give each output its place in the graph, as a tensor of its own."""
    ctx = node.ctx
    node.form.output_count = len(outs)
    node.outputs = [out.spec if _has_gradient(out) else None for out in outs]
    node.made = [out.spec if isinstance(out, Tensor) else None for out in outs]
    node.keep(outs)
    some = any(edge is not None for edge in node.edges)
    placed = list(outs)
    for i, out in enumerate(outs):
        if not some or not _has_gradient(out) or any(out is x for x in ctx._constant):
            continue
        if any(out is x for x in ctx._dirty):
            take_place(out, out.attached(node, i))
            continue
        # Not the very tensor: it may be an input, or known elsewhere, outside this graph.
        placed[i] = out.attached(node, i)
        shown = out._base is not None or any(out is x for x in args)
        placed[i]._writable = not shown  # what is written to a view would miss its base
    return placed


class _Refusing(Node):
    """Stands for the gradient of a backward that may not be differentiated."""

    def __init__(self, name: str, inputs: Sequence[Tensor], line: UserLine | None) -> None:
        super().__init__([x.edge for x in inputs], [x.spec for x in inputs], 1, line)
        self.function = name

    def backward(self, cotangents: list[Tensor | None]) -> Sequence[Tensor | None]:
        raise GradientError(
            f"{self.function}.backward{at(self.line)} is marked once_differentiable, so its result "
            f"cannot be differentiated."
        )


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator for a `backward` that is not written with ops: differentiating it is an error.

    >>> import contraflow as cf
    >>> class Cube(cf.autograd.Function):  # [n] to [n]
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x**3
    ...
    ...     @staticmethod
    ...     @cf.autograd.function.once_differentiable
    ...     def backward(ctx, g):
    ...         (x,) = ctx.saved_tensors
    ...         return cf.from_numpy(3 * x.detach().numpy() ** 2) * g
    >>> x = cf.tensor([1.0, 2.0], requires_grad=True)
    >>> Cube.apply(x).sum().backward()
    >>> x.grad
    tensor([ 3., 12.])
    """

    @functools.wraps(backward)
    def wrapped(ctx: FunctionCtx, *grads: Any) -> Any:
        create_graph = state().grad
        with changed(grad=False):
            result = backward(ctx, *grads)
        node = None if ctx._node is None else ctx._node()
        sources = [g for g in grads if isinstance(g, Tensor) and g.requires_grad]
        if node is None or not create_graph:
            return result
        sources += [x for x in ctx.saved_tensors if x is not None and x.requires_grad]
        if not sources:
            return result

        def refuse(g: Any) -> Any:
            if not isinstance(g, Tensor):
                return g
            return g.attached(_Refusing(node.name, sources, node.line), 0)

        return tuple(map(refuse, result)) if isinstance(result, (tuple, list)) else refuse(result)

    return wrapped
