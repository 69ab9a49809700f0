"""Adafactor: the squares of gradients of a matrix as the product of a row and a column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from contraflow.dtypes import finfo
from contraflow.ops.creation.create import zeros, zeros_like
from contraflow.ops.elementwise.basic import maximum, rsqrt, sqrt
from contraflow.optim.optimizer import (
    Optimizer,
    OptimizerState,
    ParamGroup,
    Updated,
    check_not_negative,
    choose,
    together,
)
from contraflow.tensors.host_scalar import StepScalar
from contraflow.tensors.tensor import Tensor


class Adafactor(Optimizer):
    """Steps of a relative size, against gradients scaled by factored means of their squares.

    The state of a matrix [..., n, m] is n + m numbers (Shazeer and Stern, 2018). `lr` bounds the
    size of a step relative to the parameter, `d` clips updates, `beta2_decay` says how long
    squares are remembered.

    >>> import contraflow as cf
    >>> p = cf.ones(2, 3, requires_grad=True)
    >>> (p * p).sum().backward()
    >>> cf.optim.Adafactor([p], lr=0.1).step()
    >>> p[0, 0]
    tensor(0.9000, grad_fn=<getitem>)
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr, "beta2_decay": beta2_decay, "eps": tuple(eps), "d": d,
                "weight_decay": weight_decay, "maximize": maximize,
            },
        )  # fmt: skip

    def check_group(self, group: Mapping[str, Any]) -> None:
        check_not_negative("Adafactor", group, "lr", "weight_decay")
        if group["beta2_decay"] > 0:
            raise ValueError(
                f"Adafactor: beta2_decay is {group['beta2_decay']}; it must not be positive."
            )
        if group["d"] < 1:
            raise ValueError(f"Adafactor: d is {group['d']}; it must be at least 1.")

    def initial_state(self, parameter: Tensor, group: ParamGroup) -> OptimizerState:
        state: OptimizerState = {"step": StepScalar(0)}
        if parameter.ndim > 1:
            options: dict[str, Any] = {"dtype": parameter.dtype, "device": parameter.device}
            *lead, rows, columns = parameter.shape
            state["row_var"] = zeros(*lead, rows, 1, **options)
            state["col_var"] = zeros(*lead, 1, columns, **options)
        else:
            state["variance"] = zeros_like(parameter)
        return state

    def update(self, group: ParamGroup, updated: list[Updated]) -> None:
        lr, decay, largest = group["lr"], group["beta2_decay"], group["d"]
        least_square, least_size = group["eps"]
        for state, members in together(updated):
            count = state["step"].get()
            share = count**decay  # of the present square in the mean
            relative = 1.0 / count**0.5
            rate = choose(relative < lr, relative, lr)
            for p, g, own in members:
                g = -g if group["maximize"] else g
                tiny = finfo(p.dtype).eps if least_square is None else least_square
                size = sqrt((p * p).mean())
                alpha = maximum(size, least_size) * rate
                if group.uses("weight_decay"):
                    p.mul_(1 - lr * group["weight_decay"])
                change = _scaled(g, own, share, tiny)
                norm = sqrt((change * change).mean())
                p.sub_(change * (alpha / maximum(norm / largest, 1.0)))


def _scaled(g: Tensor, state: OptimizerState, share: Any, tiny: float) -> Tensor:
    """A gradient over the root of the running mean of its square, which is brought up to date."""
    if g.ndim == 1 or not g.ndim:
        mean = state["variance"]
        mean.copy_(mean + (g * g - mean) * share)
        out: Tensor = g * rsqrt(maximum(mean, tiny * tiny))
        return out
    rows, columns = state["row_var"], state["col_var"]
    square = g * g
    rows.copy_(rows + (square.mean(-1, keepdim=True) - rows) * share)
    columns.copy_(columns + (square.mean(-2, keepdim=True) - columns) * share)
    product = rows @ columns / maximum(rows.mean(-2, keepdim=True), tiny)
    scaled: Tensor = g * rsqrt(maximum(product, tiny * tiny))
    return scaled
