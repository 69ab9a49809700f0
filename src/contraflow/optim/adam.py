"""Adam and AdamW: steps scaled by running means of the gradient and of its square."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from contraflow.hostscalar import HostScalar
from contraflow.ops.create import zeros_like
from contraflow.ops.elementwise import maximum, sqrt
from contraflow.optim.optimizer import Optimizer, ParamGroup, State, Updated, check_not_negative
from contraflow.tensor import Tensor


class Adam(Optimizer):
    """p -= lr * mean / (sqrt(mean of squares) + eps), the means freed of their bias towards 0.

    `weight_decay` adds to the gradient, as in PyTorch; AdamW shrinks the parameters themselves.

    >>> import contraflow as cf
    >>> p = cf.ones(2, requires_grad=True)
    >>> (p * p).sum().backward()
    >>> cf.optim.Adam([p], lr=0.5).step()
    >>> p
    tensor([0.5000, 0.5000], requires_grad=True)
    """

    _decoupled = False  # whether weight decay leaves the gradient alone

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay,
                "amsgrad": amsgrad, "maximize": maximize,
            },
        )  # fmt: skip

    def check_group(self, group: Mapping[str, Any]) -> None:
        name = type(self).__name__
        check_not_negative(name, group, "lr", "eps", "weight_decay")
        if len(group["betas"]) != 2 or not all(0 <= beta < 1 for beta in group["betas"]):
            raise ValueError(
                f"{name}: betas are {group['betas']}; they must be two numbers, at least 0 and "
                f"below 1."
            )

    def initial_state(self, parameter: Tensor, group: ParamGroup) -> State:
        state: State = {
            "step": HostScalar(0),
            "exp_avg": zeros_like(parameter),
            "exp_avg_sq": zeros_like(parameter),
        }
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = zeros_like(parameter)
        return state

    def update(self, group: ParamGroup, updated: list[Updated]) -> None:
        lr, (beta1, beta2), eps = group["lr"], group["betas"], group["eps"]
        weight_decay = group["weight_decay"]
        for p, g, state in updated:
            step = state["step"]
            step.set(step.get() + 1)
            count = step.get()
            if group["maximize"]:
                g = -g
            if group.uses("weight_decay"):
                if self._decoupled:
                    p.mul_(1 - lr * weight_decay)
                else:
                    g = g + p * weight_decay
            mean, square = state["exp_avg"], state["exp_avg_sq"]
            mean.add_((g - mean) * (1 - beta1))
            square.copy_(square * beta2 + g * g * (1 - beta2))
            if group["amsgrad"]:
                largest = state["max_exp_avg_sq"]
                square = largest.copy_(maximum(largest, square))
            # With c = sqrt(1 - beta2^t), lr / (1 - beta1^t) * mean / (sqrt(square) / c + eps) is
            # written so that numbers meet numbers and each element takes one factor less.
            c = (1 - beta2**count) ** 0.5
            p.sub_(mean / (sqrt(square) + eps * c) * (lr * c / (1 - beta1**count)))


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameters and leaves the gradient alone."""

    _decoupled = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)
