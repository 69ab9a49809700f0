"""Optimizers that scale steps by past squared gradients: Adagrad, Adadelta and RMSprop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from contraflow.ops.creation.create import full_like, zeros_like
from contraflow.ops.elementwise.basic import sqrt
from contraflow.optim.optimizer import (
    Implementation,
    Optimizer,
    OptimizerState,
    ParamGroup,
    Updated,
    check_implementation,
    check_not_negative,
    directed,
    together,
)
from contraflow.tensors.host_scalar import StepScalar
from contraflow.tensors.tensor import Tensor


class Adagrad(Optimizer):
    """p -= lr * gradient / (sqrt(sum of squares) + eps), with a rate that decays by `lr_decay`.

    >>> import contraflow as cf
    >>> w = cf.nn.Parameter(cf.tensor([1.0]))
    >>> optimizer = cf.optim.Adagrad([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.item() < 1
    True
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        *,
        maximize: bool = False,
        **implementation: Unpack[Implementation],
    ) -> None:
        check_implementation("Adagrad", implementation)
        super().__init__(
            params,
            {
                "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
                "initial_accumulator_value": initial_accumulator_value, "maximize": maximize,
            },
        )  # fmt: skip

    def check_group(self, group: Mapping[str, Any]) -> None:
        check_not_negative(
            "Adagrad", group, "lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps"
        )

    def initial_state(self, parameter: Tensor, group: ParamGroup) -> OptimizerState:
        start = group["initial_accumulator_value"]
        return {"step": StepScalar(0), "sum": full_like(parameter, start)}

    def update(self, group: ParamGroup, updated: list[Updated]) -> None:
        for state, members in together(updated):
            size = group["lr"] / (1 + (state["step"].get() - 1) * group["lr_decay"])
            for p, g, own in members:
                g = directed(group, p, g)
                total = own["sum"].add_(g * g)
                p.sub_(g / (sqrt(total) + group["eps"]) * size)


class Adadelta(Optimizer):
    """Steps with the units of the parameters: the gradient times sqrt(mean square of steps) /
    sqrt(mean square of gradients).

    >>> import contraflow as cf
    >>> w = cf.nn.Parameter(cf.tensor([1.0]))
    >>> optimizer = cf.optim.Adadelta([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.item() < 1
    True
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        **implementation: Unpack[Implementation],
    ) -> None:
        check_implementation("Adadelta", implementation)
        super().__init__(
            params,
            {
                "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay,
                "maximize": maximize,
            },
        )  # fmt: skip

    def check_group(self, group: Mapping[str, Any]) -> None:
        check_not_negative("Adadelta", group, "lr", "eps", "weight_decay")
        if not 0 <= group["rho"] <= 1:
            raise ValueError(f"Adadelta: rho is {group['rho']}; it must be from 0 to 1.")

    def initial_state(self, parameter: Tensor, group: ParamGroup) -> OptimizerState:
        return {
            "step": StepScalar(0),
            "square_avg": zeros_like(parameter),
            "acc_delta": zeros_like(parameter),
        }

    def update(self, group: ParamGroup, updated: list[Updated]) -> None:
        lr, rho, eps = group["lr"], group["rho"], group["eps"]
        for _, members in together(updated):
            for p, g, own in members:
                g = directed(group, p, g)
                square, moved = own["square_avg"], own["acc_delta"]
                square.copy_(square * rho + g * g * (1 - rho))
                step = sqrt(moved + eps) / sqrt(square + eps) * g
                moved.copy_(moved * rho + step * step * (1 - rho))
                p.sub_(step * lr)


class RMSprop(Optimizer):
    """p -= lr * gradient / (sqrt(mean of squares) + eps), or momentum of these steps.

    `centered` subtracts the square of the mean gradient: the variance in place of the mean square.

    >>> import contraflow as cf
    >>> w = cf.nn.Parameter(cf.tensor([1.0]))
    >>> optimizer = cf.optim.RMSprop([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.item() < 1
    True
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        *,
        maximize: bool = False,
        **implementation: Unpack[Implementation],
    ) -> None:
        check_implementation("RMSprop", implementation)
        super().__init__(
            params,
            {
                "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
                "weight_decay": weight_decay, "maximize": maximize,
            },
        )  # fmt: skip

    def check_group(self, group: Mapping[str, Any]) -> None:
        check_not_negative("RMSprop", group, "lr", "eps", "momentum", "weight_decay", "alpha")

    def initial_state(self, parameter: Tensor, group: ParamGroup) -> OptimizerState:
        state: OptimizerState = {"step": StepScalar(0), "square_avg": zeros_like(parameter)}
        if group.uses("momentum"):
            state["momentum_buffer"] = zeros_like(parameter)
        if group["centered"]:
            state["grad_avg"] = zeros_like(parameter)
        return state

    def update(self, group: ParamGroup, updated: list[Updated]) -> None:
        lr, alpha, eps = group["lr"], group["alpha"], group["eps"]
        for _, members in together(updated):
            for p, g, own in members:
                g = directed(group, p, g)
                square = own["square_avg"]
                square.copy_(square * alpha + g * g * (1 - alpha))
                variance = square
                if group["centered"]:
                    mean = own["grad_avg"]
                    mean.add_((g - mean) * (1 - alpha))
                    variance = square - mean * mean
                step = g / (sqrt(variance) + eps)
                if group.uses("momentum"):
                    velocity = own["momentum_buffer"]
                    step = velocity.copy_(velocity * group["momentum"] + step)
                p.sub_(step * lr)
