"""Engine behaviour, lines 1 to 3, 10 to 14: how gradients flow, and who may see them."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from tests.helpers.engine_common import place, refused, temporary
from tests.helpers.trials import LONGEST, Trial, eager_alone, on_cpu

import contraflow as cf
from contraflow import thresholds
from contraflow.autograd import grad
from contraflow.operation.kinds import elementwise
from contraflow.tensors.tensor import Tensor
from contraflow.testing import assert_close


def test_line_01_a_diamond_of_depth_60_takes_linear_work(run: Trial) -> None:
    def step(x: Tensor) -> Tensor:
        y = x
        for _ in range(60):
            y = y + y
        (g,) = grad(y + x * 3.0, x)
        return g

    assert_close(run(step, run.leaf(1.0)), np.array([2.0**60 + 3.0]))


def chain(n: int) -> Any:
    def step(x: Tensor) -> Tensor:
        y = x
        for _ in range(n):
            y = y + 0.5
        (g,) = grad(y, x)
        return g

    return step


@pytest.mark.parametrize("length", [4_000, pytest.param(0, marks=pytest.mark.slow, id="longest")])
@pytest.mark.filterwarnings("ignore:compile.step.")
def test_line_02_a_chain(run: Trial, length: int, record_property: Any) -> None:
    """Far longer than Python's stack is deep."""
    length = length or LONGEST.get(str(run), 64_000)
    record_property("size", length)
    assert_close(run(chain(length), run.leaf(1.0)), np.array([1.0]))
    gc.collect()


@pytest.mark.parametrize(
    ("name", "function", "shapes"),
    [
        ("pow", lambda a, b: a**b, [(2, 3), (3,)]),
        ("where", lambda a, b: cf.where(a > 1.0, a, b), [(2, 3), (1,)]),
        ("matmul", lambda a, b: a @ b, [(4, 1, 2, 3), (5, 3, 2)]),
        ("mean", lambda a, b: (a * b).mean(1), [(2, 1, 3), (2, 4, 3)]),
        ("softmax", lambda a, b: cf.softmax(a * b, dim=-1) ** 2.0, [(2, 3), (3,)]),
    ],
    ids=lambda p: p if isinstance(p, str) else "",
)
def test_line_03_a_broadcast_operand_has_a_gradient_of_its_own_shape(
    run: Trial, name: str, function: Any, shapes: list[Any]
) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(0.5, 2.0, shape) for shape in shapes]
    tensors = [run.tensor(a, requires_grad=True) for a in arrays]

    def step(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        return grad(function(a, b).sum(), [a, b])

    found = run(step, *tensors)
    assert [g.shape for g in found] == shapes
    along = [rng.standard_normal(shape) for shape in shapes]
    above, below = (
        on_cpu(function, *(a + s * t for a, t in zip(arrays, along))).sum() for s in (1e-6, -1e-6)
    )
    product = sum((g.fetched() * t).sum() for g, t in zip(found, along))
    assert abs(product - (above - below) / 2e-6) < run.tolerance * (1.0 + abs(product))


def test_line_10_a_root_that_is_no_scalar_needs_a_gradient_of_its_shape(run: Trial) -> None:
    x = cf.ones(2, 3, requires_grad=True)

    def right(t: Tensor) -> Tensor:
        return grad(t * 2.0, t, cf.ones(2, 3))[0]

    assert_close(run(right, x), np.full((2, 3), 2.0))
    scalar = rf"float32\[2, 3\]{run.there} is not a scalar.*shape \(2, 3\)"
    with pytest.raises(cf.GradientError, match=scalar):
        run(lambda t: grad(t * 2.0, t), x)
    with pytest.raises(cf.GradientError, match=r"has shape \(3,\).*has shape \(2, 3\)"):
        run(lambda t: grad(t * 2.0, t, cf.ones(3)), x)
    assert_close(run(lambda t: grad(t, t, cf.ones(2, 3))[0], x), np.ones((2, 3)))


def product(a: Any, b: Any) -> Any:
    """For tests of rules."""
    return a * b


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda g, a: (g * a,), "rule of product returned 1 gradients for 2 inputs"),
        (
            lambda g, a: (g * a, (g * a)[:1]),
            r"rule of product gave (float\d\d)\[1\](?: on \w+)? for an input \1\[2\]",
        ),
    ],
    ids=["too few", "wrong shape"],
)
def test_line_11_wrong_gradients_are_errors_that_name_the_op(
    run: Trial, rule: Any, message: str
) -> None:
    with temporary(elementwise, product, ref=np.multiply, vjp={"a, b": rule}) as op:  # noqa: SIM117
        with pytest.raises(cf.GradientError, match=message):
            run(lambda a, b: grad(op(a, b).sum(), [a, b]), run.leaf(1.0, 2.0), run.leaf(3.0, 4.0))


@eager_alone
def test_line_11_a_custom_function_names_the_users_line(run: Trial) -> None:
    class Wrong(cf.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return g[:1]

    y = Wrong.apply(run.leaf(1.0, 2.0))  # applied
    with refused(
        cf.GradientError,
        f"Wrong.backward: returned {run.real}[1]{run.there} for argument 0 of Wrong.apply at ",
        f"{place('applied')}, which is {run.real}[2].",
    ):
        y.sum().backward()


def test_line_12_hooks_may_replace_the_gradient_and_run_in_order(run: Trial) -> None:
    w = run.leaf(2.0)
    w.register_hook(lambda g: g + 1.0)
    removed = w.register_hook(lambda g: g * 1000.0)
    removed.remove()
    w.register_hook(lambda g: g * 10.0)
    seen: list[Any] = []

    def after(t: Tensor) -> None:
        seen.append(t is w)
        t.grad = t.grad * 2.0

    w.register_post_accumulate_grad_hook(after)

    def step(x: Tensor) -> Tensor:
        w.grad = None
        (w * x).backward()
        return w.grad

    assert_close(run(step, run.tensor([3.0])), np.array([80.0]))
    assert set(seen) == {True}  # a replay repeats what the hook did to lists and tensors


@thresholds.using(parallel_backward=0)
def test_line_13_parallel_backward(run: Trial) -> None:
    rng = np.random.default_rng(0)
    w = cf.tensor(rng.standard_normal((5, 5)).astype(np.float32), requires_grad=True)
    x = cf.tensor(rng.standard_normal((3, 5)).astype(np.float32))

    def step(workers: int) -> Any:
        def inner(t: Tensor) -> Tensor:
            w.grad = None
            branches = [((t * float(k)) @ w).tanh() @ w for k in range(12)]
            sum(b.sum() for b in branches).backward(workers=workers)
            return w.grad

        return inner

    one, four = run(step(1), x), run(step(4), x)
    assert one.fetched().tobytes() == four.fetched().tobytes()


@eager_alone
@thresholds.using(parallel_backward=0)
def test_line_13_an_error_in_one_branch_surfaces(run: Trial) -> None:
    x = run.leaf(1.0)
    branches = [(x * float(k)).sin() for k in range(8)]
    branches[2].register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        sum(branches).backward(workers=4)
    assert x.grad is None


@pytest.mark.parametrize("dtype", [cf.float16, cf.bfloat16, cf.float32, cf.float64], ids=str)
def test_line_14_accumulation_keeps_the_dtype_and_touches_no_buffer_of_others(
    run: Trial, dtype: Any
) -> None:
    if str(dtype) in run.limits.lacks:
        pytest.skip(f"{run.device} does not have {dtype}")
    x, y = (cf.ones(3, dtype=dtype, requires_grad=True) for _ in range(2))
    seed = cf.ones(3, dtype=dtype)

    def step(g: Tensor) -> tuple[Tensor, Tensor]:
        x.grad = y.grad = None
        z = x + y
        z.backward(g)
        (x * 3.0 + x).backward(g)
        with cf.no_grad():
            x.grad.add_(1.0)
        return x.grad, y.grad

    gx, gy = run(step, seed)
    assert gx.dtype is gy.dtype is dtype
    assert_close(gx.cpu().double(), np.full(3, 6.0))
    assert_close(gy.cpu().double(), np.ones(3))
    assert_close(seed.cpu().double(), np.ones(3))
