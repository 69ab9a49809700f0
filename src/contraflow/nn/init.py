"""Initial values of parameters, drawn from contraflow's generator: `manual_seed` makes them repeat.

Every function writes into the tensor, outside the graph, and returns it.
"""

from __future__ import annotations

import math

import numpy as np

from contraflow.autograd.modes import no_grad
from contraflow.errors import describe
from contraflow.names import getter
from contraflow.ops.creation.create import eye
from contraflow.ops.creation.data import as_tensor
from contraflow.ops.creation.random import rand, randn
from contraflow.ops.elementwise.arithmetic import clamp
from contraflow.ops.elementwise.basic import sign
from contraflow.ops.elementwise.mathematics import erfinv
from contraflow.ops.linalg.decompositions import qr
from contraflow.ops.reduction.order import argsort
from contraflow.ops.shape.parts import diagonal
from contraflow.ops.shape.view import reshape
from contraflow.shapes import numel
from contraflow.tensors.generator import Generator
from contraflow.tensors.tensor import Tensor


@no_grad()
def uniform_(
    tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Numbers uniform in [a, b).

    >>> import contraflow as cf
    >>> bool((cf.nn.init.uniform_(cf.empty(9)) >= 0).all())
    True
    """
    drawn = rand(tensor.shape, dtype=tensor.dtype, device=tensor.device, generator=generator)
    return tensor.copy_(drawn.mul_(b - a).add_(a))


@no_grad()
def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Normal numbers of a mean and a standard deviation.

    >>> import contraflow as cf
    >>> cf.nn.init.normal_(cf.empty(2, 3), std=0.02).shape
    (2, 3)
    """
    drawn = randn(tensor.shape, dtype=tensor.dtype, device=tensor.device, generator=generator)
    return tensor.copy_(drawn.mul_(std).add_(mean))


@no_grad()
def constant_(tensor: Tensor, val: float) -> Tensor:
    """One value throughout.

    >>> import contraflow as cf
    >>> cf.nn.init.constant_(cf.empty(2), 0.5)
    tensor([0.5000, 0.5000])
    """
    return tensor.fill_(val)


def zeros_(tensor: Tensor) -> Tensor:
    """Zeros."""
    return constant_(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """Ones."""
    return constant_(tensor, 1.0)


@no_grad()
def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Normal numbers, drawn again where they are outside [a, b]."""
    # By the inverse of the distribution function: uniform between its values at the bounds.
    low, high = (math.erf((bound - mean) / (std * math.sqrt(2.0))) for bound in (a, b))
    drawn = rand(tensor.shape, dtype=tensor.dtype, device=tensor.device, generator=generator)
    normal = erfinv(drawn.mul_(high - low).add_(low)).mul_(std * math.sqrt(2.0)).add_(mean)
    return tensor.copy_(clamp(normal, a, b))


@no_grad()
def eye_(tensor: Tensor) -> Tensor:
    """Ones on the diagonal of a matrix, zeros elsewhere."""
    if tensor.ndim != 2:
        raise ValueError(f"eye_: {describe(tensor)} is not a matrix.")
    return tensor.copy_(eye(*tensor.shape, dtype=tensor.dtype, device=tensor.device))


@no_grad()
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """A convolution's weight [out, in, ...] that passes as many channels as it can unchanged.

    >>> import contraflow as cf
    >>> cf.nn.init.dirac_(cf.empty(1, 1, 3))
    tensor([[[0., 1., 0.]]])
    """
    if not 3 <= tensor.ndim <= 5:
        raise ValueError(f"dirac_: {describe(tensor)} is not the weight of a convolution.")
    if groups < 1 or tensor.shape[0] % groups:
        raise ValueError(f"dirac_: {describe(tensor)} does not divide into {groups} groups.")
    rows, columns, *kernel = tensor.shape
    values = np.zeros(tensor.shape, tensor.dtype.numpy)
    for row in range(rows):
        channel = row % (rows // groups)
        if channel < columns:
            values[(row, channel, *(size // 2 for size in kernel))] = 1.0
    return tensor.copy_(as_tensor(values, device=tensor.device))


@no_grad()
def orthogonal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """A matrix with orthogonal rows or columns, the fewer of the two (Saxe et al., 2013).

    >>> import contraflow as cf
    >>> w = cf.nn.init.orthogonal_(cf.empty(2, 2))
    >>> cf.allclose(w @ w.T, cf.eye(2), atol=1e-5)
    True
    """
    if tensor.ndim < 2:
        raise ValueError(f"orthogonal_: {describe(tensor)} has fewer than two dims.")
    if not tensor.numel():
        return tensor
    rows = tensor.shape[0]
    columns = tensor.numel() // rows
    # On the cpu, since `qr` runs on the host only.
    shape = (max(rows, columns), min(rows, columns))
    q, r = qr(randn(shape, dtype=tensor.dtype, device="cpu", generator=generator))
    q = q * sign(diagonal(r))  # makes every orthogonal matrix equally likely
    return tensor.copy_(reshape(q if rows >= columns else q.T, tensor.shape) * gain)


@no_grad()
def sparse_(
    tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None
) -> Tensor:
    """Normal numbers in a matrix, with a fraction of each column zero (Martens, 2010).

    >>> import contraflow as cf
    >>> int((cf.nn.init.sparse_(cf.empty(4, 3), 0.5) == 0).sum())
    6
    """
    if tensor.ndim != 2:
        raise ValueError(f"sparse_: {describe(tensor)} is not a matrix.")
    zeros = math.ceil(sparsity * tensor.shape[0])
    drawn = rand(tensor.shape, device=tensor.device, generator=generator)
    order = argsort(argsort(drawn, dim=0), dim=0)
    normal_(tensor, 0.0, std, generator)
    return tensor.masked_fill_(order < zeros, 0.0)


# --- that keep the variance --------------------------------------------------------------------


def xavier_uniform_(
    tensor: Tensor, gain: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Uniform numbers that keep the variance, forward and backward (Glorot and Bengio, 2010).

    >>> import contraflow as cf
    >>> cf.nn.init.xavier_uniform_(cf.empty(2, 3)).shape
    (2, 3)
    """
    bound = math.sqrt(3.0) * _xavier("xavier_uniform_", tensor, gain)
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal numbers that keep the variance, forward and backward (Glorot and Bengio, 2010).

    >>> import contraflow as cf
    >>> cf.nn.init.xavier_normal_(cf.empty(2, 3)).shape
    (2, 3)
    """
    return normal_(tensor, 0.0, _xavier("xavier_normal_", tensor, gain), generator)


def _xavier(name: str, tensor: Tensor, gain: float) -> float:
    return gain * math.sqrt(2.0 / max(1, sum(fans(name, tensor))))


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

    >>> import contraflow as cf
    >>> cf.nn.init.kaiming_uniform_(cf.empty(2, 3)).shape
    (2, 3)
    """
    bound = math.sqrt(3.0) * _kaiming("kaiming_uniform_", tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Normal numbers that keep the variance through a nonlinearity; see kaiming_uniform_.

    >>> import contraflow as cf
    >>> cf.nn.init.kaiming_normal_(cf.empty(2, 3)).shape
    (2, 3)
    """
    return normal_(
        tensor, 0.0, _kaiming("kaiming_normal_", tensor, a, mode, nonlinearity), generator
    )


def _kaiming(name: str, tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"{name}: mode is {mode!r}; it must be 'fan_in' or 'fan_out'.")
    fan_in, fan_out = fans(name, tensor)
    fan = fan_in if mode == "fan_in" else fan_out
    return calculate_gain(nonlinearity, a) / math.sqrt(max(1, fan))


_GAINS = {
    "linear": 1.0, "conv1d": 1.0, "conv2d": 1.0, "conv3d": 1.0, "conv_transpose1d": 1.0,
    "conv_transpose2d": 1.0, "conv_transpose3d": 1.0, "sigmoid": 1.0, "tanh": 5.0 / 3,
    "relu": math.sqrt(2.0), "selu": 0.75,
}  # fmt: skip


def affine_(weight: Tensor, bias: Tensor | None) -> None:
    """Initialize a linear layer or convolution: uniform within 1 / sqrt(inputs per output)."""
    kaiming_uniform_(weight, a=math.sqrt(5))  # this slope makes the bound 1 / sqrt(fan_in)
    if bias is not None:
        fan_in, _ = fans("reset_parameters", weight)
        bound = 1 / math.sqrt(fan_in) if fan_in else 0.0
        uniform_(bias, -bound, bound)


def calculate_gain(nonlinearity: str, param: float = 0.01) -> float:
    """The gain of a nonlinearity: the factor that restores the standard deviation after it.

    >>> import contraflow as cf
    >>> cf.nn.init.calculate_gain("relu")
    1.4142135623730951
    """
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1 + param**2))
    if nonlinearity not in _GAINS:
        known = ", ".join(sorted({*_GAINS, "leaky_relu"}))
        raise ValueError(f"calculate_gain: {nonlinearity!r} is unknown. Known: {known}.")
    return _GAINS[nonlinearity]


def fans(name: str, weight: Tensor) -> tuple[int, int]:
    """The fan-in and fan-out of a weight [out, in, ...].

    >>> import contraflow as cf
    >>> fans("mine", cf.ones(8, 3, 5, 5))
    (75, 200)
    """
    if weight.ndim < 2:
        raise ValueError(f"{name}: {describe(weight)} has fewer than two dims, so it has no fans.")
    field = numel(weight.shape[2:])
    return weight.shape[1] * field, weight.shape[0] * field


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """`fans` under PyTorch's name, which is not public there but used by many packages."""
    return fans("_calculate_fan_in_and_fan_out", tensor)


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    """The fan that a mode names, under PyTorch's name too."""
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(
            f"_calculate_correct_fan: mode={mode!r} is neither 'fan_in' nor 'fan_out'."
        )
    return fans("_calculate_correct_fan", tensor)[mode == "fan_out"]


# PyTorch's older names, which it deprecates: they write in place too.
constant, dirac, normal, orthogonal, sparse = constant_, dirac_, normal_, orthogonal_, sparse_
kaiming_normal, kaiming_uniform = kaiming_normal_, kaiming_uniform_
uniform, xavier_normal, xavier_uniform = uniform_, xavier_normal_, xavier_uniform_

__all__ = [
    "calculate_gain",
    "constant",
    "constant_",
    "dirac",
    "dirac_",
    "eye",
    "eye_",
    "kaiming_normal",
    "kaiming_normal_",
    "kaiming_uniform",
    "kaiming_uniform_",
    "normal",
    "normal_",
    "ones_",
    "orthogonal",
    "orthogonal_",
    "sparse",
    "sparse_",
    "trunc_normal_",
    "uniform",
    "uniform_",
    "xavier_normal",
    "xavier_normal_",
    "xavier_uniform",
    "xavier_uniform_",
    "zeros_",
]

globals()["__getattr__"] = getter(__name__)
