"""Layers with the batch norm behind them folded in, for models that are trained."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from contraflow.autograd.modes import no_grad
from contraflow.nn.module import Module
from contraflow.nn.parameter import Parameter
from contraflow.ops.creation.create import zeros_like
from contraflow.tensors.tensor import Tensor


def _fused(
    name: str, weight: Tensor, bias: Tensor | None, mean: Tensor, var: Tensor, eps: float,
    scale: Tensor | None, shift: Tensor | None, shape: tuple[int, ...],
) -> tuple[Parameter, Parameter]:  # fmt: skip
    """The weight and the bias that do what a layer and a batch norm do one after the other."""
    with no_grad():
        factor = (var + eps).rsqrt() * (1.0 if scale is None else scale)
        start = zeros_like(mean) if bias is None else bias
        offset = (start - mean) * factor + (0.0 if shift is None else shift)
        new = (weight * factor.reshape(shape)).to(weight.dtype)
    return Parameter(new, weight.requires_grad), Parameter(offset.to(weight.dtype))


def fuse_conv_bn_weights(
    conv_w: Tensor, conv_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float,
    bn_w: Tensor | None, bn_b: Tensor | None, transpose: bool = False,
) -> tuple[Parameter, Parameter]:  # fmt: skip
    """The weight and the bias of a convolution with a batch norm in evaluation mode folded in.

    >>> import contraflow as cf
    >>> one, zero = cf.ones(1), cf.zeros(1)
    >>> kernel = cf.ones(1, 1, 1, 1)
    >>> weight, bias = fuse_conv_bn_weights(kernel, one, zero, one, 0.0, 3 * one, zero)
    >>> weight.flatten().tolist(), bias.tolist()
    ([3.0], [3.0])
    """
    shape = [1] * conv_w.ndim
    shape[1 if transpose else 0] = -1
    return _fused(
        "fuse_conv_bn_weights", conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, tuple(shape)
    )


def fuse_linear_bn_weights(
    linear_w: Tensor, linear_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float,
    bn_w: Tensor | None, bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:  # fmt: skip
    """The weight and the bias of a linear layer with a batch norm in evaluation mode folded in.

    >>> import contraflow as cf
    >>> one, zero = cf.ones(1), cf.zeros(1)
    >>> weight, bias = fuse_linear_bn_weights(2 * cf.eye(1), one, zero, one, 0.0, one, zero)
    >>> weight.tolist(), bias.tolist()
    ([[2.0]], [1.0])
    """
    return _fused(
        "fuse_linear_bn_weights", linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, (-1, 1)
    )


def _check(name: str, layer: Any, bn: Any) -> None:
    if layer.training or bn.training:
        raise ValueError(f"{name}: both modules must be in evaluation mode. Call eval().")
    if bn.running_mean is None or bn.running_var is None:
        raise ValueError(f"{name}: the batch norm has no running statistics.")


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A convolution that does what this one and the batch norm behind it do, in evaluation mode.

    >>> import contraflow as cf
    >>> conv, norm = cf.nn.Conv2d(1, 2, 3).eval(), cf.nn.BatchNorm2d(2).eval()
    >>> x = cf.ones(1, 1, 4, 4)
    >>> fuse_conv_bn_eval(conv, norm)(x).allclose(norm(conv(x)))
    True
    """
    _check("fuse_conv_bn_eval", conv, bn)
    made = deepcopy(conv)
    made.weight, made.bias = fuse_conv_bn_weights(
        conv.weight, conv.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias,
        transpose,
    )  # fmt: skip
    return made


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A linear layer that does what this one and the batch norm behind it do, when evaluated.

    >>> import contraflow as cf
    >>> layer, norm = cf.nn.Linear(3, 2).eval(), cf.nn.BatchNorm1d(2).eval()
    >>> x = cf.ones(4, 3)
    >>> cf.allclose(fuse_linear_bn_eval(layer, norm)(x), norm(layer(x)), atol=1e-5)
    True
    """
    _check("fuse_linear_bn_eval", linear, bn)
    made = deepcopy(linear)
    made.weight, made.bias = fuse_linear_bn_weights(
        linear.weight, linear.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return made


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Module:
    """A module whose parameters are zeros, to be written to.

    >>> import contraflow as cf
    >>> skip_init(cf.nn.Linear, 2, 1).weight.tolist()
    [[0.0, 0.0]]
    """
    module: Module = module_cls(*args, **kwargs)
    with no_grad():
        for parameter in module.parameters():
            parameter.zero_()
    return module
