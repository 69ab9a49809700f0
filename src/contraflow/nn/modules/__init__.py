"""The names that PyTorch has in `nn.modules` and nowhere else."""

from contraflow.nn.modules import lazy, module

__all__ = ["lazy", "module"]
