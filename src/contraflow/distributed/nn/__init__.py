"""Collectives that are differentiated through; in a group of one process they pass tensors on."""

from __future__ import annotations

from typing import Any

from contraflow.distributed import ReduceOp, get_world_size
from contraflow.names import getter
from contraflow.tensors.tensor import Tensor


def all_reduce(tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The tensors of all processes combined: of one process the tensor itself."""
    get_world_size(group)
    return tensor


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all processes."""
    get_world_size(group)
    return (tensor,)


def broadcast(tensor: Tensor, src: int = 0, group: Any = None) -> Tensor:
    """The tensor of one process: there is one."""
    get_world_size(group)
    return tensor


__all__ = ["all_gather", "all_reduce", "broadcast"]

globals()["__getattr__"] = getter(__name__, "functional")
