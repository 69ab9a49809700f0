"""Inputs given to several devices, under PyTorch's path: there is one at a time here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from contraflow.names import getter
from contraflow.tensors.tensor import Tensor


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> list[Any]:
    """The inputs of each of some devices, of which there must be one: tensors are moved there.

    >>> import contraflow as cf
    >>> scatter({"x": cf.ones(2)}, ["cpu"])
    [{'x': tensor([1., 1.])}]
    """
    if len(target_gpus) != 1:
        raise NotImplementedError(
            f"scatter: target_gpus names {len(target_gpus)} devices; inputs go to one."
        )
    return [_moved(inputs, target_gpus[0])]


def _moved(x: Any, device: Any) -> Any:
    if isinstance(x, Tensor):
        return x.to(device)
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*(_moved(each, device) for each in x))
    if isinstance(x, tuple | list):
        return type(x)(_moved(each, device) for each in x)
    if isinstance(x, dict):
        return type(x)((key, _moved(each, device)) for key, each in x.items())
    return x


__all__ = ["scatter"]

globals()["__getattr__"] = getter(__name__)
