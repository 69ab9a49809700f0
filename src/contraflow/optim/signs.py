"""Optimizers that step by the signs of gradients: Lion and Rprop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from contraflow.ops.creation.create import full_like, zeros_like
from contraflow.ops.elementwise.basic import maximum, minimum, sign, where
from contraflow.optim.optimizer import (
    Implementation,
    Optimizer,
    OptimizerState,
    ParamGroup,
    Updated,
    check_betas,
    check_implementation,
    check_not_negative,
    directed,
    together,
)
from contraflow.tensors.host_scalar import StepScalar
from contraflow.tensors.tensor import Tensor


class Lion(Optimizer):
    """p -= lr * sign(beta1 * mean + (1 - beta1) * gradient); the mean decays by beta2.

    Steps are of one size, so the rate is a tenth of Adam's; `weight_decay` shrinks the parameters.

    >>> import contraflow as cf
    >>> p = cf.ones(2, requires_grad=True)
    >>> (p * p).sum().backward()
    >>> cf.optim.Lion([p], lr=0.25).step()
    >>> p
    tensor([0.7500, 0.7500], requires_grad=True)
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr, "betas": tuple(betas), "weight_decay": weight_decay,
                "maximize": maximize, "decoupled_weight_decay": True,
            },
        )  # fmt: skip

    def check_group(self, group: Mapping[str, Any]) -> None:
        check_not_negative("Lion", group, "lr", "weight_decay")
        check_betas("Lion", group)

    def initial_state(self, parameter: Tensor, group: ParamGroup) -> OptimizerState:
        return {"exp_avg": zeros_like(parameter)}

    def update(self, group: ParamGroup, updated: list[Updated]) -> None:
        lr, (beta1, beta2) = group["lr"], group["betas"]
        for p, g, state in updated:
            g = directed(group, p, g)
            mean = state["exp_avg"]
            p.sub_(sign(mean * beta1 + g * (1 - beta1)) * lr)
            mean.copy_(mean * beta2 + g * (1 - beta2))


class Rprop(Optimizer):
    """Steps whose sizes grow while a gradient keeps its sign, and shrink when it changes.

    >>> import contraflow as cf
    >>> w = cf.nn.Parameter(cf.tensor([1.0]))
    >>> optimizer = cf.optim.Rprop([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.item() < 1
    True
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50.0),
        *,
        maximize: bool = False,
        **implementation: Unpack[Implementation],
    ) -> None:
        check_implementation("Rprop", implementation)
        super().__init__(
            params,
            {
                "lr": lr, "etas": tuple(etas), "step_sizes": tuple(step_sizes),
                "maximize": maximize,
            },
        )  # fmt: skip

    def check_group(self, group: Mapping[str, Any]) -> None:
        check_not_negative("Rprop", group, "lr")
        less, more = group["etas"]
        if not 0 < less < 1 < more:
            raise ValueError(
                f"Rprop: etas are {group['etas']}; the first must be between 0 and 1, the second "
                f"above 1."
            )

    def initial_state(self, parameter: Tensor, group: ParamGroup) -> OptimizerState:
        return {
            "step": StepScalar(0),
            "prev": zeros_like(parameter),
            "step_size": full_like(parameter, group["lr"]),
        }

    def update(self, group: ParamGroup, updated: list[Updated]) -> None:
        (less, more), (smallest, largest) = group["etas"], group["step_sizes"]
        for _, members in together(updated):
            for p, g, own in members:
                g = -g if group["maximize"] else g
                size, before = own["step_size"], own["prev"]
                turned, kept = g * before < 0, g * before > 0
                scaled = where(turned, size * less, where(kept, size * more, size))
                size.copy_(minimum(maximum(scaled, smallest), largest))
                g = where(turned, 0.0, g)
                p.sub_(sign(g) * size)
                before.copy_(g)
