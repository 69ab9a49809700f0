"""Adam and its variants: steps scaled by running means of the gradient and of its size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from contraflow.operation.context import apply
from contraflow.ops.creation.create import zeros_like
from contraflow.ops.elementwise.basic import abs_, maximum, sqrt
from contraflow.ops.nn.update import running_averages, scaled_step
from contraflow.optim.optimizer import (
    Implementation,
    Optimizer,
    OptimizerState,
    ParamGroup,
    Updated,
    check_betas,
    check_implementation,
    check_not_negative,
    choose,
    directed,
    together,
)
from contraflow.tensors.host_scalar import StepScalar
from contraflow.tensors.tensor import Tensor


class _Averaging(Optimizer):
    """The base of optimizers with running means, each with its beta."""

    def check_group(self, group: Mapping[str, Any]) -> None:
        name = type(self).__name__
        check_not_negative(name, group, "lr", "eps", "weight_decay")
        check_betas(name, group)


class _TwoMeans(_Averaging):
    """The base of optimizers with running means of the gradient and of its square."""

    def initial_state(self, parameter: Tensor, group: ParamGroup) -> OptimizerState:
        return {
            "step": StepScalar(0),
            "exp_avg": zeros_like(parameter),
            "exp_avg_sq": zeros_like(parameter),
        }


def _weights(group: ParamGroup) -> tuple[Any, ...]:
    """The weights of the running means of a group, for `_average`: the same for each parameter."""
    beta1, beta2 = group["betas"]
    return 1 - beta1, beta2, 1 - beta2


def _average(weights: tuple[Any, ...], g: Tensor, state: OptimizerState) -> tuple[Tensor, Tensor]:
    """The running means of the gradient and of its square, brought up to date."""
    mean, square = state["exp_avg"], state["exp_avg_sq"]
    new = apply(running_averages, (mean, square, g, *weights))
    return mean.copy_(new.mean), square.copy_(new.square)


class Adam(_TwoMeans):
    """p -= lr * mean / (sqrt(mean of squares) + eps), the means freed of their bias towards 0.

    `weight_decay` adds to the gradient, as in PyTorch; AdamW shrinks the parameters themselves.

    >>> import contraflow as cf
    >>> p = cf.ones(2, requires_grad=True)
    >>> (p * p).sum().backward()
    >>> cf.optim.Adam([p], lr=0.5).step()
    >>> p
    tensor([0.5000, 0.5000], requires_grad=True)
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        decoupled_weight_decay: bool = False,
        **implementation: Unpack[Implementation],
    ) -> None:
        check_implementation("Adam", implementation)
        super().__init__(
            params,
            {
                "lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay,
                "amsgrad": amsgrad, "maximize": maximize,
                "decoupled_weight_decay": decoupled_weight_decay,
            },
        )  # fmt: skip

    def initial_state(self, parameter: Tensor, group: ParamGroup) -> OptimizerState:
        state = super().initial_state(parameter, group)
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = zeros_like(parameter)
        return state

    def update(self, group: ParamGroup, updated: list[Updated]) -> None:
        lr, (beta1, beta2), eps = group["lr"], group["betas"], group["eps"]
        weights = _weights(group)
        for state, members in together(updated):
            count = state["step"].get()
            # With c = sqrt(1 - beta2^t), lr / (1 - beta1^t) * mean / (sqrt(square) / c + eps) is
            # written so that numbers meet numbers and each element takes one factor less.
            c = (1 - beta2**count) ** 0.5
            small, size = eps * c, lr * c / (1 - beta1**count)
            for p, g, own in members:
                mean, square = _average(weights, directed(group, p, g), own)
                if group["amsgrad"]:
                    largest = own["max_exp_avg_sq"]
                    square = largest.copy_(maximum(largest, square))
                p.copy_(apply(scaled_step, (p, mean, square, small, size)))


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameters and leaves the gradient alone.

    >>> import contraflow as cf
    >>> w = cf.nn.Parameter(cf.tensor([1.0]))
    >>> optimizer = cf.optim.AdamW([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.item() < 1
    True
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        **implementation: Unpack[Implementation],
    ) -> None:
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad,
            maximize=maximize, decoupled_weight_decay=True, **implementation,
        )  # fmt: skip


class NAdam(_TwoMeans):
    """Adam with Nesterov's momentum, whose weight grows with the steps by `momentum_decay`.

    >>> import contraflow as cf
    >>> w = cf.nn.Parameter(cf.tensor([1.0]))
    >>> optimizer = cf.optim.NAdam([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.item() < 1
    True
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
        **implementation: Unpack[Implementation],
    ) -> None:
        check_implementation("NAdam", implementation)
        super().__init__(
            params,
            {
                "lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay,
                "momentum_decay": momentum_decay, "maximize": maximize,
                "decoupled_weight_decay": decoupled_weight_decay,
            },
        )  # fmt: skip

    def check_group(self, group: Mapping[str, Any]) -> None:
        super().check_group(group)
        check_not_negative("NAdam", group, "momentum_decay")

    def initial_state(self, parameter: Tensor, group: ParamGroup) -> OptimizerState:
        return {**super().initial_state(parameter, group), "mu_product": StepScalar(1.0)}

    def update(self, group: ParamGroup, updated: list[Updated]) -> None:
        lr, (beta1, beta2), decay = group["lr"], group["betas"], group["momentum_decay"]
        weights = _weights(group)
        for state, members in together(updated):
            count = state["step"].get()
            mu = beta1 * (1 - 0.5 * 0.96 ** (count * decay))
            after = beta1 * (1 - 0.5 * 0.96 ** ((count + 1) * decay))
            product = state["mu_product"].get() * mu
            state["mu_product"].set(product)
            of_gradient, of_mean = lr * (1 - mu) / (1 - product), lr * after / (1 - product * after)
            c = (1 - beta2**count) ** 0.5
            for p, g, own in members:
                g = directed(group, p, g)
                mean, square = _average(weights, g, own)
                p.sub_((g * of_gradient + mean * of_mean) / (sqrt(square) / c + group["eps"]))


class RAdam(_TwoMeans):
    """Rectified Adam: steps are scaled only once the mean of squares has enough samples.

    >>> import contraflow as cf
    >>> w = cf.nn.Parameter(cf.tensor([1.0]))
    >>> optimizer = cf.optim.RAdam([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.item() < 1
    True
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
        **implementation: Unpack[Implementation],
    ) -> None:
        check_implementation("RAdam", implementation)
        super().__init__(
            params,
            {
                "lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay,
                "maximize": maximize, "decoupled_weight_decay": decoupled_weight_decay,
            },
        )  # fmt: skip

    def update(self, group: ParamGroup, updated: list[Updated]) -> None:
        lr, (beta1, beta2) = group["lr"], group["betas"]
        weights = _weights(group)
        for state, members in together(updated):
            count = state["step"].get()
            power = beta2**count
            # How many gradients the mean of squares amounts to: in the end, and by now.
            last = 2 / (1 - beta2) - 1
            length = last - 2 * count * power / (1 - power)
            known = length > 5
            length = choose(known, length, 5.0)  # where it is not known nobody asks for the root
            variance = (length - 4) * (length - 2) * last / ((last - 4) * (last - 2) * length)
            scale = ((1 - power) * variance) ** 0.5
            size = lr / (1 - beta1**count)
            for p, g, own in members:
                mean, square = _average(weights, directed(group, p, g), own)
                p.sub_(mean * size * choose(known, scale / (sqrt(square) + group["eps"]), 1.0))


class Adamax(_Averaging):
    """Adam with a decaying maximum of |gradient| in place of the root of the mean square.

    >>> import contraflow as cf
    >>> w = cf.nn.Parameter(cf.tensor([1.0]))
    >>> optimizer = cf.optim.Adamax([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.item() < 1
    True
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        **implementation: Unpack[Implementation],
    ) -> None:
        check_implementation("Adamax", implementation)
        super().__init__(
            params,
            {
                "lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay,
                "maximize": maximize,
            },
        )  # fmt: skip

    def initial_state(self, parameter: Tensor, group: ParamGroup) -> OptimizerState:
        return {
            "step": StepScalar(0),
            "exp_avg": zeros_like(parameter),
            "exp_inf": zeros_like(parameter),
        }

    def update(self, group: ParamGroup, updated: list[Updated]) -> None:
        lr, (beta1, beta2), eps = group["lr"], group["betas"], group["eps"]
        for state, members in together(updated):
            size = lr / (1 - beta1 ** state["step"].get())
            for p, g, own in members:
                g = directed(group, p, g)
                mean, largest = own["exp_avg"], own["exp_inf"]
                mean.add_((g - mean) * (1 - beta1))
                largest.copy_(maximum(largest * beta2, abs_(g) + eps))
                p.sub_(mean / largest * size)
