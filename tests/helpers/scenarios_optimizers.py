"""Scenarios of optimizers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.helpers import update_rules
from tests.helpers.scenario import EagerFile, plain

import contraflow as cf
from contraflow.optim import LBFGS, SGD, Adafactor, Adam, AdamW, Muon, Optimizer

Tensor = cf.Tensor
f32 = cf.float32

optimizers = EagerFile("test_optim")


def optimized(make: Callable[[list[Tensor]], Optimizer], *shape: int, dtype: Any = f32) -> Any:
    """Steps on a quadratic whose minimum is the argument."""
    p = cf.tensor(np.random.default_rng(2).standard_normal(shape), dtype=dtype, requires_grad=True)
    optimizer = make([p])

    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = ((p - x) * (p - x) * 1.5).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, [p, optimizer]


for number, (kind, options) in enumerate(update_rules.CASES):

    def an_optimizer(kind: Any = kind, options: Any = options) -> Any:
        return optimized(lambda ps: kind(ps, **options), 3, 4, dtype=cf.float64)

    an_optimizer.__name__ = f"{kind.__name__} {number}"
    optimizers(
        "trajectory", "trajectory_with_symbolic_scalars", "small_network_learns", plain(3, 4),
        state=True,
    )(an_optimizer)  # fmt: skip

for kind in update_rules.REFERENCES:

    def a_number(kind: Any = kind) -> Any:
        return optimized(lambda ps: kind(ps, lr=0.125), dtype=cf.float64)

    a_number.__name__ = f"{kind.__name__} of a number"
    optimizers("zero_dimensional_and_half_parameters", plain(), state=True)(a_number)


@optimizers(
    "parameters_without_gradient_are_skipped", plain(2, dtype=f32), state=True,
)  # fmt: skip
def a_parameter_without_gradient() -> Any:
    p, q = (cf.ones(2, requires_grad=True) for _ in range(2))
    optimizer = Adam([p, q], lr=0.1, weight_decay=0.1)

    def step(x: Tensor) -> None:
        optimizer.zero_grad()
        (p * x).sum().backward()
        optimizer.step()

    return step, [p, q, optimizer]


@optimizers("closure_runs_with_gradients", plain(2, dtype=f32), state=True)
def a_closure() -> Any:
    p = cf.ones(2, requires_grad=True)
    optimizer = SGD([p], lr=0.25)

    def step(x: Tensor) -> Tensor:
        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = (p * p * x).sum()
            loss.backward()
            return loss

        with cf.no_grad():
            return optimizer.step(closure).detach()

    return step, [p, optimizer]


@optimizers("zero_grad", plain(2, dtype=f32), state=True)
def gradients_of_an_optimizer_set_to_zero() -> Any:
    p = cf.ones(2, requires_grad=True)
    optimizer = SGD([p])

    def step(x: Tensor) -> Tensor:
        (p * x).sum().backward()
        kept = p.grad.clone()
        optimizer.zero_grad(set_to_none=False)
        return kept

    return step, [p]


@optimizers("parameter_put_into_the_list", plain(2, dtype=f32), state=True)
def a_parameter_put_into_the_list() -> Any:
    p, q = (cf.ones(2, requires_grad=True) for _ in range(2))
    optimizer = Adam([p], lr=0.5)
    optimizer.param_groups[0]["params"].append(q)

    def step(x: Tensor) -> None:
        (q * x).sum().backward()
        optimizer.step()

    return step, [p, q, optimizer]


@optimizers("own_optimizer", plain(2), state=True)
def own_optimizer() -> Any:
    class Sign(Optimizer):
        """Steps of a fixed size."""

        def __init__(self, params: Any, lr: float) -> None:
            super().__init__(params, {"lr": lr})

        def update(self, group: Any, updated: Any) -> None:
            for p, g, _ in updated:
                p.sub_(g.sign() * group["lr"])

    return optimized(lambda ps: Sign(ps, 0.25), 2, dtype=cf.float64)


@optimizers("groups_differ_in_their_numbers", plain(2, dtype=f32), state=True)
def groups_of_parameters() -> Any:
    p, q = (cf.ones(2, requires_grad=True) for _ in range(2))
    optimizer = SGD([{"params": [p]}, {"params": [q], "lr": 0.5, "momentum": 0.9}], lr=0.1)

    def step(x: Tensor) -> None:
        optimizer.zero_grad()
        (p * q * x).sum().backward()
        optimizer.step()

    return step, [p, q, optimizer]


@optimizers("adafactor_keeps_a_row_and_a_column_of_a_matrix", plain(3), state=True)
def rows_and_columns_of_squares() -> Any:
    p, v = (cf.ones(*shape, requires_grad=True, dtype=cf.float64) for shape in ((4, 3), (3,)))
    optimizer = Adafactor([p, v], lr=0.1)

    def step(x: Tensor) -> None:
        optimizer.zero_grad()
        (p * p * x + v * v).sum().backward()
        optimizer.step()

    return step, [p, v, optimizer]


for choice in ("capturable", "foreach", "fused"):

    def an_implementation(choice: str = choice) -> Any:
        return optimized(lambda ps: AdamW(ps, lr=0.1, **{choice: True}), 3, 4, dtype=cf.float64)

    an_implementation.__name__ = f"AdamW {choice}"
    optimizers("choices_among_implementations_change_nothing", plain(3, 4), state=True)(
        an_implementation
    )


@optimizers("numbers_are_written_into_the_same_cell", plain(2), state=True)
def a_learning_rate_that_falls() -> Any:
    step, (p, optimizer) = optimized(lambda ps: Adam(ps, lr=0.1), 2, dtype=cf.float64)

    def with_schedule(x: Tensor) -> Tensor:
        loss = step(x)
        group = optimizer.param_groups[0]
        group["lr"] = group["lr"] * 0.5
        return loss

    return with_schedule, [p, optimizer]


def changed_between_calls(change: Callable[[Optimizer], Any], kind: Any = Adam) -> Any:
    """Steps of which the second comes after a change."""
    step, state = optimized(lambda ps: kind(ps, lr=0.1), 2, dtype=cf.float64)
    return step, state, lambda number: number == 1 and change(state[1])


@optimizers("use_of_a_number_is_structure_once_it_was_asked_for", plain(2), state=True)
def weight_decay_switched_on() -> Any:
    return changed_between_calls(lambda o: o.param_groups[0].update(weight_decay=0.1, lr=0.01))


@optimizers("momentum_switched_on_later", plain(2), state=True)
def momentum_switched_on() -> Any:
    return changed_between_calls(lambda o: o.param_groups[0].update(momentum=0.5), SGD)


@optimizers(
    "load_state_dict_writes_into_what_is_there", "state_dict_round_trip", plain(2), state=True
)
def state_loaded_between_calls() -> Any:
    _, (_, other) = optimized(lambda ps: Adam(ps, lr=0.3), 2, dtype=cf.float64)
    saved = other.state_dict()
    saved["state"][0].update(step=4, exp_avg=cf.ones(2, dtype=cf.float64))
    return changed_between_calls(lambda o: o.load_state_dict(saved))


@optimizers("loading_counters_that_differ", plain(2, dtype=f32), state=True)
def counters_that_differ() -> Any:
    p, q = (cf.ones(2, requires_grad=True) for _ in range(2))
    optimizer = Adam([p, q], lr=0.1)
    saved = copy.deepcopy(optimizer.state_dict())
    saved["state"][0]["step"], saved["state"][1]["step"] = 5, 3

    def step(x: Tensor) -> None:
        optimizer.zero_grad()
        (p * q * x).sum().backward()
        optimizer.step()

    return (
        step, [p, q, optimizer], lambda number: number == 1 and optimizer.load_state_dict(saved)
    )  # fmt: skip


@optimizers(
    "parameters_share_their_counters_until_one_stays_behind", plain(2, dtype=f32), state=True
)
def one_counter_stays_behind() -> Any:
    p, q = (cf.ones(2, requires_grad=True) for _ in range(2))
    optimizer = Adam([p, q], lr=0.1)

    def step(x: Tensor) -> None:
        optimizer.zero_grad()
        (p * q * x).sum().backward()
        optimizer.step()
        q.grad = None
        optimizer.step()

    return step, [p, q, optimizer]


@optimizers("muon", plain(4, 3), state=True, through=cf.bfloat16)
def muon() -> Any:
    return optimized(lambda ps: Muon(ps, lr=0.02), 4, 3, dtype=cf.float64)


@optimizers(
    "lbfgs_finds_the_minimum", plain(3), state=True,
    refuses="LBFGS.step decides by the values of the loss",
)  # fmt: skip
def steps_that_read_values() -> Any:
    p = cf.ones(3, dtype=cf.float64, requires_grad=True)
    optimizer = LBFGS([p], max_iter=2)

    def step(x: Tensor) -> Tensor:
        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = ((p - x) * (p - x)).sum()
            loss.backward()
            return loss

        return optimizer.step(closure).detach()

    return step, [p]


@optimizers("gradient_that_does_not_fit", plain(2, dtype=f32), raises=ValueError, state=True)
def a_gradient_of_another_shape() -> Any:
    p = cf.ones(2, requires_grad=True)
    optimizer = SGD([p])
    p.grad = cf.ones(2)
    p.data = cf.ones(3, dtype=cf.float64)
    return lambda x: optimizer.step(), [p]
