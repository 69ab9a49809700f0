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
    """max(x, 0).

    >>> import contraflow as cf
    >>> layer = cf.nn.ReLU()
    >>> layer(cf.tensor([-1.0, 0.5, 2.0]))
    tensor([0.0000, 0.5000, 2.0000])
    """

    inplace: bool = False


class ReLU6(Applied, function=F.relu6):
    """x limited to [0, 6].

    >>> import contraflow as cf
    >>> layer = cf.nn.ReLU6()
    >>> layer(cf.tensor([-1.0, 0.5, 2.0]))
    tensor([0.0000, 0.5000, 2.0000])
    """

    inplace: bool = False


class LeakyReLU(Applied, function=F.leaky_relu):
    """x where it is positive, else negative_slope * x.

    >>> import contraflow as cf
    >>> layer = cf.nn.LeakyReLU()
    >>> layer(cf.tensor([-1.0, 0.5, 2.0]))
    tensor([-0.0100,  0.5000,  2.0000])
    """

    negative_slope: float = 0.01
    inplace: bool = False


class PReLU(Module):
    """x where it is positive, else weight * x; one learned weight, or one per channel (dim 1).

    >>> import contraflow as cf
    >>> layer = cf.nn.PReLU()
    >>> layer(cf.tensor([-1.0, 0.5, 2.0]))
    tensor([-0.2500,  0.5000,  2.0000], grad_fn=<prelu>)
    """

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
    """leaky_relu whose slope is drawn for each element in training, and else the mean one.

    >>> import contraflow as cf
    >>> layer = cf.nn.RReLU(0.1, 0.1)
    >>> layer(cf.tensor([-1.0, 0.5, 2.0]))
    tensor([-0.1000,  0.5000,  2.0000])
    """

    lower: float = 1 / 8
    upper: float = 1 / 3
    inplace: bool = False

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


class Threshold(Applied, function=F.threshold):
    """x above the threshold, else the value.

    >>> import contraflow as cf
    >>> layer = cf.nn.Threshold(0.1, 20.0)
    >>> layer(cf.tensor([-1.0, 0.5, 2.0]))
    tensor([20.0000,  0.5000,  2.0000])
    """

    threshold: float
    value: float
    inplace: bool = False


# --- with exponentials -------------------------------------------------------------------------


class ELU(Applied, function=F.elu):
    """x where it is positive, else alpha (exp(x) - 1).

    >>> import contraflow as cf
    >>> layer = cf.nn.ELU()
    >>> layer(cf.tensor([-1.0, 0.5, 2.0]))
    tensor([-0.6321,  0.5000,  2.0000])
    """

    alpha: float = 1.0
    inplace: bool = False


class CELU(Applied, function=F.celu):
    """x where it is positive, else alpha (exp(x / alpha) - 1).

    >>> import contraflow as cf
    >>> layer = cf.nn.CELU()
    >>> layer(cf.tensor([-1.0, 0.5, 2.0]))
    tensor([-0.6321,  0.5000,  2.0000])
    """

    alpha: float = 1.0
    inplace: bool = False


class SELU(Applied, function=F.selu):
    """The scaled elu that keeps zero mean and unit variance.

    >>> import contraflow as cf
    >>> layer = cf.nn.SELU()
    >>> layer(cf.tensor([-1.0, 0.5, 2.0]))
    tensor([-1.1113,  0.5254,  2.1014])
    """

    inplace: bool = False


class SiLU(Applied, function=F.silu):
    """x * sigmoid(x).

    >>> import contraflow as cf
    >>> layer = cf.nn.SiLU()
    >>> layer(cf.tensor([-1.0, 0.5, 2.0]))
    tensor([-0.2689,  0.3112,  1.7616])
    """

    inplace: bool = False


class Mish(Applied, function=F.mish):
    """x * tanh(softplus(x)).

    >>> import contraflow as cf
    >>> layer = cf.nn.Mish()
    >>> layer(cf.tensor([-1.0, 0.5, 2.0]))
    tensor([-0.3034,  0.3752,  1.9440])
    """

    inplace: bool = False


class GELU(Applied, function=F.gelu):
    """x times the normal distribution function of x; `approximate` is "none" or "tanh".

    >>> import contraflow as cf
    >>> layer = cf.nn.GELU()
    >>> layer(cf.tensor([-1.0, 0.5, 2.0]))
    tensor([-0.1587,  0.3457,  1.9545])
    """

    approximate: str = "none"


class GLU(Applied, function=F.glu):
    """a * sigmoid(b), where a and b are the halves of the input along a dim.

    >>> import contraflow as cf
    >>> layer = cf.nn.GLU()
    >>> layer(cf.tensor([1.0, 2.0, 0.0, 1.0]))
    tensor([0.5000, 1.4621])
    """

    dim: int = -1


class Softplus(Applied, function=F.softplus):
    """log(1 + exp(beta x)) / beta; x itself where beta x is above the threshold.

    >>> import contraflow as cf
    >>> layer = cf.nn.Softplus()
    >>> layer(cf.tensor([-1.0, 0.5, 2.0]))
    tensor([0.3133, 0.9741, 2.1269])
    """

    beta: float = 1.0
    threshold: float = 20.0


class LogSigmoid(Applied, function=F.logsigmoid):
    """log(sigmoid(x)), without overflow.

    >>> import contraflow as cf
    >>> layer = cf.nn.LogSigmoid()
    >>> layer(cf.tensor([-1.0, 0.5, 2.0]))
    tensor([-1.3133, -0.4741, -0.1269])
    """


# --- between two bounds ------------------------------------------------------------------------


class Sigmoid(Applied, function=F.sigmoid):
    """1 / (1 + exp(-x)).

    >>> import contraflow as cf
    >>> layer = cf.nn.Sigmoid()
    >>> layer(cf.tensor([-1.0, 0.5, 2.0]))
    tensor([0.2689, 0.6225, 0.8808])
    """


class Tanh(Applied, function=F.tanh):
    """Hyperbolic tangent.

    >>> import contraflow as cf
    >>> layer = cf.nn.Tanh()
    >>> layer(cf.tensor([-1.0, 0.5, 2.0]))
    tensor([-0.7616,  0.4621,  0.9640])
    """


class Softsign(Applied, function=F.softsign):
    """x / (1 + |x|).

    >>> import contraflow as cf
    >>> layer = cf.nn.Softsign()
    >>> layer(cf.tensor([-1.0, 0.5, 2.0]))
    tensor([-0.5000,  0.3333,  0.6667])
    """


class Hardtanh(Applied, function=F.hardtanh):
    """x limited to [min_val, max_val].

    >>> import contraflow as cf
    >>> layer = cf.nn.Hardtanh()
    >>> layer(cf.tensor([-1.0, 0.5, 2.0]))
    tensor([-1.0000,  0.5000,  1.0000])
    """

    min_val: float = -1.0
    max_val: float = 1.0
    inplace: bool = False

    def __post_init__(self) -> None:
        if not self.min_val < self.max_val:
            raise ValueError(
                f"Hardtanh: min_val {self.min_val} must be less than max_val {self.max_val}."
            )


class Hardsigmoid(Applied, function=F.hardsigmoid):
    """x / 6 + 1/2, limited to [0, 1].

    >>> import contraflow as cf
    >>> layer = cf.nn.Hardsigmoid()
    >>> layer(cf.tensor([-1.0, 0.5, 2.0]))
    tensor([0.3333, 0.5833, 0.8333])
    """

    inplace: bool = False


class Hardswish(Applied, function=F.hardswish):
    """x * hardsigmoid(x).

    >>> import contraflow as cf
    >>> layer = cf.nn.Hardswish()
    >>> layer(cf.tensor([-1.0, 0.5, 2.0]))
    tensor([-0.3333,  0.2917,  1.6667])
    """

    inplace: bool = False


# --- that shrink -------------------------------------------------------------------------------


class _Shrink(Applied, hidden=()):
    lambd: float = 0.5

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Hardshrink(_Shrink, function=F.hardshrink):
    """x where |x| > lambd, else 0.

    >>> import contraflow as cf
    >>> layer = cf.nn.Hardshrink()
    >>> layer(cf.tensor([-1.0, 0.5, 2.0]))
    tensor([-1.,  0.,  2.])
    """


class Softshrink(_Shrink, function=F.softshrink):
    """x moved towards 0 by lambd, and 0 within it.

    >>> import contraflow as cf
    >>> layer = cf.nn.Softshrink()
    >>> layer(cf.tensor([-1.0, 0.5, 2.0]))
    tensor([-0.5000,  0.0000,  1.5000])
    """


class Tanhshrink(Applied, function=F.tanhshrink):
    """x - tanh(x).

    >>> import contraflow as cf
    >>> layer = cf.nn.Tanhshrink()
    >>> layer(cf.tensor([-1.0, 0.5, 2.0]))
    tensor([-0.2384,  0.0379,  1.0360])
    """


# --- that sum to one ---------------------------------------------------------------------------


class Softmax(Applied, function=F.softmax):
    """exp(x) / sum(exp(x)) along a dim.

    >>> import contraflow as cf
    >>> layer = cf.nn.Softmax(dim=1)
    >>> layer(cf.tensor([[1.0, 2.0, 0.5], [0.1, 0.2, 3.0]]))
    tensor([[0.2312, 0.6285, 0.1402],
            [0.0493, 0.0545, 0.8962]])
    """

    dim: int


class LogSoftmax(Applied, function=F.log_softmax):
    """log(softmax(x)) along a dim.

    >>> import contraflow as cf
    >>> layer = cf.nn.LogSoftmax(dim=1)
    >>> layer(cf.tensor([[1.0, 2.0, 0.5], [0.1, 0.2, 3.0]]))
    tensor([[-1.4644, -0.4644, -1.9644],
            [-3.0096, -2.9096, -0.1096]])
    """

    dim: int


class Softmin(Applied, function=F.softmin):
    """exp(-x) / sum(exp(-x)) along a dim.

    >>> import contraflow as cf
    >>> layer = cf.nn.Softmin(dim=1)
    >>> layer(cf.tensor([[1.0, 2.0, 0.5], [0.1, 0.2, 3.0]]))
    tensor([[0.3315, 0.1220, 0.5465],
            [0.5102, 0.4617, 0.0281]])
    """

    dim: int


class Softmax2d(Module):
    """softmax over the channels of images [n, c, h, w] or [c, h, w].

    >>> import contraflow as cf
    >>> layer = cf.nn.Softmax2d()
    >>> layer(cf.zeros(1, 2, 1, 2)).shape
    (1, 2, 1, 2)
    """

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (3, 4):
            raise ValueError(
                f"Softmax2d: expected [n, c, h, w] or [c, h, w], got {describe(input)}."
            )
        out: Tensor = F.softmax(input, -3)
        return out
