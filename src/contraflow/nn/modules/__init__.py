"""PyTorch's paths to modules, such as `nn.modules.batchnorm.BatchNorm2d`.

Two of them have names that are nowhere else, `lazy` and `module`. The others show what `nn` has,
and the few names with an underscore that programs use.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from contraflow.nn.modules import lazy, module
from contraflow.nn.modules.module import Module

_PATHS = (
    "activation", "adaptive", "batchnorm", "channelshuffle", "container", "conv", "distance",
    "dropout", "flatten", "fold", "instancenorm", "linear", "linear_cross_entropy",
    "linear_cross_entropy_options", "loss", "normalization", "padding",
    "pixelshuffle", "pooling", "rnn", "sparse", "transformer", "upsampling", "utils",
)  # fmt: skip

# PyTorch's bases of layers, which programs compare with, and those here.
_BASES = {
    "_BatchNorm": ("norm", "_BatchNorm"), "_InstanceNorm": ("norm", "_InstanceNorm"),
    "_NormBase": ("norm", "_Running"), "_ConvNd": ("conv", "_Convolution"),
    "_Loss": ("loss", "_Loss"), "_WeightedLoss": ("loss", "_WeightedLoss"),
    "_DropoutNd": ("layers", "_DropoutBase"),
}  # fmt: skip


class ModulePath(ModuleType):
    """A module that shows what `nn` has."""

    def __getattr__(self, name: str) -> Any:
        return _found(self.__name__, name)


def _found(path: str, name: str) -> Any:
    nn = sys.modules[__name__.rpartition(".")[0]]
    if name in _TUPLES and path.endswith(".utils"):
        return _TUPLES[name]
    if name in _BASES:
        where, own = _BASES[name]
        return getattr(getattr(nn, where), own)
    if name.startswith("_"):
        raise AttributeError(f"module {path!r} has no attribute {name!r}")
    return getattr(nn, name)


def _ntuple(count: int) -> Any:
    """A function that gives a tuple of `count` numbers, of one number or of that many."""

    def repeated(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else (x,) * count

    return repeated


_TUPLES = {
    "_ntuple": _ntuple, "_single": _ntuple(1), "_pair": _ntuple(2), "_triple": _ntuple(3),
    "_quadruple": _ntuple(4),
}  # fmt: skip

for _path in _PATHS:
    _made = ModulePath(f"{__name__}.{_path}", f"PyTorch's path to modules of `nn`: {_path}.")
    sys.modules[_made.__name__] = globals()[_path] = _made


def __getattr__(name: str) -> Any:
    return _found(__name__, name)


__all__ = ["Module", "lazy", "module"]
