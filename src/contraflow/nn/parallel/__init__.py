"""Models on several devices, under PyTorch's path: one process uses one device here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from contraflow.distributed import get_world_size
from contraflow.names import getter
from contraflow.nn.module import Module


class DataParallel(Module):
    """A module that PyTorch runs on several devices at once. Here it runs where it lies.

    It exists so that programs, and the names in their files (`module.weight`), fit.

    >>> import contraflow as cf
    >>> list(cf.nn.DataParallel(cf.nn.Linear(1, 1)).state_dict())
    ['module.weight', 'module.bias']
    """

    def __init__(
        self, module: Module, device_ids: Sequence[Any] | None = None, output_device: Any = None,
        dim: int = 0,
    ) -> None:  # fmt: skip
        super().__init__()
        if device_ids is not None and len(device_ids) > 1:
            raise NotImplementedError(
                f"DataParallel: device_ids names {len(device_ids)} devices; a module runs on one."
            )
        self.module = module

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


class DistributedDataParallel(Module):
    """A module whose gradients PyTorch averages over processes. Here there is one process.

    It needs a group (`contraflow.distributed.init_process_group`), as PyTorch's does.

    >>> import contraflow as cf
    >>> cf.distributed.init_process_group("gloo", world_size=1, rank=0)
    >>> list(cf.nn.parallel.DistributedDataParallel(cf.nn.Linear(1, 1)).state_dict())
    ['module.weight', 'module.bias']
    >>> cf.distributed.destroy_process_group()
    """

    def __init__(self, module: Module, device_ids: Sequence[Any] | None = None, **options: Any):
        super().__init__()
        get_world_size()  # which asks for a group
        if device_ids is not None and len(device_ids) > 1:
            raise ValueError(
                f"DistributedDataParallel: device_ids names {len(device_ids)} devices; a process "
                f"has one."
            )
        self.module = module

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """A block in which gradients are not averaged: there is nothing to average."""
        yield


def data_parallel(
    module: Module, inputs: Any, device_ids: Sequence[Any] | None = None, output_device: Any = None,
    dim: int = 0, module_kwargs: dict[str, Any] | None = None,
) -> Any:  # fmt: skip
    """The result of a call of a module, where it lies."""
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    return DataParallel(module, device_ids)(*given, **(module_kwargs or {}))


__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]

globals()["__getattr__"] = getter(__name__, "distributed", "scatter_gather")
