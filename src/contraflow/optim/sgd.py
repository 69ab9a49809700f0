"""Stochastic gradient descent: SGD with momentum, and averaged SGD."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from contraflow.ops.creation.create import zeros_like
from contraflow.optim.optimizer import (
    Implementation,
    Optimizer,
    OptimizerState,
    ParamGroup,
    Updated,
    check_implementation,
    check_not_negative,
    choose,
    directed,
    together,
)
from contraflow.tensors.host_scalar import StepScalar
from contraflow.tensors.tensor import Tensor


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
        **implementation: Unpack[Implementation],
    ) -> None:
        check_implementation("SGD", implementation)
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

    def initial_state(self, parameter: Tensor, group: ParamGroup) -> OptimizerState:
        if not group.uses("momentum"):
            return {}
        state: OptimizerState = {"momentum_buffer": zeros_like(parameter)}
        if group.uses("dampening"):
            state["step"] = StepScalar(0)
        return state

    def begin_anew(self, parameter: Tensor, name: str | None = None) -> None:
        if name == "momentum_buffer":  # the counter tells whether there was a gradient yet
            super().begin_anew(parameter, "step")
        super().begin_anew(parameter, name)

    def update(self, group: ParamGroup, updated: list[Updated]) -> None:
        if group.uses("momentum") and group.uses("dampening"):
            for state, members in together(updated):
                # The first gradient is not damped.
                self._follow(group, members, 1 - group["dampening"] * (state["step"].get() > 1))
        else:
            self._follow(group, updated, None)

    def _follow(self, group: ParamGroup, updated: list[Updated], share: Any) -> None:
        """Go against gradients, of which a share becomes momentum; None is all."""
        lr, momentum = group["lr"], group["momentum"]
        for p, g, state in updated:
            g = directed(group, p, g)
            if group.uses("momentum"):
                velocity = state["momentum_buffer"]
                velocity.copy_(velocity * momentum + (g if share is None else g * share))
                g = g + velocity * momentum if group["nesterov"] else velocity
            p.sub_(g * lr)


class ASGD(Optimizer):
    """Averaged stochastic gradient descent: `ax` in the state is the mean from step `t0` on.

    >>> import contraflow as cf
    >>> w = cf.nn.Parameter(cf.tensor([1.0]))
    >>> optimizer = cf.optim.ASGD([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.item() < 1
    True
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        **implementation: Unpack[Implementation],
    ) -> None:
        check_implementation("ASGD", implementation)
        super().__init__(
            params,
            {
                "lr": lr, "lambd": lambd, "alpha": alpha, "t0": float(t0),
                "weight_decay": weight_decay, "maximize": maximize,
            },
        )  # fmt: skip

    def check_group(self, group: Mapping[str, Any]) -> None:
        check_not_negative("ASGD", group, "lr", "weight_decay")

    def initial_state(self, parameter: Tensor, group: ParamGroup) -> OptimizerState:
        return {
            "step": StepScalar(0),
            "eta": StepScalar(float(group["lr"])),
            "mu": StepScalar(1.0),
            "ax": zeros_like(parameter),
        }

    def update(self, group: ParamGroup, updated: list[Updated]) -> None:
        lr, lambd = group["lr"], group["lambd"]
        for state, members in together(updated):
            count, eta, mu = (state[name].get() for name in ("step", "eta", "mu"))
            for p, g, own in members:
                g = directed(group, p, g)
                p.copy_(p * (1 - lambd * eta) - g * eta)
                mean = own["ax"]
                mean.copy_(choose(mu == 1, p, mean + (p - mean) * mu))
            beyond = count - group["t0"]
            state["eta"].set(lr / (1 + lambd * lr * count) ** group["alpha"])
            state["mu"].set(1 / choose(beyond > 1, beyond, 1.0))
