"""Muon: momentum made orthogonal, for the matrices of hidden layers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from contraflow.dtypes import bfloat16, float32
from contraflow.errors import describe
from contraflow.ops.creation.create import zeros_like
from contraflow.ops.elementwise.basic import maximum, sqrt
from contraflow.optim.optimizer import (
    Optimizer,
    OptimizerState,
    ParamGroup,
    Updated,
    check_not_negative,
)
from contraflow.tensors.tensor import Tensor

_ADJUSTMENTS = (None, "original", "match_rms_adamw")


class Muon(Optimizer):
    """p -= lr * O, where O has the singular vectors of the momentum and singular values near 1.

    O comes from `ns_steps` steps of a Newton-Schulz iteration in bfloat16. `adjust_lr_fn` says how
    the rate depends on the shape: "original" keeps the change of outputs, "match_rms_adamw" gives
    steps of AdamW's size. Biases, norms and embeddings belong to another optimizer.

    >>> import contraflow as cf
    >>> w = cf.nn.Parameter(cf.eye(2))
    >>> optimizer = cf.optim.Muon([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> bool((w.diagonal() < 1).all())
    True
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr, "weight_decay": weight_decay, "momentum": momentum,
                "nesterov": nesterov, "ns_coefficients": tuple(ns_coefficients), "eps": eps,
                "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn,
            },
        )  # fmt: skip

    def check_group(self, group: Mapping[str, Any]) -> None:
        check_not_negative("Muon", group, "lr", "weight_decay", "momentum", "ns_steps")
        if len(group["ns_coefficients"]) != 3:
            raise ValueError(
                f"Muon: ns_coefficients are {group['ns_coefficients']}; they must be three numbers."
            )
        if group["adjust_lr_fn"] not in _ADJUSTMENTS:
            raise ValueError(
                f"Muon: adjust_lr_fn is {group['adjust_lr_fn']!r}; it must be one of "
                f"{', '.join(map(repr, _ADJUSTMENTS))}."
            )
        for p in group["params"]:
            if p.ndim != 2:
                raise ValueError(
                    f"Muon: {describe(p)} is not a matrix. Give it to another optimizer, AdamW for "
                    f"instance."
                )

    def initial_state(self, parameter: Tensor, group: ParamGroup) -> OptimizerState:
        return {"momentum_buffer": zeros_like(parameter)}

    def update(self, group: ParamGroup, updated: list[Updated]) -> None:
        lr, momentum = group["lr"], group["momentum"]
        for p, g, state in updated:
            velocity = state["momentum_buffer"]
            velocity.add_((g - velocity) * (1 - momentum))
            followed = g + (velocity - g) * momentum if group["nesterov"] else velocity
            step = _orthogonal(
                followed, group["ns_coefficients"], group.fixed("ns_steps"), group["eps"]
            )
            size = lr * _adjustment(group["adjust_lr_fn"], p.shape)
            p.copy_(p * (1 - lr * group["weight_decay"]) - step * size)


def _orthogonal(x: Tensor, coefficients: Sequence[Any], steps: int, eps: Any) -> Tensor:
    """The matrix with its singular values s taken to about 1 by s -> a s + b s^3 + c s^5."""
    a, b, c = coefficients
    tall = x.shape[0] > x.shape[1]
    x = _rounded(x.mT if tall else x)
    # The Frobenius norm bounds the largest singular value, above which the iteration diverges.
    x = _rounded(x / maximum(_rounded(sqrt((x * x).sum())), eps))
    for _ in range(steps):
        gram = _rounded(x @ x.mT)
        x = _rounded(x * a + _rounded(gram * b + gram @ gram * c) @ x)
    return x.mT if tall else x


def _rounded(x: Tensor) -> Tensor:
    """To the precision of bfloat16, once for each product and its sum, as matrix units do."""
    return x.to(bfloat16).to(float32)


def _adjustment(kind: str | None, shape: Sequence[int]) -> float:
    rows, columns = shape
    if kind == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1.0, rows / columns))
