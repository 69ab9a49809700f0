"""Attention of many queries and keys as a kernel of the CPU: the same numbers as by its parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import contraflow as cf
import contraflow.nn.functional as F
from contraflow import func
from contraflow.autograd import grad
from contraflow.devices.cpu.device import ATTENTION_COLUMNS, ATTENTION_ROWS
from contraflow.testing import assert_close

CAUSAL, FULL = ATTENTION_ROWS
LONG = CAUSAL + 5


def drawn(seed: int, *shape: int, dtype: Any = cf.float64) -> cf.Tensor:
    values = np.random.default_rng(seed).standard_normal(shape)
    return cf.tensor(values, dtype=dtype)


def heads(projection: cf.Tensor) -> tuple[cf.Tensor, ...]:
    """Queries, keys and values [b, h, t, d] where a projection [b, t, 3, h, d] has left them."""
    return tuple(x.transpose(1, 2) for x in projection.unbind(2))


def attend(projection: cf.Tensor) -> cf.Tensor:
    return F.scaled_dot_product_attention(*heads(projection), is_causal=True)


def by_parts(projection: cf.Tensor) -> cf.Tensor:
    """The same with the mask written out."""
    tokens = projection.shape[1]
    mask = cf.ones(tokens, tokens, dtype=cf.bool).tril()
    return F.scaled_dot_product_attention(*heads(projection), mask)


def step(function: Callable[..., Any], projection: cf.Tensor) -> tuple[cf.Tensor, cf.Tensor]:
    out = function(projection).transpose(1, 2).contiguous()
    (g,) = grad((out * out).sum(), [projection])
    return out, g


def attention_kernels(run: Any) -> list[str]:
    return [name for name in run.kernels if name.startswith("attention")]


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("columns", [16, 5])
def test_gradients_are_those_of_the_parts(compiled: bool, columns: int) -> None:
    projection = drawn(1, 2, LONG, 3, 4, columns).requires_grad_()
    run = cf.compile(step) if compiled else step
    for out, wanted in zip(run(attend, projection), step(by_parts, projection)):
        assert_close(out, wanted)


def test_a_step_stores_no_weights() -> None:
    projection = drawn(2, 2, LONG, 3, 4, 16, dtype=cf.float32).requires_grad_()
    run = cf.compile(lambda x: step(attend, x))
    run(projection)
    assert [name.split("_")[1] for name in attention_kernels(run)] == ["out", "all"]
    assert not any(name.startswith("contraction") for name in run.kernels)
    program = run.programs[-1].executable
    assert all(spec.shape.count(LONG) < 2 for spec in program.tape.specs.values())


@pytest.mark.parametrize("columns", [16, 5])
def test_bits_do_not_depend_on_threads(columns: int) -> None:
    projection = drawn(3, 1, 300, 3, 3, columns, dtype=cf.float32).requires_grad_()
    run, before, found = cf.compile(lambda x: step(attend, x)), cf.get_num_threads(), set()
    try:
        for threads in (1, 2, 3, 7):
            cf.set_num_threads(threads)
            found.add(b"".join(x.numpy().tobytes() for x in run(projection)))
    finally:
        cf.set_num_threads(before)
    assert len(found) == 1


@pytest.mark.parametrize(
    ("queries", "keys", "columns", "causal", "kernel"),
    [
        (CAUSAL, CAUSAL, 16, True, True),
        (CAUSAL, CAUSAL - 1, 16, True, False),
        (CAUSAL - 1, CAUSAL, 16, True, False),
        (FULL, FULL, 16, False, True),
        (1, FULL, 16, False, False),
        (FULL, FULL - 1, 16, False, False),
        (CAUSAL, CAUSAL, ATTENTION_COLUMNS + 1, True, False),
    ],
)
def test_sizes_decide(queries: int, keys: int, columns: int, causal: bool, kernel: bool) -> None:
    q, k = drawn(4, 2, queries, columns), drawn(5, 2, keys, columns)
    run = cf.compile(lambda q, k: F.scaled_dot_product_attention(q, k, k, is_causal=causal))
    out = run(q, k)
    assert bool(attention_kernels(run)) == kernel
    assert_close(out, softened(q, k, causal) @ k)


def softened(q: cf.Tensor, k: cf.Tensor, causal: bool) -> cf.Tensor:
    """The weights, written out."""
    scores = q @ k.mT / q.shape[-1] ** 0.5
    hidden = cf.ones(*scores.shape[-2:], dtype=cf.bool).triu(1)
    return cf.softmax(scores.masked_fill(hidden, -float("inf")) if causal else scores, -1)


def test_double_backward() -> None:
    def twice(function: Callable[..., Any], x: cf.Tensor) -> Any:
        (g,) = grad(function(x).square().sum(), [x], create_graph=True)
        return grad(g.square().sum(), [x])[0]

    x = drawn(6, 1, LONG, 3, 2, 4).requires_grad_()
    assert_close(twice(attend, x), twice(by_parts, x))


def test_forward_mode_and_vmap() -> None:
    x, tangent = drawn(7, 3, LONG, 3, 2, 4), drawn(8, 3, LONG, 3, 2, 4)
    expected = func.jvp(by_parts, (x,), (tangent,))
    for out, wanted in zip(func.jvp(attend, (x,), (tangent,)), expected):
        assert_close(out, wanted)
    assert_close(func.vmap(lambda one: attend(one.unsqueeze(0))[0])(x), attend(x))


@pytest.mark.parametrize("dtype", [cf.bfloat16, cf.float16], ids=str)
def test_half_precision(dtype: Any) -> None:
    projection = drawn(9, 2, LONG, 3, 2, 16, dtype=cf.float32).requires_grad_()

    def low(x: cf.Tensor) -> cf.Tensor:
        with cf.autocast("cpu", dtype=dtype):
            return attend(x)

    run = cf.compile(low)
    out = run(projection)
    assert out.dtype is dtype
    assert [name.split("_")[3] for name in attention_kernels(run)] == [dtype.name]
    error = (out.float() - by_parts(projection)).abs().max().item()
    assert error < 0.05
    (g,), (wanted,) = (
        grad(f(projection).float().square().sum(), [projection]) for f in (low, by_parts)
    )
    assert (g - wanted).abs().max().item() < 0.05 * wanted.abs().max().item()


def test_operands_that_broadcast() -> None:
    q, k, v = drawn(10, 2, 4, LONG, 8), drawn(11, 2, 1, LONG, 8), drawn(12, LONG, 8)
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert_close(out, softened(q, k, True) @ v)
    shared = F.scaled_dot_product_attention(
        q, k.expand(2, 2, LONG, 8), v.expand(2, 2, LONG, 8), is_causal=True, enable_gqa=True
    )
    assert_close(shared, out)
