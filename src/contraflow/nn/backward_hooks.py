"""Backward hooks of modules: a marker node in the graph before the module, and one after it.

The gradients of a module's arguments are complete when backward passes the mark before it, those of
its results when it reaches the mark after it.
"""

from __future__ import annotations

from typing import Any

from contraflow.autograd.function import Function
from contraflow.tensors.hooks import Hook
from contraflow.tensors.tensor import Tensor
from contraflow.tensors.tree import fill, leaves_of


class Mark(Function):
    """The identity, as a node of its own."""

    @staticmethod
    def forward(ctx: Any, *xs: Tensor) -> tuple[Tensor, ...]:
        """Hand on."""
        ctx.set_materialize_grads(False)
        return xs

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        """Hand back."""
        return grads


class BackwardWatch:
    """One call of a module that has backward hooks."""

    def __init__(self, module: Any, pre_hooks: list[Hook], hooks: list[Hook]) -> None:
        self.module, self.pre_hooks, self.hooks = module, pre_hooks, hooks
        self.grad_output: tuple[Tensor | None, ...] = ()
        self.marked = False  # some argument requires grad

    def before(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, with a mark behind those that require grad."""
        args, node, at = _marked(args)
        if node is not None:
            self.marked = True
            count = len(leaves_of(args))

            def after_all(grads: tuple[Any, ...], _: tuple[Any, ...]) -> Any:
                grad_input = _spread(grads, at, count)
                for hook in self.hooks:
                    replaced = hook(self.module, grad_input, self.grad_output)
                    if replaced is not None:
                        grad_input = _tuple(replaced)
                return tuple(grad_input[i] for i in at)

            node.register_hook(after_all)
        return args

    def after(self, out: Any) -> Any:
        """The results, with a mark before those that require grad."""
        out, node, at = _marked(out)
        if node is not None:
            count = len(leaves_of(out))

            def first(grads: tuple[Any, ...]) -> Any:
                grad_output = _spread(grads, at, count)
                for hook in self.pre_hooks:
                    replaced = hook(self.module, grad_output)
                    if replaced is not None:
                        grad_output = _tuple(replaced)
                self.grad_output = grad_output
                if not self.marked:  # no argument has a gradient, so nobody else will call them
                    for hook in self.hooks:
                        hook(self.module, (None,), grad_output)
                return tuple(grad_output[i] for i in at)

            node.register_prehook(first)
        return out


def _tuple(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)


def _spread(grads: tuple[Any, ...], at: list[int], count: int) -> tuple[Any, ...]:
    """Gradients at the places of their tensors, None elsewhere."""
    spread = [None] * count
    for i, g in zip(at, grads):
        spread[i] = g
    return tuple(spread)


def _marked(x: Any) -> tuple[Any, Any, list[int]]:
    """The same containers with a mark at the tensors that require grad; its node; their places."""
    leaves = leaves_of(x)
    at = [i for i, t in enumerate(leaves) if isinstance(t, Tensor) and t.requires_grad]
    if not at:
        return x, None, at
    passed = Mark.apply(*(leaves[i] for i in at))
    for i, t in zip(at, passed):
        leaves[i] = t
    return fill(x, leaves), passed[0].grad_fn, at
