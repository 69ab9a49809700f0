"""Activation layers: functions of nn.functional with stored arguments, and PReLU."""

from __future__ import annotations

from contraflow.dtypes import DType
from contraflow.errors import describe
from contraflow.nn import functional as F
from contraflow.nn import init
from contraflow.nn.applied import Applied
from contraflow.nn.module import Module
from contraflow.nn.parameter import Parameter
from contraflow.ops.creation.create import zeros
from contraflow.tensors.tensor import Tensor

# --- rectifiers --------------------------------------------------------------------------------


class ReLU(Applied, function=F.relu):
    """max(x, 0)."""

    inplace: bool = False


class ReLU6(Applied, function=F.relu6):
    """x limited to [0, 6]."""

    inplace: bool = False


class LeakyReLU(Applied, function=F.leaky_relu):
    """x where it is positive, else negative_slope * x."""

    negative_slope: float = 0.01
    inplace: bool = False


class PReLU(Module):
    """x where it is positive, else weight * x; one learned weight, or one per channel (dim 1)."""

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        device: str | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(zeros(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Back to the initial slope."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        out: Tensor = F.prelu(input, self.weight)
        return out

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class RReLU(Applied, function=F.rrelu):
    """leaky_relu whose slope is drawn for each element in training, and else the mean one."""

    lower: float = 1 / 8
    upper: float = 1 / 3
    inplace: bool = False

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


class Threshold(Applied, function=F.threshold):
    """x above the threshold, else the value."""

    threshold: float
    value: float
    inplace: bool = False


# --- with exponentials -------------------------------------------------------------------------


class ELU(Applied, function=F.elu):
    """x where it is positive, else alpha (exp(x) - 1)."""

    alpha: float = 1.0
    inplace: bool = False


class CELU(Applied, function=F.celu):
    """x where it is positive, else alpha (exp(x / alpha) - 1)."""

    alpha: float = 1.0
    inplace: bool = False


class SELU(Applied, function=F.selu):
    """The scaled elu that keeps zero mean and unit variance."""

    inplace: bool = False


class SiLU(Applied, function=F.silu):
    """x * sigmoid(x)."""

    inplace: bool = False


class Mish(Applied, function=F.mish):
    """x * tanh(softplus(x))."""

    inplace: bool = False


class GELU(Applied, function=F.gelu):
    """x times the normal distribution function of x; `approximate` is "none" or "tanh"."""

    approximate: str = "none"


class GLU(Applied, function=F.glu):
    """a * sigmoid(b), where a and b are the halves of the input along a dim."""

    dim: int = -1


class Softplus(Applied, function=F.softplus):
    """log(1 + exp(beta x)) / beta; x itself where beta x is above the threshold."""

    beta: float = 1.0
    threshold: float = 20.0


class LogSigmoid(Applied, function=F.logsigmoid):
    """log(sigmoid(x)), without overflow."""


# --- between two bounds ------------------------------------------------------------------------


class Sigmoid(Applied, function=F.sigmoid):
    """1 / (1 + exp(-x))."""


class Tanh(Applied, function=F.tanh):
    """Hyperbolic tangent."""


class Softsign(Applied, function=F.softsign):
    """x / (1 + |x|)."""


class Hardtanh(Applied, function=F.hardtanh):
    """x limited to [min_val, max_val]."""

    min_val: float = -1.0
    max_val: float = 1.0
    inplace: bool = False

    def __post_init__(self) -> None:
        if not self.min_val < self.max_val:
            raise ValueError(
                f"Hardtanh: min_val {self.min_val} must be less than max_val {self.max_val}."
            )


class Hardsigmoid(Applied, function=F.hardsigmoid):
    """x / 6 + 1/2, limited to [0, 1]."""

    inplace: bool = False


class Hardswish(Applied, function=F.hardswish):
    """x * hardsigmoid(x)."""

    inplace: bool = False


# --- that shrink -------------------------------------------------------------------------------


class _Shrink(Applied, hidden=()):
    lambd: float = 0.5

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Hardshrink(_Shrink, function=F.hardshrink):
    """x where |x| > lambd, else 0."""


class Softshrink(_Shrink, function=F.softshrink):
    """x moved towards 0 by lambd, and 0 within it."""


class Tanhshrink(Applied, function=F.tanhshrink):
    """x - tanh(x)."""


# --- that sum to one ---------------------------------------------------------------------------


class Softmax(Applied, function=F.softmax):
    """exp(x) / sum(exp(x)) along a dim."""

    dim: int


class LogSoftmax(Applied, function=F.log_softmax):
    """log(softmax(x)) along a dim."""

    dim: int


class Softmin(Applied, function=F.softmin):
    """exp(-x) / sum(exp(-x)) along a dim."""

    dim: int


class Softmax2d(Module):
    """softmax over the channels of images [n, c, h, w] or [c, h, w]."""

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (3, 4):
            raise ValueError(
                f"Softmax2d: expected [n, c, h, w] or [c, h, w], got {describe(input)}."
            )
        out: Tensor = F.softmax(input, -3)
        return out
