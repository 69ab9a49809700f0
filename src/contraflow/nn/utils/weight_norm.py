"""The older weight_norm and spectral_norm: their tensors lie among those of the module."""

from __future__ import annotations

from typing import Any

from contraflow.autograd.modes import no_grad
from contraflow.nn.module import Module
from contraflow.nn.parameter import Parameter
from contraflow.nn.utils.parametrizations import SpectralNorm, WeightNorm
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
    """Make the weight an ordinary parameter again.

    >>> import contraflow as cf
    >>> layer = cf.nn.utils.weight_norm(cf.nn.Linear(2, 1))
    >>> [name for name, _ in layer.named_parameters()]
    ['bias', 'weight_g', 'weight_v']
    >>> [name for name, _ in remove_weight_norm(layer).named_parameters()]
    ['bias', 'weight']
    """
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


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a weight by its largest singular value; `weight_orig` is learnt instead.

    Power iteration goes on at every use of the weight in training. See
    `parametrizations.spectral_norm`, which keeps its tensors in `module.parametrizations`.

    >>> import contraflow as cf
    >>> layer = spectral_norm(cf.nn.Linear(3, 2))
    >>> list(layer.state_dict())
    ['bias', 'weight_orig', 'weight_u', 'weight_v']
    """
    weight = module._parameters.get(name)
    if weight is None:
        raise ValueError(f"spectral_norm: {type(module).__name__} has no parameter {name!r}.")
    if dim is None:  # transposed convolutions have their outputs second
        dim = 1 if type(module).__name__.startswith("ConvTranspose") else 0
    norm = SpectralNorm(weight, n_power_iterations, dim, eps)

    def compute(self: Any) -> Tensor:
        weight, u, v = (getattr(self, f"{name}_{part}") for part in ("orig", "u", "v"))
        # The right vector first, as PyTorch's older function does and its newer one does not.
        return norm.divided(weight, u, v, self.training, right_first=True)

    delattr(module, name)
    module.register_parameter(f"{name}_orig", Parameter(weight.detach()))
    module.register_buffer(f"{name}_u", norm._u)
    module.register_buffer(f"{name}_v", norm._v)
    kind = type(module)
    module.__class__ = type(kind.__name__, (kind,), {name: property(compute)})
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Make the weight an ordinary parameter again, with its present value.

    >>> import contraflow as cf
    >>> layer = cf.nn.utils.spectral_norm(cf.nn.Linear(2, 1))
    >>> sorted(name for name, _ in remove_spectral_norm(layer).named_parameters())
    ['bias', 'weight']
    """
    if f"{name}_orig" not in module._parameters or name not in vars(type(module)):
        raise ValueError(
            f"remove_spectral_norm: {name!r} of {type(module).__name__} has no spectral_norm."
        )
    was_training = module.training
    module.train(False)
    with no_grad():
        value = getattr(module, name)
    module.__class__ = type(module).__bases__[0]
    for part in ("orig", "u", "v"):
        delattr(module, f"{name}_{part}")
    module.register_parameter(name, Parameter(value.detach()))
    return module.train(was_training)
