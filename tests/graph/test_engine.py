"""How backward computes: arithmetic on bare arrays, where tensors take over, parts of tensors.

A chain of small arithmetic makes no tensors. Each test puts something into it that needs them.
"""

from __future__ import annotations

import _thread
import collections
import operator
import queue
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import contraflow as cf
from contraflow import thresholds
from contraflow.devices.cpu import memory
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


# --- parts of a tensor ---------------------------------------------------------------------------

PARTS: dict[str, Callable[[cf.Tensor], cf.Tensor]] = {
    "one": lambda x: x[1],
    "side by side": lambda x: x[0] * x[1] + x[2],
    "overlapping": lambda x: x[:3] * x[1:] + x[::2].sum(),
    "more than wait for each other": lambda x: sum(
        x[i % 4, :, i % 3] * float(i) for i in range(20)
    ),
    "parts of parts": lambda x: x[1:][0][:, 2] * x[0, 1:3].sum(),
    "a diagonal": lambda x: x.diagonal(1, 0, 2) * x.diagonal(0, 1, 2).sum(),
    "split and unbound": lambda x: x.split([1, 3])[1].sum(0) * x.unbind(0)[2],
    "and the whole after them": lambda x: (x * x)[0] + (x * 2.0).sum(0),
    "and the whole before them": lambda x: x.exp().sum() * x[0] + x[3],
    "transposed and reshaped": lambda x: x[2].T.reshape(-1)[3:9] * x.reshape(4, 6, -1)[0, :, 1],
    "no elements": lambda x: x[:, :0].sum() * x[0] + x[4:].sum(),
    "single elements": lambda x: x[0, 0, 0] * x[1, 2, 1] + x[0, 0, 0],
}


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("dtype", [cf.float64, cf.float32])
def test_gradients_of_parts_are_those_of_the_whole(name: str, dtype: Any) -> None:
    x = leaf(4, 5, 3, dtype=dtype) if "reshaped" not in name else leaf(4, 6, 3, dtype=dtype)
    (wanted,) = slowly(PARTS[name], x)
    PARTS[name](x).sum().backward()
    assert_close(x.grad, wanted.detach())
    assert x.grad.is_contiguous()
    again = x.grad.clone()
    PARTS[name](x).sum().backward()
    assert_close(x.grad, 2.0 * again)


def test_many_parts_take_one_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    x = cf.ones(100, 50, requires_grad=True)
    total = sum((x[i] * float(i) for i in range(100)), cf.zeros(50)).sum()
    made: list[tuple[int, ...]] = []
    original = memory.empty

    def counted(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        made.append(shape)
        return original(shape, dtype)

    monkeypatch.setattr(memory, "empty", counted)
    total.backward()
    assert made.count((100, 50)) == 1
    assert_close(x.grad, np.broadcast_to(np.arange(100.0, dtype="f4")[:, None], (100, 50)))


def test_a_part_that_somebody_looks_at_has_a_gradient_of_its_own_shape() -> None:
    x = leaf(4, 3)
    part, other = x[1], x[2]
    part.retain_grad()
    seen: list[cf.Tensor] = []
    other.register_hook(lambda g: seen.append(g) or g * 10.0)
    (part * 2.0 + other * 3.0).sum().backward()
    assert_close(part.grad, np.full(3, 2.0))
    assert_close(seen[0], np.full(3, 3.0))
    assert_close(x.grad, np.array([0.0, 2.0, 30.0, 0.0])[:, None] * np.ones(3))


def test_what_a_hook_was_given_is_not_added_to_by_parts() -> None:
    x = leaf(4, 3)
    whole = x * 2.0
    seen: list[cf.Tensor] = []
    whole.register_hook(lambda g: seen.append(g))
    copy = whole * 1.0
    (copy.sum() + whole[0].sum()).backward()
    first = seen[0].array.copy()
    (x * 1.0)[1].sum().backward()
    assert np.array_equal(seen[0].array, first)


@thresholds.using(parallel_backward=0)
def test_gradients_of_parts_by_several_workers() -> None:
    x = leaf(8, 40)

    def loss() -> cf.Tensor:
        return sum((x[i] * x[7 - i]).sum() for i in range(8)) + x[:, ::3].exp().sum()

    loss().backward()
    wanted, x.grad = x.grad, None
    loss().backward(workers=3)
    assert np.array_equal(x.grad.array, wanted.array)


def test_an_operator_that_no_python_called_has_no_line() -> None:
    x, made = leaf(2), queue.SimpleQueue[cf.Tensor]()
    # The thread begins with C code that calls the operator.
    _thread.start_new_thread(collections.deque, (map(made.put, map(operator.mul, [x], [x])),))
    product = made.get(timeout=10)
    assert product.grad_fn.line is None
    product.sum().backward()
    assert_close(x.grad, 2.0 * x.detach())


@pytest.mark.parametrize(
    ("parts", "negative"),
    [
        (lambda z: [z[:1] * 1, z[1:2] * 1, z[2:] * 1], [False, False, False]),
        (lambda z: [z * 1, z[:1] * 1], [True, False, False]),
        (lambda z: [z[:1] * 1, z[:1] * 1], [True, False, False]),
    ],
    ids=["apart", "of a whole", "twice"],
)
def test_zeros_of_parts_have_the_sign_of_a_sum(parts: Any, negative: list[bool]) -> None:
    z = cf.ones(3, requires_grad=True) * 1
    outs = parts(z)
    (gradient,) = cf.autograd.grad(outs, [z], [-cf.zeros_like(out) for out in outs])
    assert np.signbit(gradient.numpy()).tolist() == negative
