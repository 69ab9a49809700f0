"""Initial values of parameters, drawn from contraflow's generator: `manual_seed` makes them repeat.

Every function writes into the tensor, outside the graph, and returns it.
"""

from __future__ import annotations

import math

from contraflow.autograd.modes import no_grad
from contraflow.errors import describe
from contraflow.ops.random import rand, randn
from contraflow.random import Generator
from contraflow.shapes import numel
from contraflow.tensor import Tensor


@no_grad()
def uniform_(
    tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Numbers uniform in [a, b)."""
    drawn = rand(tensor.shape, dtype=tensor.dtype, generator=generator)
    return tensor.copy_(drawn.mul_(b - a).add_(a))


@no_grad()
def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Normal numbers of a mean and a standard deviation."""
    drawn = randn(tensor.shape, dtype=tensor.dtype, generator=generator)
    return tensor.copy_(drawn.mul_(std).add_(mean))


@no_grad()
def constant_(tensor: Tensor, val: float) -> Tensor:
    """One value throughout."""
    return tensor.fill_(val)


def zeros_(tensor: Tensor) -> Tensor:
    """Zeros."""
    return constant_(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """Ones."""
    return constant_(tensor, 1.0)


def xavier_uniform_(
    tensor: Tensor, gain: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Uniform numbers that keep the variance, forward and backward (Glorot and Bengio, 2010)."""
    bound = gain * math.sqrt(6.0 / max(1, sum(fans("xavier_uniform_", tensor))))
    return uniform_(tensor, -bound, bound, generator)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Uniform numbers that keep the variance through a nonlinearity (He et al., 2015).

    `a` is the negative slope of a leaky_relu; `mode` keeps it forward (fan_in) or backward
    (fan_out).
    """
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"kaiming_uniform_: mode is {mode!r}; it must be 'fan_in' or 'fan_out'.")
    fan_in, fan_out = fans("kaiming_uniform_", tensor)
    fan = fan_in if mode == "fan_in" else fan_out
    bound = calculate_gain(nonlinearity, a) * math.sqrt(3.0 / max(1, fan))
    return uniform_(tensor, -bound, bound, generator)


_GAINS = {
    "linear": 1.0, "conv2d": 1.0, "sigmoid": 1.0, "tanh": 5.0 / 3, "relu": math.sqrt(2.0),
    "selu": 0.75,
}  # fmt: skip


def affine_(weight: Tensor, bias: Tensor | None) -> None:
    """What Linear and convolutions start with: both uniform within 1 / sqrt(inputs per output)."""
    kaiming_uniform_(weight, a=math.sqrt(5))  # this slope makes the bound 1 / sqrt(fan_in)
    if bias is not None:
        fan_in, _ = fans("reset_parameters", weight)
        bound = 1 / math.sqrt(fan_in) if fan_in else 0.0
        uniform_(bias, -bound, bound)


def calculate_gain(nonlinearity: str, param: float = 0.01) -> float:
    """The factor that makes up for what a nonlinearity takes from the standard deviation."""
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1 + param**2))
    if nonlinearity not in _GAINS:
        known = ", ".join(sorted({*_GAINS, "leaky_relu"}))
        raise ValueError(f"calculate_gain: {nonlinearity!r} is unknown. Known: {known}.")
    return _GAINS[nonlinearity]


def fans(name: str, weight: Tensor) -> tuple[int, int]:
    """How many inputs an output of a weight [out, in, ...] has, and how many outputs an input."""
    if weight.ndim < 2:
        raise ValueError(f"{name}: {describe(weight)} has fewer than two dims, so it has no fans.")
    field = numel(weight.shape[2:])
    return weight.shape[1] * field, weight.shape[0] * field
