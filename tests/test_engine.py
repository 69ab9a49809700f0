"""How backward computes: arithmetic on bare arrays, and where tensors take over.

A chain of small arithmetic makes no tensors. Each test puts something into it that needs them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import contraflow as cf
from contraflow.testing import assert_close


def leaf(*shape: int, dtype: Any = cf.float64) -> cf.Tensor:
    rng = np.random.default_rng(len(shape))
    return cf.tensor(rng.uniform(0.5, 1.5, shape), dtype=dtype, requires_grad=True)


def slowly(function: Callable[..., cf.Tensor], *inputs: cf.Tensor) -> tuple[Any, ...]:
    """The gradients by tensors: with a graph of their own, bare arrays would not do."""
    with cf.enable_grad():
        total = (function(*inputs) * 1.0).sum()
        return cf.autograd.grad(total, inputs, create_graph=True)


CHAINS: dict[str, Callable[..., cf.Tensor]] = {
    "products": lambda x, y: x * y * x / y,
    "sums": lambda x, y: (x - y) + (x + y) - x * 2.0 + 3,
    "a value used often": lambda x, y: sum((x * float(i) for i in range(5)), y * x) * y,
    "the same operand twice": lambda x, y: (x * x) * (y / y),
    "roots and powers between": lambda x, y: (x * y).sqrt() * (x * x).exp() / y,
    "a broadcast in the middle": lambda x, y: (x * y).sum() * x + y.sum() * y,
    "views": lambda x, y: (x * y).reshape(-1)[0] * x.T.T / y,
    "numbers on the left": lambda x, y: 2.0 - x * (1.0 / y),
}


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
@pytest.mark.parametrize("name", CHAINS)
def test_arithmetic_by_arrays_equals_that_by_tensors(name: str, shape: tuple[int, ...]) -> None:
    if name == "views" and not shape:
        shape = (1,)
    x, y = leaf(*shape), leaf(*shape)
    wanted = slowly(CHAINS[name], x, y)
    CHAINS[name](x, y).sum().backward()
    for p, g in zip((x, y), wanted):
        assert_close(p.grad, g.detach())
        assert p.grad.is_contiguous()
        assert p.grad.dtype is p.dtype


@pytest.mark.parametrize("dtype", [cf.float16, cf.bfloat16, cf.float32])
def test_other_dtypes(dtype: Any) -> None:
    x, y = leaf(3, dtype=dtype), leaf(3, dtype=cf.float32)
    wanted = slowly(lambda x, y: x * y * x, x, y)
    (x * y * x).sum().backward()
    assert x.grad.dtype is dtype
    for p, g in zip((x, y), wanted):
        assert_close(p.grad, g.detach())


def test_operands_of_other_shapes_get_gradients_of_their_own() -> None:
    x, y = leaf(4, 3), leaf(3)
    wanted = slowly(lambda x, y: x * y / (x + y), x, y)
    (x * y / (x + y)).sum().backward()
    for p, g in zip((x, y), wanted):
        assert_close(p.grad, g.detach())


def test_transposed_operands_leave_row_major_gradients() -> None:
    x, w = leaf(2, 3), leaf(3, 2)
    y = x * 1.0
    (y.T * w + y.T / w).sum().backward()
    expected = (w + 1.0 / w).T.detach()
    assert x.grad.is_contiguous()
    assert_close(x.grad, expected.contiguous())


def test_hooks_in_a_chain_see_tensors_and_change_them() -> None:
    x = leaf(3)
    y = x * 2.0
    seen = []
    y.register_hook(lambda g: seen.append(g.tolist()))
    z = y * 3.0
    z.retain_grad()
    z.grad_fn.register_prehook(lambda grads: (grads[0] * 10.0,))
    (z * 4.0).sum().backward()
    assert seen == [[120.0] * 3]
    assert z.grad.tolist() == [4.0] * 3
    assert x.grad.tolist() == [240.0] * 3


def test_a_gradient_that_a_user_was_given_is_not_added_to() -> None:
    x = leaf(3)
    y = x * 2.0
    kept = []
    y.register_hook(kept.append)
    (y * 1.0 + y * 2.0).sum().backward()
    before = kept[0].tolist()
    x.grad.add_(1.0)
    assert kept[0].tolist() == before == [3.0] * 3


def test_inputs_in_the_middle_of_a_chain() -> None:
    x = leaf(3)
    y = x * 2.0
    z = y * y
    gy, gz = cf.autograd.grad((z * 5.0).sum(), (y, z))
    assert gz.tolist() == [5.0] * 3
    assert_close(gy, (10.0 * y).detach())
    assert x.grad is None


def test_overwritten_values_are_noticed() -> None:
    x = leaf(3)
    y = x * 2.0
    z = y * y * 3.0
    y.mul_(2.0)
    with pytest.raises(cf.GradientError, match=r"mul saved float64\[3\] .*but mul_ overwrote it"):
        z.sum().backward()


def test_a_second_backward_is_refused() -> None:
    x = leaf()
    y = x * x
    y.backward(retain_graph=True)
    y.backward()
    assert_close(x.grad, (4.0 * x).detach())
    with pytest.raises(cf.GradientError, match="has run already"):
        y.backward()


def test_overflow_is_no_warning() -> None:
    x = cf.tensor(1e30, dtype=cf.float32, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (x * x * x).backward()
    assert x.grad.item() == float("inf")


def test_hooks_run_in_the_users_own_state() -> None:
    x = leaf(3)
    y = x * 2.0
    states = []
    with np.errstate(over="raise"), cf.no_grad():
        expected = np.geterr()
        with cf.enable_grad():
            z = (y * 3.0 * x).sum()
        y.register_hook(lambda g: states.append((np.geterr(), cf.is_grad_enabled())))
        z.backward()
    assert states == [(expected, False)]


def test_an_object_that_dies_meanwhile_may_compute() -> None:
    results = []

    class Farewell(cf.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: cf.Tensor) -> cf.Tensor:
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, g: cf.Tensor) -> cf.Tensor:
            return g

    class Dying:
        def __del__(self) -> None:
            results.append((cf.ones(3) * 2.0).tolist())

    x = leaf(3)
    y = Farewell.apply(x)
    y.grad_fn.metadata["kept"] = Dying()
    z = (y * 2.0 * 3.0).sum()
    del y
    z.backward()
    del z
    assert results == [[2.0] * 3]
