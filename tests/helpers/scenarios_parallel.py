"""Scenarios of parallel backward, and of what the originals promise."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.graph import test_parallel
from tests.helpers.scenario import EagerFile, leaf, parameters, plain

import contraflow as cf
from contraflow import nn
from contraflow.autograd import grad, saved_tensors_hooks

Tensor = cf.Tensor
F = nn.functional


# --- parallel backward -------------------------------------------------------------------------


parallel = EagerFile("test_parallel")

for (seed,) in parameters(test_parallel.test_seed_13_the_bits_equal_sequentials, 1)[:2]:

    def branches(w: Tensor, x: Tensor, seed: int = seed) -> None:
        rng, values = np.random.default_rng(seed), [x]
        for _ in range(30):
            a, b = (values[i] for i in rng.integers(0, len(values), 2))
            kinds = ((a @ w).tanh(), a * b, (a + b).sin(), cf.where(a > 0.0, a, b) * w[0])
            values.append(kinds[rng.integers(4)])
        loss = sum((v * v).mean() for v in values[15:]) + values[-1].split(2)[1].sum()
        loss.backward(workers=4)

    parallel.named(
        f"branches {seed}", "seed_13_the_bits_equal_sequentials", leaf(6, 6), plain(4, 6)
    )(branches)


@parallel("seed_13_leaves_shared_by_branches_accumulate_without_a_race", leaf(64))
def many_branches(x: Tensor) -> None:
    sum((x * float(k)).sum() for k in range(100)).backward(workers=8)


@parallel("seed_13_an_error_surfaces_and_nothing_hangs", leaf(16), raises=KeyError)
def an_error_in_a_branch(x: Tensor) -> None:
    def fail(g: Tensor) -> None:
        raise KeyError("in a branch")

    branches = [(x * float(k)).sin().exp() for k in range(10)]
    branches[3].register_hook(fail)
    sum(b.sum() for b in branches).backward(workers=4)


@parallel("hooks_run_one_at_a_time", leaf(8))
def hooks_in_branches(x: Tensor) -> list[int]:
    seen: list[int] = []
    branches = [(x * float(k)).sin() for k in range(20)]
    for k, branch in enumerate(branches):
        branch.register_hook(lambda g, k=k: seen.append(k) or g * 2.0)
        branch.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * 3.0,))
    sum(branches).sum().backward(workers=6)
    return seen


@parallel("workers_have_the_callers_state", leaf(1))
def hooks_on_saved_values_of_workers(x: Tensor) -> None:
    with saved_tensors_hooks(lambda t: t * 2.0, lambda t: t):
        sum((x * x * float(k)).sin() for k in range(30)).backward(workers=4)


@parallel("targets_checkpoints_and_several_orders", leaf(6, 6), leaf(6, 6))
def targets_and_checkpoints(v: Tensor, w: Tensor) -> Any:
    h = cf.ones(4, 6, dtype=cf.float64)
    for u in (v, w, v, w):
        h = cf.checkpoint(lambda a, b: cf.dropout((a @ b).tanh(), 0.5), h, u) + h
    middle = h * 2.0
    (middle * middle).sum().backward(inputs=[v, middle], workers=4, create_graph=True)
    first, v.grad = v.grad, None
    (first * first).sum().backward(workers=4)
    return first.detach(), middle.grad.detach()


@parallel("a_root_that_is_a_leaf_and_outputs_nobody_used", leaf(1), leaf(1, 2))
def leaves_as_roots(x: Tensor, z: Tensor) -> Any:
    x.backward(workers=2)
    values, _ = z.max(1)
    values.backward(workers=2)
    y = x * 2.0
    y.backward(inputs=[y], workers=2)
    return y.grad


# --- what the originals promise ----------------------------------------------------------------


flow, rules = EagerFile("test_seed_flow"), EagerFile("test_seed_rules")


@flow("line_02_a_chain", leaf(1))
def chain(x: Tensor) -> Any:
    y = x
    for _ in range(300):
        y = y * 1.0 + 0.5
    return grad(y, x)


@flow("line_11_a_custom_function_names_the_users_line", leaf(2), raises=cf.GradientError)
def a_wrong_custom_function(x: Tensor) -> None:
    class Wrong(cf.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return g[:1]

    Wrong.apply(x).sum().backward()


@flow("line_13_an_error_in_one_branch_surfaces", leaf(1), raises=ZeroDivisionError)
def a_division_by_zero_in_a_branch(x: Tensor) -> None:
    branches = [(x * float(k)).sin() for k in range(8)]
    branches[2].register_hook(lambda g: 1 / 0)
    sum(branches).backward(workers=4)


for name, function, shapes in (
    (
        "batch_norm", lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        [(5, 3), (3,), (3,)],
    ),
    ("conv2d", lambda x, w, b: F.conv2d(x, w, b), [(1, 2, 5, 5), (3, 2, 3, 3), (3,)]),
):  # fmt: skip
    rules.pure(
        name, "line_04_norms_and_convolutions_have_real_gradients", *(leaf(*s) for s in shapes)
    )(function)

for stride in (2, 3):
    rules.pure(
        f"conv2d with stride {stride}", "line_06_conv2d_whose_stride_does_not_divide_its_input",
        leaf(1, 2, 8, 6), leaf(2, 2, 3, 3),
    )(lambda x, w, stride=stride: F.conv2d(x, w, stride=stride))  # fmt: skip


@rules(
    "line_05_mse_loss_uses_the_incoming_gradient_and_differentiates_its_target", leaf(2), leaf(2)
)
def mean_square(x: Tensor, y: Tensor) -> Any:
    return grad(F.mse_loss(x, y) * 7.0, [x, y])


@rules("line_04_dropout_has_the_gradient_of_its_mask", leaf(100))
def gradient_of_dropout(x: Tensor) -> Any:
    y = F.dropout(x, 0.5, training=True)
    return y.detach(), grad(y.sum(), x)


@EagerFile("test_seed_graph")("line_09_is_recomputing_is_restored", leaf(1), raises=KeyError)
def a_recomputation_that_raises(x: Tensor) -> None:
    seen: list[bool] = []

    def function(v: Tensor) -> Tensor:
        seen.append(cf.is_recomputing())
        if len(seen) == 2:
            raise KeyError
        return v.sin()

    cf.checkpoint(function, x).backward()
