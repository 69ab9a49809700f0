"""The older weight_norm: `weight_g` and `weight_v` among the other parameters."""

from __future__ import annotations

from typing import Any

from contraflow.autograd.modes import no_grad
from contraflow.nn.module import Module
from contraflow.nn.parameter import Parameter
from contraflow.nn.utils.parametrizations import WeightNorm
from contraflow.tensors.tensor import Tensor


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Learn the norm and the direction of a weight separately, as `weight_g` and `weight_v`.

    See `parametrizations.weight_norm`, which keeps them in `module.parametrizations`.

    >>> import contraflow as cf
    >>> layer = weight_norm(cf.nn.Linear(3, 2))
    >>> {name: tuple(p.shape) for name, p in layer.named_parameters()}
    {'bias': (2,), 'weight_g': (2, 1), 'weight_v': (2, 3)}
    """
    weight = module._parameters.get(name)
    if weight is None:
        raise ValueError(f"weight_norm: {type(module).__name__} has no parameter {name!r}.")
    norm = WeightNorm(dim)
    with no_grad():
        length, direction = norm.right_inverse(weight)

    def compute(self: Any) -> Tensor:
        out: Tensor = norm(getattr(self, f"{name}_g"), getattr(self, f"{name}_v"))
        return out

    delattr(module, name)
    module.register_parameter(f"{name}_g", Parameter(length.detach()))
    module.register_parameter(f"{name}_v", Parameter(direction.detach()))
    kind = type(module)
    module.__class__ = type(kind.__name__, (kind,), {name: property(compute)})
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Make the weight an ordinary parameter again."""
    if f"{name}_g" not in module._parameters or name not in vars(type(module)):
        raise ValueError(
            f"remove_weight_norm: {name!r} of {type(module).__name__} has no weight_norm."
        )
    with no_grad():
        value = getattr(module, name)
    module.__class__ = type(module).__bases__[0]
    for part in ("g", "v"):
        delattr(module, f"{name}_{part}")
    module.register_parameter(name, Parameter(value.detach()))
    return module
