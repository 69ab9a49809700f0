"""Compiled functions that are differentiated from outside, beside eager ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import contraflow as cf
from contraflow.testing import assert_close


def leaf(*shape: int, dtype: Any = cf.float64) -> cf.Tensor:
    return cf.randn(*shape, dtype=dtype, requires_grad=True)


def tensors(x: Any) -> list[cf.Tensor]:
    if isinstance(x, dict):
        return tensors(list(x.values()))
    if isinstance(x, (tuple, list)):
        return [t for item in x for t in tensors(item)]
    return [x] if isinstance(x, cf.Tensor) else []


def agree(
    function: Callable[..., Any], inputs: list[cf.Tensor], calls: int = 2, order: int = 2
) -> Any:
    """Values and gradients up to some order, of the function and of its compiled twin."""
    compiled = cf.compile(function)

    def everything(f: Callable[..., Any], seed: int) -> list[Any]:
        cf.manual_seed(seed)
        outs = [t for t in tensors(f(*inputs)) if t.requires_grad]
        found: list[Any] = [t.detach() for t in outs]
        for k in range(order):
            total = sum((t * (i + 1.5)).tanh().sum() for i, t in enumerate(outs))
            wanted = [x for x in inputs if x.requires_grad]
            grads = cf.autograd.grad(total, wanted, create_graph=k + 1 < order, allow_unused=True)
            found += [None if g is None else g.detach() for g in grads]
            outs = [g for g in grads if g is not None and g.requires_grad]
            if not outs:
                break
        return found

    for call in range(calls):
        want, got = everything(function, call), everything(compiled, call)
        assert len(got) == len(want)
        for a, b in zip(got, want):
            assert (a is None) == (b is None)
            if a is not None:
                assert_close(a, b)
    return compiled


def _set_row(h: Any, y: Any) -> Any:
    h[1] = y[0] * 2
    return h * h
