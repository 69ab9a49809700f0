"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from contraflow.hostscalar import HostScalar
from contraflow.ops.create import zeros_like
from contraflow.optim.optimizer import Optimizer, ParamGroup, State, Updated, check_not_negative
from contraflow.tensor import Tensor


class SGD(Optimizer):
    """p -= lr * v, where v is the gradient or, with momentum, v = momentum * v + gradient.

    >>> import contraflow as cf
    >>> p = cf.ones(2, requires_grad=True)
    >>> (p * p).sum().backward()
    >>> cf.optim.SGD([p], lr=0.25).step()
    >>> p
    tensor([0.5000, 0.5000], requires_grad=True)
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr, "momentum": momentum, "dampening": dampening,
                "weight_decay": weight_decay, "nesterov": nesterov, "maximize": maximize,
            },
        )  # fmt: skip

    def check_group(self, group: Mapping[str, Any]) -> None:
        check_not_negative("SGD", group, "lr", "momentum", "weight_decay")
        if group["nesterov"] and (group["momentum"] == 0 or group["dampening"] != 0):
            raise ValueError(
                f"SGD: nesterov needs a momentum and no dampening, not momentum="
                f"{group['momentum']} and dampening={group['dampening']}."
            )

    def initial_state(self, parameter: Tensor, group: ParamGroup) -> State:
        if not group.uses("momentum"):
            return {}
        state: State = {"momentum_buffer": zeros_like(parameter)}
        if group.uses("dampening"):
            state["step"] = HostScalar(0)
        return state

    def update(self, group: ParamGroup, updated: list[Updated]) -> None:
        lr, momentum, dampening = group["lr"], group["momentum"], group["dampening"]
        for p, g, state in updated:
            if group["maximize"]:
                g = -g
            if group.uses("weight_decay"):
                g = g + p * group["weight_decay"]
            if group.uses("momentum"):
                velocity = state["momentum_buffer"]
                fresh = g
                if group.uses("dampening"):
                    step = state["step"]
                    # The first gradient is not damped.
                    fresh = g * (1 - dampening * (step.get() > 0))
                    step.set(step.get() + 1)
                velocity.copy_(velocity * momentum + fresh)
                g = g + velocity * momentum if group["nesterov"] else velocity
            p.sub_(g * lr)
