"""The activations of nn.functional that can write in place, with PyTorch's signatures."""

from __future__ import annotations

from typing import Any

from contraflow.operation.op import Op
from contraflow.ops.elementwise import activation as ops
from contraflow.ops.elementwise import basic
from contraflow.tensors.tensor import Tensor


def _apply(op: Op, inplace: bool, input: Tensor, *numbers: Any) -> Tensor:
    method = getattr(input, f"{op.name}_") if inplace else None
    out: Tensor = method(*numbers) if method is not None else op(input, *numbers)
    return out


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0).

    >>> import contraflow as cf
    >>> cf.nn.functional.relu(cf.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return _apply(basic.relu, inplace, input)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """x limited to [0, 6].

    >>> import contraflow as cf
    >>> cf.nn.functional.relu6(cf.tensor([-1.0, 7.0]))
    tensor([0., 6.])
    """
    return _apply(ops.relu6, inplace, input)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where it is positive, else alpha (exp(x) - 1).

    >>> import contraflow as cf
    >>> cf.nn.functional.elu(cf.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    return _apply(ops.elu, inplace, input, alpha)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where it is positive, else alpha (exp(x / alpha) - 1).

    >>> import contraflow as cf
    >>> cf.nn.functional.celu(cf.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    return _apply(ops.celu, inplace, input, alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """The scaled elu that keeps zero mean and unit variance.

    >>> import contraflow as cf
    >>> cf.nn.functional.selu(cf.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """
    return _apply(ops.selu, inplace, input)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where it is positive, else negative_slope * x.

    >>> import contraflow as cf
    >>> cf.nn.functional.leaky_relu(cf.tensor([-1.0, 2.0]), 0.1)
    tensor([-0.1000,  2.0000])
    """
    return _apply(ops.leaky_relu, inplace, input, negative_slope)


def rrelu(
    input: Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """leaky_relu whose slope is drawn for each element in training, and else the mean one.

    >>> import contraflow as cf
    >>> cf.nn.functional.rrelu(cf.tensor([-1.0, 2.0]), 0.1, 0.1)
    tensor([-0.1000,  2.0000])
    """
    return _apply(ops.rrelu, inplace, input, lower, upper, training)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """x limited to [min_val, max_val].

    >>> import contraflow as cf
    >>> cf.nn.functional.hardtanh(cf.tensor([-3.0, 0.5]))
    tensor([-1.0000,  0.5000])
    """
    return _apply(ops.hardtanh, inplace, input, min_val, max_val)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """x / 6 + 1/2, limited to [0, 1].

    >>> import contraflow as cf
    >>> cf.nn.functional.hardsigmoid(cf.tensor([-3.0, 0.0, 3.0]))
    tensor([0.0000, 0.5000, 1.0000])
    """
    return _apply(ops.hardsigmoid, inplace, input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * hardsigmoid(x).

    >>> import contraflow as cf
    >>> cf.nn.functional.hardswish(cf.tensor([-3.0, 0.0, 3.0]))
    tensor([-0., 0., 3.])
    """
    return _apply(ops.hardswish, inplace, input)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x above the threshold, else the value.

    >>> import contraflow as cf
    >>> cf.nn.functional.threshold(cf.tensor([0.5, 2.0]), 1.0, 9.0)
    tensor([9., 2.])
    """
    return _apply(ops.threshold, inplace, input, threshold, value)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x * sigmoid(x).

    >>> import contraflow as cf
    >>> cf.nn.functional.silu(cf.tensor([0.0, 2.0]))
    tensor([0.0000, 1.7616])
    """
    return _apply(ops.silu, inplace, input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * tanh(softplus(x)).

    >>> import contraflow as cf
    >>> cf.nn.functional.mish(cf.tensor([0.0, 2.0]))
    tensor([0.0000, 1.9440])
    """
    return _apply(ops.mish, inplace, input)


relu_, elu_, celu_, selu_ = Tensor.relu_, Tensor.elu_, Tensor.celu_, Tensor.selu_
leaky_relu_, rrelu_ = Tensor.leaky_relu_, Tensor.rrelu_
hardtanh_, threshold_ = Tensor.hardtanh_, Tensor.threshold_
